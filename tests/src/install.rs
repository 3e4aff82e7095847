//! Making our kinds known to an API server.

use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{ApiServer, Kind, Request};

/// Where definitions are.
const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A server establishes a definition in less than a second; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

/// Installs every definition and returns when the server serves every kind.
pub async fn install(server: &dyn ApiServer) -> anyhow::Result<()> {
    let crds = api::crds();
    try_join_all(crds.iter().map(|crd| define(server, crd))).await?;
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

/// Makes one definition as it is given, whatever is stored now. It is not applied: comparing the owners of a thousand
/// fields takes longer than everything else.
async fn define(server: &dyn ApiServer, crd: &Value) -> anyhow::Result<()> {
    let response = server.send(Request::create_at(COLLECTION, crd)).await?;
    if response.code != 409 {
        response.granted().with_context(|| path(crd))?;
        return Ok(());
    }
    let stored = server.send(Request::get(path(crd))).await?.granted()?;
    let mut wanted = crd.clone();
    wanted["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    server.send(Request::replace(&path(crd), &wanted)).await?.granted().with_context(|| path(crd))?;
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
    format!("{COLLECTION}/{name}")
}

fn is_established(crd: &Value) -> bool {
    let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
