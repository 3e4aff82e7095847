//! Connections: taken one by one, none of them for ever.

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

use crate::state::asked_to_end;

/// A client that takes longer to say what it wants is cut off: otherwise a few of them hold every connection.
const HEADERS: Duration = Duration::from_secs(10);
/// How long requests have to end when the process is asked to.
const GRACE: Duration = Duration::from_secs(20);
/// When the system has no room for another connection, it may have some after this time.
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

    /// Takes connections, for ever.
    pub async fn accept(&mut self) {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        self.open.spawn(serve(stream, peer, self.router.clone(), self.ending.subscribe()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(NO_ROOM).await;
                    }
                },
                Some(_) = self.open.join_next() => {}
            }
        }
    }

    /// Lets what was begun end.
    pub async fn end(mut self) {
        drop(self.listener);
        self.ending.send_replace(true);
        let all = async { while self.open.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, mut ending: watch::Receiver<bool>) {
    // Lines of a log should not wait for each other.
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
        () = asked_to_end(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}
