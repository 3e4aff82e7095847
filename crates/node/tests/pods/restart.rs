//! The platform ends, regularly or by a kill, and starts again.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use kubeopencode_node::{Engine, Node, NodeOptions};
use serde_json::json;
use testenv::{cases, runner::Case};

use crate::world::{self, LIMIT, World, container, exit_code, last_exit_code, once, runs, sh, soon};

pub const CASES: &[Case] =
    cases![nothing_outlives_a_node_that_is_killed, a_pod_runs_at_most_once_across_a_kill, a_shutdown_ends_everything];

/// A node in a process of its own, killed when this is dropped.
pub struct Host {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Host {
    pub async fn start(name: &str, root: &Path, adjust: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        let config = world::cluster().await?.kubeconfig_path();
        // The user of the node may not look into the directory of the cluster.
        let readable =
            tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644)).tempfile()?;
        std::fs::copy(config, readable.path())?;
        let mut command = Command::new(std::env::current_exe()?);
        let network = world::network().0.to_string();
        command.arg("host-a-node").arg(readable.path()).args([name]).arg(root).arg(network);
        adjust(command.stdout(Stdio::piped()));
        let mut child = command.spawn()?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (sink, stdout) = (Arc::clone(&lines), child.stdout.take());
        std::thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        let host = Self { child, lines };
        wait_for_line(&host, "isolation").await?;
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub async fn wait_for_line(host: &Host, beginning: &str) -> anyhow::Result<String> {
    let find = || host.lines.lock().unwrap().iter().find(|line| line.starts_with(beginning)).cloned();
    soon(&format!("the node prints {beginning}"), || find().is_some()).await?;
    Ok(find().unwrap_or_default())
}

/// `host-a-node KUBECONFIG NAME ROOT NETWORK [ENGINE]`: runs a node until it is killed.
pub fn host(args: &[String]) -> ExitCode {
    let [config, name, root, network, engine @ ..] = args else { return ExitCode::FAILURE };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = kube::config::Kubeconfig::read_from(config).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let network = (network.parse().unwrap(), 24);
        let engine = match engine {
            [program, ..] => Some(Engine::find(Path::new(program)).await.unwrap()),
            [] => None,
        };
        let options =
            NodeOptions { images: world::images(), network, engine, ..NodeOptions::new(name, PathBuf::from(root)) };
        match Node::start(client, options).await {
            Ok(node) => {
                println!("isolation: {}", node.isolation());
                std::future::pending::<()>().await;
            }
            Err(error) => println!("isolation failed: {error}"),
        }
    });
    ExitCode::SUCCESS
}

async fn nothing_outlives_a_node_that_is_killed() -> anyhow::Result<()> {
    let world = World::new().await?;
    let dir = tempfile::tempdir()?;
    let name = format!("{}-host", world.namespace);
    let host = Host::start(&name, dir.path(), |_| {}).await?;
    let mark = format!("89{}", std::process::id());
    let mut spec = once(&format!("trap '' TERM INT HUP; setsid sleep {mark} & sleep {mark}"));
    spec["nodeName"] = json!(name);
    let pod = serde_json::from_value(json!({"metadata": {"name": "orphan"}, "spec": spec}))?;
    world.pods().create(&kube::api::PostParams::default(), &pod).await?;
    world.ready("orphan").await?;
    soon("it runs", || runs(&mark)).await?;
    drop(host);
    soon("everything ended with the node", || !runs(&mark)).await?;
    world.end().await
}

async fn a_pod_runs_at_most_once_across_a_kill() -> anyhow::Result<()> {
    let world = World::new().await?;
    let dir = tempfile::tempdir()?;
    let name = format!("{}-host", world.namespace);
    let host = Host::start(&name, dir.path(), |_| {}).await?;
    let spec = |policy: &str| {
        let mut main = sh("main", "echo started >> /kept/starts; exec sleep 600");
        main["volumeMounts"] = json!([{"name": "kept", "mountPath": "/kept"}]);
        let volumes = json!([{"name": "kept", "persistentVolumeClaim": {"claimName": policy.to_lowercase()}}]);
        let first = sh("first", "true");
        json!({"restartPolicy": policy, "nodeName": name, "volumes": volumes,
               "initContainers": [first], "containers": [main], "terminationGracePeriodSeconds": 1})
    };
    let create = async |pod: &str, spec| {
        let pod = serde_json::from_value(json!({"metadata": {"name": pod}, "spec": spec}))?;
        anyhow::Ok(world.pods().create(&kube::api::PostParams::default(), &pod).await?)
    };
    create("never", spec("Never")).await?;
    create("always", spec("Always")).await?;
    let mut short = once("echo done");
    short["nodeName"] = json!(name);
    create("short", short).await?;
    for pod in ["never", "always"] {
        world.ready(pod).await?;
    }
    world.phase("short", "Succeeded").await?;
    let starts = |claim: &str| {
        let file = dir.path().join("claims").join(&world.namespace).join(claim).join("starts");
        std::fs::read_to_string(file).unwrap_or_default().lines().count()
    };
    soon("both have started", || starts("never") == 1 && starts("always") == 1).await?;
    drop(host);
    let address = world.pods().get("always").await?.status.and_then(|status| status.pod_ip);

    let host = Host::start(&name, dir.path(), |_| {}).await?;
    let pod = world.phase("never", "Failed").await?;
    let status = pod.status.clone().unwrap_or_default();
    assert_eq!(status.reason.as_deref(), Some("NodeLost"));
    assert!(status.message.is_some_and(|message| message.contains("the node stopped")));
    assert_eq!((exit_code(&pod, "main"), exit_code(&pod, "first")), (Some(137), Some(0)));
    let pod = world
        .until("always", "running again", |pod| {
            let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            statuses.into_iter().any(|status| status.restart_count == 1 && status.ready)
        })
        .await?;
    assert_eq!(last_exit_code(&pod, "main"), Some(137));
    assert_eq!(container(&pod, "first").restart_count, 0, "what was done is not done again");
    assert_eq!(pod.status.and_then(|status| status.pod_ip), address);
    soon("it started again", || starts("always") == 2).await?;
    assert_eq!(starts("never"), 1);
    for pod in ["never", "always", "short"] {
        world.delete(pod).await?;
        world.gone(pod).await?;
    }
    drop(host);
    world.end().await
}

async fn a_shutdown_ends_everything() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mark = format!("90{}", std::process::id());
    let gentle = format!("trap 'exit 0' TERM; while :; do sleep 0.1 {mark}e-9; done");
    let stubborn = format!("trap '' TERM; while :; do sleep {mark}; done");
    for (name, script) in [("gentle", gentle), ("stubborn", stubborn)] {
        let mut spec = once(&script);
        // Far above the limit: only the limit of the shutdown ends a stubborn Pod in time.
        spec["terminationGracePeriodSeconds"] = json!(3600);
        world.create(name, spec).await?;
        world.ready(name).await?;
    }
    let World { node, client, namespace, root: _root, .. } = world;
    tokio::time::timeout(LIMIT, node.shutdown(Duration::from_millis(500))).await?;
    assert!(!runs(&mark), "something outlived the node");
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(client, &namespace);
    let status = pods.get("gentle").await?.status.unwrap_or_default();
    assert_eq!(status.phase.as_deref(), Some("Running"), "the outcome is reported at the next start");
    Ok(())
}
