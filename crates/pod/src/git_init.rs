//! git-init: checks a repository out before the agent starts.
//!
//! Guarantees: a checkout without its `.ok` record is never used; a second run changes nothing; credentials are only in
//! private files of this process; no file of the workspace is overwritten.

use std::path::PathBuf;

pub use crate::git::access::PrepareError;
pub use crate::git::checkout::CheckoutError;
pub use crate::git::merge::{MergeError, Merged};
pub use crate::git::settings::{GitSettingError, Settings};

use crate::git::checkout::{self, Marker};
use crate::git::{access, merge};
use crate::git_sync::{Follower, Synced};

/// Why the checkout failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] GitSettingError),
    /// git cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The checkout failed.
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    /// The merge failed.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A file or directory of `GIT_REPO_PARTS` does not exist.
    #[error("{url} has no {part:?} at {reference}; correct git.path")]
    NoPart { part: String, url: String, reference: String },
}

#[derive(Debug, PartialEq, Eq)]
pub struct Prepared {
    pub commit: String,
    /// The checkout, or the workspace that it is merged into.
    pub path: PathBuf,
    /// Whether this run checked it out; `false` = an earlier one did.
    pub fresh: bool,
    /// The merge into the workspace, if this run did one.
    pub merged: Option<Merged>,
}

/// Checks out, and merges into the workspace if there is one.
pub async fn run(settings: &Settings) -> Result<Prepared, Error> {
    let url = &settings.repository.url;
    write_shared_gitconfig(settings)?;
    if let Some(workspace) = &settings.workspace
        && let Some(marker) = Marker::read(&merge::marker_path(settings, workspace))
    {
        if marker.reference != settings.reference {
            tracing::warn!(
                prepared = %marker.reference, wanted = %settings.reference,
                "the workspace was prepared from another ref and may hold work; it is not changed"
            );
        }
        tracing::info!(%url, commit = %marker.commit, "the workspace already holds the repository");
        let commit = if settings.follow { follow(settings, marker.commit).await? } else { marker.commit };
        return Ok(Prepared { commit, path: workspace.clone(), fresh: false, merged: None });
    }
    let git = access::prepare(settings)?;
    let checkout = checkout::ensure(settings, &git).await?;
    let commit = checkout.marker.commit.clone();
    if let Some(part) = settings.parts.iter().find(|part| !settings.checkout().join(part).exists()) {
        return Err(Error::NoPart { part: part.clone(), url: url.clone(), reference: settings.reference.clone() });
    }
    tracing::info!(%url, %commit, fresh = checkout.fresh, "the repository is checked out");
    let mut prepared = Prepared { commit, path: settings.checkout(), fresh: checkout.fresh, merged: None };
    if let Some(workspace) = &settings.workspace {
        let merged = merge::merge(settings, workspace, &checkout.marker)?;
        for path in &merged.kept {
            tracing::info!(?path, "exists in the workspace and is not overwritten");
        }
        prepared.path.clone_from(workspace);
        prepared.merged = Some(merged);
    }
    Ok(prepared)
}

/// Moves a retained workspace to the newest commit, unless that would lose the agent's work. Returns its commit. If the
/// remote is unavailable, the agent works with the old commit.
async fn follow(settings: &Settings, commit: String) -> Result<String, Error> {
    match Follower::new(settings)?.sync().await {
        Ok(synced) => {
            synced.log();
            if let Synced::Moved { to, .. } = synced {
                return Ok(to);
            }
        }
        Err(error) => tracing::warn!("{error}; the workspace is not updated"),
    }
    Ok(commit)
}

/// The agent's container sets `GIT_CONFIG_GLOBAL` to this file: it may run as another user than this helper.
fn write_shared_gitconfig(settings: &Settings) -> Result<(), CheckoutError> {
    let path = settings.root.join(".gitconfig");
    let failed = |source: std::io::Error| CheckoutError::Io { path: path.clone(), source };
    std::fs::create_dir_all(&settings.root).map_err(failed)?;
    if !path.exists() {
        std::fs::write(&path, "[safe]\n\tdirectory = *\n").map_err(failed)?;
    }
    Ok(())
}
