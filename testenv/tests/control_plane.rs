//! A control plane, as the tests of the other crates use it.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use testenv::Options;

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "testenv.local/busybox:1"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn objects_can_be_created_and_read() {
    let cluster = testenv::shared().await.unwrap();
    let namespace = cluster.namespace().await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(cluster.client().await.unwrap(), &namespace);
    let map = serde_json::from_value(json!({"metadata": {"name": "greeting"}, "data": {"hello": "world"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(maps.get("greeting").await.unwrap().data.unwrap()["hello"], "world");
}

#[tokio::test]
async fn kubectl_talks_to_the_cluster() {
    let cluster = testenv::shared().await.unwrap();
    let namespace = cluster.namespace().await.unwrap();
    let kubectl = |args: &[&str]| {
        let output = cluster.kubectl_command(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(kubectl(&["version"]).contains("Server Version: v1."));
    assert!(kubectl(&["get", "namespaces"]).contains(&namespace));
}

#[tokio::test]
async fn a_second_runtime_gets_a_client_that_works() {
    let cluster = testenv::shared().await.unwrap();
    let version = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { cluster.client().await.unwrap().apiserver_version().await.unwrap() })
    });
    assert_eq!(version.join().unwrap().major, "1");
}

#[tokio::test]
async fn controllers_act_on_what_is_created() {
    let cluster = testenv::shared().await.unwrap();
    let namespace = cluster.namespace().await.unwrap();
    let client = cluster.client().await.unwrap();
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("web").spec},
        },
    });
    let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace);
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let pods = Api::<Pod>::namespaced(client, &namespace);
    let started = Instant::now();
    while pods.list(&ListParams::default()).await.unwrap().items.len() < 2 {
        assert!(started.elapsed() < Duration::from_secs(30), "no Pods for the Deployment");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn without_controllers_a_test_can_play_their_part() {
    let cluster = testenv::start(Options::api_only()).await.unwrap();
    let namespace = cluster.namespace().await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), &namespace);
    let mut pod = pods.create(&PostParams::default(), &pod("actor")).await.unwrap();
    pod.status.get_or_insert_default().phase = Some("Running".to_owned());
    pods.replace_status("actor", &PostParams::default(), &pod).await.unwrap();
    assert_eq!(pods.get("actor").await.unwrap().status.unwrap().phase.unwrap(), "Running");
}

#[tokio::test]
async fn a_cluster_that_is_dropped_leaves_nothing() {
    let cluster = testenv::start(Options::api_only()).await.unwrap();
    let dir = cluster.dir().unwrap().to_owned();
    assert!(dir.join("kube-apiserver.log").exists());
    drop(cluster);
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_flag_that_the_api_server_refuses_is_an_error_with_its_log() {
    let apiserver_flags = vec!["--no-such-flag".to_owned()];
    let error = testenv::start(Options { apiserver_flags, ..Options::api_only() }).await.unwrap_err().to_string();
    assert!(error.starts_with("kube-apiserver ended, exit status: 1"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}

#[tokio::test]
async fn a_port_that_stays_taken_is_given_up_on() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // Overrides the free port that each attempt would find.
    let apiserver_flags = vec![format!("--secure-port={}", taken.local_addr().unwrap().port())];
    let error = testenv::start(Options { apiserver_flags, ..Options::api_only() }).await.unwrap_err().to_string();
    assert!(error.contains("bind: address already in use"), "{error}");
}

#[test]
fn starting_can_be_left_to_another_task() {
    fn is_send<T: Send>(_: T) {}
    is_send(testenv::start(Options::default()));
    is_send(testenv::shared());
}
