//! Making our kinds known to an API server.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{ApiServer, Kind, Request};

/// A server establishes a definition in less than a second; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

/// Installs every definition and returns when the server serves every kind.
pub async fn install(server: &dyn ApiServer) -> anyhow::Result<()> {
    let crds = api::crds();
    for crd in &crds {
        server.send(Request::apply(&path(crd), crd)).await?.granted().with_context(|| path(crd))?;
    }
    let started = Instant::now();
    for (crd, kind) in crds.iter().zip(Kind::all()) {
        loop {
            let stored = server.send(Request::get(path(crd))).await?.granted()?;
            if is_established(&stored) && server.send(Request::get(kind.path("default"))).await?.is_success() {
                break;
            }
            let conditions = &stored["status"]["conditions"];
            anyhow::ensure!(
                started.elapsed() < LIMIT,
                "{} is not served after {LIMIT:?}; its conditions: {conditions}",
                kind.name
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Makes a namespace of this name.
pub async fn namespace(server: &dyn ApiServer, name: &str) -> anyhow::Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    server.send(Request::apply(&format!("/api/v1/namespaces/{name}"), &object)).await?.granted()?;
    Ok(())
}

fn path(crd: &Value) -> String {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

fn is_established(crd: &Value) -> bool {
    let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
