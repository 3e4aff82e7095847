//! `pull`: applies the changes of a run to a checkout on this machine.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use kube::ResourceExt as _;
use tokio::process::Command;

use super::{
    diff,
    follow::find,
    patch::{self, FileChange},
};
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{note, print},
    problem::{Answer, Problem},
    rest::ServerArg,
    screen::{line, paragraph},
};

/// Arguments of `pull`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose changes to apply.
    #[arg(value_name = "TASK")]
    name: String,
    /// The checkout [default: that of the current directory].
    #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
    directory: PathBuf,
    /// Create this branch for the changes.
    #[arg(short, long, value_name = "NAME")]
    branch: Option<String>,
    /// Directory in the workspace of the Task that is this checkout [default: the one whose files the checkout has].
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Changes of this run, the first being 1 [default: the newest run with changes].
    #[arg(long, alias = "run", value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    epoch: Option<i64>,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Applies the changes.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let task = find(&cluster, &args.name).await?.name_any();
    // Before anything is fetched.
    let checkout = Checkout::open(&args.directory).await?;
    checkout.require_clean().await?;
    let rest = args.server.connect(&cluster).await?;
    let patch = diff::whole(&cluster, &rest, &task, args.epoch).await.map_err(|problem| {
        let shown = cluster.hint(format!("kubeopencode diff {task}"));
        if problem.exit() == Exit::NotFound {
            problem.or_next(format!("see what is recorded: {shown}"))
        } else {
            problem
        }
    })?;
    let files = patch::read(&patch);
    if files.is_empty() {
        note(&format!("Task '{task}' has changed nothing"));
        return Ok(Exit::Success);
    }
    let place = match &args.path {
        Some(below) => below.trim_matches('/').trim_start_matches("./").to_owned(),
        None => place(&files, &checkout.files().await?),
    };
    let part = Part::of(&patch, &files, &place);
    if part.files.is_empty() {
        return Err(Problem::new(format!("the changes have no file in '{}'", line(&place)))
            .next("name the directory of the workspace with --path"));
    }
    let before = checkout.head().await?;
    if let Some(branch) = &args.branch {
        checkout.git(&["switch", "--quiet", "--create", branch]).await.map_err(|problem| {
            problem
                .while_doing(&format!("branch '{}' cannot be created", line(branch)))
                .next("choose another with --branch")
        })?;
    }
    let applied = checkout.apply(&part).await;
    let undo = undo(&checkout, args.branch.as_deref(), &before);
    if let Err(problem) = applied {
        let conflicts = checkout.conflicts().await.unwrap_or_default();
        if conflicts.is_empty() {
            let restored = match &args.branch {
                Some(branch) => checkout.leave(branch, &before).await,
                None => Ok(()),
            };
            let problem = Problem::new(format!("the changes do not apply to {}: {problem}", checkout.shown()));
            return Err(match restored {
                Ok(()) => {
                    problem.next("check out the commit that the Task started from, and try again; nothing was changed")
                }
                Err(left) => {
                    problem.next(format!("the new branch could not be removed ({left}); undo everything with: {undo}"))
                }
            });
        }
        return Err(Problem::new(format!("the changes conflict with yours in: {}", line(&conflicts.join(", "))))
            .next(format!("resolve the marked conflicts, or undo everything with: {undo}")));
    }
    print(&format!(
        "{} in {}, staged{}\n",
        patch::summary(&part.files),
        checkout.shown(),
        match &args.branch {
            Some(branch) => format!(" on the new branch '{}'", line(branch)),
            None => String::new(),
        }
    ))?;
    if !place.is_empty() {
        note(&format!("{}/ of the workspace was taken for this checkout; --path names another", line(&place)));
    }
    if part.left_out > 0 {
        note(&format!("{} changed files are outside of {}/ and were left out", part.left_out, line(&place)));
    }
    note(&format!("review: git diff --cached\nundo:   {undo}"));
    Ok(Exit::Success)
}

/// The commands that restore the checkout, which was clean.
fn undo(checkout: &Checkout, branch: Option<&str>, before: &Head) -> String {
    let git = match checkout.given.as_path() {
        here if here == Path::new(".") => "git".to_owned(),
        elsewhere => format!("git -C {}", local::shell::quoted(elsewhere)),
    };
    match branch {
        None => format!("{git} reset --hard"),
        Some(branch) => {
            let [branch, name] = [branch, before.name()].map(|name| local::shell::quoted(Path::new(name)));
            let detach = if matches!(before, Head::Detached(_)) { "--detach " } else { "" };
            format!("{git} reset --hard && {git} switch {detach}{name} && {git} branch -D {branch}")
        }
    }
}

/// The directory of the workspace whose files the checkout has: the one with the most files that the Task changed or
/// removed, and the whole workspace if all are new.
fn place(files: &[FileChange], tracked: &BTreeSet<String>) -> String {
    let mut found = (0, String::new());
    let mut tried = BTreeSet::new();
    for file in files.iter().filter(|file| file.existed) {
        for (end, _) in [(0, "")].into_iter().chain(file.path.match_indices('/')) {
            let place = &file.path[..end];
            if !tried.insert(place) {
                continue;
            }
            let inside = files.iter().filter(|file| file.existed).filter_map(|file| below(&file.path, place));
            let known = inside.filter(|path| tracked.contains(*path)).count();
            // The shortest of equally good ones.
            if known > found.0 || (known == found.0 && known > 0 && place.len() < found.1.len()) {
                found = (known, place.to_owned());
            }
        }
    }
    found.1
}

/// The path below a directory; `None` if it is elsewhere.
fn below<'a>(path: &'a str, place: &str) -> Option<&'a str> {
    if place.is_empty() { Some(path) } else { path.strip_prefix(place)?.strip_prefix('/') }
}

/// The changes of one directory of the workspace.
struct Part {
    patch: Vec<u8>,
    files: Vec<FileChange>,
    left_out: usize,
    /// Leading components that the paths in the patch have, with git's `a/`.
    strip: usize,
}

impl Part {
    fn of(patch: &[u8], files: &[FileChange], place: &str) -> Self {
        let (inside, outside): (Vec<_>, Vec<_>) = files.iter().partition(|file| below(&file.path, place).is_some());
        let sections = inside.iter().filter_map(|file| patch.get(file.section.clone()));
        let strip = 1 + place.split('/').filter(|component| !component.is_empty()).count();
        Self {
            patch: sections.collect::<Vec<_>>().concat(),
            files: inside.into_iter().cloned().collect(),
            left_out: outside.len(),
            strip,
        }
    }
}

/// What was checked out.
enum Head {
    Branch(String),
    /// A commit, without a branch.
    Detached(String),
}

impl Head {
    fn name(&self) -> &str {
        match self {
            Self::Branch(name) | Self::Detached(name) => name,
        }
    }
}

/// A checkout of a repository.
struct Checkout {
    /// As the user named it.
    given: PathBuf,
    top: PathBuf,
}

impl Checkout {
    async fn open(directory: &Path) -> Answer<Self> {
        let at = Self { given: directory.to_owned(), top: directory.to_owned() };
        let top = at.git(&["rev-parse", "--show-toplevel"]).await.map_err(|problem| {
            Problem::new(format!("{} is not a checkout of a repository: {problem}", at.shown()))
                .next("run it in a checkout, or name one: kubeopencode pull TASK DIR")
        })?;
        Ok(Self { top: PathBuf::from(top.trim_end_matches('\n')), ..at })
    }

    fn shown(&self) -> String {
        match self.given.as_path() {
            here if here == Path::new(".") => "this directory".to_owned(),
            elsewhere => line(&elsewhere.display().to_string()),
        }
    }

    /// Runs git; returns its standard output.
    async fn git(&self, args: &[&str]) -> Answer<String> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.top).args(args).stdin(Stdio::null()).env("LC_ALL", "C");
        let output = command.output().await.map_err(|error| {
            Problem::new(format!("git cannot be run: {error}")).next("install git, and check the PATH")
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = paragraph(said.trim())
            .lines()
            .map(|text| text.trim_start_matches("error: ").trim_start_matches("fatal: ").to_owned())
            .collect::<Vec<_>>()
            .join("; ");
        Err(Problem::new(if said.is_empty() { format!("git {} failed", args[0]) } else { said }))
    }

    /// Refuses a checkout with changes: they could not be told from those of the Task, and undoing would lose them.
    async fn require_clean(&self) -> Answer<()> {
        let changed = self.git(&["status", "--porcelain"]).await?;
        let Some(first) = changed.lines().next() else { return Ok(()) };
        let count = changed.lines().count();
        let files = if count == 1 { "one file".to_owned() } else { format!("{count} files") };
        Err(Problem::new(format!(
            "{} has uncommitted changes in {files}, such as: {}",
            self.shown(),
            line(first.get(3..).unwrap_or(first))
        ))
        .next("commit them, or put them aside with: git stash --include-untracked"))
    }

    async fn head(&self) -> Answer<Head> {
        Ok(match self.git(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await {
            Ok(name) => Head::Branch(name.trim_end().to_owned()),
            Err(_) => Head::Detached(self.git(&["rev-parse", "HEAD"]).await?.trim_end().to_owned()),
        })
    }

    /// Returns from a new branch and removes it.
    async fn leave(&self, branch: &str, before: &Head) -> Answer<()> {
        let mut switch = vec!["switch", "--quiet", "--discard-changes"];
        switch.extend(matches!(before, Head::Detached(_)).then_some("--detach"));
        switch.push(before.name());
        self.git(&switch).await?;
        self.git(&["branch", "--quiet", "--delete", "--force", branch]).await.map(drop)
    }

    async fn files(&self) -> Answer<BTreeSet<String>> {
        let listed = self.git(&["ls-files", "-z"]).await?;
        Ok(listed.split('\0').filter(|path| !path.is_empty()).map(ToOwned::to_owned).collect())
    }

    async fn conflicts(&self) -> Answer<Vec<String>> {
        let listed = self.git(&["diff", "--name-only", "--diff-filter=U", "-z"]).await?;
        Ok(listed.split('\0').filter(|path| !path.is_empty()).map(ToOwned::to_owned).collect())
    }

    /// Applies changes to files and index. git refuses paths outside of the checkout and in `.git`.
    async fn apply(&self, part: &Part) -> Answer<()> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(&part.patch)?;
        file.flush()?;
        let (strip, path) = (format!("-p{}", part.strip), file.path().display().to_string());
        self.git(&["apply", "--3way", "--binary", "--index", "--whitespace=nowarn", &strip, &path]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use super::*;

    fn tracked(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn the_checkout_is_found_in_the_workspace_by_its_files() {
        let check = |changed: &[&str], known: &[&str], expected: &str| {
            let file = |path: &&str| FileChange {
                path: path.trim_start_matches('+').to_owned(),
                existed: !path.starts_with('+'),
                ..FileChange::default()
            };
            let files: Vec<_> = changed.iter().map(file).collect();
            assert_eq!(place(&files, &tracked(known)), expected, "{changed:?}");
        };
        check(&["src/main.rs", "+new"], &["src/main.rs"], "");
        check(&["repo/src/main.rs", "+repo/new"], &["src/main.rs"], "repo");
        check(&["a/b/x", "a/b/y", "other/x"], &["x", "y"], "a/b");
        check(&["src/src/x"], &["src/x", "src/src/x"], "");
        check(&["+repo/new"], &["x"], "");
        check(&["gone"], &["x"], "");
    }

    #[test]
    fn only_the_part_of_the_checkout_is_applied() {
        let patch = "diff --git a/repo/x b/repo/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/repository/y b/repository/y\n@@ -1 +1 @@\n-c\n+d\n";
        let files = patch::read(patch.as_bytes());
        let part = Part::of(patch.as_bytes(), &files, "repo");
        assert_eq!((part.files.len(), part.left_out, part.strip), (1, 1, 2));
        assert!(patch.as_bytes().starts_with(&part.patch) && part.patch.ends_with(b"+b\n"));
        let whole = Part::of(patch.as_bytes(), &files, "");
        assert_eq!((whole.patch.as_slice(), whole.left_out, whole.strip), (patch.as_bytes(), 0, 1));
    }

    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Self {
            let repository = Self(tempfile::tempdir().unwrap());
            repository.git(&["init", "--quiet", "--initial-branch=main"]);
            fs::write(repository.0.path().join("x"), "one\ntwo\nthree\n").unwrap();
            repository.git(&["add", "."]);
            repository.git(&["commit", "--quiet", "-m", "first"]);
            repository
        }

        fn git(&self, args: &[&str]) -> String {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            let output =
                process::Command::new("git").arg("-C").arg(self.0.path()).args(identity).args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }

        fn write(&self, text: &str) {
            fs::write(self.0.path().join("x"), text).unwrap();
        }

        async fn open(&self) -> Checkout {
            Checkout::open(self.0.path()).await.unwrap()
        }
    }

    const PATCH: &str = "\
diff --git a/repo/x b/repo/x
--- a/repo/x
+++ b/repo/x
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/repo/sub/new b/repo/sub/new
new file mode 100755
--- /dev/null
+++ b/repo/sub/new
@@ -0,0 +1 @@
+new
";

    #[tokio::test]
    async fn changes_are_staged_and_can_be_undone() {
        let repository = Repository::new();
        let checkout = repository.open().await;
        checkout.require_clean().await.unwrap();
        let files = patch::read(PATCH.as_bytes());
        let place = place(&files, &checkout.files().await.unwrap());
        assert_eq!((place.as_str(), checkout.head().await.unwrap().name()), ("repo", "main"));
        checkout.apply(&Part::of(PATCH.as_bytes(), &files, &place)).await.unwrap();
        assert_eq!(repository.git(&["diff", "--cached", "--name-status"]), "A\tsub/new\nM\tx\n");
        let problem = checkout.require_clean().await.unwrap_err();
        assert!(problem.to_string().contains("uncommitted changes in 2 files, such as: sub/new"), "{problem}");
        assert!(problem.next_step().unwrap().contains("git stash"));
        let undo = undo(&checkout, None, &Head::Branch("main".to_owned()));
        let git = undo.strip_prefix("git ").unwrap().split(' ').collect::<Vec<_>>();
        repository.git(&git);
        checkout.require_clean().await.unwrap();
    }

    #[tokio::test]
    async fn a_new_branch_is_left_for_the_branch_or_the_commit_of_before() {
        let repository = Repository::new();
        let checkout = repository.open().await;
        let commit = repository.git(&["rev-parse", "HEAD"]);
        for detached in [false, true] {
            if detached {
                repository.git(&["switch", "--quiet", "--detach"]);
            }
            let before = checkout.head().await.unwrap();
            for by_hand in [false, true] {
                repository.git(&["switch", "--quiet", "--create", "new"]);
                repository.write("changed");
                if by_hand {
                    let undo = undo(&checkout, Some("new"), &before);
                    let done = process::Command::new("sh").args(["-c", &undo]).output().unwrap();
                    assert!(done.status.success(), "{undo}: {}", String::from_utf8_lossy(&done.stderr));
                } else {
                    checkout.leave("new", &before).await.unwrap();
                }
                checkout.require_clean().await.unwrap();
                assert_eq!(repository.git(&["branch", "--show-current"]).is_empty(), detached);
                assert_eq!(repository.git(&["rev-parse", "HEAD"]), commit);
                assert_eq!(repository.git(&["branch", "--list", "new"]), "");
            }
        }
    }

    #[tokio::test]
    async fn a_conflict_is_told_from_a_patch_of_another_repository() {
        let repository = Repository::new();
        let blob = repository.git(&["rev-parse", "HEAD:x"]);
        let with_blob = PATCH.replace("--- a/repo/x", &format!("index {}..1234567 100644\n--- a/repo/x", blob.trim()));
        repository.write("one\nTWO\nthree\n");
        repository.git(&["commit", "--quiet", "--all", "-m", "second"]);
        let checkout = repository.open().await;
        let files = patch::read(with_blob.as_bytes());
        assert!(checkout.apply(&Part::of(with_blob.as_bytes(), &files, "repo")).await.is_err());
        assert_eq!(checkout.conflicts().await.unwrap(), ["x"]);
        repository.git(&["reset", "--hard", "--quiet"]);

        let files = patch::read(PATCH.as_bytes());
        assert!(checkout.apply(&Part::of(PATCH.as_bytes(), &files, "repo")).await.is_err());
        assert!(checkout.conflicts().await.unwrap().is_empty());
        checkout.require_clean().await.unwrap();
    }

    #[tokio::test]
    async fn a_hostile_patch_writes_nothing_outside_of_the_files_of_the_checkout() {
        let repository = Repository::new();
        let checkout = repository.open().await;
        for path in ["../outside", ".git/hooks/post-checkout", "/tmp/outside", "a/.git/config"] {
            let patch = format!(
                "diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
            );
            let files = patch::read(patch.as_bytes());
            let problem = checkout.apply(&Part::of(patch.as_bytes(), &files, "")).await.unwrap_err();
            assert!(problem.to_string().contains("invalid path"), "{path}: {problem}");
        }
        assert!(!repository.0.path().join("../outside").exists());
    }

    #[tokio::test]
    async fn a_directory_without_a_repository_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let problem = Checkout::open(directory.path()).await.err().unwrap();
        assert!(problem.to_string().contains("is not a checkout of a repository"), "{problem}");
    }
}
