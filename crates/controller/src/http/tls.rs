//! HTTPS with a self-signed certificate that this process generates: `/metrics` is encrypted on the wire.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Timeout of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections after the handshake that are not served yet.
const WAITING: usize = 16;

/// Connections after their handshake. Handshakes run concurrently, so that a slow client delays no other.
pub struct Listener {
    greeted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Listener {
    /// Accepts the connections of `listener`.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        Self::with_handshake_limit(listener, HANDSHAKE)
    }

    fn with_handshake_limit(listener: TcpListener, limit: Duration) -> io::Result<Self> {
        let acceptor = TlsAcceptor::from(Arc::new(config().map_err(io::Error::other)?));
        let address = listener.local_addr()?;
        let (greet, greeted) = mpsc::channel(WAITING);
        tokio::spawn(accept(listener, acceptor, limit, greet));
        Ok(Self { greeted, address })
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.greeted.recv().await {
            Some(connection) => connection,
            // Not reached: the sender lives as long as the receiver.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    limit: Duration,
    greet: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    while !greet.is_closed() {
        let Ok((stream, from)) = listener.accept().await else {
            // Usually out of file descriptors: wait instead of spinning.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (acceptor, greet) = (acceptor.clone(), greet.clone());
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = timeout(limit, acceptor.accept(stream)).await {
                // Fails only when the process ends.
                let _ = greet.send((stream, from)).await;
            }
        });
    }
}

fn config() -> Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.into()], key)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_greet_holds_up_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _silent = TcpStream::connect(address).await.unwrap();
        let routes = Router::new().route("/metrics", get(async || "numbers"));
        // Far above the limit of the test: the silent client is not let go meanwhile.
        let listener = Listener::with_handshake_limit(listener, Duration::from_hours(1)).unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let _ = ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
        let url = format!("https://{address}/metrics");
        let answer = timeout(Duration::from_mins(1), client.get(url).send()).await.unwrap().unwrap();
        assert_eq!(answer.text().await.unwrap(), "numbers");
    }
}
