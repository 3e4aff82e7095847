//! A back end behind a proxy that is slow, or that answers in its place.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy, sink},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Bytes that a slow back end takes or sends at a time, and the pause before each.
const SIP: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Through,
    Slow,
    /// Answers requests with this line of HTTP.
    Answer(&'static str),
}

/// A proxy before the server at an address. It ends with this value.
pub struct Proxy {
    pub address: SocketAddr,
    manner: watch::Sender<Manner>,
    answered: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (manner, changes) = watch::channel(Manner::Through);
        let answered = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&answered);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (mut changes, counter) = (changes.clone(), Arc::clone(&counter));
                tokio::spawn(async move {
                    let manner = changes.clone();
                    let answers = |manner: &Manner| matches!(manner, Manner::Answer(_));
                    let before = answers(&changes.borrow());
                    tokio::select! {
                        () = serve(client, server, manner, &counter) => {}
                        _ = changes.wait_for(|now| answers(now) != before) => {}
                    }
                });
            }
        });
        Self { address, manner, answered, task }
    }

    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// Requests that were answered here.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut client: TcpStream, server: SocketAddr, manner: watch::Receiver<Manner>, answered: &AtomicUsize) {
    let now = *manner.borrow();
    if let Manner::Answer(line) = now {
        let mut head = Vec::new();
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            if client.read_buf(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        answered.fetch_add(1, Ordering::SeqCst);
        let answer = format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let _ = client.write_all(answer.as_bytes()).await;
        let _ = client.shutdown().await;
        // A connection that is closed with unread bytes is reset, and its answer is lost.
        let _ = copy(&mut client, &mut sink()).await;
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::join!(pass(from_client, to_server, &manner), pass(from_server, to_client, &manner));
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, manner: &watch::Receiver<Manner>) {
    let mut sip = vec![0; SIP];
    while let Ok(length @ 1..) = from.read(&mut sip).await {
        let slow = *manner.borrow() == Manner::Slow;
        if slow {
            tokio::time::sleep(PAUSE).await;
        }
        if to.write_all(&sip[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
