//! The HTTPS listener.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::connections::{BusyBody, Connection, Connections, Limits, Socket};
use super::response::{ApiResponse, failure, text};
use crate::api::{Api, Call};
use crate::auth::{User, subject};
use crate::body::MAX_BODY;
use crate::status_error::StatusError;

/// How many bytes of an oversized body are read beyond the limit, so that the client reads the response.
const MAX_DISCARDED: usize = 16 * MAX_BODY;

/// Grace period of open requests on shutdown. Watches end at once: their clients reconnect.
const GRACE: Duration = Duration::from_millis(500);

/// Pauses after failures to accept: the first, which doubles, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Interval of HTTP/2 pings, which detect that a peer is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Serves until `shutdown` resolves.
pub(crate) async fn serve(
    api: Arc<Api>,
    listener: TcpListener,
    config: rustls::ServerConfig,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let graceful = GracefulShutdown::new();
    let connections = Connections::new(limits.connections);
    let mut tasks = tokio::task::JoinSet::new();
    let (mut failures, mut full) = (0, false);
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                failures = 0;
                let Some(slot) = connections.open() else {
                    // Once, not for every client that tries again.
                    if !std::mem::replace(&mut full, true) {
                        tracing::warn!(limit = limits.connections, "all connections are in use: new ones are closed");
                    }
                    continue;
                };
                full = false;
                let state = slot.connection();
                let (api, acceptor, watcher) = (Arc::clone(&api), acceptor.clone(), graceful.watcher());
                let socket = Socket { stream, slot };
                state.served_by(tasks.spawn(connection(api, acceptor, socket, limits, watcher)));
            }
            Err(error) => {
                let Some(pause) = pause_after(&error, failures) else { continue };
                tracing::warn!(%error, "cannot accept a connection");
                failures += 1;
                connections.close_idle();
                tokio::select! {
                    () = &mut shutdown => break,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::debug!("some connections did not close in time");
    }
    tasks.shutdown().await;
}

/// The pause after a failure to accept; none if only the one connection failed. Without a pause the loop would be busy
/// until a file descriptor is free.
fn pause_after(error: &io::Error, failures: u32) -> Option<Duration> {
    match Errno::from_io_error(error) {
        Some(Errno::CONNABORTED | Errno::CONNRESET | Errno::INTR) => None,
        _ => Some(PAUSES.0.saturating_mul(2_u32.saturating_pow(failures)).min(PAUSES.1)),
    }
}

async fn connection(
    api: Arc<Api>,
    acceptor: TlsAcceptor,
    socket: Socket,
    limits: Limits,
    watcher: hyper_util::server::graceful::Watcher,
) {
    nodelay(&socket.stream);
    let state = socket.slot.connection();
    let stream = match tokio::time::timeout(limits.handshake, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!("TLS handshake timed out");
            return;
        }
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let user = certificate.and_then(|der| subject(der)).map(|(name, groups)| User::authenticated(name, groups));
    let service = service_fn({
        let state = Arc::clone(&state);
        move |request| {
            state.request();
            answer_on(Arc::clone(&state), Arc::clone(&api), request, user.clone(), limits.body)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.next_request);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    let connection = watcher.watch(connection);
    tokio::pin!(connection);
    let first = tokio::time::timeout(limits.first_request, &mut connection).await;
    let outcome = match first {
        Ok(outcome) => outcome,
        Err(_) if state.was_requested() => connection.await,
        Err(_) => {
            tracing::debug!("no request in time");
            return;
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection closed early");
    }
}

/// Disables Nagle's algorithm for small responses.
fn nodelay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}

/// Reads the body and handles the request, during which its connection is busy.
async fn answer_on(
    connection: Arc<Connection>,
    api: Arc<Api>,
    request: Request<Incoming>,
    certificate: Option<User>,
    limit: Duration,
) -> Result<ApiResponse, Infallible> {
    let call = match tokio::time::timeout(limit, read(request, certificate)).await {
        Ok(Ok(call)) => call,
        Ok(Err(refused)) => return Ok(refused),
        Err(_) => return Ok(text(StatusCode::REQUEST_TIMEOUT, "the body of the request did not arrive in time")),
    };
    let busy = connection.begin();
    Ok(api.answer(call).await.map(|body| BusyBody::new(body, busy).boxed_unsync()))
}

/// Reads the body and handles the request.
pub(crate) async fn answer(
    api: Arc<Api>,
    request: Request<Incoming>,
    certificate: Option<User>,
) -> Result<ApiResponse, Infallible> {
    match read(request, certificate).await {
        Ok(call) => Ok(api.answer(call).await),
        Err(refused) => Ok(refused),
    }
}

/// Reads the body, or returns the response to one that is too large or broken.
async fn read(mut request: Request<Incoming>, certificate: Option<User>) -> Result<Call, ApiResponse> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, mut body) = request.into_parts();
    let body = match Limited::new(&mut body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body).await;
            return Err(failure(&StatusError::too_large(MAX_BODY)));
        }
        Err(error) => return Err(text(StatusCode::BAD_REQUEST, error.to_string())),
    };
    Ok(Call { parts, body, certificate, upgrade: Some(upgrade) })
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;
    use crate::Options;

    /// Longer than anything here takes. A test that waits this long has failed.
    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(20);
    /// No limit that a test reaches.
    const NONE: Limits =
        Limits { handshake: LONG, first_request: LONG, next_request: LONG, body: LONG, connections: 100 };

    struct Server {
        api: Arc<Api>,
        address: SocketAddr,
        serving: tokio::task::JoinHandle<()>,
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.serving.abort();
        }
    }

    impl Server {
        async fn start(limits: Limits) -> Self {
            let api = Api::open(Options::default()).await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let config = api.pki.server_config().unwrap();
            let serving = tokio::spawn(serve(Arc::clone(&api), listener, config, limits, std::future::pending()));
            Self { api, address, serving }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        /// A connection over TLS, with the certificate of an administrator.
        async fn secure(&self) -> TlsStream<TcpStream> {
            self.handshake().await.unwrap()
        }

        async fn handshake(&self) -> io::Result<TlsStream<TcpStream>> {
            let config = self.api.pki.client_config().unwrap();
            let name = rustls::pki_types::ServerName::from(self.address.ip());
            TlsConnector::from(Arc::new(config)).connect(name, self.connect().await).await
        }

        async fn get(&self, path: &str) -> TlsStream<TcpStream> {
            let mut stream = self.secure().await;
            send(&mut stream, &format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
            stream
        }
    }

    async fn send(stream: &mut TlsStream<TcpStream>, text: &str) {
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }

    /// Waits for the end of a stream, however it ends.
    async fn closed(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
        let mut read = Vec::new();
        drop(tokio::time::timeout(LONG, stream.read_to_end(&mut read)).await.expect("the connection stays open"));
        String::from_utf8_lossy(&read).into_owned()
    }

    /// The first line of a response.
    async fn status(stream: &mut TlsStream<TcpStream>) -> String {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n") {
            let byte = tokio::time::timeout(LONG, stream.read_u8()).await.expect("no answer").unwrap();
            read.push(byte);
        }
        String::from_utf8(read).unwrap().trim_end().to_owned()
    }

    #[tokio::test]
    async fn a_handshake_that_does_not_proceed_is_closed() {
        let server = Server::start(Limits { handshake: SHORT, ..NONE }).await;
        closed(server.connect().await).await;
        let mut half = server.connect().await;
        half.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
        closed(half).await;
    }

    #[tokio::test]
    async fn a_client_that_never_completes_its_headers_is_closed() {
        let server = Server::start(Limits { first_request: SHORT, ..NONE }).await;
        closed(server.secure().await).await;
        let mut slow = server.secure().await;
        send(&mut slow, "GET /healthz HTTP/1.1\r\nhost:").await;
        closed(slow).await;
    }

    #[tokio::test]
    async fn a_later_request_has_to_arrive_in_time_too_but_a_watch_goes_on() {
        let limit = Duration::from_secs(1);
        let server = Server::start(Limits { first_request: limit, next_request: limit, ..NONE }).await;
        let mut idle = server.get("/healthz").await;
        assert_eq!(status(&mut idle).await, "HTTP/1.1 200 OK");
        let mut watch = server.get("/api/v1/namespaces?watch=true").await;
        assert_eq!(status(&mut watch).await, "HTTP/1.1 200 OK");
        closed(idle).await;
        // The limits have passed for the watch as well.
        let created = post(&server, "/api/v1/namespaces", r#"{"metadata":{"name":"late"}}"#).await;
        assert_eq!(created, "HTTP/1.1 201 Created");
        let mut read = String::new();
        while !read.contains(r#""name":"late""#) {
            let mut part = vec![0; 4096];
            let count = tokio::time::timeout(LONG, watch.read(&mut part)).await.expect("no event").unwrap();
            assert_ne!(count, 0, "the watch ended");
            read.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }

    async fn post(server: &Server, path: &str, body: &str) -> String {
        let mut stream = server.secure().await;
        let length = body.len();
        send(&mut stream, &format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}")).await;
        status(&mut stream).await
    }

    #[tokio::test]
    async fn a_body_that_never_arrives_ends_the_request() {
        let server = Server::start(Limits { body: SHORT, ..NONE }).await;
        let mut stream = server.secure().await;
        send(&mut stream, "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{").await;
        assert_eq!(status(&mut stream).await, "HTTP/1.1 408 Request Timeout");
    }

    #[tokio::test]
    async fn idle_connections_give_way_to_new_ones() {
        let server = Server::start(Limits { connections: 2, ..NONE }).await;
        let first = server.connect().await;
        let second = server.connect().await;
        let mut third = server.get("/healthz").await;
        assert_eq!(status(&mut third).await, "HTTP/1.1 200 OK");
        closed(first).await;
        let mut fourth = server.get("/healthz").await;
        assert_eq!(status(&mut fourth).await, "HTTP/1.1 200 OK");
        closed(second).await;
    }

    #[tokio::test]
    async fn busy_connections_stay_and_new_ones_are_closed() {
        let server = Server::start(Limits { connections: 2, ..NONE }).await;
        let mut watches = Vec::new();
        for _ in 0..2 {
            let mut watch = server.get("/api/v1/namespaces?watch=true").await;
            assert_eq!(status(&mut watch).await, "HTTP/1.1 200 OK");
            watches.push(watch);
        }
        closed(server.connect().await).await;
        // The end of one makes room.
        drop(watches.pop());
        let accepted = async { while server.handshake().await.is_err() {} };
        tokio::time::timeout(LONG, accepted).await.expect("no room");
    }

    #[test]
    fn failures_to_accept_cause_growing_pauses() {
        let check = |errno: Errno, failures: u32, expected: Option<u64>| {
            let pause = pause_after(&io::Error::from(errno), failures);
            assert_eq!(pause, expected.map(Duration::from_millis), "{errno} {failures}");
        };
        check(Errno::MFILE, 0, Some(10));
        check(Errno::MFILE, 1, Some(20));
        check(Errno::NFILE, 6, Some(640));
        check(Errno::MFILE, 7, Some(1000));
        check(Errno::MFILE, u32::MAX, Some(1000));
        check(Errno::CONNABORTED, 3, None);
    }

    #[test]
    fn half_of_the_descriptors_stay_free() {
        for (descriptors, connections) in [(8, 16), (1024, 512), (16_384, 8_192), (u64::MAX, 8_192)] {
            assert_eq!(Limits::with_descriptors(descriptors).connections, connections, "{descriptors}");
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(Limits::of_process().connections, Limits::with_descriptors(limit).connections);
    }
}
