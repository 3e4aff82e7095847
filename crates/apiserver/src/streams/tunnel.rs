//! `kubectl port-forward`: SPDY, since 1.31 inside a WebSocket. For each connection the client opens two streams with the same
//! request number: first one on which it hears what went wrong, then one for data.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::spdy::{Cause, Frame, FrameReader, FrameWriter, Headers, SpdyError};
use super::wire::Wire;
use crate::kubelet::Kubelet;

/// How many streams may be open at once: a browser opens some dozens of connections, with two streams each.
const MOST_STREAMS: usize = 1024;
/// How many pieces of data wait for a Pod that is slow. Then nothing more is read from the client.
const WAITING: usize = 16;
/// The largest piece of data that is read from a Pod.
const PIECE: usize = 32 * 1024;

/// A Pod whose ports are forwarded.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) node: Arc<dyn Kubelet>,
    pub(super) namespace: String,
    pub(super) pod: String,
}

/// Serves a client until it goes away.
pub(super) async fn converse(wire: Wire, target: Target) {
    let Wire { mut pieces, line } = wire;
    let mut reader = FrameReader::new();
    let mut client = Client::new(target, line.frames.clone());
    while let Some(piece) = pieces.next().await {
        reader.push(&piece);
        if let Err(problem) = client.take(&mut reader).await {
            tracing::debug!(%problem, "a client that forwards ports cannot be understood");
            break;
        }
    }
    // Its connections end with it, and with them the last who write.
    drop(client);
    line.finish().await;
}

/// What a stream is for.
enum Purpose {
    /// To say what went wrong with the connection of this request.
    Error { request: String },
    /// To carry data into the Pod. The sender goes when the client has said everything; the connection ends when
    /// `_wanted` goes.
    Data { input: Option<mpsc::Sender<Bytes>>, _wanted: oneshot::Sender<()> },
}

/// A client and its connections.
struct Client {
    target: Target,
    writer: FrameWriter,
    frames: mpsc::Sender<Bytes>,
    streams: HashMap<u32, Purpose>,
    /// The greatest number of a stream so far: they only grow.
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

    /// Does what the frames say that have come.
    async fn take(&mut self, reader: &mut FrameReader) -> Result<(), SpdyError> {
        while let Some(frame) = reader.next()? {
            self.forget_ended();
            match frame {
                Frame::Open { stream, headers, last } => self.open(stream, &headers, last).await,
                Frame::Data { stream, bytes, last } => self.data(stream, bytes, last).await,
                Frame::Reset { stream } => drop(self.streams.remove(&stream)),
                // Even numbers are ours, and we ask nothing.
                Frame::Ping(id) if id % 2 == 1 => self.send(FrameWriter::pong(id)).await,
                Frame::Ping(_) | Frame::GoAway | Frame::Unimportant => {}
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
        // Clients use odd numbers, each once.
        if stream.is_multiple_of(2) || stream <= self.newest {
            return self.send(FrameWriter::reset(stream, Cause::Protocol)).await;
        }
        self.newest = stream;
        let accepted = match self.purpose(headers) {
            Some(wanted) if self.streams.len() < MOST_STREAMS => wanted,
            _ => return self.send(FrameWriter::reset(stream, Cause::Refused)).await,
        };
        let reply = self.writer.accept(stream);
        self.send(reply).await;
        match accepted {
            Wanted::Error { request } => drop(self.streams.insert(stream, Purpose::Error { request })),
            Wanted::Data { port, error } => {
                let (input, received) = mpsc::channel(WAITING);
                let (wanted, unwanted) = oneshot::channel();
                let connection = Connection { data: stream, error };
                let (target, frames) = (self.target.clone(), self.frames.clone());
                self.connections.spawn(async move {
                    tokio::select! {
                        () = forward(&target, port, connection, received, &frames) => {}
                        _ = unwanted => {}
                    }
                    // The client waits for the end of both, even if it did not wait for the Pod.
                    send(&frames, FrameWriter::data(connection.data, &[], true)).await;
                    send(&frames, FrameWriter::data(connection.error, &[], true)).await;
                    connection
                });
                let purpose = Purpose::Data { input: (!last).then_some(input), _wanted: wanted };
                self.streams.insert(stream, purpose);
            }
        }
    }

    /// What a new stream is for, if that can be told from its headers.
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
                    // The Pod has closed the connection; the client is being told.
                    *input = None;
                }
                if last {
                    *input = None;
                }
            }
            // Nobody writes there; the client only says so.
            Some(Purpose::Error { .. }) => {}
            // Often it was on its way when the stream ended; then the client does not mind.
            None => self.send(FrameWriter::reset(stream, Cause::Invalid)).await,
        }
    }
}

/// A new stream that makes sense.
enum Wanted {
    Error { request: String },
    Data { port: u16, error: u32 },
}

async fn send(frames: &mpsc::Sender<Bytes>, frame: Bytes) {
    // If it fails the client has gone, which whoever reads from it notices.
    drop(frames.send(frame).await);
}

/// One connection to a port, until the Pod ends it.
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
                // The Pod may still answer.
                drop(writer.shutdown().await);
            };
            let outwards = async {
                let mut buffer = vec![0; PIECE];
                // A connection that breaks has ended, like any other.
                while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                    let piece = buffer.get(..count).unwrap_or_default();
                    send(frames, FrameWriter::data(streams.data, piece, false)).await;
                }
            };
            // Only the Pod's side ends it: what it has to say may come long after the last word of the client.
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
