//! exec and attach over SPDY, for kubectl before 1.31: one SPDY stream per standard stream, one for terminal sizes, and
//! one for the result.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::job::{self, Ends, Job, Wanted};
use super::spdy::{Cause, Frame, FrameReader, FrameWriter, Headers, SpdyError};
use super::transport::Transport;
use crate::kubelet::{Kubelet, TerminalSize};

/// How long a client may take to open its streams.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a terminal size message, in bytes.
const MAX_SIZE_MESSAGE: usize = 4096;

/// The type of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Error,
    Stdin,
    Stdout,
    Stderr,
    Resize,
}

impl Part {
    fn of(headers: &Headers) -> Option<Self> {
        match headers.get("streamtype")? {
            "error" => Some(Self::Error),
            "stdin" => Some(Self::Stdin),
            "stdout" => Some(Self::Stdout),
            "stderr" => Some(Self::Stderr),
            "resize" => Some(Self::Resize),
            _ => None,
        }
    }

    /// The streams that a client opens.
    fn all(wanted: Wanted) -> Vec<Self> {
        let Wanted { stdin, stdout, stderr, tty } = wanted;
        let parts = [
            (Self::Error, true),
            (Self::Stdin, stdin),
            (Self::Stdout, stdout),
            (Self::Stderr, stderr),
            (Self::Resize, tty),
        ];
        parts.into_iter().filter_map(|(part, wanted)| wanted.then_some(part)).collect()
    }
}

/// Serves a client until its process exits or it disconnects.
pub(super) async fn serve_streams(wire: Transport, wanted: Wanted, node: Arc<dyn Kubelet>, job: Job) {
    let Transport { pieces, line } = wire;
    let (Ends { stdin, stdout, stderr, sizes }, streams) = job::connect(wanted);
    let (opened, all_opened) = oneshot::channel();
    let client = Client {
        wanted: Part::all(wanted),
        streams: HashMap::new(),
        opened: Some(opened),
        writer: FrameWriter::default(),
        frames: line.frames.clone(),
        stdin,
        sizes,
        size: Vec::new(),
    };
    let mut client = tokio::spawn(client.listen(pieces));
    if let Ok(Ok(numbers)) = timeout(OPEN_TIMEOUT, all_opened).await {
        let number = |part| numbers.get(&part).copied().unwrap_or_default();
        let pump = |source, part| {
            let stream = number(part);
            tokio::spawn(job::pump(source, line.frames.clone(), move |piece| FrameWriter::data(stream, piece, false)))
        };
        let pumps = [pump(stdout, Part::Stdout), pump(stderr, Part::Stderr)];
        if let Some(outcome) = job::run_job(job, &*node, streams, &mut client, pumps).await {
            let status = job::status(&outcome).to_string();
            drop(line.frames.send(FrameWriter::data(number(Part::Error), status.as_bytes(), false)).await);
            for stream in numbers.into_values() {
                drop(line.frames.send(FrameWriter::data(stream, &[], true)).await);
            }
            // Let the client close the connection once it has read everything: closing it here could send a reset that
            // overtakes the last output.
            drop(timeout(OPEN_TIMEOUT, &mut client).await);
        }
    }
    client.abort();
    line.finish().await;
}

/// The receiving side of a client.
struct Client {
    wanted: Vec<Part>,
    streams: HashMap<u32, Part>,
    /// Notified when the client has opened all streams.
    opened: Option<oneshot::Sender<HashMap<Part, u32>>>,
    writer: FrameWriter,
    frames: mpsc::Sender<Bytes>,
    stdin: Option<DuplexStream>,
    sizes: mpsc::Sender<TerminalSize>,
    /// The incomplete next terminal size.
    size: Vec<u8>,
}

impl Client {
    /// Forwards frames of the client to the process, until the client disconnects.
    async fn listen(mut self, mut pieces: BoxStream<'static, Bytes>) {
        let mut reader = FrameReader::new();
        while let Some(piece) = pieces.next().await {
            reader.push(&piece);
            if let Err(problem) = self.take(&mut reader).await {
                tracing::debug!(%problem, "invalid SPDY frame from an exec client");
                return;
            }
        }
    }

    async fn take(&mut self, reader: &mut FrameReader) -> Result<(), SpdyError> {
        while let Some(frame) = reader.next()? {
            match frame {
                Frame::Open { stream, headers, last } => self.open(stream, &headers, last).await,
                Frame::Data { stream, bytes, last } => self.data(stream, &bytes, last).await,
                Frame::Reset { stream } => {
                    if self.streams.get(&stream) == Some(&Part::Stdin) {
                        self.stdin = None;
                    }
                }
                // Odd numbers are pings of the client.
                Frame::Ping(id) if id % 2 == 1 => self.send(FrameWriter::pong(id)).await,
                Frame::Ping(_) | Frame::GoAway | Frame::Ignored => {}
            }
        }
        Ok(())
    }

    async fn send(&self, frame: Bytes) {
        // An error means that the client is gone, which the reader notices.
        drop(self.frames.send(frame).await);
    }

    async fn open(&mut self, stream: u32, headers: &Headers, last: bool) {
        let part = Part::of(headers).filter(|part| self.wanted.contains(part));
        let Some(part) = part.filter(|part| !self.streams.values().any(|known| known == part)) else {
            return self.send(FrameWriter::reset(stream, Cause::Refused)).await;
        };
        if self.streams.insert(stream, part).is_some() {
            return self.send(FrameWriter::reset(stream, Cause::Protocol)).await;
        }
        let reply = self.writer.accept(stream);
        self.send(reply).await;
        if last && part == Part::Stdin {
            self.stdin = None;
        }
        if self.streams.len() == self.wanted.len()
            && let Some(opened) = self.opened.take()
        {
            // The receiver may have timed out.
            drop(opened.send(self.streams.iter().map(|(stream, part)| (*part, *stream)).collect()));
        }
    }

    async fn data(&mut self, stream: u32, bytes: &[u8], last: bool) {
        match self.streams.get(&stream) {
            Some(Part::Stdin) => {
                // The process may have closed its input; keep receiving.
                if let Some(open) = self.stdin.as_mut()
                    && open.write_all(bytes).await.is_err()
                {
                    self.stdin = None;
                }
                if last {
                    self.stdin = None;
                }
            }
            Some(Part::Resize) => self.resize(bytes).await,
            // The client closes its side of an output stream.
            Some(_) => {}
            None => self.send(FrameWriter::reset(stream, Cause::Invalid)).await,
        }
    }

    /// Sizes arrive as concatenated JSON, split anywhere.
    async fn resize(&mut self, bytes: &[u8]) {
        self.size.extend_from_slice(bytes);
        let mut sizes = serde_json::Deserializer::from_slice(&self.size).into_iter();
        let mut read = Vec::new();
        while let Some(Ok(size)) = sizes.next() {
            read.push(size);
        }
        let taken = sizes.byte_offset();
        self.size.drain(..taken);
        if self.size.len() > MAX_SIZE_MESSAGE {
            self.size.clear();
        }
        for size in read {
            if self.sizes.send(size).await.is_err() {
                tracing::trace!("terminal size dropped");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sizes_are_read_however_they_are_cut() {
        let (frames, _) = mpsc::channel(1);
        let (sizes, mut seen) = mpsc::channel(4);
        let mut client = Client {
            wanted: Vec::new(),
            streams: HashMap::new(),
            opened: None,
            writer: FrameWriter::default(),
            frames,
            stdin: None,
            sizes,
            size: Vec::new(),
        };
        for piece in ["{\"Width\":80,\"Hei", "ght\":24}\n{\"Width\":1,", "\"Height\":2}\n"] {
            client.resize(piece.as_bytes()).await;
        }
        assert_eq!(seen.try_recv().unwrap(), TerminalSize { width: 80, height: 24 });
        assert_eq!(seen.try_recv().unwrap(), TerminalSize { width: 1, height: 2 });
        client.resize(&[b'x'; MAX_SIZE_MESSAGE + 1]).await;
        assert!(client.size.is_empty());
    }
}
