//! Which certificate authorities are trusted: the system's and the cluster's own.
//!
//! The bundle is read by ourselves, because the attach image holds nothing but our binary and TLS libraries fail to
//! start on a machine without certificates even if only plain http is spoken.

use std::path::{Path, PathBuf};

use crate::env::{self, Lookup};

/// Where distributions keep the bundle.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// The trusted authorities of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trust {
    /// The system's bundle, or `SSL_CERT_FILE`.
    pub system: Option<PathBuf>,
    /// The cluster's own bundle.
    pub custom: Option<PathBuf>,
}

/// A bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read.
    #[error(
        "the CA certificates {path:?} cannot be read: {source}; check {} and the caBundle it comes from",
        env::CUSTOM_CA_CERT_PATH
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not PEM.
    #[error("the CA certificates {path:?} are not PEM certificates")]
    Parse {
        /// The file.
        path: PathBuf,
    },
    /// The HTTP client could not be made.
    #[error("the HTTP client cannot be made: {0}")]
    Client(#[from] reqwest::Error),
}

impl Trust {
    /// Finds the bundles.
    pub fn from_env(env: Lookup<'_>) -> Self {
        let system = env::text(env, env::SSL_CERT_FILE)
            .map(PathBuf::from)
            .or_else(|| SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()));
        Self { system, custom: env::text(env, env::CUSTOM_CA_CERT_PATH).map(PathBuf::from) }
    }

    /// Both bundles as one PEM text. A broken system bundle is skipped, a broken custom one is an error.
    pub fn pem(&self) -> Result<Vec<u8>, TrustError> {
        let mut pem = self.system.as_ref().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        if let Some(custom) = &self.custom {
            if !pem.is_empty() && !pem.ends_with(b"\n") {
                pem.push(b'\n');
            }
            pem.extend(read(custom)?);
        }
        Ok(pem)
    }

    /// The start of an HTTP client that trusts them and follows no redirect by itself.
    pub fn http_client(&self) -> Result<reqwest::ClientBuilder, TrustError> {
        // A second installation fails harmlessly: the same provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut certificates = Vec::new();
        if let Some(system) = &self.system {
            certificates.extend(parse(system).unwrap_or_default());
        }
        if let Some(custom) = &self.custom {
            certificates.extend(parse(custom)?);
        }
        Ok(reqwest::Client::builder()
            .tls_certs_only(certificates)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("kubeopencode/", env!("CARGO_PKG_VERSION"))))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TrustError> {
    std::fs::read(path).map_err(|source| TrustError::Read { path: path.to_owned(), source })
}

fn parse(path: &Path) -> Result<Vec<reqwest::Certificate>, TrustError> {
    match reqwest::Certificate::from_pem_bundle(&read(path)?) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(TrustError::Parse { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_certificates_still_gets_a_client() {
        assert!(Trust::default().http_client().unwrap().build().is_ok());
    }

    #[test]
    fn a_broken_custom_bundle_is_an_error_and_a_broken_system_bundle_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let broken = directory.path().join("ca.crt");
        std::fs::write(&broken, "not a certificate").unwrap();
        let trust = |system: Option<&PathBuf>, custom: Option<&PathBuf>| Trust {
            system: system.cloned(),
            custom: custom.cloned(),
        };
        assert!(trust(Some(&broken), None).http_client().is_ok());
        assert!(trust(None, Some(&broken)).http_client().is_err());
        let missing = directory.path().join("missing");
        assert!(matches!(trust(None, Some(&missing)).pem(), Err(TrustError::Read { .. })));
        assert_eq!(trust(Some(&broken), Some(&broken)).pem().unwrap(), b"not a certificate\nnot a certificate");
    }
}
