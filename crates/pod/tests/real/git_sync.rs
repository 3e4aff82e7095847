//! git-sync with real repositories, and with agents that set traps in them.

use std::time::{Duration, Instant};

use kubeopencode_pod::env;
use kubeopencode_pod::git_sync::{Follower, Synced};

use crate::git::{Pod, read};
use crate::support::LIMIT;
use crate::support::git::{Origin, git};
use crate::support::helper::{Helper, command};

#[tokio::test]
async fn sync_moves_a_clean_checkout_and_keeps_the_agents_work() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url());
    pod.init().await.unwrap();
    let settings = pod.settings();
    let follower = Follower::new(&settings).unwrap();
    assert_eq!(follower.sync().await.unwrap(), Synced::Unchanged);

    let (from, to) = (origin.head(), origin.commit("README.md", "four\n"));
    assert_eq!(follower.sync().await.unwrap(), Synced::Moved { from, to: to.clone() });
    assert_eq!(read(&pod.repo(), "README.md"), "four\n");
    assert_eq!(follower.sync().await.unwrap(), Synced::Unchanged);

    origin.commit("README.md", "five\n");
    std::fs::write(pod.repo().join("README.md"), "the agent's edit").unwrap();
    assert_eq!(follower.sync().await.unwrap(), Synced::KeptEdits(vec!["README.md".to_owned()]));
    assert_eq!(read(&pod.repo(), "README.md"), "the agent's edit");

    git(&pod.repo(), &["commit", "--quiet", "--all", "-m", "the agent's commit"]);
    let head = git(&pod.repo(), &["rev-parse", "HEAD"]);
    assert_eq!(follower.sync().await.unwrap(), Synced::KeptCommits { head: head.clone() });
    assert_eq!(git(&pod.repo(), &["rev-parse", "HEAD"]), head);

    // Thrown away by the agent: the next look follows again, also over a rewritten history.
    git(&pod.repo(), &["reset", "--quiet", "--hard", &to]);
    git(&origin.path, &["reset", "--quiet", "--hard", "HEAD~2"]);
    let rewritten = origin.commit("README.md", "rewritten\n");
    assert_eq!(follower.sync().await.unwrap(), Synced::Moved { from: to, to: rewritten });
    assert_eq!(read(&pod.repo(), "README.md"), "rewritten\n");
}

#[tokio::test]
async fn sync_runs_nothing_that_the_agent_put_into_the_repository() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url());
    pod.init().await.unwrap();
    let trap = pod.base.path().join("trap");
    let bite = format!("touch {}", trap.display());
    for hook in ["post-checkout", "post-merge", "reference-transaction", "post-index-change"] {
        let path = pod.repo().join(".git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{bite}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for (name, value) in [
        ("core.fsmonitor", bite.as_str()),
        ("core.sshCommand", &bite),
        ("credential.helper", &format!("!{bite}")),
        ("filter.trap.smudge", &bite),
        ("filter.trap.clean", &bite),
        ("filter.trap.required", "true"),
        // `-c` would take this for a setting `filter.a`.
        ("filter.a=b.clean", &bite),
        ("filter.a=b.smudge", &bite),
        ("core.alternateRefsCommand", &bite),
        ("fetch.recurseSubmodules", "true"),
        ("submodule.recurse", "true"),
    ] {
        git(&pod.repo(), &["config", name, value]);
    }
    std::fs::write(pod.repo().join(".git/info/attributes"), "* filter=trap\n*.txt filter=a=b\n").unwrap();
    std::fs::write(pod.repo().join(".git/objects/info/alternates"), origin.path.join(".git/objects").to_str().unwrap())
        .unwrap();
    // A repository in the repository, which git enters as a submodule.
    let nested = pod.repo().join("nested");
    std::fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "--quiet"]);
    std::fs::write(nested.join("file"), "content").unwrap();
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "--quiet", "-m", "nested"]);
    let link = format!("160000,{},nested", git(&nested, &["rev-parse", "HEAD"]));
    git(&pod.repo(), &["update-index", "--add", "--cacheinfo", &link]);
    git(&nested, &["config", "filter.trap.clean", &bite]);
    std::fs::write(nested.join(".git/info/attributes"), "* filter=trap\n").unwrap();
    std::fs::write(nested.join("file"), "another").unwrap();
    let _ = std::fs::remove_file(&trap);

    origin.commit("README.md", "four\n");
    origin.commit("notes.txt", "four\n");
    let settings = pod.settings();
    let follower = Follower::new(&settings).unwrap();
    let synced = follower.sync().await.unwrap();
    assert!(matches!(synced, Synced::Moved { .. }), "{synced:?}");
    assert_eq!(read(&pod.repo(), "README.md"), "four\n");
    assert!(!trap.exists(), "something of the agent was executed");

    // The fetched URL is recorded, and a remote of that name may have a program of its own.
    let fetched = read(&pod.repo(), ".git/FETCH_HEAD");
    let source = fetched.split_whitespace().last().unwrap();
    let name = format!("remote.{source}.git.uploadpack");
    git(&pod.repo(), &["config", &name, &format!("{bite};git-upload-pack")]);
    origin.commit("README.md", "five\n");
    let synced = follower.sync().await.unwrap();
    assert!(matches!(synced, Synced::Moved { .. }), "{synced:?}");
    assert!(!trap.exists(), "a program of the agent was executed by the fetch");
}

#[tokio::test]
async fn sync_fetches_nothing_that_is_missing_from_where_the_agent_says() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url());
    pod.init().await.unwrap();
    let trap = pod.base.path().join("trap");
    for (name, value) in [
        ("extensions.partialClone", "evil"),
        ("remote.evil.promisor", "true"),
        ("remote.evil.url", &origin.url()),
        ("remote.evil.uploadpack", &format!("touch {};git-upload-pack", trap.display())),
    ] {
        git(&pod.repo(), &["config", name, value]);
    }
    for entry in std::fs::read_dir(pod.repo().join(".git/objects/pack")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for entry in std::fs::read_dir(pod.repo().join(".git/objects")).unwrap().flatten() {
        if entry.file_name().len() == 2 {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    origin.commit("README.md", "four\n");
    let settings = pod.settings();
    let synced = Follower::new(&settings).unwrap().sync().await;
    assert!(!trap.exists(), "a program of the agent was executed: {synced:?}");
}

#[tokio::test]
async fn sync_is_not_held_up_by_submodules_that_a_move_left_behind() {
    let inner = Origin::new();
    let origin = Origin::new();
    git(&origin.path, &["submodule", "--quiet", "add", &inner.url(), "inner"]);
    origin.commit("README.md", "with inner\n");
    let pod = Pod::new(&origin.url()).with(env::GIT_RECURSE_SUBMODULES, "true");
    pod.init().await.unwrap();
    assert_eq!(read(&pod.repo(), "inner/README.md"), "three\n");
    let settings = pod.settings();
    let follower = Follower::new(&settings).unwrap();
    for number in ["four\n", "five\n"] {
        inner.commit("README.md", number);
        git(&origin.path.join("inner"), &["pull", "--quiet"]);
        origin.commit("README.md", number);
        let synced = follower.sync().await.unwrap();
        assert!(matches!(synced, Synced::Moved { .. }), "{number:?}: {synced:?}");
        assert_eq!(read(&pod.repo(), "README.md"), number);
    }
}

fn start_sidecar(pod: &Pod) -> Helper {
    let pairs: Vec<(&str, &str)> = pod.pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Helper::start(command("git-sync", &[], &pairs))
}

fn wait_for_readme(pod: &Pod, content: &str) {
    let readme = pod.repo().join("README.md");
    let start = Instant::now();
    while std::fs::read_to_string(&readme).unwrap_or_default() != content {
        assert!(start.elapsed() < LIMIT, "{content:?} did not arrive");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stop_sidecar(helper: Helper) {
    helper.signal(rustix::process::Signal::TERM);
    assert_eq!(helper.finish(LIMIT).code, Some(0));
}

#[test]
fn sync_as_a_sidecar_follows() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url()).with(env::GIT_SYNC_INTERVAL, "100ms");
    let helper = start_sidecar(&pod);
    wait_for_readme(&pod, "three\n");
    origin.commit("README.md", "four\n");
    wait_for_readme(&pod, "four\n");
    stop_sidecar(helper);
}

#[test]
fn sync_as_a_sidecar_stops_without_waiting_for_the_next_interval() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url()).with(env::GIT_SYNC_INTERVAL, "1h");
    let helper = start_sidecar(&pod);
    wait_for_readme(&pod, "three\n");
    stop_sidecar(helper);
}

#[tokio::test]
async fn sync_follows_a_repository_that_was_merged_into_the_workspace() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url()).with_workspace();
    pod.init().await.unwrap();
    origin.commit("README.md", "four\n");
    let settings = pod.settings();
    let synced = Follower::new(&settings).unwrap().sync().await.unwrap();
    assert!(matches!(synced, Synced::Moved { .. }), "{synced:?}");
    assert_eq!(read(&pod.ws(), "README.md"), "four\n");
}
