//! The changes of a run, with real git, and with a real OpenCode for a Task in its own Pod and for one on an Agent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use demo::scripted_model::ScriptedModel;
use domain::contract::reason::Reason;
use domain::contract::record;
use domain::run::changes::{Changes, FileChange, FileStatus};
use kubeopencode_pod::attach::{self, Arguments, Settings};
use kubeopencode_pod::changes::Before;
use kubeopencode_pod::env;
use kubeopencode_pod::redact::Redactor;
use kubeopencode_pod::run_log::{Format, Log, Note};
use serde_json::Value;

use crate::support::git::{Origin, git};
use crate::support::helper::{Helper, command, outcome, receiver};
use crate::support::opencode::{PASSWORD, Server, environment, program};
use crate::support::{LIMIT, lookup};

/// A workspace with a repository in `app`: two files, one commit.
struct Workspace {
    base: tempfile::TempDir,
}

impl Workspace {
    fn empty() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("workspace")).unwrap();
        fs::create_dir(base.path().join("state")).unwrap();
        Self { base }
    }

    fn new() -> Self {
        let workspace = Self::empty();
        repository(&workspace.app());
        workspace
    }

    fn root(&self) -> PathBuf {
        self.base.path().join("workspace")
    }

    fn app(&self) -> PathBuf {
        self.root().join("app")
    }

    async fn changes(&self, work: impl FnOnce()) -> Changes {
        let state = self.base.path().join("state");
        let before = Before::read(&self.root(), &state, LIMIT).await;
        // As on an Agent, where another process continues.
        let before: Before = serde_json::from_value(serde_json::to_value(before).unwrap()).unwrap();
        work();
        before.compare(&state, LIMIT).await
    }

    /// The changes, and the file with the patch if there is one.
    async fn patch(&self, work: impl FnOnce()) -> (Changes, Option<PathBuf>) {
        let state = tempfile::tempdir_in(self.base.path()).unwrap();
        let before = Before::read(&self.root(), state.path(), LIMIT).await;
        work();
        let patch = self.base.path().join("changes.patch");
        let changes = before.compare_into(state.path(), LIMIT, &patch).await;
        let exists = patch.symlink_metadata().is_ok();
        (changes, exists.then_some(patch))
    }
}

fn repository(path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("poem.txt"), "roses\nviolets\n").unwrap();
    fs::write(path.join("song.txt"), "la\n").unwrap();
    git(path, &["init", "--quiet"]);
    commit(path, "first");
}

fn commit(path: &Path, message: &str) {
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--message", message]);
}

fn lines(changes: &Changes) -> Vec<String> {
    changes.files.iter().map(FileChange::line).collect()
}

fn file<'a>(changes: &'a Changes, path: &str) -> &'a FileChange {
    changes.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path} in {changes:?}"))
}

#[tokio::test]
async fn commits_untracked_files_and_edits_of_commands_are_changes() {
    let workspace = Workspace::new();
    let app = workspace.app();
    fs::write(app.join("before.txt"), "untracked before the run\n").unwrap();
    fs::write(app.join("poem.txt"), "roses\nviolets\nedited before the run\n").unwrap();
    let index = fs::read(app.join(".git/index")).unwrap();
    let changes = workspace
        .changes(|| {
            assert_eq!(fs::read(app.join(".git/index")).unwrap(), index, "the repository is only read");
            fs::write(app.join("poem.txt"), "roses\nviolins\nedited before the run\n").unwrap();
            commit(&app, "Play the violin");
            fs::write(app.join("new é.txt"), "1\n2\n").unwrap();
            fs::remove_file(app.join("song.txt")).unwrap();
            fs::write(workspace.root().join("notes.md"), "outside of the repository\n").unwrap();
        })
        .await;
    let mut shown = lines(&changes);
    shown.sort();
    assert_eq!(shown, ["A app/new é.txt +2 -0", "A notes.md +1 -0", "D app/song.txt +0 -1", "M app/poem.txt +1 -1"]);
    let patch = &file(&changes, "app/poem.txt").patch;
    assert!(patch.contains("\n-violets\n+violins\n"), "{patch}");
    let subjects: Vec<&str> = changes.commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!((subjects.as_slice(), changes.commit_count), (["Play the violin"].as_slice(), 1));
    assert_eq!((changes.compared, changes.notes.as_slice()), (true, [].as_slice()));
    assert_eq!((changes.file_count, changes.insertions, changes.deletions), (4, 4, 2));
}

#[tokio::test]
async fn a_run_that_changes_nothing_has_no_changes() {
    let changes = Workspace::new().changes(|| {}).await;
    assert_eq!(changes, Changes { compared: true, ..Changes::default() });
}

#[tokio::test]
async fn a_workspace_without_a_repository_is_compared_and_says_so() {
    let workspace = Workspace::empty();
    fs::write(workspace.root().join("a.txt"), "1\n").unwrap();
    fs::create_dir_all(workspace.root().join(".kubeopencode/tasks")).unwrap();
    let changes = workspace
        .changes(|| {
            fs::write(workspace.root().join("a.txt"), "2\n").unwrap();
            fs::write(workspace.root().join(".kubeopencode/tasks/x"), "the platform's own").unwrap();
        })
        .await;
    assert_eq!(lines(&changes), ["M a.txt +1 -1"]);
    assert_eq!(changes.notes, ["No repository in the workspace: its files were compared by content."]);
    assert!(!workspace.root().join(".git").exists());
}

#[tokio::test]
async fn a_repository_that_the_run_cloned_begins_with_the_cloned_commit() {
    let origin = Origin::new();
    let workspace = Workspace::empty();
    let changes = workspace
        .changes(|| {
            git(&workspace.root(), &["clone", "--quiet", "--branch", "feature", &origin.url(), "cloned"]);
            let cloned = workspace.root().join("cloned");
            fs::write(cloned.join("README.md"), "mine\n").unwrap();
            commit(&cloned, "Mine");
            git(&cloned, &["push", "--quiet", "origin", "HEAD:refs/heads/mine"]);
        })
        .await;
    assert_eq!(lines(&changes), ["M cloned/README.md +1 -1"]);
    assert_eq!((changes.commit_count, changes.commits[0].subject.as_str()), (1, "Mine"));
}

#[tokio::test]
async fn nothing_that_a_repository_configures_is_executed() {
    let workspace = Workspace::new();
    let app = workspace.app();
    let marker = workspace.base.path().join("executed");
    let script = workspace.base.path().join("script");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >>{}\ncat\n", marker.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.display().to_string();
    // A submodule whose own configuration is as hostile.
    repository(&app.join("sub"));
    let arm = |path: &Path| {
        for name in [
            "core.fsmonitor",
            "core.pager",
            "diff.external",
            "diff.evil.command",
            "diff.evil.textconv",
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "filter.a=b.clean",
            "core.sshCommand",
            "core.editor",
            "gpg.program",
        ] {
            git(path, &["config", name, &script]);
        }
        for (name, value) in [("filter.evil.required", "true"), ("log.showSignature", "true")] {
            git(path, &["config", name, value]);
        }
        fs::create_dir_all(path.join(".git/hooks")).unwrap();
        for hook in ["post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"] {
            fs::copy(&script, path.join(".git/hooks").join(hook)).unwrap();
        }
        fs::write(path.join(".git/info/attributes"), "* filter=evil diff=evil\nsong.txt filter=a=b\n").unwrap();
    };
    git(&app, &["add", "sub"]);
    git(&app, &["commit", "--quiet", "--message", "submodule"]);
    arm(&app.join("sub"));
    arm(&app);
    let changes = workspace
        .changes(|| {
            fs::write(app.join("poem.txt"), "changed\n").unwrap();
            fs::write(app.join("song.txt"), "changed\n").unwrap();
            fs::write(app.join("sub/song.txt"), "changed\n").unwrap();
        })
        .await;
    assert!(!marker.exists(), "executed: {}", fs::read_to_string(&marker).unwrap_or_default());
    let mut shown = lines(&changes);
    shown.sort();
    assert_eq!(shown, ["M app/poem.txt +1 -2", "M app/song.txt +1 -1", "M app/sub/song.txt +1 -1"], "{changes:?}");
}

#[tokio::test]
async fn an_index_that_hides_files_hides_no_changes() {
    let workspace = Workspace::new();
    let app = workspace.app();
    git(&app, &["update-index", "--assume-unchanged", "poem.txt"]);
    git(&app, &["update-index", "--skip-worktree", "song.txt"]);
    let changes = workspace
        .changes(|| {
            fs::write(app.join("poem.txt"), "changed\n").unwrap();
            fs::write(app.join("song.txt"), "changed\n").unwrap();
        })
        .await;
    assert_eq!(changes.file_count, 2, "{changes:?}");
}

#[tokio::test]
async fn large_files_are_listed_and_not_read() {
    let workspace = Workspace::new();
    let sparse = |path: &str, bytes: u64| fs::File::create(workspace.app().join(path)).unwrap().set_len(bytes).unwrap();
    sparse("same.bin", 20 << 30);
    sparse("gone.bin", 20 << 30);
    let changes = workspace
        .changes(|| {
            sparse("new.bin", 30 << 30);
            fs::remove_file(workspace.app().join("gone.bin")).unwrap();
            fs::write(workspace.app().join("long.txt"), "x".repeat(400 << 10)).unwrap();
        })
        .await;
    assert_eq!(lines(&changes), ["A app/long.txt +1 -0", "A app/new.bin (binary)", "D app/gone.bin (binary)"]);
    let long = file(&changes, "app/long.txt");
    assert!(long.cut && long.patch.len() < 1000 && long.status == FileStatus::Added, "{}", long.patch.len());
}

#[tokio::test]
async fn too_many_files_are_a_sentence() {
    let workspace = Workspace::new();
    let many = workspace.root().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..20_001 {
        fs::write(many.join(number.to_string()), "").unwrap();
    }
    let changes = workspace.changes(|| fs::write(workspace.app().join("song.txt"), "lo\n").unwrap()).await;
    assert_eq!(lines(&changes), ["M app/song.txt +1 -1"], "the repository is still compared");
    assert!(
        changes.notes[0].starts_with("The workspace was not compared, because it has more than 20000 new or modified")
            && changes.notes[0].ends_with("files changed by shell commands are not listed."),
        "{:?}",
        changes.notes
    );
}

#[tokio::test]
async fn broken_repositories_are_a_sentence() {
    let workspace = Workspace::new();
    fs::write(workspace.app().join(".git/config"), "[core\n").unwrap();
    let changes = workspace.changes(|| fs::write(workspace.root().join("a"), "1\n").unwrap()).await;
    assert_eq!(lines(&changes), ["A a +1 -0"]);
    assert!(changes.notes[0].starts_with("app was not compared, because git"), "{:?}", changes.notes);
}

/// A workspace whose repository `app` has a file of every kind, and what a run does to them.
fn kinds_of_files(app: &Path) -> impl FnOnce() {
    let binary: Vec<u8> = (0..3000_u32).flat_map(|number| (number * 7919).to_le_bytes()).collect();
    let write = |path: &str, content: &[u8]| {
        let path = app.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("image.bin", &binary);
    write("gone.bin", &binary);
    write("moved/a.txt", &b"line\n".repeat(50));
    write("script.sh", b"#!/bin/sh\n");
    write("with space/quote\"d 'é\ttab.txt", b"1\n");
    write("becomes-a-link", b"file\n");
    write("no-end", b"no line end");
    commit(app, "files");
    write("edited-before", b"untracked before the run\n");
    let app = app.to_owned();
    move || {
        let write = |path: &str, content: &[u8]| fs::write(app.join(path), content).unwrap();
        write("image.bin", &[binary.as_slice(), &[0, 1, 2, 255]].concat());
        write("new.bin", &binary[..999]);
        fs::remove_file(app.join("gone.bin")).unwrap();
        fs::rename(app.join("moved"), app.join("moved to")).unwrap();
        fs::set_permissions(app.join("script.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        write("with space/quote\"d 'é\ttab.txt", b"1\n2\n");
        write("new \"empty\" é", b"");
        fs::remove_file(app.join("becomes-a-link")).unwrap();
        std::os::unix::fs::symlink("no-end", app.join("becomes-a-link")).unwrap();
        write("no-end", b"another, also without");
        write("edited-before", b"edited by the run\n");
        commit(&app, "half of it");
        write("poem.txt", b"not committed\n");
    }
}

/// Paths, modes and contents of everything below a directory, without `.git`.
fn snapshot(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() && path.file_name().unwrap() != ".git" {
                ahead.push(path);
            } else if metadata.is_symlink() {
                found.push((path.clone(), 0, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()));
            } else if metadata.is_file() {
                found.push((path.clone(), metadata.permissions().mode() & 0o111, fs::read(&path).unwrap()));
            }
        }
    }
    for (path, ..) in &mut found {
        *path = path.strip_prefix(root).unwrap().to_owned();
    }
    found.sort();
    found
}

#[tokio::test]
async fn the_patch_of_the_whole_change_makes_the_same_files_elsewhere() {
    for (app, strip) in [("", "-p1"), ("app", "-p2"), ("my \"app\" é", "-p2")] {
        let workspace = Workspace::empty();
        let app = workspace.root().join(app);
        repository(&app);
        let work = kinds_of_files(&app);
        let before = workspace.base.path().join("before");
        let copied = Command::new("cp").arg("-a").args([&app, &before]).status().unwrap();
        assert!(copied.success());
        let (changes, patch) = workspace.patch(work).await;
        assert_eq!(changes.notes, [""; 0]);
        git(&before, &["apply", strip, "--whitespace=nowarn", &patch.unwrap().display().to_string()]);
        assert_eq!(snapshot(&before), snapshot(&app));
    }
}

#[tokio::test]
async fn the_patch_holds_every_repository_at_its_path_and_the_files_outside() {
    let workspace = Workspace::new();
    repository(&workspace.root().join("libs/other"));
    let root = workspace.root();
    let before = workspace.base.path().join("before");
    assert!(Command::new("cp").arg("-a").args([&root, &before]).status().unwrap().success());
    let (_, patch) = workspace
        .patch(|| {
            for path in ["app/poem.txt", "libs/other/song.txt", "notes.md"] {
                fs::write(root.join(path), "changed\n").unwrap();
            }
        })
        .await;
    git(&before, &["apply", &patch.unwrap().display().to_string()]);
    assert_eq!(snapshot(&before), snapshot(&root));
}

#[tokio::test]
async fn a_patch_that_is_not_whole_is_no_file() {
    let workspace = Workspace::new();
    let app = workspace.app();
    let planted = workspace.base.path().join("changes.patch");
    fs::write(&planted, "the agent's own").unwrap();
    let (_, patch) = workspace.patch(|| {}).await;
    assert_eq!(patch, None, "nothing changed");
    // Random enough that it does not shrink.
    let mut state = 1_u64;
    let random = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let content: Vec<u8> = (0..12 << 20).map(random).collect();
    fs::create_dir(&planted).unwrap();
    let (changes, patch) = workspace.patch(|| fs::write(app.join("large.bin"), content).unwrap()).await;
    assert_eq!((patch, changes.file_count), (None, 1));
    let note = &changes.notes[0];
    assert!(note.starts_with("The patch of the whole change is not kept: it has 1"), "{note}");
    assert!(note.ends_with("MiB, the limit is 10 MiB."), "{note}");
    // Larger than what is read at all.
    let sparse = || fs::File::create(app.join("huge.bin")).unwrap().set_len(1 << 30).unwrap();
    let (changes, patch) = workspace.patch(sparse).await;
    assert_eq!((patch, changes.file_count), (None, 1));
    assert_eq!(changes.notes, ["Files larger than 16 MiB are not in the patch of the whole change."]);
    // Without a repository there is nothing to apply a patch to.
    let bare = Workspace::empty();
    let (changes, patch) = bare.patch(|| fs::write(bare.root().join("a"), "1\n").unwrap()).await;
    assert_eq!((patch, changes.file_count), (None, 1));
}

/// Runs a command under the shim in a workspace, with a file for the patch.
fn shim_in(workspace: &Workspace, script: &str, patch: &Path) -> Helper {
    let root = workspace.root().display().to_string();
    let report = workspace.base.path().join("outcome").display().to_string();
    let patch = patch.display().to_string();
    let pairs = [
        (env::WORKSPACE_DIR, root.as_str()),
        (env::OUTCOME_FILE, &report),
        (env::SHIM_PATCH_FILE, &patch),
        (env::SHIM_GRACE_SECONDS, "1"),
        ("PWD", &root),
    ];
    let mut command = command("shim", &["sh", "-c", script], &pairs);
    command.current_dir(workspace.root());
    Helper::start(command)
}

#[tokio::test]
async fn the_shim_leaves_the_patch_after_every_end() {
    let workspace = Workspace::empty();
    repository(&workspace.root());
    let patch = workspace.base.path().join("changes.patch");
    let finished = shim_in(&workspace, "echo changed >poem.txt", &patch).finish(LIMIT);
    let text = fs::read_to_string(&patch).unwrap_or_else(|error| panic!("{error}: {}", finished.stderr));
    assert!(text.starts_with("diff --git a/poem.txt b/poem.txt\n") && text.contains("\n+changed\n"), "{text}");

    // The second run ignores the request to stop, as OpenCode does. The third has changed nothing.
    for (script, expected) in [
        ("echo stopped >poem.txt; echo ready; sleep 1000", Some("\n-changed\n+stopped\n")),
        ("trap '' TERM; echo killed >poem.txt; echo ready; while :; do sleep 0.1; done", Some("\n-stopped\n+killed\n")),
        ("echo ready; sleep 1000", None),
    ] {
        let helper = shim_in(&workspace, script, &patch);
        let start = Instant::now();
        while !helper.stdout().contains("ready") {
            assert!(start.elapsed() < LIMIT, "{}", helper.stdout());
            std::thread::sleep(Duration::from_millis(20));
        }
        helper.signal(rustix::process::Signal::TERM);
        helper.finish(LIMIT);
        let left = fs::read_to_string(&patch).ok();
        assert_eq!(
            left.is_some(),
            expected.is_some(),
            "a patch of an earlier run would be taken for this one's: {left:?}"
        );
        assert!(expected.is_none_or(|expected| left.is_some_and(|left| left.contains(expected))), "{expected:?}");
    }
}

/// The script of a run: `sed` by a command, a file by a tool, a commit.
const SCRIPT: &str = "[[bash cmd=\"sed -i s/violets/violins/ poem.txt\"]] [[write path=new.txt text=\"one\\n\"]] \
                      [[bash cmd=\"git add -A; git -c user.name=a -c user.email=a@b commit -qm Violins\"]] [[say Done]]";

fn check_records(records: &[Value]) {
    let changes = Changes::of_records(records).unwrap();
    assert_eq!(lines(&changes), ["A new.txt +1 -0", "M poem.txt +1 -1"]);
    let patch = &file(&changes, "poem.txt").patch;
    assert!(patch.contains("\n-violets\n+violins\n"), "{patch}");
    assert_eq!(changes.commits[0].subject, "Violins");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_its_own_pod_reports_what_commands_changed() {
    let model = ScriptedModel::start().await.unwrap();
    let workspace = Workspace::empty();
    repository(&workspace.root());
    let (prompt, report) = (workspace.base.path().join("task.md"), workspace.base.path().join("outcome"));
    fs::write(&prompt, SCRIPT).unwrap();
    let mut pairs = environment(workspace.base.path(), &model.opencode_config());
    let root = workspace.root().display().to_string();
    for (name, value) in [
        (env::SHIM_FORMAT, "opencode-json"),
        (env::SHIM_STDIN_FILE, &prompt.display().to_string()),
        (env::OUTCOME_FILE, &report.display().to_string()),
        (env::WORKSPACE_DIR, &root),
        ("PWD", &root),
    ] {
        pairs.push((name.to_owned(), value.to_owned()));
    }
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let program = program().display().to_string();
    let mut command = command("shim", &[&program, "run", "--format", "json", "--title", "t"], &pairs);
    command.current_dir(workspace.root());
    let helper = Helper::start(command);
    let finished = tokio::task::spawn_blocking(|| helper.finish(Duration::from_secs(90))).await.unwrap();
    let outcome = outcome(&report);
    assert_eq!(outcome.reason, Reason::Succeeded, "{}{}", finished.stdout, finished.stderr);
    assert_eq!((outcome.usage.files_changed, outcome.usage.additions), (2, Some(2)), "{}", finished.stdout);
    assert_eq!(outcome.changes.unwrap().commits, Some(1));
    assert!(finished.stdout.contains("\n[change] M poem.txt +1 -1\n"), "{}", finished.stdout);
    assert!(finished.stdout.contains("2 files changed, +2 -1, 1 commit)\n"), "{}", finished.stdout);
    check_records(&finished.records);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_on_an_agent_reports_what_commands_changed() {
    let model = ScriptedModel::start().await.unwrap();
    let server = Server::start(model.opencode_config());
    repository(&server.workspace);
    let run = async |helper: Vec<String>, script: &str| {
        let arguments = Arguments::parse(&["--attach", &server.url(), script]).unwrap();
        let root = server.workspace.display().to_string();
        let mut settings = Settings::from_env(&lookup(&[(env::WORKSPACE_DIR, root)])).unwrap();
        settings.workspace.as_mut().unwrap().helper = helper;
        let (mut out, mut records) = (Vec::new(), Vec::new());
        let mut log = Log::new(&mut out, Format::Readable, Redactor::default()).with_records(&mut records);
        let password = Some(PASSWORD.to_owned());
        let work = attach::run(&arguments, &settings, password, tokio::io::empty(), &mut log, std::future::pending());
        let outcome = tokio::time::timeout(Duration::from_secs(100), work).await.unwrap();
        log.note(&Note::End(&outcome));
        let records: Vec<Value> = records.split(|byte| *byte == b'\n').flat_map(record::records).collect();
        (outcome, String::from_utf8(out).unwrap(), records)
    };
    let (outcome, log, records) = run(receiver("changes"), SCRIPT).await;
    assert_eq!(outcome.reason, Reason::Succeeded, "{log}");
    assert_eq!((outcome.usage.files_changed, outcome.usage.additions), (2, Some(2)), "{log}");
    assert!(
        log.contains("[change] A new.txt +1 -0\n") && log.ends_with("2 files changed, +2 -1, 1 commit)\n"),
        "{log}"
    );
    check_records(&records);
    assert!(!model.requests().iter().any(|request| request.to_string().contains("POD_TEST_ROLE")), "the model sees it");
    let sessions = server.call("GET", "/session?limit=1000", &Value::Null).await.unwrap();
    assert!(!sessions.to_string().contains("changes of the workspace"), "{sessions}");

    // An Agent without our program: the tools' own edits are counted, and a sentence says what is missing.
    let missing = vec!["/no/such/kubeopencode".to_owned()];
    let (outcome, log, _) = run(missing, "[[write path=late.txt text=\"x\"]] [[say Done]]").await;
    assert_eq!((outcome.reason, outcome.usage.files_changed, outcome.changes), (Reason::Succeeded, 1, None), "{log}");
    assert!(log.contains("[info] The Agent's workspace was not compared ("), "{log}");
    assert!(log.contains("files changed by shell commands are not listed."), "{log}");
}
