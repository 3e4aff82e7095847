//! exec and attach over WebSocket: the first byte of a message is the channel of its stream.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::SplitStream;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::job::{self, Ends, Job, Wanted};
use super::transport::Transport;
use super::{Carrier, Handshake, Socket, deliver, remote, socket, upgraded};
use crate::api::Call;
use crate::http::ApiResponse;
use crate::kubelet::{Kubelet, TerminalSize};
use crate::request::Query;
use crate::status_error::StatusError;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The channel that closes another channel, since v5.
const CLOSE: u8 = 255;

const V4: &str = "v4.channel.k8s.io";
const PROTOCOLS: &[&str] = &["v5.channel.k8s.io", V4];

/// Responds to an exec or attach request, and serves the streams in the background.
pub(crate) fn run(call: Call, query: &Query, node: Arc<dyn Kubelet>, job: Job) -> Result<ApiResponse, StatusError> {
    let wanted = Wanted::of(query, &job);
    let Handshake { answer, upgrade, carrier } = Handshake::accept(call, PROTOCOLS, V4)?;
    tokio::spawn(async move {
        let Some(connection) = upgraded(upgrade).await else { return };
        match carrier {
            Carrier::Spdy => remote::serve_streams(Transport::plain(connection), wanted, node, job).await,
            Carrier::Socket(_) => serve_streams(socket(connection).await, wanted, node, job).await,
        }
    });
    Ok(answer)
}

async fn serve_streams(socket: Socket, wanted: Wanted, node: Arc<dyn Kubelet>, job: Job) {
    let (sink, source) = socket.split();
    let (messages, queue) = mpsc::channel(16);
    let sender = tokio::spawn(deliver(sink, queue));
    let (Ends { stdin, stdout, stderr, sizes }, streams) = job::connect(wanted);
    let pump = |source, channel| {
        let wrap = move |piece: &[u8]| Message::Binary([&[channel], piece].concat().into());
        tokio::spawn(job::pump(source, messages.clone(), wrap))
    };
    let pumps = [pump(stdout, STDOUT), pump(stderr, STDERR)];
    let mut client = tokio::spawn(receive(source, stdin, sizes, messages.clone()));
    if let Some(outcome) = job::run_job(job, &*node, streams, &mut client, pumps).await {
        let mut last = vec![ERROR];
        last.extend(job::status(&outcome).to_string().into_bytes());
        drop(messages.send(Message::Binary(last.into())).await);
        // Without a close code kubectl reports an abnormal end.
        let end = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        drop(messages.send(Message::Close(Some(end))).await);
    }
    client.abort();
    drop(messages);
    drop(sender.await);
}

/// Forwards messages of the client to the process, until the client disconnects.
async fn receive(
    mut source: SplitStream<Socket>,
    mut stdin: Option<DuplexStream>,
    sizes: mpsc::Sender<TerminalSize>,
    messages: mpsc::Sender<Message>,
) {
    while let Some(Ok(message)) = source.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Ping(bytes) => {
                drop(messages.send(Message::Pong(bytes)).await);
                continue;
            }
            Message::Close(_) => return,
            Message::Pong(_) | Message::Frame(_) => continue,
        };
        match bytes.split_first() {
            Some((&STDIN, input)) => {
                // The process may have closed its input; keep receiving.
                if let Some(open) = stdin.as_mut()
                    && open.write_all(input).await.is_err()
                {
                    stdin = None;
                }
            }
            Some((&RESIZE, size)) => {
                if let Ok(size) = serde_json::from_slice(size)
                    && sizes.send(size).await.is_err()
                {
                    tracing::trace!("terminal size dropped");
                }
            }
            Some((&CLOSE, [STDIN, ..])) => stdin = None,
            _ => {}
        }
    }
}
