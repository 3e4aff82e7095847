//! What a run left in the store, for its final status.

use std::{collections::BTreeMap, time::Duration};

use api::{Task, TaskStatus, kinds::task::ArtifactStatus};
use domain::run::{
    outcome::{collected, fetched},
    results::{caches, small_outputs},
    terms::RunTerms,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use store::{Archive, Artifact, Run, RunResults};

use crate::{logs, shared::Shared};

/// The end of a run does not wait longer than this for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Adds artefacts, outputs, caches and the published branch to a final status, and emits an event for each trouble that
/// failed nothing.
pub async fn note(
    shared: &Shared,
    task: &Task,
    epoch: i64,
    terms: &RunTerms,
    pod: Option<&Pod>,
    after: &mut TaskStatus,
) {
    let (fetched, collected) = (pod.and_then(fetched), pod.and_then(collected));
    after.caches = caches(fetched.as_ref(), collected.as_ref());
    let notes = |notes: Option<Vec<String>>| {
        for note in notes.into_iter().flatten() {
            shared.telemetry.events.warning(task, "ResultNote", note);
        }
    };
    notes(fetched.map(|report| report.notes));
    if let Some(report) = collected {
        after.published = report.published;
        notes(Some(report.notes));
    }
    if terms.collect_timeout.is_none() {
        return;
    }
    let (Some(archive), Some(run)) = (&shared.records.archive, logs::run(task, epoch)) else { return };
    match read(&**archive, &run).await {
        Ok(RunResults { artifacts, outputs, patch: _ }) => {
            let all: Vec<ArtifactStatus> = artifacts.into_iter().map(status_of).collect();
            after.artifacts = Some(all).filter(|all| !all.is_empty());
            let outputs = outputs.and_then(|json| serde_json::from_slice::<BTreeMap<String, String>>(&json).ok());
            if let Some(outputs) = outputs.as_ref().and_then(small_outputs) {
                after.result.get_or_insert_default().outputs = Some(outputs);
            }
        }
        Err(error) => {
            tracing::warn!(record = run.record(), error, "the results of a run cannot be listed");
            let message = format!("the artifacts and outputs of the run cannot be listed now: {error}");
            shared.telemetry.events.warning(task, "ResultNote", message);
        }
    }
}

async fn read(archive: &dyn Archive, run: &Run) -> Result<RunResults, String> {
    match tokio::time::timeout(STORE_TIMEOUT, archive.results(run)).await {
        Err(_) => Err("the store does not answer".to_owned()),
        Ok(results) => results.map_err(|error| error.to_string()),
    }
}

fn status_of(artifact: Artifact) -> ArtifactStatus {
    let count = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    ArtifactStatus {
        reference: Some(artifact.digest.to_string()),
        bytes: count(artifact.bytes),
        files: count(artifact.files),
        digest: Some(artifact.digest.as_str().to_owned()),
        expires_at: artifact.expires.map(Time),
        name: artifact.name,
    }
}
