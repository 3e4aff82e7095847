//! The real controller as a process of its own, to be watched, stopped, killed and frozen.

use std::{
    collections::BTreeMap,
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
use testenv::Cluster;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::OnceCell,
    time::{Instant, sleep},
};

/// A controller is up in a second; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

/// A cluster that other processes reach.
pub trait Reachable {
    /// A kubeconfig for an administrator.
    fn kubeconfig_path(&self) -> &Path;
}

impl Reachable for Cluster {
    fn kubeconfig_path(&self) -> &Path {
        Cluster::kubeconfig_path(self)
    }
}

/// How to start it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Dies at this place; see `failpoint.rs` of the controller.
    pub failpoint: Option<&'static str>,
    /// Works only while it holds the lease, under this name.
    pub leader: Option<&'static str>,
    /// Reaches the API server at another address than the cluster's.
    pub kubeconfig: Option<PathBuf>,
    /// Keeps logs and records in this directory.
    pub archive: Option<PathBuf>,
    /// Uses Secrets that Tasks name without a check of its own.
    pub unchecked_task_secrets: bool,
    /// Is this program, instead of one that is built first.
    pub program: Option<PathBuf>,
}

/// A controller that runs. It dies with this value, and with this process, however it ends.
#[derive(Debug)]
pub struct Controller {
    child: Mutex<Child>,
    id: Pid,
    metrics: SocketAddr,
    health: SocketAddr,
    dir: TempDir,
    /// When the pipe closes, the watchdog kills the child's remaining processes.
    _leash: PipeWriter,
    watchdog: Mutex<Child>,
}

impl Controller {
    /// Starts a controller of `cluster`, and returns when it serves its health.
    pub async fn start(cluster: &impl Reachable, options: Options) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("controller-").tempdir()?;
        let log = dir.path().join("log");
        let mut command = Command::new(match &options.program {
            Some(program) => program,
            None => binary().await?,
        });
        command.args(["controller", "--log-format=json", "--log=info,kubeopencode_controller=debug"]);
        command.args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]);
        let kubeconfig = options.kubeconfig.as_deref().unwrap_or(cluster.kubeconfig_path());
        command.env("KUBECONFIG", kubeconfig).env_remove("KUBEOPENCODE_FAILPOINT");
        // The registries and repositories of tests are on this machine.
        command.env("KUBEOPENCODE_ALLOW_LOOPBACK", "true");
        if let Some(place) = options.failpoint {
            command.env("KUBEOPENCODE_FAILPOINT", place);
        }
        if let Some(archive) = &options.archive {
            command.arg("--log-archive").arg(archive);
        }
        if options.unchecked_task_secrets {
            command.arg("--unchecked-task-secrets");
        }
        if let Some(name) = options.leader {
            command.args(["--leader-elect", "--leader-elect-namespace=default"]).env("POD_NAME", name);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).spawn()?;
        let id = Pid::from_child(&child);
        let (reader, leash) = pipe()?;
        let script = format!("read -r _; kill -KILL {}", id.as_raw_nonzero());
        let watchdog = Command::new("sh").args(["-c", &script]).stdin(reader).stderr(Stdio::null()).spawn()?;
        let metrics = serving(&log, "metrics").await?;
        let health = serving(&log, "health").await?;
        Ok(Self { child: Mutex::new(child), id, metrics, health, dir, _leash: leash, watchdog: Mutex::new(watchdog) })
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
        ensure!(status.success(), "asked to end, the controller ended with {status}");
        Ok(())
    }

    /// Sends it a signal.
    pub fn send(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.id, signal).context("the controller does not run any more")
    }

    /// How it ended, once it does.
    pub async fn exit(&self) -> anyhow::Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.try_wait()? {
                return Ok(status);
            }
            ensure!(started.elapsed() < LIMIT, "the controller did not end within {LIMIT:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the log has a line with this message.
    pub async fn wait_for_log(&self, message: &str) -> anyhow::Result<()> {
        let path = self.dir.path().join("log");
        find(&path, |line| (line["fields"]["message"] == message).then_some(()))
            .await
            .with_context(|| format!("the controller does not log '{message}'"))
    }

    /// The lines of the log that contain `part`.
    pub fn log(&self, part: &str) -> String {
        let all = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        all.lines().filter(|line| line.contains(part)).collect::<Vec<_>>().join("\n")
    }

    /// Its metrics page: headers and lines.
    pub async fn numbers(&self) -> anyhow::Result<String> {
        get(self.metrics, "/metrics").await
    }

    /// The status code of a probe, such as `200`.
    pub async fn probe(&self, path: &str) -> anyhow::Result<String> {
        let answer = get(self.health, path).await?;
        Ok(answer.split_whitespace().nth(1).context("no answer")?.to_owned())
    }

    /// How many writes the controller sent so far, by verb and resource. Events about objects are not counted.
    pub async fn writes(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let page = self.numbers().await?;
        let mut writes = BTreeMap::new();
        for line in page.lines() {
            let Some(rest) = line.strip_prefix("kubeopencode_api_writes_total{") else { continue };
            let (labels, count) = rest.split_once("} ").context("a line of /metrics has no value")?;
            if !labels.contains("resource=\"events\"") {
                writes.insert(labels.to_owned(), count.parse()?);
            }
        }
        Ok(writes)
    }

    /// Whether it leads.
    pub async fn leads(&self) -> anyhow::Result<bool> {
        Ok(self.numbers().await?.lines().any(|line| line == "kubeopencode_leading 1"))
    }
}

impl Drop for Controller {
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

/// An address that it serves at, from its log.
async fn serving(log: &Path, what: &str) -> anyhow::Result<SocketAddr> {
    let address = find(log, |line| line["fields"][what].as_str().map(str::to_owned)).await;
    Ok(address.with_context(|| fs::read_to_string(log).unwrap_or_default())?.parse()?)
}

async fn find<T>(log: &Path, wanted: impl Fn(&Value) -> Option<T>) -> anyhow::Result<T> {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        let text = fs::read_to_string(log)?;
        let found = text.lines().filter_map(|line| serde_json::from_str(line).ok()).find_map(|line| wanted(&line));
        if let Some(found) = found {
            return Ok(found);
        }
        sleep(Duration::from_millis(20)).await;
    }
    bail!("nothing in the log after {LIMIT:?}")
}

async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    tokio::time::timeout(LIMIT, exchange).await.context("the controller does not answer")?
}
