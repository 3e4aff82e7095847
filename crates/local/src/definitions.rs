//! Installs the CustomResourceDefinitions of KubeOpenCode. They are embedded as generated, and not sent again while
//! they are unchanged, to keep the start fast.

use std::path::Path;

use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot install CustomResourceDefinition {name}: {why}")]
    Refused { name: String, why: kube::Error },
    #[error("invalid embedded CustomResourceDefinition: {0}")]
    Unreadable(#[source] serde_json::Error),
    #[error("CustomResourceDefinition {0} was not established")]
    NotEstablished(String),
}

/// One definition per line, written by `make generate`: generating them from the types takes longer than the rest of
/// the start.
const OURS: &str = include_str!("../definitions.jsonl");

/// The fields of a definition that are read here.
#[derive(Deserialize)]
struct Definition {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    /// Set if the API server already has the definition.
    resource_version: Option<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// Installs the definitions, unless `hash_file` contains their hash. Returns when they are established.
pub(crate) async fn install(client: &Client, hash_file: Option<&Path>) -> Result<(), Error> {
    install_all(client, OURS, hash_file).await
}

async fn install_all(client: &Client, all: &str, hash_file: Option<&Path>) -> Result<(), Error> {
    let hash = format!("{:x}", Sha256::digest(all));
    if hash_file.is_some_and(|hash_file| std::fs::read_to_string(hash_file).is_ok_and(|found| found == hash)) {
        return Ok(());
    }
    let mut installing = JoinSet::new();
    for definition in all.lines() {
        let (client, definition) = (client.clone(), definition.to_owned());
        // Parsing a schema is CPU-bound, so each definition is a task.
        installing.spawn(async move { install_one(&client, definition).await });
    }
    for installed in installing.join_all().await {
        installed?;
    }
    if let Some(hash_file) = hash_file {
        // Only an optimization: without the file they are installed again at the next start.
        let _ = std::fs::write(hash_file, hash);
    }
    Ok(())
}

/// Creates or replaces a definition. Not with server-side apply: tracking the ownership of a thousand fields takes
/// longer than the rest of the start.
async fn install_one(client: &Client, definition: String) -> Result<(), Error> {
    let name = serde_json::from_str::<Definition>(&definition).map_err(Error::Unreadable)?.metadata.name;
    let path = format!("{DEFINITIONS}/{name}");
    let refused = |why| Error::Refused { name: name.clone(), why };
    let installed = match send(client, Request::post(DEFINITIONS), definition.clone()).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let there = send(client, Request::get(&path), String::new()).await.map_err(refused)?;
            let mut object: Value = serde_json::from_str(&definition).map_err(Error::Unreadable)?;
            object["metadata"]["resourceVersion"] = json!(there.metadata.resource_version);
            send(client, Request::put(&path), object.to_string()).await
        }
        other => other,
    };
    // The embedded server establishes a kind within the request.
    let conditions = installed.map_err(refused)?.status.conditions;
    if conditions.iter().any(|condition| condition.kind == "Established" && condition.status == "True") {
        Ok(())
    } else {
        Err(Error::NotEstablished(name))
    }
}

async fn send(client: &Client, request: http::request::Builder, text: String) -> Result<Definition, kube::Error> {
    let request = request.header(http::header::CONTENT_TYPE, "application/json").body(text.into_bytes());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use apiserver::{ApiServer, Options};

    #[tokio::test]
    async fn definitions_are_replaced_when_they_changed_and_left_alone_when_they_did_not() {
        let server = ApiServer::open(Options::default()).await.unwrap();
        let client = server.client();
        let dir = tempfile::tempdir().unwrap();
        let hash_file = dir.path().join("hash_file");
        let versions = async || {
            let list: Value = client.request(Request::get(DEFINITIONS).body(Vec::new()).unwrap()).await.unwrap();
            let items = list["items"].as_array().unwrap().clone();
            items.iter().map(|item| item["metadata"]["resourceVersion"].to_string()).collect::<Vec<_>>()
        };
        install(&client, Some(&hash_file)).await.unwrap();
        let first = versions().await;
        install(&client, Some(&hash_file)).await.unwrap();
        assert_eq!(versions().await, first);
        // Written by another version of this program.
        let others = OURS.replace("\"shortNames\":[", "\"shortNames\":[\"another\",");
        install_all(&client, &others, Some(&hash_file)).await.unwrap();
        assert!(versions().await.iter().all(|version| !first.contains(version)));
    }

    #[tokio::test]
    async fn a_definition_whose_names_are_taken_is_named() {
        let server = ApiServer::open(Options::default()).await.unwrap();
        let client = server.client();
        let mut taken: Value = OURS.lines().map(|line| serde_json::from_str(line).unwrap()).next().unwrap();
        assert_eq!(taken["spec"]["names"]["plural"], "tasks");
        taken["metadata"]["name"] = json!("chores.kubeopencode.io");
        taken["spec"]["names"]["plural"] = json!("chores");
        install_all(&client, &taken.to_string(), None).await.unwrap();
        let error = install(&client, None).await.unwrap_err().to_string();
        assert_eq!(error, "CustomResourceDefinition tasks.kubeopencode.io was not established");
    }
}
