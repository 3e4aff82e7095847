//! Agents, with a server that speaks OpenCode's protocol.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    extract::{Path, Request, State, WebSocketUpgrade, ws::Message},
    response::IntoResponse as _,
    routing::{any, get, post},
};
use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use server::Options;
use store::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite;

use crate::harness::{self, Harness};

/// The requests to the server of the Agent.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Heard>>>);

/// Path, credentials and body.
type Heard = (String, Option<String>, Value);

impl Asked {
    fn note(&self, request: &Request, body: Value) {
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("cookie"), None);
        let line = format!("{} {}", request.method(), request.uri());
        self.0.lock().unwrap().push((line, header("authorization"), body));
    }
}

/// An Agent whose server listens here, with a password.
async fn agent(it: &Harness, token: &str, sessions: Value, permissions: Value) -> Asked {
    let asked = Asked::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, messages) =
        (json!({ "id": "ses_1", "title": "t" }), json!([{ "info": { "id": "msg_1", "role": "user" }, "parts": [] }]));
    let router = Router::new()
        .route("/session", get(async move || Json(sessions)))
        .route("/session/ses_1", get(async move || Json(one)))
        .route("/session/ses_1/message", get(async move || Json(messages)))
        .route("/session/ses_child", get(async || Json(json!({ "id": "ses_child", "parentID": "ses_1" }))))
        .route("/permission", get(async move || Json(permissions)))
        .route(
            "/permission/{id}/reply",
            post(async |State(asked): State<Asked>, Path(id): Path<String>, Json(body): Json<Value>| {
                if id == "per_lost" {
                    return StatusCode::NOT_FOUND.into_response();
                }
                asked.0.lock().unwrap().push((format!("reply {id}"), None, body));
                Json(json!(true)).into_response()
            }),
        )
        .route(
            "/socket",
            get(async |upgrade: WebSocketUpgrade| {
                upgrade.on_upgrade(async |mut socket| {
                    while let Some(Ok(Message::Text(text))) = socket.recv().await {
                        socket.send(Message::Text(format!("echo {text}").into())).await.unwrap();
                    }
                })
            }),
        )
        .route(
            "/echo/{*rest}",
            any(async |State(asked): State<Asked>, request: Request| {
                asked.note(&request, Value::Null);
                let headers = [
                    ("set-cookie", "stolen=1"),
                    ("content-type", "text/html"),
                    ("content-security-policy", "default-src *"),
                ];
                (headers, "<script>alert(1)</script>").into_response()
            }),
        )
        .with_state(asked.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let body = json!({ "name": "dev" });
    assert_eq!(it.post(&it.here("/agents"), token, &body).await.0, 201);
    it.create::<Secret>(json!({ "metadata": { "name": domain::workload::names::agent_password("dev") }, "stringData": { "password": "hunter2" } })).await;
    it.set_status("agents", "dev", json!({ "ready": true, "url": format!("http://{address}") })).await;
    it.until("the Agent is ready", async || it.get(&it.here("/agents?ready=true"), token).await.1["total"] == 1).await;
    asked
}

async fn running_task(it: &Harness, token: &str, name: &str, session: Option<&str>) -> String {
    let task = json!({ "name": name, "description": "x", "agentRef": { "name": "dev" } });
    let (_, created) = it.post(&it.here("/tasks"), token, &task).await;
    let mut status = json!({ "phase": "Running", "runEpoch": 1 });
    if let Some(id) = session {
        status["session"] = json!({ "id": id });
    }
    it.set_status("tasks", name, status).await;
    created["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_session_of_a_task_is_read_from_its_agent() {
    let it = harness::start().await;
    let token = it.owner().await;
    agent(&it, &token, json!([]), json!([])).await;
    running_task(&it, &token, "a", Some("ses_1")).await;
    assert_eq!(
        it.get(&it.here("/tasks/a/session"), &token).await,
        (200.try_into().unwrap(), json!({ "id": "ses_1", "title": "t" }))
    );
    assert_eq!(it.get(&it.here("/tasks/a/session/messages"), &token).await.1[0]["info"]["id"], "msg_1");
    running_task(&it, &token, "none", None).await;
    assert_eq!(it.get(&it.here("/tasks/none/session"), &token).await.0, 404);
    running_task(&it, &token, "evil", Some("../permission")).await;
    assert_eq!(it.get(&it.here("/tasks/evil/session"), &token).await.0, 404);
}

#[tokio::test]
async fn permissions_of_a_task_are_listed_and_answered_and_those_of_others_are_not() {
    let it = harness::start().await;
    let token = it.owner().await;
    let ask = |id: &str, session: &str| json!({ "id": id, "sessionID": session, "permission": "bash", "patterns": ["rm *"], "metadata": {}, "always": [] });
    let permissions = json!([ask("per_1", "ses_1"), ask("per_2", "ses_other"), ask("per_3", "ses_child")]);
    let asked = agent(&it, &token, json!([]), permissions).await;
    running_task(&it, &token, "a", Some("ses_1")).await;
    let (_, listed) = it.get(&it.here("/tasks/a/permissions"), &token).await;
    let ids: Vec<_> = listed["permissions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["per_1", "per_3"]);
    let answer =
        async |id: &str, body: Value| it.post(&it.here(&format!("/tasks/a/permissions/{id}")), &token, &body).await.0;
    assert_eq!(answer("per_1", json!({ "reply": "once" })).await, 204);
    assert_eq!(answer("per_2", json!({ "reply": "once" })).await, 404);
    assert_eq!(answer("per_1", json!({ "reply": "maybe" })).await, 422);
    assert_eq!(*asked.0.lock().unwrap(), [("reply per_1".to_owned(), None, json!({ "reply": "once" }))]);
    it.set_status("tasks", "a", json!({ "phase": "Completed" })).await;
    assert_eq!(it.get(&it.here("/tasks/a/permissions"), &token).await.1, json!({ "permissions": [] }));
}

#[tokio::test]
async fn every_answer_to_a_permission_request_is_recorded_with_who_gave_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::directory(&dir.path().join("store")).unwrap();
    let it = harness::start_with(Options { results: Some(store.clone()), ..harness::options() }).await;
    let token = it.owner().await;
    let ask = |id: &str| json!({ "id": id, "sessionID": "ses_1", "permission": "bash", "patterns": ["curl -H sk0123456789abcdef x"], "metadata": {}, "always": [] });
    let asked = agent(&it, &token, json!([]), json!([ask("per_1"), ask("per_2"), ask("per_lost")])).await;
    running_task(&it, &token, "a", Some("ses_1")).await;
    let approvals = async || it.get(&it.here("/tasks/a/approvals"), &token).await.1;
    assert_eq!(approvals().await, json!({ "recorded": true, "approvals": [] }));

    let path = |id: &str| it.here(&format!("/tasks/a/permissions/{id}"));
    assert_eq!(it.post(&path("per_1"), &token, &json!({ "reply": "always" })).await.0, 204);
    let rejected = json!({ "reply": "reject", "message": "use the mirror" });
    let by_command = it.http.post(path("per_2")).header("user-agent", "kubeopencode-cli/1.0").bearer_auth(&token);
    assert_eq!(by_command.json(&rejected).send().await.unwrap().status(), 204);
    // The server of the Agent refuses this one, so there is no answer.
    assert_eq!(it.post(&path("per_lost"), &token, &json!({ "reply": "once" })).await.0, 404);
    assert_eq!(it.post(&path("per_none"), &token, &json!({ "reply": "once" })).await.0, 404);
    assert_eq!(asked.0.lock().unwrap().len(), 2);

    let found = approvals().await;
    let all = found["approvals"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{found}");
    let (second, first) = (&all[0], &all[1]);
    let owner = it.get(&it.path("/whoami"), &token).await.1["user"].clone();
    for (answer, request, reply, via) in [(first, "per_1", "always", "Api"), (second, "per_2", "reject", "CommandLine")]
    {
        assert_eq!(
            (&answer["request"], &answer["reply"], &answer["via"]),
            (&json!(request), &json!(reply), &json!(via))
        );
        assert_eq!((&answer["by"], &answer["epoch"], &answer["accepted"]), (&owner, &json!(1), &json!(true)));
        assert_eq!((&answer["permission"], &answer["patterns"]), (&json!("bash"), &json!(["curl -H … x"])));
    }
    assert_eq!(second["message"], "use the mirror");
    let stranger = it.user("stranger", json!([])).await;
    assert_eq!(it.get(&it.here("/tasks/a/approvals"), &stranger).await.0, 403);
}

#[tokio::test]
async fn the_proxy_adds_the_password_drops_credentials_and_makes_pages_inert() {
    let it = harness::start().await;
    let token = it.owner().await;
    let asked = agent(&it, &token, json!([]), json!([])).await;
    let response = it
        .http
        .get(it.here("/agents/dev/proxy/echo/a%2Fb?x=1"))
        .bearer_auth(&token)
        .header("cookie", "a=b")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers().get("set-cookie"), None);
    assert_eq!(response.headers()["content-security-policy"], "sandbox; default-src 'none'");
    let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("opencode:hunter2"));
    assert_eq!(*asked.0.lock().unwrap(), [("GET /echo/a%2Fb?x=1".to_owned(), Some(basic), Value::Null)]);

    let rules =
        json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["agents", "tasks"], "verbs": ["get", "list"] }]);
    let reader = it.user("reader", rules).await;
    it.until("the reader may read", async || it.get(&it.here("/agents/dev"), &reader).await.0 == 200).await;
    assert_eq!(it.get(&it.here("/agents/dev/proxy/echo/a"), &reader).await.0, 403);
    it.set_status("agents", "dev", json!({ "url": "http://169.254.169.254" })).await;
    assert_eq!(it.get(&it.here("/agents/dev/proxy/echo/a"), &token).await.0, 502);
    it.set_status("agents", "dev", json!({ "ready": false })).await;
    assert_eq!(it.get(&it.here("/agents/dev/proxy/echo/a"), &token).await.0, 409);
}

#[tokio::test]
async fn a_websocket_passes_through_the_proxy_but_not_from_another_page() {
    let it = harness::start().await;
    let token = it.owner().await;
    agent(&it, &token, json!([]), json!([])).await;
    let url = it.here("/agents/dev/proxy/socket").replace("http://", "ws://");
    let connect = async |headers: &[(&'static str, &str)]| {
        let mut request = tungstenite::client::IntoClientRequest::into_client_request(url.as_str()).unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(it.url.strip_prefix("http://").unwrap()).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await
    };
    let bearer = format!("Bearer {token}");
    let (mut socket, _) = connect(&[("authorization", &bearer)]).await.unwrap();
    socket.send(tungstenite::Message::text("hello")).await.unwrap();
    let answer = tokio::time::timeout(harness::LIMIT, socket.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.into_text().unwrap().as_str(), "echo hello");

    let login = it.http.post(it.path("/login")).json(&json!({ "token": token })).send().await.unwrap();
    let cookie = login.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert!(connect(&[("cookie", &cookie), ("origin", "http://evil.example")]).await.is_err());
    assert!(connect(&[("cookie", &cookie), ("origin", &it.url)]).await.is_ok());
}

#[tokio::test]
async fn an_open_connection_through_the_proxy_ends_when_the_right_to_it_goes() {
    let it = harness::start_watchful().await;
    let token = it.owner().await;
    agent(&it, &token, json!([]), json!([])).await;
    let url = it.here("/agents/dev/proxy/socket").replace("http://", "ws://");
    let mut request = tungstenite::client::IntoClientRequest::into_client_request(url.as_str()).unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let stream = TcpStream::connect(it.url.strip_prefix("http://").unwrap()).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    socket.send(tungstenite::Message::text("hello")).await.unwrap();
    let next = tokio::time::timeout(harness::LIMIT, socket.next()).await.unwrap();
    assert_eq!(next.unwrap().unwrap().into_text().unwrap().as_str(), "echo hello");
    it.revoke("owner").await;
    let ended = tokio::time::timeout(harness::LIMIT, socket.next()).await.expect("still open");
    assert!(!matches!(ended, Some(Ok(tungstenite::Message::Text(_)))), "{ended:?}");
}

#[tokio::test]
async fn an_agent_is_suspended_when_nothing_runs_on_it_and_resumed() {
    let it = harness::start().await;
    let token = it.owner().await;
    assert_eq!(it.post(&it.here("/agents"), &token, &json!({ "name": "dev", "maxConcurrentTasks": 2 })).await.0, 201);
    running_task(&it, &token, "a", None).await;
    it.until("its load is known", async || {
        it.get(&it.here("/agents"), &token).await.1["agents"][0]["slots"] == json!({ "used": 1, "total": 2 })
    })
    .await;
    assert_eq!(it.post(&it.here("/agents/dev/suspend"), &token, &json!({})).await.0, 409);
    it.set_status("tasks", "a", json!({ "phase": "Completed" })).await;
    it.until("it is idle", async || it.get(&it.here("/agents"), &token).await.1["agents"][0]["slots"]["used"] == 0)
        .await;
    let (status, agent) = it.post(&it.here("/agents/dev/suspend"), &token, &json!({})).await;
    assert_eq!(
        (status.as_u16(), agent["suspend"].as_bool(), agent["suspendedBy"].as_str()),
        (200, Some(true), Some("User"))
    );
    let (_, agent) = it.post(&it.here("/agents/dev/resume"), &token, &json!({})).await;
    assert_eq!(agent["suspend"], false);
    assert_eq!(it.post(&it.here("/agents/none/resume"), &token, &json!({})).await.0, 404);
}

#[tokio::test]
async fn a_terminal_needs_a_websocket_a_pod_and_the_right_to_run_commands() {
    let it = harness::start().await;
    let token = it.owner().await;
    assert_eq!(it.post(&it.here("/agents"), &token, &json!({ "name": "dev" })).await.0, 201);
    assert_eq!(it.get(&it.here("/agents/dev/terminal"), &token).await.0, 400);
    let rules =
        json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["agents", "tasks"], "verbs": ["get", "list"] }]);
    let reader = it.user("reader", rules).await;
    it.until("the reader may read", async || it.get(&it.here("/agents/dev"), &reader).await.0 == 200).await;
    assert_eq!(it.get(&it.here("/agents/dev/terminal"), &reader).await.0, 403);
}

#[tokio::test]
async fn a_template_reports_its_model_and_all_its_tasks() {
    let it = harness::start().await;
    let token = it.owner().await;
    let template = json!({ "name": "base", "config": { "model": "anthropic/big" } });
    assert_eq!(it.post(&it.here("/agenttemplates"), &token, &template).await.0, 201);
    let agent = json!({ "name": "dev", "templateRef": { "name": "base" } });
    assert_eq!(it.post(&it.here("/agents"), &token, &agent).await.0, 201);
    for (name, phase) in [("a", "Completed"), ("b", "Failed"), ("c", "Running")] {
        let task = json!({ "name": name, "description": "x", "templateRef": { "name": "base" } });
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
        it.set_status("tasks", name, json!({ "phase": phase })).await;
    }
    let url = it.here("/agenttemplates");
    it.until("all Tasks are counted", async || {
        let one = it.get(&url, &token).await.1["agentTemplates"][0].clone();
        one["taskCount"] == 3 && one["activeTaskCount"] == 1
    })
    .await;
    assert_eq!(it.get(&url, &token).await.1["agentTemplates"][0]["resolvedModel"], "anthropic/big");
    it.until_listed(&token, "/agents", 1).await;
    assert_eq!(it.get(&it.here("/agents"), &token).await.1["agents"][0]["resolvedModel"], "anthropic/big");

    let models = json!({ "name": "small", "spec": { "model": "mini", "providerRef": { "name": "own" } } });
    assert_eq!(it.post(&it.here("/models"), &token, &models).await.0, 201);
    let other = json!({ "name": "other", "modelRef": { "name": "small" }, "config": { "model": "x/y" } });
    assert_eq!(it.post(&it.here("/agenttemplates"), &token, &other).await.0, 201);
    let model = async || it.get(&it.here("/agenttemplates/other"), &token).await.1["resolvedModel"].clone();
    it.until("a Model without its provider has its name", async || model().await == "small").await;
    let provider =
        json!({ "name": "own", "spec": { "type": "openai-compatible", "baseURL": "http://127.0.0.1:9/v1" } });
    assert_eq!(it.post(&it.here("/modelproviders"), &token, &provider).await.0, 201);
    it.until("a Model is named with its provider", async || model().await == "own/mini").await;

    assert_eq!(it.send(Method::DELETE, &it.here("/tasks/a"), &token, None).await.0, 204);
    let count = async || it.get(&it.here("/agenttemplates/base"), &token).await.1["taskCount"].clone();
    it.until("a deleted Task is not counted", async || count().await == 2).await;
}
