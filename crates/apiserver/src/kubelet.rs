//! What the server asks of the node that runs Pods.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Why a node cannot do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeletError {
    /// The Pod or the container is not there, or not in a state for that.
    #[error("{0}")]
    BadRequest(String),
    /// The Pod is not known to the node.
    #[error("{0}")]
    NotFound(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
}

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// Of the Pod.
    pub namespace: String,
    /// Of the Pod.
    pub pod: String,
    /// Which container.
    pub container: String,
    /// Go on as long as the container runs.
    pub follow: bool,
    /// The log of the container before its last restart.
    pub previous: bool,
    /// Only lines younger than this.
    pub since_seconds: Option<i64>,
    /// Only lines after this moment, RFC 3339.
    pub since_time: Option<String>,
    /// Put the time before every line.
    pub timestamps: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<i64>,
    /// Only so many bytes.
    pub limit_bytes: Option<i64>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// A command to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// Of the Pod.
    pub namespace: String,
    /// Of the Pod.
    pub pod: String,
    /// Which container.
    pub container: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// With a terminal.
    pub tty: bool,
}

/// A running container to attach to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// Of the Pod.
    pub namespace: String,
    /// Of the Pod.
    pub pod: String,
    /// Which container.
    pub container: String,
    /// With a terminal.
    pub tty: bool,
}

/// What flows between a client and a process. A side that is `None` was not asked for.
pub struct Streams {
    /// From the client.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// To the client.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// To the client.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// New sizes of the client's terminal.
    pub sizes: mpsc::Receiver<TerminalSize>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

/// A connection to a port of a Pod.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

/// A node that runs Pods.
pub trait Kubelet: Send + Sync {
    /// The log of a container, in pieces of any size.
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<BoxStream<'static, bytes::Bytes>, KubeletError>>;
    /// Runs a command in a container and returns when it has ended.
    fn exec(&self, request: Exec, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>>;
    /// Attaches to the main process of a container and returns when it has ended.
    fn attach(&self, request: Attach, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>>;
    /// Connects to a port of a Pod.
    fn port_forward(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> BoxFuture<'_, Result<Box<dyn PortStream>, KubeletError>>;
}
