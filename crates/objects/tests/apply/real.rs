//! The real API server.

use kube::Client;
use kube::client::Body;
use serde_json::Value;
use testenv::{Cluster, Options};
use tokio::sync::OnceCell;

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

#[derive(Clone)]
pub struct Real {
    client: Client,
    pub namespace: String,
}

impl Real {
    /// An API server with our CustomResourceDefinitions and nobody else who writes.
    pub async fn start() -> Self {
        let cluster = CLUSTER
            .get_or_init(|| async {
                let cluster = testenv::start(Options::api_only()).await.unwrap();
                let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
                let output = cluster.kubectl_command(["create", "-f", directory]).output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let wait = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
                let output = cluster.kubectl_command(wait).output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                cluster
            })
            .await;
        Self { client: cluster.client().await.unwrap(), namespace: cluster.namespace().await.unwrap() }
    }

    /// One request; the answer with its status, whatever it is.
    pub async fn send(&self, method: &str, path: &str, content_type: &str, body: Option<&Value>) -> (u16, Value) {
        self.ask(method, path, content_type, "application/json", body).await
    }

    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("accept", accept)
            .header("user-agent", "differential/1.0")
            .body(Body::from(body.map(|body| body.to_string().into_bytes()).unwrap_or_default()))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}
