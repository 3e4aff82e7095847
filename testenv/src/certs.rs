//! The certificate authority of one cluster and the identities it signs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

/// A certificate authority that lives as long as its cluster.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// A certificate and its private key, both PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("testenv", "");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The certificate of the authority, PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// An identity for a client (`user` in `group`, which may be empty) that may also serve under `addresses`.
    pub(crate) fn issue(&self, user: &str, group: &str, addresses: &[&str]) -> Result<Identity, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(addresses.iter().map(|&address| address.to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name = name(user, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// A kubeconfig for `server` as `identity`, with everything inside it. JSON, which is YAML too.
    pub(crate) fn kubeconfig(&self, server: &str, identity: &Identity) -> String {
        let encode = |pem: &str| BASE64_STANDARD.encode(pem);
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testenv",
            "contexts": [{"name": "testenv", "context": {"cluster": "testenv", "user": "testenv"}}],
            "clusters": [{"name": "testenv", "cluster": {
                "server": server,
                "certificate-authority-data": encode(&self.certificate),
            }}],
            "users": [{"name": "testenv", "user": {
                "client-certificate-data": encode(&identity.certificate),
                "client-key-data": encode(&identity.key),
            }}],
        })
        .to_string()
    }
}

fn name(user: &str, group: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if !group.is_empty() {
        name.push(DnType::OrganizationName, group);
    }
    name
}
