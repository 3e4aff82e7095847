//! What a Task on an Agent's server left: it is in the Agent's workspace, where the companion reads it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use domain::contract::companion::{self, CompareRequest, Compared};
use domain::contract::depot::Stored;
use domain::contract::paths;
use fileset::{HashingWriter, Packed};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::collection::Collection;
use super::store::StoreError;
use crate::companion::client::{Companion, CompanionError, Settings, patiently};
use crate::companion::frames::FramesError;
use crate::depot::{Depot, Upload};

/// Pause before a file set is asked for again.
const PAUSE: Duration = Duration::from_secs(2);
/// The companion need not know that nothing more is asked.
const GOODBYE: Duration = Duration::from_secs(5);

/// The Agent's workspace.
pub(super) struct Remote {
    companion: Companion,
    outputs_file: String,
}

impl Remote {
    pub(super) fn connect(settings: &Settings) -> Result<Self, CompanionError> {
        let outputs_file = format!("{}/{}/{}", paths::DELIVERIES, settings.task, paths::TASK_OUTPUTS);
        Ok(Self { companion: Companion::connect(settings)?, outputs_file })
    }

    /// Path of the file of outputs, relative to the Agent's workspace.
    pub(super) fn outputs_file(&self) -> String {
        self.outputs_file.clone()
    }

    pub(super) async fn outputs(&self, deadline: Instant) -> Result<Vec<u8>, CompanionError> {
        patiently(deadline, "the outputs", async || self.companion.outputs().await).await
    }

    /// Writes the patch of the whole change into a file. Returns sentences for the run.
    pub(super) async fn changes(
        &self,
        edited: Option<Vec<String>>,
        path: &Path,
        deadline: Instant,
    ) -> Result<Vec<String>, CompanionError> {
        let request = CompareRequest { edited };
        let compared = patiently(deadline, "the changes", async || {
            let mut file = File::create(path).map_err(|error| CompanionError::Frames(FramesError::Write(error)))?;
            self.companion.changes(&request, &mut file).await
        });
        compared.await.map(|Compared { notes }| notes)
    }

    pub(super) async fn end(&self) {
        if let Ok(Err(error)) = tokio::time::timeout(GOODBYE, self.companion.end()).await {
            tracing::warn!("the companion keeps what it knows of the run for a day: {error}");
        }
    }
}

impl Collection<'_> {
    /// As [`Collection::store`], of the Agent's workspace: the bytes go from the companion to the depot.
    pub(super) async fn store_remote(
        &self,
        depot: &Depot,
        remote: &Remote,
        patterns: &[String],
        what: &str,
    ) -> Result<(Packed, Vec<String>), StoreError> {
        loop {
            let upload = self.patiently(what, async || {
                let (companion, patterns) = (remote.companion.clone(), patterns.to_vec());
                // The thread waits for the connection, which this runtime drives.
                let runtime = Handle::current();
                depot.upload(move |out| runtime.block_on(pass_on(&companion, &patterns, out))).await
            });
            match upload.await? {
                Err(StoreError::Companion(error)) if error.is_temporary() && Instant::now() + PAUSE < self.deadline => {
                    tracing::warn!("{what}: {error}; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
                upload => return Ok(upload?.made),
            }
        }
    }
}

async fn pass_on(
    companion: &Companion,
    patterns: &[String],
    out: &mut dyn Write,
) -> Result<Upload<(Packed, Vec<String>)>, StoreError> {
    let mut out = HashingWriter::new(out);
    let companion::Packed { set, notes } = companion.file_set(patterns, &mut out).await?;
    let (digest, bytes) = out.finish();
    if set.manifest.entries.is_empty() {
        return Err(StoreError::Nothing);
    }
    if (digest, bytes) != (set.digest, set.bytes) {
        return Err(
            CompanionError::Frames(FramesError::Write(io::Error::other("the bytes changed on their way"))).into()
        );
    }
    Ok(Upload { stored: Stored { digest: digest.to_string(), bytes }, made: (set, notes) })
}
