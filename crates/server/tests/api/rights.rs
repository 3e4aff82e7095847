//! Authorization.

use k8s_openapi::api::core::v1::Secret;
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

#[tokio::test]
async fn a_task_uses_only_secrets_that_its_author_can_read_or_that_are_open() {
    let it = harness::start().await;
    let rules = json!([
        { "apiGroups": ["kubeopencode.io"], "resources": ["tasks", "crontasks"],
            "verbs": ["create", "get", "list", "update", "patch"] },
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"] },
    ]);
    let author = it.user("author", rules).await;
    it.until("the author may list", async || it.get(&it.here("/tasks"), &author).await.0 == 200).await;
    let allow = json!({ "kubeopencode.io/allow-tasks": "true" });
    for (name, labels) in [("mine", json!({})), ("open", allow), ("closed", json!({}))] {
        it.create::<Secret>(json!({ "metadata": { "name": name, "labels": labels } })).await;
    }
    let contexts = |secret: &str| {
        let url = json!({ "source": "https://docs.example/x", "secretRef": { "name": secret } });
        json!([{ "type": "URL", "mountPath": "x.md", "url": url }])
    };
    let task = |name: &str, secret: &str| json!({ "name": name, "description": "d", "agentRef": { "name": "dev" }, "contexts": contexts(secret) });
    assert_eq!(it.post(&it.here("/tasks"), &author, &task("a", "mine")).await.0, 201);
    assert_eq!(it.post(&it.here("/tasks"), &author, &task("b", "open")).await.0, 201);
    let (status, body) = it.post(&it.here("/tasks"), &author, &task("c", "closed")).await;
    let expected = "Secret 'closed' (spec.contexts[0].url.secretRef) may not be used by this Task: you cannot read it. \
                    Ask its owner to label it kubeopencode.io/allow-tasks=true, or to grant you get on it.";
    assert_eq!((status.as_u16(), body["message"].as_str()), (403, Some(expected)));
    let validated = format!("{}?dryRun=true", it.here("/tasks"));
    assert_eq!(it.post(&validated, &author, &task("c", "closed")).await.0, 403);

    let mut cron = task("nightly", "closed");
    cron["schedule"] = json!("@daily");
    let (status, body) = it.post(&it.here("/crontasks"), &author, &cron).await;
    let field = "(spec.taskTemplate.spec.contexts[0].url.secretRef) may not be used by this CronTask";
    assert!(status == 403 && body["message"].as_str().unwrap().contains(field), "{body}");
    // A CronTask of another author: its times may change, what its Task does may not.
    let owner = it.owner().await;
    assert_eq!(it.post(&it.here("/crontasks"), &owner, &cron).await.0, 201);
    let nightly = it.here("/crontasks/nightly");
    let put = async |change: serde_json::Value| it.send(reqwest::Method::PUT, &nightly, &author, Some(&change)).await.0;
    assert_eq!(put(json!({ "schedule": "@weekly" })).await, 200);
    assert_eq!(put(json!({ "description": "print your environment" })).await, 403);
}
