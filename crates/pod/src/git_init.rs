//! git-init: checks a repository out before the agent starts.
//!
//! Promises: a checkout without its `.ok` record is never used; a second run changes nothing; credentials are only in
//! private files of this process; nothing of the workspace is overwritten.

use std::path::PathBuf;

pub use crate::git::access::AccessError;
pub use crate::git::checkout::CheckoutError;
pub use crate::git::merge::{MergeError, Merged};
pub use crate::git::settings::{Credentials, GitSettingError, Settings};

use crate::git::access::Access;
use crate::git::checkout::{self, Marker};
use crate::git::command::Git;
use crate::git::merge;
use crate::git_sync::{Follower, Look};

/// Why the repository is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] GitSettingError),
    /// Access cannot be prepared.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The checkout failed.
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    /// The merge failed.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A part that is asked for is not there.
    #[error("{url} has no {part:?} at {reference}; correct git.path")]
    NoPart {
        /// What is missing.
        part: String,
        /// The repository.
        url: String,
        /// Where it was looked for.
        reference: String,
    },
}

/// What git-init did.
#[derive(Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The commit that is checked out.
    pub commit: String,
    /// Where.
    pub path: PathBuf,
    /// Whether it was checked out now; `false` = it was there already.
    pub fresh: bool,
    /// What the merge into the workspace did, if one was asked for and not done before.
    pub merged: Option<Merged>,
}

/// Checks out, and merges into the workspace if asked to.
pub async fn run(settings: &Settings) -> Result<Prepared, Error> {
    let url = &settings.repository.url;
    write_shared_gitconfig(settings)?;
    if let Some(workspace) = &settings.workspace
        && let Some(marker) = Marker::read(&merge::marker_path(settings, workspace))
    {
        if marker.reference != settings.reference {
            tracing::warn!(
                prepared = %marker.reference, wanted = %settings.reference,
                "the workspace was prepared from another ref and may hold work; it is kept as it is"
            );
        }
        tracing::info!(%url, commit = %marker.commit, "the workspace holds the repository already");
        let commit = if settings.follow { follow(settings, marker.commit).await? } else { marker.commit };
        return Ok(Prepared { commit, path: workspace.clone(), fresh: false, merged: None });
    }
    let access = Access::prepare(settings)?;
    let git = Git::new(&access, url, settings.timeout, settings.redactor());
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
            tracing::info!(?path, "was in the workspace before and stays");
        }
        prepared.path.clone_from(workspace);
        prepared.merged = Some(merged);
    }
    Ok(prepared)
}

/// Takes a workspace that was kept to the newest commit, unless that would lose the agent's work. Answers the commit that
/// it has then. What cannot be looked at keeps nobody from working with what is there.
async fn follow(settings: &Settings, commit: String) -> Result<String, Error> {
    match Follower::new(settings)?.look().await {
        Ok(Look::Moved { from, to }) => {
            tracing::info!(%from, %to, "moved to the new commit");
            return Ok(to);
        }
        Ok(Look::Unchanged) => {}
        Ok(Look::KeptEdits(files)) => tracing::warn!(?files, "a new commit is there, but these files were edited here"),
        Ok(Look::KeptCommits { head }) => tracing::warn!(%head, "a new commit is there, but commits were made here"),
        Err(error) => tracing::warn!("{error}; the workspace stays as it is"),
    }
    Ok(commit)
}

/// The agent's container points `GIT_CONFIG_GLOBAL` at this file: it may run as another user than this helper.
fn write_shared_gitconfig(settings: &Settings) -> Result<(), CheckoutError> {
    let path = settings.root.join(".gitconfig");
    let failed = |source: std::io::Error| CheckoutError::Io { path: path.clone(), source };
    std::fs::create_dir_all(&settings.root).map_err(failed)?;
    if !path.exists() {
        std::fs::write(&path, "[safe]\n\tdirectory = *\n").map_err(failed)?;
    }
    Ok(())
}
