//! A stub of an Agent's OpenCode server, which answers the requests of the controllers, and the real companion beside it
//! over a real directory. The suites of `pod` and `cli` test with the real OpenCode.

use std::{
    collections::{BTreeSet, HashMap},
    net::Ipv4Addr,
    path::{Path as FilePath, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::Context as _;
use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Pod, Secret},
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    task::JoinHandle,
};

use crate::world::World;

/// Port of every Agent's companion.
const COMPANION_PORT: u16 = 14096;

/// A server. It ends with this value.
pub struct AgentServer {
    pub port: u16,
    /// Its own: the companion's port is the same everywhere.
    address: Ipv4Addr,
    companion: Mutex<Option<Child>>,
    state: Arc<ServerState>,
    worker: JoinHandle<()>,
}

struct ServerState {
    workspace: TempDir,
    /// As it comes in a request.
    authorization: Mutex<Option<String>>,
    asked: Mutex<Vec<Value>>,
    sessions: Mutex<HashMap<String, Value>>,
    /// Sessions that it works for.
    busy: Mutex<BTreeSet<String>>,
    /// Method and path of each request.
    requests: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AgentServer {
    /// Listens on a free port.
    pub async fn start() -> anyhow::Result<Self> {
        let state = Arc::new(ServerState {
            workspace: tempfile::tempdir()?,
            authorization: Mutex::default(),
            asked: Mutex::default(),
            sessions: Mutex::default(),
            busy: Mutex::default(),
            requests: Mutex::default(),
        });
        let router = Router::new()
            .route("/permission", get(async |State(state): State<Arc<ServerState>>| Json(lock(&state.asked).clone())))
            .route("/question", get(async || Json(json!([]))))
            .route("/session/{id}", get(session))
            .route("/session/status", get(status))
            .route("/session/{id}/abort", post(abort))
            .layer(middleware::from_fn_with_state(Arc::clone(&state), note))
            .with_state(Arc::clone(&state));
        let address = free_address().context("no free address")?;
        let listener = TcpListener::bind((address, 0)).await?;
        let port = listener.local_addr()?.port();
        let worker = tokio::spawn(async move {
            // The only error is a broken listener; clients then see a refused connection.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { port, address, companion: Mutex::default(), state, worker })
    }

    /// Where its agent works.
    pub fn workspace(&self) -> &FilePath {
        self.state.workspace.path()
    }

    /// Stands at the address of the Agent's Pod, once that is ready, and takes only the Agent's password.
    pub async fn stand_in(&self, world: &World, agent: &str) -> anyhow::Result<()> {
        let secret: Secret = world.api().get(&format!("{agent}-server-auth")).await?;
        let password = secret.data.and_then(|mut data| data.remove("password")).context("no password")?;
        let pair = [b"opencode:".to_vec(), password.0].concat();
        let pair = serde_json::to_value(ByteString(pair))?;
        *lock(&self.state.authorization) = Some(format!("Basic {}", pair.as_str().unwrap_or_default()));
        let of_agent = |pod: &Pod| {
            let labels = pod.metadata.labels.clone().unwrap_or_default();
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            labels.get("kubeopencode.io/agent").is_some_and(|name| name == agent)
                && pod.metadata.deletion_timestamp.is_none()
                && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        let wanted = format!("a ready Pod of {agent}");
        let pod = world.pods.until(&wanted, |pods| pods.all().into_iter().find(|pod| of_agent(pod)));
        let name = pod.await?.metadata.name.clone().unwrap_or_default();
        self.start_companion(world, agent).await?;
        let patch = json!({"status": {"podIP": self.address, "podIPs": [{"ip": self.address}]}});
        world.api::<Pod>().patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Starts the companion with the token of the Agent, once.
    async fn start_companion(&self, world: &World, agent: &str) -> anyhow::Result<()> {
        let secret: Secret = world.api().get(&format!("{agent}-companion")).await?;
        let token = secret.data.and_then(|mut data| data.remove("token")).context("no token")?;
        let mut companion = lock(&self.companion);
        if companion.is_none() {
            let state = self.workspace().join("companion");
            std::fs::create_dir_all(&state)?;
            let mut command = Command::new(program()?);
            command
                .arg("companion")
                .env("KUBEOPENCODE_COMPANION_LISTEN", format!("{}:{COMPANION_PORT}", self.address))
                .env("KUBEOPENCODE_COMPANION_TOKEN", String::from_utf8(token.0)?)
                .env("KUBEOPENCODE_COMPANION_DIR", state)
                .env("WORKSPACE_DIR", self.workspace())
                .kill_on_drop(true);
            *companion = Some(command.spawn()?);
        }
        Ok(())
    }

    /// A session of the Task with this UID; of one that the session `parent` started if it has none.
    pub fn session(&self, id: &str, task: Option<&str>, parent: Option<&str>) {
        let metadata = task.map(|uid| json!({"task": {"uid": uid}}));
        let about = json!({"id": id, "metadata": metadata, "parentID": parent});
        lock(&self.state.sessions).insert(id.to_owned(), about);
    }

    /// A session that it works for, of a run of the Task with this UID.
    pub fn works_for(&self, id: &str, task: &str, epoch: i64) {
        let metadata = json!({"task": {"uid": task, "epoch": epoch.to_string()}});
        lock(&self.state.sessions).insert(id.to_owned(), json!({"id": id, "metadata": metadata}));
        self.works_on(id);
    }

    /// It works for a session that is there.
    pub fn works_on(&self, id: &str) {
        lock(&self.state.busy).insert(id.to_owned());
    }

    /// Waits until it works for these sessions only.
    pub async fn until_busy(&self, wanted: &[&str]) -> anyhow::Result<()> {
        let wanted: BTreeSet<String> = wanted.iter().map(|&id| id.to_owned()).collect();
        for _ in 0..1200 {
            if *lock(&self.state.busy) == wanted {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("it works not for {wanted:?} but {:?}; it was asked {:?}", self.state.busy, self.requests())
    }

    /// Sets the pending permission requests: session, permission, pattern.
    pub fn ask(&self, asked: &[(&str, &str, &str)]) {
        *lock(&self.state.asked) = asked
            .iter()
            .map(|(session, permission, pattern)| {
                json!({"id": "per_1", "sessionID": session, "permission": permission, "patterns": [pattern]})
            })
            .collect();
    }

    /// Writes the files that a Task would deliver.
    pub fn deliver(&self, task: &str) -> anyhow::Result<()> {
        let place = self.tasks().join(task);
        std::fs::create_dir_all(&place)?;
        std::fs::write(place.join("notes.md"), "notes")?;
        Ok(())
    }

    /// Names of the Tasks whose files are there.
    pub fn delivered(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.tasks()).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Waits until only these are there.
    pub async fn until_delivered(&self, wanted: &[&str]) -> anyhow::Result<()> {
        let wanted: BTreeSet<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        for _ in 0..1200 {
            if self.delivered() == wanted {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("not {wanted:?} but {:?} are there; it was asked {:?}", self.delivered(), self.requests())
    }

    /// Method and path of each request so far.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state.requests).clone()
    }

    fn tasks(&self) -> PathBuf {
        self.workspace().join(".kubeopencode/tasks")
    }
}

impl Drop for AgentServer {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

async fn note(State(state): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    lock(&state.requests).push(format!("{} {}", request.method(), request.uri().path()));
    let given = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if given != lock(&state.authorization).as_deref() {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    next.run(request).await
}

async fn session(State(state): State<Arc<ServerState>>, Path(id): Path<String>) -> Response {
    match lock(&state.sessions).get(&id) {
        Some(about) => Json(about.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn status(State(state): State<Arc<ServerState>>) -> Json<Value> {
    let busy = lock(&state.busy);
    Json(busy.iter().map(|id| (id.clone(), json!({"type": "busy"}))).collect::<serde_json::Map<_, _>>().into())
}

async fn abort(State(state): State<Arc<ServerState>>, Path(id): Path<String>) -> Json<bool> {
    Json(lock(&state.busy).remove(&id))
}

/// An address of this machine on which no companion listens.
fn free_address() -> Option<Ipv4Addr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id();
    let mut all = std::iter::from_fn(|| Some(first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))).take(1000);
    all.find_map(|number| {
        let [_, _, third, fourth] = number.to_be_bytes();
        let address = Ipv4Addr::new(127, 91, third, fourth.clamp(1, 254));
        std::net::TcpListener::bind((address, COMPANION_PORT)).ok().map(|_| address)
    })
}

/// The program that the controllers of this suite are.
fn program() -> anyhow::Result<String> {
    let here = if let Some(path) = std::env::var_os("KUBEOPENCODE_BINARY") {
        path.into()
    } else {
        let test = std::env::current_exe()?;
        test.parent().and_then(FilePath::parent).context("the test has no directory")?.join("kubeopencode")
    };
    Ok(here.display().to_string())
}
