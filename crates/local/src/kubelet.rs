//! The connection from the API server to the node: logs, exec, attach and port-forward.

use std::sync::{Arc, Weak};

use apiserver::{Attach, Exec, Exit, Kubelet, KubeletError, LogRequest, PortStream, Streams};
use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, OptionFuture},
    stream::BoxStream,
};
use jiff::{SignedDuration, Timestamp};
use node::{LogOptions, Node};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy};

/// Forwards requests to the node while it exists.
pub(crate) struct NodeKubelet(pub(crate) Weak<Node>);

impl NodeKubelet {
    fn node(&self) -> Result<Arc<Node>, KubeletError> {
        self.0.upgrade().ok_or_else(|| KubeletError::Failed("the node is stopping".to_owned()))
    }

    fn open_log(&self, request: &LogRequest) -> Result<BoxStream<'static, bytes::Bytes>, KubeletError> {
        let options = log_options(request, Timestamp::now())?;
        let log = self.node()?.logs(&request.namespace, &request.pod, &request.container, options);
        // A read error ends the log.
        Ok(log.map_err(|error| refused(&error))?.scan((), |(), piece| futures::future::ready(piece.ok())).boxed())
    }
}

fn log_options(request: &LogRequest, now: Timestamp) -> Result<LogOptions, KubeletError> {
    let ago = request.since_seconds.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
    let from = match request.since_time.as_deref().map(str::parse::<Timestamp>) {
        Some(Err(error)) => return Err(KubeletError::BadRequest(format!("sinceTime: {error}"))),
        Some(Ok(time)) => Some(time),
        None => None,
    };
    let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    Ok(LogOptions {
        follow: request.follow,
        previous: request.previous,
        since: ago.or(from),
        tail: positive(request.tail_lines).and_then(|lines| usize::try_from(lines).ok()),
        timestamps: request.timestamps,
        limit_bytes: positive(request.limit_bytes),
    })
}

fn refused(error: &node::Error) -> KubeletError {
    use node::Error::{
        Connect, Directory, Engine, Exec, Isolation, NoContainer, NoPod, NoPrevious, NotRunning, NotStarted,
    };
    let text = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    match error {
        NoPod { .. } => KubeletError::NotFound(text),
        NoContainer { .. } | NotStarted { .. } | NoPrevious { .. } | NotRunning { .. } => {
            KubeletError::BadRequest(text)
        }
        Connect { .. } | Directory { .. } | Engine(_) | Exec(_) | Isolation(_) => KubeletError::Failed(text),
    }
}

impl Kubelet for NodeKubelet {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<BoxStream<'static, bytes::Bytes>, KubeletError>> {
        async move { self.open_log(&request) }.boxed()
    }

    fn exec(&self, request: Exec, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>> {
        async move {
            let Exec { namespace, pod, container, command, tty } = request;
            let stdin = streams.stdin.is_some();
            let node = self.node()?;
            let started =
                node.exec(&namespace, &pod, &container, command, tty, stdin).await.map_err(|error| refused(&error))?;
            drop(node);
            run(started, streams).await
        }
        .boxed()
    }

    fn attach(&self, request: Attach, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>> {
        async move {
            if streams.stdin.is_some() {
                let advice = "containers have no standard input on this node; use `kubectl exec -it` instead";
                return Err(KubeletError::BadRequest(advice.to_owned()));
            }
            let Attach { namespace, pod, container, tty: _ } = request;
            let log =
                LogRequest { namespace, pod, container, follow: true, tail_lines: Some(0), ..LogRequest::default() };
            let mut pieces = self.open_log(&log)?;
            let mut out = streams.stdout;
            while let Some(piece) = pieces.next().await {
                let Some(out) = &mut out else { continue };
                if out.write_all(&piece).await.is_err() || out.flush().await.is_err() {
                    break;
                }
            }
            Ok(Exit(0))
        }
        .boxed()
    }

    fn port_forward(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> BoxFuture<'_, Result<Box<dyn PortStream>, KubeletError>> {
        let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
        async move {
            let connection =
                self.node()?.port_forward(&namespace, &pod, port).await.map_err(|error| refused(&error))?;
            Ok(Box::new(connection) as Box<dyn PortStream>)
        }
        .boxed()
    }
}

/// Copies the streams between a client and a command until the command has exited and its output is sent.
async fn run(started: node::Exec, streams: Streams) -> Result<Exit, KubeletError> {
    let node::Exec { stdin, stdout, stderr, resize, status } = started;
    let Streams { stdin: from_client, stdout: to_client, stderr: errors_to_client, mut sizes } = streams;
    let input = async move {
        if let (Some(mut from), Some(mut to)) = (from_client, stdin) {
            // Either side may close first.
            let _ = copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        }
        std::future::pending::<()>().await;
    };
    let resizing = async move {
        while let Some(size) = sizes.recv().await {
            if let Some(resize) = &resize {
                // The terminal may be closed already.
                let _ = resize.to(size.width, size.height);
            }
        }
        std::future::pending::<()>().await;
    };
    let output = async {
        let errors = OptionFuture::from(stderr.map(|errors| copy_and_drain(errors, errors_to_client)));
        let (code, (), _) = tokio::join!(status, copy_and_drain(stdout, to_client), errors);
        code
    };
    let code = tokio::select! {
        code = output => code,
        () = input => return Err(KubeletError::Failed("the input task ended unexpectedly".to_owned())),
        () = resizing => return Err(KubeletError::Failed("the resize task ended unexpectedly".to_owned())),
    };
    code.map(Exit).map_err(|error| KubeletError::Failed(error.to_string()))
}

/// Copies everything to `to`. Keeps reading without a receiver: a full pipe would block the command.
async fn copy_and_drain(mut from: impl AsyncRead + Unpin, to: Option<impl AsyncWrite + Unpin>) {
    if let Some(mut to) = to {
        let _ = copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    }
    let _ = copy(&mut from, &mut tokio::io::sink()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_log_says_which_part() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let ago = LogRequest { since_seconds: Some(30), tail_lines: Some(5), ..LogRequest::default() };
        let options = log_options(&ago, now).unwrap();
        assert_eq!((options.since, options.tail), (Some("2026-01-01T00:00:30Z".parse().unwrap()), Some(5)));
        let from = LogRequest { since_time: Some("2026-01-01T00:00:00Z".into()), ..LogRequest::default() };
        assert_eq!(log_options(&from, now).unwrap().since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        let wrong = LogRequest { since_time: Some("yesterday".into()), ..LogRequest::default() };
        assert!(matches!(log_options(&wrong, now), Err(KubeletError::BadRequest(_))));
    }

    #[test]
    fn a_missing_pod_and_a_failure_are_different_errors() {
        let pod = || "p".to_owned();
        assert_eq!(refused(&node::Error::NoPod { name: pod() }), KubeletError::NotFound("pods \"p\" not found".into()));
        let source = std::io::Error::other("no route");
        let address = std::net::Ipv4Addr::LOCALHOST;
        let refusal = refused(&node::Error::Connect { pod: pod(), address, port: 1, source });
        assert!(matches!(&refusal, KubeletError::Failed(text) if text.ends_with("127.0.0.1: no route")), "{refusal}");
    }
}
