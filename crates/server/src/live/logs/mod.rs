//! The log of a Task, as a stream that can be resumed.
//!
//! Lines come from the Pod while it exists, and from the archive when it does not or when the archive is complete. A
//! line has the same ID in both, so that a client can reconnect with the last ID it received and get the lines
//! after it.

mod kept;
mod pod;
mod query;
pub(crate) mod search;

use std::{io, sync::Arc, time::Duration};

use api::{Task, TaskPhase, conditions::reasons};
use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response, sse::Event},
};
use domain::{
    contract::record,
    run::progress::{self, Progress, SESSION_CONTAINER},
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use http::{HeaderMap, header};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use observe::Key;
use serde_json::{Value, json};
use store::{Line, Position};
use tokio::{sync::broadcast, time::sleep};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Attributes, Caller, core_resource, ours, revoked},
    edge::extract::{At, Params},
    error::{Answer, ApiError},
    live::{
        cache::now,
        events::{last_event_id, sse},
        feed::Published,
    },
    metrics::OpenStream,
    routes::crud,
    state::{Server, shutdown_requested},
    wire::{ContainerState, Containers},
};
use kept::KeptLog;
pub(crate) use kept::owner;
use query::{AGENT, Format, LineId, LogQuery, Wanted};

/// Poll interval of a Pod whose container has not started.
const PREPARING: Duration = Duration::from_secs(1);
/// Poll interval of a waiting Task. Its changes arrive by watch; this covers changes of the Pod alone.
const WAITING: Duration = Duration::from_secs(15);
/// Maximum number of lines in a chunk of a plain log.
const CHUNK: usize = 256;
/// Maximum size of a conversation, in bytes.
const LONGEST_CONVERSATION: usize = 16 << 20;
/// Response header: whether the plain log is complete.
const COMPLETE: &str = "x-kubeopencode-log-complete";

/// Lines of a log. A line without a position was not written by the container.
type Lines = BoxStream<'static, io::Result<(Option<Position>, Line)>>;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(logs)).routes(routes!(containers)).routes(routes!(search::search))
}

/// The log of a Task: of one that waits, works or has ended.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/logs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), LogQuery),
    responses((status = 200, content((String = "text/event-stream"), (String = "text/plain")))))]
async fn logs(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    headers: HeaderMap,
    Params(query): Params<LogQuery>,
) -> Answer<Response> {
    let wanted = Wanted::read(&query, now())?;
    let (task, client) = readable(&server, &caller, &at).await?;
    let run = wanted.run.unwrap_or_else(|| epoch(&task));
    if run > epoch(&task) {
        return Err(ApiError::not_found(format!("Task '{}' has no run {run} yet", at.name)));
    }
    let pods: Api<Pod> = Api::namespaced(client, &at.namespace);
    let access = Access { caller, rights: rights(&at) };
    if query.format == Some(Format::Text) {
        return plain(server, &pods, &task, run, &wanted, access).await;
    }
    let known = last_event_id(&headers, query.last_event_id).and_then(|id| LineId::parse(&id));
    // Errors are reported before the stream begins.
    if let Some(pod) = pod::of_run(&pods, &task, run).await? {
        pod::find(&pod, &wanted.container)?;
    }
    Ok(sse(follow(server, pods, task, wanted, known, access)))
}

/// The containers of a Task's Pod; of a Pod that is gone, the one whose log is kept.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/logs/containers", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Containers)))]
async fn containers(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Containers>> {
    let (task, client) = readable(&server, &caller, &at).await?;
    let pods: Api<Pod> = Api::namespaced(client, &at.namespace);
    let run = epoch(&task);
    if let Some(pod) = pod::of_run(&pods, &task, run).await? {
        return Ok(Json(Containers { containers: pod::states(&pod) }));
    }
    let kept = KeptLog::find(&server, &task, run, AGENT).await?.map(|_| ContainerState {
        name: AGENT.to_owned(),
        init: false,
        state: "terminated".to_owned(),
        exit_code: task.status.as_ref().and_then(|status| status.exit_code),
    });
    Ok(Json(Containers { containers: kept.into_iter().collect() }))
}

/// The Task, and a client that may read its log.
pub(crate) async fn readable(server: &Server, caller: &Caller, at: &At) -> Answer<(Task, Client)> {
    let task: Task = crud::fetch(server, caller, &at.namespace, &at.name).await?;
    server.reviews.require(caller, &core_resource("get", "pods/log", Some(&at.namespace), None)).await?;
    Ok((task, server.cluster.client(caller)?))
}

/// The caller of an open stream, and the rights that the stream needs.
struct Access {
    caller: Caller,
    rights: [Attributes; 2],
}

fn rights(at: &At) -> [Attributes; 2] {
    [
        ours("get", "tasks", Some(&at.namespace), Some(&at.name)),
        core_resource("get", "pods/log", Some(&at.namespace), None),
    ]
}

async fn plain(
    server: Arc<Server>,
    pods: &Api<Pod>,
    task: &Task,
    run: i64,
    wanted: &Wanted,
    access: Access,
) -> Answer<Response> {
    let name = task.name_any();
    let pod = pod::of_run(pods, task, run).await?;
    let wanted = &wanted.of_pod(pod.as_ref());
    if let Some(pod) = &pod {
        pod::find(pod, &wanted.container)?;
    }
    let kept = KeptLog::find(&server, task, run, &wanted.container).await?;
    let of_run = wanted.run.map(|run| format!("-{run}")).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}{of_run}.log\"")),
    ];
    if let Some(kept) = kept.filter(|kept| kept.is_complete() || pod.is_none()) {
        if let Some(expired) = kept.expired() {
            return Err(ApiError::not_found(expired));
        }
        let complete = [(COMPLETE, kept.is_whole().to_string())];
        return Ok((headers, complete, Body::from_stream(text(kept.lines(wanted, None)))).into_response());
    }
    let pod = pod.ok_or_else(|| ApiError::not_found(format!("Task '{name}' has no log: its Pod is not there")))?;
    let lines = pod::lines(pods, &pod, wanted, None).await?;
    Ok((headers, Body::from_stream(text(while_allowed(server, access, lines)))).into_response())
}

/// Lines until the caller loses a right that they need.
fn while_allowed(server: Arc<Server>, access: Access, mut lines: Lines) -> Lines {
    let allowed = async_stream::stream! {
        let revoked = revoked(&server, &access.caller, &access.rights);
        tokio::pin!(revoked);
        loop {
            tokio::select! {
                line = lines.next() => match line {
                    Some(line) => yield line,
                    None => break,
                },
                error = &mut revoked => {
                    yield Err(io::Error::other(error.message));
                    break;
                }
            }
        }
    };
    allowed.boxed()
}

/// Lines as plain text, joined into as few chunks as possible.
fn text(lines: Lines) -> impl Stream<Item = io::Result<Vec<u8>>> {
    let shown = lines.map_ok(|(_, line)| {
        let end: &[u8] = if line.ended { b"\n" } else { b"" };
        [&record::visible(&line.text), end].concat()
    });
    shown.ready_chunks(CHUNK).map(|lines| lines.into_iter().collect::<io::Result<Vec<_>>>().map(|lines| lines.concat()))
}

/// The records of the conversation in the current run, from the beginning.
pub(crate) async fn records(server: &Server, pods: &Api<Pod>, task: &Task) -> Answer<Vec<Value>> {
    let run = epoch(task);
    let pod = pod::of_run(pods, task, run).await?;
    // Earlier versions wrote the records into the log of the agent.
    let recorded = match &pod {
        Some(pod) => progress::has_session(pod),
        None => KeptLog::find(server, task, run, SESSION_CONTAINER).await?.is_some(),
    };
    let container = if recorded { SESSION_CONTAINER } else { AGENT };
    let wanted = Wanted::whole(container);
    let started = pod.as_ref().and_then(|pod| pod::status_of(pod, container)).is_some_and(pod::has_started);
    let kept = KeptLog::find(server, task, run, container).await?;
    let mut lines = match (kept, pod) {
        (Some(kept), _) if kept.is_complete() || !started => kept.lines(&wanted, None),
        (_, Some(pod)) if started => pod::lines(pods, &pod, &wanted, None).await?,
        _ => return Ok(Vec::new()),
    };
    let (mut records, mut length) = (Vec::new(), 0);
    while let Some(line) = lines.next().await {
        let (_, line) = line.map_err(|error| ApiError::internal("the log cannot be read", &error))?;
        let before = records.len();
        records.extend(record::records(&line.text));
        length += if records.len() > before { line.text.len() } else { 0 };
        if length > LONGEST_CONVERSATION {
            break;
        }
    }
    Ok(records)
}

fn failure(text: &str) -> Event {
    message(&json!({ "type": "error", "message": text }))
}

/// The last event of a stream, and what the log lacks: lines that were lost, or lines beyond its limit.
fn complete(task: &Task, kept: Option<&KeptLog>) -> Event {
    let mut last = json!({ "type": "complete", "phase": format!("{:?}", phase(task)) });
    if kept.is_some_and(|kept| kept.missing().is_some()) {
        last["complete"] = false.into();
    }
    if let Some(lacks) = kept.and_then(KeptLog::lacks) {
        last["message"] = lacks.into();
    }
    message(&last)
}

/// Streams the log until the Task has ended and all lines are sent.
fn follow(
    server: Arc<Server>,
    pods: Api<Pod>,
    mut task: Task,
    wanted: Wanted,
    known: Option<LineId>,
    access: Access,
) -> impl Stream<Item = Event> {
    async_stream::stream! {
        let revoked = revoked(&server, &access.caller, &access.rights);
        tokio::pin!(revoked);
        let _open = OpenStream::new(&server.metrics);
        let key = Key::of(&task);
        let mut changes = server.caches.feed.listen(None).receiver;
        let mut ending = server.ending.clone();
        let mut notices = SentNotices::default();
        let mut reader = Reader { run: wanted.run.unwrap_or_else(|| epoch(&task)), last: None };
        reader.last = known.filter(|known| known.run == reader.run).map(|known| known.place);
        let mut known_container: Option<String> = None;
        loop {
            let run = wanted.run.unwrap_or_else(|| epoch(&task));
            if reader.run != run {
                reader = Reader { run, last: None };
            }
            let pod = match pod::of_run(&pods, &task, run).await {
                Ok(pod) => pod,
                Err(error) => {
                    yield failure(&error.message);
                    break;
                }
            };
            let chosen = wanted.of_pod(pod.as_ref());
            let container = chosen.container.clone();
            if known_container.replace(container.clone()).is_some_and(|known| known != container) {
                reader.last = None;
            }
            if let Some(event) = notices.status(&task, pod.as_ref(), &container) {
                yield event;
            }
            let over = is_over(&task, run);
            let started = pod.as_ref().and_then(|pod| pod::status_of(pod, &container)).is_some_and(pod::has_started);
            let kept = if over || !started { KeptLog::find(&server, &task, run, &container).await } else { Ok(None) };
            if let Err(error) = &kept {
                yield failure(&error.message);
            }
            let kept = kept.ok().flatten().filter(|kept| kept.is_complete() || !started);
            let opened = match (&kept, &pod) {
                (Some(kept), _) => Ok(Some(kept.lines(&chosen, reader.last))),
                (None, Some(pod)) if started => pod::lines(&pods, pod, &chosen, reader.last).await.map(Some),
                _ => Ok(None),
            };
            let mut sent_all = pod.is_none() || !started;
            // The log of a failed preparation is gone with its Pod, and the agent has none.
            if over && pod.is_none() && kept.is_some() && never_prepared(&task) {
                yield info(&no_log(&task, None));
            }
            match opened {
                Ok(Some(mut lines)) => sent_all = loop {
                    tokio::select! {
                        line = lines.next() => match line {
                            Some(Ok((place, line))) => yield reader.event(place, &line),
                            Some(Err(_)) => break false,
                            None => break true,
                        },
                        error = &mut revoked => {
                            yield failure(&error.message);
                            return;
                        }
                        () = shutdown_requested(&mut ending) => return,
                    }
                },
                Ok(None) if over => yield info(&no_log(&task, pod.as_ref())),
                Ok(None) => if let Some(event) = notices.waiting(&task, pod.as_ref(), &container) {
                    yield event;
                },
                Err(error) => yield failure(&error.message),
            }
            // The cache may be older than the stream: check again after all lines are sent.
            task = latest(&server, &key, task);
            if !started && !over && is_over(&task, run) {
                // The Task ended just now, so the archive is complete only now.
                continue;
            }
            if sent_all && (is_over(&task, run) || !wanted.follow) {
                let kept = kept.filter(|_| over);
                if let Some(missing) = kept.as_ref().and_then(KeptLog::missing) {
                    yield info(&missing);
                }
                yield complete(&task, kept.as_ref());
                break;
            }
            if server.caches.tasks.object(&key).is_none() && server.caches.tasks.is_complete() {
                yield failure("the Task was deleted");
                yield complete(&task, None);
                break;
            }
            let pause = if pod.is_some() { PREPARING } else { WAITING };
            tokio::select! {
                () = changed(&mut changes, &key) => {}
                () = sleep(pause) => {}
                error = &mut revoked => {
                    yield failure(&error.message);
                    return;
                }
                () = shutdown_requested(&mut ending) => return,
            }
            task = latest(&server, &key, task);
        }
    }
}

/// The cached Task, unless it is older than ours.
fn latest(server: &Server, key: &Key, known: Task) -> Task {
    let version = |task: &Task| task.metadata.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok());
    match server.caches.tasks.object(key) {
        Some(seen) if seen.metadata.uid == known.metadata.uid && version(&seen) > version(&known) => {
            Arc::unwrap_or_clone(seen)
        }
        _ => known,
    }
}

/// Returns when the Task changed, or may have.
async fn changed(changes: &mut broadcast::Receiver<Arc<Published>>, key: &Key) {
    loop {
        match changes.recv().await {
            Ok(change) if change.kind == "Task" && change.name == key.name && change.namespace == key.namespace => {
                return;
            }
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The position of a client in the log of a run.
#[derive(Debug)]
struct Reader {
    run: i64,
    last: Option<Position>,
}

impl Reader {
    /// The event for a line. Advances the position.
    fn event(&mut self, place: Option<Position>, line: &Line) -> Event {
        let shown = record::visible(&line.text);
        let mut line = json!({ "type": "log", "content": format!("{}\n", String::from_utf8_lossy(&shown)) });
        let Some(place) = place else { return message(&line) };
        self.last = Some(place);
        line["time"] = place.time.to_string().into();
        message(&line).id(LineId { run: self.run, place }.to_string())
    }
}

/// Notices already sent, so that each is sent once.
#[derive(Debug, Default)]
struct SentNotices {
    status: Option<Value>,
    waiting: Option<String>,
}

impl SentNotices {
    /// The stage of the run. The start of the agent is written into the status of a Task only if the run lasts; here it
    /// is known at once.
    fn status(&mut self, task: &Task, pod: Option<&Pod>, container: &str) -> Option<Event> {
        let mut now = json!({ "type": "status", "phase": format!("{:?}", phase(task)), "container": container });
        if let Some(pod) = pod {
            now["podName"] = pod.name_any().into();
            if let Some(started) = Progress::of(pod).started_at {
                now["startTime"] = started.to_string().into();
            }
            if let Some(phase) = pod.status.as_ref().and_then(|status| status.phase.as_ref()) {
                now["podPhase"] = phase.as_str().into();
            }
        }
        let is_new = self.status.as_ref() != Some(&now);
        is_new.then(|| {
            let event = message(&now);
            self.status = Some(now);
            event
        })
    }

    fn waiting(&mut self, task: &Task, pod: Option<&Pod>, container: &str) -> Option<Event> {
        let status = task.status.as_ref();
        let text = match pod {
            Some(pod) => pod::preparing(pod, container),
            None => status
                .and_then(|status| status.message.clone())
                .unwrap_or_else(|| "the Task has not started".to_owned()),
        };
        let is_new = self.waiting.as_ref() != Some(&text);
        is_new.then(|| {
            let event = info(&text);
            self.waiting = Some(text);
            event
        })
    }
}

fn never_prepared(task: &Task) -> bool {
    let reason = task.status.as_ref().and_then(|status| status.reason.as_deref());
    reason == Some(reasons::PREPARATION_FAILED)
}

/// A sentence about why a finished run has no log.
fn no_log(task: &Task, pod: Option<&Pod>) -> String {
    let status = task.status.as_ref();
    if pod.is_none() && status.is_some_and(|status| status.start_time.is_some()) {
        return "the log is gone with its Pod".to_owned();
    }
    let why = status.and_then(|status| status.message.as_deref()).unwrap_or("it never started");
    format!("there is no log: {why}")
}

fn info(text: &str) -> Event {
    message(&json!({ "type": "info", "message": text }))
}

fn message(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

fn epoch(task: &Task) -> i64 {
    task.status.as_ref().and_then(|status| status.run_epoch).unwrap_or_default()
}

fn phase(task: &Task) -> TaskPhase {
    task.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}

/// Whether the run has finished, or a later run has started.
fn is_over(task: &Task, run: i64) -> bool {
    phase(task).is_finished() || run < epoch(task)
}
