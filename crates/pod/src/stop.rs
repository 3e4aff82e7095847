//! Being asked to stop: SIGTERM from the kubelet, SIGINT from a person.

use tokio::signal::unix::{SignalKind, signal};

/// The exit code of a helper that was asked to stop, as a shell reports SIGTERM.
pub const STOPPED: u8 = 143;

/// Returns when the process is asked to stop. Fails only if the handlers cannot be installed.
pub async fn requested() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
