//! Forwards connections to the addresses of Services to ready Pods.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::core::v1::{Pod, Service},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// A Pod on this machine accepts at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Delay before another attempt to listen on an address that is in use.
const RETRY: Duration = Duration::from_secs(5);

type Key = (String, String);
type Backends = BTreeMap<SocketAddr, Vec<SocketAddr>>;

/// Forwards connections to Services until it is dropped.
#[derive(Debug)]
pub struct ServiceForwarding(AbortHandle);

impl ServiceForwarding {
    /// Starts forwarding for all Services with a loopback address, including later ones.
    pub fn start(client: Client) -> Self {
        Self(tokio::spawn(follow(client)).abort_handle())
    }
}

impl Drop for ServiceForwarding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow(client: Client) {
    let all = watcher::Config::default();
    let mut services = Box::pin(watcher::watcher(Api::<Service>::all(client.clone()), all.clone()).default_backoff());
    let mut pods = Box::pin(watcher::watcher(Api::<Pod>::all(client), all).default_backoff());
    let mut table = Table::default();
    let mut forwards = Forwards::default();
    loop {
        let complete = tokio::select! {
            event = services.next() => match event {
                Some(Ok(event)) => table.services.note(event, key, Some),
                Some(Err(_)) => false,
                None => return,
            },
            event = pods.next() => match event {
                Some(Ok(event)) => table.pods.note(event, key, |pod| Backend::of(&pod)),
                Some(Err(_)) => false,
                None => return,
            },
            () = tokio::time::sleep(RETRY), if !forwards.refused.is_empty() => true,
        };
        if complete && table.services.complete && table.pods.complete {
            forwards.set(&table.backends()).await;
        }
    }
}

fn key<K: kube::Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The current objects of a watch.
struct WatchState<T> {
    now: HashMap<Key, T>,
    /// Objects of a new list that is not complete yet.
    listing: HashMap<Key, T>,
    complete: bool,
}

impl<T> Default for WatchState<T> {
    fn default() -> Self {
        Self { now: HashMap::new(), listing: HashMap::new(), complete: false }
    }
}

impl<T> WatchState<T> {
    /// Applies a watch event. Returns whether the result may differ.
    fn note<K>(&mut self, event: Event<K>, key: impl Fn(&K) -> Key, keep: impl Fn(K) -> Option<T>) -> bool {
        let put = |into: &mut HashMap<Key, T>, object: K| {
            let key = key(&object);
            match keep(object) {
                Some(kept) => drop(into.insert(key, kept)),
                None => drop(into.remove(&key)),
            }
        };
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => put(&mut self.listing, object),
            Event::InitDone => {
                self.now = std::mem::take(&mut self.listing);
                self.complete = true;
            }
            Event::Apply(object) => put(&mut self.now, object),
            Event::Delete(object) => drop(self.now.remove(&key(&object))),
        }
        self.complete
    }
}

/// A ready Pod.
#[derive(Clone, Debug, PartialEq)]
struct Backend {
    address: IpAddr,
    labels: BTreeMap<String, String>,
    ports: HashMap<String, u16>,
}

impl Backend {
    /// `None` if the Pod is not ready.
    fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let ready = |kind: &str| {
            let mut conditions = status.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == kind && condition.status == "True")
        };
        if pod.metadata.deletion_timestamp.is_some() || !ready("Ready") {
            return None;
        }
        let named = pod.spec.iter().flat_map(|spec| {
            let all = spec.init_containers.iter().flatten().chain(&spec.containers);
            all.flat_map(|container| container.ports.iter().flatten())
        });
        let ports = named.filter_map(|port| Some((port.name.clone()?, u16::try_from(port.container_port).ok()?)));
        Some(Self {
            address: status.pod_ip.as_ref()?.parse().ok()?,
            labels: pod.labels().clone(),
            ports: ports.collect(),
        })
    }
}

#[derive(Default)]
struct Table {
    services: WatchState<Service>,
    pods: WatchState<Backend>,
}

impl Table {
    /// The addresses to listen on, and their backends. An address without backends is not listened on, so that clients
    /// fail at once.
    fn backends(&self) -> Backends {
        let mut backends = Backends::new();
        for ((namespace, _), service) in &self.services.now {
            let Some(spec) = &service.spec else { continue };
            let address = spec.cluster_ip.as_ref().and_then(|address| address.parse::<IpAddr>().ok());
            let Some(address) = address.filter(IpAddr::is_loopback) else { continue };
            let Some(selector) = spec.selector.as_ref().filter(|selector| !selector.is_empty()) else { continue };
            let chosen =
                |backend: &&Backend| selector.iter().all(|(key, value)| backend.labels.get(key) == Some(value));
            let pods = self.pods.now.iter().filter(|((of, _), _)| of == namespace).map(|(_, backend)| backend);
            let chosen: Vec<&Backend> = pods.filter(chosen).collect();
            for port in spec.ports.iter().flatten() {
                let tcp = port.protocol.as_deref().unwrap_or("TCP") == "TCP";
                let Some(number) = u16::try_from(port.port).ok().filter(|_| tcp) else { continue };
                let target = |backend: &&Backend| match &port.target_port {
                    Some(IntOrString::String(name)) => backend.ports.get(name).copied(),
                    Some(IntOrString::Int(target)) if *target != 0 => u16::try_from(*target).ok(),
                    _ => Some(number),
                };
                let mut behind: Vec<SocketAddr> = chosen
                    .iter()
                    .filter_map(|backend| Some(SocketAddr::new(backend.address, target(backend)?)))
                    .collect();
                behind.sort_unstable();
                if !behind.is_empty() {
                    backends.insert(SocketAddr::new(address, number), behind);
                }
            }
        }
        backends
    }
}

/// The open listeners.
#[derive(Default)]
struct Forwards {
    open: HashMap<SocketAddr, (Arc<RoundRobin>, AbortHandle)>,
    /// Addresses that could not be bound.
    refused: HashSet<SocketAddr>,
}

impl Drop for Forwards {
    fn drop(&mut self) {
        for (_, listener) in self.open.values() {
            listener.abort();
        }
    }
}

impl Forwards {
    async fn set(&mut self, wanted: &Backends) {
        self.open.retain(|address, (_, listener)| {
            let keep = wanted.contains_key(address);
            if !keep {
                listener.abort();
            }
            keep
        });
        self.refused.retain(|address| wanted.contains_key(address));
        for (address, behind) in wanted {
            if let Some((round_robin, _)) = self.open.get(address) {
                round_robin.replace(behind);
                continue;
            }
            match TcpListener::bind(address).await {
                Ok(listener) => {
                    let round_robin = Arc::new(RoundRobin::default());
                    round_robin.replace(behind);
                    let task = tokio::spawn(listen(listener, Arc::clone(&round_robin)));
                    self.open.insert(*address, (round_robin, task.abort_handle()));
                    self.refused.remove(address);
                }
                Err(error) => {
                    // Log once: another process may hold the address for long, and ports below 1024 need root.
                    if self.refused.insert(*address) {
                        tracing::warn!(%address, %error, "cannot listen on the address of a Service");
                    }
                }
            }
        }
    }
}

/// Round-robin selection of backends.
#[derive(Debug, Default)]
struct RoundRobin {
    behind: RwLock<Vec<SocketAddr>>,
    turn: AtomicUsize,
}

impl RoundRobin {
    fn replace(&self, behind: &[SocketAddr]) {
        let mut now = self.behind.write().unwrap_or_else(PoisonError::into_inner);
        if now.as_slice() != behind {
            *now = behind.to_vec();
        }
    }

    /// All backends, starting with the next one.
    fn order(&self) -> Vec<SocketAddr> {
        let mut behind = self.behind.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !behind.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % behind.len();
            behind.rotate_left(turn);
        }
        behind
    }
}

async fn listen(listener: TcpListener, round_robin: Arc<RoundRobin>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let round_robin = Arc::clone(&round_robin);
                tokio::spawn(async move {
                    if let Err(error) = forward(client, &round_robin).await {
                        tracing::debug!(%error, "connection to a Service failed");
                    }
                });
            }
            // Probably too many open files: wait until some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn forward(mut client: TcpStream, round_robin: &RoundRobin) -> io::Result<()> {
    for address in round_robin.order() {
        let connected = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await;
        if let Ok(Ok(mut server)) = connected {
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await?;
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, address: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 4096}]}]},
            "status": {"podIP": address, "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn service(spec: &Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec})).unwrap()
    }

    #[track_caller]
    fn check(spec: &Value, pods: &[Pod], expected: &str) {
        let mut table = Table::default();
        table.services.note(Event::Apply(service(spec)), key, Some);
        for one in pods {
            table.pods.note(Event::Apply(one.clone()), key, |pod| Backend::of(&pod));
        }
        let shown: Vec<String> = table.backends().iter().map(|(at, behind)| format!("{at} {behind:?}")).collect();
        assert_eq!(shown.join(", "), expected);
    }

    #[test]
    fn a_service_leads_to_its_ready_pods() {
        let ports = json!([{"port": 80, "targetPort": "http"}, {"port": 53, "protocol": "UDP"}]);
        let spec = json!({"clusterIP": "127.90.0.1", "selector": {"app": "web"}, "ports": ports});
        let pods = [pod("a", "127.80.0.1", "True"), pod("b", "127.80.0.2", "False"), pod("c", "127.80.0.3", "True")];
        check(&spec, &pods, "127.90.0.1:80 [127.80.0.1:4096, 127.80.0.3:4096]");
        check(&spec, &pods[1..2], "");
    }

    #[test]
    fn only_addresses_of_this_machine_are_listened_at() {
        let with = |address: &str| json!({"clusterIP": address, "selector": {"app": "web"}, "ports": [{"port": 4096}]});
        let pods = [pod("a", "127.80.0.1", "True")];
        check(&with("10.96.0.1"), &pods, "");
        check(&with("None"), &pods, "");
        check(&with("127.90.0.1"), &pods, "127.90.0.1:4096 [127.80.0.1:4096]");
        check(&json!({"clusterIP": "127.90.0.1", "ports": [{"port": 1}]}), &pods, "");
    }

    #[test]
    fn each_pod_gets_its_turn() {
        let round_robin = RoundRobin::default();
        let [a, b]: [SocketAddr; 2] = ["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        round_robin.replace(&[a, b]);
        let first: Vec<_> = (0..4).map(|_| round_robin.order()[0]).collect();
        assert_eq!(first, [a, b, a, b]);
    }

    #[test]
    fn a_new_list_replaces_the_previous_objects() {
        let mut seen: WatchState<Service> = WatchState::default();
        let one = |name: &str| {
            serde_json::from_value::<Service>(json!({"metadata": {"name": name, "namespace": "n"}})).unwrap()
        };
        seen.note(Event::Apply(one("old")), key, Some);
        seen.note(Event::Init, key, Some);
        seen.note(Event::InitApply(one("new")), key, Some);
        assert!(seen.note(Event::InitDone, key, Some));
        assert_eq!(seen.now.keys().collect::<Vec<_>>(), [&("n".to_owned(), "new".to_owned())]);
    }
}
