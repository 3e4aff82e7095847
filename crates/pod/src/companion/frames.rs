//! Bytes whose end says whether they are complete: frames, an empty frame, and JSON.
//!
//! The companion answers while it still reads the workspace, so its status code cannot tell how that ends.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use domain::contract::companion::{Framed, MOST_FRAMED_BYTES};
use futures::stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

/// Bytes of a frame. A longer one is refused by the receiver.
pub const FRAME: usize = 256 << 10;
/// Frames between the thread that writes and the connection.
const WAITING: usize = 4;
/// Bytes of the length of a frame.
const LENGTH: usize = 4;

/// Writes frames. Blocks while the connection is slower.
pub struct Frames {
    sender: mpsc::Sender<io::Result<Bytes>>,
    frame: Vec<u8>,
}

impl Frames {
    /// The writing end, and the body of the answer. Without [`Frames::finish`] the body breaks off.
    pub fn new() -> (Self, Body) {
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(WAITING);
        let chunks = stream::unfold((receiver, false), |(mut receiver, over)| async move {
            if over {
                return None;
            }
            match receiver.recv().await {
                Some(Ok(chunk)) if chunk.is_empty() => None,
                Some(chunk) => {
                    let over = chunk.is_err();
                    Some((chunk, (receiver, over)))
                }
                None => Some((Err(io::Error::other("the answer is incomplete")), (receiver, true))),
            }
        });
        (Self { sender, frame: Vec::new() }, Body::from_stream(chunks))
    }

    /// Ends the frames and says what they are.
    pub fn finish<T: Serialize>(mut self, end: &Framed<T>) -> io::Result<()> {
        self.send_frame()?;
        let json = serde_json::to_vec(end).map_err(io::Error::other)?;
        let mut last = vec![0; LENGTH];
        last.extend(json);
        self.send(last.into())?;
        self.send(Bytes::new())
    }

    fn send_frame(&mut self) -> io::Result<()> {
        if self.frame.len() <= LENGTH {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.frame);
        let length = u32::try_from(frame.len() - LENGTH).map_err(io::Error::other)?;
        frame[..LENGTH].copy_from_slice(&length.to_be_bytes());
        self.send(frame.into())
    }

    fn send(&self, chunk: Bytes) -> io::Result<()> {
        self.sender.blocking_send(Ok(chunk)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.frame.is_empty() {
            self.frame.reserve_exact(LENGTH + FRAME);
            self.frame.resize(LENGTH, 0);
        }
        let length = bytes.len().min(LENGTH + FRAME - self.frame.len());
        self.frame.extend_from_slice(&bytes[..length]);
        if self.frame.len() == LENGTH + FRAME {
            self.send_frame()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why frames cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    #[error("a frame is longer than {FRAME} bytes")]
    Frame,
    #[error("the end is longer than {MOST_FRAMED_BYTES} bytes")]
    End,
    #[error("the answer broke off")]
    Cut,
    #[error("the end cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Write(#[source] io::Error),
}

/// Reads frames in any pieces.
#[derive(Default)]
pub struct Reader {
    length: Vec<u8>,
    /// Bytes of the frame that are still to come.
    left: usize,
    /// The JSON, once the frames are over.
    end: Option<Vec<u8>>,
}

impl Reader {
    /// Writes the content of the frames in this piece.
    pub fn feed(&mut self, mut piece: &[u8], out: &mut dyn Write) -> Result<(), FramesError> {
        while !piece.is_empty() {
            if let Some(end) = &mut self.end {
                if (end.len() + piece.len()) as u64 > MOST_FRAMED_BYTES {
                    return Err(FramesError::End);
                }
                end.extend_from_slice(piece);
                return Ok(());
            }
            if self.left > 0 {
                let (content, rest) = piece.split_at(self.left.min(piece.len()));
                out.write_all(content).map_err(FramesError::Write)?;
                self.left -= content.len();
                piece = rest;
                continue;
            }
            let (head, rest) = piece.split_at((LENGTH - self.length.len()).min(piece.len()));
            self.length.extend_from_slice(head);
            piece = rest;
            if let Ok(length) = <[u8; LENGTH]>::try_from(self.length.as_slice()) {
                self.length.clear();
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                if self.left > FRAME {
                    return Err(FramesError::Frame);
                }
                if self.left == 0 {
                    self.end = Some(Vec::new());
                }
            }
        }
        Ok(())
    }

    /// What the frames are.
    pub fn finish<T: DeserializeOwned>(self) -> Result<Framed<T>, FramesError> {
        let end = self.end.filter(|end| !end.is_empty()).ok_or(FramesError::Cut)?;
        Ok(serde_json::from_slice(&end)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;

    async fn sent(content: Vec<u8>, end: Option<Framed<u8>>) -> Result<Vec<u8>, Vec<u8>> {
        let (mut frames, body) = Frames::new();
        let writing = tokio::task::spawn_blocking(move || {
            frames.write_all(&content).unwrap();
            if let Some(end) = end {
                frames.finish(&end).unwrap();
            }
        });
        let mut chunks = body.into_data_stream();
        let mut all = Vec::new();
        let mut whole = true;
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => all.extend_from_slice(&chunk),
                Err(_) => whole = false,
            }
        }
        writing.await.unwrap();
        if whole { Ok(all) } else { Err(all) }
    }

    fn read(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Framed<u8>), FramesError> {
        let (mut reader, mut out) = (Reader::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            reader.feed(piece, &mut out)?;
        }
        Ok((out, reader.finish()?))
    }

    #[tokio::test]
    async fn what_is_written_is_read_in_any_pieces() {
        for length in [0, 1, FRAME, FRAME + 1, 3 * FRAME] {
            let content: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let bytes = sent(content.clone(), Some(Framed::Done(7))).await.unwrap();
            for piece in [1, 3, 1 << 20] {
                assert_eq!(read(&bytes, piece).unwrap(), (content.clone(), Framed::Done(7)), "{length} {piece}");
            }
        }
    }

    #[tokio::test]
    async fn what_breaks_off_is_not_whole() {
        let cut = sent(vec![1; 2 * FRAME], None).await.unwrap_err();
        assert!(matches!(read(&cut, 1000), Err(FramesError::Cut)));
        let whole = sent(vec![1; 10], Some(Framed::Failed("no".into()))).await.unwrap();
        assert_eq!(read(&whole, 5).unwrap().1, Framed::Failed("no".into()));
        assert!(read(&whole[..whole.len() - 1], 5).is_err());
        let long = u32::try_from(FRAME + 1).unwrap().to_be_bytes();
        assert!(matches!(read(&long, 4), Err(FramesError::Frame)));
    }
}
