//! Artefacts: files of the workspace, under a name.

use std::time::Instant;

use api::run::Artifact;
use domain::contract::collect::CollectFailure;
use fileset::Packed;

use super::collection::Collection;
use super::store::{StoreError, left_out};
use crate::depot::Depot;
use crate::text;

/// Patterns that a message quotes.
const MOST_PATTERNS: usize = 5;

impl Collection<'_> {
    pub(super) async fn artifact(&mut self, depot: &Depot, artifact: &Artifact) {
        let begin = Instant::now();
        let what = format!("artifact \"{}\"", artifact.name);
        match self.store_artifact(depot, artifact, &what).await {
            Ok(packed) => {
                tracing::info!(
                    "stored {what}: {}, {} as {}, in {}",
                    text::files(packed.files),
                    text::size(packed.content_bytes),
                    text::size(packed.bytes),
                    text::seconds(begin.elapsed())
                );
                self.stored(&artifact.name);
                self.notes(left_out(&what, &packed.skipped));
            }
            Err(StoreError::Nothing) if artifact.optional => {
                self.settled(&artifact.name);
                self.note(format!("nothing matches the paths of the optional {what}"));
            }
            Err(StoreError::Nothing) => {
                self.settled(&artifact.name);
                let message = format!(
                    "nothing matches the paths of {what} ({}); make the run write it, correct its paths, or make it optional",
                    patterns(&artifact.paths)
                );
                self.fail(CollectFailure::ArtifactMissing, message);
            }
            Err(error) => self.fail(CollectFailure::CollectFailed, format!("{what} cannot be stored: {error}")),
        }
    }

    /// Named only when all bytes are in the store.
    async fn store_artifact(&mut self, depot: &Depot, artifact: &Artifact, what: &str) -> Result<Packed, StoreError> {
        let (packed, notes) = self.store(depot, &artifact.paths, what).await?;
        self.notes(notes);
        self.patiently(what, async || depot.publish_artifact(&artifact.name, &packed).await).await?;
        Ok(packed)
    }
}

fn patterns(patterns: &[String]) -> String {
    let more = if patterns.len() > MOST_PATTERNS { ", …" } else { "" };
    patterns.iter().take(MOST_PATTERNS).map(String::as_str).collect::<Vec<_>>().join(", ") + more
}
