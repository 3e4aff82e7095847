//! url-fetch against real servers on loopback.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kubeopencode_pod::env;
use kubeopencode_pod::url_fetch::{self, Error, Settings};

use crate::support::helper::{Helper, command};
use crate::support::lookup;

/// Path and headers of each request.
type Requests = Arc<Mutex<Vec<(String, HeaderMap)>>>;

struct Server {
    address: SocketAddr,
    requests: Requests,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let requests = Requests::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&requests));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, requests, task }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn headers(&self, name: &str) -> Vec<Option<String>> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|(_, headers)| headers.get(name).map(|value| value.to_str().unwrap().to_owned())).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(requests): State<Requests>, request: Request) -> Response {
    let uri = request.uri().clone();
    requests.lock().unwrap().push((uri.to_string(), request.headers().clone()));
    let redirect = |to: &str| (StatusCode::FOUND, [(header::LOCATION, to.to_owned())]).into_response();
    match uri.path() {
        "/to" => redirect(uri.query().unwrap()),
        "/loop" => redirect("/loop"),
        "/missing" => StatusCode::NOT_FOUND.into_response(),
        "/private" => StatusCode::UNAUTHORIZED.into_response(),
        "/long" => "x".repeat(2000).into_response(),
        "/endless" => {
            let pieces = futures::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1000)));
            Body::from_stream(pieces).into_response()
        }
        "/slow" => std::future::pending().await,
        _ => "hello".into_response(),
    }
}

struct Case {
    directory: tempfile::TempDir,
    pairs: Vec<(&'static str, String)>,
}

impl Case {
    fn new(url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("docs/page.md").display().to_string();
        let pairs = vec![
            (env::URL_SOURCE, url.to_owned()),
            (env::URL_TARGET, target),
            (env::URL_ALLOW_LOOPBACK, "true".to_owned()),
        ];
        Self { directory, pairs }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.pairs.retain(|(key, _)| *key != name);
        self.pairs.push((name, value.to_owned()));
        self
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("docs/page.md")
    }

    async fn fetch(&self) -> Result<url_fetch::Fetched, Error> {
        url_fetch::run(&Settings::from_env(&lookup(&self.pairs)).unwrap()).await
    }

    /// Nothing is there: no file, no half of a file.
    fn assert_nothing(&self) {
        let left = std::fs::read_dir(self.target().parent().unwrap()).map_or(0, Iterator::count);
        assert_eq!(left, 0);
    }
}

#[tokio::test]
async fn a_page_is_fetched_with_its_headers_and_its_mode() {
    let server = Server::start().await;
    let case = Case::new(&server.url("/page?signature=secret"))
        .with(env::URL_HEADERS, r#"{"X-Api": "key-1"}"#)
        .with(env::URL_AUTH_TOKEN, "token-1")
        .with(env::URL_FILE_MODE, "0600");
    let fetched = case.fetch().await.unwrap();
    assert_eq!(fetched.bytes, 5);
    assert!(!fetched.url.contains("secret"), "{}", fetched.url);
    assert_eq!(std::fs::read_to_string(case.target()).unwrap(), "hello");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&case.target().metadata().unwrap()) & 0o777, 0o600);
    assert_eq!(server.headers("authorization"), [Some("Bearer token-1".to_owned())]);
    assert_eq!(server.headers("x-api"), [Some("key-1".to_owned())]);
}

#[tokio::test]
async fn secrets_follow_a_redirect_on_the_same_host_and_no_other() {
    let (server, other) = (Server::start().await, Server::start().await);
    let with_secrets = |url: &str| {
        Case::new(url)
            .with(env::URL_HEADERS, r#"{"X-Api": "key-1"}"#)
            .with(env::URL_AUTH_USERNAME, "me")
            .with(env::URL_AUTH_PASSWORD, "pw")
    };
    with_secrets(&server.url("/to?/page")).fetch().await.unwrap();
    assert!(server.headers("x-api").iter().all(Option::is_some));
    with_secrets(&server.url(&format!("/to?{}", other.url("/page")))).fetch().await.unwrap();
    assert_eq!(other.headers("authorization"), [None]);
    assert_eq!(other.headers("x-api"), [None]);
}

#[tokio::test]
async fn link_local_targets_are_refused_also_behind_a_redirect() {
    let server = Server::start().await;
    for target in ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://2852039166/", "ftp://127.0.0.1/x"] {
        let case = Case::new(&server.url(&format!("/to?{target}")));
        let error = case.fetch().await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. } | Error::Protocol { .. }), "{target}: {error}");
        case.assert_nothing();
    }
}

#[tokio::test]
async fn this_machine_is_refused_as_address_and_as_name() {
    let server = Server::start().await;
    let refused = |url: &str| Case::new(url).with(env::URL_ALLOW_LOOPBACK, "false");
    let error = refused(&server.url("/page")).fetch().await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let by_name = format!("http://localhost:{}/page", server.address.port());
    let error = refused(&by_name).fetch().await.unwrap_err();
    assert!(matches!(error, Error::RefusedName(_)), "{error}");
    assert!(error.to_string().contains("localhost resolves to"), "{error}");
    Case::new(&by_name).fetch().await.unwrap();
}

#[tokio::test]
async fn every_failure_has_its_sentence_and_leaves_nothing() {
    let server = Server::start().await;
    for (path, setting, part) in [
        ("/missing", None, "answers 404; check the address"),
        ("/private", None, "answers 401; check the credentials"),
        ("/loop", None, "redirects more than 5 times"),
        ("/long", Some((env::URL_MAX_BYTES, "1999")), "longer than 1999 bytes"),
        ("/endless", Some((env::URL_MAX_BYTES, "5000")), "longer than 5000 bytes"),
        ("/slow", Some((env::URL_TIMEOUT, "200ms")), "was not read within 0.2 s"),
    ] {
        let mut case = Case::new(&server.url(path));
        if let Some((name, value)) = setting {
            case = case.with(name, value);
        }
        let error = case.fetch().await.unwrap_err().to_string();
        assert!(error.contains(part), "{path}: {error}");
        case.assert_nothing();
    }
    Case::new(&server.url("/long")).with(env::URL_MAX_BYTES, "2000").fetch().await.unwrap();
}

#[tokio::test]
async fn a_failure_leaves_the_old_file() {
    let server = Server::start().await;
    let case = Case::new(&server.url("/endless")).with(env::URL_MAX_BYTES, "5000");
    std::fs::create_dir_all(case.target().parent().unwrap()).unwrap();
    std::fs::write(case.target(), "old").unwrap();
    case.fetch().await.unwrap_err();
    assert_eq!(std::fs::read_to_string(case.target()).unwrap(), "old");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_from_the_environment_is_used() {
    let proxy = Server::start().await;
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("page").display().to_string();
    let url = format!("http://{}", proxy.address);
    let fetch = |no_proxy: &str| {
        let environment = [
            (env::URL_SOURCE, "http://docs.example.invalid/page"),
            (env::URL_TARGET, target.as_str()),
            ("HTTP_PROXY", url.as_str()),
            ("http_proxy", url.as_str()),
            ("NO_PROXY", no_proxy),
            ("no_proxy", no_proxy),
        ];
        Helper::start(command("url-fetch", &[], &environment)).finish(Duration::from_secs(40))
    };
    let finished = fetch("");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(proxy.requests.lock().unwrap()[0].0, "http://docs.example.invalid/page");
    let finished = fetch(".example.invalid");
    assert_eq!(finished.code, Some(1));
    assert_eq!(proxy.requests.lock().unwrap().len(), 1);
}

/// Answers one request after the other over TLS, for a certificate of its own authority.
fn tls_server(authority: &std::path::Path) -> SocketAddr {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(authority, signed.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(signed.signing_key.serialize_der().into());
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Three requests at most; the thread ends with the process in any case.
    std::thread::spawn(move || {
        for socket in listener.incoming().take(3) {
            let Ok(mut socket) = socket else { continue };
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::Stream::new(&mut connection, &mut socket);
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecure");
                connection.send_close_notify();
                let _ = connection.complete_io(&mut socket);
            }
        }
    });
    address
}

#[tokio::test]
async fn the_clusters_own_authority_is_trusted_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("ca.crt");
    let url = format!("https://{}/", tls_server(&authority));
    let error = Case::new(&url).fetch().await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let authority = authority.display().to_string();
    let case = Case::new(&url).with(env::CUSTOM_CA_CERT_PATH, &authority);
    case.fetch().await.unwrap();
    assert_eq!(std::fs::read_to_string(case.target()).unwrap(), "secure");
    Case::new(&url).with(env::URL_INSECURE, "true").fetch().await.unwrap();
}
