//! A server of one's own on a cluster that all tests share.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::ServiceAccount,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use server::{Access, Listening, LoginLinks, Oidc, Options};
use tokio::{sync::OnceCell, task::JoinHandle, time::timeout};

/// Nothing here takes longer, even on a loaded machine.
pub const LIMIT: Duration = Duration::from_mins(1);

pub struct Harness {
    pub url: String,
    pub namespace: String,
    pub admin: Client,
    pub links: LoginLinks,
    pub http: reqwest::Client,
    serving: JoinHandle<()>,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub fn options() -> Options {
    Options::local(([127, 0, 0, 1], 0).into())
}

/// A server that soon notices that a caller lost a right.
pub async fn start_watchful() -> Harness {
    start_with(Options { review_ttl: Duration::from_millis(200), ..options() }).await
}

/// A server with a namespace of its own.
pub async fn start() -> Harness {
    start_with(options()).await
}

pub async fn start_with(options: Options) -> Harness {
    start_for(options, None).await
}

/// As [`start_with`], for people of `provider` too.
pub async fn start_for(options: Options, provider: Option<Oidc>) -> Harness {
    let cluster = testenv::shared().await.unwrap();
    let admin = cluster.client().await.unwrap();
    install(&admin).await;
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig_path()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let listening = Listening::bind_with_provider(Access::Config(Box::new(config)), options, provider).await.unwrap();
    let (url, links) = (format!("http://{}", listening.address()), listening.login_links());
    let serving = tokio::spawn(async move {
        listening.serve(std::future::pending()).await.unwrap();
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(LIMIT)
        .build()
        .unwrap();
    let namespace = cluster.namespace().await.unwrap();
    let harness = Harness { url, namespace, admin, links, http, serving };
    harness
        .until("the server is ready", async || {
            harness.http.get(harness.path("/ready")).send().await.unwrap().status() == 200
        })
        .await;
    harness
}

/// Our kinds, once.
async fn install(admin: &Client) {
    static DONE: OnceCell<()> = OnceCell::const_new();
    DONE.get_or_init(|| async {
        for crd in api::crds() {
            let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            let request = http::Request::patch(format!("{path}?fieldManager=test&force=true"))
                .header("content-type", "application/apply-patch+yaml")
                .body(serde_json::to_vec(&crd).unwrap())
                .unwrap();
            admin.request::<Value>(request).await.unwrap();
        }
        for crd in api::crds() {
            let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
            let path = format!("/apis/kubeopencode.io/v1alpha1/{plural}");
            let request = || http::Request::get(&path).body(Vec::new()).unwrap();
            let served = async {
                while admin.request::<Value>(request()).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(LIMIT, served).await.unwrap();
        }
    })
    .await;
}

impl Harness {
    /// A path under `/api/v1`.
    pub fn path(&self, rest: &str) -> String {
        format!("{}/api/v1{rest}", self.url)
    }

    /// A path in the namespace of the test.
    pub fn here(&self, rest: &str) -> String {
        self.path(&format!("/namespaces/{}{rest}", self.namespace))
    }

    pub async fn until(&self, what: &str, mut check: impl AsyncFnMut() -> bool) {
        let done = async {
            while !check().await {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        };
        timeout(LIMIT, done).await.unwrap_or_else(|_| panic!("not in time: {what}"));
    }

    /// A user with these rules in the namespace of the test; returns a token.
    pub async fn user(&self, name: &str, rules: Value) -> String {
        self.user_in(&self.namespace, name, rules).await
    }

    pub async fn user_in(&self, namespace: &str, name: &str, rules: Value) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
        accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
        let role = json!({ "metadata": { "name": name }, "rules": rules });
        let all: Api<Role> = Api::namespaced(self.admin.clone(), namespace);
        all.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
        });
        let bindings: Api<RoleBinding> = Api::namespaced(self.admin.clone(), namespace);
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        let request = TokenRequest::default();
        let token = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        token.status.unwrap().token
    }

    /// Takes all rights from a user.
    pub async fn revoke(&self, name: &str) {
        let bindings: Api<RoleBinding> = Api::namespaced(self.admin.clone(), &self.namespace);
        bindings.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Makes the tokens of a user invalid.
    pub async fn remove_user(&self, name: &str) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), &self.namespace);
        accounts.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// A user who may do everything in the namespace of the test.
    pub async fn owner(&self) -> String {
        let token = self.user("owner", json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }])).await;
        // RBAC takes a moment to see new bindings.
        let path = self.here("/tasks");
        self.until("the owner may list", async || {
            self.http.get(&path).bearer_auth(&token).send().await.unwrap().status() == 200
        })
        .await;
        token
    }

    pub async fn send(&self, method: Method, url: &str, token: &str, body: Option<&Value>) -> (StatusCode, Value) {
        let mut request = self.http.request(method, url).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        answer(request.send().await.unwrap()).await
    }

    pub async fn get(&self, url: &str, token: &str) -> (StatusCode, Value) {
        self.send(Method::GET, url, token, None).await
    }

    pub async fn post(&self, url: &str, token: &str, body: &Value) -> (StatusCode, Value) {
        self.send(Method::POST, url, token, Some(body)).await
    }

    /// Writes a status, as the controllers do.
    pub async fn set_status(&self, plural: &str, name: &str, status: Value) {
        let path = format!("/apis/kubeopencode.io/v1alpha1/namespaces/{}/{plural}/{name}/status", self.namespace);
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(serde_json::to_vec(&json!({ "status": status })).unwrap())
            .unwrap();
        self.admin.request::<Value>(request).await.unwrap();
    }

    /// Creates an object of Kubernetes' own.
    pub async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let all: Api<K> = Api::namespaced(self.admin.clone(), &self.namespace);
        all.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub async fn patch_status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let all: Api<K> = Api::namespaced(self.admin.clone(), &self.namespace);
        all.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await.unwrap();
    }

    /// Waits until a list from memory shows `wanted` objects.
    pub async fn until_listed(&self, token: &str, path: &str, wanted: u64) {
        let url = self.here(path);
        self.until(&format!("{path} shows {wanted}"), async || self.get(&url, token).await.1["total"] == wanted).await;
    }
}

pub async fn answer(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// One message of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub event: String,
    pub id: String,
    pub data: Value,
}

/// Reads a stream of events.
pub struct Events {
    body: futures::stream::BoxStream<'static, reqwest::Result<Vec<u8>>>,
    buffer: String,
}

impl Events {
    pub fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let body = response.bytes_stream().map(|bytes| bytes.map(|bytes| bytes.to_vec())).boxed();
        Self { body, buffer: String::new() }
    }

    /// The next message; `None` at the end.
    pub async fn next(&mut self) -> Option<Message> {
        let next = async {
            loop {
                if let Some(end) = self.buffer.find("\n\n") {
                    let block: String = self.buffer.drain(..end + 2).collect();
                    let mut message = Message::default();
                    for line in block.lines() {
                        let Some((field, value)) = line.split_once(':') else { continue };
                        let value = value.strip_prefix(' ').unwrap_or(value);
                        match field {
                            "event" => value.clone_into(&mut message.event),
                            "id" => value.clone_into(&mut message.id),
                            "data" => message.data = serde_json::from_str(value).unwrap(),
                            _ => {}
                        }
                    }
                    if message.data != Value::Null {
                        return Some(message);
                    }
                    continue;
                }
                let bytes = self.body.next().await?.ok()?;
                self.buffer.push_str(&String::from_utf8(bytes).unwrap());
            }
        };
        timeout(LIMIT, next).await.expect("no message in time")
    }
}
