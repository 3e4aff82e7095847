//! The HTTPS listener.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::response::{ApiResponse, failure, text};
use crate::api::{Api, Call};
use crate::auth::{User, subject};
use crate::body::MAX_BODY;
use crate::status_error::StatusError;

/// How many bytes of an oversized body are read beyond the limit, so that the client reads the response.
const MAX_DISCARDED: usize = 16 * MAX_BODY;

/// Grace period of open requests on shutdown. Watches end at once: their clients reconnect.
const GRACE: std::time::Duration = std::time::Duration::from_millis(500);

/// Serves until `shutdown` resolves.
pub(crate) async fn serve(
    api: Arc<Api>,
    listener: TcpListener,
    config: rustls::ServerConfig,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let connections = GracefulShutdown::new();
    let mut tasks = tokio::task::JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let (api, acceptor, watcher) = (Arc::clone(&api), acceptor.clone(), connections.watcher());
                tasks.spawn(connection(api, acceptor, stream, watcher));
            }
            Err(error) => {
                // Usually out of file descriptors: pause instead of a busy loop.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(GRACE, connections.shutdown()).await.is_err() {
        tracing::debug!("some connections did not close in time");
    }
    tasks.shutdown().await;
}

async fn connection(
    api: Arc<Api>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Disable Nagle's algorithm for small responses.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let stream = match acceptor.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let user = certificate.and_then(|der| subject(der)).map(|(name, groups)| User::authenticated(name, groups));
    let service = service_fn(move |request| answer(Arc::clone(&api), request, user.clone()));
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection closed early");
    }
}

/// Reads the body and handles the request.
pub(crate) async fn answer(
    api: Arc<Api>,
    mut request: Request<Incoming>,
    certificate: Option<User>,
) -> Result<ApiResponse, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, mut body) = request.into_parts();
    let body = match Limited::new(&mut body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body).await;
            return Ok(failure(&StatusError::too_large(MAX_BODY)));
        }
        Err(error) => return Ok(text(StatusCode::BAD_REQUEST, error.to_string())),
    };
    let call = Call { parts, body, certificate, upgrade: Some(upgrade) };
    Ok(api.answer(call).await)
}

/// Reads and discards the rest: a client that is still writing would see a reset instead of the response.
async fn discard(mut body: Incoming) {
    let mut left = MAX_DISCARDED;
    while left > 0
        && let Some(Ok(frame)) = body.frame().await
    {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
    }
}
