//! A real OpenCode, against the scripted model and nothing else.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tokio::net::TcpSocket;

/// The password of every test server.
pub const PASSWORD: &str = "sesame-open-1";

/// The program: `OPENCODE_BIN`, else as `scripts/opencode` installs it.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("OPENCODE_BIN") {
        return PathBuf::from(path);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/opencode");
    let output = Command::new(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "these tests need OpenCode: {stderr}; set OPENCODE_BIN to a copy of it");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// The environment that keeps OpenCode offline and away from the developer's own files.
pub fn environment(home: &Path, config: &Value) -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_FFF",
    ]
    .map(|name| (name.to_owned(), "1".to_owned()))
    .to_vec();
    environment.push(("npm_config_offline".to_owned(), "true".to_owned()));
    // By default OpenCode ends a command after two minutes, which would hide that nothing else ended it.
    environment.push(("OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS".to_owned(), "1000000".to_owned()));
    // A process that lives for seconds ends before optimised code pays: without it, a start takes a quarter less CPU.
    environment.push(("BUN_JSC_useDFGJIT".to_owned(), "false".to_owned()));
    environment.push(("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string()));
    for (name, below) in [
        ("HOME", ""),
        ("TMPDIR", "tmp"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_STATE_HOME", "state"),
    ] {
        let path = home.join(below);
        std::fs::create_dir_all(&path).unwrap();
        environment.push((name.to_owned(), path.display().to_string()));
    }
    environment
}

/// The configuration with one more model, `dead/gone`, behind a closed port.
pub fn with_dead_model(mut config: Value) -> Value {
    config["provider"]["dead"] = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": format!("http://127.0.0.1:{}/v1", closed_port()), "apiKey": "sk-nobody"},
        "models": {"gone": {"name": "Gone", "tool_call": true, "limit": {"context": 128_000, "output": 8192}}},
    });
    if let Some(enabled) = config["enabled_providers"].as_array_mut() {
        enabled.push(json!("dead"));
    }
    config
}

/// A reserved port of the loopback address. A socket is bound to it and does not listen: connections are refused, and
/// the system gives the port to no other program. A server can still listen on it, because it and this socket both set
/// SO_REUSEADDR.
pub struct Port(TcpSocket);

impl Port {
    pub fn reserve() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self(socket)
    }

    pub fn number(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}

/// A port on which no program listens while this process runs.
pub fn closed_port() -> u16 {
    static CLOSED: LazyLock<Port> = LazyLock::new(Port::reserve);
    CLOSED.number()
}

/// `opencode serve`, killed when dropped and after five minutes at the latest.
pub struct Server {
    port: Port,
    pub home: tempfile::TempDir,
    pub workspace: PathBuf,
    config: Value,
    child: Child,
}

impl Server {
    pub fn start(config: Value) -> Self {
        Self::start_on(Port::reserve(), config)
    }

    pub fn start_on(port: Port, config: Value) -> Self {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let child = serve(port.number(), home.path(), &workspace, &config);
        Self { port, home, workspace, config, child }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// Sends a signal to the server and its children.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let group = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let _ = rustix::process::kill_process_group(group, signal);
    }

    pub fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }

    /// Starts it again with the same state.
    pub fn restart(&mut self) {
        self.kill();
        self.child = serve(self.port.number(), self.home.path(), &self.workspace, &self.config);
    }

    /// A request of the test itself.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = client
            .request(method.clone(), format!("{}{path}", self.url()))
            .timeout(std::time::Duration::from_secs(20))
            .basic_auth("opencode", Some(PASSWORD));
        if method != reqwest::Method::GET {
            request = request.json(body);
        }
        request.send().await.ok()?.json().await.ok()
    }

    /// The id of the session with this title.
    pub async fn session(&self, title: &str) -> Option<String> {
        let all = self.call("GET", "/session?limit=1000", &Value::Null).await?;
        let found = all.as_array()?.iter().find(|session| session["title"] == title)?;
        Some(found["id"].as_str()?.to_owned())
    }

    /// Whether the session works, or `None` if the server does not return the statuses of its sessions.
    pub async fn is_busy(&self, session: &str) -> Option<bool> {
        let all = self.call("GET", "/session/status", &Value::Null).await?;
        let all = all.as_object()?;
        // Not the object of an error.
        all.values().all(|status| status.get("type").is_some()).then(|| all.contains_key(session))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(port: u16, home: &Path, workspace: &Path, config: &Value) -> Child {
    let log = File::options().create(true).append(true).open(home.join("serve.log")).unwrap();
    Command::new("timeout")
        .args(["--foreground", "--kill-after=1", "300"])
        .arg(program())
        .args(["serve", "--hostname", "127.0.0.1", "--port", &port.to_string()])
        .current_dir(workspace)
        .envs(environment(home, config))
        .env("OPENCODE_SERVER_PASSWORD", PASSWORD)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("`timeout` of coreutils is needed to run OpenCode in tests")
}
