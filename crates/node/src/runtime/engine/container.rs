//! The lifecycle of a container of an engine.

use std::time::Duration;

use rustix::process::Signal;
use tokio::{process::Child, sync::mpsc, task::JoinSet};

use super::{Engine, State};
use crate::{
    logs::{LogWriter, Source},
    process::container::DRAIN_TIMEOUT,
    runtime::{ContainerEvent, Ready, Target},
};

/// Engines do not notify when a container runs. It is polled, first after this delay, then with backoff.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Creates a container, starts it and waits for its exit. It is removed before the exit is reported: the node may be
/// shutting down.
pub(super) async fn run_to_exit(
    engine: Engine,
    ready: Ready,
    mut wanted: mpsc::UnboundedReceiver<Signal>,
    log: LogWriter,
    on_event: impl Fn(ContainerEvent),
) {
    let end = match engine.create(&ready).await {
        Ok(()) => {
            let outcome = run(&engine, &ready.name, &mut wanted, &log, &on_event).await;
            outcome.unwrap_or_else(|message| ContainerEvent::Failed { message })
        }
        Err(message) => ContainerEvent::Failed { message: format!("{engine} cannot create the container: {message}") },
    };
    engine.remove(&ready.name).await;
    log.end();
    on_event(end);
}

async fn run(
    engine: &Engine,
    name: &str,
    wanted: &mut mpsc::UnboundedReceiver<Signal>,
    log: &LogWriter,
    on_event: &impl Fn(ContainerEvent),
) -> Result<ContainerEvent, String> {
    let mut command = engine.command();
    command.args(["start", "--attach", name]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{engine}: {error}"))?;
    let mut copies = copy_output(&mut child, log);
    let mut started = false;
    {
        let running = until_running(engine, name);
        tokio::pin!(running);
        let mut signals_come = true;
        loop {
            tokio::select! {
                _ = child.wait() => break,
                () = &mut running, if !started => {
                    started = true;
                    on_event(ContainerEvent::Started { target: Target::Engine(name.to_owned()) });
                }
                // Before the start no process can receive a signal.
                signal = wanted.recv(), if started && signals_come => match signal {
                    Some(signal) => engine.signal(name, signal).await,
                    None => signals_come = false,
                },
            }
        }
    }
    let state = engine.state(name).await;
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, async { while copies.join_next().await.is_some() {} }).await;
    let code = child.wait().await.ok().and_then(|status| status.code());
    match state {
        Ok(state) if state.ran() => {
            if !started {
                on_event(ContainerEvent::Started { target: Target::Engine(name.to_owned()) });
            }
            Ok(exited(&state))
        }
        Ok(state) => Err(not_started(engine, &state, code)),
        // Removed from outside, or by this node because it could not be killed.
        Err(_) => Ok(ContainerEvent::Exited {
            code: code.filter(|code| *code != 0).unwrap_or(137),
            signal: None,
            out_of_memory: false,
        }),
    }
}

fn copy_output(child: &mut Child, log: &LogWriter) -> JoinSet<()> {
    let mut copies = JoinSet::new();
    if let Some(stdout) = child.stdout.take() {
        copies.spawn(log.clone().copy(Source::Stdout, stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        copies.spawn(log.clone().copy(Source::Stderr, stderr));
    }
    copies
}

/// Returns when the container runs. Never returns if it has exited; the caller learns that from the attach command.
async fn until_running(engine: &Engine, name: &str) {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
        match engine.state(name).await {
            Ok(state) if state.running => return,
            Ok(state) if state.status == "exited" => std::future::pending().await,
            _ => {}
        }
    }
}

fn exited(state: &State) -> ContainerEvent {
    let code = state.exit_code;
    let signal = (129..160).contains(&code).then_some(code - 128);
    ContainerEvent::Exited { code, signal, out_of_memory: state.out_of_memory && code != 0 }
}

fn not_started(engine: &Engine, state: &State, code: Option<i32>) -> String {
    if state.error.is_empty() {
        let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        return format!("{engine} cannot start the container ({code})");
    }
    format!("{engine} cannot start the container: {}", state.error)
}
