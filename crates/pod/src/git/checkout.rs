//! Checkout: resolve the ref, fetch only that, record that the checkout is complete.

use std::path::{Path, PathBuf};

use egress::{Git, GitError};
use serde::{Deserialize, Serialize};

use super::settings::Settings;

/// A ref, resolved by the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A branch and its newest commit.
    Branch(String, String),
    /// A tag, or another full ref, and its commit.
    Named(String, String),
    /// A full commit id.
    Commit(String),
    /// The beginning of a commit id.
    Abbreviated(String),
}

impl Target {
    /// The commit, if its full id is known.
    pub fn commit(&self) -> Option<&str> {
        match self {
            Self::Branch(_, commit) | Self::Named(_, commit) | Self::Commit(commit) => Some(commit),
            Self::Abbreviated(_) => None,
        }
    }
}

/// Why a checkout failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// No branch, tag or commit has this name.
    #[error("{url} has no branch, tag or commit `{reference}`; correct the context's git.ref")]
    NoSuchRef { url: String, reference: String },
    /// The repository has no commits.
    #[error("{url} is empty: it has no default branch; push a first commit or name a branch in git.ref")]
    Empty { url: String },
    /// The directory holds the checkout of another repository or ref, with local changes.
    #[error(
        "{path:?} holds another checkout ({found}) with local changes; move them away, or use another volume, to get {wanted}"
    )]
    Occupied {
        path: PathBuf,
        /// Repository and ref of the existing checkout.
        found: String,
        /// Repository and ref of the settings.
        wanted: String,
    },
    /// A file cannot be read or written.
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl CheckoutError {
    /// Whether a retry is useless.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Git(error) => error.is_permanent(),
            Self::NoSuchRef { .. } | Self::Empty { .. } | Self::Occupied { .. } => true,
            Self::Io { .. } => false,
        }
    }
}

/// The record of a finished checkout, `<root>/.<link>.ok`. Without it a checkout is never used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The repository, without credentials.
    pub repository: String,
    pub reference: String,
    /// The last commit that git-init or git-sync checked out.
    pub commit: String,
}

impl Marker {
    /// Reads a marker; `None` if it is missing or unreadable.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes a marker atomically.
    pub fn write(&self, path: &Path) -> Result<(), CheckoutError> {
        let fail = |source: std::io::Error| CheckoutError::Io { path: path.to_owned(), source };
        let parent = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(fail)?;
        let mut file = tempfile::NamedTempFile::new_in(parent).map_err(fail)?;
        serde_json::to_writer(&mut file, self).map_err(|error| fail(error.into()))?;
        file.persist(path).map_err(|error| fail(error.error))?;
        Ok(())
    }
}

/// Path of the marker of a checkout.
pub fn marker_path(settings: &Settings) -> PathBuf {
    settings.root.join(format!(".{}.ok", settings.link))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    pub marker: Marker,
    /// Whether this run checked it out; `false` = an earlier one did.
    pub fresh: bool,
}

/// Checks out, unless a complete checkout exists.
pub async fn ensure(settings: &Settings, git: &Git) -> Result<Checkout, CheckoutError> {
    let path = settings.checkout();
    let marker_path = marker_path(settings);
    if let Some(marker) = Marker::read(&marker_path).filter(|_| path.is_dir()) {
        if marker.repository == settings.repository.url && marker.reference == settings.reference {
            return Ok(Checkout { marker, fresh: false });
        }
        let status = git.run_untrusted(&path, &["status", "--porcelain", "--ignore-submodules=all"]).await?;
        let head = git.run_untrusted(&path, &["rev-parse", "HEAD"]).await?;
        if !status.is_empty() || head.trim() != marker.commit {
            let found = format!("{} at {}", marker.repository, marker.reference);
            let wanted = format!("{} at {}", settings.repository.url, settings.reference);
            return Err(CheckoutError::Occupied { path, found, wanted });
        }
    }
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source: std::io::Error| CheckoutError::Io { path, source }
    };
    std::fs::create_dir_all(&settings.root).map_err(fail(&settings.root))?;
    remove(&marker_path)?;
    remove(&path)?;
    let partial = settings.root.join(format!(".{}.partial", settings.link));
    let mut attempt = 1;
    let commit = loop {
        remove(&partial)?;
        std::fs::create_dir(&partial).map_err(fail(&partial))?;
        match fetch_and_check_out(settings, git, &partial).await {
            Ok(commit) => break commit,
            Err(error) if error.is_permanent() || attempt >= settings.attempts => {
                remove(&partial)?;
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(attempt, of = settings.attempts, "{error}; retrying");
                tokio::time::sleep(settings.retry_delay).await;
                attempt += 1;
            }
        }
    };
    open_up(&partial).map_err(fail(&partial))?;
    std::fs::rename(&partial, &path).map_err(fail(&path))?;
    let marker = Marker { repository: settings.repository.url.clone(), reference: settings.reference.clone(), commit };
    marker.write(&marker_path)?;
    Ok(Checkout { marker, fresh: true })
}

/// Resolves the ref on the remote. A branch wins over a tag, a tag over an abbreviated commit id.
pub async fn resolve(settings: &Settings, git: &Git) -> Result<Target, CheckoutError> {
    let (url, reference) = (&settings.repository.url, &settings.reference);
    let patterns = match reference.as_str() {
        "HEAD" => vec!["HEAD".to_owned()],
        full if full.starts_with("refs/") => vec![full.to_owned(), format!("{full}^{{}}")],
        name => vec![format!("refs/heads/{name}"), format!("refs/tags/{name}"), format!("refs/tags/{name}^{{}}")],
    };
    let mut arguments = vec!["ls-remote", "--symref", "--", url.as_str()];
    arguments.extend(patterns.iter().map(String::as_str));
    let listing = git.run(Path::new("/"), &arguments).await?;
    interpret(&listing, reference).ok_or_else(|| match reference.as_str() {
        "HEAD" => CheckoutError::Empty { url: url.clone() },
        _ => CheckoutError::NoSuchRef { url: url.clone(), reference: reference.clone() },
    })
}

/// Reads `git ls-remote --symref`.
fn interpret(listing: &str, reference: &str) -> Option<Target> {
    let find = |name: &str| {
        let mut lines = listing.lines().filter_map(|line| line.split_once('\t'));
        lines.find(|(left, right)| *right == name && !left.starts_with("ref:")).map(|(commit, _)| commit.to_owned())
    };
    let peeled = |name: &str| find(&format!("{name}^{{}}")).or_else(|| find(name));
    if reference == "HEAD" {
        let commit = find("HEAD")?;
        let branch = listing
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .find_map(|(left, right)| if right == "HEAD" { left.strip_prefix("ref: refs/heads/") } else { None });
        return Some(match branch {
            Some(branch) => Target::Branch(branch.to_owned(), commit),
            None => Target::Commit(commit),
        });
    }
    if let Some(branch) = reference.strip_prefix("refs/heads/") {
        return find(reference).map(|commit| Target::Branch(branch.to_owned(), commit));
    }
    if reference.starts_with("refs/") {
        return peeled(reference).map(|commit| Target::Named(reference.to_owned(), commit));
    }
    if let Some(commit) = find(&format!("refs/heads/{reference}")) {
        return Some(Target::Branch(reference.to_owned(), commit));
    }
    let tag = format!("refs/tags/{reference}");
    if let Some(commit) = peeled(&tag) {
        return Some(Target::Named(tag, commit));
    }
    let hex = reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    match reference.len() {
        40 | 64 if hex => Some(Target::Commit(reference.to_ascii_lowercase())),
        4..=63 if hex => Some(Target::Abbreviated(reference.to_ascii_lowercase())),
        _ => None,
    }
}

async fn fetch_and_check_out(settings: &Settings, git: &Git, path: &Path) -> Result<String, CheckoutError> {
    let target = resolve(settings, git).await?;
    // A repository that uses SHA-256 must be fetched into one that does.
    let format = if target.commit().is_some_and(|commit| commit.len() == 64) { "sha256" } else { "sha1" };
    git.run(path, &["init", "--quiet", &format!("--object-format={format}")]).await?;
    let url = settings.repository.url.as_str();
    git.run(path, &["remote", "add", "origin", "--", url]).await?;
    fetch(settings, git, path, &target).await?;
    match &target {
        Target::Branch(branch, _) => {
            let refspec = format!("+refs/heads/{branch}:refs/remotes/origin/{branch}");
            // Later fetches by the agent stay on this branch, as after `git clone --single-branch`.
            git.run(path, &["config", "remote.origin.fetch", &refspec]).await?;
            git.run(path, &["checkout", "--quiet", "-B", branch, "--track", &format!("refs/remotes/origin/{branch}")])
                .await?;
        }
        Target::Named(name, _) => {
            git.run(path, &["checkout", "--quiet", "--detach", &format!("{name}^{{commit}}")]).await?;
        }
        Target::Commit(commit) | Target::Abbreviated(commit) => {
            let missing = |_| CheckoutError::NoSuchRef {
                url: settings.repository.url.clone(),
                reference: settings.reference.clone(),
            };
            let name = format!("{commit}^{{commit}}");
            let full = git.run(path, &["rev-parse", "--verify", "--quiet", &name]).await.map_err(missing)?;
            git.run(path, &["checkout", "--quiet", "--detach", full.trim()]).await?;
        }
    }
    if settings.submodules {
        let depth = settings.depth.map(|depth| format!("--depth={depth}"));
        let mut arguments = vec!["submodule", "update", "--quiet", "--init", "--recursive"];
        arguments.extend(depth.as_deref());
        git.run(path, &arguments).await?;
    }
    Ok(git.run(path, &["rev-parse", "HEAD"]).await?.trim().to_owned())
}

/// Fetches only what the target needs, into a repository whose remote is `origin`.
pub async fn fetch(settings: &Settings, git: &Git, path: &Path, target: &Target) -> Result<(), CheckoutError> {
    let depth = settings.depth.map(|depth| format!("--depth={depth}"));
    let mut arguments = vec!["fetch", "--quiet", "--force"];
    arguments.extend(depth.as_deref());
    let refspec = match target {
        Target::Branch(branch, _) => format!("+refs/heads/{branch}:refs/remotes/origin/{branch}"),
        Target::Named(name, _) => format!("+{name}:{name}"),
        Target::Commit(commit) => commit.clone(),
        Target::Abbreviated(_) => return fetch_everything(git, path).await,
    };
    arguments.extend(["origin", &refspec]);
    match (git.run(path, &arguments).await, target) {
        (Ok(_), _) => Ok(()),
        // Not every server allows fetching a commit by its id.
        (Err(GitError::Failed { detail, .. }), Target::Commit(commit)) => {
            tracing::info!(%commit, "the server refuses to send this commit alone ({detail}); fetching the whole history");
            fetch_everything(git, path).await
        }
        (Err(error), _) => Err(error.into()),
    }
}

async fn fetch_everything(git: &Git, path: &Path) -> Result<(), CheckoutError> {
    let everything = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
    git.run(path, &["fetch", "--quiet", "--force", "origin", everything[0], everything[1]]).await?;
    Ok(())
}

fn remove(path: &Path) -> Result<(), CheckoutError> {
    let result = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    };
    result.map_err(|source| CheckoutError::Io { path: path.to_owned(), source })
}

/// Makes the checkout writable for every user of the Pod: the agent may run as another one.
fn open_up(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = path.symlink_metadata()?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    let runnable = metadata.is_dir() || mode & 0o100 != 0;
    let wanted = mode | if runnable { 0o777 } else { 0o666 };
    if wanted != mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(wanted))?;
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            open_up(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_is_a_branch_before_a_tag_before_a_commit() {
        let listing = "aaa\trefs/heads/dup\nbbb\trefs/tags/dup\nccc\trefs/tags/v1\nddd\trefs/tags/v1^{}\n\
                       eee\trefs/heads/deadbeef\n";
        let check = |reference: &str, expected: Option<Target>| {
            assert_eq!(interpret(listing, reference), expected, "{reference}");
        };
        check("dup", Some(Target::Branch("dup".into(), "aaa".into())));
        check("refs/heads/dup", Some(Target::Branch("dup".into(), "aaa".into())));
        check("refs/tags/dup", Some(Target::Named("refs/tags/dup".into(), "bbb".into())));
        check("v1", Some(Target::Named("refs/tags/v1".into(), "ddd".into())));
        check("deadbeef", Some(Target::Branch("deadbeef".into(), "eee".into())));
        check("CAFE123", Some(Target::Abbreviated("cafe123".into())));
        check(&"a".repeat(40), Some(Target::Commit("a".repeat(40))));
        check("nope", None);
        check("abc", None);
        check("refs/heads/nope", None);
    }

    #[test]
    fn the_default_branch_is_found_and_an_empty_repository_is_seen() {
        let listing = "ref: refs/heads/trunk\tHEAD\naaa\tHEAD\nbbb\trefs/remotes/origin/HEAD\n";
        assert_eq!(interpret(listing, "HEAD"), Some(Target::Branch("trunk".into(), "aaa".into())));
        assert_eq!(interpret("aaa\tHEAD\n", "HEAD"), Some(Target::Commit("aaa".into())));
        assert_eq!(interpret("", "HEAD"), None);
    }
}
