//! The feed of changes.

use serde_json::json;

use crate::harness::{self, Events};

#[tokio::test]
async fn changes_are_sent_as_they_happen_and_replayed_after_a_reconnect() {
    let it = harness::start().await;
    let token = it.owner().await;
    let url = it.path(&format!("/events/stream?namespace={}&kinds=Task", it.namespace));
    let listen = async |last: Option<&str>| {
        let mut request = it.http.get(&url).bearer_auth(&token);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Events::of(request.send().await.unwrap())
    };
    let mut feed = listen(None).await;
    let hello = feed.next().await.unwrap();
    assert_eq!((hello.event.as_str(), hello.data["id"].as_str()), ("hello", Some(hello.id.as_str())));

    let task = |name: &str| json!({ "name": name, "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &task("a")).await.0, 201);
    let added = feed.next().await.unwrap();
    assert_eq!(
        (added.event.as_str(), added.data["type"].as_str(), added.data["name"].as_str()),
        ("change", Some("ADDED"), Some("a"))
    );
    assert_eq!(added.data["object"]["phase"], "Pending");
    it.set_status("tasks", "a", json!({ "phase": "Running", "runEpoch": 1 })).await;
    let modified = feed.next().await.unwrap();
    assert_eq!(
        (modified.data["type"].as_str(), modified.data["object"]["phase"].as_str()),
        (Some("MODIFIED"), Some("Running"))
    );

    // A client that reconnects gets the events that it missed, once and in order.
    drop(feed);
    assert_eq!(it.post(&it.here("/tasks"), &token, &task("b")).await.0, 201);
    assert_eq!(it.send(reqwest::Method::DELETE, &it.here("/tasks/a"), &token, None).await.0, 204);
    it.until("a is gone", async || it.get(&it.here("/tasks?name=a"), &token).await.1["total"] == 0).await;
    let mut feed = listen(Some(&added.id)).await;
    assert_eq!(feed.next().await.unwrap().event, "hello");
    let mut replayed = Vec::new();
    for _ in 0..3 {
        let message = feed.next().await.unwrap();
        replayed.push((
            message.data["type"].as_str().unwrap().to_owned(),
            message.data["name"].as_str().unwrap().to_owned(),
        ));
    }
    let expected = [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(replayed, expected);

    let mut lost = listen(Some("another-process-7")).await;
    assert_eq!(lost.next().await.unwrap().event, "hello");
    assert_eq!(lost.next().await.unwrap().event, "reset");
}

#[tokio::test]
async fn users_receive_no_events_of_objects_they_may_not_see() {
    let it = harness::start().await;
    let owner = it.owner().await;
    let rules = json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["tasks"], "verbs": ["list"] }]);
    let reader = it.user("reader", rules).await;
    it.until("the reader may list", async || it.get(&it.here("/tasks"), &reader).await.0 == 200).await;
    let other = harness::start().await;
    let other_owner = other.owner().await;

    let response = it.http.get(it.path("/events/stream")).bearer_auth(&reader).send().await.unwrap();
    let mut feed = Events::of(response);
    assert_eq!(feed.next().await.unwrap().event, "hello");
    let task = |name: &str| json!({ "name": name, "description": "x", "agentRef": { "name": "dev" } });
    // In another namespace, of another kind, and then one that the user may see.
    assert_eq!(other.post(&other.here("/tasks"), &other_owner, &task("secret")).await.0, 201);
    assert_eq!(it.post(&it.here("/agents"), &owner, &json!({ "name": "dev" })).await.0, 201);
    it.until_listed(&owner, "/agents", 1).await;
    assert_eq!(it.post(&it.here("/tasks"), &owner, &task("mine")).await.0, 201);
    let first = feed.next().await.unwrap();
    assert_eq!((first.data["kind"].as_str(), first.data["name"].as_str()), (Some("Task"), Some("mine")));
}

#[tokio::test]
async fn a_stream_on_which_nothing_happens_ends_with_a_reason_when_its_token_becomes_invalid() {
    let it = harness::start_watchful().await;
    let token = it.owner().await;
    let stream = it.http.get(it.path("/events/stream")).bearer_auth(&token).send().await.unwrap();
    let mut stream = Events::of(stream);
    assert_eq!(stream.next().await.unwrap().event, "hello");
    it.remove_user("owner").await;
    let last = loop {
        let message = stream.next().await.expect("it ended without a reason");
        if message.event != "change" {
            break message;
        }
    };
    assert_eq!((last.event.as_str(), &last.data), ("end", &json!({ "message": "the token is not valid here" })));
    assert_eq!(stream.next().await, None);
}
