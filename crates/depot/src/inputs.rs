//! Inputs: artefacts of other Tasks.

use std::sync::Arc;

use api::{TaskPhase, TaskStatus};
use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use domain::run::outcome::is_stopped;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, header};
use jiff::Timestamp;
use kube::Resource as _;
use serde::Serialize;
use store::{Archive as _, Artifact, ArtifactExpiry, ArtifactExpiryCause, Owner, Run};

use crate::{
    caller::{Caller, CallerOf},
    content::content,
    refused::{Answer, Refused},
    routes::Segments,
    state::Shared,
};

/// `GET /v1/inputs/{task}/{artifact}`
pub(crate) async fn find(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    Segments([task, artifact]): Segments<2>,
) -> Answer<Response> {
    let left = left(&shared, &caller, &task, &artifact).await?;
    let found = left.newest(&task, &artifact)?;
    let run = Run { task: left.owner.clone(), epoch: found.epoch };
    let manifest = shared.store.manifest_blob(&run, &artifact).await.map_err(|error| Refused::store(&error))?;
    let manifest = manifest.ok_or_else(|| expired(&task, found, None))?;
    let head = Head { key: None, digest: found.digest.as_str(), bytes: found.bytes }.open()?;
    let length = head.len() as u64 + manifest.bytes + 1;
    let manifest =
        shared.store.read_blob(&manifest.digest, 0..u64::MAX).await.map_err(|error| Refused::store(&error))?;
    let parts = stream::iter([Ok(head)]).chain(manifest).chain(stream::iter([Ok(Bytes::from_static(b"}"))]));
    let headers = [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_LENGTH, length.to_string())];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// `GET /v1/inputs/{task}/{artifact}/content?digest=DIGEST`
pub(crate) async fn content_of(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    Segments([task, artifact]): Segments<2>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let left = left(&shared, &caller, &task, &artifact).await?;
    let mut query = form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let found = match query.find(|(name, _)| name == "digest") {
        Some((_, digest)) => left.with_digest(&task, &artifact, &digest)?,
        None => left.newest(&task, &artifact)?,
    };
    let read = async |range| shared.store.read_blob(&found.digest, range).await;
    content(&found.digest, found.bytes, &headers, read).await
}

/// What the runs of a Task left.
struct Left {
    owner: Owner,
    /// The runs that were successful, the newest first.
    successful: Vec<i64>,
    /// Those of the wanted name.
    artifacts: Vec<Artifact>,
}

async fn left(shared: &Shared, caller: &Caller, task: &str, name: &str) -> Answer<Left> {
    caller.may_take(task, name)?;
    let namespace = caller.namespace();
    let found = shared.callers.task(namespace, task).await?;
    let gone = || Refused::not_found(format!("the artifact '{name}' is not available: Task '{task}' does not exist"));
    let found = found.ok_or_else(gone)?;
    let owner = found.meta().uid.as_deref().and_then(|uid| Owner::new(namespace, uid)).ok_or_else(gone)?;
    let records = shared.store.records(&owner).await.map_err(|error| Refused::store(&error))?;
    let mut artifacts = shared.store.artifacts(&owner).await.map_err(|error| Refused::store(&error))?;
    artifacts.retain(|artifact| artifact.name == name);
    let successful = records.iter().rev().filter_map(|(epoch, record)| succeeded(record).then_some(*epoch)).collect();
    Ok(Left { owner, successful, artifacts })
}

impl Left {
    /// The artefact of the newest successful run, which may have left none.
    fn newest(&self, task: &str, name: &str) -> Answer<&Artifact> {
        let Some(epoch) = self.successful.first() else {
            return Err(Refused::not_found(format!(
                "the artifact '{name}' of Task '{task}' does not exist: no run of the Task was successful"
            )));
        };
        let artifact = self.artifacts.iter().find(|artifact| artifact.epoch == *epoch).ok_or_else(|| {
            Refused::not_found(format!(
                "the artifact '{name}' of Task '{task}' does not exist: its last successful run, {epoch}, left none of this name"
            ))
        })?;
        unexpired(task, artifact)
    }

    /// The artefact that a reader found before, also if another run was successful since.
    fn with_digest(&self, task: &str, name: &str, digest: &str) -> Answer<&Artifact> {
        let of_success = |artifact: &&Artifact| self.successful.contains(&artifact.epoch);
        let mut fitting = self.artifacts.iter().filter(of_success).filter(|it| it.digest.as_str() == digest);
        let first = fitting.next().ok_or_else(|| {
            Refused::not_found(format!("no successful run of Task '{task}' left these bytes as the artifact '{name}'"))
        })?;
        let unexpired = |artifact| unexpired(task, artifact);
        unexpired(first).or_else(|refused| fitting.find_map(|artifact| unexpired(artifact).ok()).ok_or(refused))
    }
}

fn unexpired<'a>(task: &str, artifact: &'a Artifact) -> Answer<&'a Artifact> {
    match expiry(artifact, Timestamp::now()) {
        None => Ok(artifact),
        Some(expiry) => Err(expired(task, artifact, Some(expiry))),
    }
}

/// Whether a run did what it was to do, as its record says.
fn succeeded(record: &[u8]) -> bool {
    match serde_json::from_slice::<TaskStatus>(record) {
        Ok(status) => status.phase == Some(TaskPhase::Completed) && !is_stopped(&status),
        Err(error) => {
            tracing::warn!(%error, "the record of a run cannot be read");
            false
        }
    }
}

/// When and why an artefact expired, also where nothing has removed its bytes yet.
fn expiry(artifact: &Artifact, now: Timestamp) -> Option<ArtifactExpiry> {
    let due = artifact.expires.filter(|due| *due <= now);
    artifact.expired.or(due.map(|at| ArtifactExpiry { at, cause: ArtifactExpiryCause::Due }))
}

fn expired(task: &str, artifact: &Artifact, expiry: Option<ArtifactExpiry>) -> Refused {
    let Artifact { name, epoch, .. } = artifact;
    let when = expiry.map_or_else(|| "expired a moment ago".to_owned(), |expiry| expiry.to_string());
    Refused::not_found(format!("the artifact '{name}' of Task '{task}', run {epoch}, {when}"))
}

/// [`domain::contract::depot::Found`] without its manifest, which may be large and is stored as JSON.
#[derive(Serialize)]
pub(crate) struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<&'a str>,
    pub(crate) digest: &'a str,
    pub(crate) bytes: u64,
}

impl Head<'_> {
    /// The JSON object up to the value of its last field, the manifest.
    pub(crate) fn open(&self) -> Answer<Bytes> {
        let mut json = serde_json::to_string(self).map_err(|error| Refused::malformed(error.to_string()))?;
        json.pop();
        json.push_str(r#","manifest":"#);
        Ok(json.into())
    }
}

#[cfg(test)]
mod tests {
    use domain::contract::depot::Found;
    use serde_json::json;
    use store::Digest;

    use super::*;

    #[test]
    fn the_answer_is_what_the_protocol_says() {
        for key in [None, Some("go-\"1\"")] {
            let head = Head { key, digest: "d", bytes: 5 }.open().unwrap();
            let json = [&head[..], br#"{"entries":[]}"#, b"}"].concat();
            let manifest = json!({"entries": []});
            let expected = Found { key: key.map(str::to_owned), digest: "d".to_owned(), bytes: 5, manifest };
            assert_eq!(serde_json::from_slice::<Found>(&json).unwrap(), expected);
        }
    }

    #[test]
    fn a_run_that_was_stopped_is_no_success() {
        let check = |record: &str, expected: bool| assert_eq!(succeeded(record.as_bytes()), expected, "{record}");
        check(r#"{"phase":"Completed"}"#, true);
        check(r#"{"phase":"Completed","reason":"UserStopped"}"#, false);
        check(r#"{"phase":"Completed","reason":"Timeout"}"#, false);
        check(r#"{"phase":"Failed"}"#, false);
        check("{", false);
    }

    #[test]
    fn an_artefact_whose_time_is_over_counts_as_expired() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let artifact = |expires: Option<i64>, expired: Option<ArtifactExpiry>| Artifact {
            epoch: 1,
            name: "dist".into(),
            digest: Digest::of(b""),
            bytes: 0,
            files: 0,
            stored: at(0),
            expires: expires.map(at),
            expired,
        };
        let removed = ArtifactExpiry { at: at(5), cause: ArtifactExpiryCause::Space };
        let due = ArtifactExpiry { at: at(10), cause: ArtifactExpiryCause::Due };
        assert_eq!(expiry(&artifact(None, None), at(100)), None);
        assert_eq!(expiry(&artifact(Some(10), None), at(9)), None);
        assert_eq!(expiry(&artifact(Some(10), None), at(10)), Some(due));
        assert_eq!(expiry(&artifact(Some(10), Some(removed)), at(10)), Some(removed));
    }
}
