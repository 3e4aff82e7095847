//! A git repository over HTTP, served by git itself (CGI, as RFC 3875 has it).

use std::{fs, net::SocketAddr, path::Path, process::Stdio, sync::Arc};

use anyhow::{Context as _, ensure};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::Response,
};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::TcpListener, process::Command, task::JoinHandle};

/// A server of one repository with one commit. It ends with this value.
#[derive(Debug)]
pub struct GitServer {
    address: SocketAddr,
    server: JoinHandle<()>,
    _dir: Arc<TempDir>,
}

impl GitServer {
    /// Commits `files` to the branch `main` and serves them at `address`.
    pub async fn start(address: impl Into<std::net::IpAddr>, files: &[(&str, &str)]) -> anyhow::Result<Self> {
        let dir = Arc::new(tempfile::tempdir()?);
        let work = dir.path().join("work");
        fs::create_dir(&work)?;
        git(&work, &["init", "--quiet", "--initial-branch=main"]).await?;
        for (name, content) in files {
            fs::write(work.join(name), content)?;
        }
        git(&work, &["add", "."]).await?;
        git(&work, &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "first"]).await?;
        git(dir.path(), &["clone", "--quiet", "--bare", "work", "repo.git"]).await?;
        let listener = TcpListener::bind((address.into(), 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new().fallback(backend).with_state(Arc::clone(&dir));
        let server = tokio::spawn(async move {
            // The only error is a broken listener; clients then see a refused connection, which says it best.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, server, _dir: dir })
    }

    /// Where the repository is.
    pub fn url(&self) -> String {
        format!("http://{}/repo.git", self.address)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn git(dir: &Path, words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git").args(words).current_dir(dir).output().await.context("git cannot be run")?;
    ensure!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn backend(State(dir): State<Arc<TempDir>>, request: Request) -> Response {
    answer(&dir, request).await.unwrap_or_else(|error| {
        let mut response = Response::new(Body::from(format!("{error:#}")));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

async fn answer(dir: &TempDir, request: Request) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await?;
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", dir.path())
        .env("GIT_HTTP_EXPORT_ALL", "1")
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
        .spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    tokio::spawn(async move {
        // git may answer without reading everything.
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await?.stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").context("git http-backend sent no headers")?;
    let mut response = Response::new(Body::from(output[end + 4..].to_vec()));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        match line.split_once(": ") {
            Some(("Status", status)) => *response.status_mut() = status.get(..3).unwrap_or("500").parse()?,
            Some((name, value)) => {
                response.headers_mut().insert(name.parse::<HeaderName>()?, HeaderValue::from_str(value)?);
            }
            None => {}
        }
    }
    Ok(response)
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
