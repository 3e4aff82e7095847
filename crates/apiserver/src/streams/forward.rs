//! port-forward over plain WebSockets: two channels per port, one for data and one for errors. [`super::tunnel`] is the
//! protocol of kubectl.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::transport::Transport;
use super::tunnel::{self, Target};
use super::{Carrier, Handshake, Socket, deliver, socket, upgraded};
use crate::api::Call;
use crate::http::ApiResponse;
use crate::kubelet::Kubelet;
use crate::request::Query;
use crate::status_error::StatusError;

/// SPDY inside a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The stream protocol of plain SPDY.
const PLAIN: &str = "portforward.k8s.io";
const PROTOCOLS: &[&str] = &[TUNNEL, "v4.channel.k8s.io"];
/// The channel is one byte, and each port has two channels.
const MAX_PORTS: usize = 128;

/// Responds to a port-forward request, and serves the streams in the background.
pub(crate) fn forward(
    call: Call,
    query: &Query,
    node: Arc<dyn Kubelet>,
    namespace: String,
    pod: String,
) -> Result<ApiResponse, StatusError> {
    let mut ports = Vec::new();
    for port in query.all("ports").flat_map(|list| list.split(',')) {
        let number: u16 = port.parse().map_err(|_| StatusError::bad_request(format!("invalid port {port:?}")))?;
        ports.push(number);
    }
    if ports.len() > MAX_PORTS {
        return Err(StatusError::bad_request(format!("at most {MAX_PORTS} ports can be forwarded at once")));
    }
    let Handshake { answer, upgrade, carrier } = Handshake::accept(call, PROTOCOLS, PLAIN)?;
    let target = Target { node, namespace, pod };
    tokio::spawn(async move {
        let Some(connection) = upgraded(upgrade).await else { return };
        match carrier {
            Carrier::Spdy => tunnel::serve_streams(Transport::plain(connection), target).await,
            Carrier::Socket(TUNNEL) => tunnel::serve_streams(Transport::socket(socket(connection).await), target).await,
            Carrier::Socket(_) => serve_streams(socket(connection).await, &target, ports).await,
        }
    });
    Ok(answer)
}

fn data_channel(index: usize) -> u8 {
    u8::try_from(index * 2).unwrap_or(u8::MAX - 1)
}

async fn serve_streams(socket: Socket, target: &Target, ports: Vec<u16>) {
    let (sink, mut source) = socket.split();
    let (messages, queue) = mpsc::channel::<Message>(16);
    // A separate task: the reader may wait for a Pod that waits for our writes.
    let mut sender = tokio::spawn(deliver(sink, queue));
    let mut inputs: HashMap<u8, mpsc::Sender<bytes::Bytes>> = HashMap::new();
    let mut connections = tokio::task::JoinSet::new();
    for (index, port) in ports.into_iter().enumerate() {
        let channel = data_channel(index);
        // Both channels begin with their port number.
        for channel in [channel, channel + 1] {
            let [low, high] = port.to_le_bytes();
            drop(messages.send(Message::Binary(vec![channel, low, high].into())).await);
        }
        let (input, received) = mpsc::channel(16);
        inputs.insert(channel, input);
        let (target, messages) = (target.clone(), messages.clone());
        connections.spawn(async move {
            if let Err(problem) = relay(&target, port, channel, received, &messages).await {
                let mut message = vec![channel + 1];
                message.extend(problem.into_bytes());
                drop(messages.send(Message::Binary(message.into())).await);
            }
        });
    }
    // The connections hold the other senders: the queue closes when they end.
    drop(messages);
    loop {
        let message = tokio::select! {
            message = source.next() => message,
            _ = &mut sender => return,
        };
        match message {
            Some(Ok(Message::Binary(mut bytes))) if !bytes.is_empty() => {
                let channel = bytes.split_to(1);
                if let Some(input) = channel.first().and_then(|channel| inputs.get(channel))
                    && input.send(bytes).await.is_err()
                {
                    // The connection to the port is closed; the client notices by itself.
                    tracing::trace!("data for a closed port");
                }
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            Some(Ok(_)) => {}
        }
    }
    drop(connections);
    drop(sender.await);
}

async fn relay(
    target: &Target,
    port: u16,
    channel: u8,
    mut input: mpsc::Receiver<bytes::Bytes>,
    output: &mpsc::Sender<Message>,
) -> Result<(), String> {
    let stream = target.node.port_forward(&target.namespace, &target.pod, port).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let inwards = async {
        while let Some(bytes) = input.recv().await {
            writer.write_all(&bytes).await?;
        }
        writer.shutdown().await
    };
    let outwards = async {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let count = reader.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            let mut message = Vec::with_capacity(count + 1);
            message.push(channel);
            message.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if output.send(Message::Binary(message.into())).await.is_err() {
                return Ok(());
            }
        }
    };
    let ended: std::io::Result<()> = tokio::select! {
        ended = outwards => ended,
        Err(error) = inwards => Err(error),
    };
    ended.map_err(|error| error.to_string())
}
