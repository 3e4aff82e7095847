//! Logs, from a node that is a server of ours: the API server fetches them there as from any kubelet.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    routing::get,
};
use domain::{
    contract::record,
    run::changes::{Changes, Commit, FileChange},
};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use server::Options;
use store::{Archive, End, Limits, Owner, Run, Store};
use tokio::{
    io,
    net::{TcpListener, TcpStream},
    sync::broadcast,
};
use tokio_rustls::{TlsAcceptor, rustls, server::TlsStream};

use crate::harness::{self, Events, Harness, Message};

/// The log of one container: lines with the moment at which they came.
#[derive(Clone)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
    more: broadcast::Sender<Option<String>>,
}

impl Log {
    fn write(&self, line: &str) {
        let line = format!("{} {line}\n", Timestamp::now());
        self.lines.lock().unwrap().push(line.clone());
        let _ = self.more.send(Some(line));
    }

    /// The container ends, and so does every follower, present or future.
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = self.more.send(None);
    }
}

struct Tls(TcpListener, TlsAcceptor);

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            if let Ok((stream, from)) = self.0.accept().await
                && let Ok(stream) = self.1.accept(stream).await
            {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// The answer of a kubelet to `/containerLogs/…`.
async fn container_logs(
    State(log): State<Log>,
    Path((_, _, container)): Path<(String, String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Body {
    let timed = query.get("timestamps").is_some_and(|value| value == "true");
    let shown = move |line: String| if timed { line } else { line.split_once(' ').unwrap().1.to_owned() };
    let more = log.more.subscribe();
    let since: Option<Timestamp> = query.get("sinceTime").map(|time| time.parse().unwrap());
    let moment = |line: &str| line.split_once(' ').unwrap().0.parse::<Timestamp>().unwrap();
    let mut past = log.lines.lock().unwrap().clone();
    past.retain(|line| since.is_none_or(|since| moment(line) >= since));
    past.retain(|line| line.contains("init:") == container.starts_with("git-init"));
    if let Some(tail) = query.get("tailLines") {
        let keep = tail.parse::<usize>().unwrap();
        past.drain(..past.len().saturating_sub(keep));
    }
    let past = futures::stream::iter(past);
    let follow = query.get("follow").is_some_and(|value| value == "true") && !log.ended.load(Ordering::SeqCst);
    let more = futures::stream::unfold(more, async |mut more| Some((more.recv().await.ok()??, more)));
    let lines = if follow { past.chain(more).boxed() } else { past.boxed() };
    Body::from_stream(lines.map(move |line| Ok::<_, io::Error>(shown(line))))
}

/// A node whose containers have this log: `git-init-…` the lines with `init:`, the others the rest.
async fn node(it: &Harness) -> (String, Log) {
    let log = Log { lines: Arc::default(), ended: Arc::default(), more: broadcast::Sender::new(100) };
    let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs))
        .with_state(log.clone());
    tokio::spawn(async move { axum::serve(Tls(listener, TlsAcceptor::from(Arc::new(config))), router).await });
    let name = format!("node-of-{}", it.namespace);
    let nodes: Api<Node> = Api::all(it.admin.clone());
    let node = json!({ "metadata": { "name": name } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    } });
    nodes.patch_status(&name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(status)).await.unwrap();
    (name, log)
}

/// A Task that runs, in a Pod whose container has started.
async fn running(it: &Harness, token: &str, node: &str) {
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" } });
    it.post(&it.here("/tasks"), token, &task).await;
    it.create::<Pod>(json!({
        "metadata": { "name": "a-pod" },
        "spec": { "nodeName": node, "tolerations": [{ "operator": "Exists" }], "containers": [{ "name": "agent", "image": "example.com/a:1" }] },
    }))
    .await;
    container(it, json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } }), "Running").await;
    it.set_status(
        "tasks",
        "a",
        json!({ "phase": "Running", "podName": "a-pod", "runEpoch": 1, "startTime": "2026-01-01T00:00:00Z" }),
    )
    .await;
}

async fn container(it: &Harness, state: Value, phase: &str) {
    let status = json!({ "phase": phase, "containerStatuses": [{ "name": "agent", "image": "a", "imageID": "a", "ready": false, "restartCount": 0, "state": state }] });
    it.patch_status::<Pod>("a-pod", status).await;
}

async fn open(it: &Harness, token: &str, query: &str, last: Option<&str>) -> Events {
    let mut request = it.http.get(it.here(&format!("/tasks/a/logs{query}"))).bearer_auth(token);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    Events::of(request.send().await.unwrap())
}

/// The next line of the log, skipping other events.
async fn line(stream: &mut Events) -> Message {
    loop {
        let message = stream.next().await.expect("the stream ended");
        if message.data["type"] == "log" {
            return message;
        }
        assert_ne!(message.data["type"], "error", "{message:?}");
    }
}

#[tokio::test]
async fn lines_come_as_they_are_written_go_on_after_a_break_and_end_with_the_task() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    running(&it, &token, &node).await;
    log.write("one");
    log.write("two words");

    let mut stream = open(&it, &token, "", None).await;
    let status = stream.next().await.unwrap();
    assert_eq!(
        (status.data["type"].as_str(), status.data["phase"].as_str(), status.data["podPhase"].as_str()),
        (Some("status"), Some("Running"), Some("Running"))
    );
    let one = line(&mut stream).await;
    assert_eq!(one.data["content"], "one\n");
    assert!(one.id.starts_with("1:"), "{}", one.id);
    let two = line(&mut stream).await;
    assert_eq!(two.data["content"], "two words\n");
    log.write("three");
    assert_eq!(line(&mut stream).await.data["content"], "three\n");

    // The connection breaks after the second line that the client saw.
    drop(stream);
    log.write("four");
    let mut stream = open(&it, &token, "", Some(&two.id)).await;
    assert_eq!(line(&mut stream).await.data["content"], "three\n");
    assert_eq!(line(&mut stream).await.data["content"], "four\n");

    // The container ends before the Task's status shows it: the stream waits for the status.
    container(&it, json!({ "terminated": { "exitCode": 0 } }), "Succeeded").await;
    log.end();
    it.set_status("tasks", "a", json!({ "phase": "Completed", "reason": "Succeeded" })).await;
    let mut last = stream.next().await.unwrap();
    while last.data["type"] != "complete" {
        assert_ne!(last.data["type"], "log", "a line was sent twice: {last:?}");
        last = stream.next().await.unwrap();
    }
    assert_eq!(last.data["phase"], "Completed");
    assert_eq!(stream.next().await, None);

    // The log of a Task that has ended is all there.
    let mut stream = open(&it, &token, "?follow=false&tail=1", None).await;
    assert_eq!(line(&mut stream).await.data["content"], "four\n");
    let text = it.http.get(it.here("/tasks/a/logs?format=text")).bearer_auth(&token).send().await.unwrap();
    assert!(text.headers()["content-disposition"].to_str().unwrap().contains("a.log"));
    assert_eq!(text.text().await.unwrap(), "one\ntwo words\nthree\nfour\n");
    let (_, body) = it.get(&it.here("/tasks/a/logs/containers"), &token).await;
    assert_eq!(
        body,
        json!({ "containers": [{ "name": "agent", "init": false, "state": "terminated", "exitCode": 0 }] })
    );
    let (status, body) = it.get(&it.here("/tasks/a/logs?container=nope"), &token).await;
    assert_eq!((status.as_u16(), body["error"].as_str()), (404, Some("NotFound")), "{body}");
}

#[tokio::test]
async fn an_open_log_ends_with_a_reason_when_the_right_to_read_it_goes() {
    let it = harness::start_watchful().await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    running(&it, &token, &node).await;
    log.write("before");
    let mut stream = open(&it, &token, "", None).await;
    assert_eq!(line(&mut stream).await.data["content"], "before\n");
    let plain = it.http.get(it.here("/tasks/a/logs?format=text&follow=true")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(plain.status(), 200);
    it.revoke("owner").await;
    let mut last = stream.next().await.unwrap();
    while last.data["type"] != "error" {
        last = stream.next().await.unwrap();
    }
    let message = last.data["message"].as_str().unwrap();
    assert!(message.contains("may not get") && message.contains("owner"), "{message}");
    assert_eq!(stream.next().await, None);
    log.write("after");
    // A plain log has no room for a reason: the connection is aborted, so that the log does not seem complete.
    let rest = tokio::time::timeout(harness::LIMIT, plain.text()).await.unwrap();
    assert!(rest.is_err(), "{rest:?}");
}

#[tokio::test]
async fn a_task_that_waits_says_what_for_until_it_starts() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    it.set_status(
        "tasks",
        "a",
        json!({ "phase": "Queued", "reason": "AgentAtCapacity", "message": "Agent 'dev' is busy" }),
    )
    .await;
    let mut stream = open(&it, &token, "", None).await;
    assert_eq!(stream.next().await.unwrap().data["phase"], "Queued");
    let info = stream.next().await.unwrap();
    assert_eq!(info.data, json!({ "type": "info", "message": "Agent 'dev' is busy" }));
    log.write("hello");
    running(&it, &token, &node).await;
    assert_eq!(line(&mut stream).await.data["content"], "hello\n");
}

#[tokio::test]
async fn a_task_that_never_started_says_why_and_a_lost_log_is_not_an_empty_one() {
    let it = harness::start().await;
    let token = it.owner().await;
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    it.set_status(
        "tasks",
        "a",
        json!({ "phase": "Failed", "reason": "AgentNotFound", "message": "Agent 'dev' does not exist" }),
    )
    .await;
    let read_stream = async || {
        let mut stream = open(&it, &token, "", None).await;
        let mut all = Vec::new();
        while let Some(message) = stream.next().await {
            all.push(message.data);
        }
        all
    };
    let all = read_stream().await;
    assert_eq!(all[1], json!({ "type": "info", "message": "there is no log: Agent 'dev' does not exist" }));
    assert_eq!(all[2], json!({ "type": "complete", "phase": "Failed" }));
    it.set_status("tasks", "a", json!({ "podName": "a-pod", "startTime": "2026-01-01T00:00:00Z" })).await;
    assert_eq!(read_stream().await[1]["message"], "the log is gone with its Pod");
    assert_eq!(it.get(&it.here("/tasks/a/logs?format=text"), &token).await.0, 404);
    for query in ["since=never", "tail=-1", "container=../x"] {
        assert_eq!(it.get(&it.here(&format!("/tasks/a/logs?{query}")), &token).await.0, 400, "{query}");
    }
}

/// The Agent of this Task never existed, so the log is the only source.
#[tokio::test]
async fn a_log_of_an_earlier_version_carries_the_conversation_but_shows_only_its_lines() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    running(&it, &token, &node).await;
    let messages = async || it.get(&it.here("/tasks/a/session/messages"), &token).await;
    log.write("[session] ses_1");
    assert_eq!(messages().await.0, 404);
    let part = json!({ "id": "p", "messageID": "m", "type": "tool", "tool": "write", "state": {
        "status": "completed", "input": { "filePath": "a.txt", "content": "Zoë\n" } } });
    let record = json!({ "type": "tool_use", "timestamp": 5, "sessionID": "ses_1", "part": part });
    // As an earlier version wrote it.
    log.write(&format!("\u{1b}]5379;{record}\u{7}[tool] write a.txt"));

    let (status, conversation) = messages().await;
    assert_eq!(status, 200, "{conversation}");
    assert_eq!(conversation[0]["parts"][0]["text"], "x");
    assert_eq!((&conversation[1]["info"]["role"], &conversation[1]["parts"]), (&json!("assistant"), &json!([part])));
    let (_, session) = it.get(&it.here("/tasks/a/session"), &token).await;
    assert_eq!(session, json!({ "id": "ses_1", "title": "a", "time": { "created": 5 } }));

    let mut stream = open(&it, &token, "", None).await;
    assert_eq!(line(&mut stream).await.data["content"], "[session] ses_1\n");
    assert_eq!(line(&mut stream).await.data["content"], "[tool] write a.txt\n");
    let text = it.http.get(it.here("/tasks/a/logs?format=text")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(text.text().await.unwrap(), "[session] ses_1\n[tool] write a.txt\n");
}

#[tokio::test]
async fn a_log_carries_the_changes_of_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::directory(&dir.path().join("store")).unwrap();
    let it = harness::start_with(Options { results: Some(store.clone()), ..harness::options() }).await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    running(&it, &token, &node).await;
    let changes = async || it.get(&it.here("/tasks/a/changes"), &token).await;
    log.write("[session] ses_1");
    assert_eq!(changes().await.0, 404);
    let patch = "@@ -1 +1 @@\n-violets\n+violins\n".to_owned();
    let file = FileChange { path: "poem.txt".into(), insertions: 1, deletions: 1, patch, ..FileChange::default() };
    let commits = vec![Commit { id: "0123".into(), subject: "Violins".into() }];
    let mut all = Changes { compared: true, commits, commit_count: 1, ..Changes::default() };
    all.add_file(file.clone());
    let line = |name: &str, value: Value| record::line(&json!({ "type": name, name: value })).unwrap();
    log.write(&line("change", file.record()));
    log.write(&line("changes", all.summary()));
    let (status, body) = changes().await;
    assert_eq!(status, 200, "{body}");
    let numbers = ["fileCount", "insertions", "deletions", "commitCount"].map(|name| body[name].as_u64().unwrap());
    assert_eq!(numbers, [1, 1, 1, 1], "{body}");
    assert_eq!((&body["files"][0]["status"], &body["files"][0]["patch"]), (&json!("modified"), &json!(file.patch)));
    assert_eq!(body["commits"], json!([{ "id": "0123", "subject": "Violins" }]));
    // They are not part of the conversation.
    assert_eq!(it.get(&it.here("/tasks/a/session/messages"), &token).await.0, 404);

    assert_eq!(body.get("patchBytes"), None, "{body}");
    let (_, task) = it.get(&it.here("/tasks/a"), &token).await;
    let task = Owner::new(&it.namespace, task["uid"].as_str().unwrap()).unwrap();
    let patch = store.put_stream(futures::stream::iter([Ok(Bytes::from_static(b"a patch"))]), u64::MAX).await.unwrap();
    let other = Owner::new(&it.namespace, "other").unwrap();
    store.publish_patch(&Run { task: other, epoch: 1 }, patch.digest.clone(), patch.bytes).await.unwrap();
    assert_eq!(changes().await.1.get("patchBytes"), None, "the patch of another Task");
    store.publish_patch(&Run { task, epoch: 1 }, patch.digest, patch.bytes).await.unwrap();
    assert_eq!(changes().await.1["patchBytes"], 7);
    let old = Limits { age: Some(SignedDuration::ZERO), ..Limits::default() };
    store.limit_artifacts(&it.namespace, old, Timestamp::now() + SignedDuration::from_secs(1)).await.unwrap();
    assert_eq!(changes().await.1.get("patchBytes"), None, "the patch expired");
}

#[tokio::test]
async fn the_start_of_the_agent_is_known_before_the_status_has_it() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (node, _log) = node(&it).await;
    running(&it, &token, &node).await;
    container(&it, json!({ "waiting": { "reason": "PodInitializing" } }), "Pending").await;
    it.set_status("tasks", "a", json!({ "phase": "Running", "startTime": null })).await;
    let mut stream = open(&it, &token, "", None).await;
    let status = stream.next().await.unwrap().data;
    assert_eq!((&status["type"], &status["startTime"]), (&json!("status"), &Value::Null), "{status}");
    container(&it, json!({ "running": { "startedAt": "2026-01-01T00:00:07Z" } }), "Running").await;
    let mut status = stream.next().await.unwrap().data;
    while status["type"] != "status" {
        status = stream.next().await.unwrap().data;
    }
    assert_eq!((&status["startTime"], &status["container"]), (&json!("2026-01-01T00:00:07Z"), &json!("agent")));
}

#[tokio::test]
async fn a_failed_preparation_opens_the_log_of_the_container_that_failed() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" } });
    it.post(&it.here("/tasks"), &token, &task).await;
    let image = "example.com/a:1";
    it.create::<Pod>(json!({
        "metadata": { "name": "a-pod" },
        "spec": { "nodeName": node, "tolerations": [{ "operator": "Exists" }],
            "initContainers": [{ "name": "git-init-0", "image": image }],
            "containers": [{ "name": "agent", "image": image }] },
    }))
    .await;
    let state = |name: &str, state: Value| json!({ "name": name, "image": "a", "imageID": "a", "ready": false, "restartCount": 0, "state": state });
    let failed = json!({ "phase": "Failed",
        "initContainerStatuses": [state("git-init-0", json!({ "terminated": { "exitCode": 1 } }))],
        "containerStatuses": [state("agent", json!({ "waiting": { "reason": "PodInitializing" } }))] });
    it.patch_status::<Pod>("a-pod", failed).await;
    let status = json!({ "phase": "Failed", "reason": "PreparationFailed", "message": "git-init-0 failed",
        "podName": "a-pod", "runEpoch": 1 });
    it.set_status("tasks", "a", status).await;
    log.write("init: repository not found");
    log.end();
    let mut stream = open(&it, &token, "", None).await;
    assert_eq!(stream.next().await.unwrap().data["container"], "git-init-0");
    assert_eq!(line(&mut stream).await.data["content"], "init: repository not found\n");
    let text = it.http.get(it.here("/tasks/a/logs?format=text")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(text.text().await.unwrap(), "init: repository not found\n");
    // The agent's own log is still there for a person who chooses it.
    let mut stream = open(&it, &token, "?container=agent", None).await;
    let mut last = stream.next().await.unwrap().data;
    while last["type"] != "complete" {
        assert_ne!(last["type"], "log", "{last}");
        last = stream.next().await.unwrap().data;
    }
}

/// The log of the container for records is the conversation.
#[tokio::test]
async fn the_records_of_a_running_task_are_its_conversation() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" } });
    it.post(&it.here("/tasks"), &token, &task).await;
    let session = json!({ "name": "session", "image": "example.com/a:1", "restartPolicy": "Always" });
    it.create::<Pod>(json!({
        "metadata": { "name": "a-pod" },
        "spec": { "nodeName": node, "tolerations": [{ "operator": "Exists" }], "initContainers": [session],
            "containers": [{ "name": "agent", "image": "example.com/a:1" }] },
    }))
    .await;
    let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    let status = |name: &str| json!({ "name": name, "image": "a", "imageID": "a", "ready": true, "restartCount": 0, "state": state });
    let (session, agent) = (status("session"), status("agent"));
    let status = json!({ "phase": "Running", "initContainerStatuses": [session], "containerStatuses": [agent] });
    it.patch_status::<Pod>("a-pod", status).await;
    it.set_status("tasks", "a", json!({ "phase": "Running", "podName": "a-pod", "runEpoch": 1 })).await;
    let output = |status: &str, output: &str| {
        json!({ "type": "tool_output", "timestamp": 5, "sessionID": "ses_1", "part": { "id": "p", "messageID": "m",
            "type": "tool", "tool": "bash", "state": { "status": status, "metadata": { "output": output } } } })
    };
    let messages = async || it.get(&it.here("/tasks/a/session/messages"), &token).await.1;
    log.write(&output("running", "one\n").to_string());
    let shown = |messages: &Value| messages[1]["parts"][0]["state"]["metadata"]["output"].clone();
    assert_eq!(shown(&messages().await), "one\n");
    log.write(&output("running", "two\n").to_string());
    assert_eq!(shown(&messages().await), "one\ntwo\n");
    log.write(&output("completed", "all").to_string());
    assert_eq!(shown(&messages().await), "all");
}

/// The stored log of a run.
async fn keep(store: &Store, it: &Harness, uid: &str, epoch: i64, lines: &[&str], end: Option<End>) {
    let log = Run { task: Owner::new(&it.namespace, uid).unwrap(), epoch }.log();
    let lines = lines.iter().map(|line| format!("2026-01-01T00:00:0{epoch}Z {line}\n"));
    let text = lines.collect::<Vec<_>>().concat();
    let bytes = text.len() as u64;
    store.append(&log, 0, text.into_bytes()).await.unwrap();
    if let Some(end) = end {
        store.close(&log, End { bytes, ..end }).await.unwrap();
    }
}

#[tokio::test]
async fn a_search_finds_text_in_the_logs_of_all_runs_with_and_without_their_pods() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::directory(&dir.path().join("store")).unwrap();
    let archive: Arc<dyn Archive> = Arc::new(store.clone());
    let it = harness::start_with(Options { log_archive: Some(archive), ..harness::options() }).await;
    let token = it.owner().await;
    let (node, log) = node(&it).await;
    running(&it, &token, &node).await;
    let (_, task) = it.get(&it.here("/tasks/a"), &token).await;
    let uid = task["uid"].as_str().unwrap();
    let search = async |query: &str| it.get(&it.here(&format!("/tasks/a/logs/search?{query}")), &token).await;

    // The run has a Pod, and nothing of its log is closed.
    log.write("\u{1b}[31mErr\u{1b}[0mor: one");
    log.write("fine");
    let (status, found) = search("q=error").await;
    assert_eq!(status, 200, "{found}");
    let run = &found["runs"][0];
    assert_eq!((&run["epoch"], &run["matchCount"], &run["lineCount"]), (&json!(1), &json!(1), &json!(2)), "{found}");
    assert_eq!((&run["matches"][0]["line"], &run["matches"][0]["text"]), (&json!(1), &json!("Error: one")));
    assert_eq!((&found["incomplete"], &run["missing"]), (&Value::Null, &Value::Null));

    // Two runs that ended, whose Pods are gone.
    let whole = End { complete: true, lines: 3, bytes: 0, gaps: 0 };
    keep(&store, &it, uid, 1, &["first error", "fine", "second ERROR"], Some(whole)).await;
    keep(&store, &it, uid, 2, &["error of run two"], None).await;
    it.set_status("tasks", "a", json!({ "phase": "Failed", "podName": "a-pod-3", "runEpoch": 3 })).await;
    let pods: Api<Pod> = Api::namespaced(it.admin.clone(), &it.namespace);
    pods.delete("a-pod", &DeleteParams::default().grace_period(0)).await.unwrap();
    let (_, found) = search("q=error").await;
    let counts: Vec<_> = found["runs"].as_array().unwrap().iter().map(|run| run["matchCount"].clone()).collect();
    assert_eq!(counts, [0, 1, 2], "{found}");
    assert_eq!(found["runs"][0]["missing"], "run 3 of Task 'a' has no log");
    assert!(found["runs"][1]["missing"].as_str().unwrap().contains("the end of this log is lost"), "{found}");
    let matches = json!([
        { "line": 1, "time": "2026-01-01T00:00:01Z", "text": "first error" },
        { "line": 3, "time": "2026-01-01T00:00:01Z", "text": "second ERROR" },
    ]);
    let first = json!({ "epoch": 1, "matches": matches, "matchCount": 2, "lineCount": 3 });
    assert_eq!(found["runs"][2], first);
    assert_eq!(search("q=error&epoch=1").await.1, json!({ "runs": [first] }));
    assert_eq!(search("q=ERROR&matchCase=true&epoch=1").await.1["runs"][0]["matchCount"], 1);
    let (_, cut) = search("q=error&limit=1").await;
    assert_eq!(cut["incomplete"], "3 lines match, of which the first 1 are listed");
    assert_eq!(cut["runs"][2]["matches"], json!([]));

    for (query, field) in [
        ("q=", "q"),
        ("q=%20", "q"),
        ("q=a%0Ab", "q"),
        (&*format!("q={}", "x".repeat(201)), "q"),
        ("q=a&limit=0", "limit"),
        ("q=a&limit=2001", "limit"),
        ("q=a&epoch=0", "epoch"),
        ("q=a&container=..", "container"),
    ] {
        let (status, refused) = search(query).await;
        assert_eq!((status.as_u16(), &refused["field"]), (400, &json!(field)), "{query}: {refused}");
    }
    assert_eq!(search("q=a&epoch=4").await.0, 404);
    assert_eq!(search("").await.0, 400);
    let (url, stranger) = (it.here("/tasks/a/logs/search?q=error"), it.user("stranger", json!([])).await);
    assert_eq!(it.get(&url, &stranger).await.0, 403);
}

#[tokio::test]
async fn the_last_event_says_what_a_log_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::directory(&dir.path().join("store")).unwrap().with_log_limit(400);
    let archive: Arc<dyn Archive> = Arc::new(store.clone());
    let it = harness::start_with(Options { log_archive: Some(archive), ..harness::options() }).await;
    let token = it.owner().await;
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" } });
    let (_, task) = it.post(&it.here("/tasks"), &token, &task).await;
    let uid = task["uid"].as_str().unwrap();
    it.set_status("tasks", "a", json!({ "phase": "Completed", "runEpoch": 2 })).await;
    let whole = End { complete: true, lines: 2, bytes: 0, gaps: 0 };
    keep(&store, &it, uid, 1, &["one", "two"], Some(End { gaps: 2, ..whole })).await;
    let long = ["a line with some text"; 40];
    keep(&store, &it, uid, 2, &long, Some(End { gaps: 1, ..whole })).await;
    let last = async |query: &str| {
        let mut stream = open(&it, &token, query, None).await;
        let mut last = None;
        while let Some(message) = stream.next().await {
            last = Some(message.data);
        }
        last.unwrap()
    };
    let gaps = last("?run=1").await;
    assert_eq!(gaps["complete"], false, "{gaps}");
    assert!(gaps["message"].as_str().unwrap().contains("lines are missing in this log, at 2 place(s)"), "{gaps}");
    let beyond = last("").await;
    assert_eq!(beyond.get("complete"), None, "{beyond}");
    assert!(beyond["message"].as_str().unwrap().ends_with("are left out: it is longer than its limit"), "{beyond}");
}
