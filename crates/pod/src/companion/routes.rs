//! The paths of the protocol.

use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use domain::contract::companion::{
    Begin, CompareRequest, Compared, Delivered, FileSetRequest, Framed, MOST_OUTPUTS_BYTES, Packed, Tasks, is_task_name,
};
use domain::contract::paths;
use fileset::{Name, Patterns};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use super::Shared;
use super::delivery;
use super::frames::Frames;
use super::refused::{Answer, Refused};
use super::runs::{self, Run};
use crate::housekeeper::{LIMITS, results};
use crate::place::Root;

/// Chunks of a delivery between the connection and the thread that writes files.
const CHUNKS: usize = 4;
/// What a client still sends after its request is refused is read for this long: otherwise the connection is reset, and
/// the client may lose the reason.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes of a request that is JSON: the longest one lists the files that a session edited.
const MOST_REQUEST_BYTES: usize = 16 << 20;
/// A request for file sets waits this long for its turn.
const TURN: Duration = Duration::from_secs(20);

type All = State<Arc<Shared>>;
type RunPath = Path<(String, String, String)>;

pub fn router(shared: Arc<Shared>) -> Router {
    let guarded = Router::new()
        .route("/v1/runs/{task}/{uid}/{epoch}", post(begin).delete(end))
        .route("/v1/runs/{task}/{uid}/{epoch}/files", put(files))
        .route("/v1/runs/{task}/{uid}/{epoch}/filesets", post(file_set))
        .route("/v1/runs/{task}/{uid}/{epoch}/changes", post(changes))
        .route("/v1/runs/{task}/{uid}/{epoch}/outputs", get(outputs))
        .route("/v1/tasks", get(tasks))
        .route("/v1/tasks/{task}", delete(remove))
        .method_not_allowed_fallback(async || Refused::malformed("the path has other methods"))
        .fallback(async || Refused::not_found("there is no such path"))
        .layer(DefaultBodyLimit::max(MOST_REQUEST_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard));
    Router::new().route("/healthz", get(async || "ok")).merge(guarded).with_state(shared)
}

/// Lets only those in who know the token.
async fn guard(State(shared): All, request: Request, next: Next) -> Answer<Response> {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match token {
        Some((_, token)) if shared.settings.token.is(token.trim()) => Ok(next.run(request).await),
        _ => Err(Refused::unauthenticated()),
    }
}

async fn begin(State(shared): All, Path((task, uid, epoch)): RunPath, Json(begin): Json<Begin>) -> Answer<StatusCode> {
    let run = Run::parse(&task, &uid, &epoch)?;
    let settings = &shared.settings;
    run.admit(&settings.state)?;
    let _turn = shared.turn(&run.task)?;
    if begin.outputs {
        let (root, directory) = (settings.workspace.clone(), run.directory());
        // What an earlier run wrote is no output of this one.
        blocking(move || delivery::clear(&Root::open(&root)?, &directory.join(paths::TASK_OUTPUTS))).await?;
    }
    let known = run.begin(&settings.state, &settings.workspace, begin).await;
    known.map_err(|error| failed(&error))?;
    tracing::info!(task = run.task, "a run begins");
    Ok(StatusCode::NO_CONTENT)
}

async fn end(State(shared): All, Path((task, uid, epoch)): RunPath) -> Answer<StatusCode> {
    let run = Run::parse(&task, &uid, &epoch)?;
    run.end(&shared.settings.state).map_err(|error| failed(&error))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn files(State(shared): All, Path((task, uid, epoch)): RunPath, body: Body) -> Answer<Json<Delivered>> {
    let run = Run::parse(&task, &uid, &epoch)?;
    let patience = shared.settings.patience;
    let mut body = body.into_data_stream();
    let delivered = async {
        run.admit(&shared.settings.state)?;
        let turn = shared.turn(&run.task)?;
        let (root, directory) = (shared.settings.workspace.clone(), run.directory());
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let placing = blocking(move || {
            // A client that is gone does not end the thread at once.
            let _turn = turn;
            delivery::place(&Root::open(&root)?, &directory, &mut Chunks { receiver, chunk: Bytes::new(), over: false })
        });
        let (delivered, ()) = tokio::join!(placing, feed(&mut body, sender, patience));
        delivered
    };
    let delivered = match delivered.await {
        Ok(delivered) => delivered,
        Err(refused) => {
            let rest = async { while body.next().await.is_some_and(|chunk| chunk.is_ok()) {} };
            let _ = tokio::time::timeout(LINGER, rest).await;
            return Err(refused);
        }
    };
    tracing::info!(task = run.task, files = delivered.files, bytes = delivered.bytes, "files were delivered");
    Ok(Json(delivered))
}

/// Passes the body on, and its end only if it was whole.
async fn feed(body: &mut BodyDataStream, sender: mpsc::Sender<io::Result<Bytes>>, patience: Duration) {
    loop {
        let chunk = match tokio::time::timeout(patience, body.next()).await {
            Err(_) => Err(io::Error::other("its sender does nothing")),
            Ok(Some(Err(_))) => Err(io::Error::other("its sender is gone")),
            Ok(Some(Ok(chunk))) if chunk.is_empty() => continue,
            Ok(Some(Ok(chunk))) => Ok(chunk),
            Ok(None) => Ok(Bytes::new()),
        };
        let last = chunk.as_ref().map_or(true, Bytes::is_empty);
        if sender.send(chunk).await.is_err() || last {
            return;
        }
    }
}

/// The body in a thread. An empty chunk is its end; without one it was cut off.
struct Chunks {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    chunk: Bytes,
    over: bool,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !self.over {
            self.chunk =
                self.receiver.blocking_recv().unwrap_or_else(|| Err(io::Error::other("its sender is gone")))?;
            self.over = self.chunk.is_empty();
        }
        let length = buffer.len().min(self.chunk.len());
        buffer[..length].copy_from_slice(&self.chunk.split_to(length));
        Ok(length)
    }
}

async fn file_set(
    State(shared): All,
    Path((task, uid, epoch)): RunPath,
    Json(FileSetRequest { paths: patterns }): Json<FileSetRequest>,
) -> Answer<Body> {
    let run = Run::parse(&task, &uid, &epoch)?;
    let settings = &shared.settings;
    run.admit(&settings.state)?;
    let patterns = Patterns::parse(&patterns).map_err(|error| Refused::malformed(error.to_string()))?;
    let turn = tokio::time::timeout(TURN, Arc::clone(&shared.packings).acquire_owned()).await;
    let turn = turn.ok().and_then(Result::ok);
    let turn = turn.ok_or_else(|| Refused::unavailable("other file sets are being packed; try again"))?;
    let (mut frames, body) = Frames::new();
    let (root, notes) = (settings.workspace.clone(), run.notes(&settings.state));
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        // What belongs to the platform, and what other Tasks were given.
        let own: Vec<Name> = Name::new(paths::PLATFORM_DIRECTORY).into_iter().collect();
        let end = match fileset::pack(&root, &patterns, &own, LIMITS, &mut frames) {
            Ok(set) => Framed::Done(Packed { set, notes }),
            Err(error) => Framed::Failed(error.to_string()),
        };
        if let Err(error) = frames.finish(&end) {
            tracing::debug!(%error, "a file set was not received to its end");
        }
    });
    Ok(body)
}

async fn changes(
    State(shared): All,
    Path((task, uid, epoch)): RunPath,
    Json(CompareRequest { edited }): Json<CompareRequest>,
) -> Answer<Body> {
    let run = Run::parse(&task, &uid, &epoch)?;
    let state = &shared.settings.state;
    run.admit(state)?;
    let (compared, patch) = run.compare(state, edited.as_deref()).await.map_err(|error| failed(&error))?;
    let (mut frames, body) = Frames::new();
    tokio::task::spawn_blocking(move || {
        let end = match patch.map(|patch| copy(&patch, &mut frames)).transpose() {
            Ok(_) => Framed::Done(compared),
            Err(error) => Framed::<Compared>::Failed(error.to_string()),
        };
        if let Err(error) = frames.finish(&end) {
            tracing::debug!(%error, "a patch was not received to its end");
        }
    });
    Ok(body)
}

fn copy(patch: &FilePath, frames: &mut Frames) -> io::Result<u64> {
    io::copy(&mut std::fs::File::open(patch)?, frames)
}

async fn outputs(State(shared): All, Path((task, uid, epoch)): RunPath) -> Answer<Vec<u8>> {
    let run = Run::parse(&task, &uid, &epoch)?;
    run.admit(&shared.settings.state)?;
    let (root, directory) = (shared.settings.workspace.clone(), run.directory());
    let read = tokio::task::spawn_blocking(move || -> Result<_, String> {
        // The agent may have put links on the way.
        let opened =
            Root::open(&root).and_then(|root| root.directory(&directory)).map_err(|error| error.to_string())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(paths::TASK_OUTPUTS);
        results::read(&path, MOST_OUTPUTS_BYTES).map_err(|error| error.to_string())
    });
    let read = read.await.map_err(|error| failed(&error))?;
    read.map(Option::unwrap_or_default).map_err(Refused::malformed)
}

async fn tasks(State(shared): All) -> Answer<Json<Tasks>> {
    let root = shared.settings.workspace.clone();
    let found = blocking(move || delivery::directories(&Root::open(&root)?, FilePath::new(paths::DELIVERIES))).await?;
    let mut tasks = runs::tasks(&shared.settings.state);
    tasks.extend(found);
    tasks.sort();
    tasks.dedup();
    Ok(Json(Tasks { tasks }))
}

async fn remove(State(shared): All, Path(task): Path<String>) -> Answer<StatusCode> {
    if !is_task_name(&task) {
        return Err(Refused::malformed("the path names no Task"));
    }
    let turn = shared.turn(&task)?;
    let root = shared.settings.workspace.clone();
    let name = task.clone();
    blocking(move || {
        let _turn = turn;
        delivery::clear(&Root::open(&root)?, &FilePath::new(paths::DELIVERIES).join(name))
    })
    .await?;
    runs::forget(&shared.settings.state, &task).map_err(|error| failed(&error))?;
    tracing::info!(task, "the files of a deleted Task were removed");
    Ok(StatusCode::NO_CONTENT)
}

/// Works on files in a thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, delivery::Error> + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| failed(&error))?;
    done.map_err(|error| match error {
        delivery::Error::TooMuch => Refused::too_large(error.to_string()),
        error => Refused::malformed(error.to_string()),
    })
}

fn failed(error: &dyn std::fmt::Display) -> Refused {
    tracing::error!(%error, "a request failed");
    Refused::malformed(format!("the companion of the Agent failed: {error}"))
}
