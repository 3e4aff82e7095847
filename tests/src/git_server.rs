//! Git repositories over HTTP, served by git itself (CGI, as RFC 3875 has it).

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context as _, ensure};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
    serve::Listener,
};
use k8s_openapi::ByteString;
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
    server::TlsStream,
};

/// How a server treats those who ask.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Who may ask: a user and a password.
    pub login: Option<(String, String)>,
    /// So many requests are answered with 500 first.
    pub refuse_first: u32,
    /// It speaks TLS, with a certificate of an authority of its own.
    pub tls: bool,
}

/// A server of repositories. It ends with this value.
#[derive(Debug)]
pub struct GitServer {
    address: SocketAddr,
    authority: Option<String>,
    served: Arc<Served>,
    server: JoinHandle<()>,
    own: Option<TempDir>,
}

#[derive(Debug)]
struct Served {
    root: PathBuf,
    login: Option<String>,
    refuse_first: u32,
    requests: AtomicU32,
}

impl GitServer {
    /// Serves one repository, whose branch `main` has one commit with `files`, at an address.
    pub async fn start(address: impl Into<IpAddr>, files: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_with(address, files, Manner::default()).await
    }

    /// The same in another manner.
    pub async fn start_with(
        address: impl Into<IpAddr>,
        files: &[(&str, &str)],
        manner: Manner,
    ) -> anyhow::Result<Self> {
        let own = tempfile::tempdir()?;
        let work = own.path().join("repo.git");
        fs::create_dir(&work)?;
        git(&work, &["init", "--quiet", "--initial-branch=main"]).await?;
        let mut server = Self::serve(address, own.path(), manner).await?;
        server.own = Some(own);
        for (name, content) in files {
            server.commit(name, content).await?;
        }
        Ok(server)
    }

    /// Serves every repository below `root`.
    pub async fn serve(address: impl Into<IpAddr>, root: &Path, manner: Manner) -> anyhow::Result<Self> {
        let login = manner.login.map(|(user, password)| format!("Basic {}", base64(&format!("{user}:{password}"))));
        let (root, refuse_first) = (root.to_owned(), manner.refuse_first);
        let served = Arc::new(Served { root, login, refuse_first, requests: AtomicU32::default() });
        let listener = TcpListener::bind((address.into(), 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new().fallback(backend).with_state(Arc::clone(&served));
        // The only error is a broken listener; clients then see a refused connection.
        let (task, authority) = if manner.tls {
            let (acceptor, authority) = certified(address.ip())?;
            let listener = Secured { listener, acceptor };
            (tokio::spawn(async move { drop(axum::serve(listener, router).await) }), Some(authority))
        } else {
            (tokio::spawn(async move { drop(axum::serve(listener, router).await) }), None)
        };
        Ok(Self { address, authority, served, server: task, own: None })
    }

    /// Where the repository of [`GitServer::start`] is.
    pub fn url(&self) -> String {
        self.url_of("repo.git")
    }

    /// Where a repository is.
    pub fn url_of(&self, repository: &str) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/{repository}", self.address)
    }

    /// The authority that vouches for it, as PEM.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().unwrap_or_default()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u32 {
        self.served.requests.load(Ordering::SeqCst)
    }

    /// Makes a branch of the repository of [`GitServer::start`], which stays where `main` is now.
    pub async fn branch(&self, name: &str) -> anyhow::Result<()> {
        let work = self.own.as_ref().context("the repositories are somebody else's")?.path().join("repo.git");
        git(&work, &["branch", name]).await.map(drop)
    }

    /// Commits a file to the repository of [`GitServer::start`], and returns the commit.
    pub async fn commit(&self, file: &str, content: &str) -> anyhow::Result<String> {
        let work = self.own.as_ref().context("the repositories are somebody else's")?.path().join("repo.git");
        fs::write(work.join(file), content)?;
        git(&work, &["add", "."]).await?;
        git(&work, &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", file]).await?;
        git(&work, &["rev-parse", "HEAD"]).await
    }

    /// Lets those who may ask push to the repository of [`GitServer::start`] too.
    pub async fn allow_pushes(&self) -> anyhow::Result<()> {
        let work = self.own.as_ref().context("the repositories are somebody else's")?.path().join("repo.git");
        git(&work, &["config", "http.receivepack", "true"]).await.map(drop)
    }

    /// A file on a branch of the repository of [`GitServer::start`], without white space at its end.
    pub async fn read(&self, branch: &str, file: &str) -> anyhow::Result<String> {
        let work = self.own.as_ref().context("the repositories are somebody else's")?.path().join("repo.git");
        git(&work, &["show", &format!("{branch}:{file}")]).await
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Connections over TLS.
struct Secured {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Who does not trust us hangs up; the next one may.
            if let Ok((stream, from)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A certificate for an address, and the authority that vouches for it.
fn certified(address: IpAddr) -> anyhow::Result<(TlsAcceptor, String)> {
    let name = if address.is_unspecified() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { address };
    let signed = rcgen::generate_simple_self_signed([name.to_string()])?;
    let key = PrivateKeyDer::Pkcs8(signed.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), signed.cert.pem()))
}

async fn git(dir: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(args).current_dir(dir).output().await.context("git cannot be run")?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn base64(text: &str) -> String {
    let encoded = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap_or_default();
    encoded.as_str().unwrap_or_default().to_owned()
}

async fn backend(State(served): State<Arc<Served>>, request: Request) -> Response {
    if served.requests.fetch_add(1, Ordering::SeqCst) < served.refuse_first {
        return (StatusCode::INTERNAL_SERVER_ERROR, "not yet").into_response();
    }
    if served.login.as_ref().is_some_and(|login| header(request.headers(), "authorization") != *login) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"git\"")], "log in").into_response();
    }
    let answer = answer(&served.root, request).await;
    answer.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response())
}

async fn answer(root: &Path, request: Request) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await?;
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
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
