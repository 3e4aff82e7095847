//! Services that lead to ready Pods.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;
use kubeopencode_node::ServiceForwarding;
use serde_json::json;
use testenv::{cases, runner::Case};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::{IMAGE, World};

pub const CASES: &[Case] = cases![a_service_leads_to_ready_pods_in_turn];

async fn ask(address: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

async fn a_service_leads_to_ready_pods_in_turn() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _forwarding = ServiceForwarding::start(world.client.clone());
    let service = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 8000, "targetPort": "http"}]}});
    let service: Service = serde_json::from_value(service)?;
    let service = world.api::<Service>().create(&PostParams::default(), &service).await?;
    let ip = service.spec.and_then(|spec| spec.cluster_ip).context("no address")?;
    let address = format!("{ip}:8000");
    assert!(ask(&address).await.is_err(), "nobody is there yet");
    for name in ["one", "two"] {
        let main = json!({
            "name": "main", "image": IMAGE, "command": ["/server", "serve", "$(IP):8080", name],
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
        });
        world.create_with(name, json!({"labels": {"app": "web"}}), json!({"containers": [main]})).await?;
    }
    let both = async {
        let mut answers = std::collections::BTreeSet::new();
        while answers.len() < 2 {
            if let Ok(answer) = ask(&address).await {
                answers.insert(answer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        answers
    };
    let answers = tokio::time::timeout(crate::world::LIMIT, both).await?;
    assert_eq!(answers.into_iter().collect::<Vec<_>>(), ["one", "two"]);
    for name in ["one", "two"] {
        world.delete(name).await?;
    }
    let refused = async {
        while ask(&address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::world::LIMIT, refused).await.context("it still answers")?;
    world.end().await
}
