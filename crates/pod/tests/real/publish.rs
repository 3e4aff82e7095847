//! publish with real git: what is pushed, where to, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use blackbox::git_server::{GitServer, Manner};
use domain::contract::collect::PublishPlan;
use kubeopencode_pod::env;
use kubeopencode_pod::publish::{self, Error, Published, Settings};

use super::git::Pod;
use crate::support::git::{Origin, git};
use crate::support::helper::{Finished, Helper, command};
use crate::support::ssh::SshServer;
use crate::support::{LIMIT, lookup};

pub const PASSWORD: &str = "hunter2-hunter2";

/// A remote behind a login, and a Pod whose workspace is its checkout.
pub struct Case {
    pub origin: Origin,
    pub server: GitServer,
    pub pod: Pod,
    pub plan: PublishPlan,
    pub epoch: u32,
    pub left_out: Vec<PathBuf>,
    pub more: Vec<(&'static str, String)>,
}

impl Case {
    pub async fn new() -> Self {
        Self::with(|pod| pod).await
    }

    /// Checked out with other settings.
    pub async fn with(change: impl FnOnce(Pod) -> Pod) -> Self {
        let origin = Origin::new();
        git(&origin.path, &["config", "http.receivepack", "true"]);
        let login = Some(("me".to_owned(), PASSWORD.to_owned()));
        let server = origin.serve(Manner { login, ..Manner::default() }).await;
        let url = server.url_of("origin.git");
        let pod = Pod::new(&url).with_workspace();
        let pod = change(pod.with(env::GIT_USERNAME, "me").with(env::GIT_PASSWORD, PASSWORD));
        pod.init().await.unwrap();
        let plan = PublishPlan {
            directory: pod.ws().display().to_string(),
            repository: url,
            reference: pod.settings().reference.replace("HEAD", ""),
            branch: "agents/fix".to_owned(),
            title: "Fix the poem".to_owned(),
            ..PublishPlan::default()
        };
        Self { origin, server, pod, plan, epoch: 1, left_out: Vec::new(), more: Vec::new() }
    }

    pub fn ws(&self) -> PathBuf {
        self.pod.ws()
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.ws().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn commit(&self, message: &str) -> String {
        git(&self.ws(), &["add", "--all"]);
        git(&self.ws(), &["commit", "--quiet", "--allow-empty", "--message", message]);
        git(&self.ws(), &["rev-parse", "HEAD"])
    }

    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            (env::GIT_USERNAME, "me".to_owned()),
            (env::GIT_PASSWORD, PASSWORD.to_owned()),
            (env::WORKSPACE_DIR, self.ws().display().to_string()),
            (env::COLLECT_DIR, self.pod.base.path().join("collect").display().to_string()),
            (env::TASK_NAMESPACE, "team".to_owned()),
            (env::TASK_NAME, "fix".to_owned()),
            (env::TASK_EPOCH, self.epoch.to_string()),
            (env::GIT_CLONE_RETRY_DELAY, "10ms".to_owned()),
            (env::URL_ALLOW_LOOPBACK, "true".to_owned()),
        ];
        pairs.retain(|(name, _)| self.more.iter().all(|(other, _)| other != name));
        pairs.extend(self.more.iter().cloned());
        pairs
    }

    pub async fn publish(&self) -> Result<Published, Error> {
        let mut settings = Settings::from_env(&lookup(&self.environment())).unwrap();
        settings.left_out.clone_from(&self.left_out);
        let result = publish::run(&self.plan, &settings, None).await;
        assert!(!self.pod.base.path().join("collect/publish").exists(), "files are left behind");
        if let Err(error) = &result {
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        result
    }

    /// git in the remote repository.
    pub fn remote(&self, arguments: &[&str]) -> String {
        git(&self.origin.path, arguments)
    }

    /// Subjects of the commits of a branch that `main` does not have, newest first.
    pub fn subjects(&self, branch: &str) -> Vec<String> {
        let listed = self.remote(&["log", "--format=%s", branch, "--not", "main"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Names and kinds of changes of a branch compared with `main`.
    pub fn changes(&self, branch: &str) -> Vec<String> {
        let range = format!("main...{branch}");
        let listed = self.remote(&["diff", "--no-renames", "--name-status", &range]);
        listed.lines().map(|line| line.replace('\t', " ")).collect()
    }

    pub fn branches(&self) -> Vec<String> {
        let listed = self.remote(&["for-each-ref", "--format=%(refname:short)", "refs/heads/agents"]);
        listed.lines().map(str::to_owned).collect()
    }
}

fn branch(published: &Published) -> Option<&str> {
    published.status.branch.as_deref()
}

#[tokio::test]
async fn the_agents_commits_and_what_it_did_not_commit_are_pushed() {
    let mut case = Case::new().await;
    case.write("README.md", "the agent's\n");
    let agents = case.commit("By the agent");
    case.write(".gitignore", "*.log\n");
    case.write("debug.log", "ignored\n");
    case.write("docs/new é \"file\".md", "new\n");
    case.write("task.md", "the prompt\n");
    case.write(".kubeopencode/context.md", "the platform's\n");
    case.write("notes/context.md", "of a context\n");
    case.write("local-only", "ignored by the repository's own list\n");
    fs::write(case.ws().join(".git/info/exclude"), "local-only\n").unwrap();
    std::os::unix::fs::symlink("README.md", case.ws().join("link")).unwrap();
    case.left_out = vec![case.ws().join("notes/context.md"), case.ws().join("not-there.md")];
    let published = case.publish().await.unwrap();
    assert_eq!(published.notes, [""; 0]);
    assert_eq!(branch(&published), Some("agents/fix"));
    assert_eq!(published.status.commit, Some(case.remote(&["rev-parse", "agents/fix"])));
    assert_eq!(published.status.url, None);
    assert_eq!(case.subjects("agents/fix"), ["Fix the poem", "By the agent"]);
    assert_eq!(case.remote(&["rev-parse", "agents/fix~1"]), agents);
    let author = case.remote(&["log", "-1", "--format=%an <%ae> / %cn <%ce>", "agents/fix"]);
    let agent = "KubeOpenCode agent <agent@kubeopencode.local>";
    assert_eq!(author, format!("{agent} / {agent}"));
    let changes = ["A .gitignore", "M README.md", "A \"docs/new \\303\\251 \\\"file\\\".md\"", "A link"];
    assert_eq!(case.changes("agents/fix"), changes);
    assert!(!case.remote(&["log", "--format=%B", "agents/fix"]).contains("hunter2"));

    // The container was started again: the branch has everything already.
    assert_eq!(case.publish().await.unwrap(), published);
}

#[tokio::test]
async fn message_author_and_branch_are_the_users() {
    let mut case = Case::with(|pod| pod.with(env::GIT_REF, "feature")).await;
    case.write("feature.txt", "better\n");
    case.plan.branch = "bots/é-1".to_owned();
    case.plan.settings.message = Some("Make it better\n\nMuch better.\n".to_owned());
    case.plan.settings.author =
        Some(api::run::PublishAuthor { name: "Ann [1]".into(), email: "ann@example.com".into() });
    let published = case.publish().await.unwrap();
    assert_eq!(branch(&published), Some("bots/é-1"));
    let log = case.remote(&["log", "-1", "--format=%an <%ae>%n%B", "bots/é-1"]);
    assert_eq!(log, "Ann [1] <ann@example.com>\nMake it better\n\nMuch better.");
    assert_eq!(case.remote(&["rev-parse", "bots/é-1~1"]), case.remote(&["rev-parse", "feature"]));
}

#[tokio::test]
async fn a_run_that_changed_nothing_pushes_nothing() {
    let case = Case::new().await;
    case.write("task.md", "the prompt\n");
    case.write(".kubeopencode/x", "the platform's\n");
    // Only touched.
    case.write("README.md", "three\n");
    let published = case.publish().await.unwrap();
    assert_eq!(branch(&published), None);
    assert!(published.notes[0].starts_with("The run changed nothing in "), "{:?}", published.notes);
    assert_eq!(case.branches(), [""; 0]);
    // Nothing of its own: the agent only took what is new.
    case.origin.commit("README.md", "four\n");
    git(&case.ws(), &["pull", "--quiet", "--unshallow", &case.origin.url(), "main"]);
    assert_eq!(branch(&case.publish().await.unwrap()), None);
}

#[tokio::test]
async fn a_branch_that_moved_meanwhile_is_not_taken_back() {
    for committed in [false, true] {
        for depth in ["1", "0"] {
            let case = Case::with(|pod| pod.with(env::GIT_DEPTH, depth)).await;
            case.write("poem.md", "new\n");
            if committed {
                case.commit("A poem");
            }
            let base = case.origin.head();
            for number in 0..3 {
                case.origin.commit("README.md", &format!("newer {number}\n"));
            }
            let published = case.publish().await.unwrap();
            assert_eq!(published.notes, [""; 0]);
            assert_eq!(case.changes("agents/fix"), ["A poem.md"], "committed {committed}, depth {depth}");
            assert_eq!(case.remote(&["rev-parse", "agents/fix~1"]), base);
        }
    }
}

#[tokio::test]
async fn a_server_that_hands_out_no_single_commit_gets_the_branch_all_the_same() {
    // Protocol 0 allows only the newest commits of branches.
    let case = Case::with(|pod| pod.with(env::GIT_DEPTH, "0")).await;
    case.write("poem.md", "new\n");
    let agents = case.commit("A poem");
    fs::write(case.ws().join(".git/logs/HEAD"), "nonsense\n").unwrap();
    for number in 0..120 {
        case.origin.commit("README.md", &format!("newer {number}\n"));
    }
    case.publish().await.unwrap();
    assert_eq!(case.remote(&["rev-parse", "agents/fix"]), agents);
}

#[tokio::test]
async fn a_rerun_moves_the_branch_forward_or_takes_another_one_and_never_overwrites() {
    let mut case = Case::new().await;
    case.write("poem.md", "one\n");
    case.publish().await.unwrap();
    let first = case.remote(&["rev-parse", "agents/fix"]);

    // On a kept workspace whose commit is on the branch.
    case.epoch = 2;
    git(&case.ws(), &["fetch", "--quiet", &case.origin.url(), "agents/fix"]);
    git(&case.ws(), &["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    case.write("poem.md", "two\n");
    let published = case.publish().await.unwrap();
    assert_eq!((branch(&published), published.notes.len()), (Some("agents/fix"), 0));
    assert_eq!(case.remote(&["rev-parse", "agents/fix~1"]), first);
    let second = case.remote(&["rev-parse", "agents/fix"]);

    // From the beginning again, with another result.
    case.epoch = 3;
    git(&case.ws(), &["reset", "--quiet", "--hard", "origin/main"]);
    case.write("poem.md", "three\n");
    let published = case.publish().await.unwrap();
    assert_eq!(branch(&published), Some("agents/fix-3"));
    assert!(published.notes[0].contains("agents/fix-3 was pushed instead"), "{:?}", published.notes);
    assert_eq!(case.remote(&["rev-parse", "agents/fix"]), second);
    assert_eq!(case.branches(), ["agents/fix", "agents/fix-3"]);

    // The first run of a Task does not touch a branch of others, and says what to do.
    case.epoch = 1;
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("agents/fix of ") && error.contains("never overwritten; delete it, or set"), "{error}");
    assert_eq!(case.remote(&["rev-parse", "agents/fix"]), second);
}

#[tokio::test]
async fn an_older_branch_is_moved_forward() {
    let case = Case::new().await;
    case.remote(&["branch", "agents/fix", "main~2"]);
    case.write("poem.md", "one\n");
    let published = case.publish().await.unwrap();
    assert_eq!(branch(&published), Some("agents/fix"));
    assert_eq!(case.changes("agents/fix"), ["A poem.md"]);
}

#[tokio::test]
async fn the_base_is_only_pushed_to_if_the_user_wrote_its_name() {
    let mut case = Case::with(|pod| pod.with(env::GIT_REF, "feature")).await;
    case.write("poem.md", "one\n");
    case.plan.branch = "feature".to_owned();
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("set publish.branch to its name"), "{error}");
    case.plan.settings.branch = Some("feature".to_owned());
    case.plan.settings.pull_request = Some(api::run::PullRequest::default());
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.starts_with("a pull request from feature to feature"), "{error}");
    case.plan.settings.pull_request = None;
    case.publish().await.unwrap();
    assert_eq!(case.remote(&["log", "-1", "--format=%s", "feature"]), "Fix the poem");
}

#[tokio::test]
async fn refusals_say_whose_credential_and_which_rule() {
    let mut case = Case::new().await;
    case.write("poem.md", "one\n");
    case.more = vec![(env::GIT_PASSWORD, "hunter2-wrong".to_owned())];
    let before = case.server.requests();
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("The Secret of publish.secretRef"), "{error}");
    assert!(case.server.requests() - before <= 3, "a refusal is not tried again");
    case.more.clear();
    let hook = case.origin.path.join(".git/hooks/pre-receive");
    fs::write(&hook, "#!/bin/sh\necho 'only on Fridays' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.starts_with("the branch agents/fix was not pushed to http://"), "{error}");
    assert!(error.contains("only on Fridays"), "{error}");
    git(&case.origin.path, &["config", "http.receivepack", "false"]);
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("publish.secretRef"), "{error}");
}

#[tokio::test]
async fn a_passing_trouble_is_tried_again() {
    let mut case = Case::new().await;
    case.write("poem.md", "one\n");
    let login = Some(("me".to_owned(), PASSWORD.to_owned()));
    let server = case.origin.serve(Manner { login, refuse_first: 2, ..Manner::default() }).await;
    case.plan.repository = server.url_of("origin.git");
    assert_eq!(branch(&case.publish().await.unwrap()), Some("agents/fix"));
}

#[tokio::test]
async fn submodules_and_repositories_inside_are_left_as_they_were() {
    let inner = Origin::new();
    let case = Case::new().await;
    git(&case.origin.path, &["submodule", "--quiet", "add", &inner.url(), "inner"]);
    git(&case.origin.path, &["commit", "--quiet", "-m", "submodule"]);
    let case = Case { pod: Pod::new(&case.plan.repository), ..case };
    let pod = case.pod.with(env::GIT_USERNAME, "me").with(env::GIT_PASSWORD, PASSWORD).with_workspace();
    let pod = pod.with(env::GIT_RECURSE_SUBMODULES, "true");
    pod.init().await.unwrap();
    let plan = PublishPlan { directory: pod.ws().display().to_string(), ..case.plan };
    let case = Case { pod, plan, ..case };
    case.write("inner/README.md", "changed\n");
    case.write("a/b/c/d/e/f/deep/x", "1\n");
    for path in ["new", "a/b/c/d/e/f/deep"] {
        git(&case.ws(), &["init", "--quiet", path]);
        git(&case.ws().join(path), &["commit", "--quiet", "--allow-empty", "-m", "x"]);
    }
    case.write("poem.md", "one\n");
    let published = case.publish().await.unwrap();
    assert_eq!(case.changes("agents/fix"), ["A poem.md"]);
    let inside = |path: &str| format!("{path} is a repository of its own, which is not published.");
    let changed = "inner is a submodule with changes, which are not published.".to_owned();
    assert_eq!(published.notes, [inside("new"), inside("a/b/c/d/e/f/deep"), changed.clone()]);

    // The same changes as a commit, none, and a submodule that was not checked out.
    git(&case.ws().join("inner"), &["commit", "--quiet", "--all", "-m", "inner"]);
    assert_eq!(case.publish().await.unwrap().notes.last(), Some(&changed));
    git(&case.ws().join("inner"), &["reset", "--quiet", "--hard", "HEAD~1"]);
    assert_eq!(case.publish().await.unwrap().notes.len(), 2);
    case.write("inner/new", "untracked\n");
    assert_eq!(case.publish().await.unwrap().notes.last(), Some(&changed));
    git(&case.ws(), &["submodule", "--quiet", "deinit", "--force", "inner"]);
    assert_eq!(case.publish().await.unwrap().notes.len(), 2);
}

#[tokio::test]
async fn files_of_git_lfs_stay_as_they_were() {
    let case = Case::new().await;
    // What a checkout without Git LFS has, and what `git lfs pull` makes of it.
    case.write(".gitattributes", "*.bin filter=lfs diff=lfs -text\n*.plain -filter\n");
    for name in ["kept.bin", "pulled.bin", "gone.bin"] {
        case.write(name, "version https://git-lfs.github.com/spec/v1\n");
    }
    let commit = case.commit("Pointers");
    case.write("pulled.bin", "contents");
    case.write("new.bin", "contents");
    case.write("a.plain", "text\n");
    fs::remove_file(case.ws().join("gone.bin")).unwrap();
    let published = case.publish().await.unwrap();
    let note = "Not published, because they have a filter, such as that of Git LFS, which is not applied here: new.bin, pulled.bin.";
    assert_eq!(published.notes, [note]);
    let range = format!("{commit}..agents/fix");
    let changes = case.remote(&["diff", "--no-renames", "--name-status", &range]);
    assert_eq!(changes, "A\ta.plain\nD\tgone.bin");
}

#[tokio::test]
async fn a_linked_work_tree_and_a_moved_repository_are_found_within_the_workspace() {
    let case = Case::new().await;
    fs::rename(case.ws().join(".git"), case.ws().join(".kubeopencode/store")).unwrap();
    case.write(".git", "gitdir: .kubeopencode/store\n");
    case.write("poem.md", "one\n");
    let agents = case.commit("A poem");
    case.publish().await.unwrap();
    assert_eq!(case.remote(&["rev-parse", "agents/fix"]), agents);
}

#[tokio::test]
async fn an_agent_that_went_back_or_lost_its_commits_still_has_its_files_published() {
    let case = Case::with(|pod| pod.with(env::GIT_DEPTH, "0")).await;
    git(&case.ws(), &["reset", "--quiet", "--hard", "HEAD~1"]);
    let published = case.publish().await.unwrap();
    assert_eq!(case.changes("agents/fix"), ["M README.md"], "{published:?}");
    assert_eq!(case.remote(&["show", "agents/fix:README.md"]), "two");

    let case = Case::new().await;
    git(&case.ws(), &["checkout", "--quiet", "--orphan", "fresh"]);
    case.write("poem.md", "one\n");
    case.commit("Begun anew");
    let published = case.publish().await.unwrap();
    assert_eq!(case.subjects("agents/fix"), ["Fix the poem"]);
    assert_eq!(case.changes("agents/fix"), ["A poem.md"]);
    assert!(published.notes[0].contains("they do not continue the commit that the run began with"), "{published:?}");
}

#[tokio::test]
async fn a_directory_that_is_no_checkout_is_refused() {
    let case = Case::new().await;
    fs::remove_dir_all(case.ws().join(".git")).unwrap();
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("is no checkout any more"), "{error}");
    assert_eq!(case.branches(), [""; 0]);
}

#[tokio::test]
async fn a_branch_is_pushed_to_a_real_ssh_server_that_is_the_known_one() {
    let (server, other) = (SshServer::start(), SshServer::start());
    let mut case = Case::new().await;
    case.write("poem.md", "one\n");
    case.plan.repository = server.url_of(&case.origin.path);
    let with = |key: String, known_hosts: String| {
        vec![
            (env::GIT_USERNAME, String::new()),
            (env::GIT_PASSWORD, String::new()),
            (env::GIT_SSH_KEY, key),
            (env::GIT_SSH_KNOWN_HOSTS, known_hosts),
        ]
    };
    case.more = with(other.key(), server.known_hosts());
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("Permission denied") && error.contains("publish.secretRef"), "{error}");
    case.more = with(server.key(), other.known_hosts_of(&server));
    let error = case.publish().await.unwrap_err().to_string();
    assert!(error.contains("Host key verification failed"), "{error}");
    assert_eq!(case.branches(), [""; 0]);

    case.more = with(server.key(), server.known_hosts());
    assert_eq!(branch(&case.publish().await.unwrap()), Some("agents/fix"));
    assert_eq!(case.changes("agents/fix"), ["A poem.md"]);
    // The agent's commits too, on the branch that is there.
    git(&case.ws(), &["fetch", "--quiet", &case.origin.url(), "agents/fix"]);
    git(&case.ws(), &["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    case.write("poem.md", "two\n");
    let agents = case.commit("A better poem");
    case.publish().await.unwrap();
    assert_eq!(case.remote(&["rev-parse", "agents/fix"]), agents);
}

/// What ssh is given. The stand-in for it runs the command in a shell.
#[tokio::test]
async fn a_branch_is_pushed_over_ssh_with_the_key_as_a_private_file() {
    let mut case = Case::new().await;
    case.write("poem.md", "one\n");
    let programs = tempfile::tempdir().unwrap();
    let given = programs.path().join("given");
    let ssh = programs.path().join("ssh");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >>{0}\nenv >>{0}\nwhile [ \"$1\" != -i ]; do shift; done\n\
         stat -c 'mode %a' \"$2\" >>{0}\ncp \"$2\" {0}-key\nfor last; do :; done\nexec sh -c \"$last\"\n",
        given.display()
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nnobody-may-see-this\n-----END OPENSSH PRIVATE KEY-----";
    case.plan.repository = format!("ssh://git@git.example{}", case.origin.path.display());
    case.more = vec![
        (env::GIT_USERNAME, String::new()),
        (env::GIT_PASSWORD, String::new()),
        (env::GIT_SSH_KEY, key.to_owned()),
        (env::GIT_SSH_KNOWN_HOSTS, "git.example ssh-ed25519 AAAA".to_owned()),
        ("PATH", format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap())),
    ];
    let finished = publish_as_a_process(&case).await;
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(case.changes("agents/fix"), ["A poem.md"]);
    let text = fs::read_to_string(&given).unwrap();
    assert!(text.contains("git-receive-pack") && text.contains("StrictHostKeyChecking=yes"), "{text}");
    assert!(text.contains("mode 600") && !text.contains("nobody-may-see-this"), "{text}");
    assert_eq!(fs::read_to_string(given.with_file_name("given-key")).unwrap(), format!("{key}\n"));
}

/// Publishes in a process of its own, whose environment is that of the container.
pub async fn publish_as_a_process(case: &Case) -> Finished {
    let environment = case.environment();
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let plan = serde_json::to_string(&case.plan).unwrap();
    let helper = Helper::start(command("publish", &[&plan], &pairs));
    // The server of the repository runs on this thread.
    tokio::task::spawn_blocking(move || helper.finish(LIMIT)).await.unwrap()
}

pub fn make_executable(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, script).unwrap();
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
