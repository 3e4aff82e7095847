//! Authorization.

use serde_json::json;

use crate::harness;

#[tokio::test]
async fn a_reader_of_one_namespace_sees_that_namespace_and_nothing_else() {
    let it = harness::start().await;
    let owner = it.owner().await;
    let other = harness::start().await;
    let other_owner = other.owner().await;
    for (it, token) in [(&it, &owner), (&other, &other_owner)] {
        let task = json!({ "name": "mine", "description": "do it", "agentRef": { "name": "dev" } });
        assert_eq!(it.post(&it.here("/tasks"), token, &task).await.0, 201);
        it.until_listed(token, "/tasks", 1).await;
    }
    let rules = json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["tasks"], "verbs": ["get", "list"] }]);
    let reader = it.user("reader", rules).await;
    it.until("the reader may list", async || it.get(&it.here("/tasks"), &reader).await.0 == 200).await;

    let (status, all) = it.get(&it.path("/tasks"), &reader).await;
    assert_eq!(status, 200);
    let namespaces: Vec<_> =
        all["tasks"].as_array().unwrap().iter().map(|task| task["namespace"].as_str().unwrap()).collect();
    assert_eq!(namespaces, [it.namespace.as_str()]);
    assert_eq!(it.get(&it.path("/namespaces"), &reader).await.1, json!({ "namespaces": [it.namespace] }));
    assert_eq!(it.get(&it.here("/tasks/mine"), &reader).await.0, 200);

    let foreign = it.path(&format!("/namespaces/{}/tasks", other.namespace));
    let (status, body) = it.get(&foreign, &reader).await;
    assert_eq!((status.as_u16(), body["error"].as_str()), (403, Some("Forbidden")));
    assert!(body["message"].as_str().unwrap().contains("may not list tasks"));
    assert_eq!(it.get(&format!("{foreign}/mine"), &reader).await.0, 403);
    assert_eq!(it.get(&format!("{foreign}/none"), &reader).await.0, 403);

    let task = json!({ "description": "do it", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/tasks"), &reader, &task).await.0, 403);
    assert_eq!(it.post(&it.here("/tasks/mine/stop"), &reader, &json!({})).await.0, 403);
    assert_eq!(it.send(reqwest::Method::DELETE, &it.here("/tasks/mine"), &reader, None).await.0, 403);
    assert_eq!(it.get(&it.here("/tasks/mine/logs"), &reader).await.0, 403);
    assert_eq!(it.get(&it.path("/agents"), &reader).await.0, 403);
    assert_eq!(it.get(&it.path("/config"), &reader).await.0, 403);
    let (_, graph) = it.get(&it.path("/graph"), &reader).await;
    let namespaces = graph["nodes"].as_array().unwrap().iter().map(|node| node["namespace"].as_str().unwrap());
    assert!(namespaces.into_iter().all(|namespace| namespace == it.namespace), "{graph}");
    let (_, explained) = it.get(&it.here("/tasks/mine/explain"), &reader).await;
    assert_eq!(explained["settingsError"], "you are not allowed to read the Agent or template of the Task");
    assert_eq!(explained["settings"], json!([]));
}

#[tokio::test]
async fn rights_can_be_asked_for() {
    let it = harness::start().await;
    let rules = json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["tasks"], "verbs": ["list", "create"] }]);
    let user = it.user("user", rules).await;
    it.until("the user may list", async || it.get(&it.here("/tasks"), &user).await.0 == 200).await;
    let check = |verb: &str, resource: &str| json!({ "verb": verb, "resource": resource, "namespace": it.namespace });
    let checks = json!({ "checks": [check("create", "tasks"), check("delete", "tasks"), check("list", "agents")] });
    assert_eq!(it.post(&it.path("/rights"), &user, &checks).await.1, json!({ "allowed": [true, false, false] }));
    let many = json!({ "checks": vec![check("list", "tasks"); 101] });
    assert_eq!(it.post(&it.path("/rights"), &user, &many).await.0, 422);
}
