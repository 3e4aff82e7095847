//! The connection to the container that writes the records of a run to its own log.
//!
//! The agent works in the container of the run, where it could change a file. It cannot write to this connection,
//! which is made before the agent starts; the other side accepts one connection only.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::env::{self, Lookup};

/// The other container has started before this one; it needs a moment to listen.
const CONNECT: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(20);
/// A run does not wait longer than this for its records to be read.
const WRITE: Duration = Duration::from_secs(5);

/// Writes records to the socket of the other container.
#[derive(Debug)]
pub struct Recorder {
    socket: PathBuf,
    /// `None` after an error. The other container may have been restarted, so the next record connects again.
    stream: Option<UnixStream>,
}

impl Recorder {
    /// Connects to the socket that the environment names; `None` if it names none.
    pub async fn connect(env: Lookup<'_>) -> io::Result<Option<Self>> {
        let Some(socket) = env::text(env, env::RECORDS_SOCKET).map(PathBuf::from) else { return Ok(None) };
        let end = Instant::now() + CONNECT;
        let stream = loop {
            match open(&socket) {
                Err(_) if Instant::now() < end => sleep(AGAIN).await,
                other => break other?,
            }
        };
        Ok(Some(Self { socket, stream: Some(stream) }))
    }
}

fn open(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_write_timeout(Some(WRITE))?;
    Ok(stream)
}

/// Each write is one whole line.
impl Write for Recorder {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => open(&self.socket)?,
        };
        stream.write_all(line)?;
        self.stream = Some(stream);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
