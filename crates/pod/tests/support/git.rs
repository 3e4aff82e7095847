//! Real repositories, and a smart HTTP server around `git http-backend`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use tokio::io::AsyncWriteExt as _;

/// Runs git in a directory and returns what it printed.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .expect("git is needed for these tests");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with a few commits.
pub struct Origin {
    pub base: tempfile::TempDir,
    pub path: PathBuf,
}

impl Origin {
    /// Three commits on `main`, tag `v1` on the second, branch `feature` with one more.
    pub fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("origin.git");
        std::fs::create_dir(&path).unwrap();
        let origin = Self { base, path };
        git(&origin.path, &["init", "--quiet"]);
        origin.commit("README.md", "one\n");
        origin.commit("README.md", "two\n");
        git(&origin.path, &["tag", "-a", "v1", "-m", "first"]);
        git(&origin.path, &["checkout", "--quiet", "-b", "feature"]);
        origin.commit("feature.txt", "feature\n");
        git(&origin.path, &["checkout", "--quiet", "main"]);
        origin.commit("README.md", "three\n");
        origin
    }

    pub fn commit(&self, file: &str, content: &str) -> String {
        let path = self.path.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        git(&self.path, &["add", "--all"]);
        git(&self.path, &["commit", "--quiet", "-m", file]);
        self.head()
    }

    pub fn head(&self) -> String {
        git(&self.path, &["rev-parse", "HEAD"])
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }
}

/// A git server on loopback.
pub struct HttpServer {
    pub address: SocketAddr,
    state: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    root: PathBuf,
    login: Option<String>,
    refuse_first: u32,
    requests: AtomicU32,
}

impl HttpServer {
    /// Serves every repository below `root`; answers 500 to the first requests.
    pub async fn start(root: &Path, login: Option<(&str, &str)>, refuse_first: u32) -> Self {
        let encode = |(user, password)| base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}"));
        let login = login.map(|login| format!("Basic {}", encode(login)));
        let state = Arc::new(Shared { root: root.to_owned(), login, refuse_first, requests: AtomicU32::new(0) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(backend).with_state(Arc::clone(&state));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, state, task }
    }

    pub fn url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.address)
    }

    pub fn requests(&self) -> u32 {
        self.state.requests.load(Ordering::SeqCst)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn plain(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// CGI, as RFC 3875 has it, for one program.
async fn backend(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let number = shared.requests.fetch_add(1, Ordering::SeqCst);
    if number < shared.refuse_first {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "not yet");
    }
    let (parts, body) = request.into_parts();
    if shared.login.as_ref().is_some_and(|login| header(&parts.headers, "authorization") != *login) {
        let mut response = plain(StatusCode::UNAUTHORIZED, "log in");
        response.headers_mut().insert("www-authenticate", "Basic realm=\"git\"".parse().unwrap());
        return response;
    }
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &shared.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header(&parts.headers, "content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header(&parts.headers, "content-encoding"))
        .env("GIT_PROTOCOL", header(&parts.headers, "git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::spawn(async move {
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(output.len());
    let mut response = Response::new(Body::from(output.get(end + 4..).unwrap_or_default().to_vec()));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        match line.split_once(": ") {
            Some(("Status", status)) => *response.status_mut() = status[..3].parse().unwrap(),
            Some((name, value)) => {
                let name: axum::http::HeaderName = name.parse().unwrap();
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            None => {}
        }
    }
    response
}
