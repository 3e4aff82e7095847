//! The transport of SPDY frames: a plain connection (kubectl before 1.31), or a WebSocket.

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

/// Number of frames queued for a slow client.
const QUEUE: usize = 16;
/// Maximum size of a chunk.
const CHUNK: usize = 32 * 1024;

/// A bidirectional transport.
pub(super) struct Transport {
    /// Data of the client in chunks of any size.
    pub(super) pieces: BoxStream<'static, Bytes>,
    pub(super) line: FrameSender,
}

/// The sending side.
pub(super) struct FrameSender {
    pub(super) frames: mpsc::Sender<Bytes>,
    /// A separate task: the reader may wait for a Pod that waits for our writes.
    writer: JoinHandle<()>,
}

impl Transport {
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
        let (frames, mut queue) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                if sink.send(Message::Binary(frame)).await.is_err() {
                    break;
                }
            }
            drop(sink.close().await);
        });
        Self { pieces: pieces.boxed(), line: FrameSender { frames, writer } }
    }

    pub(super) fn plain(upgraded: Upgraded) -> Self {
        let (source, mut sink) = tokio::io::split(TokioIo::new(upgraded));
        let pieces = stream::unfold(source, async |mut source| {
            let mut piece = BytesMut::with_capacity(CHUNK);
            match source.read_buf(&mut piece).await {
                Ok(1..) => Some((piece.freeze(), source)),
                _ => None,
            }
        });
        let (frames, mut queue) = mpsc::channel::<Bytes>(QUEUE);
        let writer = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                if sink.write_all(&frame).await.is_err() {
                    break;
                }
            }
            drop(sink.shutdown().await);
        });
        Self { pieces: pieces.boxed(), line: FrameSender { frames, writer } }
    }
}

impl FrameSender {
    /// Waits until all frames are sent. Other holders of `frames` can continue to send.
    pub(super) async fn finish(self) {
        drop(self.frames);
        drop(self.writer.await);
    }
}
