//! What runs at the other end of an exec or attach, whatever carries its streams.

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::kubelet::{Attach, Exec, Exit, Kubelet, KubeletError, Streams, TerminalSize};
use crate::request::Query;

/// How much of a stream waits in memory for a slow reader.
const BUFFER: usize = 64 * 1024;
/// The largest piece of a stream that is passed on.
const PIECE: usize = 32 * 1024;

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

/// Which streams the client wants.
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
        // A terminal has one output.
        let stderr = query.flag("stderr") && !tty;
        Self { stdin: query.flag("stdin"), stdout: query.flag("stdout"), stderr, tty }
    }
}

/// The client's ends of a job's streams.
pub(super) struct Ends {
    pub(super) stdin: Option<DuplexStream>,
    pub(super) stdout: Option<DuplexStream>,
    pub(super) stderr: Option<DuplexStream>,
    pub(super) sizes: mpsc::Sender<TerminalSize>,
}

/// Both ends of the streams that are wanted.
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

/// Passes what a process writes to the client, in pieces that `wrap` makes ready for the way.
pub(super) async fn pump<M>(
    source: Option<impl AsyncRead + Unpin>,
    messages: mpsc::Sender<M>,
    wrap: impl Fn(&[u8]) -> M,
) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        if messages.send(wrap(buffer.get(..count).unwrap_or_default())).await.is_err() {
            return;
        }
    }
}

/// Runs a job as long as its client listens. Answers how it ended once everything that it printed is on its way, and
/// nothing if the client left, which ends the job.
pub(super) async fn attend(
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

/// The last message: how it ended.
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
    fn the_exit_code_is_told_where_kubectl_looks_for_it() {
        assert_eq!(status(&Ok(Exit(0)))["status"], "Success");
        let failed = status(&Ok(Exit(3)));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
    }
}
