//! Secrets: values can be written and are never returned.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness;

const VALUE: &str = "hunter2-hunter2";

#[tokio::test]
async fn a_secret_is_written_and_only_its_keys_are_shown() {
    let it = harness::start().await;
    let token = it.owner().await;
    let new = json!({ "name": "key", "labels": { "team": "a" }, "data": { "api-key": VALUE, "old": VALUE } });
    let (status, created) = it.post(&it.here("/secrets"), &token, &new).await;
    assert_eq!((status.as_u16(), &created["keys"]), (201, &json!(["api-key", "old"])), "{created}");
    let one = it.here("/secrets/key");
    let change = json!({ "data": { "other": VALUE }, "remove": ["old"] });
    let (status, changed) = it.send(Method::PUT, &one, &token, Some(&change)).await;
    assert_eq!((status.as_u16(), &changed["keys"]), (200, &json!(["api-key", "other"])), "{changed}");
    let (_, read) = it.get(&one, &token).await;
    assert_eq!((&read["labels"], &read["type"]), (&json!({ "team": "a" }), &json!("Opaque")));
    let (_, list) = it.get(&it.here("/secrets"), &token).await;
    assert_eq!((&list["total"], &list["items"][0]["name"]), (&json!(1), &json!("key")), "{list}");

    let secrets: Api<Secret> = Api::namespaced(it.admin.clone(), &it.namespace);
    let data = secrets.get("key").await.unwrap().data.unwrap();
    assert_eq!(data["other"], ByteString(VALUE.as_bytes().to_vec()));
    let encoded = "aHVudGVyMi1odW50ZXIy";
    for answer in [created, changed, read, list] {
        assert!(!answer.to_string().contains("hunter2") && !answer.to_string().contains(encoded), "{answer}");
    }

    let (status, again) = it.post(&it.here("/secrets"), &token, &new).await;
    assert_eq!((status.as_u16(), again["error"].as_str()), (409, Some("AlreadyExists")));
    let (status, invalid) =
        it.post(&it.here("/secrets"), &token, &json!({ "name": "Not A Name", "data": { "k": VALUE } })).await;
    assert_eq!((status.as_u16(), invalid["field"].as_str()), (422, Some("name")), "{invalid}");
    let (status, invalid) =
        it.post(&it.here("/secrets"), &token, &json!({ "name": "other", "data": { "no key": VALUE } })).await;
    assert_eq!(status, 422, "{invalid}");
    assert!(!invalid.to_string().contains("hunter2") && !invalid.to_string().contains(encoded), "{invalid}");
    assert_eq!(it.send(Method::DELETE, &one, &token, None).await.0, 204);
    assert_eq!(it.get(&one, &token).await.0, 404);
}

#[tokio::test]
async fn secrets_need_the_rights_of_the_caller() {
    let it = harness::start().await;
    let rules = json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["*"], "verbs": ["*"] }]);
    let user = it.user("user", rules).await;
    it.until("the user may list", async || it.get(&it.here("/tasks"), &user).await.0 == 200).await;
    let new: Value = json!({ "name": "key", "data": { "k": VALUE } });
    let one = it.here("/secrets/key");
    let change = json!({ "data": { "k": VALUE } });
    for (method, url, body) in [
        (Method::GET, it.here("/secrets"), None),
        (Method::POST, it.here("/secrets"), Some(&new)),
        (Method::GET, one.clone(), None),
        (Method::PUT, one.clone(), Some(&change)),
        (Method::DELETE, one.clone(), None),
    ] {
        let (status, refused) = it.send(method.clone(), &url, &user, body).await;
        assert_eq!(status, 403, "{method} {url}: {refused}");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}
