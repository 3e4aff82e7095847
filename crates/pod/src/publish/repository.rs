//! Our own repository: the base from the remote, the agent's commits after a check, and its files.
//!
//! Commands that reach the remote run with the credential, in a repository that only this process writes. Commands that
//! read what the agent wrote run without it, and with the configuration of our repository alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use api::run::PublishAuthor;
use egress::{Git, GitError, View};

use super::Error;
use super::checkout::{Checkout, Unusable};
use super::submodules;
use crate::changes::find;
use crate::git::checkout::{self, CheckoutError, Target};
use crate::git::settings::Settings as GitSettings;

/// How much of the history of the base is fetched in addition, until the agent's commits are seen to continue it. The
/// last step is all of it.
const DEEPER: [&str; 3] = ["--deepen=100", "--deepen=2000", "--unshallow"];
/// How much of the history of an existing branch is compared with the agent's.
const BRANCH_DEPTH: &str = "--depth=100";
/// New and modified files of a commit.
const MOST_FILES: usize = 100_000;
/// Their total size.
const MOST_BYTES: u64 = 1 << 30;
/// Paths that are left out.
const MOST_LEFT_OUT: usize = 2_000;
/// Paths in the arguments of one command.
const PATHS_AT_ONCE: usize = 500;
/// Files with a filter, such as those of Git LFS: what is in the work tree is not what belongs into a commit.
const FILTERED: [&str; 3] = [".", ":(exclude,attr:!filter)", ":(exclude,attr:-filter)"];
/// The agent's newest commit, in the copy of its repository and in ours.
const AGENT: &str = "refs/heads/agent";
/// Settings of our repositories. Large files are not held in memory.
const CONFIG: &str = "[core]\n\tbigFileThreshold = 8m\n\tlogAllRefUpdates = false\n[pack]\n\twindowMemory = 64m\n\
                      \tthreads = 1\n[push]\n\trecurseSubmodules = no\n[fetch]\n\trecurseSubmodules = no\n";

/// Our repository.
pub struct Own<'a> {
    git: &'a Git,
    scratch: PathBuf,
    directory: PathBuf,
    format: &'static str,
    target: &'a Target,
    /// The newest commit of the target.
    pub tip: String,
}

/// The files of the agent as a tree.
pub struct Files {
    pub tree: String,
    /// Submodules and their commits.
    pub submodules: BTreeMap<PathBuf, String>,
    /// Sentences about what is not in it.
    pub notes: Vec<String>,
}

/// What to do with a branch of the remote.
#[derive(Debug, PartialEq, Eq)]
pub enum Fit {
    /// The branch does not exist, or the commit continues it.
    Push,
    /// The branch has this commit already, or one that differs from it in its date alone.
    Same(String),
    /// The branch has other commits.
    Taken,
}

impl<'a> Own<'a> {
    /// Makes an empty repository for a target of the remote.
    pub async fn create(
        git: &'a Git,
        scratch: &Path,
        target: &'a Target,
        author: &PublishAuthor,
    ) -> Result<Self, Error> {
        let format = if target.commit().is_some_and(|commit| commit.len() == 64) { "sha256" } else { "sha1" };
        let directory = scratch.join("own");
        let own = Self { git, scratch: scratch.to_owned(), directory, format, target, tip: String::new() };
        let identity = format!("[user]\n\tname = {}\n\temail = {}\n", quoted(&author.name), quoted(&author.email));
        own.init(&own.directory, &[], ".git/config", &identity).await?;
        Ok(own)
    }

    async fn init(&self, directory: &Path, options: &[&str], config: &str, more: &str) -> Result<(), Error> {
        std::fs::create_dir(directory).map_err(|source| Error::io(directory, source))?;
        let format = format!("--object-format={}", self.format);
        // A template of the image may contain hooks.
        let arguments = [&["init", "--quiet", "--template=", &format][..], options].concat();
        self.git.run(directory, &arguments).await?;
        let config = directory.join(config);
        let written = std::fs::read_to_string(&config).map_err(|source| Error::io(&config, source))?;
        write(&config, format!("{written}{CONFIG}{more}").as_bytes())
    }

    pub fn git_dir(&self) -> PathBuf {
        self.directory.join(".git")
    }

    /// Fetches the newest commit of the target.
    pub async fn fetch_target(&mut self, settings: &GitSettings) -> Result<(), CheckoutError> {
        // Fails if an earlier attempt added it.
        tolerated(self.remote(&["remote", "add", "origin", "--", &settings.repository.url]).await)?;
        checkout::fetch(settings, self.git, &self.directory, self.target).await?;
        let name = match self.target {
            Target::Branch(branch, _) => format!("refs/remotes/origin/{branch}"),
            Target::Named(name, _) => name.clone(),
            Target::Commit(commit) | Target::Abbreviated(commit) => commit.clone(),
        };
        self.tip = self.local(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).await?;
        Ok(())
    }

    /// With the credential.
    async fn remote(&self, arguments: &[&str]) -> Result<String, GitError> {
        self.git.run(&self.directory, arguments).await
    }

    /// Without the credential, and without files of the agent. Returns the output without its last line end.
    async fn local(&self, arguments: &[&str]) -> Result<String, GitError> {
        let view = View::new(self.directory.clone(), self.directory.join(".git"), self.scratch.join("no-index"));
        let output = self.git.run_view(&view, arguments).await?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// Whether `old` is `new`, or one of its ancestors as far as the history is known here.
    pub async fn descends(&self, new: &str, old: &str) -> bool {
        new == old || self.local(&["merge-base", "--is-ancestor", old, new]).await.is_ok()
    }

    async fn common(&self, one: &str, other: &str) -> Option<String> {
        let found = self.local(&["merge-base", one, other]).await.ok()?;
        found.lines().next().map(str::to_owned)
    }

    /// The newest commit that both have. Fetches as much of the target's history as that takes.
    pub async fn common_with_target(&self, commit: &str) -> Option<String> {
        for deeper in DEEPER {
            if let Some(found) = self.common(&self.tip, commit).await {
                return Some(found);
            }
            if !self.is_shallow() {
                return None;
            }
            let mut arguments = vec!["fetch", "--quiet", "--no-tags", deeper, "origin"];
            let name = match self.target {
                Target::Branch(branch, _) => format!("+refs/heads/{branch}:refs/remotes/origin/{branch}"),
                Target::Named(name, _) => format!("+{name}:{name}"),
                Target::Commit(_) | Target::Abbreviated(_) => self.tip.clone(),
            };
            arguments.push(&name);
            self.remote(&arguments).await.ok()?;
        }
        self.common(&self.tip, commit).await
    }

    fn is_shallow(&self) -> bool {
        self.directory.join(".git/shallow").exists()
    }

    /// Whether the remote has this commit, which is here then.
    pub async fn is_on_remote(&self, commit: &str) -> bool {
        self.remote(&["fetch", "--quiet", "--no-tags", "--depth=1", "origin", commit]).await.is_ok()
    }

    pub async fn has(&self, commit: &str) -> bool {
        self.local(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).await.is_ok()
    }

    /// Fetches the agent's commit and everything behind it that is missing here. Every object is checked: its content must
    /// have the id that names it, be well-formed, and refer to objects that exist.
    pub async fn import(&self, agents: &Checkout, commit: &str) -> Result<(), Unusable> {
        let copy = self.scratch.join("agent.git");
        let damaged = |detail: &dyn std::fmt::Display| Unusable::Copy(io::Error::other(detail.to_string()));
        self.init(&copy, &["--bare"], "config", "").await.map_err(|error| damaged(&error))?;
        agents.link_objects(&copy.join("objects"))?;
        let put = |name: &str, content: &str| std::fs::write(copy.join(name), content).map_err(Unusable::Copy);
        if !agents.shallow.is_empty() {
            put("shallow", &format!("{}\n", agents.shallow.join("\n")))?;
        }
        std::fs::create_dir_all(copy.join("refs/heads")).map_err(Unusable::Copy)?;
        put(AGENT, &format!("{commit}\n"))?;
        let refspec = format!("+{AGENT}:{AGENT}");
        let path = copy.display().to_string();
        let check = ["-c", "fetch.fsckObjects=true"];
        let fetch =
            ["fetch", "--quiet", "--no-tags", "--update-shallow", "--no-write-fetch-head", "--", &path, &refspec];
        let fetched = self.git.fetch_untrusted(&self.directory, &[&check[..], &fetch].concat()).await;
        fetched.map_err(|error| match error {
            GitError::Failed { detail, .. } => damaged(&detail),
            other => damaged(&other),
        })?;
        Ok(())
    }

    /// The files of the work tree on top of those of `parent`. Paths in `left_out`, relative to the work tree, are as in
    /// `base`. Ignored files, files with a filter, submodules and repositories inside of the work tree are left as they are
    /// in `parent`.
    pub async fn files(
        &self,
        work_tree: &Path,
        (parent, base): (&str, &str),
        left_out: &[PathBuf],
        ignored: &[u8],
    ) -> Result<Files, Error> {
        let git_dir = self.git_dir();
        let view = View::new(work_tree.to_owned(), git_dir.clone(), self.scratch.join("index"));
        let git = async |arguments: &[&str]| self.git.run_view(&view, arguments).await;
        let mut notes = Vec::new();
        let info = git_dir.join("info");
        std::fs::create_dir_all(&info).map_err(|source| Error::io(&info, source))?;
        write(&info.join("exclude"), ignored)?;

        git(&["read-tree", parent]).await?;
        let as_in_base = pathspecs("literal", left_out)?;
        if !as_in_base.is_empty() {
            git(&[&["reset", "--quiet", base, "--"][..], &words(&as_in_base)].concat()).await?;
        }
        let modules = submodules::commits(&git(&["ls-files", "-z", "--stage"]).await?);
        let inside = find::repositories(work_tree);
        let inside: Vec<PathBuf> = inside.into_iter().filter(|path| !path.as_os_str().is_empty()).collect();
        notes.extend(inside.iter().filter(|path| !modules.contains_key(*path)).map(|path| not_published(path)));
        let mut excluded: Vec<PathBuf> = left_out.iter().chain(modules.keys()).chain(&inside).cloned().collect();
        let except = pathspecs("exclude,literal", &excluded)?;

        // Reads the files that may differ. Says with its exit code that some do.
        tolerated(git(&["update-index", "-q", "--ignore-submodules", "--refresh"]).await)?;
        let filtered = [&["--exclude-standard", "--"][..], &FILTERED, &words(&except)].concat();
        let filtered = async |kind| {
            let listing = git(&[&["ls-files", "-z", kind][..], &filtered].concat()).await?;
            // A file that was removed needs no filter.
            let there = names(&listing).filter(|path| std::fs::symlink_metadata(work_tree.join(path)).is_ok());
            Ok::<_, GitError>(there.map(Path::to_owned).collect::<BTreeSet<PathBuf>>())
        };
        let (changed, new) = (filtered("--modified").await?, filtered("--others").await?);
        for paths in changed.iter().collect::<Vec<_>>().chunks(PATHS_AT_ONCE) {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            git(&[&["update-index", "--assume-unchanged", "--"][..], &words(&paths)].concat()).await?;
        }
        let because = "Not published, because they have a filter, such as that of Git LFS, which is not applied here";
        notes.extend(sentence(because, changed.iter().chain(&new).map(PathBuf::as_path)));
        excluded.extend(new);
        let except = pathspecs("exclude,literal", &excluded)?;
        let here = [&["--", "."][..], &words(&except)].concat();
        let listing = ["ls-files", "-z", "--others", "--modified", "--exclude-standard"];
        check_size(work_tree, &git(&[&listing[..], &here].concat()).await?)?;
        // Also fails if a path that is left out is ignored anyway.
        tolerated(git(&[&["add", "--all", "--ignore-errors"][..], &here].concat()).await)?;
        let unread = git(&[&listing[..], &here].concat()).await?;
        notes.extend(sentence("Not published, because they cannot be read", names(&unread)));
        // Repositories that are too deep to be found.
        let after = submodules::commits(&git(&["ls-files", "-z", "--stage"]).await?);
        let new: Vec<PathBuf> = after.into_keys().filter(|path| !modules.contains_key(path)).collect();
        if !new.is_empty() {
            let paths: Vec<String> = new.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            git(&[&["update-index", "--force-remove", "--"][..], &words(&paths)].concat()).await?;
            notes.extend(new.iter().map(|path| not_published(path)));
        }
        let tree = String::from_utf8_lossy(&git(&["write-tree"]).await?).trim().to_owned();
        Ok(Files { tree, submodules: modules, notes })
    }

    pub async fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        self.local(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")]).await
    }

    pub async fn commit(&self, tree: &str, parent: &str, message: &str) -> Result<String, Error> {
        let file = self.scratch.join("message");
        let message = message.replace('\0', "");
        write(&file, format!("{}\n", message.trim_end()).as_bytes())?;
        Ok(self.local(&["commit-tree", tree, "-p", parent, "-F", &file.display().to_string()]).await?)
    }

    /// The first line of the message of a commit.
    pub async fn subject(&self, commit: &str) -> Result<String, GitError> {
        self.local(&["log", "-1", "--no-show-signature", "--format=%s", commit]).await
    }

    /// Whether `commit` may be pushed to a branch that has the commit `tip`.
    pub async fn fits(&self, branch: &str, tip: Option<&str>, commit: &str) -> Result<Fit, CheckoutError> {
        let Some(tip) = tip else { return Ok(Fit::Push) };
        if tip == commit {
            return Ok(Fit::Same(tip.to_owned()));
        }
        let mut arguments = vec!["fetch", "--quiet", "--no-tags"];
        if self.is_shallow() {
            arguments.push(BRANCH_DEPTH);
        }
        let refspec = format!("+refs/heads/{branch}:refs/kubeopencode/branch");
        arguments.extend(["origin", &refspec]);
        self.remote(&arguments).await?;
        // The branch may have moved since it was listed.
        let tip = self.local(&["rev-parse", "refs/kubeopencode/branch"]).await?;
        let shape =
            async |commit: &str| self.local(&["log", "-1", "--no-show-signature", "--format=%T %P", commit]).await;
        if shape(&tip).await? == shape(commit).await? {
            return Ok(Fit::Same(tip));
        }
        // An older branch may be behind the end of the history that is known here.
        if self.common(commit, &tip).await.is_none() {
            self.common_with_target(&tip).await;
        }
        Ok(if self.descends(commit, &tip).await { Fit::Push } else { Fit::Taken })
    }

    /// Pushes a commit to a branch, never by force: the remote refuses if the branch has other commits by now.
    pub async fn push(&self, commit: &str, branch: &str) -> Result<(), GitError> {
        let refspec = format!("{commit}:refs/heads/{branch}");
        self.remote(&["push", "--quiet", "--no-verify", "origin", &refspec]).await.map(drop)
    }
}

fn not_published(path: &Path) -> String {
    format!("{} is a repository of its own, which is not published.", path.display())
}

/// Passes over a command that did what it could.
fn tolerated<T>(result: Result<T, GitError>) -> Result<(), GitError> {
    match result {
        Ok(_) | Err(GitError::Failed { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The paths in `ls-files -z`.
fn names(listing: &[u8]) -> impl Iterator<Item = &Path> {
    let names = listing.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| Path::new(OsStr::from_bytes(name)))
}

/// A sentence about these files; `None` if there are none.
fn sentence<'a>(begin: &str, names: impl Iterator<Item = &'a Path>) -> Option<String> {
    const SHOWN: usize = 3;
    let names: BTreeSet<String> = names.map(|name| name.display().to_string()).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    (!shown.is_empty()).then(|| format!("{begin}: {}{more}.", shown.join(", ")))
}

/// Refuses too many or too large files in `ls-files -z`.
fn check_size(work_tree: &Path, listing: &[u8]) -> Result<(), Error> {
    let (mut files, mut bytes) = (0, 0);
    for path in names(listing) {
        let metadata = std::fs::symlink_metadata(work_tree.join(path));
        files += 1;
        bytes += metadata.map_or(0, |metadata| metadata.len());
        if files > MOST_FILES || bytes > MOST_BYTES {
            return Err(Error::TooLarge);
        }
    }
    Ok(())
}

fn pathspecs(magic: &str, paths: &[PathBuf]) -> Result<Vec<String>, Error> {
    if paths.len() > MOST_LEFT_OUT {
        return Err(Error::TooManyPaths);
    }
    Ok(paths.iter().map(|path| format!(":({magic}){}", path.display())).collect())
}

fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// A value for git's configuration.
fn quoted(value: &str) -> String {
    let value: String = value.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    std::fs::write(path, content).map_err(|source| Error::io(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_published_are_named() {
        assert_eq!(sentence("Not published", names(b"")), None);
        let sentence = sentence("Not published", names(b"b\0a\0a\0d\0c\0")).unwrap();
        assert_eq!(sentence, "Not published: a, b, c and 1 more.");
    }

    #[test]
    fn an_author_cannot_add_settings() {
        assert_eq!(quoted("A \"B\" \\\n[core]\n\tpager = x"), "\"A \\\"B\\\" \\\\ [core]  pager = x\"");
    }
}
