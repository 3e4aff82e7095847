//! Logs of many Pods at once into the store. The kubelet is played here: the API server fetches logs from it, as from any
//! other.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use store::Store;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use crate::{node, program::Program, results::load, tasks, world};

const PODS: usize = 50;
/// Lines a second of each Pod.
const RATE: usize = 2_000;
const LENGTH: Duration = Duration::from_secs(20);
/// A node sends what is there at such intervals.
const INTERVAL: Duration = Duration::from_millis(50);
const NODE: &str = "bench";
/// The container whose log is long. The others have none.
const CONTAINER: &str = "agent";
/// Memory limit of the controller, in MiB.
const LIMIT: f64 = 100.0;

/// Prints the rate at which the controller archives lines, and its memory.
pub async fn run() -> anyhow::Result<()> {
    let cluster = world::start_with(testenv::Options::api_only()).await?;
    let (client, namespace) = (cluster.client().await?, cluster.namespace().await?);
    world::template(&client, &namespace).await?;
    let kubelet = Kubelet::start(&client, &namespace).await?;
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let place = [("KUBEOPENCODE_STORE_RECORDS", path("records.db")), ("KUBEOPENCODE_STORE_BLOBS", path("blobs"))];
    let [(_, records), (_, blobs)] = &place;
    let store = Store::open(records, blobs).await?;
    let arguments =
        ["controller", "--log=warn", "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"];
    let controller = Program::start_with(&arguments, Some(cluster.kubeconfig_path()), &place)?;
    let made = (0..PODS).map(|number| world::task(&format!("talks-{number}"), world::on_template(world::TEMPLATE)));
    let begin = Instant::now();
    world::create(&client, &namespace, made.collect()).await?;
    tasks::finished(&client, &namespace, PODS).await?;
    let took = begin.elapsed();

    let (mut lines, mut bytes, mut whole) = (0, 0, 0);
    for run in store.runs(Some(&namespace), None, 1000).await? {
        let log = store::Archive::find(&store, &run.run.log()).await?.context("a run has no log")?;
        lines += log.end.map_or(0, |end| end.lines);
        bytes += log.bytes;
        whole += usize::from(log.is_whole());
    }
    ensure!(lines == (PODS * RATE) as u64 * LENGTH.as_secs(), "{lines} lines are archived, {whole} logs whole");
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    let (lines, mebibytes) = (lines as f64, bytes as f64 / f64::from(1 << 20));
    let processor = controller.processor_time()?.as_secs_f64();
    println!("logs of {PODS} Pods, {RATE} lines a second each for {} s ({})", LENGTH.as_secs(), load());
    println!("  archived                  {lines:7.0} lines, {mebibytes:.0} MiB; {whole} of {PODS} logs are whole");
    println!("  from creation to the end  {:7.1} s", took.as_secs_f64());
    println!(
        "  rate                      {:7.0} lines/s (limit 100000 while they are written)",
        lines / took.as_secs_f64()
    );
    println!("  processor of controller   {:7.1} us a line", processor * 1e6 / lines);
    println!("  peak of the controller    {:7.1} MiB (limit {LIMIT:.0})", controller.peak_memory()?);
    drop(kubelet);
    Ok(())
}

/// A node on which Pods only talk.
struct Kubelet {
    pods: JoinHandle<()>,
    serving: JoinHandle<()>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.pods.abort();
        self.serving.abort();
    }
}

impl Kubelet {
    async fn start(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let nodes: Api<Node> = Api::all(client.clone());
        let made = serde_json::from_value(json!({"metadata": {"name": NODE}}))?;
        nodes.create(&PostParams::default(), &made).await?;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(status)).await?;

        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(certificate.signing_key.serialize_der().into());
        let chain = vec![certificate.cert.der().clone()];
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serving = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                open.spawn(async move {
                    let stream = acceptor.accept(stream).await?;
                    serve(stream).await
                });
                while open.try_join_next().is_some() {}
            }
        });
        let pods = tokio::spawn(play(client.clone(), namespace.to_owned()));
        Ok(Self { pods, serving })
    }
}

/// Binds, starts and ends every Pod.
async fn play(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let (mut known, mut version, mut running) = (BTreeSet::new(), "0".to_owned(), JoinSet::new());
    loop {
        let Ok(events) = pods.watch(&WatchParams::default(), &version).await else { continue };
        let mut events = events.boxed();
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event {
                version = pod.resource_version().unwrap_or_default();
                if known.insert(pod.name_any()) {
                    running.spawn(live(client.clone(), pods.clone(), namespace.clone(), pod.name_any()));
                }
            }
        }
    }
}

async fn live(client: Client, pods: Api<Pod>, namespace: String, name: String) -> anyhow::Result<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request::<serde_json::Value>(request.body(binding.to_string().into_bytes())?).await?;
    let params = PatchParams::default();
    pods.patch_status(&name, &params, &Patch::Merge(node::running())).await?;
    tokio::time::sleep(LENGTH + INTERVAL).await;
    pods.patch_status(&name, &params, &Patch::Merge(node::succeeded())).await?;
    Ok(())
}

/// What a request for a log asks for.
struct Wanted {
    pod: String,
    long: bool,
    follow: bool,
    since: Option<Timestamp>,
}

impl Wanted {
    /// From the first line of the request.
    fn read(head: &str) -> Option<Self> {
        let (path, query) = head.split(' ').nth(1)?.split_once('?')?;
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Some(Self {
            pod: path.rsplit('/').nth(1)?.to_owned(),
            long: path.ends_with(&format!("/{CONTAINER}")),
            follow: value("follow") == Some("true"),
            since: value("sinceTime").and_then(|time| time.replace("%3A", ":").parse().ok()),
        })
    }
}

/// Answers one request for a log.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n").await?;
    let Some(wanted) = Wanted::read(&head).filter(|wanted| wanted.long) else { return stream.shutdown().await };
    let all = RATE * usize::try_from(LENGTH.as_secs()).unwrap_or_default();
    let first =
        wanted.since.map_or(0, |since| (0..all).collect::<Vec<_>>().partition_point(|line| time(*line) < since));
    let begin = Instant::now();
    let mut sent = first;
    while sent < all {
        // One that follows from the beginning gets lines as they are written.
        let due = if wanted.follow && first == 0 {
            usize::try_from(begin.elapsed().as_millis()).unwrap_or_default() * RATE / 1000
        } else {
            all
        };
        let text: String = (sent..due.min(all)).map(|number| line(&wanted.pod, number)).collect();
        stream.write_all(text.as_bytes()).await?;
        stream.flush().await?;
        sent = due.min(all);
        if sent < all {
            tokio::time::sleep(INTERVAL).await;
        }
    }
    stream.shutdown().await
}

/// When a line was written. The same for every Pod.
fn time(line: usize) -> Timestamp {
    let since = SignedDuration::from_micros(i64::try_from(line * 1_000_000 / RATE).unwrap_or_default());
    Timestamp::from_second(1_800_000_000).unwrap_or_default() + since
}

fn line(pod: &str, number: usize) -> String {
    format!("{:.9} line {number} of {pod}, which says much about what it does and why it does it\n", time(number))
}
