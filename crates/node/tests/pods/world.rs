//! An API server for all cases, and a node and a namespace for each.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, ContainerStatus, Event, Pod, Secret},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use kubeopencode_node::{Image, ImageMap, LogOptions, Node, NodeOptions};
use serde_json::{Value, json};
use testenv::{Cluster, Options};
use tokio::sync::OnceCell;

/// Limit of every wait: long enough for a loaded machine.
pub const LIMIT: Duration = Duration::from_mins(1);
/// The image of most containers here: the machine's own programs, and this one as `/server`.
pub const IMAGE: &str = "host/tools:1";

/// The API server of all cases. Services have loopback addresses, as in the product.
pub async fn cluster() -> anyhow::Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async {
        let flags = vec!["--service-cluster-ip-range=127.91.0.0/16".to_owned()];
        testenv::start(Options { apiserver_flags: flags, ..Options::api_only() }).await
    };
    Ok(SHARED.get_or_try_init(start).await?)
}

/// A namespace and the node that runs its Pods.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub node: Node,
    pub root: PathBuf,
    _dir: tempfile::TempDir,
}

pub fn images() -> ImageMap {
    let server = (std::env::current_exe().unwrap_or_default(), PathBuf::from("/server"));
    ImageMap::default().with("host/tools", Image { files: vec![server], ..Image::default() })
}

/// A network of its own for each node.
pub fn network() -> (Ipv4Addr, u8) {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    (Ipv4Addr::new(127, 81, NEXT.fetch_add(1, Ordering::Relaxed), 0), 24)
}

impl World {
    pub async fn new() -> anyhow::Result<Self> {
        Self::with(network()).await
    }

    pub async fn with(network: (Ipv4Addr, u8)) -> anyhow::Result<Self> {
        Self::start(|options| NodeOptions { network, ..options }).await
    }

    /// With a node of another make.
    pub async fn start(adjust: impl FnOnce(NodeOptions) -> NodeOptions) -> anyhow::Result<Self> {
        let cluster = cluster().await?;
        let namespace = cluster.namespace().await?;
        let client = cluster.client().await?;
        let dir = tempfile::tempdir()?;
        let root = dir.path().join("node");
        let options =
            NodeOptions { images: images(), network: network(), ..NodeOptions::new(&namespace, root.clone()) };
        let node = Node::start(client.clone(), adjust(options)).await?;
        Ok(Self { client, namespace, node, root, _dir: dir })
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    /// Creates a Pod that is bound to the node.
    pub async fn create(&self, name: &str, spec: Value) -> anyhow::Result<Pod> {
        self.create_with(name, json!({}), spec).await
    }

    pub async fn create_with(&self, name: &str, mut metadata: Value, mut spec: Value) -> anyhow::Result<Pod> {
        metadata["name"] = json!(name);
        spec["nodeName"] = json!(self.namespace);
        let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec}))?;
        Ok(self.pods().create(&PostParams::default(), &pod).await?)
    }

    pub async fn config_map(&self, name: &str, data: Value) -> anyhow::Result<()> {
        let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}, "data": data}))?;
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": object.data});
        self.api::<ConfigMap>().patch(name, &PatchParams::apply("case").force(), &Patch::Apply(object)).await?;
        Ok(())
    }

    pub async fn secret(&self, name: &str, data: Value) -> anyhow::Result<()> {
        let object: Secret = serde_json::from_value(json!({"metadata": {"name": name}, "stringData": data}))?;
        self.api::<Secret>().create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Waits until the Pod is as it should be.
    pub async fn until(&self, name: &str, goal: &str, reached: impl Fn(&Pod) -> bool) -> anyhow::Result<Pod> {
        let condition = |pod: Option<&Pod>| pod.is_some_and(&reached);
        if let Ok(pod) = tokio::time::timeout(LIMIT, await_condition(self.pods(), name, condition)).await {
            return pod?.with_context(|| format!("{name} is gone before: {goal}"));
        }
        let now = self.pods().get_opt(name).await?.and_then(|pod| pod.status);
        anyhow::bail!("{name} is not {goal} after {LIMIT:?}: {}", serde_json::to_string_pretty(&now)?)
    }

    pub async fn phase(&self, name: &str, phase: &str) -> anyhow::Result<Pod> {
        self.until(name, phase, |pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase))
            .await
    }

    pub async fn ready(&self, name: &str) -> anyhow::Result<Pod> {
        self.until(name, "ready", |pod| condition(pod, "Ready")).await
    }

    /// Waits until the Pod does not exist any more.
    pub async fn gone(&self, name: &str) -> anyhow::Result<()> {
        let condition = |pod: Option<&Pod>| pod.is_none();
        tokio::time::timeout(LIMIT, await_condition(self.pods(), name, condition))
            .await
            .context("it is still there")??;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.pods().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub async fn log(&self, pod: &str, container: &str) -> anyhow::Result<String> {
        self.log_with(pod, container, LogOptions::default()).await
    }

    pub async fn log_with(&self, pod: &str, container: &str, options: LogOptions) -> anyhow::Result<String> {
        let mut stream = Box::pin(self.node.logs(&self.namespace, pod, container, options)?);
        let mut all = Vec::new();
        while let Some(chunk) = tokio::time::timeout(LIMIT, stream.next()).await.context("the log does not end")? {
            all.extend_from_slice(&chunk?);
        }
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// Waits until the events of a Pod are exactly these, the earliest first. Each line is the type of an event, its
    /// reason, the part of the Pod, its message, and its count if more than one.
    pub async fn wait_for_events(&self, pod: &Pod, expected: &[String]) -> anyhow::Result<()> {
        self.until_events(pod, &format!("{expected:#?}"), |lines| lines == expected).await
    }

    /// Waits for an event that begins like this.
    pub async fn wait_for_event(&self, pod: &Pod, beginning: &str) -> anyhow::Result<()> {
        self.until_events(pod, beginning, |lines| lines.iter().any(|line| line.starts_with(beginning))).await
    }

    async fn until_events(&self, pod: &Pod, goal: &str, reached: impl Fn(&[String]) -> bool) -> anyhow::Result<()> {
        let about = format!("involvedObject.uid={}", pod.metadata.uid.clone().unwrap_or_default());
        let begun = Instant::now();
        loop {
            let events = self.api::<Event>().list(&ListParams::default().fields(&about)).await?;
            let lines: Vec<String> = events.items.iter().map(line).collect();
            if reached(&lines) {
                return Ok(());
            }
            anyhow::ensure!(begun.elapsed() < LIMIT, "no event {goal} but {lines:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends the node, and everything that it started.
    pub async fn end(self) -> anyhow::Result<()> {
        self.node.shutdown(Duration::ZERO).await;
        Ok(())
    }
}

/// An event as a line.
fn line(event: &Event) -> String {
    let column = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let part = &event.involved_object.field_path;
    let text = [column(&event.type_), column(&event.reason), column(part), column(&event.message)].join(" ");
    match event.count {
        Some(count) if count > 1 => format!("{text} x{count}"),
        _ => text,
    }
}

/// A container that runs a shell script.
pub fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "command": ["/bin/sh", "-c", script]})
}

/// A Pod of one container that runs a script once.
pub fn once(script: &str) -> Value {
    json!({"restartPolicy": "Never", "containers": [sh("main", script)]})
}

pub fn condition(pod: &Pod, kind: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

/// The status of a container, wherever it is.
pub fn container<'a>(pod: &'a Pod, name: &str) -> &'a ContainerStatus {
    let status = pod.status.as_ref().expect("a status");
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.into_iter().find(|container| container.name == name).expect("the container")
}

/// The reason in the state of a container.
pub fn reason(pod: &Pod, name: &str) -> String {
    if pod.status.as_ref().is_none_or(|status| status.container_statuses.is_none()) {
        return String::new();
    }
    let state = container(pod, name).state.clone().unwrap_or_default();
    if state.running.is_some() {
        return "Running".to_owned();
    }
    let waiting = state.waiting.and_then(|waiting| waiting.reason);
    waiting.or_else(|| state.terminated.and_then(|ended| ended.reason)).unwrap_or_default()
}

pub fn message(pod: &Pod, name: &str) -> String {
    let state = container(pod, name).state.clone().unwrap_or_default();
    let waiting = state.waiting.and_then(|waiting| waiting.message);
    waiting.or_else(|| state.terminated.and_then(|ended| ended.message)).unwrap_or_default()
}

pub fn exit_code(pod: &Pod, name: &str) -> Option<i32> {
    Some(container(pod, name).state.as_ref()?.terminated.as_ref()?.exit_code)
}

pub fn last_exit_code(pod: &Pod, name: &str) -> Option<i32> {
    Some(container(pod, name).last_state.as_ref()?.terminated.as_ref()?.exit_code)
}

/// Whether a process of the machine has this text in its command line.
pub fn runs(needle: &str) -> bool {
    process(needle).is_some()
}

/// The directory of a process with this text in its command line.
pub fn process(needle: &str) -> Option<PathBuf> {
    let has_word =
        |dir: &PathBuf| std::fs::read(dir.join("cmdline")).is_ok_and(|line| contains(&line, needle.as_bytes()));
    processes().find(has_word)
}

pub fn processes() -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).map(|entry| entry.path())
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|part| part == needle)
}

/// Whether the node can take on other users. Where it cannot, containers live in user namespaces.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Polls for something that has no event.
pub async fn soon(what: &str, reached: impl Fn() -> bool) -> anyhow::Result<()> {
    for _ in 0..600 {
        if reached() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("not within a minute: {what}")
}

/// `serve ADDRESS:PORT TEXT [FILE]`: a web server in a container. With a file, it answers 500 as long as that exists.
pub fn serve(args: &[String]) -> ExitCode {
    let listener = TcpListener::bind(&args[0]).unwrap();
    println!("listening");
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let sick = args.get(2).is_some_and(|file| Path::new(file).exists());
        let code = if sick { "500 Sick" } else { "200 OK" };
        let text = &args[1];
        let _ = write!(stream, "HTTP/1.1 {code}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
    }
    ExitCode::SUCCESS
}
