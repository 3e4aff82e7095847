//! Certificate authorities: the system's and those of a `caBundle`.
//!
//! The system's bundle is read here: the attach image contains only our binary, and TLS libraries fail on a machine
//! without certificates, even for plain http.

use std::path::{Path, PathBuf};

/// Paths of the system's bundle in common distributions.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// The PEM files whose certificates are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authorities {
    /// The system's bundle, or the file that replaces it.
    pub system: Option<PathBuf>,
    /// The `caBundle` of an Agent or template, trusted in addition.
    pub custom: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// A file cannot be read.
    #[error("the CA certificates {path:?} cannot be read: {source}; check caBundle")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file contains no PEM certificates.
    #[error("the CA certificates {path:?} are not PEM certificates; check caBundle")]
    Parse { path: PathBuf },
    /// The TLS library failed to start.
    #[error("the HTTP client cannot be created: {0}")]
    Client(#[from] reqwest::Error),
}

impl Authorities {
    /// The system's bundle, or `system` in its place, and `custom` in addition.
    pub fn new(system: Option<PathBuf>, custom: Option<PathBuf>) -> Self {
        let installed = || SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file());
        Self { system: system.or_else(installed), custom }
    }

    /// Both bundles as one PEM text. A broken system bundle is skipped, a broken custom one is an error.
    pub fn pem(&self) -> Result<Vec<u8>, AuthoritiesError> {
        let mut pem = self.system.as_ref().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        if let Some(custom) = &self.custom {
            if !pem.is_empty() && !pem.ends_with(b"\n") {
                pem.push(b'\n');
            }
            pem.extend(read(custom)?);
        }
        Ok(pem)
    }

    /// A builder of HTTP clients that trust these certificates and follow no redirects. It has no address policy; see
    /// [`crate::guard`].
    pub fn http_client(&self) -> Result<reqwest::ClientBuilder, AuthoritiesError> {
        let mut certificates = Vec::new();
        if let Some(system) = &self.system {
            certificates.extend(parse(system).unwrap_or_default());
        }
        if let Some(custom) = &self.custom {
            certificates.extend(parse(custom)?);
        }
        Ok(crate::http::builder().tls_certs_only(certificates).redirect(reqwest::redirect::Policy::none()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, AuthoritiesError> {
    std::fs::read(path).map_err(|source| AuthoritiesError::Read { path: path.to_owned(), source })
}

fn parse(path: &Path) -> Result<Vec<reqwest::Certificate>, AuthoritiesError> {
    match reqwest::Certificate::from_pem_bundle(&read(path)?) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(AuthoritiesError::Parse { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_certificates_still_gets_a_client() {
        assert!(Authorities::default().http_client().unwrap().build().is_ok());
    }

    #[test]
    fn a_broken_custom_bundle_is_an_error_and_a_broken_system_bundle_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let broken = directory.path().join("ca.crt");
        std::fs::write(&broken, "not a certificate").unwrap();
        let authorities = |system: Option<&PathBuf>, custom: Option<&PathBuf>| Authorities {
            system: system.cloned(),
            custom: custom.cloned(),
        };
        assert!(authorities(Some(&broken), None).http_client().is_ok());
        assert!(authorities(None, Some(&broken)).http_client().is_err());
        let missing = directory.path().join("missing");
        assert!(matches!(authorities(None, Some(&missing)).pem(), Err(AuthoritiesError::Read { .. })));
        assert_eq!(authorities(Some(&broken), Some(&broken)).pem().unwrap(), b"not a certificate\nnot a certificate");
    }
}
