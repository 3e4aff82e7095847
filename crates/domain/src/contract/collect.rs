//! What a run keeps and fetches, and what the containers that do it report.

use std::time::Duration;

use api::{
    kinds::task::{CacheHit, PublishedStatus},
    run::{Artifact, Cache, Input, Publish},
};
use serde::{Deserialize, Serialize};

/// What the housekeeper of a run keeps: `KUBEOPENCODE_KEEP`. The depot accepts nothing else from the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Keep {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Names of the outputs that the run must leave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// The caches that are saved after success. `prep` computed their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// The patch of the whole change is stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// Where the changes are pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<PublishPlan>,
}

impl Keep {
    pub fn is_empty(&self) -> bool {
        let Self { artifacts, outputs, caches, changes, publish } = self;
        artifacts.is_empty() && outputs.is_empty() && caches.is_empty() && !changes && publish.is_none()
    }

    /// Whether the run may send files to the depot.
    pub fn has_files(&self) -> bool {
        !self.artifacts.is_empty() || !self.caches.is_empty() || self.changes
    }
}

/// Where the housekeeper pushes the changes of a run. The credential is in the variables `GIT_USERNAME`,
/// `GIT_PASSWORD`, `GIT_SSH_KEY` and `GIT_SSH_KNOWN_HOSTS` of its container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishPlan {
    /// Directory of the checkout, absolute.
    pub directory: String,
    /// URL of the repository.
    pub repository: String,
    /// The ref that was checked out; empty for the default branch.
    #[serde(default)]
    pub reference: String,
    /// Absolute paths of what contexts put into the workspace: it is not part of the changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The branch, without placeholders.
    pub branch: String,
    /// Title of the Task, for the default commit message.
    pub title: String,
    /// `branch` is to be ignored here.
    pub settings: Publish,
}

/// What the container `prep` of a run fetches: `KUBEOPENCODE_FETCH`. The depot hands out nothing else to the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetch {
    /// `mountPath` is absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Caches whose keys are computed. Those with a policy other than `Push` are restored too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
}

impl Fetch {
    pub fn is_empty(&self) -> bool {
        let Self { inputs, caches } = self;
        inputs.is_empty() && caches.is_empty()
    }
}

/// Bytes of all outputs together, as JSON.
pub const MOST_OUTPUT_BYTES: usize = 64 << 10;
/// Number of outputs of a run.
pub const MOST_OUTPUTS: usize = 64;
/// Bytes of the patch of a run. The patch of a larger change is not kept.
pub const MOST_PATCH_BYTES: u64 = 10 << 20;
/// After a stop, the shim of a run whose patch is kept compares the workspace within this time. The grace period of the
/// Pod contains it.
pub const COMPARE_AFTER_STOP: Duration = Duration::from_secs(20);
/// Bytes of the files of an artefact or a cache.
pub const MOST_CONTENT_BYTES: u64 = 16 << 30;
/// Files of an artefact or a cache.
pub const MOST_FILES: u64 = 1_000_000;

/// The termination message of `prep` after success.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchReport {
    #[serde(default)]
    pub caches: Vec<FetchedCache>,
    /// Sentences about trouble that failed nothing.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What became of a cache before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchedCache {
    pub name: String,
    /// `None` if the cache was not to be restored, or has no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit: Option<CacheHit>,
    /// Bytes of the restored files.
    #[serde(default)]
    pub bytes: u64,
    #[serde(default)]
    pub seconds: u64,
}

/// The termination message of the housekeeper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectReport {
    /// Why the run fails, unless it failed before; `None` if all that the run had to leave is in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Names of the caches that were saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved_caches: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedStatus>,
    /// Sentences about trouble that failed nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub reason: CollectFailure,
    /// One sentence for a person.
    pub message: String,
}

/// Why collecting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CollectFailure {
    /// Nothing matches a required artefact.
    ArtifactMissing,
    /// A declared output was not written, or what was written cannot be read.
    OutputMissing,
    /// Files cannot be read or stored.
    CollectFailed,
    /// The changes could not be pushed, or the pull request could not be opened.
    PublishFailed,
    /// A word that this version does not know.
    #[serde(other)]
    Unknown,
}

impl FetchReport {
    /// Parses a termination message.
    pub fn read(message: &str) -> Option<Self> {
        serde_json::from_str(message.trim()).ok()
    }

    /// The report as a termination message of at most so many bytes. Notes are left out first, then caches.
    pub fn to_termination_message(&self, most_bytes: usize) -> String {
        let mut report = self.clone();
        shorten(&mut report.notes);
        loop {
            let text = serde_json::to_string(&report).unwrap_or_default();
            if text.len() <= most_bytes || (report.notes.pop().is_none() && report.caches.pop().is_none()) {
                return text;
            }
        }
    }
}

impl CollectReport {
    /// The report of a failure.
    pub fn failed(reason: CollectFailure, message: impl Into<String>) -> Self {
        Self { failure: Some(Failure { reason, message: message.into() }), ..Self::default() }
    }

    /// Parses a termination message.
    pub fn read(message: &str) -> Option<Self> {
        serde_json::from_str(message.trim()).ok()
    }

    /// The report as a termination message of at most so many bytes. Notes are left out first, then the names of caches,
    /// the sentence about the failure, and what was published.
    pub fn to_termination_message(&self, most_bytes: usize) -> String {
        let mut report = self.clone();
        shorten(&mut report.notes);
        if let Some(failure) = &mut report.failure {
            shorten(std::slice::from_mut(&mut failure.message));
        }
        loop {
            let text = serde_json::to_string(&report).unwrap_or_default();
            if text.len() <= most_bytes || !report.leave_out() {
                return text;
            }
        }
    }

    /// Leaves out what is needed least; `false` if only the reason of a failure is left.
    fn leave_out(&mut self) -> bool {
        if self.notes.pop().is_some() || self.saved_caches.pop().is_some() {
            return true;
        }
        match &mut self.failure {
            Some(Failure { message, .. }) if !message.is_empty() => {
                let half = message.chars().count() / 2;
                *message = message.chars().take(half).collect();
                true
            }
            _ => self.published.take().is_some(),
        }
    }
}

/// Cuts sentences so that each has room in a termination message.
fn shorten(sentences: &mut [String]) {
    const MOST: usize = 500;
    for sentence in sentences {
        if sentence.chars().count() > MOST {
            *sentence = sentence.chars().take(MOST).chain(['…']).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::termination::{MOST_BYTES, kept};

    #[test]
    fn a_report_survives_its_container() {
        let failed = CollectReport::failed(CollectFailure::ArtifactMissing, "nothing matches dist/**");
        for report in [CollectReport::default(), failed] {
            assert_eq!(CollectReport::read(&report.to_termination_message(MOST_BYTES)), Some(report));
        }
        let unknown = r#"{"failure":{"reason":"Later","message":"m"}}"#;
        assert_eq!(CollectReport::read(unknown), Some(CollectReport::failed(CollectFailure::Unknown, "m")));
        assert_eq!(CollectReport::read("killed"), None);
        assert_eq!(FetchReport::read("no such artefact"), None);
    }

    #[test]
    fn a_long_report_keeps_its_failure() {
        let long = "é\"\n".repeat(4000);
        let report = CollectReport {
            notes: vec![long.clone(); 20],
            saved_caches: (0..64).map(|number| format!("{number:063}")).collect(),
            ..CollectReport::failed(CollectFailure::CollectFailed, long.clone())
        };
        for containers in [1, 6, 24, 100] {
            let message = report.to_termination_message(kept(containers));
            assert!(message.len() <= kept(containers), "{containers} containers: {}", message.len());
            let read = CollectReport::read(&message).unwrap();
            assert_eq!(read.failure.unwrap().reason, CollectFailure::CollectFailed);
        }

        let fetched = FetchedCache { name: "n".repeat(63), hit: Some(CacheHit::Exact), bytes: 1, seconds: 1 };
        let report = FetchReport { caches: vec![fetched; 64], notes: vec![long; 20] };
        for containers in [1, 6, 24, 100] {
            let message = report.to_termination_message(kept(containers));
            assert!(message.len() <= kept(containers) && FetchReport::read(&message).is_some(), "{}", message.len());
        }
    }
}
