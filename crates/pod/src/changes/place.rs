//! One directory of the workspace as git trees: a repository, or the files outside of all repositories.
//!
//! The agent owns the repository and its configuration. So git gets an index and a directory for objects of our own,
//! and an environment in which no setting of the repository makes it execute a program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use domain::contract::paths;
use domain::run::changes::{Changes, FileChange, FileStatus, TreeDiff, cloned_at};
use egress::{Git, GitError, View};
use serde::{Deserialize, Serialize};

/// A larger file is compared by size and time, because git would compress and copy its content.
const LARGE: u64 = 16 << 20;
/// New and modified files that are read.
const MOST_FILES: usize = 20_000;
/// Their total size.
const MOST_BYTES: u64 = 128 << 20;
/// Paths that are left out by name.
const MOST_EXCLUDED: usize = 200;
/// Bytes of a patch that are read.
const PATCH: usize = 8 << 20;
/// References before a run whose commits are not new.
const MOST_REFERENCES: usize = 1_000;
/// Similarity search only among few files: its cost grows with their square.
const RENAMES: [&str; 2] = ["-M", "-l200"];

/// Only git's own comparison of content.
const PLAIN: [&str; 3] = ["--no-ext-diff", "--no-textconv", "--no-color"];

/// Why a directory cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("it has more than {MOST_FILES} new or modified files or {} MiB of them", MOST_BYTES >> 20)]
    TooLarge,
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the name {0:?} is not valid text")]
    Name(PathBuf),
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

/// A directory before the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// Not a repository of the agent: the files outside of repositories, in a repository of our own.
    pub own: bool,
    /// Our directory with index and objects.
    scratch: PathBuf,
    /// The objects of the repository.
    objects: PathBuf,
    tree: String,
    /// Commits that are known, with their ancestors.
    known: Vec<String>,
    large: BTreeMap<String, Large>,
}

/// A large file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Large {
    bytes: u64,
    /// Last modification in nanoseconds.
    modified: i128,
    tracked: bool,
}

/// A directory whose files are different after the run.
#[derive(Debug, Clone)]
pub struct Difference {
    place: Place,
    /// The tree after the run.
    tree: String,
    /// Large files changed too, which are in no tree.
    pub large: bool,
}

impl Difference {
    /// Writes the first `most` bytes of the patch into `into`. Returns the number of all bytes, which are counted up to
    /// `counted`. With `only`, the patch of these files, whose paths are relative to the workspace.
    pub async fn patch(
        &self,
        git: &Git,
        scope: Scope<'_>,
        only: Option<&[PathBuf]>,
        (most, counted): (u64, u64),
        into: &mut Vec<u8>,
    ) -> Result<u64, Problem> {
        let Self { place, tree, large: _ } = self;
        let own = only.map(|files| files.iter().filter_map(|file| file.strip_prefix(&place.path).ok()));
        let own = own.map(|files| files.map(|file| format!(":(top,literal){}", file.display())).collect::<Vec<_>>());
        if own.as_ref().is_some_and(Vec::is_empty) {
            return Ok(0);
        }
        let view = place.view(git, scope).await;
        let path = place.path.to_str().ok_or_else(|| Problem::Name(place.path.clone()))?;
        let slash = if path.is_empty() { "" } else { "/" };
        let prefixes = ["src-prefix=a", "dst-prefix=b"].map(|option| format!("--{option}/{path}{slash}"));
        let form = ["diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--submodule=short"];
        let ends = [prefixes[0].as_str(), &prefixes[1], &place.tree, tree];
        let own = own.unwrap_or_default();
        let arguments = [&form[..], &PLAIN, &ends, &["--"], &words(&own)].concat();
        Ok(git.copy_view(&view, &arguments, (most, counted), into).await?)
    }
}

/// What to compare, and what is compared elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub root: &'a Path,
    /// All repositories of the workspace, relative to it.
    pub repositories: &'a [PathBuf],
}

impl Place {
    /// Takes the tree of a repository before the run.
    pub async fn repository(git: &Git, scope: Scope<'_>, path: &Path, scratch: PathBuf) -> Result<Self, Problem> {
        let mut place = Self::bare(path, false, scratch);
        create(&place.scratch.join("objects"))?;
        let mut view = place.view(git, scope).await;
        // The path of the objects, not of ours.
        view.objects = None;
        place.objects = path_in_git(git, &view, "objects").await?;
        view.objects = place.both_objects();
        copy_index(git, &view).await?;
        place.known = references(git, &view).await;
        (place.tree, place.large) = place.take(git, &view, scope).await?;
        Ok(place)
    }

    /// Takes the tree of the files outside of repositories.
    pub async fn outside(git: &Git, scope: Scope<'_>, scratch: PathBuf) -> Result<Self, Problem> {
        let mut place = Self::bare(Path::new(""), true, scratch);
        create(&place.scratch)?;
        git.run(&place.scratch, &["init", "--quiet", "--bare", "git"]).await?;
        let view = place.view(git, scope).await;
        (place.tree, place.large) = place.take(git, &view, scope).await?;
        Ok(place)
    }

    /// A repository that the run created, and whether it was cloned: it begins with the commit that was cloned, else with
    /// nothing.
    pub async fn created(git: &Git, scope: Scope<'_>, path: &Path, scratch: PathBuf) -> Result<(Self, bool), Problem> {
        let mut place = Self::repository(git, scope, path, scratch).await?;
        let view = place.view(git, scope).await;
        let reflog = std::fs::read(path_in_git(git, &view, "logs/HEAD").await?).unwrap_or_default();
        let reflog = String::from_utf8_lossy(&reflog[..reflog.len().min(64 << 10)]).into_owned();
        let cloned = cloned_at(&reflog);
        place.known = cloned.map(str::to_owned).into_iter().collect();
        let tree = cloned.map(|commit| format!("{commit}^{{tree}}"));
        let arguments = match &tree {
            Some(tree) => vec!["rev-parse", "--verify", tree],
            None => vec!["hash-object", "-t", "tree", "/dev/null"],
        };
        place.tree = text(&git.run_view(&view, &arguments).await?);
        place.large.clear();
        Ok((place, cloned.is_some()))
    }

    fn bare(path: &Path, own: bool, scratch: PathBuf) -> Self {
        let (objects, tree, known, large) = (PathBuf::new(), String::new(), Vec::new(), BTreeMap::new());
        Self { path: path.to_owned(), own, scratch, objects, tree, known, large }
    }

    async fn view(&self, git: &Git, scope: Scope<'_>) -> View {
        let work_tree = scope.root.join(&self.path);
        let git_dir = if self.own { self.scratch.join("git") } else { work_tree.join(".git") };
        let mut view = View::new(work_tree, git_dir, self.scratch.join("index"));
        view.objects = self.both_objects();
        // Our own repository configures no filters.
        if !self.own {
            git.disarm(&mut view).await;
        }
        view
    }

    fn both_objects(&self) -> Option<(PathBuf, PathBuf)> {
        (!self.own).then(|| (self.scratch.join("objects"), self.objects.clone()))
    }

    /// Adds the difference to the run's changes, and returns it if there is one.
    pub async fn compare(
        &self,
        git: &Git,
        scope: Scope<'_>,
        changes: &mut Changes,
    ) -> Result<Option<Difference>, Problem> {
        let view = self.view(git, scope).await;
        let (tree, large) = self.take(git, &view, scope).await?;
        let prefix = self.path.to_string_lossy();
        if tree != self.tree {
            let trees = [self.tree.as_str(), tree.as_str()];
            let listing = [&["diff-tree", "-r", "-z", "--raw", "--numstat"][..], &PLAIN, &RENAMES, &trees].concat();
            let listing = git.run_view(&view, &listing).await?;
            let prefixes = ["--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"];
            let patch = [&["diff-tree", "-r", "-p"][..], &PLAIN, &prefixes, &RENAMES, &trees].concat();
            let (patch, patch_cut) = git.head_view(&view, &patch, PATCH).await?;
            changes.add(&TreeDiff { prefix: &prefix, listing: &listing, patch: &patch, patch_cut });
        }
        self.compare_large(&large, &prefix, changes);
        if !self.own {
            changes.add_commits(&self.commits(git, &view).await?);
        }
        let large = large != self.large;
        Ok((large || tree != self.tree).then(|| Difference { place: self.clone(), tree, large }))
    }

    fn compare_large(&self, now: &BTreeMap<String, Large>, prefix: &str, changes: &mut Changes) {
        let mut add = |path: &str, status: FileStatus| {
            let path = if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") };
            // A file that became large or small is also in the difference of the trees.
            if changes.files.iter().all(|file| file.path != path) {
                changes.add_file(FileChange { path, status, binary: true, ..FileChange::default() });
            }
        };
        for (path, file) in now {
            match self.large.get(path) {
                Some(before) if before == file => {}
                None if !file.tracked => add(path, FileStatus::Added),
                _ => add(path, FileStatus::Modified),
            }
        }
        for path in self.large.keys().filter(|path| !now.contains_key(*path)) {
            add(path, FileStatus::Deleted);
        }
    }

    /// The commits on local branches that were not known before.
    async fn commits(&self, git: &Git, view: &View) -> Result<String, Problem> {
        let mut arguments = vec!["rev-list", "--format=%s", "--max-count=1000", "--branches"];
        if git.run_view(view, &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).await.is_ok() {
            arguments.push("HEAD");
        }
        if !self.known.is_empty() {
            arguments.push("--not");
            arguments.extend(self.known.iter().map(String::as_str));
        }
        Ok(text(&git.run_view(view, &arguments).await?))
    }

    /// Puts the files into our index and returns their tree, and the large files.
    async fn take(
        &self,
        git: &Git,
        view: &View,
        scope: Scope<'_>,
    ) -> Result<(String, BTreeMap<String, Large>), Problem> {
        let mut excluded = self.nested(scope);
        if !self.own {
            excluded.extend(submodules(&git.run_view(view, &["ls-files", "-z", "--stage"]).await?));
        }
        let except = pathspecs(&excluded)?;
        let listing = ["ls-files", "-z", "-t", "--others", "--modified", "--exclude-standard", "--", "."];
        let listing = git.run_view(view, &[&listing[..], &words(&except)].concat()).await?;
        let large = large_files(&view.work_tree, &listing)?;
        excluded.extend(large.keys().map(PathBuf::from));
        let except = pathspecs(&excluded)?;
        let add = [&["add", "--all", "--ignore-errors", "--", "."][..], &words(&except)].concat();
        match git.run_view(view, &add).await {
            // Files that cannot be read are left as they were.
            Ok(_) | Err(GitError::Failed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok((text(&git.run_view(view, &["write-tree", "--missing-ok"]).await?), large))
    }

    /// Directories below this one that are compared for themselves, or belong to the platform.
    fn nested(&self, scope: Scope<'_>) -> Vec<PathBuf> {
        let below = scope.repositories.iter().filter_map(|other| other.strip_prefix(&self.path).ok());
        let mut nested: Vec<PathBuf> =
            below.filter(|below| !below.as_os_str().is_empty()).map(Path::to_owned).collect();
        if self.path.as_os_str().is_empty() {
            nested.push(paths::PLATFORM_DIRECTORY.into());
        }
        nested
    }
}

/// The commits of all references.
async fn references(git: &Git, view: &View) -> Vec<String> {
    let head = git.run_view(view, &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).await;
    let limit = format!("--count={MOST_REFERENCES}");
    let all = git.run_view(view, &["for-each-ref", &limit, "--format=%(objectname)"]).await;
    let lines = [head, all].into_iter().flatten().map(|output| text(&output)).collect::<Vec<_>>().join("\n");
    let mut known: Vec<String> = lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    known.sort();
    known.dedup();
    known
}

async fn path_in_git(git: &Git, view: &View, name: &str) -> Result<PathBuf, Problem> {
    let output = git.run_view(view, &["rev-parse", "--git-path", name]).await?;
    let path = output.strip_suffix(b"\n").unwrap_or(&output);
    Ok(view.work_tree.join(OsStr::from_bytes(path)))
}

/// Begins with the repository's index, which knows the files that need no reading. An index whose entries are marked to
/// be left alone would hide changes; then every file is read.
async fn copy_index(git: &Git, view: &View) -> Result<(), Problem> {
    // `--git-path index` would be our own.
    let directory = git.run_view(view, &["rev-parse", "--absolute-git-dir"]).await?;
    let index = Path::new(OsStr::from_bytes(directory.strip_suffix(b"\n").unwrap_or(&directory))).join("index");
    let copied = std::fs::symlink_metadata(&index).is_ok_and(|metadata| metadata.is_file())
        && std::fs::copy(&index, &view.index).is_ok();
    let honest = copied
        && git.run_view(view, &["ls-files", "-z", "-v"]).await.is_ok_and(|output| {
            let mut entries = output.split(|byte| *byte == 0).filter_map(|entry| entry.first());
            entries.all(|tag| tag.is_ascii_uppercase() && *tag != b'S')
        });
    if !honest {
        let _ = std::fs::remove_file(&view.index);
        // Fails without a commit: then the index stays empty.
        let _ = git.run_view(view, &["read-tree", "HEAD"]).await;
    }
    Ok(())
}

/// The paths of submodules in `ls-files --stage -z`. git would run in them with their own configuration.
pub(crate) fn submodules(listing: &[u8]) -> Vec<PathBuf> {
    let entries = listing.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    entries
        .filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1))
        .map(|path| OsStr::from_bytes(path).into())
        .collect()
}

/// The large files in `ls-files -t -z`. Fails if the others are too many or too large.
fn large_files(work_tree: &Path, listing: &[u8]) -> Result<BTreeMap<String, Large>, Problem> {
    let mut large = BTreeMap::new();
    let (mut files, mut bytes) = (0, 0);
    for entry in listing.split(|byte| *byte == 0) {
        let [tag, b' ', path @ ..] = entry else { continue };
        let Ok(metadata) = std::fs::symlink_metadata(work_tree.join(OsStr::from_bytes(path))) else { continue };
        if !metadata.is_file() {
            continue;
        }
        if metadata.len() > LARGE {
            let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
            let file = Large { bytes: metadata.len(), modified, tracked: *tag != b'?' };
            large.insert(String::from_utf8_lossy(path).into_owned(), file);
            continue;
        }
        files += 1;
        bytes += metadata.len();
        if files > MOST_FILES || bytes > MOST_BYTES {
            return Err(Problem::TooLarge);
        }
    }
    Ok(large)
}

/// Arguments that leave these paths out.
fn pathspecs(excluded: &[PathBuf]) -> Result<Vec<String>, Problem> {
    if excluded.len() > MOST_EXCLUDED {
        return Err(Problem::TooLarge);
    }
    Ok(excluded.iter().map(|path| format!(":(exclude,literal){}", path.display())).collect())
}

fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end_matches('\n').to_owned()
}

fn create(directory: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(directory).map_err(|source| Problem::Io { path: directory.to_owned(), source })
}
