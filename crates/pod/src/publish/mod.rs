//! publish: pushes the changes of a run to a branch, and opens a pull request.
//!
//! It runs after the agent, in a container that has the credential and reads the agent's checkout. The agent wrote every
//! byte of the checkout, so git never runs in it and never reads its configuration, hooks, attributes of filters or
//! references: the agent's commits are copied, as objects that git checks, into a repository of our own (`repository`),
//! and its files are read through an index of our own.
//!
//! ## What is pushed
//!
//! - The agent's commits, if they continue the commit that the run began with. Otherwise, and if they are damaged, its
//!   files become one commit on top of that commit, and a note says so.
//! - What the agent did not commit, in one more commit. Ignored files, `.kubeopencode`, the prompt and the files of
//!   contexts are left out; so are files with a filter, as those of Git LFS, and submodules, with a note.
//! - Nothing, if the run changed nothing.
//!
//! ## Which branch
//!
//! A branch is created, or moved forward if the commit continues it; it is never forced. If the branch has other commits,
//! a rerun pushes to `BRANCH-EPOCH` (`agents/fix-login-2`), because its earlier run probably made the branch and a person
//! may already review it; the first run of a Task fails and says what to do. A branch that already has the same changes on
//! the same commit is left as it is.
//!
//! A failed pull request does not take the branch back: the error has the branch and the commit.

pub mod checkout;
mod forge;
mod repository;
mod submodules;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::kinds::task::PublishedStatus;
use domain::contract::collect::PublishPlan;
use domain::contract::paths;
use domain::contract::report::RunReport;
use domain::run::publish::{self as rules, Forge};
use egress::{Authorities, BadRepository, Credentials, Git, GitError, Loopback, Redactor, Repository, check_ref};

pub use self::forge::PullRequestError;

use self::checkout::{Checkout, Unusable};
use self::repository::{Fit, Own};
use self::submodules::Modules;
use crate::env::{self, Lookup, SettingError};
use crate::git::access::{self, PrepareError};
use crate::git::checkout::{CheckoutError, Target, resolve};
use crate::git::settings::{self, Settings as GitSettings};

/// The file with the prompt, in the root of the workspace.
const PROMPT: &str = "task.md";

/// Everything but the plan.
#[derive(Clone)]
pub struct Settings {
    /// Credentials for the repository. The password is also the token for the pull request.
    pub credentials: Credentials,
    pub authorities: Authorities,
    /// The agent's workspace. No link in a checkout is followed out of it.
    pub workspace: PathBuf,
    /// Absolute paths of files and directories that contexts put there.
    pub left_out: Vec<PathBuf>,
    /// Directory of our own, which is removed in the end.
    pub scratch: PathBuf,
    pub namespace: String,
    pub task: String,
    pub epoch: i64,
    /// Number of attempts to reach the repository.
    pub attempts: u32,
    pub retry_delay: Duration,
    /// Time limit of one git command.
    pub timeout: Duration,
    /// Whether the API of the pull request may be on a loopback address.
    pub loopback: Loopback,
    /// Whether `file://` is allowed, for tests.
    pub allow_file: bool,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("publish::Settings").field("task", &self.task).finish_non_exhaustive()
    }
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            credentials: settings::credentials(env),
            authorities: crate::authorities::from_env(env),
            workspace: env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE),
            left_out: Vec::new(),
            scratch: env::path(env, env::COLLECT_DIR, paths::COLLECT).join("publish"),
            namespace: env::text(env, env::TASK_NAMESPACE).unwrap_or_default(),
            task: env::text(env, env::TASK_NAME).unwrap_or_default(),
            epoch: env::number(env, env::TASK_EPOCH, 1_i64)?,
            attempts: env::number(env, env::GIT_CLONE_RETRIES, 3_u32)?.clamp(1, 100),
            retry_delay: env::duration(env, env::GIT_CLONE_RETRY_DELAY, Duration::from_secs(5))?,
            timeout: env::duration(env, env::GIT_TIMEOUT, Duration::from_mins(5))?,
            loopback: if env::flag(env, env::URL_ALLOW_LOOPBACK)? { Loopback::Allowed } else { Loopback::Refused },
            allow_file: env::flag(env, env::GIT_ALLOW_FILE)?,
        })
    }

    fn git(&self, plan: &PublishPlan) -> Result<GitSettings, Error> {
        let repository = Repository::parse(&plan.repository, self.allow_file)?;
        let reference = if plan.reference.is_empty() { "HEAD" } else { &plan.reference };
        check_ref(reference).map_err(Error::Reference)?;
        Ok(GitSettings {
            credentials: settings::or_of_address(self.credentials.clone(), &repository),
            repository,
            reference: reference.to_owned(),
            depth: Some(1),
            root: self.scratch.clone(),
            link: String::new(),
            workspace: None,
            subpath: PathBuf::new(),
            parts: Vec::new(),
            follow: false,
            submodules: false,
            attempts: self.attempts,
            retry_delay: self.retry_delay,
            timeout: self.timeout,
            interval: Duration::MAX,
            optional: false,
            allow_file: self.allow_file,
            authorities: self.authorities.clone(),
        })
    }

    /// Paths in the work tree that belong to the platform or to contexts, relative to it.
    fn left_out(&self, work_tree: &Path) -> Vec<PathBuf> {
        let mut left_out = vec![PathBuf::from(paths::PLATFORM_DIRECTORY)];
        if work_tree == self.workspace {
            left_out.push(PROMPT.into());
        }
        let below = self.left_out.iter().filter_map(|path| path.strip_prefix(work_tree).ok());
        left_out.extend(below.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned));
        left_out
    }
}

/// Where the changes are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Without a branch, the run changed nothing.
    pub status: PublishedStatus,
    /// Sentences about what was not published as it is.
    pub notes: Vec<String>,
}

/// Why the changes were not published. No text contains a credential.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Repository(#[from] BadRepository),
    #[error("{0}; correct the context's git.ref")]
    Reference(String),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(
        "{url} refused access: {detail}. The Secret of publish.secretRef needs a credential that may push there: \
             keys `username` and `password` (a token works) for https, `ssh-privatekey` (and `ssh-known-hosts`) for ssh"
    )]
    Credentials {
        url: String,
        /// The end of git's messages.
        detail: String,
    },
    #[error(transparent)]
    Remote(CheckoutError),
    #[error("the changes cannot be committed: {0}")]
    Git(GitError),
    #[error("{0:?} is no checkout any more: it has no .git; nothing is published")]
    NoCheckout(PathBuf),
    #[error("the changes have more than 100,000 files or 1 GiB; add what is generated to .gitignore")]
    TooLarge,
    #[error("the checkout contains more than 2,000 repositories, files of contexts and new files with a filter")]
    TooManyPaths,
    #[error("the branch {0} is the one that the changes began with; to push to it, set publish.branch to its name")]
    BaseBranch(String),
    #[error(
        "a pull request from {0} to {0} is not possible; set publish.branch to another branch, or remove \
         publish.pullRequest"
    )]
    PullRequestToItself(String),
    #[error(
        "the branch {branch} of {url} has other commits, which are never overwritten; delete it, or set publish.branch \
             to another one"
    )]
    Taken { branch: String, url: String },
    #[error("the branch {branch} was not pushed to {url}: {detail}")]
    Push {
        branch: String,
        url: String,
        /// The end of git's messages.
        detail: String,
    },
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// The branch was pushed.
    #[error("the branch {} was pushed, but the pull request cannot be opened: {source}", published.status.branch.as_deref().unwrap_or_default())]
    PullRequest { published: Box<Published>, source: PullRequestError },
}

impl Error {
    /// What was published in spite of the error.
    pub fn published(&self) -> Option<&Published> {
        match self {
            Self::PullRequest { published, .. } => Some(published),
            _ => None,
        }
    }

    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        match error {
            GitError::Credentials { url, detail } => Self::Credentials { url, detail },
            other => Self::Git(other),
        }
    }
}

impl From<CheckoutError> for Error {
    fn from(error: CheckoutError) -> Self {
        match error {
            CheckoutError::Git(GitError::Credentials { url, detail }) => Self::Credentials { url, detail },
            other => Self::Remote(other),
        }
    }
}

/// Publishes the changes in a checkout. `report` is the agent's, for the text of the pull request.
pub async fn run(plan: &PublishPlan, settings: &Settings, report: Option<&RunReport>) -> Result<Published, Error> {
    let git_settings = settings.git(plan)?;
    let git = access::prepare(&git_settings)?;
    let scratch = Scratch::create(&settings.scratch)?;
    let publishing = Publishing { plan, settings, git_settings: &git_settings, git: &git, notes: Vec::new() };
    let published = publishing.run(&scratch.0, report).await;
    if let Ok(Published { status: PublishedStatus { branch: Some(branch), commit: Some(commit), url }, .. }) =
        &published
    {
        tracing::info!(%branch, %commit, url, "published the changes");
    }
    published
}

struct Publishing<'a> {
    plan: &'a PublishPlan,
    settings: &'a Settings,
    git_settings: &'a GitSettings,
    git: &'a Git,
    notes: Vec<String>,
}

/// The commit that the run began with, and the agent's commit on which its files are based.
struct Begun {
    base: String,
    parent: String,
}

impl Publishing<'_> {
    async fn run(mut self, scratch: &Path, report: Option<&RunReport>) -> Result<Published, Error> {
        let work_tree = Path::new(&self.plan.directory);
        let is_directory = std::fs::symlink_metadata(work_tree).is_ok_and(|metadata| metadata.is_dir());
        if !is_directory || std::fs::symlink_metadata(work_tree.join(".git")).is_err() {
            return Err(Error::NoCheckout(work_tree.to_owned()));
        }
        let target = self.patiently(async || resolve(self.git_settings, self.git).await).await?;
        let listed = self.patiently(async || self.list().await).await?;
        let checked_out = match &target {
            Target::Branch(branch, _) => Some(branch),
            Target::Named(..) | Target::Commit(_) | Target::Abbreviated(_) => listed.default_branch.as_ref(),
        };
        let base_branch = self.plan.settings.base_branch.as_ref().or(checked_out).cloned().unwrap_or_default();
        if !rules::may_push_to(&self.plan.branch, &base_branch, &self.plan.settings) {
            return Err(Error::BaseBranch(base_branch));
        }
        if self.plan.branch == base_branch && self.plan.settings.pull_request.is_some() {
            return Err(Error::PullRequestToItself(base_branch));
        }
        let author = rules::author(&self.plan.settings);
        let mut own = Own::create(self.git, scratch, &target, &author).await?;
        self.patiently(async || own.fetch_target(self.git_settings).await).await?;
        let workspace =
            if work_tree.starts_with(&self.settings.workspace) { &self.settings.workspace } else { work_tree };
        let agents = Checkout::read(workspace, work_tree);
        let Begun { base, parent } = self.begun(&own, &agents).await;

        let ignored = agents.as_ref().map(|agents| agents.ignored.as_slice()).unwrap_or_default();
        let left_out = self.settings.left_out(work_tree);
        let files = own.files(work_tree, (&parent, &base), &left_out, ignored).await?;
        self.notes.extend(files.notes);
        let modules = Modules { git: self.git, workspace, work_tree, git_dir: &own.git_dir(), scratch };
        self.notes.extend(modules.changed(&files.submodules).await);
        let commit = if files.tree == own.tree_of(&parent).await? {
            parent
        } else {
            own.commit(&files.tree, &parent, self.message()).await?
        };
        if commit == base || own.descends(&own.tip, &commit).await {
            self.notes.push(format!("The run changed nothing in {}: no branch was pushed.", work_tree.display()));
            return Ok(Published { status: PublishedStatus::default(), notes: self.notes });
        }
        let (branch, commit) = self.push(&own, &listed, commit).await?;
        let status = PublishedStatus { branch: Some(branch.clone()), commit: Some(commit.clone()), url: None };
        let mut published = Published { status, notes: self.notes };
        let Some(wanted) = &self.plan.settings.pull_request else { return Ok(published) };
        let subject = own.subject(&commit).await.unwrap_or_default();
        let title = wanted.title.clone().filter(|title| !title.trim().is_empty()).unwrap_or(subject);
        let summary = report.map(|report| report.summary.as_str());
        let Settings { namespace, task, epoch, .. } = self.settings;
        let body = rules::body(wanted.body.as_deref(), summary, namespace, task, *epoch);
        let opening = forge::Opening {
            settings: self.settings,
            token: token(&self.git_settings.credentials),
            redactor: redactor(&self.git_settings.credentials),
            wanted,
            branch: &branch,
            base: &base_branch,
            title,
            body,
        };
        let forge = Forge::of(&self.plan.repository, wanted.provider, wanted.api_url.as_deref());
        let opened = match forge {
            Ok(forge) => opening.open(&forge).await,
            Err(problem) => Err(problem.into()),
        };
        match opened {
            Ok(opened) => {
                published.status.url = Some(opened.url);
                published.notes.extend(opened.notes);
                Ok(published)
            }
            Err(source) => Err(Error::PullRequest { published: Box::new(published), source }),
        }
    }

    /// Finds the commits to build on. What the agent says is only believed if the remote has it.
    async fn begun(&mut self, own: &Own<'_>, agents: &Result<Checkout, Unusable>) -> Begun {
        let mut start = None;
        if let Ok(Checkout { start: Some(id), .. }) = agents
            && (*id == own.tip || own.is_on_remote(id).await)
        {
            start = Some(id.clone());
        }
        let head = match agents.as_ref().map(|agents| (agents, &agents.head)) {
            Ok((_, Ok(head))) if own.has(head).await => Ok(head.clone()),
            Ok((agents, Ok(head))) => {
                own.import(agents, head).await.map(|()| head.clone()).map_err(|problem| problem.to_string())
            }
            Ok((_, Err(problem))) | Err(problem) => Err(problem.to_string()),
        };
        let head = match head {
            Ok(head) => head,
            Err(problem) => {
                let base = start.unwrap_or_else(|| own.tip.clone());
                self.as_one_commit(&problem, &base);
                return Begun { parent: base.clone(), base };
            }
        };
        if let Some(start) = &start
            && own.descends(&head, start).await
        {
            return Begun { base: start.clone(), parent: head };
        }
        let common = own.common_with_target(&head).await;
        if let Some(start) = start.as_ref().filter(|_| common.as_ref() == Some(&head))
            && own.descends(start, &head).await
        {
            // The agent went back behind the beginning: its files say what that changes.
            return Begun { base: start.clone(), parent: start.clone() };
        }
        if let Some(base) = common {
            return Begun { base, parent: head };
        }
        let base = start.unwrap_or_else(|| own.tip.clone());
        self.as_one_commit("they do not continue the commit that the run began with", &base);
        Begun { parent: base.clone(), base }
    }

    fn as_one_commit(&mut self, problem: &str, base: &str) {
        let short = base.get(..12).unwrap_or(base);
        self.notes.push(format!(
            "The agent's commits are not published, because {problem}: its files are one commit on top of {short}."
        ));
    }

    fn message(&self) -> &str {
        let own = self.plan.settings.message.as_deref().filter(|message| !message.trim().is_empty());
        own.or(Some(self.plan.title.as_str())).filter(|text| !text.trim().is_empty()).unwrap_or("Changes of the agent")
    }

    /// Pushes the commit. Returns the branch and its newest commit.
    async fn push(&mut self, own: &Own<'_>, listed: &Listed, commit: String) -> Result<(String, String), Error> {
        let url = &self.git_settings.repository.url;
        let (wanted, epoch) = (self.plan.branch.as_str(), self.settings.epoch);
        let other = rules::branch_of_rerun(wanted, epoch);
        for branch in std::iter::once(wanted).chain(other.as_deref()) {
            let tip = listed.tip(branch);
            match self.patiently(async || own.fits(branch, tip, &commit).await).await? {
                Fit::Taken => continue,
                Fit::Same(tip) => return Ok((branch.to_owned(), tip)),
                Fit::Push => {}
            }
            let pushed = self.patiently(async || match own.push(&commit, branch).await {
                Ok(()) => Ok(()),
                // An answer may be lost after the remote took the commit.
                Err(_) if self.list().await.is_ok_and(|listed| listed.tip(branch) == Some(&commit)) => Ok(()),
                Err(error) => Err(CheckoutError::Git(error)),
            });
            pushed.await.map_err(|error| match error {
                CheckoutError::Git(GitError::Failed { detail, .. }) => {
                    Error::Push { branch: branch.to_owned(), url: url.clone(), detail }
                }
                other => other.into(),
            })?;
            if branch != wanted {
                self.notes.push(format!("The branch {wanted} has other commits, so {branch} was pushed instead."));
            }
            return Ok((branch.to_owned(), commit));
        }
        Err(Error::Taken { branch: other.unwrap_or_else(|| wanted.to_owned()), url: url.clone() })
    }

    /// Lists the branches that may be pushed to.
    async fn list(&self) -> Result<Listed, CheckoutError> {
        let branches = [Some(self.plan.branch.clone()), rules::branch_of_rerun(&self.plan.branch, self.settings.epoch)];
        let names: Vec<String> = branches.into_iter().flatten().map(|branch| format!("refs/heads/{branch}")).collect();
        let mut arguments = vec!["ls-remote", "--symref", "--", self.git_settings.repository.url.as_str(), "HEAD"];
        arguments.extend(names.iter().map(String::as_str));
        Ok(Listed::read(&self.git.run(Path::new("/"), &arguments).await?))
    }

    /// Repeats what may fail because of a passing trouble.
    async fn patiently<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, CheckoutError>,
    ) -> Result<T, CheckoutError> {
        for _ in 1..self.settings.attempts {
            match attempt().await {
                Err(error) if !is_final(&error) => {
                    tracing::warn!("{error}; retrying");
                    tokio::time::sleep(self.settings.retry_delay).await;
                }
                result => return result,
            }
        }
        attempt().await
    }
}

/// Whether another attempt is useless: also after a refusal of the remote's own rules.
fn is_final(error: &CheckoutError) -> bool {
    let refused = matches!(error, CheckoutError::Git(GitError::Failed { detail, .. }) if detail.contains("rejected]"));
    refused || error.is_permanent()
}

/// Branches of the remote, in the output of `git ls-remote --symref`.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    default_branch: Option<String>,
    /// Full names and commits.
    tips: Vec<(String, String)>,
}

impl Listed {
    fn read(listing: &str) -> Self {
        let lines = || listing.lines().filter_map(|line| line.split_once('\t'));
        let default = lines().find(|(_, name)| *name == "HEAD").and_then(|(of, _)| of.strip_prefix("ref: refs/heads/"));
        let tips = lines().filter(|(commit, _)| checkout::is_id(commit));
        Self {
            default_branch: default.map(str::to_owned),
            tips: tips.map(|(commit, name)| (name.to_owned(), commit.to_owned())).collect(),
        }
    }

    fn tip(&self, branch: &str) -> Option<&str> {
        let found = self.tips.iter().find(|(name, _)| name.strip_prefix("refs/heads/") == Some(branch));
        found.map(|(_, commit)| commit.as_str())
    }
}

/// The token for an API. A user name without a password is a token too.
fn token(credentials: &Credentials) -> Option<String> {
    let (user, password) = credentials.login()?;
    let token = if password.is_empty() { user } else { password };
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

fn redactor(credentials: &Credentials) -> Redactor {
    let Credentials { username: _, password, ssh_key, known_hosts: _ } = credentials;
    Redactor::new([password, ssh_key].into_iter().flatten().cloned().chain(token(credentials)))
}

/// An empty directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create(path: &Path) -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        let failed = |source| Error::io(path, source);
        if path.exists() {
            std::fs::remove_dir_all(path).map_err(failed)?;
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn branches_are_read_by_their_full_names() {
        let id = "0123456789012345678901234567890123456789";
        let listing =
            format!("ref: refs/heads/trunk\tHEAD\n{id}\tHEAD\n{id}\trefs/heads/x\n{id}\trefs/other/refs/heads/y\n");
        let listed = Listed::read(&listing);
        assert_eq!(listed.default_branch.as_deref(), Some("trunk"));
        assert_eq!((listed.tip("x"), listed.tip("y"), listed.tip("trunk")), (Some(id), None, None));
        assert_eq!(Listed::read("").default_branch, None);
    }

    #[test]
    fn the_token_is_the_password_or_a_user_alone() {
        let token = |username: Option<&str>, password: Option<&str>| {
            let [username, password] = [username, password].map(|text| text.map(str::to_owned));
            token(&Credentials { username, password, ..Credentials::default() })
        };
        assert_eq!(token(Some("me"), Some("pw\n")).as_deref(), Some("pw"));
        assert_eq!(token(Some("tok\n"), None).as_deref(), Some("tok"));
        assert_eq!(token(None, None), None);
    }

    #[test]
    fn files_of_the_platform_and_of_contexts_are_left_out() {
        let mut settings = Settings::from_env(&of(&[(env::WORKSPACE_DIR, "/ws")])).unwrap();
        settings.left_out = ["/ws/app/notes.md", "/ws/app", "/opt/x", "/ws/docs"].map(PathBuf::from).into();
        let left_out = |work_tree: &str| settings.left_out(Path::new(work_tree));
        assert_eq!(left_out("/ws/app"), [".kubeopencode", "notes.md"].map(PathBuf::from));
        let root = [".kubeopencode", "task.md", "app/notes.md", "app", "docs"];
        assert_eq!(left_out("/ws"), root.map(PathBuf::from));
    }

    #[test]
    fn settings_do_not_show_the_credential() {
        let settings = Settings::from_env(&of(&[(env::GIT_PASSWORD, "hunter2"), (env::TASK_EPOCH, "3")])).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!((settings.epoch, settings.scratch), (3, PathBuf::from("/collect/publish")));
    }
}
