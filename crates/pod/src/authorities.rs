//! The trusted certificate authorities of a helper.

use std::path::PathBuf;

use egress::Authorities;

use crate::env::{self, Lookup};

/// Reads the paths of the trusted certificate files.
pub fn from_env(env: Lookup<'_>) -> Authorities {
    let path = |name: &str| env::text(env, name).map(PathBuf::from);
    Authorities::new(path(env::SSL_CERT_FILE), path(env::CUSTOM_CA_CERT_PATH))
}
