use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::*;

/// A server that answers as OpenCode does, and a client of it.
async fn client(router: Router) -> Client {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().nest("/base", router)).await });
    let server = Server { directory: Some("/w".to_owned()), ..Server::at(&url, Some("sesame".to_owned())).unwrap() };
    Client::new(crate::direct().unwrap(), server)
}

#[tokio::test]
async fn requests_carry_the_password_and_the_directory() {
    let config = async |headers: HeaderMap, Query(query): Query<HashMap<String, String>>| {
        let fine = headers["authorization"] == "Basic b3BlbmNvZGU6c2VzYW1l" && query["directory"] == "/w";
        if fine { (StatusCode::OK, "{}") } else { (StatusCode::BAD_REQUEST, "") }
    };
    let client = client(Router::new().route("/config", get(config))).await;
    assert_eq!(client.ready(REQUEST).await, Ok(()));
    assert!(client.url().ends_with("/base") && !format!("{client:?}").contains("sesame"));
}

#[tokio::test]
async fn each_failure_has_its_error() {
    let session = async |Path(id): Path<String>| match id.as_str() {
        "ses_page" => (StatusCode::OK, "<html>".to_owned()),
        "ses_long" => (StatusCode::OK, format!(r#"{{"id":"{}"}}"#, "x".repeat(2000))),
        "ses_locked" => (StatusCode::UNAUTHORIZED, String::new()),
        "ses_broken" => (StatusCode::BAD_GATEWAY, r#"{"name":"Bad","data":{"message":"no"}}"#.to_owned()),
        _ => (StatusCode::NOT_FOUND, r#"{"name":"NotFoundError","data":{"message":"gone"}}"#.to_owned()),
    };
    let client = client(Router::new().route("/session/{id}", get(session))).await.with_max_answer(1000);
    let broken = Error::Status { status: 502, message: "Bad: no".to_owned() };
    for (id, expected) in [
        ("ses_page", Error::NotOpenCode("unexpected answer at column 1".to_owned())),
        ("ses_long", Error::NotOpenCode("the answer exceeds 1000 bytes".to_owned())),
        ("ses_locked", Error::Unauthorized),
        ("ses_broken", broken),
        ("ses_9/../x", Error::NotFound("NotFoundError: gone".to_owned())),
    ] {
        assert_eq!(client.session(id).await, Err(expected), "{id}");
    }
    let unreachable = Client::new(crate::direct().unwrap(), Server::at("http://127.0.0.1:9", None).unwrap());
    assert!(matches!(unreachable.ready(REQUEST).await, Err(Error::Unreachable(_))));
}

#[tokio::test]
async fn requests_of_a_session_are_those_of_its_subagents_too() {
    let session = async |Path(id): Path<String>| match id.as_str() {
        "ses_1" | "ses_2" => Ok(Json(json!({"id": id}))),
        "ses_3" => Ok(Json(json!({"id": id, "parentID": "ses_1"}))),
        "ses_4" => Ok(Json(json!({"id": id, "parentID": "ses_3"}))),
        // A hostile server: the line of this session has no end.
        "ses_5" => Ok(Json(json!({"id": id, "parentID": id}))),
        _ => Err(StatusCode::NOT_FOUND),
    };
    let asks = |id: &str, session: &str| json!({"id": id, "sessionID": session, "permission": "bash"});
    let sessions = ["ses_1", "ses_2", "ses_4", "ses_5", "ses_gone"];
    let all: Vec<Value> = sessions.iter().enumerate().map(|(n, id)| asks(&format!("per_{}", n + 1), id)).collect();
    let router =
        Router::new().route("/session/{id}", get(session)).route("/permission", get(async move || Json(all.clone())));
    let asked = client(router).await.permissions_of("ses_1").await.unwrap();
    assert_eq!(asked.iter().map(|asked| asked.id.as_str()).collect::<Vec<_>>(), ["per_1", "per_3"]);
}

#[tokio::test]
async fn an_error_response_without_an_end_is_read_in_part() {
    let endless = async || {
        let line = "x".repeat(1 << 20);
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            Body::from_stream(futures::stream::repeat_with(move || Ok::<_, std::io::Error>(line.clone()))),
        )
    };
    let client = client(Router::new().route("/permission", get(endless)).route("/event", get(endless))).await;
    let message = "x".repeat(500);
    let expected = Error::Status { status: 500, message };
    assert_eq!(client.permissions().await, Err(expected.clone()));
    assert_eq!(client.events().await.err(), Some(expected));
}

#[tokio::test]
async fn a_session_without_an_id_is_refused() {
    let client = client(Router::new().route("/session", post(async || Json(json!({}))))).await;
    assert!(matches!(client.create(&json!({})).await, Err(Error::NotOpenCode(_))));
}

#[test]
fn an_unknown_status_counts_as_busy() {
    let activity = |status: Value| Activity::read(&status);
    assert_eq!(activity(json!({"type": "idle"})), Activity::Idle);
    assert_eq!(activity(json!({})), Activity::Idle);
    assert_eq!(activity(json!({"type": "busy"})), Activity::Busy);
    assert_eq!(activity(json!({"type": "compacting"})), Activity::Busy);
    let retry = Activity::Retry { attempt: 2, message: "overloaded".to_owned() };
    assert_eq!(activity(json!({"type": "retry", "attempt": 2, "message": "overloaded"})), retry);
}

#[tokio::test]
async fn a_command_runs_in_a_session_that_is_deleted() {
    type Calls = Arc<Mutex<Vec<String>>>;
    let calls = Calls::default();
    let note = |calls: &Calls, call: String| calls.lock().unwrap().push(call);
    let agents = json!([{"name": "explore", "mode": "subagent"}, {"name": "plan", "mode": "primary"}]);
    let shell = async move |State(calls): State<Calls>, Json(body): Json<Value>| {
        note(&calls, format!("{} {}", body["agent"], body["command"]));
        Json(json!({"parts": [{"state": {"output": "removed"}}, {"text": "x"}, {"state": {"output": "again"}}]}))
    };
    let delete = async move |State(calls): State<Calls>, Path(id): Path<String>| note(&calls, format!("delete {id}"));
    let router = Router::new()
        .route("/agent", get(async move || Json(agents)))
        .route("/session", post(async || Json(json!({"id": "ses_1"}))))
        .route("/session/{id}/shell", post(shell))
        .route("/session/{id}", axum::routing::delete(delete))
        .with_state(calls.clone());
    let client = client(router).await;
    let agent = client.default_agent().await.unwrap();
    let session = client.create(&json!({"title": "chores"})).await.unwrap().id;
    assert_eq!(client.shell(&session, &agent, "one").await.unwrap(), "removed\nagain");
    client.delete(&session).await.unwrap();
    assert_eq!(*calls.lock().unwrap(), ["\"plan\" \"one\"", "delete ses_1"]);
}

#[test]
fn the_default_agent_is_build_or_the_first_that_is_no_subagent() {
    let check = |agents: &[(&str, &str)], expected: Option<&str>| {
        let agent = |(name, mode): &(&str, &str)| Agent {
            name: (*name).to_owned(),
            mode: (*mode).to_owned(),
            ..Agent::default()
        };
        let all: Vec<Agent> = agents.iter().map(agent).collect();
        assert_eq!(primary(&all).map(|agent| agent.name.as_str()), expected, "{agents:?}");
    };
    check(&[("plan", "primary"), ("build", "primary")], Some("build"));
    check(&[("explore", "subagent"), ("plan", "primary"), ("own", "all")], Some("plan"));
    check(&[("explore", "subagent"), ("general", "subagent")], None);
    check(&[], None);
}

#[test]
fn hostile_ids_stay_in_their_place() {
    assert_eq!(plain("ses_1/../../config?x=1#"), "ses_1configx1");
}

#[test]
fn a_rejection_may_contain_a_message() {
    assert_eq!(Reply::Reject(Some("use main".into())).body(), json!({"reply": "reject", "message": "use main"}));
    assert_eq!(Reply::Reject(None).body(), json!({"reply": "reject"}));
    assert_eq!(Reply::Always.body(), json!({"reply": "always"}));
}
