//! Connections: accepted, guarded against clients that do nothing, and closed so that no answer is lost.

use std::{
    collections::HashMap,
    future::Future as _,
    io,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Sleep, sleep},
};
use tower::Service as _;

/// Open connections. Further ones wait in the kernel.
const CONNECTIONS: usize = 512;
/// Of them with one address. The Pods of a node may have one in common.
const OF_ADDRESS: usize = 32;
/// Time for the headers of a request, and between two requests.
const HEADERS: Duration = Duration::from_secs(10);
/// Grace period of open requests at shutdown.
const GRACE: Duration = Duration::from_secs(20);
/// Pause after a failed accept, for example when file descriptors run out.
const NO_ROOM: Duration = Duration::from_millis(50);
/// What a client still sends after the last answer is read for this long. A connection that is closed with unread bytes is
/// reset, and a client may then lose the answer that says why its upload is refused.
const LINGER: Duration = Duration::from_secs(5);

/// Serves until `shutdown` resolves, then finishes open requests. `patience` is the time that a client may take to receive
/// something. Fails if the socket does not listen any more.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    patience: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let addresses = Addresses::default();
    let ending = watch::Sender::new(false);
    let mut open = JoinSet::new();
    let accepting = async {
        loop {
            let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        // Closed at once: its client tries again, and the others are served.
                        let Some(share) = addresses.share(peer.ip()) else { continue };
                        let place = (place, share);
                        open.spawn(connection(stream, router.clone(), patience, ending.subscribe(), place));
                    }
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection failed");
                        sleep(NO_ROOM).await;
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
    patience: Duration,
    mut ending: watch::Receiver<bool>,
    _place: (OwnedSemaphorePermit, Share),
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request.map(Body::new)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let stream = TokioIo::new(Guarded { stream, patience, stalled: None, closing: None });
    let mut connection = pin!(builder.serve_connection(stream, service));
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

/// How many connections each address has.
#[derive(Clone, Debug, Default)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The part that a connection has in the connections of its address.
struct Share {
    all: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// `None` if the address has as many connections as it may have. Those of this machine, where all Pods of
    /// `kubeopencode up` are, have no limit of their own.
    fn share(&self, address: IpAddr) -> Option<Share> {
        let address = address.to_canonical();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(address).or_default();
        if *open >= OF_ADDRESS && !address.is_loopback() {
            return None;
        }
        *open += 1;
        Some(Share { all: self.clone(), address })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                all.remove(&self.address);
            }
        }
    }
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    // A dropped sender means that the process ends.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// A connection whose writes fail when the client takes nothing for too long, and that reads to the end of what the client
/// sends before it is closed.
struct Guarded {
    stream: TcpStream,
    patience: Duration,
    /// Set while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Set once nothing more is sent.
    closing: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    fn within_patience<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_patience(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.within_patience(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.closing = Some(Box::pin(sleep(LINGER)));
        }
        let mut unread = [0; 16 << 10];
        loop {
            if let Some(closing) = &mut self.closing
                && closing.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Ok(()));
            }
            let mut unread = ReadBuf::new(&mut unread);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut unread)) {
                Ok(()) if !unread.filled().is_empty() => {}
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn pair() -> (Guarded, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Guarded { stream, patience: Duration::from_mins(1), stalled: None, closing: None }, client)
    }

    #[test]
    fn an_address_has_a_share_of_the_connections() {
        let addresses = Addresses::default();
        let [one, other, mapped]: [IpAddr; 3] =
            ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1"].map(|address| address.parse().unwrap());
        let mut open: Vec<Share> = (0..OF_ADDRESS).map(|_| addresses.share(one).unwrap()).collect();
        assert!(addresses.share(one).is_none() && addresses.share(mapped).is_none());
        assert!(addresses.share(other).is_some());
        open.pop();
        open.push(addresses.share(mapped).unwrap());
        assert!(addresses.share(one).is_none());
        drop(open);
        assert!(addresses.share(one).is_some());
        assert!(addresses.0.lock().unwrap().is_empty(), "nothing is kept of an address without connections");
        let here = IpAddr::from([127, 0, 0, 1]);
        let many: Vec<_> = (0..OF_ADDRESS * 2).map(|_| addresses.share(here).unwrap()).collect();
        assert_eq!(many.len(), OF_ADDRESS * 2);
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (mut served, client) = pair().await;
        tokio::time::pause();
        let failed = async {
            loop {
                if let Err(error) = served.write_all(&vec![0; 1 << 20]).await {
                    return error;
                }
            }
        };
        // On the paused clock, this is over as soon as nothing else can happen.
        let failed = tokio::time::timeout(Duration::from_hours(1), failed).await.unwrap();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test]
    async fn a_client_that_still_sends_receives_the_answer() {
        let (mut served, mut client) = pair().await;
        client.write_all(&vec![0; 64 << 10]).await.unwrap();
        let closing = tokio::spawn(async move {
            served.write_all(b"refused").await.unwrap();
            served.shutdown().await.unwrap();
        });
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "refused");
        client.write_all(&vec![0; 64 << 10]).await.unwrap();
        drop(client);
        closing.await.unwrap();
    }
}
