//! A proxy in front of the API server that expires watches and refuses writes on demand, as an API server may.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{
        Method, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use blackbox::control_plane::ControlPlane;
use futures::{StreamExt as _, stream};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// A machine that is busy with builds needs longer than a second.
const LIMIT: Duration = Duration::from_mins(1);

/// The error of an API server for a resource version that is too old.
#[derive(Clone, Copy, Debug)]
pub enum Expiry {
    /// By the last event of a watch.
    InTheWatch,
    /// By its answer to the next request for one.
    NextWatch,
}

/// A path, and whether only metadata are followed.
type Followed = (String, bool);

/// Forwards requests to an API server, and answers some of them itself.
pub struct Gateway {
    inner: Arc<Inner>,
    worker: JoinHandle<()>,
    dir: TempDir,
}

struct Inner {
    client: Client,
    /// How often it expired a watch, and how it reported that last.
    era: watch::Sender<(u64, Expiry)>,
    /// Whether lists are answered.
    lists: watch::Sender<bool>,
    /// The era in which something was listed last.
    listed: watch::Sender<HashMap<Followed, u64>>,
    /// What was watched at all: some things are listed once.
    watched: Mutex<HashSet<Followed>>,
    /// Writes to refuse: how many, and the suffix of their paths.
    refused: Mutex<(usize, &'static str)>,
}

impl Gateway {
    pub async fn start(cluster: &ControlPlane) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", listener.local_addr()?)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("kubeconfig"), config.to_string())?;
        let inner = Arc::new(Inner {
            client: cluster.client().await?,
            era: watch::Sender::new((0, Expiry::InTheWatch)),
            lists: watch::Sender::new(true),
            listed: watch::Sender::default(),
            watched: Mutex::default(),
            refused: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let worker = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { inner, worker, dir })
    }

    /// A kubeconfig that leads through here.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Every watch ends, and none goes on from where it was. Lists wait for [`Self::answer_lists`].
    pub fn expire(&self, how: Expiry) {
        self.hold_lists();
        self.inner.era.send_modify(|era| *era = (era.0 + 1, how));
    }

    /// Leaves lists without an answer until [`Self::answer_lists`].
    pub fn hold_lists(&self) {
        self.inner.lists.send_replace(false);
    }

    /// Answers lists again.
    pub fn answer_lists(&self) {
        self.inner.lists.send_replace(true);
    }

    /// Waits until everything that was followed is followed anew since the last expiry.
    pub async fn until_all_is_listed_again(&self) -> anyhow::Result<()> {
        let era = self.inner.era.borrow().0;
        let mut listed = self.inner.listed.subscribe();
        let watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = listed.wait_for(|listed| watched.iter().all(|path| listed.get(path) == Some(&era)));
        tokio::time::timeout(LIMIT, all).await.context("not everything was listed again")??;
        Ok(())
    }

    /// The next writes whose path ends with this are refused with a conflict.
    pub fn refuse(&self, number: usize, ending: &'static str) {
        *self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner) = (number, ending);
    }

    /// How many writes are still to be refused.
    pub fn still_to_refuse(&self) -> usize {
        self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

impl Inner {
    /// Whether a write is refused.
    fn refuses(&self, path: &str) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, ending) = *refused;
        let refuse = number > 0 && path.ends_with(ending);
        refused.0 -= usize::from(refuse);
        refuse
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if !request.method().is_safe() && inner.refuses(&path) {
        let status = status(StatusCode::CONFLICT, "Conflict", "the object has been modified");
        return (StatusCode::CONFLICT, [(CONTENT_TYPE, "application/json")], status.to_string()).into_response();
    }
    // Watches of a kind cover all namespaces.
    if request.method() != Method::GET || path.contains("/namespaces/") {
        return forward(&inner, request).await;
    }
    let kind = request.headers().get(ACCEPT).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let followed = (path, kind.contains("PartialObjectMetadata"));
    if !request.uri().query().unwrap_or_default().contains("watch=") {
        // The sender lives in `inner`.
        let _ = inner.lists.subscribe().wait_for(|answered| *answered).await;
        let era = inner.era.borrow().0;
        let answer = forward(&inner, request).await;
        inner.listed.send_modify(|listed| {
            listed.insert(followed, era);
        });
        return answer;
    }
    let mut era = inner.era.subscribe();
    let now = era.borrow_and_update().0;
    let gone = status(StatusCode::GONE, "Expired", "too old resource version");
    let listed = inner.listed.borrow().get(&followed).copied();
    inner.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(followed);
    if listed != Some(now) {
        return (StatusCode::GONE, [(CONTENT_TYPE, "application/json")], gone.to_string()).into_response();
    }
    let (head, body) = forward(&inner, request).await.into_parts();
    let last = Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": gone})));
    let events = stream::unfold(Some((body.into_data_stream(), era)), move |state| {
        let last = last.clone();
        async move {
            let (mut events, mut era) = state?;
            let expiry = async { era.wait_for(|(number, _)| *number > now).await.map(|era| era.1) };
            tokio::select! {
                event = events.next() => event.map(|event| (event, Some((events, era)))),
                how = expiry => matches!(how, Ok(Expiry::InTheWatch)).then_some((Ok(last), None)),
            }
        }
    });
    Response::from_parts(head, Body::from_stream(events))
}

async fn forward(inner: &Inner, request: Request) -> Response {
    let broken = |error: String| (StatusCode::BAD_GATEWAY, error).into_response();
    let (head, body) = request.into_parts();
    let body: Bytes = match to_bytes(body, 64 << 20).await {
        Ok(body) => body,
        Err(error) => return broken(error.to_string()),
    };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = http::Request::builder().method(head.method).uri(path);
    for name in [ACCEPT, CONTENT_TYPE] {
        if let Some(value) = head.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = match request.body(kube::client::Body::from(body.to_vec())) {
        Ok(request) => request,
        Err(error) => return broken(error.to_string()),
    };
    match inner.client.send(request).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let mut answer = Response::new(Body::new(body));
            *answer.status_mut() = head.status;
            answer.headers_mut().extend(head.headers.get(CONTENT_TYPE).map(|kind| (CONTENT_TYPE, kind.clone())));
            answer
        }
        Err(error) => broken(error.to_string()),
    }
}

fn status(code: StatusCode, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code.as_u16(),
    })
}
