//! What a run left in the store, for its final status.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use api::{Task, TaskStatus, kinds::task::ArtifactStatus};
use domain::run::{
    outcome::{Ending, Evidence, collected, fetched, results_lost},
    results::{caches, small_outputs},
    terms::RunTerms,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use store::{Archive, Artifact, Run, RunResults};
use tokio::time::Instant;

use crate::{logs, shared::Shared};

/// Time for one answer of the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// The end of a run does not wait longer than this for a store that fails.
const STORE_LIMIT: Duration = Duration::from_mins(2);
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Runs whose results could not be read, since the first attempt.
#[derive(Debug, Default)]
pub struct Unread(Mutex<HashMap<Run, Instant>>);

impl Unread {
    /// When to try again; `None` if the time is over.
    fn failed(&self, run: &Run, now: Instant) -> Option<Instant> {
        let mut unread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Runs that ended without their results, and deleted ones.
        unread.retain(|_, since| now < *since + 2 * STORE_LIMIT);
        let since = *unread.entry(run.clone()).or_insert(now);
        let waited = now.duration_since(since);
        (waited < STORE_LIMIT).then(|| (now + waited.max(FIRST_PAUSE)).min(since + STORE_LIMIT))
    }

    fn answered(&self, run: &Run) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }
}

/// Whether the results of a run were read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// The store fails. The Task is reconciled at this time.
    Until(Instant),
    /// Read, or there is nothing to wait for.
    Over(RunResults),
}

/// Reads what a run left in the store.
pub async fn read(shared: &Shared, task: &Task, epoch: i64, terms: &RunTerms) -> Reading {
    let nothing = Reading::Over(RunResults::default());
    if terms.collect_timeout.is_none() {
        return nothing;
    }
    let (Some(archive), Some(run)) = (&shared.records.archive, logs::run(task, epoch)) else { return nothing };
    let error = match ask(&**archive, &run).await {
        Ok(results) => {
            shared.records.unread.answered(&run);
            return Reading::Over(results);
        }
        Err(error) => error,
    };
    tracing::warn!(record = run.record(), error, "the results of a run cannot be listed");
    if let Some(again) = shared.records.unread.failed(&run, Instant::now()) {
        return Reading::Until(again);
    }
    let message = format!("the status does not list the artifacts and outputs of the run: {error}");
    shared.telemetry.events.warning(task, "ResultNote", message);
    nothing
}

async fn ask(archive: &dyn Archive, run: &Run) -> Result<RunResults, String> {
    match tokio::time::timeout(STORE_TIMEOUT, archive.results(run)).await {
        Err(_) => Err("the store does not answer".to_owned()),
        Ok(results) => results.map_err(|error| error.to_string()),
    }
}

/// Adds artefacts, outputs, caches and the published branch to a final status, and emits an event for each trouble that
/// did not decide how the run ended.
pub fn note(
    shared: &Shared,
    task: &Task,
    evidence: &Evidence<'_>,
    ending: &Ending,
    results: RunResults,
    after: &mut TaskStatus,
) {
    let (fetched, collected) = (evidence.pod.and_then(fetched), evidence.pod.and_then(collected));
    after.caches = caches(fetched.as_ref(), collected.as_ref());
    let lost = results_lost(evidence, ending);
    let before = fetched.map(|report| report.notes).unwrap_or_default();
    let (published, notes) = collected.map(|report| (report.published, report.notes)).unwrap_or_default();
    for note in before.into_iter().chain(lost).chain(notes) {
        shared.telemetry.events.warning(task, "ResultNote", note);
    }
    after.published = published;
    let RunResults { artifacts, outputs, patch: _ } = results;
    let all: Vec<ArtifactStatus> = artifacts.into_iter().map(status_of).collect();
    after.artifacts = Some(all).filter(|all| !all.is_empty());
    let outputs = outputs.and_then(|json| serde_json::from_slice::<BTreeMap<String, String>>(&json).ok());
    if let Some(outputs) = outputs.as_ref().and_then(small_outputs) {
        after.result.get_or_insert_default().outputs = Some(outputs);
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

#[cfg(test)]
mod tests {
    use store::Owner;

    use super::*;

    #[test]
    fn a_store_that_fails_is_asked_again_for_a_while() {
        let unread = Unread::default();
        let run = |epoch| Run { task: Owner::new("default", "uid-1").unwrap(), epoch };
        let start = Instant::now();
        let mut asked = vec![0];
        let mut now = start;
        while let Some(again) = unread.failed(&run(1), now) {
            now = again;
            asked.push(now.duration_since(start).as_secs());
        }
        assert_eq!(asked, [0, 1, 2, 4, 8, 16, 32, 64, 120]);
        assert_eq!(unread.failed(&run(1), now + FIRST_PAUSE), None, "it is given up for good");
        assert!(unread.failed(&run(2), now).is_some());
        unread.answered(&run(2));
        assert!(unread.failed(&run(3), now + 2 * STORE_LIMIT).is_some());
        assert_eq!(unread.0.lock().unwrap().len(), 1);
    }
}
