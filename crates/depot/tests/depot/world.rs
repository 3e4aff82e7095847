//! The fixture of a case: an API server, a store and a depot of its own, and the objects of a run.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use apiserver::ApiServer;
use domain::contract::{
    collect::{Fetch, Keep},
    depot::{AUDIENCE, Publication, Refusal, Stored},
    environment,
};
use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{Namespace, Pod, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use kubeopencode_depot::{Depot, Options};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::{Archive as _, Owner, Run, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Everything here takes milliseconds; a machine that builds at the same time needs longer.
pub const LIMIT: Duration = Duration::from_secs(40);
pub const NAMESPACE: &str = "team";
/// Of all Tasks but those that say otherwise.
pub const TEMPLATE: &str = "go";

pub struct World {
    pub client: Client,
    pub store: Store,
    pub address: SocketAddr,
    pub dir: TempDir,
    http: reqwest::Client,
    _api: Option<ApiServer>,
}

/// Reviews are not cached, so that every change counts at once.
pub fn options() -> Options {
    Options { review_lifetime: Duration::ZERO, ..Options::default() }
}

impl World {
    pub async fn new() -> Self {
        Self::with(options()).await
    }

    pub async fn with(options: Options) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = ApiServer::open(apiserver::Options::default()).await.unwrap();
        let client = api.client();
        let definition = ::api::crds().into_iter().find(|definition| definition["spec"]["names"]["kind"] == "Task");
        let definition: CustomResourceDefinition = serde_json::from_value(definition.unwrap()).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
        let world = Self { _api: Some(api), ..Self::serve(client, options).await };
        world.namespace(NAMESPACE).await;
        world
    }

    /// A depot that asks another API server.
    pub async fn of(client: Client) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self::serve(client, options()).await
    }

    async fn serve(client: Client, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::directory(dir.path()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let depot = Depot::new(client.clone(), store.clone(), options);
        tokio::spawn(async move { depot.serve(listener, std::future::pending()).await });
        let http = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
        Self { client, store, address, dir, http, _api: None }
    }

    pub async fn namespace(&self, name: &str) {
        let namespace: Namespace = read(json!({"metadata": {"name": name}}));
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        for account in ["default", "other"] {
            let account: ServiceAccount = read(json!({"metadata": {"name": account}}));
            match self.api::<ServiceAccount>(name).create(&PostParams::default(), &account).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The first run of a new Task, with the token of its Pod.
    pub async fn run(&self, task: &str, keep: &Keep, fetch: &Fetch) -> RunOf {
        self.run_of(Spec { task, keep, fetch, ..Spec::default() }).await
    }

    pub async fn run_of(&self, spec: Spec<'_>) -> RunOf {
        let Spec { namespace, task, target, keep, fetch } = spec;
        let mut object = json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": task},
            "spec": {"description": "work"},
        });
        object["spec"][target.0] = json!({"name": target.1});
        let created = self.api::<::api::Task>(namespace).create(&PostParams::default(), &read(object)).await.unwrap();
        let run = RunOf {
            namespace: namespace.to_owned(),
            task: task.to_owned(),
            uid: created.uid().unwrap(),
            epoch: 1,
            pod: format!("{task}-pod"),
            token: String::new(),
        };
        self.status(&run, json!({"phase": "Running", "runEpoch": 1, "podName": run.pod})).await;
        self.pod(&run, keep, fetch).await;
        RunOf { token: self.token(&run, AUDIENCE).await, ..run }
    }

    /// Another run of the same Task: what the controller does for a rerun.
    pub async fn again(&self, run: &RunOf, keep: &Keep, fetch: &Fetch) -> RunOf {
        let epoch = run.epoch + 1;
        let next = RunOf { epoch, pod: format!("{}-pod-{epoch}", run.task), ..run.clone() };
        self.status(&next, json!({"phase": "Running", "runEpoch": epoch, "podName": next.pod})).await;
        self.pod(&next, keep, fetch).await;
        RunOf { token: self.token(&next, AUDIENCE).await, ..next }
    }

    pub async fn status(&self, run: &RunOf, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<::api::Task>(&run.namespace).patch_status(&run.task, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn pod(&self, run: &RunOf, keep: &Keep, fetch: &Fetch) {
        let env = |name: &str, value: Value| json!([{"name": name, "value": value.to_string().replace('$', "$$")}]);
        let owner = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": run.task, "uid": run.uid,
            "controller": true});
        let keep = env(environment::KEEP, serde_json::to_value(keep).unwrap());
        let fetch = env(environment::FETCH, serde_json::to_value(fetch).unwrap());
        let pod = json!({
            "metadata": {"name": run.pod, "labels": {"kubeopencode.io/run-epoch": run.epoch.to_string()},
                "ownerReferences": [owner]},
            "spec": {
                "serviceAccountName": "default",
                "initContainers": [{"name": "prep", "image": "system", "env": fetch}],
                "containers": [
                    {"name": "agent", "image": "agent"},
                    {"name": "housekeeper", "image": "system", "env": keep},
                ],
            },
        });
        self.api::<Pod>(&run.namespace).create(&PostParams::default(), &read(pod)).await.unwrap();
        self.pod_phase(run, "Running").await;
    }

    pub async fn pod_phase(&self, run: &RunOf, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        self.api::<Pod>(&run.namespace).patch_status(&run.pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// A token for the Pod of a run.
    pub async fn token(&self, run: &RunOf, audience: &str) -> String {
        let pod = BoundObjectReference {
            kind: Some("Pod".into()),
            api_version: Some("v1".into()),
            name: Some(run.pod.clone()),
            uid: None,
        };
        self.token_of(&run.namespace, "default", audience, Some(pod)).await
    }

    pub async fn token_of(
        &self,
        namespace: &str,
        account: &str,
        audience: &str,
        bound: Option<BoundObjectReference>,
    ) -> String {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![audience.to_owned()],
                bound_object_ref: bound,
                expiration_seconds: Some(600),
            },
            ..TokenRequest::default()
        };
        let accounts = self.api::<ServiceAccount>(namespace);
        let issued = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
        issued.status.unwrap().token
    }

    /// Writes the record of a run, as the controller does at its end.
    pub async fn record(&self, run: &RunOf, status: Value) {
        self.store.record(&run.key(), status.to_string().into_bytes()).await.unwrap();
    }

    pub fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address)).bearer_auth(token)
    }

    pub async fn get(&self, path: &str, run: &RunOf) -> Response {
        self.request(Method::GET, path, &run.token).send().await.unwrap()
    }

    /// Uploads bytes.
    pub async fn upload(&self, run: &RunOf, bytes: &[u8]) -> Stored {
        let answer = self.request(Method::PUT, "/v1/blobs", &run.token).body(bytes.to_vec()).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.unwrap()
    }

    pub async fn post(&self, path: &str, run: &RunOf, body: &impl serde::Serialize) -> Response {
        self.request(Method::POST, path, &run.token).json(body).send().await.unwrap()
    }

    /// Uploads bytes and publishes them as an artefact.
    pub async fn publish(&self, run: &RunOf, name: &str, bytes: &[u8]) -> StatusCode {
        self.upload(run, bytes).await;
        self.post(&format!("/v1/artifacts/{name}"), run, &publication(bytes)).await.status()
    }

    /// Publishes an artefact and ends the run well.
    pub async fn leave(&self, run: &RunOf, name: &str, bytes: &[u8]) {
        assert_eq!(self.publish(run, name, bytes).await, StatusCode::CREATED);
        self.record(run, json!({"phase": "Completed"})).await;
    }
}

/// What a run is made from.
pub struct Spec<'a> {
    pub namespace: &'a str,
    pub task: &'a str,
    /// Field and name.
    pub target: (&'a str, &'a str),
    pub keep: &'a Keep,
    pub fetch: &'a Fetch,
}

impl Default for Spec<'_> {
    fn default() -> Self {
        static KEEP: Keep =
            Keep { artifacts: Vec::new(), outputs: Vec::new(), caches: Vec::new(), changes: false, publish: None };
        static FETCH: Fetch = Fetch { inputs: Vec::new(), caches: Vec::new() };
        Self { namespace: NAMESPACE, task: "task", target: ("templateRef", TEMPLATE), keep: &KEEP, fetch: &FETCH }
    }
}

#[derive(Clone, Debug)]
pub struct RunOf {
    pub namespace: String,
    pub task: String,
    pub uid: String,
    pub epoch: i64,
    pub pod: String,
    pub token: String,
}

impl RunOf {
    pub fn key(&self) -> Run {
        Run { task: Owner::new(&self.namespace, &self.uid).unwrap(), epoch: self.epoch }
    }
}

pub fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A run that keeps artefacts of these names.
pub fn keeps(artifacts: &[&str]) -> Keep {
    let artifacts: Vec<Value> = artifacts.iter().map(|name| json!({"name": name, "paths": ["**"]})).collect();
    read(json!({"artifacts": artifacts}))
}

/// A run that takes artefacts of other Tasks.
pub fn takes(inputs: &[(&str, &str)]) -> Fetch {
    let input = |(task, name): &(&str, &str)| json!({"fromTask": task, "artifact": name, "mountPath": "/in"});
    read(json!({"inputs": inputs.iter().map(input).collect::<Vec<_>>()}))
}

pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// A publication of bytes as a file set of one file. The depot reads manifests, and no archives.
pub fn publication(bytes: &[u8]) -> Publication {
    let length = bytes.len() as u64;
    let manifest = json!({
        "version": 1, "bytes": length, "frames": [{"at": 0, "offset": 0}],
        "entries": [{"path": "a.txt", "modified": [1, 2],
            "kind": {"file": {"bytes": 3, "sha256": sha256(bytes), "executable": false, "at": 512}}}],
    });
    Publication { digest: sha256(bytes), bytes: length, files: 1, manifest }
}

/// Bytes that no other call returns.
pub fn unique_bytes(length: usize) -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut state = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // SplitMix64, because compressible bytes would hide an error in lengths.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bytes.extend_from_slice(&mixed.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The refusal in an answer, after a look at its status.
pub async fn refusal(answer: Response) -> Refusal {
    let status = answer.status();
    let refusal: Refusal = answer.json().await.unwrap();
    assert!(status.is_client_error() || status.is_server_error(), "{status}");
    assert!(!refusal.message.is_empty());
    refusal
}
