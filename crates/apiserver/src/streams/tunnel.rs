//! port-forward over SPDY, the protocol of kubectl; since 1.31 inside a WebSocket. For each connection the client opens
//! two streams with the same request id: an error stream, then a data stream.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::spdy::{Cause, Frame, FrameReader, FrameWriter, Headers, SpdyError};
use super::transport::Transport;
use crate::kubelet::Kubelet;

/// Maximum number of open streams: a browser opens some dozens of connections, with two streams each.
const MAX_STREAMS: usize = 1024;
/// Number of data chunks queued for a slow Pod. Then nothing more is read from the client.
const QUEUE: usize = 16;
/// Maximum size of a chunk read from a Pod.
const CHUNK: usize = 32 * 1024;

#[derive(Clone)]
pub(super) struct Target {
    pub(super) node: Arc<dyn Kubelet>,
    pub(super) namespace: String,
    pub(super) pod: String,
}

/// Serves a client until it disconnects.
pub(super) async fn serve_streams(wire: Transport, target: Target) {
    let Transport { mut pieces, line } = wire;
    let mut reader = FrameReader::new();
    let mut client = Client::new(target, line.frames.clone());
    while let Some(piece) = pieces.next().await {
        reader.push(&piece);
        if let Err(problem) = client.take(&mut reader).await {
            tracing::debug!(%problem, "invalid SPDY frame from a port-forward client");
            break;
        }
    }
    // Drops its connections, and with them the last senders of frames.
    drop(client);
    line.finish().await;
}

/// The type of a stream.
enum Purpose {
    /// Reports errors of the connection with this request id.
    Error { request: String },
    /// Data for the Pod. The sender is dropped when the client has closed its side; dropping `_wanted` closes the
    /// connection.
    Data { input: Option<mpsc::Sender<Bytes>>, _wanted: oneshot::Sender<()> },
}

struct Client {
    target: Target,
    writer: FrameWriter,
    frames: mpsc::Sender<Bytes>,
    streams: HashMap<u32, Purpose>,
    /// The highest stream id so far: ids only grow.
    newest: u32,
    connections: JoinSet<Connection>,
}

/// The two streams of a connection.
#[derive(Clone, Copy)]
struct Connection {
    data: u32,
    error: u32,
}

impl Client {
    fn new(target: Target, frames: mpsc::Sender<Bytes>) -> Self {
        let (writer, streams, connections) = (FrameWriter::default(), HashMap::new(), JoinSet::new());
        Self { target, writer, frames, streams, newest: 0, connections }
    }

    /// Handles the received frames.
    async fn take(&mut self, reader: &mut FrameReader) -> Result<(), SpdyError> {
        while let Some(frame) = reader.next()? {
            self.forget_ended();
            match frame {
                Frame::Open { stream, headers, last } => self.open(stream, &headers, last).await,
                Frame::Data { stream, bytes, last } => self.data(stream, bytes, last).await,
                Frame::Reset { stream } => drop(self.streams.remove(&stream)),
                // Odd numbers are pings of the client.
                Frame::Ping(id) if id % 2 == 1 => self.send(FrameWriter::pong(id)).await,
                Frame::Ping(_) | Frame::GoAway | Frame::Ignored => {}
            }
        }
        Ok(())
    }

    fn forget_ended(&mut self) {
        while let Some(ended) = self.connections.try_join_next() {
            if let Ok(Connection { data, error }) = ended {
                self.streams.remove(&data);
                self.streams.remove(&error);
            }
        }
    }

    async fn send(&self, frame: Bytes) {
        send(&self.frames, frame).await;
    }

    async fn open(&mut self, stream: u32, headers: &Headers, last: bool) {
        // Clients use odd ids, each once.
        if stream.is_multiple_of(2) || stream <= self.newest {
            return self.send(FrameWriter::reset(stream, Cause::Protocol)).await;
        }
        self.newest = stream;
        let accepted = match self.purpose(headers) {
            Some(wanted) if self.streams.len() < MAX_STREAMS => wanted,
            _ => return self.send(FrameWriter::reset(stream, Cause::Refused)).await,
        };
        let reply = self.writer.accept(stream);
        self.send(reply).await;
        match accepted {
            Wanted::Error { request } => drop(self.streams.insert(stream, Purpose::Error { request })),
            Wanted::Data { port, error } => {
                let (input, received) = mpsc::channel(QUEUE);
                let (wanted, unwanted) = oneshot::channel();
                let connection = Connection { data: stream, error };
                let (target, frames) = (self.target.clone(), self.frames.clone());
                self.connections.spawn(async move {
                    tokio::select! {
                        () = forward(&target, port, connection, received, &frames) => {}
                        _ = unwanted => {}
                    }
                    // The client waits for the end of both streams, even if it does not wait for the Pod.
                    send(&frames, FrameWriter::data(connection.data, &[], true)).await;
                    send(&frames, FrameWriter::data(connection.error, &[], true)).await;
                    connection
                });
                let purpose = Purpose::Data { input: (!last).then_some(input), _wanted: wanted };
                self.streams.insert(stream, purpose);
            }
        }
    }

    /// The type of a new stream according to its headers.
    fn purpose(&self, headers: &Headers) -> Option<Wanted> {
        let port: u16 = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
        let request = headers.get("requestid")?;
        let is_error_of_request =
            |purpose: &Purpose| matches!(purpose, Purpose::Error { request: known } if known == request);
        let error = self.streams.iter().find(|(_, purpose)| is_error_of_request(purpose)).map(|(id, _)| *id);
        match (headers.get("streamtype")?, error) {
            ("error", None) => Some(Wanted::Error { request: request.to_owned() }),
            ("data", Some(error)) => Some(Wanted::Data { port, error }),
            _ => None,
        }
    }

    async fn data(&mut self, stream: u32, bytes: Bytes, last: bool) {
        match self.streams.get_mut(&stream) {
            Some(Purpose::Data { input, .. }) => {
                if let Some(open) = input
                    && !bytes.is_empty()
                    && open.send(bytes).await.is_err()
                {
                    // The Pod has closed the connection; the client is being notified.
                    *input = None;
                }
                if last {
                    *input = None;
                }
            }
            // The client closes its side of the error stream.
            Some(Purpose::Error { .. }) => {}
            // Usually in transit when the stream was closed; the client ignores the reset.
            None => self.send(FrameWriter::reset(stream, Cause::Invalid)).await,
        }
    }
}

/// A valid new stream.
enum Wanted {
    Error { request: String },
    Data { port: u16, error: u32 },
}

async fn send(frames: &mpsc::Sender<Bytes>, frame: Bytes) {
    // An error means that the client is gone, which the reader notices.
    drop(frames.send(frame).await);
}

/// Relays one connection until the Pod closes it.
async fn forward(
    target: &Target,
    port: u16,
    streams: Connection,
    mut input: mpsc::Receiver<Bytes>,
    frames: &mpsc::Sender<Bytes>,
) {
    match target.node.port_forward(&target.namespace, &target.pod, port).await {
        Ok(stream) => {
            let (mut reader, mut writer) = tokio::io::split(stream);
            let inwards = async {
                while let Some(bytes) = input.recv().await {
                    if writer.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                // The Pod may still respond.
                drop(writer.shutdown().await);
            };
            let outwards = async {
                let mut buffer = vec![0; CHUNK];
                // A broken connection counts as closed.
                while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                    let piece = buffer.get(..count).unwrap_or_default();
                    send(frames, FrameWriter::data(streams.data, piece, false)).await;
                }
            };
            // Only the Pod's side ends the connection: its response may come long after the last byte of the client.
            tokio::pin!(inwards, outwards);
            tokio::select! {
                () = &mut outwards => {}
                () = &mut inwards => outwards.await,
            }
        }
        Err(problem) => {
            let text = format!("error forwarding port {port} to pod {}: {problem}", target.pod);
            send(frames, FrameWriter::data(streams.error, text.as_bytes(), false)).await;
        }
    }
}
