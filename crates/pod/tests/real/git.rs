//! git-init with real repositories.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use blackbox::git_server::Manner;
use kubeopencode_pod::env;
use kubeopencode_pod::git_init::{self, Settings};
use kubeopencode_pod::git_sync::{Follower, Synced};

use crate::support::git::{Origin, git};
use crate::support::helper::{Helper, command};
use crate::support::{LIMIT, lookup};

/// A Pod's directories for one repository.
pub struct Pod {
    pub base: tempfile::TempDir,
    pub pairs: Vec<(&'static str, String)>,
}

impl Pod {
    pub fn new(url: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        let pairs = vec![
            (env::GIT_REPO, url.to_owned()),
            (env::GIT_ROOT, base.path().join("git").display().to_string()),
            (env::GIT_ALLOW_FILE, "true".to_owned()),
            (env::GIT_CLONE_RETRY_DELAY, "10ms".to_owned()),
        ];
        Self { base, pairs }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.pairs.retain(|(key, _)| *key != name);
        self.pairs.push((name, value.to_owned()));
        self
    }

    pub fn with_workspace(self) -> Self {
        let workspace = self.base.path().join("ws").display().to_string();
        self.with(env::GIT_WORKSPACE_DIR, &workspace)
    }

    pub fn settings(&self) -> Settings {
        Settings::from_env(&lookup(&self.pairs)).unwrap()
    }

    pub async fn init(&self) -> Result<git_init::Prepared, git_init::Error> {
        git_init::run(&self.settings()).await
    }

    pub fn repo(&self) -> PathBuf {
        self.base.path().join("git/repo")
    }

    pub fn ws(&self) -> PathBuf {
        self.base.path().join("ws")
    }
}

pub fn read(directory: &Path, file: &str) -> String {
    std::fs::read_to_string(directory.join(file)).unwrap()
}

#[tokio::test]
async fn every_kind_of_ref_is_checked_out() {
    let origin = Origin::new();
    let full = git(&origin.path, &["rev-parse", "main~2"]);
    for (reference, depth, content, commits) in [
        ("HEAD", "1", "three\n", "1"),
        ("HEAD", "0", "three\n", "3"),
        ("main", "2", "three\n", "2"),
        ("feature", "1", "two\n", "1"),
        ("v1", "1", "two\n", "1"),
        ("refs/heads/feature", "1", "two\n", "1"),
        (full.as_str(), "1", "one\n", "1"),
        (&full[..8], "1", "one\n", "1"),
    ] {
        let pod = Pod::new(&origin.url()).with(env::GIT_REF, reference).with(env::GIT_DEPTH, depth);
        let prepared = pod.init().await.unwrap_or_else(|error| panic!("{reference}: {error}"));
        assert!(prepared.fresh);
        assert_eq!(read(&pod.repo(), "README.md"), content, "{reference}");
        assert_eq!(git(&pod.repo(), &["rev-list", "--count", "HEAD"]), commits, "{reference} depth {depth}");
        assert_eq!(prepared.commit, git(&pod.repo(), &["rev-parse", "HEAD"]));
        assert!(pod.base.path().join("git/.repo.ok").exists());
        assert!(read(&pod.base.path().join("git"), ".gitconfig").contains("directory = *"));
    }
}

#[tokio::test]
async fn a_branch_is_a_branch_that_the_agent_can_push() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url()).with(env::GIT_REF, "feature");
    pod.init().await.unwrap();
    assert_eq!(git(&pod.repo(), &["rev-parse", "--abbrev-ref", "HEAD@{upstream}"]), "origin/feature");
}

#[tokio::test]
async fn what_does_not_exist_is_named() {
    let origin = Origin::new();
    let missing = "0123456789012345678901234567890123456789";
    for reference in ["nope", "abcdef1", missing] {
        let error = Pod::new(&origin.url()).with(env::GIT_REF, reference).init().await.unwrap_err().to_string();
        assert!(error.contains(&format!("no branch, tag or commit `{reference}`")), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    git(empty.path(), &["init", "--quiet", "--bare"]);
    let error = Pod::new(&format!("file://{}", empty.path().display())).init().await.unwrap_err().to_string();
    assert!(error.contains("is empty"), "{error}");
}

#[tokio::test]
async fn a_half_done_checkout_is_never_used_and_a_whole_one_is_kept() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url());
    std::fs::create_dir_all(pod.repo()).unwrap();
    std::fs::write(pod.repo().join("README.md"), "half").unwrap();
    assert!(pod.init().await.unwrap().fresh);
    assert_eq!(read(&pod.repo(), "README.md"), "three\n");

    std::fs::write(pod.repo().join("README.md"), "the agent's work").unwrap();
    origin.commit("README.md", "four\n");
    assert!(!pod.init().await.unwrap().fresh);
    assert_eq!(read(&pod.repo(), "README.md"), "the agent's work");

    let other = pod.with(env::GIT_REF, "feature");
    let error = other.init().await.unwrap_err().to_string();
    assert!(error.contains("local changes"), "{error}");
    git(&other.repo(), &["checkout", "--quiet", "."]);
    assert!(other.init().await.unwrap().fresh);
    assert_eq!(read(&other.repo(), "feature.txt"), "feature\n");
}

#[tokio::test]
async fn a_merge_at_the_workspace_root_is_done_once_and_loses_nothing() {
    let origin = Origin::new();
    origin.commit("task.md", "not the prompt\n");
    origin.commit(".kubeopencode/context.md", "not the context\n");
    let pod = Pod::new(&origin.url()).with_workspace();
    std::fs::create_dir_all(pod.ws().join(".kubeopencode")).unwrap();
    std::fs::write(pod.ws().join("task.md"), "the prompt").unwrap();
    std::fs::write(pod.ws().join(".kubeopencode/context.md"), "the context").unwrap();
    assert!(pod.init().await.unwrap().merged.is_some());
    assert_eq!(read(&pod.ws(), "task.md"), "the prompt");
    assert_eq!(read(&pod.ws(), ".kubeopencode/context.md"), "the context");
    assert_eq!(read(&pod.ws(), "README.md"), "three\n");
    assert_eq!(git(&pod.ws(), &["rev-parse", "HEAD"]), origin.head());
    let untracked = git(&pod.ws(), &["ls-files", "--others", "--exclude-standard"]);
    assert_eq!(untracked, "", "an agent that commits everything would commit the platform's files");

    // A new Pod on the same workspace volume: /git is empty, the agent's work is there.
    std::fs::write(pod.ws().join("README.md"), "the agent's work").unwrap();
    std::fs::remove_file(pod.ws().join("feature.txt")).ok();
    std::fs::remove_dir_all(pod.base.path().join("git")).unwrap();
    origin.commit("README.md", "four\n");
    let again = pod.init().await.unwrap();
    assert_eq!((again.fresh, again.merged), (false, None));
    assert_eq!(read(&pod.ws(), "README.md"), "the agent's work");
    assert!(pod.base.path().join("git/.gitconfig").exists());
}

#[tokio::test]
async fn a_part_that_is_not_there_is_named() {
    let origin = Origin::new();
    origin.commit("docs/guide.md", "guide\n");
    for (parts, missing) in [(r#"["docs", "docs/guide.md"]"#, None), (r#"["docs", "doc"]"#, Some("\"doc\""))] {
        let prepared = Pod::new(&origin.url()).with(env::GIT_REPO_PARTS, parts).init().await;
        let problem = prepared.err().map(|error| error.to_string());
        assert_eq!(problem.is_some(), missing.is_some(), "{problem:?}");
        if let (Some(problem), Some(missing)) = (problem, missing) {
            assert!(problem.contains(missing) && problem.contains("git.path"), "{problem}");
        }
    }
}

#[tokio::test]
async fn a_kept_workspace_that_is_followed_takes_the_newest_commit_at_a_restart() {
    let origin = Origin::new();
    let pod = Pod::new(&origin.url()).with_workspace().with(env::GIT_FOLLOW, "true");
    pod.init().await.unwrap();
    let restarted = async |content: &str| {
        // Only the workspace is kept.
        std::fs::remove_dir_all(pod.base.path().join("git")).unwrap();
        let to = origin.commit("README.md", content);
        (pod.init().await.unwrap().commit, to)
    };
    let (has, newest) = restarted("four\n").await;
    assert_eq!((has, read(&pod.ws(), "README.md")), (newest.clone(), "four\n".to_owned()));
    std::fs::write(pod.ws().join("README.md"), "the agent's work").unwrap();
    let (has, _) = restarted("five\n").await;
    assert_eq!((has, read(&pod.ws(), "README.md")), (newest.clone(), "the agent's work".to_owned()));
    // A missing remote does not stop the work.
    std::fs::rename(&origin.path, origin.path.with_extension("gone")).unwrap();
    assert_eq!(pod.init().await.unwrap().commit, newest);
}

#[tokio::test]
async fn submodules_are_checked_out_on_request() {
    let inner = Origin::new();
    let outer = Origin::new();
    git(&outer.path, &["submodule", "--quiet", "add", &inner.url(), "inner"]);
    git(&outer.path, &["commit", "--quiet", "-m", "submodule"]);
    let with = Pod::new(&outer.url()).with(env::GIT_RECURSE_SUBMODULES, "true");
    with.init().await.unwrap();
    assert_eq!(read(&with.repo(), "inner/README.md"), "three\n");
    let without = Pod::new(&outer.url());
    without.init().await.unwrap();
    assert!(!without.repo().join("inner/README.md").exists());
}

#[tokio::test]
async fn a_password_opens_the_repository_and_stays_secret() {
    let origin = Origin::new();
    let password = "p@ss:w/rd #1%";
    let server = origin.serve(Manner { login: Some(("me".into(), password.into())), ..Manner::default() }).await;
    let url = server.url_of("origin.git");
    let pod = Pod::new(&url).with(env::GIT_USERNAME, "me").with(env::GIT_PASSWORD, password);
    pod.init().await.unwrap();
    assert_eq!(read(&pod.repo(), "README.md"), "three\n");
    let config = read(&pod.repo(), ".git/config");
    assert!(!config.contains("p@ss") && !config.contains("p%40ss") && !config.contains("credential"), "{config}");

    let in_url = url.replace("http://", "http://me:p%40ss%3Aw%2Frd%20%231%25@");
    let pod = Pod::new(&in_url);
    pod.init().await.unwrap();
    assert!(!read(&pod.repo(), ".git/config").contains("p%40ss"));

    for wrong in [None, Some("hunter2-hunter2")] {
        let before = server.requests();
        let mut pod = Pod::new(&url).with(env::GIT_CLONE_RETRIES, "5");
        if let Some(wrong) = wrong {
            pod = pod.with(env::GIT_USERNAME, "me").with(env::GIT_PASSWORD, wrong);
        }
        let error = pod.init().await.unwrap_err().to_string();
        assert!(error.contains("keys `username` and `password`"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        assert!(server.requests() - before <= 3, "a refusal is not tried again");
        assert!(!pod.base.path().join("git/.repo.ok").exists());
    }
}

#[tokio::test]
async fn the_clusters_own_authority_is_trusted_and_no_other() {
    let origin = Origin::new();
    let server = origin.serve(Manner { tls: true, ..Manner::default() }).await;
    let url = server.url_of("origin.git");
    let error = Pod::new(&url).init().await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let pod = Pod::new(&url);
    let authority = pod.base.path().join("ca.crt");
    std::fs::write(&authority, server.authority()).unwrap();
    let pod = pod.with(env::CUSTOM_CA_CERT_PATH, &authority.display().to_string());
    pod.init().await.unwrap();
    assert_eq!(read(&pod.repo(), "README.md"), "three\n");
    // As a sidecar, too.
    let to = origin.commit("README.md", "four\n");
    let synced = Follower::new(&pod.settings()).unwrap().sync().await.unwrap();
    assert!(matches!(&synced, Synced::Moved { to: found, .. } if *found == to), "{synced:?}");
}

/// There is no ssh server here: the stand-in for ssh checks its arguments and runs the command in a shell.
#[tokio::test]
async fn ssh_gets_the_key_as_a_private_file_and_nothing_else_of_the_secret() {
    let origin = Origin::new();
    let programs = tempfile::tempdir().unwrap();
    let given = programs.path().join("given");
    let ssh = programs.path().join("ssh");
    // It runs repeatedly and is stopped at any moment: its files are always complete.
    let script = format!(
        "#!/bin/sh\nnow={0}.$$\nprintf '%s\\n' \"$@\" >$now\nenv >>$now\nwhile [ \"$1\" != -i ]; do shift; done\n\
         stat -c 'mode %a' \"$2\" >>$now\ncp \"$2\" $now-key\nmv $now-key {0}-key\nmv $now {0}\n\
         for last; do :; done\nexec sh -c \"$last\"\n",
        given.display()
    );
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nnobody-may-see-this\n-----END OPENSSH PRIVATE KEY-----";
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let pod = Pod::new(&format!("ssh://git@git.example{}", origin.path.display()))
        .with(env::GIT_SSH_KEY, key)
        .with(env::GIT_SSH_KNOWN_HOSTS, "git.example ssh-ed25519 AAAA");
    let mut pairs: Vec<(&str, &str)> = pod.pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    pairs.push(("PATH", &path));
    let helper = Helper::start(command("git-sync", &[], &pairs));
    let start = Instant::now();
    while !pod.base.path().join("git/.repo.ok").exists() {
        assert!(start.elapsed() < LIMIT, "nothing was checked out");
        std::thread::sleep(Duration::from_millis(20));
    }
    helper.signal(rustix::process::Signal::TERM);
    helper.finish(LIMIT);
    assert_eq!(read(&pod.repo(), "README.md"), "three\n");
    let given = read(programs.path(), "given");
    assert!(given.contains("git@git.example") && given.contains("StrictHostKeyChecking=yes"), "{given}");
    assert!(given.contains("mode 600") && !given.contains("nobody-may-see-this"), "{given}");
    assert_eq!(read(programs.path(), "given-key"), format!("{key}\n"));
}

#[tokio::test]
async fn a_passing_trouble_is_tried_again() {
    let origin = Origin::new();
    let server = origin.serve(Manner { refuse_first: 2, ..Manner::default() }).await;
    Pod::new(&server.url_of("origin.git")).with(env::GIT_CLONE_RETRIES, "3").init().await.unwrap();
    let server = origin.serve(Manner { refuse_first: 1000, ..Manner::default() }).await;
    let error = Pod::new(&server.url_of("origin.git")).init().await.unwrap_err().to_string();
    assert!(error.contains("500"), "{error}");
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_commit_is_found_also_on_a_server_that_does_not_hand_out_commits() {
    let origin = Origin::new();
    let commit = git(&origin.path, &["rev-parse", "main~2"]);
    // Protocol 0 with the default settings refuses commits that no ref points at.
    let server = origin.serve(Manner::default()).await;
    git(&origin.path, &["config", "uploadpack.allowReachableSHA1InWant", "false"]);
    let pod = Pod::new(&server.url_of("origin.git")).with(env::GIT_REF, &commit);
    assert_eq!(pod.init().await.unwrap().commit, commit);
}
