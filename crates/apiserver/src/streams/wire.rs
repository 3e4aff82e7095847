//! What carries the frames of SPDY: a connection of its own (kubectl before 1.31), or a WebSocket around them.

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::Socket;

/// How many frames wait for a client that is slow.
const WAITING: usize = 16;
/// The largest piece that is read at once.
const PIECE: usize = 32 * 1024;

/// A way from a client and back.
pub(super) struct Wire {
    /// What the client says, in pieces of any size.
    pub(super) pieces: BoxStream<'static, Bytes>,
    pub(super) line: Line,
}

/// The way to a client.
pub(super) struct Line {
    /// What it is told.
    pub(super) frames: mpsc::Sender<Bytes>,
    /// A task of its own: whoever reads may wait for a Pod, which may wait for us to write.
    writer: JoinHandle<()>,
}

impl Wire {
    pub(super) fn socket(socket: Socket) -> Self {
        let (mut sink, source) = socket.split();
        let open = source.take_while(|message| {
            let open = matches!(message, Ok(message) if !message.is_close());
            async move { open }
        });
        let pieces = open.filter_map(async |message| match message {
            Ok(Message::Binary(bytes)) => Some(bytes),
            _ => None,
        });
        let (frames, mut queue) = mpsc::channel(WAITING);
        let writer = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                if sink.send(Message::Binary(frame)).await.is_err() {
                    break;
                }
            }
            drop(sink.close().await);
        });
        Self { pieces: pieces.boxed(), line: Line { frames, writer } }
    }

    pub(super) fn plain(upgraded: Upgraded) -> Self {
        let (source, mut sink) = tokio::io::split(TokioIo::new(upgraded));
        let pieces = stream::unfold(source, async |mut source| {
            let mut piece = BytesMut::with_capacity(PIECE);
            match source.read_buf(&mut piece).await {
                Ok(1..) => Some((piece.freeze(), source)),
                _ => None,
            }
        });
        let (frames, mut queue) = mpsc::channel::<Bytes>(WAITING);
        let writer = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                if sink.write_all(&frame).await.is_err() {
                    break;
                }
            }
            drop(sink.shutdown().await);
        });
        Self { pieces: pieces.boxed(), line: Line { frames, writer } }
    }
}

impl Line {
    /// Returns when everything that was said is on its way. Whoever still has `frames` can go on.
    pub(super) async fn finish(self) {
        drop(self.frames);
        drop(self.writer.await);
    }
}
