//! File sets of the workspace, into the store without a copy on disk.

use std::io::Write;
use std::sync::Arc;

use domain::contract::collect::{MOST_CONTENT_BYTES, MOST_FILES};
use domain::contract::depot::Stored;
use domain::contract::paths;
use fileset::{Limits, Name, PackError, Packed, PatternError, Patterns, Skipped};

use super::collection::Collection;
use crate::companion::client::CompanionError;
use crate::depot::{Depot, DepotError, Upload};

/// Bytes and files of a set, here and where it is unpacked.
pub(crate) const LIMITS: Limits = Limits { files: MOST_FILES, bytes: MOST_CONTENT_BYTES };

/// Why files are not in the store.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("nothing matches")]
    Nothing,
    #[error(transparent)]
    Patterns(#[from] PatternError),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Depot(#[from] DepotError),
    #[error(transparent)]
    Companion(#[from] CompanionError),
}

impl Collection<'_> {
    /// Stores the files of the workspace that match. They have no name yet. Also returns sentences for the run.
    pub async fn store(
        &self,
        depot: &Depot,
        paths: &[String],
        what: &str,
    ) -> Result<(Packed, Vec<String>), StoreError> {
        let patterns = Arc::new(Patterns::parse(paths)?);
        if let Some(remote) = &self.remote {
            return self.store_remote(depot, remote, paths, what).await;
        }
        let upload = self.patiently(what, async || {
            let (patterns, root) = (Arc::clone(&patterns), self.settings.workspace.clone());
            depot.upload(move |out| pack(&root, &patterns, out)).await
        });
        Ok((upload.await??.made, Vec::new()))
    }
}

fn pack(root: &std::path::Path, patterns: &Patterns, out: &mut dyn Write) -> Result<Upload<Packed>, StoreError> {
    // Contexts of the Task, which the user knows.
    let own: Vec<Name> = Name::new(paths::PLATFORM_DIRECTORY).into_iter().collect();
    let packed = fileset::pack(root, patterns, &own, LIMITS, out)?;
    if packed.manifest.entries.is_empty() {
        return Err(StoreError::Nothing);
    }
    Ok(Upload { stored: Stored { digest: packed.digest.to_string(), bytes: packed.bytes }, made: packed })
}

/// A sentence about files that are not in a set; `None` if all are.
pub(super) fn left_out(what: &str, skipped: &Skipped) -> Option<String> {
    let first = skipped.names.first()?;
    let others = match skipped.count.saturating_sub(1) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    Some(format!("{what} is without \"{}\"{others}: {}", first.path, first.reason))
}
