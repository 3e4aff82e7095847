//! The process of an exec or attach, independent of the transport.

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::kubelet::{Attach, Exec, Exit, Kubelet, KubeletError, Streams, TerminalSize};
use crate::request::Query;

/// Buffer of a stream for a slow reader, in bytes.
const BUFFER: usize = 64 * 1024;
/// Maximum size of a chunk.
const CHUNK: usize = 32 * 1024;

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

/// The streams that the client requests.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl Wanted {
    pub(super) fn of(query: &Query, job: &Job) -> Self {
        let tty = job.tty();
        // A terminal has a single output.
        let stderr = query.flag("stderr") && !tty;
        Self { stdin: query.flag("stdin"), stdout: query.flag("stdout"), stderr, tty }
    }
}

/// The client's ends of the streams.
pub(super) struct Ends {
    pub(super) stdin: Option<DuplexStream>,
    pub(super) stdout: Option<DuplexStream>,
    pub(super) stderr: Option<DuplexStream>,
    pub(super) sizes: mpsc::Sender<TerminalSize>,
}

/// Creates both ends of the requested streams.
pub(super) fn connect(wanted: Wanted) -> (Ends, Streams) {
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
    (Ends { stdin, stdout, stderr, sizes }, streams)
}

fn pipe(wanted: bool) -> (Option<DuplexStream>, Option<DuplexStream>) {
    if wanted {
        let (near, far) = tokio::io::duplex(BUFFER);
        (Some(near), Some(far))
    } else {
        (None, None)
    }
}

/// Copies the output of a process to the client, in chunks encoded by `wrap`.
pub(super) async fn pump<M>(
    source: Option<impl AsyncRead + Unpin>,
    messages: mpsc::Sender<M>,
    wrap: impl Fn(&[u8]) -> M,
) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        if messages.send(wrap(buffer.get(..count).unwrap_or_default())).await.is_err() {
            return;
        }
    }
}

/// Runs the process while the client is connected. Returns its result once all output is queued, or `None` if the
/// client disconnected, which stops the process.
pub(super) async fn run_job(
    job: Job,
    node: &dyn Kubelet,
    streams: Streams,
    client: &mut JoinHandle<()>,
    pumps: [JoinHandle<()>; 2],
) -> Option<Result<Exit, KubeletError>> {
    let outcome = tokio::select! {
        outcome = job.run(node, streams) => outcome,
        _ = client => return None,
    };
    for pump in pumps {
        drop(pump.await);
    }
    Some(outcome)
}

/// The final `Status` message with the exit code.
pub(super) fn status(outcome: &Result<Exit, KubeletError>) -> Value {
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
    fn the_exit_code_is_where_kubectl_reads_it() {
        assert_eq!(status(&Ok(Exit(0)))["status"], "Success");
        let failed = status(&Ok(Exit(3)));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
    }
}
