//! The dashboard's numbers, and the graph.

use jiff::Timestamp;
use serde_json::json;

use crate::harness;

#[tokio::test]
async fn numbers_add_up() {
    let it = harness::start().await;
    let token = it.owner().await;
    assert_eq!(it.post(&it.here("/agents"), &token, &json!({ "name": "dev", "maxConcurrentTasks": 4 })).await.0, 201);
    for name in ["a", "b", "c", "d"] {
        let task = json!({ "name": name, "description": "x", "agentRef": { "name": "dev" } });
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    }
    let now = Timestamp::now().to_string();
    let usage = json!({ "tokens": { "input": 10, "output": 5, "reasoning": 0, "cache": 0 }, "cost": "0.25" });
    it.set_status("tasks", "a", json!({ "phase": "Running" })).await;
    it.set_status("tasks", "b", json!({ "phase": "Queued", "reason": "AgentAtCapacity" })).await;
    it.set_status(
        "tasks",
        "c",
        json!({ "phase": "Failed", "reason": "ModelError", "completionTime": now, "usage": usage }),
    )
    .await;
    it.set_status(
        "tasks",
        "d",
        json!({ "phase": "Completed", "reason": "Succeeded", "completionTime": now, "usage": usage }),
    )
    .await;
    let url = it.path(&format!("/summary?namespace={}", it.namespace));
    it.until("all is counted", async || it.get(&url, &token).await.1["tasks"]["byPhase"]["Completed"] == 1).await;
    let (_, summary) = it.get(&url, &token).await;
    assert_eq!(summary["tasks"]["byPhase"], json!({ "Completed": 1, "Failed": 1, "Queued": 1, "Running": 1 }));
    assert_eq!(summary["tasks"]["waitingByReason"], json!({ "AgentAtCapacity": 1 }));
    assert_eq!(summary["tasks"]["failedByReason24h"], json!({ "ModelError": 1 }));
    assert_eq!(summary["usage"]["cost"], "0.500000");
    assert_eq!(summary["usage"]["buckets"].as_array().unwrap().len(), 24);
    let total: u64 =
        summary["usage"]["buckets"].as_array().unwrap().iter().map(|bucket| bucket["tokens"].as_u64().unwrap()).sum();
    assert_eq!(total, 30);
    assert_eq!(summary["agents"]["items"][0]["slots"], json!({ "used": 1, "total": 4 }));
    assert_eq!(summary["agents"]["items"][0]["queueLength"], 1);
    assert_eq!(summary["recent"].as_array().unwrap().len(), 4);
    let (_, days) = it.get(&format!("{url}&buckets=day"), &token).await;
    assert_eq!(days["usage"]["buckets"].as_array().unwrap().len(), 30);
    assert_eq!(it.get(&it.path("/summary?namespace=../x"), &token).await.0, 400);
}

#[tokio::test]
async fn the_graph_goes_from_secret_to_task() {
    let it = harness::start().await;
    let token = it.owner().await;
    for (plural, object) in [
        (
            "modelproviders",
            json!({ "name": "openai", "spec": { "type": "openai", "apiKeySecretRef": { "name": "key", "key": "k" } } }),
        ),
        ("models", json!({ "name": "big", "spec": { "model": "m", "providerRef": { "name": "openai" } } })),
        ("agents", json!({ "name": "dev", "modelRef": { "name": "big" } })),
        ("tasks", json!({ "name": "fix", "description": "x", "agentRef": { "name": "dev" } })),
    ] {
        let (status, body) = it.post(&it.here(&format!("/{plural}")), &token, &object).await;
        assert_eq!(status, 201, "{body}");
        it.until_listed(&token, &format!("/{plural}"), 1).await;
    }
    let (_, graph) = it.get(&it.path(&format!("/graph?namespace={}", it.namespace)), &token).await;
    let id = |kind: &str, name: &str| format!("{kind}/{}/{name}", it.namespace);
    let path =
        [id("Secret", "key"), id("ModelProvider", "openai"), id("Model", "big"), id("Agent", "dev"), id("Task", "fix")];
    for pair in path.windows(2) {
        let found = graph["edges"]
            .as_array()
            .unwrap()
            .iter()
            .any(|edge| edge["from"] == pair[0].as_str() && edge["to"] == pair[1].as_str());
        assert!(found, "{pair:?} {graph}");
    }
}

#[tokio::test]
async fn a_search_finds_objects_of_every_kind_that_the_caller_may_list() {
    let it = harness::start().await;
    let token = it.owner().await;
    // Unique, because all tests share a cluster.
    let word = it.namespace.replace('-', "");
    for (plural, object) in [
        ("agents", json!({ "name": word })),
        ("agenttemplates", json!({ "name": format!("a-{word}") })),
        ("tasks", json!({ "name": "fix", "description": format!("Repair {word}"), "agentRef": { "name": "dev" } })),
        ("models", json!({ "name": format!("{word}-1"), "spec": { "model": "m", "providerRef": { "name": "p" } } })),
    ] {
        let (status, body) = it.post(&it.here(&format!("/{plural}")), &token, &object).await;
        assert_eq!(status, 201, "{body}");
        it.until_listed(&token, &format!("/{plural}"), 1).await;
    }
    let url = it.path(&format!("/search?text={}", word.to_uppercase()));
    let (_, body) = it.get(&url, &token).await;
    let kinds: Vec<_> = body["results"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Agent", "Model", "AgentTemplate", "Task"], "{body}");
    assert_eq!(body["results"][3]["title"], format!("Repair {word}"));

    let rules = json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["agents"], "verbs": ["list"] }]);
    let limited = it.user("limited", rules).await;
    it.until("only what the caller may list", async || {
        it.get(&url, &limited).await.1["results"].as_array().is_some_and(|found| found.len() == 1)
    })
    .await;
    for wrong in ["", "%20", &"a".repeat(254)] {
        assert_eq!(it.get(&it.path(&format!("/search?text={wrong}")), &token).await.0, 400, "{wrong}");
    }
}
