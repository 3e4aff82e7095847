//! Errors of an apply, with the messages of kube-apiserver.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use thiserror::Error;

use super::check::SchemaMismatch;
use super::element::{Element, printed};
use super::owners::Manager;

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub manager: Manager,
    pub path: Vec<Element>,
}

/// The fields of an applied configuration that other managers own with other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub(super) Vec<Conflict>);

impl Conflicts {
    /// `details.causes` of the Status.
    pub fn causes(&self) -> Vec<Value> {
        let cause = |conflict: &Conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.manager.printed()),
                "field": printed(&conflict.path),
            })
        };
        self.0.iter().map(cause).collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { manager, path }] = &self.0[..] {
            let (manager, path) = (manager.printed(), printed(path));
            return write!(out, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        let mut by_manager = BTreeMap::<&Manager, Vec<String>>::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(format!("- {}", printed(&conflict.path)));
        }
        let lines: Vec<String> = by_manager
            .into_iter()
            .flat_map(|(manager, paths)| std::iter::once(format!("conflicts with {}:", manager.printed())).chain(paths))
            .collect();
        write!(out, "Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

#[derive(Debug, Error)]
pub enum ApplyError {
    /// Other managers own fields with other values, and force is not set.
    #[error("{0}")]
    Conflict(Conflicts),
    /// The configuration is of another kind than the object.
    #[error("invalid object type: {0}")]
    OtherKind(String),
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// The managedFields of the live object are invalid.
    #[error("failed to decode managed fields: {0}")]
    InvalidManagedFields(String),
    /// The configuration does not match the schema.
    #[error("failed to create typed patch object ({object}): {source}")]
    InvalidConfiguration {
        /// Namespace, name and kind.
        object: String,
        source: SchemaMismatch,
    },
    /// The live object does not match the schema, which has changed since.
    #[error("failed to create typed live object ({object}): {source}")]
    InvalidLiveObject {
        /// Namespace, name and kind.
        object: String,
        source: SchemaMismatch,
    },
    /// A string of the result is invalid for its type.
    #[error(
        "failed to convert new object ({object}) to proper version: unable to convert unstructured object to {kind}: {problem}"
    )]
    Unconvertible {
        /// Namespace, name and kind.
        object: String,
        /// Version and kind.
        kind: String,
        problem: String,
    },
}

impl ApplyError {
    /// The HTTP status.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflict(_) => 409,
            Self::OtherKind(_) | Self::ManagedFieldsGiven => 400,
            // kube-apiserver reports a schema mismatch as an internal error.
            Self::InvalidManagedFields(_)
            | Self::InvalidConfiguration { .. }
            | Self::InvalidLiveObject { .. }
            | Self::Unconvertible { .. } => 500,
        }
    }

    /// The reason of the Status; internal errors have none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "Conflict",
            Self::OtherKind(_) | Self::ManagedFieldsGiven => "BadRequest",
            Self::InvalidManagedFields(_)
            | Self::InvalidConfiguration { .. }
            | Self::InvalidLiveObject { .. }
            | Self::Unconvertible { .. } => "",
        }
    }
}
