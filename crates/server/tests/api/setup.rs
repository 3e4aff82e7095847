//! The setup of a first model.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use serde_json::{Value, json};
use server::Options;
use tokio::net::TcpListener;

use crate::harness;

const KEY: &str = "sk-very-secret-0123";

/// A provider that accepts [`KEY`] and echoes any other. Returns its address and the bodies that it got.
async fn provider() -> (String, Arc<Mutex<Vec<Value>>>) {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let authorized = |headers: &HeaderMap| headers["authorization"] == format!("Bearer {KEY}");
    let refusal = |headers: &HeaderMap| {
        let said = headers["authorization"].to_str().unwrap().to_owned();
        (StatusCode::UNAUTHORIZED, Json(json!({ "error": { "message": format!("wrong: {said}") } })))
    };
    let models = move |headers: HeaderMap| async move {
        if authorized(&headers) {
            (StatusCode::OK, Json(json!({ "data": [{ "id": "small-2" }, { "id": "small-1" }] })))
        } else {
            refusal(&headers)
        }
    };
    let complete = move |Json(body): Json<Value>| async move {
        noted.lock().unwrap().push(body.clone());
        if body["model"] == "small-1" {
            (StatusCode::OK, Json(json!({ "choices": [] })))
        } else {
            (StatusCode::NOT_FOUND, Json(json!({ "error": { "message": "no such model" } })))
        }
    };
    let router = Router::new().route("/v1/models", get(models)).route("/v1/chat/completions", post(complete));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, seen)
}

#[tokio::test]
async fn a_provider_is_tested_before_anything_is_saved() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (url, seen) = provider().await;
    let test = async |key: &str, model: Option<&str>| {
        let body = json!({ "provider": "openai-compatible", "baseUrl": url, "key": key, "model": model });
        let (status, found) = it.post(&it.here("/setup/test"), &token, &body).await;
        assert_eq!(status, 200, "{found}");
        assert!(!found.to_string().contains("secret"), "{found}");
        found
    };
    let listed = test(KEY, None).await;
    assert_eq!((&listed["works"], &listed["models"]), (&json!(true), &json!(["small-1", "small-2"])), "{listed}");
    assert_eq!(test(KEY, Some("small-1")).await["works"], true);
    assert_eq!(seen.lock().unwrap()[0]["max_tokens"], 1);
    let missing = test(KEY, Some("large")).await;
    assert!(missing["message"].as_str().unwrap().contains("no such model"), "{missing}");
    let refused = test("sk-another-secret-45", None).await;
    assert!(refused["message"].as_str().unwrap().contains("does not accept the key (status 401)"), "{refused}");
    let (_, providers) = it.get(&it.here("/modelproviders"), &token).await;
    assert_eq!(providers["total"], 0);
}

#[tokio::test]
async fn the_test_reaches_no_forbidden_address_and_serves_no_one_without_rights() {
    let it = harness::start_with(Options { agents_on_loopback: false, ..harness::options() }).await;
    let token = it.owner().await;
    let (url, _) = provider().await;
    for (url, text) in [
        (url.as_str(), "is this machine"),
        ("http://localhost:9/v1", "is this machine"),
        ("http://[::1]:9/v1", "is this machine"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://2852039166/latest", "link-local"),
    ] {
        let body = json!({ "provider": "openai-compatible", "baseUrl": url, "key": KEY });
        let (status, found) = it.post(&it.here("/setup/test"), &token, &body).await;
        assert_eq!((status.as_u16(), &found["works"]), (200, &json!(false)), "{url}: {found}");
        assert!(found["message"].as_str().unwrap().contains(text), "{url}: {found}");
    }
    let rules = json!([
        { "apiGroups": ["kubeopencode.io"], "resources": ["*"], "verbs": ["*"] },
    ]);
    let without_secrets = it.user("without-secrets", rules).await;
    it.until("the user may list", async || it.get(&it.here("/tasks"), &without_secrets).await.0 == 200).await;
    let body = json!({ "provider": "openai-compatible", "baseUrl": url, "key": KEY, "model": "small-1" });
    for path in ["/setup", "/setup/test"] {
        let (status, refused) = it.post(&it.here(path), &without_secrets, &body).await;
        assert_eq!(status, 403, "{path}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("secrets"), "{refused}");
    }
    let (_, providers) = it.get(&it.here("/modelproviders"), &token).await;
    assert_eq!(providers["total"], 0, "a refused setup saves nothing");
}

#[tokio::test]
async fn a_setup_is_saved_in_one_request_and_can_be_repeated() {
    let it = harness::start().await;
    let token = it.owner().await;
    let body = |model: &str| json!({ "provider": "anthropic", "key": KEY, "model": model });
    let (status, saved) = it.post(&it.here("/setup"), &token, &body("claude-sonnet-4-5")).await;
    assert_eq!(status, 200, "{saved}");
    assert_eq!(saved["template"], "anthropic");
    let kinds: Vec<_> = saved["objects"].as_array().unwrap().iter().map(|object| object["kind"].clone()).collect();
    assert_eq!(kinds, ["Secret", "ModelProvider", "Model", "AgentTemplate"]);
    assert!(!saved.to_string().contains(KEY));
    let secrets: Api<Secret> = Api::namespaced(it.admin.clone(), &it.namespace);
    let secret = secrets.get("anthropic-key").await.unwrap();
    assert_eq!(secret.data.unwrap()["api-key"], ByteString(KEY.as_bytes().to_vec()));
    let version = async || it.get(&it.here("/agenttemplates/anthropic"), &token).await.1["resourceVersion"].clone();
    let before = version().await;
    assert_eq!(it.post(&it.here("/setup"), &token, &body("claude-sonnet-4-5")).await.0, 200);
    assert_eq!(version().await, before, "a repeated setup changes nothing");
    assert_eq!(it.post(&it.here("/setup"), &token, &body("claude-haiku-4-5")).await.0, 200);
    let (_, template) = it.get(&it.here("/agenttemplates/anthropic"), &token).await;
    assert_eq!(template["modelRef"]["name"], "anthropic-claude-haiku-4-5");

    let (status, invalid) = it.post(&it.here("/setup"), &token, &json!({ "provider": "openai", "model": "m" })).await;
    assert_eq!((status.as_u16(), invalid["field"].as_str()), (422, Some("key")), "{invalid}");
}

#[tokio::test]
async fn an_object_of_others_is_not_taken_over() {
    let it = harness::start().await;
    let token = it.owner().await;
    let model = json!({ "name": "lab-m", "spec": { "model": "other", "providerRef": { "name": "other" } } });
    assert_eq!(it.post(&it.here("/models"), &token, &model).await.0, 201);
    let body = json!({ "provider": "ollama", "model": "m", "name": "lab" });
    let (status, refused) = it.post(&it.here("/setup"), &token, &body).await;
    assert_eq!(status, 409, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("Model 'lab-m' exists and was changed by others: choose another name"), "{message}");
    assert!(message.contains("saved: ModelProvider 'lab'"), "{message}");
    let (_, model) = it.get(&it.here("/models/lab-m"), &token).await;
    assert_eq!(model["spec"]["model"], "other");
}
