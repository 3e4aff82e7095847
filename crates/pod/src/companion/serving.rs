//! Connections: accepted, bounded in number, and closed when their client sends no headers.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::Service as _;

/// Open connections. Further ones wait in the kernel.
const CONNECTIONS: usize = 128;
/// Time for the headers of a request, and between two requests.
const HEADERS: Duration = Duration::from_secs(10);
/// Grace period of open requests at shutdown: a run that ends while its Agent is stopped keeps what it left.
const GRACE: Duration = Duration::from_secs(20);
/// Pause after a failed accept, for example when file descriptors run out.
const NO_ROOM: Duration = Duration::from_millis(50);

/// Serves until `shutdown` resolves, then finishes open requests. Fails if the socket does not listen any more.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let ending = watch::Sender::new(false);
    let mut open = JoinSet::new();
    let accepting = async {
        loop {
            let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        open.spawn(connection(stream, router.clone(), ending.subscribe(), place));
                    }
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection failed");
                        tokio::time::sleep(NO_ROOM).await;
                    }
                },
                Some(_) = open.join_next() => {}
            }
        }
    };
    let outcome = tokio::select! {
        outcome = accepting => outcome,
        () = shutdown => Ok(()),
    };
    drop(listener);
    ending.send_replace(true);
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("shutdown timed out with open requests");
    }
    outcome
}

async fn connection(
    stream: TcpStream,
    router: Router,
    mut ending: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request.map(Body::new)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = ended(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection broke");
    }
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    // A dropped sender means that the process ends.
    let _ = ending.wait_for(|ending| *ending).await;
}
