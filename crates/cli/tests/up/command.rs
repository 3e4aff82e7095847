//! The command as a person starts it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubeopencode");
/// The start takes well below a second; a machine that builds at the same time needs longer.
pub const LIMIT: Duration = Duration::from_mins(1);

pub fn program(args: &[&str]) -> Command {
    // As a script starts it in the background: with signals that it, and all that it starts, would ignore.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP INT QUIT; exec \"$0\" \"$@\"", PROGRAM])
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("KUBEOPENCODE_STATE_DIR");
    command
}

/// Runs a command that ends by itself.
pub fn run(args: &[&str]) -> Output {
    run_with(args, &[])
}

/// As [`run`], with these variables.
pub fn run_with(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = program(args);
    let mut child = command
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait(&mut child);
    child.wait_with_output().unwrap()
}

/// The error of a command that must fail; it must be one line.
pub fn refusal(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    stderr
}

fn wait(child: &mut Child) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("the command did not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A platform that was started with `up`. It is killed when this value goes.
pub struct Up {
    child: Child,
    /// Its output until it was ready.
    pub greeting: Vec<String>,
    pub kubeconfig: PathBuf,
}

impl Up {
    pub fn start(state: &Path, more: &[&str]) -> Self {
        Self::start_with(state, more, &[])
    }

    /// As [`Up::start`], with these variables.
    pub fn start_with(state: &Path, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let args = [&["up", "--state-dir", state.to_str().unwrap(), "--api-port", "0"], more].concat();
        let mut child = program(&args)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut greeting: Vec<String> = Vec::new();
        // One deadline for all lines.
        let deadline = Instant::now() + LIMIT;
        while !greeting.iter().any(|line| line.contains("Isolation")) {
            let Ok(line) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                let _ = child.kill();
                let mut stderr = String::new();
                child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("it did not start: {greeting:?} {stderr}");
            };
            greeting.push(line);
        }
        let line = greeting.iter().find_map(|line| line.split_once("export KUBECONFIG=")).unwrap();
        let kubeconfig = PathBuf::from(line.1);
        Self { child, greeting, kubeconfig }
    }

    /// The link to the page in its greeting.
    pub fn login_link(&self) -> &str {
        let mut words = self.greeting.iter().flat_map(|line| line.split_whitespace());
        words.find(|word| word.contains("/login?code=")).unwrap()
    }

    /// The address of the REST API for programs. Only browsers resolve the name in the link on every machine.
    pub fn rest_address(&self) -> String {
        let port = self.login_link().rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
        format!("127.0.0.1:{port}")
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        let output = self.try_kubectl(args);
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn try_kubectl(&self, args: &[&str]) -> Output {
        let kubectl = testenv::Program::Kubectl.obtain().unwrap();
        Command::new(kubectl).args(args).env("KUBECONFIG", &self.kubeconfig).output().unwrap()
    }

    /// Repeats a kubectl command until its output is as wanted.
    pub fn until(&self, args: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let output = self.try_kubectl(args);
            let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && wanted(&stdout) {
                return stdout;
            }
            let events = || String::from_utf8(self.try_kubectl(&["get", "pods,events", "-A"]).stdout).unwrap();
            assert!(started.elapsed() < LIMIT, "kubectl {args:?}: {stdout}\n{}", events());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// As `kill -9` does it.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As Ctrl-C does it.
    pub fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Waits for the end of the platform. Returns the exit code.
    pub fn ended(mut self) -> Option<i32> {
        wait(&mut self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
