//! Helpers as processes of their own: the test program starts itself again and becomes the helper.
//!
//! Needed where a test is about the process: signals, exit codes, reaping, the process environment.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use domain::contract::record;
use kubeopencode_pod::{
    attach, changes, companion, env, git_sync, housekeeper, prep, publish, redact::Redactor, shim, stop, url_fetch,
};

const ROLE: &str = "POD_TEST_ROLE";
const ARGS: &str = "POD_TEST_ARGS";

/// The body of the ignored test that becomes the helper; does nothing in a normal run.
pub fn become_helper() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let args = std::env::var(ARGS).unwrap_or_else(|_| "[]".to_owned());
    let args: Vec<String> = serde_json::from_str(&args).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let code = runtime.block_on(async {
        match role.as_str() {
            "attach" => attach::execute(&args, &env::process).await,
            "shim" => shim::execute(&args, &env::process).await,
            "housekeeper" => housekeeper::execute(&env::process).await,
            "prep" => {
                let settings = prep::Settings::from_env(&env::process).unwrap();
                prep::run(&settings).await.map_or(1, |_| 0)
            }
            "git-sync" => {
                let settings = git_sync::Settings::from_env(&env::process).unwrap();
                let stop = async { stop::requested().await.unwrap() };
                git_sync::run(&settings, stop).await.map_or(1, |()| 0)
            }
            "url-fetch" => {
                let settings = url_fetch::Settings::from_env(&env::process).unwrap();
                match url_fetch::run(&settings).await {
                    Ok(_) => 0,
                    Err(error) => {
                        eprintln!("{error}");
                        1
                    }
                }
            }
            "publish" => {
                let plan = serde_json::from_str(&args[0]).unwrap();
                let settings = publish::Settings::from_env(&env::process).unwrap();
                match publish::run(&plan, &settings, None).await {
                    Ok(_) => 0,
                    Err(error) => {
                        eprintln!("{error}");
                        1
                    }
                }
            }
            "companion" => {
                let settings = companion::Settings::from_env(&env::process).unwrap();
                let stop = async { stop::requested().await.unwrap() };
                companion::run(settings, stop).await.map_or(1, |()| 0)
            }
            "changes" => {
                let args: Vec<String> = std::env::args().collect();
                let words = &args[args.len() - 3..];
                let answer = changes::agent::run(words, &std::env::temp_dir(), &Redactor::default()).await.unwrap();
                // A line of its own in the output of the test harness.
                println!("\n{answer}");
                0
            }
            other => panic!("no helper {other}"),
        }
    });
    std::process::exit(i32::from(code));
}

/// A helper that runs; killed when dropped.
pub struct Helper {
    child: Child,
    out: Collected,
    err: Collected,
    records: Collected,
    /// The socket for records. The directory is removed with this value.
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

/// Text that a thread reads to its end.
struct Collected {
    text: Arc<Mutex<Vec<u8>>>,
    reading: Option<JoinHandle<()>>,
}

impl Collected {
    fn start<R: Read>(open: impl FnOnce() -> R + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let so_far = Arc::clone(&text);
        let reading = std::thread::spawn(move || {
            let mut from = open();
            let mut buffer = [0; 8192];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                so_far.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { text, reading: Some(reading) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    fn whole(&mut self) -> String {
        self.reading.take().unwrap().join().unwrap();
        self.so_far()
    }
}

/// How a helper ended.
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    /// What it sent to the container for records.
    pub records: Vec<serde_json::Value>,
    pub stderr: String,
}

/// The command line of a helper.
pub fn command(role: &str, args: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "helper_process", "--ignored", "--nocapture", "--quiet"])
        .env(ROLE, role)
        .env(ARGS, serde_json::to_string(args).unwrap())
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The command that makes a shell on this machine run `changes`.
pub fn receiver(role: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    let role = format!("{ROLE}={role}");
    ["env", &role, &program, "--exact", "helper_process", "--ignored", "--nocapture", "--quiet"]
        .map(str::to_owned)
        .into()
}

impl Helper {
    pub fn start(mut command: Command) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("records.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut child = command.env(env::RECORDS_SOCKET, &socket).spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self {
            child,
            out: Collected::start(move || stdout),
            err: Collected::start(move || stderr),
            records: Collected::start(move || listener.accept().unwrap().0),
            socket,
            _dir: dir,
        }
    }

    /// What it printed so far.
    pub fn stdout(&self) -> String {
        self.out.so_far()
    }

    /// The records that it sent so far.
    pub fn records(&self) -> Vec<serde_json::Value> {
        records(&self.records.so_far())
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end, with a limit.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < limit, "the helper did not end within {limit:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        // A helper that never connected leaves the reader waiting for a connection.
        let _ = UnixStream::connect(&self.socket);
        let (stdout, stderr) = (self.out.whole(), self.err.whole());
        Finished { code: status.code(), stdout, records: records(&self.records.whole()), stderr }
    }
}

fn records(lines: &str) -> Vec<serde_json::Value> {
    lines.lines().flat_map(|line| record::records(line.as_bytes())).collect()
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The record that a helper wrote.
pub fn outcome(path: &Path) -> domain::contract::report::RunReport {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
