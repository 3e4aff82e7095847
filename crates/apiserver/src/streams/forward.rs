//! port-forward: two channels for each port, one for data and one for what went wrong.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::{Handshake, Socket, open};
use crate::api::Call;
use crate::http::Answer;
use crate::kubelet::Kubelet;
use crate::refusal::Refusal;
use crate::request::Query;

const PROTOCOLS: &[&str] = &["v4.channel.k8s.io"];

/// Answers a port-forward request; the streams follow by themselves.
pub(crate) fn forward(
    call: Call,
    query: &Query,
    node: Arc<dyn Kubelet>,
    namespace: String,
    pod: String,
) -> Result<Answer, Refusal> {
    let mut ports = Vec::new();
    for port in query.all("ports").flat_map(|list| list.split(',')) {
        let number: u16 = port.parse().map_err(|_| Refusal::bad_request(format!("invalid port {port:?}")))?;
        ports.push(number);
    }
    let Handshake { answer, upgrade } = Handshake::accept(call, PROTOCOLS)?;
    tokio::spawn(async move {
        if let Some(socket) = open(upgrade).await {
            converse(socket, node, namespace, pod, ports).await;
        }
    });
    Ok(answer)
}

fn data_channel(index: usize) -> u8 {
    u8::try_from(index * 2).unwrap_or(u8::MAX)
}

async fn converse(socket: Socket, node: Arc<dyn Kubelet>, namespace: String, pod: String, ports: Vec<u16>) {
    let (mut sink, mut source) = socket.split();
    let (messages, mut queue) = mpsc::channel::<Message>(16);
    let mut inputs: HashMap<u8, mpsc::Sender<bytes::Bytes>> = HashMap::new();
    let mut tasks = tokio::task::JoinSet::new();
    for (index, port) in ports.into_iter().enumerate() {
        let channel = data_channel(index);
        // Both channels begin by naming their port.
        for channel in [channel, channel + 1] {
            let [low, high] = port.to_le_bytes();
            drop(messages.send(Message::Binary(vec![channel, low, high].into())).await);
        }
        let (input, received) = mpsc::channel(16);
        inputs.insert(channel, input);
        let (node, namespace, pod, messages) = (Arc::clone(&node), namespace.clone(), pod.clone(), messages.clone());
        tasks.spawn(async move {
            if let Err(problem) = relay(&*node, &namespace, &pod, port, channel, received, &messages).await {
                let mut message = vec![channel + 1];
                message.extend(problem.into_bytes());
                drop(messages.send(Message::Binary(message.into())).await);
            }
        });
    }
    drop(messages);
    loop {
        tokio::select! {
            message = queue.recv() => match message {
                Some(message) => if sink.send(message).await.is_err() { break },
                None => break,
            },
            message = source.next() => {
                let Some(Ok(message)) = message else { break };
                match message {
                    Message::Binary(mut bytes) if !bytes.is_empty() => {
                        let channel = bytes.split_to(1);
                        if let Some(input) = channel.first().and_then(|channel| inputs.get(channel))
                            && input.send(bytes).await.is_err()
                        {
                            // The connection to the port has ended; its client will notice by itself.
                            tracing::trace!("data for a port that is closed");
                        }
                    }
                    Message::Close(_) => break,
                    _ => {}
                }
            }
        }
    }
    drop(sink.close().await);
}

/// One connection to a port.
async fn relay(
    node: &dyn Kubelet,
    namespace: &str,
    pod: &str,
    port: u16,
    channel: u8,
    mut input: mpsc::Receiver<bytes::Bytes>,
    output: &mpsc::Sender<Message>,
) -> Result<(), String> {
    let stream = node.port_forward(namespace, pod, port).await.map_err(|error| error.to_string())?;
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
