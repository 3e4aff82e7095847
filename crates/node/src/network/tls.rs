//! TLS without certificate verification, as the kubelet's HTTPS probes use it: servers in Pods often have self-signed
//! certificates.

use std::{
    io,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};

/// Accepts every certificate; only the handshake signature is verified.
#[derive(Debug)]
struct AcceptAnyCertificate(CryptoProvider);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Connects without verifying the certificate.
pub(crate) async fn unverified(stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = builder.with_safe_default_protocol_versions()?.dangerous();
        let verifier = Arc::new(AcceptAnyCertificate(ring::default_provider()));
        Ok(Arc::new(config.with_custom_certificate_verifier(verifier).with_no_client_auth()))
    });
    let config = CONFIG.as_ref().map_err(|error| io::Error::other(error.clone()))?;
    let name = match host.parse::<IpAddr>() {
        Ok(address) => ServerName::IpAddress(address.into()),
        Err(_) => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}
