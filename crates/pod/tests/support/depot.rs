//! A depot in memory that speaks the real protocol, with faults. The real depot has its own tests.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use domain::contract::depot::{Found, Publication, Refusal, RefusalReason, Stored};
use fileset::{Digest, Limits, Packed, Patterns};
use futures::StreamExt as _;
use reqwest::Url;
use serde::Serialize;
use serde_json::Value;

pub const LIMITS: Limits = Limits { files: 100_000, bytes: 1 << 30 };

/// What goes wrong with a request instead of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    Refuse(RefusalReason),
    /// A status and a text, as a proxy answers.
    Answer(u16, &'static str),
    /// Reads nothing and never answers.
    Hang,
    /// The connection ends after so many bytes of content.
    Cut(usize),
    /// One bit of the bytes changes.
    Damage,
    /// The bytes are elsewhere.
    Redirect,
}

#[derive(Default)]
pub struct Store {
    pub blobs: HashMap<String, Vec<u8>>,
    pub artifacts: BTreeMap<String, Publication>,
    /// In the order in which they were saved.
    pub caches: Vec<(String, String, Publication)>,
    pub changes: Option<Stored>,
    pub outputs: Option<Value>,
    /// By task and artefact.
    pub inputs: BTreeMap<(String, String), Publication>,
    /// Method, path and headers.
    pub requests: Vec<(String, HeaderMap)>,
    /// Requests that begin like this fail, so many times.
    faults: Vec<(String, usize, Fault)>,
}

pub struct Depot {
    address: SocketAddr,
    store: Arc<Mutex<Store>>,
    task: tokio::task::JoinHandle<()>,
}

impl Depot {
    pub async fn start() -> Self {
        let store = Arc::new(Mutex::new(Store::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&store));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, store, task }
    }

    pub fn url(&self) -> Url {
        Url::parse(&format!("http://{}", self.address)).unwrap()
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Requests such as `PUT /v1/blobs` fail, so many times.
    pub fn fail(&self, request: &str, times: usize, fault: Fault) {
        self.store().faults.push((request.to_owned(), times, fault));
    }

    /// Number of requests that begin like this.
    pub fn requests(&self, begin: &str) -> usize {
        self.store().requests.iter().filter(|(request, _)| request.starts_with(begin)).count()
    }

    /// Stores files, and returns their publication.
    pub fn pack(&self, files: &[(&str, &str)]) -> Publication {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let mut archive = Vec::new();
        let patterns = Patterns::parse(&["**"]).unwrap();
        let Packed { manifest, digest, bytes, files, .. } =
            fileset::pack(root.path(), &patterns, &[], LIMITS, &mut archive).unwrap();
        let manifest = serde_json::to_value(&manifest).unwrap();
        let publication = Publication { digest: digest.to_string(), bytes, files, manifest };
        self.store().blobs.insert(publication.digest.clone(), archive);
        publication
    }

    pub fn add_input(&self, task: &str, artifact: &str, files: &[(&str, &str)]) {
        let publication = self.pack(files);
        self.store().inputs.insert((task.to_owned(), artifact.to_owned()), publication);
    }

    pub fn add_cache(&self, name: &str, key: &str, files: &[(&str, &str)]) {
        let publication = self.pack(files);
        self.store().caches.push((name.to_owned(), key.to_owned(), publication));
    }

    /// The files of a publication, unpacked.
    pub fn unpacked(&self, publication: &Publication) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let manifest = serde_json::from_value(publication.manifest.clone()).unwrap();
        let archive = self.store().blobs[&publication.digest].clone();
        fileset::unpack(&archive[..], &manifest, root.path(), LIMITS).unwrap();
        root
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Store {
    fn fault(&mut self, request: &str) -> Option<Fault> {
        let (_, times, fault) =
            self.faults.iter_mut().find(|(begin, times, _)| request.starts_with(begin.as_str()) && *times > 0)?;
        *times -= 1;
        Some(fault.clone())
    }

    fn named(&mut self, request: &str, query: &[(String, String)], body: &[u8]) -> Response {
        let publication = || serde_json::from_slice::<Publication>(body);
        let known = |store: &Self, digest: &str| store.blobs.contains_key(digest);
        let key = query.iter().find(|(name, _)| name == "key").map(|(_, key)| key.clone()).unwrap_or_default();
        match request.split_once("/v1/").map(|(method, path)| (method.trim(), path.split('/').collect::<Vec<_>>())) {
            Some(("POST", path)) if path[0] == "artifacts" => {
                let publication = publication().unwrap();
                assert!(known(self, &publication.digest), "named before it is stored");
                match self.artifacts.get(path[1]) {
                    None => {
                        self.artifacts.insert(path[1].to_owned(), publication);
                        StatusCode::CREATED.into_response()
                    }
                    Some(before) if *before == publication => StatusCode::OK.into_response(),
                    Some(_) => refuse(RefusalReason::Conflict),
                }
            }
            Some(("POST", path)) if path[0] == "caches" => {
                let publication = publication().unwrap();
                assert!(known(self, &publication.digest), "named before it is stored");
                if self.caches.iter().any(|(name, saved, _)| name == path[1] && *saved == key) {
                    return StatusCode::OK.into_response();
                }
                self.caches.push((path[1].to_owned(), key, publication));
                StatusCode::CREATED.into_response()
            }
            Some(("POST", path)) if path[0] == "changes" => {
                let stored: Stored = serde_json::from_slice(body).unwrap();
                assert!(known(self, &stored.digest), "named before it is stored");
                let before = self.changes.replace(stored);
                if before.is_some() { StatusCode::OK } else { StatusCode::CREATED }.into_response()
            }
            Some(("PUT", path)) if path[0] == "outputs" => {
                let before = self.outputs.replace(serde_json::from_slice(body).unwrap());
                if before.is_some() { StatusCode::OK } else { StatusCode::CREATED }.into_response()
            }
            _ => refuse(RefusalReason::NotFound),
        }
    }

    /// The set that a path below `/v1/` names, and its key.
    fn find(&self, path: &[&str], query: &[(String, String)]) -> Option<(Option<String>, &Publication)> {
        let values = |wanted: &str| {
            query.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        match path {
            ["inputs", task, artifact, ..] => {
                self.inputs.get(&((*task).to_owned(), (*artifact).to_owned())).map(|found| (None, found))
            }
            ["caches", name, ..] => {
                let entries = || self.caches.iter().rev().filter(|(saved, ..)| saved == name);
                let exact = entries().find(|(_, key, _)| values("key").contains(key));
                let prefixes = values("prefix");
                let mut newest =
                    prefixes.iter().filter_map(|prefix| entries().find(|(_, key, _)| key.starts_with(prefix)));
                exact.or_else(|| newest.next()).map(|(_, key, found)| (Some(key.clone()), found))
            }
            _ => None,
        }
    }
}

async fn answer(State(store): State<Arc<Mutex<Store>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let line = format!("{} {}", parts.method, parts.uri.path());
    let fault = {
        let mut store = store.lock().unwrap();
        store.requests.push((line.clone(), parts.headers.clone()));
        store.fault(&line)
    };
    match &fault {
        Some(Fault::Refuse(reason)) => return refuse(*reason),
        Some(Fault::Answer(status, text)) => return (StatusCode::from_u16(*status).unwrap(), *text).into_response(),
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::Redirect) => {
            let elsewhere = format!("/elsewhere{}?{}", parts.uri.path(), parts.uri.query().unwrap_or_default());
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, elsewhere)]).into_response();
        }
        Some(Fault::Cut(_) | Fault::Damage) | None => {}
    }
    let elsewhere = parts.uri.path().starts_with("/elsewhere");
    // A bucket refuses a request with two kinds of credentials.
    if elsewhere == parts.headers.contains_key(header::AUTHORIZATION) {
        return refuse(RefusalReason::Unauthenticated);
    }
    if line.starts_with("GET ") {
        return get(&store.lock().unwrap(), &parts.uri, &parts.headers, fault.as_ref());
    }
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        // An upload that is cut off is worth nothing.
        let Ok(piece) = piece else { return refuse(RefusalReason::Malformed) };
        bytes.extend_from_slice(&piece);
        if matches!(fault, Some(Fault::Cut(most)) if bytes.len() > most) {
            return refuse(RefusalReason::TooLarge);
        }
    }
    let mut store = store.lock().unwrap();
    if line != "PUT /v1/blobs" {
        return store.named(&line, &query(&parts.uri), &bytes);
    }
    if let (Some(Fault::Damage), Some(byte)) = (&fault, bytes.first_mut()) {
        *byte ^= 1;
    }
    let stored = Stored { digest: Digest::of(&bytes).to_string(), bytes: bytes.len() as u64 };
    store.blobs.insert(stored.digest.clone(), bytes);
    json(&stored)
}

fn get(store: &Store, uri: &Uri, headers: &HeaderMap, fault: Option<&Fault>) -> Response {
    let path = uri.path().trim_start_matches("/elsewhere").trim_start_matches("/v1/");
    let path: Vec<&str> = path.split('/').collect();
    let Some((key, found)) = store.find(&path, &query(uri)) else { return refuse(RefusalReason::NotFound) };
    if path.last() != Some(&"content") {
        let Publication { digest, bytes, manifest, .. } = found.clone();
        return json(&Found { key, digest, bytes, manifest });
    }
    let mut bytes = store.blobs[&found.digest].clone();
    if matches!(fault, Some(Fault::Damage)) {
        bytes[10] ^= 1;
    }
    let range = headers.get(header::RANGE).map(|range| range.to_str().unwrap().to_owned());
    let start = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let total = bytes.len();
    let rest = bytes.split_off(start.unwrap_or(0));
    let length = rest.len();
    let body = match fault {
        Some(Fault::Cut(most)) => {
            let cut = async {
                // The server sends what it has when it must wait.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                Err(std::io::Error::other("cut"))
            };
            let begin = futures::stream::iter([Ok(rest[..*most].to_vec())]);
            Body::from_stream(begin.chain(futures::stream::once(cut)))
        }
        _ => Body::from(rest),
    };
    let builder = Response::builder().header(header::CONTENT_LENGTH, length);
    let builder = match start {
        Some(start) => builder
            .status(StatusCode::PARTIAL_CONTENT)
            .header(header::CONTENT_RANGE, format!("bytes {start}-{}/{total}", total - 1)),
        None => builder,
    };
    builder.body(body).unwrap()
}

fn query(uri: &Uri) -> Vec<(String, String)> {
    let url = Url::parse(&format!("http://depot/?{}", uri.query().unwrap_or_default())).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn json(value: &impl Serialize) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], serde_json::to_vec(value).unwrap()).into_response()
}

fn refuse(reason: RefusalReason) -> Response {
    let refusal = Refusal { reason, message: format!("this depot says {reason:?}") };
    (StatusCode::from_u16(reason.status()).unwrap(), serde_json::to_vec(&refusal).unwrap()).into_response()
}
