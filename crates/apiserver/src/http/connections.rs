//! The open connections of a listener, and which of them give way when there are too many.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::response::ResponseBody;

/// Maximum number of connections, whatever the descriptor limit is.
const MAX_CONNECTIONS: u64 = 8_192;

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until the TLS handshake is complete.
    pub(super) handshake: Duration,
    /// From the handshake to the first request.
    pub(super) first_request: Duration,
    /// From one request to the end of the headers of the next, with HTTP/1. Longer than clients keep idle connections.
    pub(super) next_request: Duration,
    /// From the headers of a request to the end of its body.
    pub(super) body: Duration,
    /// Maximum number of open connections.
    pub(super) connections: usize,
}

impl Limits {
    /// Limits that leave half of the file descriptors of this process to files, Pods and outgoing connections.
    pub(crate) fn of_process() -> Self {
        Self::with_descriptors(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    /// The limits of a process with so many file descriptors.
    pub(super) fn with_descriptors(descriptors: u64) -> Self {
        let connections = (descriptors / 2).clamp(16, MAX_CONNECTIONS);
        Self {
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(30),
            next_request: Duration::from_mins(2),
            body: Duration::from_mins(1),
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
        }
    }
}

/// An open connection.
pub(super) struct Connection {
    /// Requests in progress.
    busy: AtomicUsize,
    requested: AtomicBool,
    /// When it was last used, as a number that only grows.
    used: AtomicU64,
    clock: Arc<AtomicU64>,
    task: OnceLock<AbortHandle>,
}

impl Connection {
    /// Sets the task that serves the connection.
    pub(super) fn served_by(&self, task: AbortHandle) {
        // Set once, by the accept loop.
        drop(self.task.set(task));
    }

    /// Whether there was a request.
    pub(super) fn was_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Records the arrival of a request.
    pub(super) fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Begins the answer to a request. The connection is busy until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether it can be closed without an effect on a request. A connection that became a stream has no task.
    fn gives_way(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0 && self.task.get().is_some_and(|task| !task.is_finished())
    }
}

/// A request in progress.
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.used.store(self.0.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open connections.
pub(super) struct Connections {
    limit: usize,
    clock: Arc<AtomicU64>,
    open: Arc<Mutex<BTreeMap<u64, Arc<Connection>>>>,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, clock: Arc::default(), open: Arc::default() }
    }

    /// Adds a connection. If there are too many, the one that is idle for the longest time is closed; if all are busy,
    /// returns `None`.
    pub(super) fn open(&self) -> Option<Slot> {
        if lock(&self.open).len() >= self.limit && !self.close_idle() {
            return None;
        }
        let id = self.clock.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            busy: AtomicUsize::new(0),
            requested: AtomicBool::new(false),
            used: AtomicU64::new(id),
            clock: Arc::clone(&self.clock),
            task: OnceLock::new(),
        });
        lock(&self.open).insert(id, Arc::clone(&connection));
        Some(Slot { id, connection, open: Arc::clone(&self.open) })
    }

    /// Closes the connection that is idle for the longest time, and returns whether there was one.
    pub(super) fn close_idle(&self) -> bool {
        let mut open = lock(&self.open);
        let idle = open.iter().filter(|(_, connection)| connection.gives_way());
        let oldest = idle.min_by_key(|(_, connection)| connection.used.load(Ordering::Relaxed)).map(|(id, _)| *id);
        // Not counted from now on: its descriptor is closed as soon as its task is scheduled.
        let Some(closed) = oldest.and_then(|id| open.remove(&id)) else { return false };
        if let Some(task) = closed.task.get() {
            task.abort();
        }
        true
    }
}

fn lock(open: &Mutex<BTreeMap<u64, Arc<Connection>>>) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a connection among the open ones, until it is dropped.
pub(super) struct Slot {
    id: u64,
    connection: Arc<Connection>,
    open: Arc<Mutex<BTreeMap<u64, Arc<Connection>>>>,
}

impl Slot {
    pub(super) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.id);
    }
}

/// A socket with its slot, which it keeps when the connection becomes a stream.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    pub(super) slot: Slot,
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A response body that keeps its connection busy.
pub(super) struct BusyBody {
    body: ResponseBody,
    _busy: Busy,
}

impl BusyBody {
    pub(super) fn new(body: ResponseBody, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl Body for BusyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
