//! Pods on a real node. Needs root.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testenv::Cluster;
use testenv::image::{Image, archive};

/// A namespace of the shared node.
struct Bench {
    cluster: &'static Cluster,
    namespace: String,
}

impl Bench {
    async fn new() -> Self {
        let cluster = testenv::shared_node().await.unwrap();
        Self { cluster, namespace: cluster.namespace().await.unwrap() }
    }

    async fn run(&self, name: &str, image: &str, script: &str) {
        let pods = Api::<Pod>::namespaced(self.cluster.client().await.unwrap(), &self.namespace);
        let command: Value = if script.is_empty() { Value::Null } else { json!(["sh", "-c", script]) };
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": image, "command": command}],
            },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn reaches(&self, name: &str, phase: &str) {
        let pods = Api::<Pod>::namespaced(self.cluster.client().await.unwrap(), &self.namespace);
        let started = Instant::now();
        loop {
            let status = pods.get(name).await.unwrap().status.unwrap();
            if status.phase.as_deref() == Some(phase) {
                break;
            }
            let ended = ["Succeeded", "Failed"].contains(&status.phase.as_deref().unwrap_or_default());
            let late = started.elapsed() > Duration::from_mins(1);
            assert!(!ended && !late, "{name} is not {phase}: {}", self.kubectl(&["describe", "pod", name]));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let output = self.cluster.kubectl_command(["--namespace", &self.namespace]).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

const BUSYBOX: &str = "testenv.local/busybox:1";

#[tokio::test]
async fn a_pod_runs_to_its_end_and_its_log_can_be_read() {
    let bench = Bench::new().await;
    bench.run("hello", BUSYBOX, "echo hello from a Pod").await;
    bench.reaches("hello", "Succeeded").await;
    assert_eq!(bench.kubectl(&["logs", "hello"]), "hello from a Pod\n");
}

#[tokio::test]
async fn a_command_can_be_run_in_a_pod() {
    let bench = Bench::new().await;
    bench.run("box", BUSYBOX, "sleep 1000").await;
    bench.reaches("box", "Running").await;
    assert_eq!(bench.kubectl(&["exec", "box", "--", "echo", "hello"]), "hello\n");
}

#[tokio::test]
async fn a_service_has_a_name_and_an_address_that_lead_to_its_pod() {
    let bench = Bench::new().await;
    bench.run("web", BUSYBOX, "echo it works > /tmp/index.html; httpd -f -p 8080 -h /tmp").await;
    let services = Api::<Service>::namespaced(bench.cluster.client().await.unwrap(), &bench.namespace);
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let service = services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let address = service.spec.unwrap().cluster_ip.unwrap();
    bench.reaches("web", "Running").await;
    let script = format!(
        "until printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {address} 80; do sleep 0.2; done; nslookup web.{}.svc.cluster.local",
        bench.namespace
    );
    bench.run("visitor", BUSYBOX, &script).await;
    bench.reaches("visitor", "Succeeded").await;
    let log = bench.kubectl(&["logs", "visitor"]);
    assert!(log.contains("it works"), "{log}");
    assert!(log.contains(&format!("Address: {address}")), "{log}");
}

#[tokio::test]
async fn a_pod_talks_to_the_api_but_not_to_the_world() {
    let bench = Bench::new().await;
    bench.run("edge", BUSYBOX, "nc -w 5 10.96.0.1 443 </dev/null && ! nc -w 5 203.0.113.1 80 </dev/null").await;
    bench.reaches("edge", "Succeeded").await;
}

#[tokio::test]
async fn an_image_can_be_made_from_a_directory() {
    let bench = Bench::new().await;
    let work = tempfile::tempdir().unwrap();
    let root = work.path().join("root");
    fs::create_dir_all(root.join("bin")).unwrap();
    let busybox = testenv::cache().unwrap().join("runtime/bin/busybox");
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    let image = Image {
        name: "testenv.local/greeter:1",
        entrypoint: &["/bin/busybox", "sh", "-c", "echo $GREETING; /bin/busybox id -u"],
        environment: &["GREETING=good day"],
        user: "1000",
    };
    archive(&image, &root, &work.path().join("greeter.tar")).unwrap();
    bench.cluster.load_image(&work.path().join("greeter.tar")).await.unwrap();
    bench.run("greeter", image.name, "").await;
    bench.reaches("greeter", "Succeeded").await;
    assert_eq!(bench.kubectl(&["logs", "greeter"]), "good day\n1000\n");
}
