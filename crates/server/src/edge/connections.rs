//! The accept loop, with limits on slow clients and a graceful shutdown.

use std::{net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tower::Service as _;

use crate::state::shutdown_requested;

/// Timeout for request headers: otherwise a few slow clients hold every connection.
const HEADERS: Duration = Duration::from_secs(10);
/// Grace period of open requests at shutdown.
const GRACE: Duration = Duration::from_secs(20);
/// Pause after a failed accept, for example when file descriptors run out.
const NO_ROOM: Duration = Duration::from_millis(50);

/// The connections of a listener.
pub struct Connections {
    listener: TcpListener,
    router: Router,
    open: JoinSet<()>,
    ending: watch::Sender<bool>,
}

impl Connections {
    /// Connections that are served by `router`.
    pub fn new(listener: TcpListener, router: Router) -> Self {
        Self { listener, router, open: JoinSet::new(), ending: watch::Sender::new(false) }
    }

    /// Accepts connections until the future is dropped.
    pub async fn accept(&mut self) {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        self.open.spawn(serve(stream, peer, self.router.clone(), self.ending.subscribe()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection failed");
                        tokio::time::sleep(NO_ROOM).await;
                    }
                },
                Some(_) = self.open.join_next() => {}
            }
        }
    }

    /// Stops accepting and waits for open requests.
    pub async fn end(mut self) {
        drop(self.listener);
        self.ending.send_replace(true);
        let all = async { while self.open.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::warn!("shutdown timed out with open requests");
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, mut ending: watch::Receiver<bool>) {
    // Without delay, lines of a log are sent as they come.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown_requested(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}
