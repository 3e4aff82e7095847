//! The log of a Task, as a stream that goes on where it broke off.
//!
//! Each line has an id: the run, the moment at which the node got it, and its place among the lines of that moment. A
//! client that comes back with the last id it saw gets the lines after it.

use std::{sync::Arc, time::Duration};

use api::{Task, TaskPhase};
use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response, sse::Event},
};
use futures::{AsyncBufReadExt as _, Stream, StreamExt as _, TryStreamExt as _, pin_mut};
use http::{HeaderMap, header};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, Client, ResourceExt as _, api::LogParams};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::broadcast, time::sleep};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, core_resource},
    crud,
    error::{Answer, ApiError},
    events::{last_event_id, sse},
    extract::{At, Params},
    feed::Told,
    metrics::OpenStream,
    span,
    state::{Server, asked_to_end},
    watch::Key,
    wire::{ContainerState, Containers},
    world::now,
};

/// The container in which the agent works.
const AGENT: &str = "agent";
/// How often a Pod that prepares is looked at.
const PREPARING: Duration = Duration::from_secs(1);
/// A Task that waits tells of every change itself; this is only for what it cannot tell.
const WAITING: Duration = Duration::from_secs(15);
/// Most lines that `tail` asks for.
const LONGEST_TAIL: i64 = 1_000_000;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(logs)).routes(routes!(containers))
}

/// What of a log.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct LogQuery {
    /// Which container; `agent` when unset.
    container: Option<String>,
    /// Go on as lines come; true unless `format=text`.
    follow: Option<bool>,
    /// Only lines of this span (`10m`) or since this time (RFC 3339).
    since: Option<String>,
    /// Only the last lines.
    #[param(minimum = 0)]
    tail: Option<i64>,
    /// `text`: the plain log.
    #[param(inline)]
    format: Option<Format>,
    /// Go on after this line, as the header Last-Event-ID.
    last_event_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Sse,
    Text,
}

/// What was asked for, read.
#[derive(Clone, Debug)]
struct Wanted {
    container: String,
    follow: bool,
    since: Option<Timestamp>,
    tail: Option<i64>,
}

impl Wanted {
    fn read(query: &LogQuery, now: Timestamp) -> Answer<Self> {
        let container = query.container.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| AGENT.to_owned());
        crate::names::object(&container)
            .map_err(|_| ApiError::bad_parameter("container", "no container has such a name"))?;
        let since = match query.since.as_deref().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(if let Ok(time) = text.parse::<Timestamp>() {
                time
            } else {
                let span = span::parse("since", text).map_err(|_| {
                    ApiError::bad_parameter("since", "write a span such as 10m, or a time as of RFC 3339")
                })?;
                now.checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH)
            }),
        };
        if query.tail.is_some_and(|tail| !(0..=LONGEST_TAIL).contains(&tail)) {
            return Err(ApiError::bad_parameter("tail", format!("tail is between 0 and {LONGEST_TAIL}")));
        }
        let follow = query.follow.unwrap_or(query.format != Some(Format::Text));
        Ok(Self { container, follow, since, tail: query.tail })
    }

    fn params(&self, place: Option<&Place>) -> LogParams {
        LogParams {
            container: Some(self.container.clone()),
            follow: self.follow,
            timestamps: true,
            since_time: place.map(|place| place.time).or(self.since).map(whole_second),
            // Whoever comes back wants everything since.
            tail_lines: self.tail.filter(|_| place.is_none()),
            ..LogParams::default()
        }
    }
}

/// The whole second before a moment: the Kubernetes API knows no finer ones, and kube would round up, past lines that
/// are wanted.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000).try_into().unwrap_or_default())
        .unwrap_or(time)
}

/// A place in the log of one run: after so many lines of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    epoch: i64,
    time: Timestamp,
    index: u32,
}

impl Place {
    fn parse(id: &str) -> Option<Self> {
        let (epoch, rest) = id.split_once(':')?;
        let (time, index) = rest.rsplit_once(':')?;
        Some(Self { epoch: epoch.parse().ok()?, time: time.parse().ok()?, index: index.parse().ok()? })
    }

    fn id(&self) -> String {
        format!("{}:{}:{}", self.epoch, self.time, self.index)
    }
}

/// Numbers the lines of one run, and leaves out those that the client has.
#[derive(Debug)]
struct Lines {
    epoch: i64,
    known: Option<Place>,
    last: Option<Place>,
}

impl Lines {
    /// Reads a line that begins with its moment. `None` if the client has it.
    fn take<'a>(&mut self, line: &'a str) -> Option<(Option<Place>, &'a str)> {
        let timed = line.split_once(' ').and_then(|(time, text)| Some((time.parse::<Timestamp>().ok()?, text)));
        // A line without a moment is not one of the container's, such as a word of the node about a lost log.
        let Some((time, text)) = timed else { return Some((None, line)) };
        let index = match &self.last {
            Some(last) if last.time == time => last.index + 1,
            _ => 0,
        };
        let place = Place { epoch: self.epoch, time, index };
        self.last = Some(place.clone());
        let is_known = self.known.as_ref().is_some_and(|known| (place.time, place.index) <= (known.time, known.index));
        (!is_known).then_some((Some(place), text))
    }
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
    let pods: Api<Pod> = Api::namespaced(client, &at.namespace);
    if query.format == Some(Format::Text) {
        return plain(&pods, &task, &wanted).await;
    }
    let known = last_event_id(&headers, query.last_event_id).and_then(|id| Place::parse(&id));
    // Refuse what cannot be before the stream begins.
    if let Some(pod) = pod_of(&pods, &task).await? {
        find(&pod, &wanted.container)?;
    }
    Ok(sse(follow(server, pods, task, wanted, known)))
}

/// The containers of a Task's Pod.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/logs/containers", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Containers)))]
async fn containers(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Containers>> {
    let (task, client) = readable(&server, &caller, &at).await?;
    let pods: Api<Pod> = Api::namespaced(client, &at.namespace);
    let pod = pod_of(&pods, &task).await?;
    Ok(Json(Containers { containers: pod.as_ref().map(states).unwrap_or_default() }))
}

/// The Task, and a client that may read its log.
async fn readable(server: &Server, caller: &Caller, at: &At) -> Answer<(Task, Client)> {
    let task: Task = crud::fetch(server, caller, &at.namespace, &at.name).await?;
    server.reviews.require(caller, &core_resource("get", "pods/log", Some(&at.namespace), None)).await?;
    Ok((task, server.cluster.client(caller)?))
}

async fn pod_of(pods: &Api<Pod>, task: &Task) -> Answer<Option<Pod>> {
    let Some(name) = task.status.as_ref().and_then(|status| status.pod_name.as_ref()) else { return Ok(None) };
    Ok(pods.get_opt(name).await?)
}

async fn plain(pods: &Api<Pod>, task: &Task, wanted: &Wanted) -> Answer<Response> {
    let name = task.name_any();
    let pod = pod_of(pods, task).await?;
    let pod = pod.ok_or_else(|| ApiError::not_found(format!("Task '{name}' has no log: its Pod is not there")))?;
    find(&pod, &wanted.container)?;
    let params = LogParams { timestamps: false, ..wanted.params(None) };
    let lines = pods.log_stream(&pod.name_any(), &params).await?.lines().map_ok(|line| format!("{line}\n"));
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.log\"")),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// Tells the log until the Task has ended and all of it was told.
fn follow(
    server: Arc<Server>,
    pods: Api<Pod>,
    mut task: Task,
    wanted: Wanted,
    known: Option<Place>,
) -> impl Stream<Item = Event> {
    async_stream::stream! {
        let _open = OpenStream::new(&server.metrics);
        let key = Key::of(&task);
        let mut changes = server.world.feed.listen(None).receiver;
        let mut ending = server.ending.clone();
        let mut said = Said::default();
        let mut lines = Lines { epoch: epoch(&task), known: None, last: None };
        lines.known = known.filter(|known| known.epoch == lines.epoch);
        loop {
            if lines.epoch != epoch(&task) {
                lines = Lines { epoch: epoch(&task), known: None, last: None };
            }
            let finished = phase(&task).is_finished();
            let pod = match pod_of(&pods, &task).await {
                Ok(pod) => pod,
                Err(error) => {
                    yield message(&json!({ "type": "error", "message": error.message }));
                    break;
                }
            };
            if let Some(event) = said.status(&task, pod.as_ref()) {
                yield event;
            }
            let state = pod.as_ref().and_then(|pod| status_of(pod, &wanted.container));
            let started = state.is_some_and(has_started);
            let mut told_all = pod.is_none() || !started;
            if let Some(pod) = pod.as_ref().filter(|_| started) {
                let opened = pods.log_stream(&pod.name_any(), &wanted.params(lines.last.as_ref().or(lines.known.as_ref()))).await;
                match opened {
                    Ok(stream) => {
                        if let Some(last) = lines.last.take() {
                            lines.known = Some(last);
                        }
                        let stream = stream.lines();
                        pin_mut!(stream);
                        told_all = loop {
                            tokio::select! {
                                line = stream.next() => match line {
                                    Some(Ok(line)) => {
                                        if let Some((place, text)) = lines.take(&line) {
                                            yield log_line(place.as_ref(), text);
                                        }
                                    }
                                    Some(Err(_)) => break false,
                                    None => break true,
                                },
                                () = asked_to_end(&mut ending) => return,
                            }
                        };
                    }
                    Err(error) => yield message(&json!({ "type": "error", "message": ApiError::from(error).message })),
                }
            } else if finished {
                let why = task.status.as_ref().and_then(|status| status.message.clone());
                let why = why.unwrap_or_else(|| "it never started".to_owned());
                let message_text = if pod.is_none() && started_once(&task) {
                    "the log is gone with its Pod".to_owned()
                } else {
                    format!("there is no log: {why}")
                };
                yield message(&json!({ "type": "info", "message": message_text }));
            } else if let Some(event) = said.waiting(&task, pod.as_ref(), &wanted.container) {
                yield event;
            }
            // What the watch knows may be older than what the stream told: look again after all was told.
            task = latest(&server, &key, task);
            if told_all && (phase(&task).is_finished() || !wanted.follow) {
                yield message(&json!({ "type": "complete", "phase": format!("{:?}", phase(&task)) }));
                break;
            }
            if server.world.tasks.get(&key).is_none() && server.world.tasks.is_complete() {
                yield message(&json!({ "type": "error", "message": "the Task was deleted" }));
                yield message(&json!({ "type": "complete", "phase": format!("{:?}", phase(&task)) }));
                break;
            }
            let pause = if pod.is_some() { PREPARING } else { WAITING };
            tokio::select! {
                () = changed(&mut changes, &key) => {}
                () = sleep(pause) => {}
                () = asked_to_end(&mut ending) => return,
            }
            task = latest(&server, &key, task);
        }
    }
}

/// What the watch knows of a Task, unless it is older than what we have.
fn latest(server: &Server, key: &Key, known: Task) -> Task {
    let version = |task: &Task| task.metadata.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok());
    match server.world.tasks.get(key) {
        Some(seen) if seen.metadata.uid == known.metadata.uid && version(&seen) > version(&known) => {
            Arc::unwrap_or_clone(seen)
        }
        _ => known,
    }
}

/// Returns when the Task changed, or may have.
async fn changed(changes: &mut broadcast::Receiver<Arc<Told>>, key: &Key) {
    loop {
        match changes.recv().await {
            Ok(told) if told.kind == "Task" && told.name == key.name && told.namespace == key.namespace => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// What was said, so that it is said once.
#[derive(Debug, Default)]
struct Said {
    status: Option<Value>,
    waiting: Option<String>,
}

impl Said {
    fn status(&mut self, task: &Task, pod: Option<&Pod>) -> Option<Event> {
        let mut now = json!({ "type": "status", "phase": format!("{:?}", phase(task)) });
        if let Some(pod) = pod {
            now["podName"] = pod.name_any().into();
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
            Some(pod) => preparing(pod, container),
            None => status
                .and_then(|status| status.message.clone())
                .unwrap_or_else(|| "the Task has not started".to_owned()),
        };
        let is_new = self.waiting.as_ref() != Some(&text);
        is_new.then(|| {
            let event = message(&json!({ "type": "info", "message": text }));
            self.waiting = Some(text);
            event
        })
    }
}

/// What a Pod does before the container starts.
fn preparing(pod: &Pod, container: &str) -> String {
    let waiting = status_of(pod, container).and_then(|status| status.state.as_ref()?.waiting.clone());
    let running =
        states(pod).into_iter().find(|state| state.init && state.state == "running" && state.name != container);
    match (running, waiting) {
        (Some(init), _) => format!("{} prepares the Pod", init.name),
        (None, Some(waiting)) => {
            let reason = waiting.reason.unwrap_or_else(|| "waiting".to_owned());
            waiting.message.map_or_else(|| reason.clone(), |message| format!("{reason}: {message}"))
        }
        (None, None) => "the Pod waits for a node".to_owned(),
    }
}

fn log_line(place: Option<&Place>, text: &str) -> Event {
    let mut line = json!({ "type": "log", "content": format!("{text}\n") });
    let Some(place) = place else { return message(&line) };
    line["time"] = place.time.to_string().into();
    message(&line).id(place.id())
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

fn started_once(task: &Task) -> bool {
    task.status.as_ref().is_some_and(|status| status.start_time.is_some())
}

fn statuses(pod: &Pod) -> impl Iterator<Item = (bool, &ContainerStatus)> {
    let status = pod.status.as_ref();
    let init = status.into_iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let main = status.into_iter().flat_map(|status| status.container_statuses.iter().flatten());
    init.map(|status| (true, status)).chain(main.map(|status| (false, status)))
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    statuses(pod).map(|(_, status)| status).find(|status| status.name == container)
}

fn has_started(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// Refuses a container that the Pod does not have.
fn find(pod: &Pod, container: &str) -> Answer<()> {
    let spec = pod.spec.as_ref();
    let main = spec.into_iter().flat_map(|spec| spec.containers.iter());
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let names: Vec<&str> = init.chain(main).map(|container| container.name.as_str()).collect();
    if names.contains(&container) {
        return Ok(());
    }
    Err(ApiError::not_found(format!("the Pod has no container '{container}'; it has {}", names.join(", "))))
}

fn states(pod: &Pod) -> Vec<ContainerState> {
    let one = |(init, status): (bool, &ContainerStatus)| {
        let state = status.state.clone().unwrap_or_default();
        let word = match (&state.running, &state.terminated) {
            (Some(_), _) => "running",
            (None, Some(_)) => "terminated",
            (None, None) => "waiting",
        };
        ContainerState {
            name: status.name.clone(),
            init,
            state: word.to_owned(),
            exit_code: state.terminated.map(|ended| ended.exit_code),
        }
    };
    statuses(pod).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(known: Option<&str>, lines: &[&str]) -> Vec<(String, String)> {
        let mut numbered = Lines { epoch: 2, known: known.and_then(Place::parse), last: None };
        let told = lines.iter().filter_map(|line| numbered.take(line));
        told.map(|(place, text)| (place.map(|place| place.id()).unwrap_or_default(), text.to_owned())).collect()
    }

    const LOG: [&str; 4] = [
        "2026-01-01T00:00:00.000000001Z a",
        "2026-01-01T00:00:00.000000001Z b",
        "2026-01-01T00:00:00.000000002Z ",
        "2026-01-01T00:00:01Z c d",
    ];

    #[test]
    fn every_line_has_an_id_of_its_own() {
        let told = taken(None, &LOG);
        let ids: std::collections::BTreeSet<_> = told.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), LOG.len());
        assert_eq!(told[3].1, "c d");
        assert_eq!(told[2].1, "");
    }

    #[test]
    fn whoever_comes_back_gets_exactly_the_rest() {
        let all = taken(None, &LOG);
        for (index, (id, _)) in all.iter().enumerate() {
            assert_eq!(taken(Some(id), &LOG), all[index + 1..]);
        }
    }

    #[test]
    fn a_line_without_a_moment_is_told_without_an_id() {
        assert_eq!(taken(None, &["failed to read the log"]), [(String::new(), "failed to read the log".to_owned())]);
    }

    #[test]
    fn a_log_is_asked_for_from_the_second_before() {
        let asked = |text: &str| whole_second(text.parse().unwrap()).to_string();
        assert_eq!(asked("2026-01-01T00:00:00.999Z"), "2026-01-01T00:00:00Z");
        assert_eq!(asked("1969-12-31T23:59:59.5Z"), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn nonsense_is_no_place() {
        for id in ["", "1", "1:2:3", "x:2026-01-01T00:00:00Z:0", "1:2026-01-01T00:00:00Z:-1"] {
            assert_eq!(Place::parse(id), None, "{id}");
        }
    }

    #[test]
    fn a_span_or_a_time_can_be_asked_for() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let since = |text: &str| {
            Wanted::read(&LogQuery { since: Some(text.to_owned()), ..LogQuery::default() }, now)
                .map(|wanted| wanted.since)
        };
        assert_eq!(since("10m").unwrap().unwrap().to_string(), "2026-01-01T00:50:00Z");
        assert_eq!(since("2026-01-01T00:00:00Z").unwrap().unwrap().to_string(), "2026-01-01T00:00:00Z");
        assert!(since("yesterday").is_err());
    }
}
