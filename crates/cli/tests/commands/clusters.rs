//! The choice of the cluster, errors when it does not answer or refuses, and doctor.

use std::fs;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams, core::ObjectMeta};
use serde_json::{Value, json};

use crate::{check, world::World};

#[tokio::test]
async fn an_unreachable_cluster_is_reported_with_a_next_step() {
    let world = World::start().await;
    let mut none = world.command(&["get", "tasks"]);
    check!("no-cluster", world.finish(none.env_remove("KUBECONFIG")));
    check!("no-kubeconfig", world.run(&["get", "tasks", "--kubeconfig", "/does/not/exist"]));
    check!("no-context", world.run(&["get", "tasks", "--context", "nowhere"]));
    let dead = world.directory().join("dead");
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],
        // Nothing listens on the discard port.
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}]});
    fs::write(&dead, text.to_string()).unwrap();
    let dead = dead.display().to_string();
    check!("dead-cluster", world.run(&["get", "tasks", "--kubeconfig", &dead]));
    check!("doctor-dead-cluster", world.run(&["doctor", "--kubeconfig", &dead]));
}

#[tokio::test]
async fn the_platform_on_this_machine_is_found_by_itself() {
    let world = World::start().await;
    world.create("Agent", "dev", json!({}), Value::Null).await;
    let state = world.directory().join(".kubeopencode");
    fs::create_dir(&state).unwrap();
    fs::copy(world.cluster.kubeconfig_path(), state.join("kubeconfig")).unwrap();
    let args = ["get", "agents", "-n", &world.namespace, "-o", "name"];
    let found = world.finish(world.command(&args).env_remove("KUBECONFIG"));
    assert_eq!(found.stdout(), "agent.kubeopencode.io/dev\n", "{}", found.text());
    let elsewhere = world.directory().join("elsewhere");
    fs::rename(&state, &elsewhere).unwrap();
    let found = world.finish(world.command(&args).env_remove("KUBECONFIG").env("KUBEOPENCODE_STATE_DIR", &elsewhere));
    assert_eq!(found.stdout(), "agent.kubeopencode.io/dev\n", "{}", found.text());
}

#[tokio::test]
async fn a_person_without_rights_is_told_what_is_missing() {
    let world = World::start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), &world.namespace);
    let nobody = ServiceAccount {
        metadata: ObjectMeta { name: Some("nobody".into()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &nobody).await.unwrap();
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let token = accounts.create_token_request("nobody", &PostParams::default(), &request).await.unwrap();
    let text = fs::read_to_string(world.cluster.kubeconfig_path()).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    config["users"][0]["user"] = json!({"token": token.status.unwrap().token});
    config["contexts"][0]["context"]["namespace"] = world.namespace.as_str().into();
    let file = world.directory().join("nobody");
    fs::write(&file, config.to_string()).unwrap();
    let file = file.display().to_string();
    check!("forbidden", world.run(&["get", "tasks", "--kubeconfig", &file]));
    check!("doctor-forbidden", world.run(&["doctor", "--kubeconfig", &file]));
}

#[tokio::test]
async fn doctor_finds_what_is_missing() {
    let world = World::start().await;
    let key = json!({"name": "key", "key": "api-key"});
    world.create("ModelProvider", "openai", json!({"type": "openai", "apiKeySecretRef": key}), Value::Null).await;
    let missing = json!({"type": "SecretsReady", "status": "False", "reason": "SecretMissing",
        "message": "Secret 'key' does not exist", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    world.create("Agent", "dev", json!({}), json!({"ready": false, "conditions": [missing]})).await;
    check!("doctor", world.run(&["doctor"]));
    let data: Value = serde_json::from_str(&world.run(&["doctor", "-o", "json"]).stdout()).unwrap();
    let healths: Vec<_> = data["findings"].as_array().unwrap().iter().map(|one| &one["health"]).collect();
    assert!(healths.contains(&&json!("fail")) && healths.contains(&&json!("ok")), "{data}");
}
