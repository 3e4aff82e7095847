//! A server for a test, and the things that tests do with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client};
use kubeopencode_apiserver::{ApiServer, Options, Storage};
use serde_json::{Value, json};
use tokio::process::Command;

/// Longer than anything here should take, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// A server that listens, with a directory of its own.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) kubeconfig: PathBuf,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = ApiServer::open(Options { storage: Storage::Memory, ..Options::default() }).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig, listener.local_addr().unwrap()).unwrap();
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve(listener, std::future::pending()).await.unwrap() }
        });
        Self { server, directory, kubeconfig, serving }
    }

    /// The same, with our own kinds.
    pub(crate) async fn with_definitions() -> Self {
        let world = Self::start().await;
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        world.kubectl(&["apply", "-f", definitions.to_str().unwrap()]).await.unwrap();
        world
    }

    /// A client that goes through TLS.
    pub(crate) async fn remote(&self) -> Client {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// The output of kubectl, or its error output.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(arguments, &[]).await
    }

    /// As kubectl spoke before 1.31.
    pub(crate) async fn older_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(arguments, &[("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")]).await
    }

    async fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
        let program = testenv::Program::Kubectl.obtain().unwrap();
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).env("HOME", self.directory.path());
        command.envs(environment.iter().copied()).kill_on_drop(true);
        let output = tokio::time::timeout(LIMIT, command.output()).await.expect("kubectl is too slow").unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Applies a manifest and returns kubectl's output.
    pub(crate) async fn apply(&self, manifest: &Value, arguments: &[&str]) -> Result<String, String> {
        let file = self.directory.path().join("manifest.json");
        std::fs::write(&file, manifest.to_string()).unwrap();
        let mut all = vec!["apply", "-f", file.to_str().unwrap()];
        all.extend(arguments);
        self.kubectl(&all).await
    }
}

/// A server without a listener.
pub(crate) async fn in_process() -> (ApiServer, Client) {
    let server = ApiServer::open(Options::default()).await.unwrap();
    let client = server.client();
    (server, client)
}

/// A kind for tests: Things of example.com, with a status.
pub(crate) fn things_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["tg"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "integer", "minimum": 0, "default": 1},
                                "color": {"type": "string"},
                            },
                            "x-kubernetes-validations": [
                                {"rule": "!has(self.color) || self.color != 'plaid'", "message": "plaid is no color"},
                            ],
                        },
                        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
                    },
                }},
            }],
        },
    })
}

/// Things in the namespace `default`.
pub(crate) fn things(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Thing");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk_with_plural(&kind, "things"))
}

/// A server without a listener that knows Things.
pub(crate) async fn with_things() -> (ApiServer, Client) {
    let (server, client) = in_process().await;
    let definition = serde_json::from_value(things_definition()).unwrap();
    let definitions: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
        Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    (server, client)
}

/// A Thing.
#[allow(clippy::needless_pass_by_value, reason = "every caller writes the value on the spot")]
pub(crate) fn thing(name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

/// The code and the message of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message),
        other => panic!("{other}"),
    }
}
