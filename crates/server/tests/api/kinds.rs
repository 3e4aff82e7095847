//! Every kind in JSON and YAML.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness;

#[tokio::test]
async fn every_kind_is_written_and_read_as_yaml_and_json() {
    let it = harness::start().await;
    let token = it.owner().await;
    let kinds: [(&str, &str, Value); 12] = [
        ("Task", "tasks", json!({ "description": "x", "agentRef": { "name": "a" } })),
        (
            "CronTask",
            "crontasks",
            json!({ "schedule": "@daily", "taskTemplate": { "spec": { "description": "x", "agentRef": { "name": "a" } } } }),
        ),
        ("Agent", "agents", json!({ "profile": "p" })),
        ("AgentTemplate", "agenttemplates", json!({ "workspaceDir": "/workspace", "serviceAccountName": "default" })),
        ("Registry", "registries", json!({ "images": [{ "name": "box", "image": "example.com/box:1" }] })),
        (
            "ModelProvider",
            "modelproviders",
            json!({ "type": "openai", "apiKeySecretRef": { "name": "key", "key": "k" } }),
        ),
        ("Model", "models", json!({ "model": "m", "providerRef": { "name": "p" } })),
        ("Instruction", "instructions", json!({ "text": "be kind" })),
        ("RemoteMCPServer", "remotemcpservers", json!({ "url": "http://example.com/mcp" })),
        ("MCPServer", "mcpservers", json!({ "transport": "http", "image": "example.com/mcp:1", "port": 8080 })),
        (
            "AgentTool",
            "agenttools",
            json!({ "openApi": { "url": "http://example.com", "openApiSchema": { "endpointPath": "/openapi.json" } } }),
        ),
        (
            "AgentWorkflow",
            "agentworkflows",
            json!({ "steps": [{ "name": "one", "task": { "description": "x", "agentRef": { "name": "a" } } }] }),
        ),
    ];
    for (kind, plural, spec) in kinds {
        let object = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": kind, "metadata": { "name": "it", "labels": { "a": "b" } }, "spec": spec });
        let yaml = serde_saphyr::to_string(&object).unwrap();
        let path = it.here(&format!("/{plural}"));
        let created = it.http.post(&path).bearer_auth(&token).header("content-type", "application/yaml").body(yaml);
        let (status, body) = harness::answer(created.send().await.unwrap()).await;
        assert_eq!(status, 201, "{kind}: {body}");
        assert_eq!((body["name"].as_str(), body["labels"]["a"].as_str()), (Some("it"), Some("b")), "{kind}");

        let one = format!("{path}/it");
        let (status, read) = it.get(&one, &token).await;
        assert_eq!((status.as_u16(), read["namespace"].as_str()), (200, Some(it.namespace.as_str())), "{kind}");
        let response = it.http.get(format!("{one}?output=yaml")).bearer_auth(&token).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/yaml");
        let text = response.text().await.unwrap();
        assert!(!text.contains("managedFields"), "{kind}");
        let mut whole: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(whole["kind"], kind);

        whole["metadata"]["labels"]["a"] = "c".into();
        let put = it.http.put(&one).bearer_auth(&token).header("content-type", "application/yaml");
        let (status, changed) =
            harness::answer(put.body(serde_saphyr::to_string(&whole).unwrap()).send().await.unwrap()).await;
        assert_eq!((status.as_u16(), changed["labels"]["a"].as_str()), (200, Some("c")), "{kind}: {changed}");

        it.until_listed(&token, &format!("/{plural}?labelSelector=a%3Dc"), 1).await;
        let (_, list) = it.get(&path, &token).await;
        assert!(
            list.as_object().unwrap().values().any(|value| value.as_array().is_some_and(|all| all[0]["name"] == "it"))
        );
        assert_eq!(it.send(Method::DELETE, &one, &token, None).await.0, 204, "{kind}");
        assert_eq!(it.get(&one, &token).await.0, 404, "{kind}");
    }
}

#[tokio::test]
async fn a_kind_without_a_short_form_takes_name_and_spec() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (status, body) = it
        .post(
            &it.here("/models"),
            &token,
            &json!({ "name": "m", "spec": { "model": "x", "providerRef": { "name": "p" } } }),
        )
        .await;
    assert_eq!(
        (status.as_u16(), body["kind"].as_str(), body["spec"]["model"].as_str()),
        (201, Some("Model"), Some("x"))
    );
    let (status, body) = it
        .post(&it.here("/models"), &token, &json!({ "name": "n", "spec": { "model": "x", "providerReff": 1 } }))
        .await;
    assert_eq!(status, 422, "{body}");
    assert_eq!(it.post(&it.here("/models"), &token, &json!({ "spec": {} })).await.1["field"], "name");
    assert_eq!(it.send(Method::PUT, &it.here("/models/m"), &token, Some(&json!({ "spec": {} }))).await.0, 422);
}

#[tokio::test]
async fn the_configuration_is_created_replaced_and_read() {
    let it = harness::start().await;
    let options = server::Options { anonymous: true, anonymous_write: true, ..harness::options() };
    let it = {
        drop(it);
        harness::start_with(options).await
    };
    let config = |seconds: i64| json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "KubeOpenCodeConfig", "metadata": { "name": "cluster" }, "spec": { "cleanup": { "ttlSecondsAfterFinished": seconds } } });
    let put = async |seconds| {
        harness::answer(it.http.put(it.path("/config")).json(&config(seconds)).send().await.unwrap()).await
    };
    assert_eq!(put(60).await.0, 200);
    assert_eq!(put(90).await.1["cleanup"]["ttlSecondsAfterFinished"], 90);
    let (status, body) = put(-1).await;
    assert_eq!((status.as_u16(), body["field"].as_str()), (422, Some("spec.cleanup.ttlSecondsAfterFinished")));
    let read = it.http.get(it.path("/config?output=yaml")).send().await.unwrap().text().await.unwrap();
    assert!(read.contains("ttlSecondsAfterFinished: 90"), "{read}");
    let mut other = config(1);
    other["metadata"]["name"] = "other".into();
    let refused = it.http.put(it.path("/config")).json(&other).send().await.unwrap();
    assert_eq!(harness::answer(refused).await.1["field"], "metadata.name");
    let request =
        http::Request::delete("/apis/kubeopencode.io/v1alpha1/kubeopencodeconfigs/cluster").body(Vec::new()).unwrap();
    it.admin.request::<Value>(request).await.unwrap();
    assert_eq!(it.http.get(it.path("/config")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn the_description_names_every_schema_that_it_uses() {
    let it = harness::start().await;
    let served: Value = it.http.get(it.path("/openapi.json")).send().await.unwrap().json().await.unwrap();
    let written: Value = serde_json::from_str(&server::openapi()).unwrap();
    assert_eq!(served, written);
    assert_eq!(served["openapi"], "3.1.0");
    let mut wanted = Vec::new();
    references(&served, &mut wanted);
    assert!(wanted.len() > 100);
    for reference in wanted {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(served.pointer(pointer).is_some(), "{reference}");
    }
    let paths = served["paths"].as_object().unwrap();
    for path in [
        "/api/v1/tasks",
        "/api/v1/namespaces/{namespace}/tasks/{name}/logs",
        "/api/v1/namespaces/{namespace}/agents/{name}/share",
        "/api/v1/namespaces/{namespace}/models/{name}",
        "/api/v1/events/stream",
        "/api/v1/summary",
        "/api/v1/graph",
        "/api/v1/login",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(all) => all.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}
