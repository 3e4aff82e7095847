//! attach, where a person is asked. Part of the tests in [`crate::attach`], which share a server.

use domain::contract::reason::Reason;
use kubeopencode_pod::env;
use serde_json::{Value, json};

use crate::attach::Client;
use crate::support::opencode::Server;
use crate::support::{LIMIT, until};

pub async fn check_person(server: &Server) {
    let run = Client::new(server.url())
        .set(env::APPROVAL_MODE, "Wait")
        .arg("--title")
        .arg("person")
        .arg("[[bash cmd=\"ask-me nicely\"]] [[say somebody said yes]]")
        .run();
    let person = async {
        let session = until("the session", LIMIT, || async { server.session("person").await }).await;
        let request = until("the request", LIMIT, || async {
            let all = server.call("GET", "/permission", &Value::Null).await?;
            let ours = all.as_array()?.iter().find(|asked| asked["sessionID"] == session.as_str())?;
            Some(ours["id"].as_str()?.to_owned())
        })
        .await;
        server.call("POST", &format!("/permission/{request}/reply"), &json!({"reply": "once"})).await;
    };
    let ((outcome, log), ()) = tokio::join!(run, person);
    assert_eq!((outcome.reason, outcome.summary.as_str()), (Reason::Succeeded, "somebody said yes"), "{log}");
    assert!(log.contains("ask-me nicely): waits for a person"), "{log}");
}

/// `approval.mode: Always` of a Task: a person is asked for what the Agent's own rules allow, what they deny stays denied,
/// and nothing else of the server changes.
pub async fn check_always(server: &Server) {
    let prompt = "[[bash cmd=\"echo unasked\"]] [[bash cmd=\"deny-me now\"]] [[say both were told]]";
    let run =
        Client::new(server.url()).set(env::APPROVAL_MODE, "Always").arg("--title").arg("always").arg(prompt).run();
    let person = async {
        let session = until("the session", LIMIT, || async { server.session("always").await }).await;
        let asked = until("the request", LIMIT, || async {
            let all = server.call("GET", "/permission", &Value::Null).await?;
            all.as_array()?.iter().find(|asked| asked["sessionID"] == session.as_str()).cloned()
        })
        .await;
        assert_eq!((&asked["permission"], &asked["patterns"]), (&json!("bash"), &json!(["echo unasked"])));
        let reply = format!("/permission/{}/reply", asked["id"].as_str().unwrap());
        server.call("POST", &reply, &json!({"reply": "once"})).await;
    };
    let ((outcome, log), ()) = tokio::join!(run, person);
    assert!(log.contains("echo unasked): waits for a person"), "{log}");
    assert!(!log.contains("deny-me now): waits"), "a denied call was asked for: {log}");
    assert_eq!(outcome.usage.messages, 3, "{outcome:?}\n{log}");
}
