//! A program of ours as a process of its own, to be watched, stopped, killed and frozen.

use std::{
    fs::{self, File},
    io::{PipeWriter, pipe},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Mutex,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};

/// A program is up in a second; a machine that is busy with builds needs longer.
pub const LIMIT: Duration = Duration::from_mins(1);

/// A process that runs. It dies with this value, and with the test's process, however that ends.
#[derive(Debug)]
pub struct Daemon {
    child: Mutex<Child>,
    id: Pid,
    dir: TempDir,
    /// When the pipe closes, the watchdog kills the child's remaining processes.
    _leash: PipeWriter,
    watchdog: Mutex<Child>,
}

impl Daemon {
    /// Starts a command that logs JSON to its standard error.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("daemon-").tempdir()?;
        let log = File::create(dir.path().join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let id = Pid::from_child(&child);
        let (reader, leash) = pipe()?;
        let script = format!("read -r _; kill -KILL {}", id.as_raw_nonzero());
        let watchdog = Command::new("sh").args(["-c", &script]).stdin(reader).stderr(Stdio::null()).spawn()?;
        Ok(Self { child: Mutex::new(child), id, dir, _leash: leash, watchdog: Mutex::new(watchdog) })
    }

    /// Ends it at once.
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.send(Signal::KILL)?;
        self.exit().await?;
        Ok(())
    }

    /// Asks it to end, and checks that it ends well.
    pub async fn terminate(&self) -> anyhow::Result<()> {
        self.send(Signal::TERM)?;
        let status = self.exit().await?;
        ensure!(status.success(), "asked to end, the program ended with {status}");
        Ok(())
    }

    /// Sends it a signal.
    pub fn send(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.id, signal).context("the program does not run any more")
    }

    /// How it ended, once it does.
    pub async fn exit(&self) -> anyhow::Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.try_wait()? {
                return Ok(status);
            }
            ensure!(started.elapsed() < LIMIT, "the program did not end within {LIMIT:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the log has a line with this message.
    pub async fn wait_for_log(&self, message: &str) -> anyhow::Result<()> {
        self.find(|line| (line["fields"]["message"] == message).then_some(()))
            .await
            .with_context(|| format!("the program does not log '{message}'"))
    }

    /// The lines of the log that contain `part`.
    pub fn log(&self, part: &str) -> String {
        let all = self.read_log();
        all.lines().filter(|line| line.contains(part)).collect::<Vec<_>>().join("\n")
    }

    fn read_log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// An address that it serves at, from the field of this name in its log.
    pub async fn serving(&self, field: &str) -> anyhow::Result<SocketAddr> {
        let address = self.find(|line| line["fields"][field].as_str().map(str::to_owned)).await;
        Ok(address.with_context(|| self.read_log())?.parse()?)
    }

    async fn find<T>(&self, wanted: impl Fn(&Value) -> Option<T>) -> anyhow::Result<T> {
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            let text = self.read_log();
            let found = text.lines().filter_map(|line| serde_json::from_str(line).ok()).find_map(|line| wanted(&line));
            if let Some(found) = found {
                return Ok(found);
            }
            sleep(Duration::from_millis(20)).await;
        }
        bail!("nothing in the log after {LIMIT:?}")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for child in [&self.watchdog, &self.child] {
            if let Ok(mut child) = child.lock() {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// The binary of `KUBEOPENCODE_BINARY`, or the one beside this test, built once if it is not up to date.
pub async fn binary() -> anyhow::Result<&'static Path> {
    static BINARY: OnceCell<PathBuf> = OnceCell::const_new();
    let path = BINARY.get_or_try_init(|| async {
        if let Some(path) = std::env::var_os("KUBEOPENCODE_BINARY") {
            return Ok(path.into());
        }
        let test = std::env::current_exe()?;
        // target/debug/deps/controllers-0123 -> target/debug/kubeopencode
        let path = test.parent().and_then(Path::parent).context("the test has no directory")?.join("kubeopencode");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        if newest(&sources)? <= changed(&path) {
            return Ok(path);
        }
        let status = tokio::process::Command::from(testenv::cargo())
            .args(["build", "--quiet", "--package", "kubeopencode"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .await
            .context("cargo cannot be run")?;
        ensure!(status.success(), "cargo build --package kubeopencode: {status}");
        ensure!(path.is_file(), "{} does not exist", path.display());
        Ok(path)
    });
    Ok(path.await?)
}

/// When a file was written last; long ago if it does not exist.
fn changed(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When anything below a directory was written last.
fn newest(directory: &Path) -> anyhow::Result<SystemTime> {
    let mut latest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        latest = latest.max(if path.is_dir() { newest(&path)? } else { changed(&path) });
    }
    Ok(latest)
}
