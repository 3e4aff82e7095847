//! git-sync: keeps a checkout at the newest commit of its ref while the agent runs.
//!
//! The agent's work comes first: a checkout with local edits or commits is not changed, and that is reported. The
//! remote is fetched into a private mirror; git runs in the agent's directory only without credentials, because the
//! agent may have written its configuration.

use std::future::Future;
use std::path::{Path, PathBuf};

use egress::{Git, GitError};

use crate::git::checkout::{self, CheckoutError, Marker, Target};
pub use crate::git::settings::Settings;
use crate::git::{access, merge};
pub use crate::git_init::Error;

/// The result of one sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Synced {
    /// The remote has no new commit.
    Unchanged,
    /// The checkout is at a new commit.
    Moved { from: String, to: String },
    /// The remote is ahead, but these files have local edits.
    KeptEdits(Vec<String>),
    /// The remote is ahead, but there are local commits.
    KeptCommits {
        /// The local commit that is checked out.
        head: String,
    },
}

impl Synced {
    /// Logs the result, unless nothing changed.
    pub(crate) fn log(&self) {
        match self {
            Self::Unchanged => {}
            Self::Moved { from, to } => tracing::info!(%from, %to, "moved to the new commit"),
            Self::KeptEdits(files) => {
                tracing::warn!(?files, "not moved to the new commit: these files have local edits");
            }
            Self::KeptCommits { head } => {
                tracing::warn!(%head, "not moved to the new commit: there are local commits");
            }
        }
    }
}

/// Syncs the checkout until `stop` is ready. A failed sync is logged and retried after the interval.
pub async fn run(settings: &Settings, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let work = async {
        while let Err(error) = crate::git_init::run(settings).await {
            if !settings.optional {
                return Err(error);
            }
            // A sidecar that exits is restarted with backoff, and its Pod is not ready meanwhile.
            tracing::warn!("{error}; optional, retrying in {} s", settings.interval.as_secs());
            tokio::time::sleep(settings.interval).await;
        }
        let follower = Follower::new(settings)?;
        loop {
            match follower.sync().await {
                Ok(synced) => synced.log(),
                Err(error) => tracing::warn!("{error}; retrying in {} s", settings.interval.as_secs()),
            }
            tokio::time::sleep(settings.interval).await;
        }
    };
    // Dropping the work kills a running git with its process group.
    tokio::select! {
        result = work => result,
        () = stop => Ok(()),
    }
}

/// Syncs one checkout with its remote.
#[derive(Debug)]
pub struct Follower<'a> {
    settings: &'a Settings,
    git: Git,
}

impl<'a> Follower<'a> {
    pub fn new(settings: &'a Settings) -> Result<Self, Error> {
        Ok(Self { settings, git: access::prepare(settings)? })
    }

    /// The synced directory and the record of the commit that we checked out there.
    fn place(&self) -> (PathBuf, PathBuf) {
        match &self.settings.workspace {
            Some(workspace) if workspace.join(".git").is_dir() => {
                (workspace.clone(), merge::marker_path(self.settings, workspace))
            }
            _ => (self.settings.checkout(), checkout::marker_path(self.settings)),
        }
    }

    /// Moves the checkout to the newest commit, unless local edits or commits would be lost.
    pub async fn sync(&self) -> Result<Synced, CheckoutError> {
        let settings = self.settings;
        let git = &self.git;
        let (directory, record) = self.place();
        let Some(marker) = Marker::read(&record) else {
            let source = std::io::Error::other("the record of the checkout is gone; restart the Pod");
            return Err(CheckoutError::Io { path: record, source });
        };
        let target = checkout::resolve(settings, git).await?;
        let new = match &target {
            Target::Branch(_, commit) | Target::Named(_, commit) if *commit != marker.commit => commit.clone(),
            _ => return Ok(Synced::Unchanged),
        };
        let head = git.run_untrusted(&directory, &["rev-parse", "HEAD"]).await?.trim().to_owned();
        if head != marker.commit {
            return Ok(Synced::KeptCommits { head });
        }
        // Not into submodules: git would execute programs of their configuration. They stay at their old commit after
        // every move, which is not an edit.
        let status = ["status", "--porcelain", "--untracked-files=no", "--no-renames", "--ignore-submodules=all"];
        let status = git.run_untrusted(&directory, &status).await?;
        if !status.is_empty() {
            let files = status.lines().filter_map(|line| line.get(3..)).map(str::to_owned).collect();
            return Ok(Synced::KeptEdits(files));
        }
        let mirror = self.mirror(&target, &new).await?;
        self.take(&directory, &mirror, &target, &new).await?;
        if settings.submodules {
            tracing::warn!("submodules stay at their old commits; policy Rollout updates them");
        }
        Marker { commit: new.clone(), ..marker }.write(&record)?;
        Ok(Synced::Moved { from: head, to: new })
    }

    /// Fetches with credentials, into a repository that only this process has written.
    async fn mirror(&self, target: &Target, new: &str) -> Result<PathBuf, CheckoutError> {
        let git = &self.git;
        let mirror = git.directory().join("mirror.git");
        if !mirror.is_dir() {
            let source_of = |source| CheckoutError::Io { path: mirror.clone(), source };
            std::fs::create_dir(&mirror).map_err(source_of)?;
            let format = if new.len() == 64 { "--object-format=sha256" } else { "--object-format=sha1" };
            git.run(&mirror, &["init", "--quiet", "--bare", format]).await?;
            git.run(&mirror, &["remote", "add", "origin", "--", &self.settings.repository.url]).await?;
            git.run(&mirror, &["config", "uploadpack.allowAnySHA1InWant", "true"]).await?;
        }
        checkout::fetch(self.settings, git, &mirror, target).await?;
        Ok(mirror)
    }

    /// Fetches the commit from the mirror, without credentials. `reset --keep` fails if a file was edited meanwhile.
    async fn take(&self, directory: &Path, mirror: &Path, target: &Target, new: &str) -> Result<(), GitError> {
        let url = format!("file://{}", mirror.display());
        let refspec = match target {
            Target::Branch(branch, _) => format!("+{new}:refs/remotes/origin/{branch}"),
            Target::Named(name, _) => format!("+{new}:{name}"),
            Target::Commit(_) | Target::Abbreviated(_) => return Ok(()),
        };
        let depth = self.settings.depth.map(|depth| format!("--depth={depth}"));
        // The agent may have configured an upload-pack program for this URL; the option overrides it.
        let mut arguments = vec!["fetch", "--quiet", "--force", "--no-tags", "--upload-pack=git-upload-pack"];
        arguments.extend(depth.as_deref());
        arguments.extend(["--", &url, &refspec]);
        self.git.fetch_untrusted(directory, &arguments).await?;
        self.git.run_untrusted(directory, &["reset", "--quiet", "--keep", new]).await?;
        Ok(())
    }
}
