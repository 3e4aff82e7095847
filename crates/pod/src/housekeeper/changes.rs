//! The patch of the whole change of the run, which the shim wrote.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use api::kinds::task::TaskChanges;
use domain::contract::collect::{CollectFailure, MOST_PATCH_BYTES};
use domain::contract::depot::Stored;
use domain::contract::paths;
use domain::contract::report::RunReport;
use fileset::HashingWriter;

use super::collection::{CHANGES, Collection};
use super::results;
use crate::companion::client::CompanionError;
use crate::depot::{Depot, DepotError, Upload};
use crate::text;

/// Bytes of the list of files that a session edited.
const MOST_EDITS_BYTES: u64 = 8 << 20;
/// The patch of an Agent's workspace, in our own volume.
const PATCH_FILE: &str = "changes.patch";

impl Collection<'_> {
    pub(super) async fn changes(&mut self, depot: &Depot) {
        if !self.settings.keep.changes {
            return;
        }
        let path = match self.patch().await {
            Ok(path) => path,
            Err(error) => {
                let message = format!("the changes cannot be stored: {error}");
                return self.fail(CollectFailure::CollectFailed, message);
            }
        };
        let bytes = match results::open(&path).and_then(|file| file.map(|file| file.metadata()).transpose()) {
            Ok(found) => found.map_or(0, |found| found.len()),
            Err(error) => {
                let message = format!("the changes cannot be stored: {error}");
                return self.fail(CollectFailure::CollectFailed, message);
            }
        };
        if bytes == 0 || bytes > MOST_PATCH_BYTES {
            self.settled(CHANGES);
            if bytes > 0 {
                let (bytes, most) = (text::size(bytes), text::size(MOST_PATCH_BYTES));
                self.note(format!("the patch of the changes has {bytes}; only patches up to {most} are kept"));
            } else {
                self.notes(why_no_patch(self.run.as_ref()));
            }
            return;
        }
        let begin = Instant::now();
        match self.store_changes(depot, &path).await {
            Ok(stored) => {
                let (size, time) = (text::size(stored.bytes), text::seconds(begin.elapsed()));
                tracing::info!("stored the changes: {size}, in {time}");
                self.stored(CHANGES);
            }
            Err(error) => {
                self.fail(CollectFailure::CollectFailed, format!("the changes cannot be stored: {error}"));
            }
        }
    }

    /// The file with the patch, if there is one.
    async fn patch(&mut self) -> Result<PathBuf, ChangesError> {
        let Some(remote) = &self.remote else { return Ok(self.settings.result(paths::PATCH)) };
        let path = self.settings.collect.join(PATCH_FILE);
        // A client of the user's own leaves no list.
        let edited = results::read(&self.settings.result(paths::EDITS), MOST_EDITS_BYTES)?;
        let edited = edited.and_then(|json| serde_json::from_slice(&json).ok());
        let notes = remote.changes(edited, &path, self.deadline).await?;
        self.notes(notes);
        Ok(path)
    }

    async fn store_changes(&self, depot: &Depot, path: &Path) -> Result<Stored, ChangesError> {
        let upload = self.patiently("the changes", async || {
            let path = path.to_owned();
            depot.upload(move |out| copy(&path, out)).await
        });
        let stored = upload.await??.stored;
        self.patiently("the changes", async || depot.publish_changes(&stored).await).await?;
        Ok(stored)
    }
}

/// Why there is no patch; `None` if the run changed nothing.
fn why_no_patch(run: Option<&RunReport>) -> Option<String> {
    let why = match run.map(RunReport::changes) {
        None => "the agent's container was killed before its workspace was compared".to_owned(),
        Some(None) => "the workspace was not compared after the run".to_owned(),
        Some(Some(TaskChanges { files: None | Some(0), .. })) => return None,
        Some(Some(changes)) => changes.note.unwrap_or_else(|| "the run left none".to_owned()),
    };
    Some(format!("no patch of the changes is kept: {why}"))
}

#[derive(Debug, thiserror::Error)]
enum ChangesError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Depot(#[from] DepotError),
    #[error(transparent)]
    Companion(#[from] CompanionError),
}

fn copy(path: &Path, out: &mut dyn Write) -> io::Result<Upload<()>> {
    let file = results::open(path)?.ok_or_else(|| io::Error::other("the patch was removed"))?;
    let mut out = HashingWriter::new(out);
    io::copy(&mut file.take(MOST_PATCH_BYTES), &mut out)?;
    let (digest, bytes) = out.finish();
    Ok(Upload { stored: Stored { digest: digest.to_string(), bytes }, made: () })
}
