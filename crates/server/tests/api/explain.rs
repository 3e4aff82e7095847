//! Why a Task is where it is.

use serde_json::{Value, json};

use crate::harness;

#[tokio::test]
async fn a_task_that_waits_for_a_slot_says_who_has_it_and_where_every_setting_came_from() {
    let it = harness::start().await;
    let token = it.owner().await;
    let template =
        json!({ "name": "base", "workspaceDir": "/work", "serviceAccountName": "default", "maxConcurrentTasks": 1 });
    assert_eq!(it.post(&it.here("/agenttemplates"), &token, &template).await.0, 201);
    let agent = json!({ "name": "dev", "templateRef": { "name": "base" }, "executorImage": "box:1", "quota": { "maxTaskStarts": 5, "windowSeconds": 3600 } });
    assert_eq!(it.post(&it.here("/agents"), &token, &agent).await.0, 201);
    it.set_status("agents", "dev", json!({ "ready": true })).await;
    for (name, priority) in [("runs", 0), ("waits", 0), ("goes-first", 9)] {
        let task = json!({ "name": name, "description": "x", "agentRef": { "name": "dev" }, "priority": priority });
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    }
    it.set_status("tasks", "runs", json!({ "phase": "Running", "runEpoch": 1, "startTime": "2026-01-01T00:00:00Z" }))
        .await;
    it.until("all is seen", async || {
        it.get(&it.here("/agents?ready=true"), &token).await.1["agents"][0]["slots"]["used"] == 1
    })
    .await;
    it.until_listed(&token, "/tasks", 3).await;

    let (status, explanation) = it.get(&it.here("/tasks/waits/explain"), &token).await;
    assert_eq!(status, 200);
    assert_eq!(explanation["reason"], "AgentAtCapacity", "{explanation}");
    assert_eq!(explanation["chain"][0]["level"], "wait");
    assert_eq!(explanation["chain"][1]["object"], json!({ "kind": "Task", "namespace": it.namespace, "name": "runs" }));
    let queue = &explanation["queue"];
    assert_eq!(
        (queue["position"].as_u64(), queue["waiting"].as_u64(), queue["running"].as_u64()),
        (Some(2), Some(2), Some(1))
    );
    assert_eq!(queue["maxConcurrentTasks"], 1);
    let ahead: Vec<_> = queue["ahead"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(ahead, ["runs", "goes-first"]);
    assert_eq!(explanation["quota"]["maxTaskStarts"], 5);
    assert!(explanation["next"][0].as_str().unwrap().contains("maxConcurrentTasks"));
    let origin = |path: &str| {
        let all = explanation["settings"].as_array().unwrap();
        let setting =
            all.iter().find(|setting| setting["path"] == path).unwrap_or_else(|| panic!("{path}: {explanation}"));
        (setting["value"].clone(), setting["originText"].as_str().unwrap().to_owned())
    };
    assert_eq!(origin("agent.executorImage"), (json!("box:1"), "Agent 'dev'".to_owned()));
    assert_eq!(origin("agent.workspaceDir"), (json!("/work"), "AgentTemplate 'base'".to_owned()));
    assert_eq!(origin("agent.stallTimeout"), (json!("15m"), "built-in default".to_owned()));

    let (_, agent) = it.get(&it.here("/agents/dev/explain"), &token).await;
    assert_eq!(agent["running"][0]["name"], "runs");
    assert_eq!(agent["queue"]["waiting"], 2);
    assert!(agent["settings"].as_array().unwrap().iter().any(|setting| setting["path"] == "executorImage"));
}

#[tokio::test]
async fn a_chain_of_dependencies_is_followed_to_its_end() {
    let it = harness::start().await;
    let token = it.owner().await;
    let task = |name: &str, on: Value| json!({ "name": name, "description": "x", "agentRef": { "name": "none" }, "dependsOn": on });
    for task in [
        task("a", json!([])),
        task("b", json!([{ "task": "a" }])),
        task("c", json!([{ "task": "b" }, { "task": "gone", "condition": "Finished" }])),
    ] {
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    }
    it.until_listed(&token, "/tasks", 3).await;
    let (_, explanation) = it.get(&it.here("/tasks/c/explain"), &token).await;
    assert_eq!(explanation["reason"], "WaitingForDependency", "{explanation}");
    let about: Vec<_> = explanation["chain"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["object"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(about, ["c", "b", "a", "gone"]);
    assert_eq!(
        explanation["dependencies"][1],
        json!({ "task": "gone", "condition": "Finished", "met": false, "exists": false })
    );

    it.set_status(
        "tasks",
        "a",
        json!({ "phase": "Failed", "reason": "ModelError", "message": "the model said no", "runEpoch": 1 }),
    )
    .await;
    let (_, explanation) = it.get(&it.here("/tasks/a/explain"), &token).await;
    assert_eq!(
        (explanation["reason"].as_str(), explanation["chain"][0]["level"].as_str()),
        (Some("ModelError"), Some("error"))
    );
    assert!(explanation["next"][0].as_str().unwrap().contains("ModelProvider"), "{explanation}");
}

#[tokio::test]
async fn a_task_without_its_agent_says_so() {
    let it = harness::start().await;
    let token = it.owner().await;
    let task = json!({ "name": "a", "description": "x", "agentRef": { "name": "none" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    let (_, explanation) = it.get(&it.here("/tasks/a/explain"), &token).await;
    assert_eq!(explanation["reason"], "AgentNotFound", "{explanation}");
    assert_eq!(explanation["settingsError"], "Agent 'none' does not exist");
    assert_eq!(it.get(&it.here("/tasks/none/explain"), &token).await.0, 404);
}
