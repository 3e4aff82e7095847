//! Races between attach and its server: a stub server returns the answers that a real one rarely gives, in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};
use domain::contract::{reason::Reason, report::RunReport};
use kubeopencode_pod::attach::{self, Arguments, Settings};
use kubeopencode_pod::env;
use kubeopencode_pod::redact::Redactor;
use kubeopencode_pod::run_log::{Format, Log};
use serde_json::{Value, json};

use crate::support::lookup;

/// The answers, one after the other; the last repeats.
#[derive(Default)]
struct Script {
    status: VecDeque<Value>,
    messages: VecDeque<Value>,
    /// Requests that wait for an answer.
    asked: Vec<Value>,
    answered: Vec<String>,
}

fn next(answers: &mut VecDeque<Value>) -> Value {
    match answers.len() {
        0 => Value::Null,
        1 => answers[0].clone(),
        _ => answers.pop_front().unwrap(),
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let mut script = script.lock().unwrap();
    let path = request.uri().path().to_owned();
    if let Some(id) = path.strip_prefix("/permission/").and_then(|rest| rest.strip_suffix("/reply")) {
        script.answered.push(id.to_owned());
        script.asked.retain(|asked| asked["id"] != id);
        return Json(true).into_response();
    }
    Json(match path.as_str() {
        "/config" => json!({}),
        "/session" => json!({"id": "ses_1"}),
        "/session/ses_1/prompt_async" => return StatusCode::NO_CONTENT.into_response(),
        "/session/status" => next(&mut script.status),
        "/session/ses_1/message" => next(&mut script.messages),
        "/session/ses_1/children" => json!([{"id": "ses_2"}]),
        "/session/ses_2/children" => json!([{"id": "ses_3"}]),
        "/permission" => json!(script.asked),
        path if path.ends_with("/children") || path.ends_with("/diff") || path == "/question" => json!([]),
        // There are no events here.
        _ => return StatusCode::NOT_FOUND.into_response(),
    })
    .into_response()
}

async fn run(script: Script) -> (RunReport, Vec<String>) {
    let script = Arc::new(Mutex::new(script));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn({
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        async move { axum::serve(listener, router).await }
    });
    let arguments = Arguments::parse(&["--attach", &url, "work"]).unwrap();
    let settings = Settings::from_env(&lookup(&[(env::APPROVAL_MODE, "Approve".to_owned())])).unwrap();
    let mut out = Vec::new();
    let mut log = Log::new(&mut out, Format::Readable, Redactor::default());
    let outcome = attach::run(&arguments, &settings, None, tokio::io::empty(), &mut log, std::future::pending()).await;
    server.abort();
    let answered = std::mem::take(&mut script.lock().unwrap().answered);
    (outcome, answered)
}

fn finished_with(finish: &str) -> Value {
    json!([{"info": {"id": "msg_1", "role": "assistant", "finish": finish, "time": {"completed": 1}}, "parts": []}])
}

#[tokio::test]
async fn a_session_that_went_on_meanwhile_is_not_judged() {
    let script = Script {
        status: [json!({}), json!({"ses_1": {"type": "busy"}}), json!({})].into(),
        messages: [finished_with("tool-calls"), finished_with("stop")].into(),
        ..Script::default()
    };
    let (outcome, _) = run(script).await;
    assert_eq!(outcome.reason, Reason::Succeeded, "{outcome:?}");
}

#[tokio::test]
async fn a_subagent_that_started_unseen_gets_its_answer_and_a_stranger_none() {
    let asked = |id: &str, session: &str| json!({"id": id, "sessionID": session, "permission": "bash"});
    let busy = json!({"ses_1": {"type": "busy"}});
    let script = Script {
        status: [busy, json!({})].into(),
        messages: [finished_with("stop")].into(),
        asked: vec![asked("per_other", "ses_other"), asked("per_1", "ses_3")],
        ..Script::default()
    };
    let (outcome, answered) = run(script).await;
    assert_eq!(outcome.reason, Reason::Succeeded, "{outcome:?}");
    assert_eq!(answered, ["per_1"]);
}
