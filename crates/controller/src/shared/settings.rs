//! Why the settings of an Agent or a run cannot be turned into objects.

use domain::{
    opencode::ConfigError,
    run::resolve::ResolveError,
    workload::{build::BuildError, contexts::ContextError},
};

use super::bindings;

/// The steps from settings to objects, in order. Reconcilers convert each of these errors with `?`.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Contexts(#[from] ContextError),
    #[error(transparent)]
    Bindings(#[from] bindings::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl SettingsError {
    /// Stable reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Resolve(error) => error.reason(),
            Self::Contexts(error) => error.reason(),
            Self::Bindings(error) => error.reason(),
            Self::Config(error) => error.reason(),
            Self::Build(error) => error.reason(),
        }
    }

    /// Whether an object that the settings refer to does not exist, and may still be created.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Contexts(error) => error.is_missing(),
            Self::Bindings(error) => !matches!(error, bindings::Error::Api(_)),
            Self::Config(error) => error.is_missing(),
            Self::Resolve(_) | Self::Build(_) => false,
        }
    }
}
