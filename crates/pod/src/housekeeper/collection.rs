//! The steps of collecting within their time limit, and the report on them.

use std::time::Duration;

use api::run::ArtifactWhen;
use domain::contract::collect::{CollectFailure, CollectReport, Failure};
use domain::contract::paths;
use domain::contract::report::{RunReport, Verdict};
use tokio::time::{Instant, timeout_at};

use super::remote::Remote;
use super::{Settings, results};
use crate::depot::{Depot, DepotError, retry};
use crate::text;

/// Bytes of the report of the run. It fits a termination message.
const MOST_REPORT_BYTES: u64 = 64 << 10;
/// How `outputs` and `changes` are called beside the names of artefacts.
pub(super) const OUTPUTS: &str = "outputs";
pub(super) const CHANGES: &str = "changes";

/// What was collected so far.
pub(super) struct Collection<'a> {
    pub settings: &'a Settings,
    pub deadline: Instant,
    /// Requests to the depot are tried again until then.
    retry_until: Instant,
    /// The report of the run; `None` if the agent was killed before it left one.
    pub run: Option<RunReport>,
    pub report: CollectReport,
    depot: Option<Depot>,
    /// The Agent's workspace, for a Task on its server.
    pub(super) remote: Option<Remote>,
    stored: Vec<String>,
    /// What is still to be stored.
    missing: Vec<String>,
}

impl<'a> Collection<'a> {
    pub fn begin(settings: &'a Settings, note: Option<String>) -> Self {
        let deadline = Instant::now() + settings.timeout;
        let mut collection = Self {
            settings,
            deadline,
            retry_until: deadline,
            run: None,
            report: CollectReport::default(),
            depot: None,
            remote: None,
            stored: Vec::new(),
            missing: Vec::new(),
        };
        collection.notes(note);
        match results::read(&settings.result(paths::REPORT_COPY), MOST_REPORT_BYTES) {
            Ok(text) => collection.run = text.and_then(|text| RunReport::read(&String::from_utf8_lossy(&text))),
            Err(error) => collection.note(format!("the report of the run cannot be read: {error}")),
        }
        collection.missing = collection.due();
        let end = if collection.succeeded() { "the run succeeded" } else { "the run failed" };
        tracing::info!("{end}; storing its results within {}", text::duration(settings.timeout));
        collection
    }

    /// Runs every step.
    pub async fn collect(mut self) -> CollectReport {
        match self.settings.depot.as_ref().map(Depot::connect).transpose() {
            Ok(depot) => self.depot = depot,
            Err(error) => self.fail(CollectFailure::CollectFailed, error.to_string()),
        }
        match self.settings.companion.as_ref().map(Remote::connect).transpose() {
            Ok(remote) => self.remote = remote,
            Err(error) => self.fail(CollectFailure::CollectFailed, error.to_string()),
        }
        let deadline = self.deadline;
        if timeout_at(deadline, self.steps()).await.is_err() {
            let message =
                format!("collecting took longer than {} (collectTimeout)", text::duration(self.settings.timeout));
            if self.missing.is_empty() {
                self.note(message);
            } else {
                self.fail(CollectFailure::CollectFailed, message);
            }
        }
        self.concluded()
    }

    /// The most valuable first: what comes last may be cut off by the end of the time.
    async fn steps(&mut self) {
        if let Some(depot) = self.depot.clone() {
            match self.time_to_publish() {
                None => self.store_results(&depot).await,
                Some(kept) => {
                    let time = self.settings.timeout.saturating_sub(kept);
                    self.retry_until = self.deadline - kept;
                    if timeout_at(self.retry_until, self.store_results(&depot)).await.is_err() {
                        let time = text::duration(time);
                        let message =
                            format!("storing took longer than {time}; the rest of the time is for publishing");
                        self.fail(CollectFailure::CollectFailed, message);
                    }
                    self.retry_until = self.deadline;
                }
            }
        }
        self.publish().await;
        if let Some(depot) = self.depot.clone() {
            self.caches(&depot).await;
        }
        if let Some(remote) = &self.remote {
            remote.end().await;
        }
    }

    async fn store_results(&mut self, depot: &Depot) {
        self.outputs(depot).await;
        let artifacts = &self.settings.keep.artifacts;
        for artifact in artifacts.iter().filter(|artifact| self.is_due(artifact.when)).collect::<Vec<_>>() {
            self.artifact(depot, artifact).await;
        }
        self.changes(depot).await;
    }

    /// The part of the time that is kept for publishing, which does not need the depot; `None` if nothing is published.
    fn time_to_publish(&self) -> Option<Duration> {
        let Settings { keep, publishing_time, .. } = self.settings;
        keep.publish.as_ref().filter(|plan| self.publishes(plan)).map(|_| *publishing_time)
    }

    fn concluded(mut self) -> CollectReport {
        let names = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        if let Some(Failure { reason: CollectFailure::CollectFailed, message }) = &mut self.report.failure
            && !self.missing.is_empty()
        {
            *message = format!("{message}; stored: {}; missing: {}", names(&self.stored), names(&self.missing));
        }
        self.report
    }

    /// Names of everything that is to be stored.
    fn due(&self) -> Vec<String> {
        let keep = &self.settings.keep;
        let artifacts = keep.artifacts.iter().filter(|artifact| self.is_due(artifact.when));
        let outputs = (!keep.outputs.is_empty()).then_some(OUTPUTS);
        let changes = keep.changes.then_some(CHANGES);
        let publish = keep.publish.as_ref().filter(|plan| self.publishes(plan)).map(|plan| plan.branch.as_str());
        let artifacts = artifacts.map(|artifact| artifact.name.as_str());
        outputs.into_iter().chain(artifacts).chain(changes).chain(publish).map(str::to_owned).collect()
    }

    pub fn succeeded(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.outcome == Verdict::Succeeded)
    }

    /// The run did not write what its Task declares, so its success is none.
    pub fn left_too_little(&self) -> bool {
        let failure = self.report.failure.as_ref().map(|failure| failure.reason);
        matches!(failure, Some(CollectFailure::ArtifactMissing | CollectFailure::OutputMissing))
    }

    fn is_due(&self, when: ArtifactWhen) -> bool {
        match when {
            ArtifactWhen::OnSuccess => self.succeeded(),
            ArtifactWhen::OnFailure => !self.succeeded(),
            ArtifactWhen::Always => true,
        }
    }

    /// Something is in the store.
    pub fn stored(&mut self, name: &str) {
        self.settled(name);
        self.stored.push(name.to_owned());
    }

    /// Nothing is to be stored under this name after all.
    pub fn settled(&mut self, name: &str) {
        self.missing.retain(|missing| missing != name);
    }

    /// The first failure counts; the others are notes.
    pub fn fail(&mut self, reason: CollectFailure, message: String) {
        tracing::error!("{message}");
        match self.report.failure {
            None => self.report.failure = Some(Failure { reason, message }),
            Some(_) => self.report.notes.push(message),
        }
    }

    pub fn note(&mut self, message: String) {
        self.notes([message]);
    }

    pub fn notes(&mut self, messages: impl IntoIterator<Item = String>) {
        for message in messages {
            // Of each artefact of a run on a shared workspace.
            if self.report.notes.contains(&message) {
                continue;
            }
            tracing::warn!("{message}");
            self.report.notes.push(message);
        }
    }

    /// Repeats a request until it succeeds, fails for good, or the time is over.
    pub async fn patiently<T>(
        &self,
        what: &str,
        attempt: impl AsyncFnMut() -> Result<T, DepotError>,
    ) -> Result<T, DepotError> {
        retry::until(self.retry_until, what, attempt).await
    }
}
