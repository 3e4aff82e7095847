//! Bytes that a thread makes while the depot receives them.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::contract::depot::Stored;
use futures::StreamExt as _;
use futures::stream;
use reqwest::{Body, Method, Response};
use tokio::sync::{mpsc, oneshot};

use super::{Depot, DepotError, MOST_ANSWER_BYTES, accepted, failed, read};

/// Bytes that are sent at once.
const CHUNK: usize = 256 << 10;
/// Chunks between the thread and the connection.
const CHUNKS: usize = 4;

/// Bytes for the store.
#[derive(Debug)]
pub struct Upload<T> {
    pub stored: Stored,
    /// What the thread returned.
    pub made: T,
}

impl Depot {
    /// Stores the bytes that `produce` writes, at least one; it also returns what they must be. They have no name yet.
    /// If `produce` fails, nothing is stored, and its error is inside of the result.
    pub async fn upload<T, E>(
        &self,
        produce: impl FnOnce(&mut dyn Write) -> Result<Upload<T>, E> + Send + 'static,
    ) -> Result<Result<Upload<T>, E>, DepotError>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let progress = Arc::new(Progress::default());
        let (sender, mut receiver) = mpsc::channel(CHUNKS);
        let producing = {
            let progress = Arc::clone(&progress);
            tokio::task::spawn_blocking(move || {
                let mut chunks = Chunks { sender, chunk: Vec::new(), progress };
                let made = produce(&mut chunks);
                let ended = match &made {
                    Ok(_) => chunks.finish(),
                    // Without this, the depot would take what was sent so far for the whole.
                    Err(_) => chunks.send(Err(io::Error::other("the bytes are incomplete"))),
                };
                chunks.progress.finished.store(true, Ordering::Relaxed);
                (made, ended)
            })
        };
        // The request waits for the first bytes: a set without files, or one that cannot be read, makes no request.
        let Some(Ok(first)) = receiver.recv().await else {
            return match producing.await {
                Ok((Err(error), _)) => Ok(Err(error)),
                _ => Err(DepotError::Damaged),
            };
        };
        progress.taken.fetch_add(1, Ordering::Relaxed);
        let (cancel, cancelled) = oneshot::channel::<Infallible>();
        let taken = Arc::clone(&progress);
        let rest = stream::poll_fn(move |context| {
            let next = receiver.poll_recv(context);
            if next.is_ready() {
                taken.taken.fetch_add(1, Ordering::Relaxed);
            }
            next
        });
        let body = stream::iter([Ok(first)]).chain(rest).take_until(cancelled);
        let answer = self.send_watched(Body::wrap_stream(body), &progress).await;
        // Ends the body, on which the thread would wait if the depot answered before its end.
        drop(cancel);
        let (made, ended) = producing.await.map_err(|error| DepotError::Unreadable(error.to_string()))?;
        match (made, answer) {
            // The thread failed first, unless it could not write any more.
            (Err(error), _) if !progress.closed.load(Ordering::Relaxed) => Ok(Err(error)),
            (_, Err(error)) => Err(error),
            (Ok(made), Ok(stored)) if ended.is_ok() && made.stored == stored => Ok(Ok(made)),
            (_, Ok(_)) => Err(DepotError::Damaged),
        }
    }

    async fn send_watched(&self, body: Body, progress: &Progress) -> Result<Stored, DepotError> {
        let request = self.request(Method::PUT, self.url(&["blobs"], &[]))?.body(body);
        let response = self.unless_silent(request.send(), progress).await?;
        let answer = tokio::time::timeout(self.settings.silence, accepted(response, MOST_ANSWER_BYTES));
        read(&answer.await.map_err(|_| DepotError::Silent(self.settings.silence))??)
    }

    /// Time that the thread needs to make bytes does not count.
    async fn unless_silent(
        &self,
        sending: impl Future<Output = reqwest::Result<Response>>,
        progress: &Progress,
    ) -> Result<Response, DepotError> {
        let mut sending = std::pin::pin!(sending);
        loop {
            let before = progress.taken.load(Ordering::Relaxed);
            tokio::select! {
                answer = &mut sending => return answer.map_err(|error| failed(&error)),
                () = tokio::time::sleep(self.settings.silence) => {
                    if progress.waits_for_the_depot() && progress.taken.load(Ordering::Relaxed) == before {
                        return Err(DepotError::Silent(self.settings.silence));
                    }
                }
            }
        }
    }
}

/// How far an upload is, in chunks.
#[derive(Debug, Default)]
struct Progress {
    offered: AtomicU64,
    taken: AtomicU64,
    /// The thread has ended.
    finished: AtomicBool,
    /// The connection takes no more.
    closed: AtomicBool,
}

impl Progress {
    fn waits_for_the_depot(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
            || self.offered.load(Ordering::Relaxed) > self.taken.load(Ordering::Relaxed)
    }
}

/// Sends what is written to it in chunks. Blocks while the connection is slower.
struct Chunks {
    sender: mpsc::Sender<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    progress: Arc<Progress>,
}

impl Chunks {
    fn send(&self, chunk: io::Result<Vec<u8>>) -> io::Result<()> {
        self.progress.offered.fetch_add(1, Ordering::Relaxed);
        self.sender.blocking_send(chunk).map_err(|_| {
            self.progress.closed.store(true, Ordering::Relaxed);
            io::ErrorKind::BrokenPipe.into()
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        if chunk.is_empty() { Ok(()) } else { self.send(Ok(chunk)) }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.capacity() == 0 {
            self.chunk.reserve_exact(CHUNK);
        }
        let length = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..length]);
        if self.chunk.len() == CHUNK {
            let chunk = std::mem::take(&mut self.chunk);
            self.send(Ok(chunk))?;
        }
        Ok(length)
    }

    /// Small chunks would cost more than they gain: the bytes are of use to the depot only when all are there.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
