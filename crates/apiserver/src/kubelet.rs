//! The interface to the node that runs Pods.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeletError {
    /// The Pod or container does not exist, or is not in a suitable state.
    #[error("{0}")]
    BadRequest(String),
    /// The node does not run the Pod.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Failed(String),
}

/// The parameters of a log request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Continue until the container exits.
    pub follow: bool,
    /// Return the log before the last restart.
    pub previous: bool,
    /// Only lines of the last seconds.
    pub since_seconds: Option<i64>,
    /// Only lines after this time, in RFC 3339.
    pub since_time: Option<String>,
    /// Prefix each line with its timestamp.
    pub timestamps: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<i64>,
    /// Maximum length of the response.
    pub limit_bytes: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// A command to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether to allocate a terminal.
    pub tty: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Whether the client has a terminal.
    pub tty: bool,
}

/// The streams between a client and a process; `None` if not requested.
pub struct Streams {
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// New sizes of the client's terminal.
    pub sizes: mpsc::Receiver<TerminalSize>,
}

/// The exit code of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

/// A connection to a port of a Pod.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

pub trait Kubelet: Send + Sync {
    /// The log of a container, in chunks of any size.
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<BoxStream<'static, bytes::Bytes>, KubeletError>>;
    /// Runs a command in a container until it exits.
    fn exec(&self, request: Exec, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>>;
    /// Attaches to the main process of a container until it exits.
    fn attach(&self, request: Attach, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>>;
    fn port_forward(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> BoxFuture<'_, Result<Box<dyn PortStream>, KubeletError>>;
}
