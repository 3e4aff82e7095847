//! Share links.

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::harness::{self, Harness};

/// The token of a test: all tests share one cluster.
fn link(it: &Harness) -> String {
    format!("token-of-{}", it.namespace)
}

/// A shared Agent that is ready, with the Secret that the controller would create.
async fn shared(it: &Harness, token: &str, request: Value) -> String {
    let (_, agent) = it.post(&it.here("/agents"), token, &json!({ "name": "dev", "profile": "helps" })).await;
    it.set_status("agents", "dev", json!({ "ready": true, "share": { "active": true } })).await;
    assert_eq!(it.post(&it.here("/agents/dev/share"), token, &request).await.0, 200);
    let uid = agent["uid"].as_str().unwrap().to_owned();
    it.create::<Secret>(secret("dev-share", &uid, &link(it))).await;
    it.until("the link is known", async || {
        let (_, list) = it.get(&it.here("/agents?ready=true"), token).await;
        list["agents"][0]["share"]["enabled"] == true
    })
    .await;
    uid
}

fn secret(name: &str, uid: &str, token: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": { "kubeopencode.io/share-token": "true" },
            "annotations": { "kubeopencode.io/agent-name": "dev" },
            "ownerReferences": [{ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "name": "dev", "uid": uid, "controller": true }],
        },
        "stringData": { "token": token },
    })
}

async fn info(it: &Harness, token: &str) -> (u16, Value) {
    let response = it.http.get(format!("{}/s/{token}/info", it.url)).send().await.unwrap();
    let (status, body) = harness::answer(response).await;
    (status.as_u16(), body)
}

#[tokio::test]
async fn a_link_opens_its_own_agent_until_it_is_taken_back() {
    let it = harness::start().await;
    let token = it.owner().await;
    shared(&it, &token, json!({ "expiresIn": "24h" })).await;
    let link = link(&it);
    let (status, body) = info(&it, &link).await;
    assert_eq!((status, body["agentName"].as_str(), body["profile"].as_str()), (200, Some("dev"), Some("helps")));
    assert!(body["expiresAt"].is_string());
    assert_eq!(info(&it, &link.replace("token", "tokem")).await.0, 404);
    assert_eq!(it.http.get(format!("{}/s/{link}/terminal", it.url)).send().await.unwrap().status(), 400);
    assert_eq!(it.http.get(format!("{}/s/{link}/", it.url)).send().await.unwrap().status(), 200);
    let (_, share) = it.get(&it.here("/agents/dev/share"), &token).await;
    assert_eq!(
        (share["token"].as_str(), share["path"].as_str()),
        (Some(link.as_str()), Some(format!("/s/{link}").as_str()))
    );

    let reader = it
        .user(
            "reader",
            json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["agents"], "verbs": ["get", "list"] }]),
        )
        .await;
    it.until("the reader may read", async || it.get(&it.here("/agents/dev"), &reader).await.0 == 200).await;
    let (status, share) = it.get(&it.here("/agents/dev/share"), &reader).await;
    assert_eq!((status.as_u16(), share.get("token"), share["enabled"].as_bool()), (200, None, Some(true)));
    assert!(!it.get(&it.here("/agents/dev"), &reader).await.1.to_string().contains(&link));

    assert_eq!(it.send(reqwest::Method::DELETE, &it.here("/agents/dev/share"), &token, None).await.0, 204);
    it.until("the link is closed", async || info(&it, &link).await.0 == 404).await;
}

#[tokio::test]
async fn a_forged_secret_opens_nothing() {
    let it = harness::start().await;
    let token = it.owner().await;
    let uid = shared(&it, &token, json!({})).await;
    // Another name, another namespace, another owner: none of them is the Agent's own Secret.
    it.create::<Secret>(secret("forged", &uid, "forged-token-forged-token-1")).await;
    let other = harness::start().await;
    other.create::<Secret>(secret("dev-share", &uid, "forged-token-forged-token-2")).await;
    for forged in ["forged-token-forged-token-1", "forged-token-forged-token-2", "", "..%2f"] {
        assert_eq!(info(&it, forged).await.0, 404, "{forged}");
    }
    let third = harness::start().await;
    let owner = third.owner().await;
    assert_eq!(third.post(&third.here("/agents"), &owner, &json!({ "name": "dev" })).await.0, 201);
    third.set_status("agents", "dev", json!({ "ready": true })).await;
    assert_eq!(third.post(&third.here("/agents/dev/share"), &owner, &json!({})).await.0, 200);
    third.create::<Secret>(secret("dev-share", "not-its-uid", "forged-token-forged-token-3")).await;
    third
        .until("it is shared", async || {
            third.get(&third.here("/agents?ready=true"), &owner).await.1["agents"][0]["share"]["enabled"] == true
        })
        .await;
    assert_eq!(info(&third, "forged-token-forged-token-3").await.0, 404);
}

#[tokio::test]
async fn an_address_cannot_be_made_up() {
    let it = harness::start().await;
    let token = it.owner().await;
    shared(&it, &token, json!({ "allowedIPs": ["10.9.9.9/32"] })).await;
    let closed = link(&it);
    assert_eq!(info(&it, &closed).await.0, 403);
    let claim = it.http.get(format!("{}/s/{closed}/info", it.url)).header("x-forwarded-for", "10.9.9.9");
    assert_eq!(claim.send().await.unwrap().status(), 403);
    let (status, body) =
        it.post(&it.here("/agents/dev/share"), &token, &json!({ "allowedIPs": ["10.0.0.0/99"] })).await;
    assert_eq!((status.as_u16(), body["field"].as_str()), (422, Some("allowedIPs[0]")));
    assert_eq!(
        it.post(&it.here("/agents/dev/share"), &token, &json!({ "expiresIn": "soon" })).await.1["field"],
        "expiresIn"
    );

    let trusted = server::Options { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..harness::options() };
    let behind_proxy = harness::start_with(trusted).await;
    let token = behind_proxy.owner().await;
    shared(&behind_proxy, &token, json!({ "allowedIPs": ["10.9.9.9/32"] })).await;
    let open = link(&behind_proxy);
    let claim = |from: &str| {
        behind_proxy.http.get(format!("{}/s/{open}/info", behind_proxy.url)).header("x-forwarded-for", from.to_owned())
    };
    assert_eq!(claim("10.9.9.9").send().await.unwrap().status(), 200);
    assert_eq!(claim("10.9.9.9, 192.0.2.1").send().await.unwrap().status(), 403);
}
