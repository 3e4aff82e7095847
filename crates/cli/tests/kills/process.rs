//! Programs that are started again whenever they end, as a kubelet does it, and killed as a machine that fails does it.

use std::{
    fs::File,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    sync::{Notify, watch},
    task::JoinHandle,
};

/// Before a program that ended is started again.
const PAUSE: Duration = Duration::from_millis(50);

/// A program that always runs, except for a moment after it ended.
pub struct Kept {
    kill: Arc<Notify>,
    runs: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Kept {
    /// `command` makes the program; its error output is appended to `log`.
    pub fn start(log: &Path, command: impl Fn() -> std::process::Command + Send + 'static) -> Self {
        let (kill, log) = (Arc::new(Notify::new()), log.to_owned());
        let (running, runs) = watch::channel(false);
        let killed = Arc::clone(&kill);
        let task = tokio::spawn(async move {
            loop {
                let mut child = spawn(command(), &log);
                running.send_replace(true);
                tokio::select! {
                    _ = child.wait() => {}
                    () = killed.notified() => child.kill().await.unwrap(),
                }
                running.send_replace(false);
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { kill, runs, task }
    }

    /// Kills it once it runs; it is started again.
    pub async fn kill(&self) {
        let mut runs = self.runs.clone();
        // The sender goes with this value.
        let _ = runs.wait_for(|runs| *runs).await;
        self.kill.notify_one();
        let _ = runs.wait_for(|runs| !*runs).await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Kills the child, too.
        self.task.abort();
    }
}

/// A program that ends by itself, or is killed.
pub struct Once {
    kill: Arc<Notify>,
}

impl Once {
    pub fn new() -> Self {
        Self { kill: Arc::new(Notify::new()) }
    }

    pub fn kill(&self) {
        self.kill.notify_one();
    }

    /// Runs the program to its end.
    pub async fn run(&self, command: std::process::Command, log: &Path) -> ExitStatus {
        let mut child = spawn(command, log);
        tokio::select! {
            ended = child.wait() => ended.unwrap(),
            () = self.kill.notified() => {
                child.start_kill().unwrap();
                child.wait().await.unwrap()
            }
        }
    }
}

fn spawn(command: std::process::Command, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let mut command = Command::from(command);
    command.stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log).kill_on_drop(true).spawn().unwrap()
}
