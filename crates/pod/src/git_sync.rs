//! git-sync: keeps a checkout at the newest commit of its ref, beside the running agent.
//!
//! The agent's work comes first: a checkout with local edits or local commits is left alone and reported. The remote is
//! read into a private mirror; the agent's own directory is only touched without credentials, because its
//! configuration may have been written by the agent.

use std::future::Future;
use std::path::{Path, PathBuf};

use crate::git::access::Access;
use crate::git::checkout::{self, CheckoutError, Marker, Target};
use crate::git::command::{Git, GitError};
use crate::git::merge;
pub use crate::git::settings::Settings;
pub use crate::git_init::Error;

/// What one look at the remote led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// The remote has nothing new.
    Unchanged,
    /// The checkout was moved.
    Moved {
        /// The commit before.
        from: String,
        /// The commit now.
        to: String,
    },
    /// The remote is ahead, but these files were edited here.
    KeptEdits(Vec<String>),
    /// The remote is ahead, but commits were made here.
    KeptCommits {
        /// The commit that is checked out.
        head: String,
    },
}

/// Keeps the checkout fresh until `stop` is ready. A look that fails is logged and tried again at the next one.
pub async fn run(settings: &Settings, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let work = async {
        while let Err(error) = crate::git_init::run(settings).await {
            if !settings.optional {
                return Err(error);
            }
            // A sidecar that ends is restarted again and again, and its Pod is not ready meanwhile.
            tracing::warn!("{error}; it is optional, trying again in {} s", settings.interval.as_secs());
            tokio::time::sleep(settings.interval).await;
        }
        let follower = Follower::new(settings)?;
        loop {
            match follower.look().await {
                Ok(Look::Unchanged) => {}
                Ok(Look::Moved { from, to }) => tracing::info!(%from, %to, "moved to the new commit"),
                Ok(Look::KeptEdits(files)) => {
                    tracing::warn!(
                        ?files,
                        "a new commit is there, but these files were edited here; nothing is changed"
                    );
                }
                Ok(Look::KeptCommits { head }) => {
                    tracing::warn!(%head, "a new commit is there, but commits were made here; nothing is changed");
                }
                Err(error) => tracing::warn!("{error}; trying again in {} s", settings.interval.as_secs()),
            }
            tokio::time::sleep(settings.interval).await;
        }
    };
    // Dropping the work kills a git that is running, with its whole process group.
    tokio::select! {
        result = work => result,
        () = stop => Ok(()),
    }
}

/// Looks at the remote, again and again.
#[derive(Debug)]
pub struct Follower<'a> {
    settings: &'a Settings,
    access: Access,
}

impl<'a> Follower<'a> {
    /// Prepares access to the remote.
    pub fn new(settings: &'a Settings) -> Result<Self, Error> {
        Ok(Self { settings, access: Access::prepare(settings)? })
    }

    /// The directory that is followed and the record of what we put there.
    fn place(&self) -> (PathBuf, PathBuf) {
        match &self.settings.workspace {
            Some(workspace) if workspace.join(".git").is_dir() => {
                (workspace.clone(), merge::marker_path(self.settings, workspace))
            }
            _ => (self.settings.checkout(), checkout::marker_path(self.settings)),
        }
    }

    /// Looks once, and moves the checkout if that loses nothing.
    pub async fn look(&self) -> Result<Look, CheckoutError> {
        let settings = self.settings;
        let git = Git::new(&self.access, &settings.repository.url, settings.timeout, settings.redactor());
        let (directory, record) = self.place();
        let Some(marker) = Marker::read(&record) else {
            let source = std::io::Error::other("the record of the checkout is gone; restart the Pod");
            return Err(CheckoutError::Io { path: record, source });
        };
        let target = checkout::resolve(settings, &git).await?;
        let new = match &target {
            Target::Branch(_, commit) | Target::Named(_, commit) if *commit != marker.commit => commit.clone(),
            _ => return Ok(Look::Unchanged),
        };
        let head = git.run_untrusted(&directory, &["rev-parse", "HEAD"]).await?.trim().to_owned();
        if head != marker.commit {
            return Ok(Look::KeptCommits { head });
        }
        // Not into submodules: git would enter them with whatever they are configured to run. They are left behind by
        // every move, which is no edit.
        let status = ["status", "--porcelain", "--untracked-files=no", "--no-renames", "--ignore-submodules=all"];
        let status = git.run_untrusted(&directory, &status).await?;
        if !status.is_empty() {
            let files = status.lines().filter_map(|line| line.get(3..)).map(str::to_owned).collect();
            return Ok(Look::KeptEdits(files));
        }
        let mirror = self.mirror(&git, &target, &new).await?;
        self.take(&git, &directory, &mirror, &target, &new).await?;
        if settings.submodules {
            tracing::warn!("submodules stay as they were checked out; policy Rollout brings them along");
        }
        Marker { commit: new.clone(), ..marker }.write(&record)?;
        Ok(Look::Moved { from: head, to: new })
    }

    /// Fetches with credentials, into a repository that only this process has written.
    async fn mirror(&self, git: &Git<'_>, target: &Target, new: &str) -> Result<PathBuf, CheckoutError> {
        let mirror = self.access.directory().join("mirror.git");
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

    /// Takes the commit from the mirror, without credentials. `reset --keep` refuses to lose an edit that came meanwhile.
    async fn take(
        &self,
        git: &Git<'_>,
        directory: &Path,
        mirror: &Path,
        target: &Target,
        new: &str,
    ) -> Result<(), GitError> {
        let url = format!("file://{}", mirror.display());
        let refspec = match target {
            Target::Branch(branch, _) => format!("+{new}:refs/remotes/origin/{branch}"),
            Target::Named(name, _) => format!("+{new}:{name}"),
            Target::Commit(_) | Target::Abbreviated(_) => return Ok(()),
        };
        let depth = self.settings.depth.map(|depth| format!("--depth={depth}"));
        // A remote that is named like our URL may have a program of its own; the one that is named here wins.
        let mut arguments = vec!["fetch", "--quiet", "--force", "--no-tags", "--upload-pack=git-upload-pack"];
        arguments.extend(depth.as_deref());
        arguments.extend(["--", &url, &refspec]);
        git.fetch_untrusted(directory, &arguments).await?;
        git.run_untrusted(directory, &["reset", "--quiet", "--keep", new]).await?;
        Ok(())
    }
}
