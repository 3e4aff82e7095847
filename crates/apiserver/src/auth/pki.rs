//! The certificate authority of a server, and the certificates that it signs.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use ring::hmac;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use super::{MASTERS, TokenKey};

/// DNS names of the server certificate.
const NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    #[error("cannot use {file}: {source}")]
    File { file: PathBuf, source: std::io::Error },
    #[error("cannot create a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("invalid key for ServiceAccount tokens: {0}")]
    Token(#[from] super::token::TokenError),
    #[error("invalid server certificate: {0}")]
    Tls(#[from] rustls::Error),
}

pub(crate) struct Pki {
    issuer: Issuer<'static, KeyPair>,
    authority_pem: String,
    authority: CertificateDer<'static>,
    pub(crate) tokens: TokenKey,
    /// Derives other secrets.
    root: hmac::Key,
}

impl Pki {
    /// The keys in `directory`, created if missing; without a directory, keys for this process.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, PkiError> {
        let authority_key = key(directory, "ca.key")?;
        let token_key = key(directory, "sa.key")?;
        let root = hmac::Key::new(hmac::HMAC_SHA256, &authority_key.serialize_der());
        let params = authority();
        // Signing again with the same key gives an equivalent certificate, but clients compare the certificate bytes.
        let (authority_pem, authority_der) = match directory.map(|directory| directory.join("ca.crt")) {
            Some(file) if file.exists() => {
                let text = std::fs::read_to_string(&file).map_err(|source| PkiError::File { file, source })?;
                let der = der(&text);
                (text, der)
            }
            place => {
                let certificate = params.self_signed(&authority_key)?;
                if let Some(file) = place {
                    write(&file, certificate.pem().as_bytes())?;
                }
                (certificate.pem(), certificate.der().to_vec())
            }
        };
        Ok(Self {
            issuer: Issuer::new(params, authority_key),
            authority_pem,
            authority: CertificateDer::from(authority_der),
            tokens: TokenKey::new(&token_key.serialize_der())?,
            root,
        })
    }

    /// A secret for one purpose, as stable as the key of the CA.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        secret.copy_from_slice(hmac::sign(&self.root, purpose.as_bytes()).as_ref());
        secret
    }

    /// The CA certificate in PEM.
    pub(crate) fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// The TLS configuration. Client certificates are optional; other clients need a token.
    pub(crate) fn server_config(&self) -> Result<rustls::ServerConfig, PkiError> {
        let (certificate, key) = self.issue("kube-apiserver", "", NAMES)?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.clone())?;
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let private =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| rustls::Error::General(error.to_owned()))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![CertificateDer::from(der(&certificate)), self.authority.clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A self-contained kubeconfig for an administrator.
    pub(crate) fn kubeconfig(&self, server: &str) -> Result<String, PkiError> {
        let (certificate, key) = self.issue("kubernetes-admin", MASTERS, &[])?;
        let encode = |pem: &str| BASE64_STANDARD.encode(pem);
        let name = "kubeopencode";
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": {
                "server": server,
                "certificate-authority-data": encode(&self.authority_pem),
            }}],
            "users": [{"name": name, "user": {
                "client-certificate-data": encode(&certificate),
                "client-key-data": encode(&key.serialize_pem()),
            }}],
        });
        Ok(format!("{config:#}\n"))
    }

    /// The TLS configuration of an administrator.
    #[cfg(test)]
    pub(crate) fn client_config(&self) -> Result<rustls::ClientConfig, PkiError> {
        let (certificate, key) = self.issue("kubernetes-admin", MASTERS, &[])?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.clone())?;
        let private =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| rustls::Error::General(error.to_owned()))?;
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        Ok(rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![CertificateDer::from(der(&certificate)), self.authority.clone()], private)?)
    }

    fn issue(&self, user: &str, group: &str, addresses: &[&str]) -> Result<(String, KeyPair), PkiError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(addresses.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name = name(user, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![if addresses.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key))
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("kubeopencode-ca", "");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn name(user: &str, group: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if !group.is_empty() {
        name.push(DnType::OrganizationName, group);
    }
    name
}

fn key(directory: Option<&Path>, name: &str) -> Result<KeyPair, PkiError> {
    let Some(directory) = directory else { return Ok(KeyPair::generate()?) };
    let file = directory.join(name);
    if file.exists() {
        let text = std::fs::read_to_string(&file).map_err(|source| PkiError::File { file, source })?;
        return Ok(KeyPair::from_pem(&text)?);
    }
    std::fs::create_dir_all(directory).map_err(|source| PkiError::File { file: directory.to_owned(), source })?;
    let key = KeyPair::generate()?;
    write(&file, key.serialize_pem().as_bytes())?;
    Ok(key)
}

/// Writes a file atomically, readable by its owner only.
pub(crate) fn write(file: &Path, contents: &[u8]) -> Result<(), PkiError> {
    let temporary = file.with_extension("new");
    let attempt = || {
        let mut options = std::fs::File::options();
        let mut target = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        target.write_all(contents)?;
        target.sync_all()?;
        std::fs::rename(&temporary, file)
    };
    attempt().map_err(|source| PkiError::File { file: file.to_owned(), source })
}

fn der(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    BASE64_STANDARD.decode(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_of_a_directory_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let first = Pki::open(Some(directory.path())).unwrap();
        let second = Pki::open(Some(directory.path())).unwrap();
        assert_eq!(first.authority_pem(), second.authority_pem());
        second.server_config().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(directory.path().join("ca.key")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
}
