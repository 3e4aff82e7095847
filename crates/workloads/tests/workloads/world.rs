//! The fixture of a case: a namespace of an API server with our controllers only, and a stub that runs Pods.

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{OnceLock, mpsc::Sender},
    time::Duration,
};

use apiserver::ApiServer;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Pod},
};
use kube::{
    Api, Client, Config, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind, NamespaceResourceScope},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use kubeopencode_workloads::{Settings, Workloads};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

/// Everything here takes milliseconds; a machine that builds at the same time needs longer.
const LIMIT: Duration = Duration::from_secs(40);
pub const NODE: &str = "local";
pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----";

/// Which API server.
#[derive(Clone, Copy, Debug)]
pub enum Server {
    Real,
    Embedded,
}

/// An API server on which only our controllers work.
struct Shared {
    kubeconfig: PathBuf,
    config: Kubeconfig,
}

/// The API server of all cases, with our controllers at work on a runtime of their own.
fn shared(server: Server) -> &'static Shared {
    static REAL: OnceLock<Shared> = OnceLock::new();
    static EMBEDDED: OnceLock<Shared> = OnceLock::new();
    let shared = match server {
        Server::Real => &REAL,
        Server::Embedded => &EMBEDDED,
    };
    shared.get_or_init(|| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                match server {
                    Server::Real => {
                        let cluster = testenv::start(testenv::Options::api_only()).await.unwrap();
                        let client = cluster.client().await.unwrap();
                        work(client, cluster.kubeconfig_path(), &ready).await;
                    }
                    Server::Embedded => {
                        let dir = tempfile::tempdir().unwrap();
                        let api = ApiServer::open(apiserver::Options::default()).await.unwrap();
                        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                        let file = dir.path().join("kubeconfig");
                        api.write_kubeconfig(&file, listener.local_addr().unwrap()).unwrap();
                        let client = api.client();
                        let serving = api.serve(listener, std::future::pending());
                        tokio::select! {
                            () = work(client, &file, &ready) => {}
                            outcome = serving => outcome.unwrap(),
                        }
                    }
                }
            });
        });
        is_ready.recv_timeout(Duration::from_mins(3)).expect("the API server did not start")
    })
}

/// Starts the controllers, signals `ready`, and acts as the node.
async fn work(client: Client, kubeconfig: &Path, ready: &Sender<Shared>) {
    let settings = Settings { node: NODE.into(), certificate_authority: AUTHORITY.into() };
    let _workloads = Workloads::start(client.clone(), settings).await.unwrap();
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    ready.send(Shared { kubeconfig: kubeconfig.to_owned(), config }).unwrap();
    run_pods(client).await;
}

/// Marks Pods as running once they have a node, and removes them when they are deleted. A Pod with the image `broken`
/// never becomes ready.
async fn run_pods(client: Client) {
    let all = Api::<Pod>::all(client.clone());
    let events = watcher::watcher(all, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut count = 0_u32;
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        count += 1;
        let address = format!("10.9.{}.{}", count / 250, count % 250 + 1);
        let client = client.clone();
        // Each on its own: one that hangs must not keep the others.
        tokio::spawn(async move {
            for _ in 0..5 {
                match run_pod(&client, &pod, &address).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => break,
                    Err(_) => sleep(Duration::from_millis(100)).await,
                    Ok(()) => break,
                }
            }
        });
    }
}

async fn run_pod(client: &Client, pod: &Pod, address: &str) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
    let spec = pod.spec.as_ref().unwrap();
    if pod.metadata.deletion_timestamp.is_some() {
        api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    } else if spec.node_name.is_some() && pod.status.as_ref().unwrap().pod_ip.is_none() {
        let ready = if spec.containers[0].image.as_deref() == Some("broken") { "False" } else { "True" };
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": now});
        let status =
            json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]});
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// A namespace, and how to work in it.
pub struct World {
    pub namespace: String,
    pub client: Client,
    shared: &'static Shared,
}

impl World {
    pub async fn new(server: Server) -> Self {
        let shared = tokio::task::spawn_blocking(move || shared(server)).await.unwrap();
        let config = Config::from_custom_kubeconfig(shared.config.clone(), &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let meta = json!({"metadata": {"generateName": "test-"}});
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let created = namespaces.create(&PostParams::default(), &serde_json::from_value(meta).unwrap()).await.unwrap();
        Self { namespace: created.name_any(), client, shared }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        self.api().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub async fn merge<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub async fn delete<K>(&self, name: &str, how: PropagationPolicy)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let params = DeleteParams { propagation_policy: Some(how), ..DeleteParams::default() };
        self.api::<K>().delete(name, &params).await.unwrap();
    }

    pub async fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api().get_opt(name).await.unwrap()
    }

    pub async fn list<K>(&self, labels: &str) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api().list(&ListParams::default().labels(labels)).await.unwrap().items
    }

    /// Waits until the objects with these labels are as wanted.
    pub async fn until<K>(&self, labels: &str, what: &str, wanted: impl Fn(&[K]) -> bool) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let started = Instant::now();
        loop {
            let found = self.list::<K>(labels).await;
            if wanted(&found) {
                return found;
            }
            assert!(started.elapsed() < LIMIT, "not {what}: {found:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an object is as wanted.
    pub async fn until_one<K>(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let started = Instant::now();
        loop {
            let found = self.get::<K>(name).await;
            match found {
                Some(found) if wanted(&found) => return found,
                other => assert!(started.elapsed() < LIMIT, "{name} is not {what}: {other:#?}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an object is gone.
    pub async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let started = Instant::now();
        while let Some(found) = self.get::<K>(name).await {
            assert!(started.elapsed() < LIMIT, "{name} is still there: {found:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the garbage collector has handled every ConfigMap written so far: it takes them in order, and removes
    /// this one, whose owner does not exist.
    pub async fn garbage_is_collected(&self) {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent"});
        let marker: ConfigMap =
            self.create(json!({"metadata": {"generateName": "marker-", "ownerReferences": [owner]}})).await;
        self.until_gone::<ConfigMap>(&marker.name_any()).await;
    }

    /// Waits until the controllers have handled every Deployment written so far: they take them in order, and write the
    /// status of this one.
    pub async fn deployments_are_handled(&self, marker: &str) {
        self.create::<Deployment>(deployment(marker, "one", 0)).await;
        self.until_one::<Deployment>(marker, "handled", is_observed).await;
    }

    /// Waits until a namespace that is deleted now is gone.
    pub async fn another_namespace_goes(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let marker = json!({"metadata": {"generateName": "marker-"}});
        let marker = namespaces.create(&PostParams::default(), &serde_json::from_value(marker).unwrap()).await.unwrap();
        namespaces.delete(&marker.name_any(), &DeleteParams::default()).await.unwrap();
        self.until_namespace_is_gone(&marker.name_any()).await;
    }

    pub async fn until_namespace_is_gone(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let started = Instant::now();
        while let Some(found) = namespaces.get_opt(name).await.unwrap() {
            assert!(started.elapsed() < LIMIT, "{name} is still there: {found:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Objects of a kind that has no type here.
    pub fn dynamic(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The real kubectl, in this namespace.
    pub async fn kubectl(&self, args: &[&str]) -> String {
        let args = [&["--namespace", &self.namespace], args].concat();
        let mut command = Command::new(testenv::Program::Kubectl.obtain().unwrap());
        command.args(&args).env("KUBECONFIG", &self.shared.kubeconfig);
        let output: Output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Whether the status of a Deployment reflects its current spec.
pub fn is_observed(deployment: &Deployment) -> bool {
    deployment.status.as_ref().is_some_and(|status| status.observed_generation == deployment.metadata.generation)
}

/// A Deployment of one container.
pub fn deployment(name: &str, image: &str, replicas: i32) -> Value {
    let labels = json!({ "app": name });
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    })
}

/// A reference to an owner.
pub fn owner(object: &impl Resource<DynamicType = ()>, blocks: bool) -> Value {
    let mut owner = json!(object.owner_ref(&()).unwrap());
    owner["blockOwnerDeletion"] = json!(blocks);
    owner
}
