//! Requests to stop: SIGTERM from the kubelet, SIGINT from a person.

pub use domain::contract::reason::STOPPED;
use tokio::signal::unix::{SignalKind, signal};

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
