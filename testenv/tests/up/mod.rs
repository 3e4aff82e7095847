//! `testenv up` as a child that can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Up {
    child: Child,
    dir: PathBuf,
}

impl Up {
    /// Returns when the cluster is ready.
    pub fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testenv"));
        let mut child = command.arg("up").args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let kubeconfig = line.strip_prefix("export KUBECONFIG=").and_then(|rest| rest.split(' ').next()).unwrap();
        Self { child, dir: Path::new(kubeconfig).parent().unwrap().to_owned() }
    }

    /// Ids of the processes that work in the directory of the cluster.
    pub fn processes(&self) -> Vec<String> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let works_here = |path: PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == self.dir);
        entries.filter(|entry| works_here(entry.path())).map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Sends SIGKILL, which cannot be caught.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn is_gone_within(&self, limit: Duration) {
        let started = Instant::now();
        while self.dir.exists() || !self.processes().is_empty() {
            assert!(started.elapsed() < limit, "left: {} {:?}", self.dir.display(), self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
