//! publish with checkouts that are made to execute programs, to read elsewhere, or to break git.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::publish::{Case, PASSWORD, make_executable, publish_as_a_process};
use crate::support::git::git;

/// A program that leaves a mark, and its mark.
struct Trap {
    base: tempfile::TempDir,
}

impl Trap {
    fn new() -> Self {
        let trap = Self { base: tempfile::tempdir().unwrap() };
        make_executable(
            &trap.program(),
            &format!("#!/bin/sh\necho \"$0 $*\" >>{}\nenv >>{0}\ncat\n", trap.mark().display()),
        );
        trap
    }

    fn program(&self) -> PathBuf {
        self.base.path().join("trap")
    }

    fn mark(&self) -> PathBuf {
        self.base.path().join("executed")
    }

    fn dump(&self) -> PathBuf {
        self.base.path().join("dump")
    }

    /// A `git` that records the environment and the arguments of every call.
    fn watched_path(&self) -> String {
        let path = std::env::var("PATH").unwrap();
        let found = path.split(':').map(|directory| Path::new(directory).join("git")).find(|git| git.exists()).unwrap();
        let script = format!(
            "#!/bin/sh\n(echo \"= $*\"; tr '\\0' '\\n' </proc/$$/environ) >>{}\nexec {} \"$@\"\n",
            self.dump().display(),
            found.display()
        );
        make_executable(&self.base.path().join("bin/git"), &script);
        format!("{}:{path}", self.base.path().join("bin").display())
    }

    /// Sets everything that makes git execute a program, in a repository.
    fn arm(&self, work_tree: &Path) {
        let program = self.program().display().to_string();
        for name in [
            "core.fsmonitor",
            "core.sshCommand",
            "core.askPass",
            "core.pager",
            "core.editor",
            "core.alternateRefsCommand",
            "credential.helper",
            "diff.external",
            "diff.evil.command",
            "diff.evil.textconv",
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "filter.a=b.clean",
            "gpg.program",
            "uploadpack.packObjectsHook",
            "remote.origin.uploadpack",
            "remote.origin.receivepack",
            "sequence.editor",
            "merge.evil.driver",
        ] {
            git(work_tree, &["config", name, &program]);
        }
        for (name, value) in [
            ("filter.evil.required", "true"),
            ("log.showSignature", "true"),
            ("commit.gpgSign", "true"),
            ("push.gpgSign", "if-asked"),
            ("url.ext::sh -c trap.insteadOf", "http://"),
            ("protocol.ext.allow", "always"),
            ("core.hooksPath", ".git/hooks"),
            ("core.worktree", "/etc"),
            ("submodule.recurse", "true"),
            ("http.proxy", "http://127.0.0.1:9"),
            ("http.extraHeader", "x-evil: 1"),
            ("user.name", "Mallory"),
        ] {
            git(work_tree, &["config", name, value]);
        }
        for hook in [
            "pre-push",
            "post-index-change",
            "pre-commit",
            "commit-msg",
            "post-commit",
            "reference-transaction",
            "post-checkout",
            "fsmonitor-watchman",
            "pre-auto-gc",
            "push-to-checkout",
        ] {
            make_executable(&work_tree.join(".git/hooks").join(hook), &fs::read_to_string(self.program()).unwrap());
        }
        let attributes = "* filter=evil diff=evil merge=evil\nREADME.md filter=a=b\nplain.txt !filter\n";
        fs::create_dir_all(work_tree.join(".git/info")).unwrap();
        fs::write(work_tree.join(".git/info/attributes"), attributes).unwrap();
        fs::write(work_tree.join(".gitattributes"), attributes).unwrap();
    }
}

#[tokio::test]
async fn nothing_of_a_checkout_is_executed_and_no_process_has_the_credential() {
    let mut case = Case::new().await;
    let trap = Trap::new();
    case.write("poem.md", "one\n");
    case.commit("By the agent");
    // A submodule, known to the agent's commits, with the same traps.
    git(&case.ws(), &["init", "--quiet", "sub"]);
    git(&case.ws().join("sub"), &["commit", "--quiet", "--allow-empty", "-m", "x"]);
    case.commit("A submodule");
    trap.arm(&case.ws().join("sub"));
    case.write("sub/file", "changed\n");
    trap.arm(&case.ws());
    case.write("README.md", "changed\n");
    case.write("plain.txt", "new\n");
    case.more = vec![("PATH", trap.watched_path())];
    let finished = publish_as_a_process(&case).await;
    let executed = fs::read_to_string(trap.mark()).unwrap_or_default();
    assert!(executed.is_empty(), "executed: {executed}");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(case.subjects("agents/fix"), ["Fix the poem", "A submodule", "By the agent"]);
    assert_eq!(case.remote(&["show", "agents/fix:plain.txt"]), "new");
    // Files with a filter stay as they were: what the filter would make of them is not known.
    let (before, after) = (case.remote(&["show", "main:README.md"]), case.remote(&["show", "agents/fix:README.md"]));
    assert_eq!(before, after);
    assert_eq!(case.remote(&["log", "-1", "--format=%an", "agents/fix"]), "KubeOpenCode agent");

    let dump = fs::read_to_string(trap.dump()).unwrap();
    for step in ["= init", "= ls-remote", "= fetch", "= add", "= commit-tree", "= push"] {
        assert!(dump.contains(step), "no {step}: the watch does not work: {dump}");
    }
    assert!(!dump.contains(PASSWORD) && !dump.contains("GIT_PASSWORD"), "{dump}");
    assert!(!finished.stdout.contains(PASSWORD) && !finished.stderr.contains(PASSWORD));
    let git_directory = case.ws().join(".git").display().to_string();
    assert!(!dump.lines().any(|line| line.contains(&git_directory)), "git was told of the agent's repository: {dump}");
    // The traps are set; git may fail in them.
    Command::new("git").args(["--work-tree=.", "status"]).current_dir(case.ws()).output().unwrap();
    assert!(trap.mark().exists());
}

#[tokio::test]
async fn a_repository_outside_of_the_workspace_is_not_read() {
    for kind in ["link", "file", "objects", "alternates"] {
        let case = Case::new().await;
        // Another repository of this machine, with a secret in it.
        let other = tempfile::tempdir().unwrap();
        let git_directory = case.ws().join(".git");
        assert!(Command::new("cp").arg("-a").arg(&git_directory).arg(other.path()).status().unwrap().success());
        let secret = other.path().join(".git");
        git(other.path(), &["--git-dir", &secret.display().to_string(), "config", "core.bare", "false"]);
        git(other.path(), &["checkout", "--quiet", "."]);
        fs::write(other.path().join("secret.txt"), "secret\n").unwrap();
        git(other.path(), &["add", "--all"]);
        git(other.path(), &["commit", "--quiet", "-m", "secret"]);
        let commit = git(other.path(), &["rev-parse", "HEAD"]);
        match kind {
            "link" => {
                fs::remove_dir_all(&git_directory).unwrap();
                symlink(&secret, &git_directory).unwrap();
            }
            "file" => {
                fs::remove_dir_all(&git_directory).unwrap();
                fs::write(&git_directory, format!("gitdir: {}\n", secret.display())).unwrap();
            }
            "objects" => {
                fs::remove_dir_all(git_directory.join("objects")).unwrap();
                symlink(secret.join("objects"), git_directory.join("objects")).unwrap();
                fs::write(git_directory.join("HEAD"), format!("{commit}\n")).unwrap();
            }
            _ => {
                let list = git_directory.join("objects/info/alternates");
                fs::create_dir_all(list.parent().unwrap()).unwrap();
                fs::write(list, format!("{}\n", secret.join("objects").display())).unwrap();
                fs::write(git_directory.join("HEAD"), format!("{commit}\n")).unwrap();
            }
        }
        case.write("poem.md", "one\n");
        let published = case.publish().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(case.changes("agents/fix"), ["A poem.md"], "{kind}");
        assert_eq!(case.subjects("agents/fix"), ["Fix the poem"], "{kind}");
        assert!(published.notes[0].starts_with("The agent's commits are not published, because "), "{published:?}");
    }
}

/// The path of a loose object.
fn object(work_tree: &Path, id: &str) -> PathBuf {
    work_tree.join(".git/objects").join(&id[..2]).join(&id[2..])
}

#[tokio::test]
async fn damaged_objects_are_never_pushed_and_the_files_are() {
    for damage in ["commit", "tree", "blob", "missing", "swapped", "pipe"] {
        let case = Case::new().await;
        case.write("poem.md", "one\n");
        let commit = case.commit("By the agent");
        let tree = git(&case.ws(), &["rev-parse", "HEAD^{tree}"]);
        let blob = git(&case.ws(), &["rev-parse", "HEAD:poem.md"]);
        let broken = object(
            &case.ws(),
            match damage {
                "commit" => &commit,
                "tree" => &tree,
                _ => &blob,
            },
        );
        fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        match damage {
            "missing" => fs::remove_file(&broken).unwrap(),
            // A whole object, but another one.
            "swapped" => {
                fs::write(case.ws().join("other"), "other content\n").unwrap();
                let other = git(&case.ws(), &["hash-object", "-w", "other"]);
                fs::copy(object(&case.ws(), &other), &broken).unwrap();
                fs::remove_file(case.ws().join("other")).unwrap();
            }
            "pipe" => {
                fs::remove_file(&broken).unwrap();
                assert!(Command::new("mkfifo").arg(&broken).status().unwrap().success());
            }
            _ => fs::write(&broken, "garbage").unwrap(),
        }
        let published = case.publish().await.unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert_eq!(case.subjects("agents/fix"), ["Fix the poem"], "{damage}");
        assert_eq!(case.remote(&["show", "agents/fix:poem.md"]), "one");
        assert!(published.notes[0].contains("its files are one commit on top of"), "{published:?}");
    }
}

#[tokio::test]
async fn commits_that_git_calls_malformed_are_refused() {
    let case = Case::new().await;
    let head = git(&case.ws(), &["rev-parse", "HEAD"]);
    // A tree with a file that a checkout would write into its own repository.
    let blob = git(&case.ws(), &["rev-parse", "HEAD:README.md"]);
    let raw: Vec<u8> = (0..20).map(|at| u8::from_str_radix(&blob[2 * at..2 * at + 2], 16).unwrap()).collect();
    let file = case.pod.base.path().join("tree");
    fs::write(&file, [b"100644 .git\0".as_slice(), &raw].concat()).unwrap();
    let file = file.display().to_string();
    let tree = git(&case.ws(), &["hash-object", "--literally", "-w", "-t", "tree", &file]);
    let commit = git(&case.ws(), &["commit-tree", &tree, "-p", &head, "-m", "evil"]);
    fs::write(case.ws().join(".git/HEAD"), format!("{commit}\n")).unwrap();
    case.write("poem.md", "one\n");
    let published = case.publish().await.unwrap();
    assert!(published.notes[0].contains("hasDotgit"), "{published:?}");
    assert_eq!(case.subjects("agents/fix"), ["Fix the poem"]);
    assert_eq!(case.changes("agents/fix"), ["A poem.md"]);
}

#[tokio::test]
async fn references_are_text_with_limits() {
    let huge = "x".repeat(9 << 10);
    for (file, content) in [
        ("HEAD", "ref: refs/heads/a\nevil\n"),
        ("HEAD", "ref: ../../../../etc/hostname\n"),
        ("HEAD", "--upload-pack=evil\n"),
        ("HEAD", &huge),
        ("refs/heads/main", &huge),
        ("refs/heads/main", "ref: refs/heads/main\n"),
        ("logs/HEAD", &huge),
        ("shallow", "not a commit\n--depth=1\n"),
        ("commondir", "/etc\n"),
        ("packed-refs", &huge),
        ("config", "[core\nbroken"),
        ("index", "broken"),
        ("objects/info/commit-graph", "broken"),
        ("objects/pack/multi-pack-index", "broken"),
    ] {
        let case = Case::new().await;
        let path = case.ws().join(".git").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if file == "shallow" {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        }
        fs::write(path, content).unwrap();
        case.write("poem.md", "one\n");
        case.publish().await.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(case.changes("agents/fix"), ["A poem.md"], "{file} {content:.40}");
    }
}

#[tokio::test]
async fn a_commit_that_does_not_descend_from_the_base_is_not_pushed() {
    let case = Case::new().await;
    let tree = git(&case.ws(), &["rev-parse", "HEAD^{tree}"]);
    let unrelated = git(&case.ws(), &["commit-tree", &tree, "-m", "unrelated"]);
    // It says that everything began there.
    fs::write(case.ws().join(".git/HEAD"), format!("{unrelated}\n")).unwrap();
    let zeros = "0".repeat(40);
    fs::write(case.ws().join(".git/logs/HEAD"), format!("{zeros} {unrelated} M <m@m> 1 +0000\tclone: from x\n"))
        .unwrap();
    case.write("poem.md", "one\n");
    case.publish().await.unwrap();
    assert_eq!(case.subjects("agents/fix"), ["Fix the poem"]);
    assert_eq!(case.remote(&["rev-parse", "agents/fix~1"]), case.remote(&["rev-parse", "main"]));
}

#[tokio::test]
async fn special_files_in_the_work_tree_do_not_block_and_are_not_followed() {
    let case = Case::new().await;
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("secret"), "secret\n").unwrap();
    for path in ["pipe", "README.md"] {
        let path = case.ws().join(path);
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    symlink(secret.path(), case.ws().join("directory")).unwrap();
    symlink("/proc/self/environ", case.ws().join("environment")).unwrap();
    case.write("poem.md", "one\n");
    case.publish().await.unwrap();
    let changes = case.changes("agents/fix");
    assert!(
        changes.contains(&"A directory".to_owned()) && !changes.iter().any(|line| line.ends_with("pipe")),
        "{changes:?}"
    );
    assert_eq!(case.remote(&["show", "agents/fix:environment"]), "/proc/self/environ");
    assert_eq!(case.remote(&["cat-file", "-t", "agents/fix:directory"]), "blob");
}
