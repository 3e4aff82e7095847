//! A directory for everything that this process leaves lying around. It goes when the process ends, however it ends.

use std::{
    fs::OpenOptions,
    io::{PipeWriter, Write as _, pipe},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

/// Waits for the end of the process, kills what it started, and removes the directory when no process writes there any more.
const SWEEP: &str = r#"
read -r _
pids=$(cat "$0/pids" 2>/dev/null)
for pid in $pids; do kill -KILL "$pid"; done
for pid in $pids; do tries=0; while kill -0 "$pid" && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.05; done; done
rm -rf "$0"
"#;

/// The directory.
pub struct Scratch {
    path: PathBuf,
    /// When the pipe closes, the sweeper begins.
    _leash: PipeWriter,
    _sweeper: Child,
}

impl Scratch {
    /// The one of this process.
    pub fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceLock<Scratch> = OnceLock::new();
        if let Some(scratch) = SHARED.get() {
            return Ok(scratch);
        }
        let scratch = Self::new()?;
        // Another case may have been faster; then this directory is removed at once.
        Ok(SHARED.get_or_init(|| scratch))
    }

    fn new() -> anyhow::Result<Self> {
        let path = tempfile::Builder::new().prefix("kubectl-").tempdir()?.keep();
        let (reader, leash) = pipe()?;
        let mut sweeper = Command::new("sh");
        // Ctrl-C is for the tests, not for who cleans up after them.
        std::os::unix::process::CommandExt::process_group(&mut sweeper, 0);
        let sweeper =
            sweeper.args(["-c", SWEEP]).arg(&path).stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { path, _leash: leash, _sweeper: sweeper })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has a process of ours killed when this process ends.
    pub fn kill_at_the_end(&self, pid: u32) -> anyhow::Result<()> {
        let mut pids = OpenOptions::new().create(true).append(true).open(self.path.join("pids"))?;
        Ok(writeln!(pids, "{pid}")?)
    }
}
