//! Writes the records of a run to its own standard output, so that they are a log of their own beside that of the agent.
//!
//! Runs beside the agent and outlives it: the records that are still in the connection are written before it ends.

use std::{
    future::Future,
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{io::AsyncReadExt as _, net::UnixListener};

use crate::env::{self, Lookup, SettingError};

/// After the container is asked to stop, a connection that was made before is accepted within this time.
const LATE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub socket: PathBuf,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        Ok(Self { socket: env::required(env, env::RECORDS_SOCKET, "the path of a socket")?.into() })
    }
}

/// Copies the records of one connection to `out`. Returns after `stop`, when the connection is closed.
pub async fn run(
    settings: &Settings,
    out: &mut (impl Write + Send),
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    tokio::pin!(stop);
    let listener = match listen(&settings.socket) {
        Ok(listener) => listener,
        Err(error) => {
            // The agent starts only while this container runs, and a run without records is better than none.
            tracing::error!(%error, socket = %settings.socket.display(), "the session is not recorded");
            stop.await;
            return Ok(());
        }
    };
    let connected = tokio::select! {
        // Polled first, so that the signal handler is installed: the kernel ignores other signals for PID 1.
        biased;
        () = &mut stop => None,
        connected = listener.accept() => Some(connected?.0),
    };
    let stopped = connected.is_none();
    let mut stream = match connected {
        Some(stream) => stream,
        // A run may have ended before its connection was accepted.
        None => match tokio::time::timeout(LATE, listener.accept()).await {
            Ok(connected) => connected?.0,
            Err(_) => return Ok(()),
        },
    };
    // Later connections are not of the run.
    drop(listener);
    let mut bytes = vec![0; 64 << 10];
    let mut ends_line = true;
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        out.write_all(&bytes[..read])?;
        out.flush()?;
        ends_line = bytes[read - 1] == b'\n';
    }
    if !ends_line {
        // The agent's container was killed while it wrote.
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if !stopped {
        // Kubernetes would start a container again that ends by itself.
        stop.await;
    }
    Ok(())
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    // Left by a container that was killed.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    // The agent may have another UID. Only containers of this Pod have the volume.
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{env::tests::of, recorder::Recorder};

    #[tokio::test]
    async fn records_are_copied_to_the_last_one_although_the_container_is_asked_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        std::fs::write(&socket, "left by a container that was killed").unwrap();
        let settings = Settings { socket: socket.clone() };
        let (stop, stopped) = oneshot::channel::<()>();
        let copied = tokio::spawn(async move {
            let mut out = Vec::new();
            run(&settings, &mut out, async { drop(stopped.await) }).await.unwrap();
            out
        });
        let lookup = [(env::RECORDS_SOCKET, socket.to_str().unwrap())];
        let mut recorder = Recorder::connect(&of(&lookup)).await.unwrap().unwrap();
        stop.send(()).unwrap();
        let line = format!("{}\n", json!({"text": "x".repeat(300_000)}));
        let written = line.clone();
        let recorder = tokio::task::spawn_blocking(move || {
            for _ in 0..3 {
                recorder.write_all(written.as_bytes()).unwrap();
            }
            recorder
        });
        let mut recorder = recorder.await.unwrap();
        assert!(std::os::unix::net::UnixStream::connect(&socket).is_err(), "the agent cannot connect");
        recorder.write_all(b"cut").unwrap();
        drop(recorder);
        let out = tokio::time::timeout(Duration::from_mins(1), copied).await.unwrap().unwrap();
        assert!(out == format!("{line}{line}{line}cut\n").into_bytes(), "{} bytes", out.len());
    }

    #[tokio::test]
    async fn without_a_place_for_its_socket_the_container_runs_until_it_is_stopped() {
        let settings = Settings { socket: "/no/such/directory/s".into() };
        let mut out = Vec::new();
        run(&settings, &mut out, async {}).await.unwrap();
        assert!(out.is_empty());
    }

    #[tokio::test]
    async fn without_a_socket_nothing_is_recorded() {
        assert!(Recorder::connect(&of(&[])).await.unwrap().is_none());
        assert!(Settings::from_env(&of(&[])).is_err());
    }
}
