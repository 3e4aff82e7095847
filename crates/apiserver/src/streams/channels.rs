//! exec and attach: several streams in one socket. The first byte of a message says which stream it belongs to.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::SplitStream;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Handshake, Socket, deliver, open};
use crate::api::Call;
use crate::http::Answer;
use crate::kubelet::{Attach, Exec, Exit, Kubelet, KubeletError, Streams, TerminalSize};
use crate::refusal::Refusal;
use crate::request::Query;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The message that says that a stream has ended, since v5.
const CLOSE: u8 = 255;

const V5: &str = "v5.channel.k8s.io";
const PROTOCOLS: &[&str] = &[V5, "v4.channel.k8s.io"];
/// How much of a stream waits in memory for a slow reader.
const BUFFER: usize = 64 * 1024;

/// What runs at the other end.
pub(crate) enum Job {
    Exec(Exec),
    Attach(Attach),
}

impl Job {
    fn tty(&self) -> bool {
        match self {
            Self::Exec(exec) => exec.tty,
            Self::Attach(attach) => attach.tty,
        }
    }

    async fn run(self, node: &dyn Kubelet, streams: Streams) -> Result<Exit, KubeletError> {
        match self {
            Self::Exec(exec) => node.exec(exec, streams).await,
            Self::Attach(attach) => node.attach(attach, streams).await,
        }
    }
}

/// Answers an exec or attach request; the streams follow by themselves.
pub(crate) fn run(call: Call, query: &Query, node: Arc<dyn Kubelet>, job: Job) -> Result<Answer, Refusal> {
    let wanted = Wanted {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        // A terminal has one output.
        stderr: query.flag("stderr") && !job.tty(),
    };
    let Handshake { answer, upgrade, .. } = Handshake::accept(call, PROTOCOLS)?;
    tokio::spawn(async move {
        if let Some(socket) = open(upgrade).await {
            converse(socket, wanted, node, job).await;
        }
    });
    Ok(answer)
}

/// Which streams the client wants.
#[derive(Clone, Copy)]
struct Wanted {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

async fn converse(socket: Socket, wanted: Wanted, node: Arc<dyn Kubelet>, job: Job) {
    let (sink, source) = socket.split();
    let (messages, queue) = mpsc::channel(16);
    let sender = tokio::spawn(deliver(sink, queue));
    let (stdin, far_stdin) = pipe(wanted.stdin);
    let (far_stdout, stdout) = pipe(wanted.stdout);
    let (far_stderr, stderr) = pipe(wanted.stderr);
    let (sizes, far_sizes) = mpsc::channel(4);
    let streams = Streams {
        stdin: far_stdin.map(|end| Box::new(end) as _),
        stdout: far_stdout.map(|end| Box::new(end) as _),
        stderr: far_stderr.map(|end| Box::new(end) as _),
        sizes: far_sizes,
    };
    let pumps =
        [tokio::spawn(pump(stdout, STDOUT, messages.clone())), tokio::spawn(pump(stderr, STDERR, messages.clone()))];
    let mut client = tokio::spawn(receive(source, stdin, sizes, messages.clone()));
    let outcome = tokio::select! {
        outcome = job.run(&*node, streams) => Some(outcome),
        // The client is gone: dropping the job ends it.
        _ = &mut client => None,
    };
    if let Some(outcome) = outcome {
        for pump in pumps {
            drop(pump.await);
        }
        let mut last = vec![ERROR];
        last.extend(status(&outcome).to_string().into_bytes());
        drop(messages.send(Message::Binary(last.into())).await);
        // Without a code kubectl takes the end for an accident.
        let end = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        drop(messages.send(Message::Close(Some(end))).await);
    }
    client.abort();
    drop(messages);
    drop(sender.await);
}

fn pipe(wanted: bool) -> (Option<DuplexStream>, Option<DuplexStream>) {
    if wanted {
        let (near, far) = tokio::io::duplex(BUFFER);
        (Some(near), Some(far))
    } else {
        (None, None)
    }
}

/// Passes what a process writes to the client.
async fn pump(source: Option<impl AsyncRead + Unpin>, channel: u8, messages: mpsc::Sender<Message>) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let Ok(count @ 1..) = source.read(&mut buffer).await else { return };
        let mut message = Vec::with_capacity(count + 1);
        message.push(channel);
        message.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if messages.send(Message::Binary(message.into())).await.is_err() {
            return;
        }
    }
}

/// Passes what the client sends to the process, until the client goes away.
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
                // A process that no longer reads is no reason to stop listening.
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
                    tracing::trace!("nobody cares for the size of the terminal");
                }
            }
            Some((&CLOSE, [STDIN, ..])) => stdin = None,
            _ => {}
        }
    }
}

/// The last message: how it ended.
fn status(outcome: &Result<Exit, KubeletError>) -> Value {
    match outcome {
        Ok(Exit(0)) => json!({"metadata": {}, "status": "Success"}),
        Ok(Exit(code)) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => json!({
            "metadata": {},
            "status": "Failure",
            "message": error.to_string(),
            "reason": "InternalError",
            "details": {"causes": [{"message": error.to_string()}]},
            "code": 500,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_told_where_kubectl_looks_for_it() {
        assert_eq!(status(&Ok(Exit(0)))["status"], "Success");
        let failed = status(&Ok(Exit(3)));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
    }
}
