//! The life of a container of an engine.

use std::time::Duration;

use rustix::process::Signal;
use tokio::{process::Child, sync::mpsc, task::JoinSet};

use super::{Engine, State};
use crate::{
    container::LAST_WORDS,
    logs::{LogWriter, Source},
    runtime::{Happened, Ready, Target},
};

/// Nobody tells when a container runs. It is looked at again after this, then later and later.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Makes a container, starts it and follows it to its end. It is removed before the end is told: who hears of that may
/// be about to leave.
pub(super) async fn follow(
    engine: Engine,
    ready: Ready,
    mut wanted: mpsc::UnboundedReceiver<Signal>,
    log: LogWriter,
    tell: impl Fn(Happened),
) {
    let end = match engine.create(&ready).await {
        Ok(()) => {
            let outcome = run(&engine, &ready.name, &mut wanted, &log, &tell).await;
            outcome.unwrap_or_else(|message| Happened::Failed { message })
        }
        Err(message) => Happened::Failed { message: format!("{engine} cannot make the container: {message}") },
    };
    engine.remove(&ready.name).await;
    log.end();
    tell(end);
}

async fn run(
    engine: &Engine,
    name: &str,
    wanted: &mut mpsc::UnboundedReceiver<Signal>,
    log: &LogWriter,
    tell: &impl Fn(Happened),
) -> Result<Happened, String> {
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
                    tell(Happened::Started { target: Target::Engine(name.to_owned()) });
                }
                // Before it runs there is nobody to take a signal.
                signal = wanted.recv(), if started && signals_come => match signal {
                    Some(signal) => engine.signal(name, signal).await,
                    None => signals_come = false,
                },
            }
        }
    }
    let state = engine.state(name).await;
    let _ = tokio::time::timeout(LAST_WORDS, async { while copies.join_next().await.is_some() {} }).await;
    let code = child.wait().await.ok().and_then(|status| status.code());
    match state {
        Ok(state) if state.ran() => {
            if !started {
                tell(Happened::Started { target: Target::Engine(name.to_owned()) });
            }
            Ok(exited(&state))
        }
        Ok(state) => Err(not_started(engine, &state, code)),
        // Somebody removed it, as this node does with one that cannot be killed.
        Err(_) => Ok(Happened::Exited {
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

/// Returns when the container runs. One that has ended never will; whoever waits hears of that in another way.
async fn until_running(engine: &Engine, name: &str) {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        match engine.state(name).await {
            Ok(state) if state.running => return,
            Ok(state) if state.status == "exited" => std::future::pending().await,
            _ => {}
        }
    }
}

fn exited(state: &State) -> Happened {
    let code = state.exit_code;
    let signal = (129..160).contains(&code).then_some(code - 128);
    Happened::Exited { code, signal, out_of_memory: state.out_of_memory && code != 0 }
}

fn not_started(engine: &Engine, state: &State, code: Option<i32>) -> String {
    if state.error.is_empty() {
        let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        return format!("{engine} could not start the container ({code})");
    }
    format!("{engine} could not start the container: {}", state.error)
}
