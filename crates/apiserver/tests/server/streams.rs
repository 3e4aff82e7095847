//! Logs, exec and port-forward, passed on to a node that runs nothing but knows its lines.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, PostParams};
use kube::{Api, Client};
use kubeopencode_apiserver::{Attach, Exec, Exit, Kubelet, KubeletError, LogRequest, PortStream, Streams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{LIMIT, World, in_process};

/// A node that answers from memory: `cat` repeats its input, `fail` ends with 3, ports echo.
struct Parrot;

impl Kubelet for Parrot {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<BoxStream<'static, bytes::Bytes>, KubeletError>> {
        let text = format!("{} of {} tail {:?}\n", request.container, request.pod, request.tail_lines);
        Box::pin(async move { Ok(stream::iter([bytes::Bytes::from(text)]).boxed()) })
    }

    fn exec(&self, request: Exec, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>> {
        Box::pin(async move {
            let Streams { stdin, stdout, stderr, sizes: _ } = streams;
            match request.command[0].as_str() {
                "cat" => {
                    let mut text = Vec::new();
                    stdin.unwrap().read_to_end(&mut text).await.unwrap();
                    stdout.unwrap().write_all(&text).await.unwrap();
                    Ok(Exit(0))
                }
                "fail" => {
                    stderr.unwrap().write_all(b"no\n").await.unwrap();
                    Ok(Exit(3))
                }
                other => Err(KubeletError::Failed(format!("{other} is not installed"))),
            }
        })
    }

    fn attach(&self, request: Attach, streams: Streams) -> BoxFuture<'_, Result<Exit, KubeletError>> {
        Box::pin(async move {
            let text = format!("attached to {}\n", request.container);
            streams.stdout.unwrap().write_all(text.as_bytes()).await.unwrap();
            Ok(Exit(0))
        })
    }

    fn port_forward(&self, _: &str, _: &str, port: u16) -> BoxFuture<'_, Result<Box<dyn PortStream>, KubeletError>> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(far);
                writer.write_all(format!("port {port}: ").as_bytes()).await.unwrap();
                tokio::io::copy(&mut reader, &mut writer).await
            });
            Ok(Box::new(near) as _)
        })
    }
}

/// A Pod with one container that is on a node.
async fn start_pod(client: &Client) -> Api<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
    let request = http::Request::post("/api/v1/namespaces/default/pods/p/binding");
    client.request::<Value>(request.body(binding.into_bytes()).unwrap()).await.unwrap();
    // kubectl only talks to containers that run.
    let status = json!({"status": {"phase": "Running", "containerStatuses": [
        {"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {}}},
    ]}});
    let change = kube::api::Patch::Merge(status);
    pods.patch_status("p", &kube::api::PatchParams::default(), &change).await.unwrap();
    pods
}

#[tokio::test]
async fn kubectl_reads_logs_and_runs_commands() {
    let world = World::start().await;
    start_pod(&world.server.client()).await;
    let without = world.kubectl(&["logs", "p"]).await.unwrap_err();
    assert!(without.contains("no node is attached"), "{without}");
    world.server.attach_node(Arc::new(Parrot));
    assert_eq!(world.kubectl(&["logs", "p", "--tail", "5"]).await.unwrap(), "c of p tail Some(5)");
    let (fail, dance, attach) = (["exec", "p", "--", "fail"], ["exec", "p", "--", "dance"], ["attach", "p"]);
    for (failed, unknown, attached) in [
        (world.kubectl(&fail).await, world.kubectl(&dance).await, world.kubectl(&attach).await),
        (world.older_kubectl(&fail).await, world.older_kubectl(&dance).await, world.older_kubectl(&attach).await),
    ] {
        assert_eq!(failed.unwrap_err(), "no\ncommand terminated with exit code 3");
        let unknown = unknown.unwrap_err();
        assert!(unknown.contains("dance is not installed"), "{unknown}");
        let attached = attached.unwrap();
        assert!(attached.contains("attached to c"), "{attached}");
    }
    let wrong = world.kubectl(&["logs", "p", "-c", "x"]).await.unwrap_err();
    assert!(wrong.contains("container x is not valid for pod p"), "{wrong}");
}

#[tokio::test]
async fn input_reaches_a_command_in_process_and_over_tls() {
    let world = World::start().await;
    world.server.attach_node(Arc::new(Parrot));
    start_pod(&world.server.client()).await;
    for client in [world.server.client(), world.remote().await] {
        let pods: Api<Pod> = Api::namespaced(client, "default");
        let params = AttachParams::default().stdin(true).stderr(false);
        let mut process = pods.exec("p", vec!["cat"], &params).await.unwrap();
        let mut stdin = process.stdin().unwrap();
        stdin.write_all(b"hello").await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
        let mut text = String::new();
        let mut stdout = process.stdout().unwrap();
        tokio::time::timeout(LIMIT, stdout.read_to_string(&mut text)).await.expect("no answer").unwrap();
        assert_eq!(text, "hello");
        let status = process.take_status().unwrap().await.unwrap();
        assert_eq!(status.status.as_deref(), Some("Success"));
    }
}

#[tokio::test]
async fn a_port_is_forwarded() {
    let (server, client) = in_process().await;
    server.attach_node(Arc::new(Parrot));
    let pods = start_pod(&client).await;
    let mut forwarder = pods.portforward("p", &[8080]).await.unwrap();
    let mut port = forwarder.take_stream(8080).unwrap();
    port.write_all(b"ping").await.unwrap();
    let mut text = [0; 15];
    tokio::time::timeout(LIMIT, port.read_exact(&mut text)).await.expect("no answer").unwrap();
    assert_eq!(&text, b"port 8080: ping");
}

#[tokio::test]
async fn kubectl_forwards_a_port_for_several_connections() {
    let world = World::start().await;
    world.server.attach_node(Arc::new(Parrot));
    start_pod(&world.server.client()).await;
    let kubectl = testenv::Program::Kubectl.obtain().unwrap();
    let mut child = tokio::process::Command::new(kubectl)
        .args(["port-forward", "p", ":8080", "--kubeconfig"])
        .arg(&world.kubeconfig)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    // Forwarding from 127.0.0.1:40001 -> 8080
    let line = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("nothing is forwarded").unwrap().unwrap();
    let local: u16 = line.split([':', ' ']).find_map(|word| word.parse().ok()).unwrap();
    let connect = || tokio::net::TcpStream::connect(("127.0.0.1", local));
    let mut both = [connect().await.unwrap(), connect().await.unwrap()];
    for (connection, word) in both.iter_mut().zip(["ping", "pong"]) {
        connection.write_all(word.as_bytes()).await.unwrap();
    }
    for (connection, word) in both.iter_mut().zip(["ping", "pong"]) {
        let mut text = [0; 15];
        tokio::time::timeout(LIMIT, connection.read_exact(&mut text)).await.expect("no answer").unwrap();
        assert_eq!(&text[..], format!("port 8080: {word}").as_bytes());
    }
}
