//! The companion as a process, with the real `prep` and housekeeper of Tasks on its Agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::contract::collect::{CollectFailure, CollectReport, Fetch};
use domain::contract::companion::{Begin, Delivered};
use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use egress::Authorities;
use kubeopencode_pod::companion::Token;
use kubeopencode_pod::companion::client::{self, Companion, CompanionError};
use kubeopencode_pod::outcome::ReportFile;
use kubeopencode_pod::{depot, env, housekeeper, prep};
use reqwest::{Body, Method, Response, StatusCode, Url};
use serde_json::{Value, json};

use crate::support::depot::Depot;
use crate::support::git::git;
use crate::support::helper::{Helper, command, outcome};
use crate::support::opencode::{Port, closed_port};
use crate::support::{LIMIT, until};

const TOKEN: &str = "a-token-that-no-agent-knows";

/// An Agent's workspace, and its companion.
struct Agent {
    directory: tempfile::TempDir,
    url: Url,
    _helper: Helper,
    _port: Port,
}

impl Agent {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["workspace", "state", "outside"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let path = |name: &str| directory.path().join(name).display().to_string();
        let port = Port::reserve();
        let listen = format!("127.0.0.1:{}", port.number());
        let (workspace, state) = (path("workspace"), path("state"));
        let environment = [
            (env::COMPANION_LISTEN, listen.as_str()),
            (env::COMPANION_TOKEN, TOKEN),
            (env::WORKSPACE_DIR, &workspace),
            (env::COMPANION_DIR, &state),
        ];
        let helper = Helper::start(command("companion", &[], &environment));
        let url = Url::parse(&format!("http://{listen}")).unwrap();
        let agent = Self { url, directory, _helper: helper, _port: port };
        until("the companion", LIMIT, async || agent.call(Method::GET, "healthz", None, Body::default()).await).await;
        agent
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path("workspace").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The directory of a Task.
    fn of_task(&self, task: &str) -> PathBuf {
        self.path("workspace/.kubeopencode/tasks").join(task)
    }

    fn settings(&self, task: &str) -> client::Settings {
        let (task, uid) = (task.to_owned(), format!("uid-of-{task}"));
        client::Settings { url: self.url.clone(), token: Token::new(TOKEN), task, uid, epoch: "1".to_owned() }
    }

    fn companion(&self, task: &str) -> Companion {
        Companion::connect(&self.settings(task)).unwrap()
    }

    /// A request that no client of ours sends.
    async fn call(&self, method: Method, path: &str, token: Option<&str>, body: Body) -> Option<Response> {
        let mut request = opencode::direct().unwrap().request(method, self.url.join(path).unwrap());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.header("content-type", "application/json").body(body).timeout(LIMIT).send().await.ok()
    }

    /// Tasks whose directories are there.
    async fn tasks(&self) -> Value {
        self.call(Method::GET, "v1/tasks", Some(TOKEN), Body::default()).await.unwrap().json().await.unwrap()
    }

    /// What it knows of runs.
    fn known(&self) -> usize {
        fs::read_dir(self.path("state")).unwrap().count()
    }
}

/// The Pod of a Task on the Agent.
struct Pod {
    directory: tempfile::TempDir,
    depot: Depot,
    companion: client::Settings,
}

impl Pod {
    async fn new(agent: &Agent, task: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["results", "collect", "workspace"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("token"), "depot").unwrap();
        fs::write(directory.path().join("results/lock"), "").unwrap();
        let report = RunReport::new(Reason::Succeeded, "").into_termination_message(4096);
        fs::write(directory.path().join("results/report.json"), report).unwrap();
        Self { directory, depot: Depot::start().await, companion: agent.settings(task) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn depot(&self) -> depot::Settings {
        let (url, token_file) = (self.depot.url(), self.path("token"));
        depot::Settings { url, token_file, authorities: Authorities::default(), silence: LIMIT }
    }

    /// The directory of the Task, as the init containers before `prep` leave it.
    fn own(&self) -> PathBuf {
        self.path("workspace/.kubeopencode/tasks").join(&self.companion.task)
    }

    async fn prepare(&self, fetch: Fetch, begin: Begin) -> Result<(), prep::Error> {
        let directory = Some(self.own()).filter(|own| own.exists() || !fetch.inputs.is_empty());
        let settings = prep::Settings {
            fetch,
            depot: Some(self.depot()),
            companion: Some(prep::delivery::Settings {
                companion: self.companion.clone(),
                directory,
                begin: Some(begin),
                start: LIMIT,
            }),
            collect: self.path("collect"),
            workspace: self.path("workspace"),
            report: ReportFile { path: self.path("outcome"), most_bytes: 4096 },
            inputs_timeout: LIMIT,
            optional_timeout: LIMIT,
            patience: LIMIT,
        };
        tokio::time::timeout(LIMIT * 2, prep::run(&settings)).await.unwrap().map(drop)
    }

    async fn collect(&self, keep: Value) -> CollectReport {
        let settings = housekeeper::Settings {
            publishing_time: Duration::ZERO,
            keep: serde_json::from_value(keep).unwrap(),
            depot: Some(self.depot()),
            companion: Some(self.companion.clone()),
            publish: None,
            timeout: LIMIT,
            results: self.path("results"),
            collect: self.path("collect"),
            workspace: self.path("workspace"),
            stop_grace: LIMIT,
        };
        tokio::time::timeout(LIMIT * 2, housekeeper::run(&settings, std::future::pending())).await.unwrap()
    }
}

const ALL: Begin = Begin { outputs: true, changes: true };

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_nothing_and_changes_nothing() {
    let agent = Agent::start().await;
    agent.write(".kubeopencode/tasks/fix/notes.md", "notes");
    let run = "v1/runs/fix/uid/1";
    let paths = ["files", "filesets", "changes", "outputs"].map(|below| format!("{run}/{below}"));
    let all = paths.iter().map(String::as_str).chain([run, "v1/tasks", "v1/tasks/fix", "v1/other"]);
    for path in all {
        for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
            for token in [None, Some("wrong"), Some(&TOKEN[1..]), Some("")] {
                let answer = agent.call(method.clone(), path, token, Body::from(r#"{"paths":["**"]}"#)).await.unwrap();
                assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{method} {path} {token:?}");
                assert!(!answer.text().await.unwrap().contains(TOKEN));
            }
        }
    }
    assert!(agent.of_task("fix").join("notes.md").exists());
    let health = agent.call(Method::GET, "healthz", None, Body::default()).await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_delivered_whole_or_not_at_all() {
    let agent = Agent::start().await;
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("docs")).unwrap();
    fs::write(here.path().join("docs/it's a $(guide).md"), "heliotrope").unwrap();
    fs::write(here.path().join("big"), vec![7; 30 << 20]).unwrap();
    let delivered = agent.companion("fix").deliver(here.path()).await.unwrap();
    assert_eq!(delivered, Delivered { files: 2, bytes: (30 << 20) + 10 });
    assert_eq!(fs::read_to_string(agent.of_task("fix").join("docs/it's a $(guide).md")).unwrap(), "heliotrope");
    assert_eq!(agent.tasks().await, json!({"tasks": ["fix"]}));

    // Cut off: what was there before is gone, and nothing is there in part.
    let mut tar = Vec::new();
    kubeopencode_pod::companion::pack::pack(here.path(), &mut tar).unwrap();
    let files = "v1/runs/fix/uid-of-fix/1/files";
    for whole in [false, true] {
        let half = tar[..tar.len() / 2].to_vec();
        let end = futures::stream::iter((!whole).then(|| Err(std::io::Error::other("cut"))));
        let chunks = futures::StreamExt::chain(futures::stream::iter([Ok(half)]), end);
        let answer = agent.call(Method::PUT, files, Some(TOKEN), Body::wrap_stream(chunks)).await;
        assert!(answer.is_none_or(|answer| answer.status() == StatusCode::BAD_REQUEST));
        until("the removal", LIMIT, async || (!agent.of_task("fix").exists()).then_some(())).await;
    }

    // Hostile: nothing is written elsewhere, also not through links that the agent made.
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    header.as_old_mut().name[..7].copy_from_slice(b"../../x");
    header.set_cksum();
    builder.append(&header, &b"x"[..]).unwrap();
    let traversal = builder.into_inner().unwrap();
    let answer = agent.call(Method::PUT, files, Some(TOKEN), traversal.into()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    fs::remove_dir_all(agent.path("workspace/.kubeopencode")).unwrap();
    std::os::unix::fs::symlink(agent.path("outside"), agent.path("workspace/.kubeopencode")).unwrap();
    let refused = agent.companion("fix").deliver(here.path()).await.unwrap_err();
    assert!(matches!(refused, CompanionError::Refused { .. }), "{refused}");
    assert_eq!(fs::read_dir(agent.path("outside")).unwrap().count(), 0);
    for path in ["v1/runs/../uid/1/files", "v1/runs/a%2Fb/uid/1/files", "v1/runs/fix/uid/0/files"] {
        let answer = agent.call(Method::PUT, path, Some(TOKEN), tar.clone().into()).await;
        assert!(answer.is_none_or(|answer| answer.status().is_client_error()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_task_are_removed_and_nothing_else() {
    let agent = Agent::start().await;
    agent.write(".kubeopencode/tasks/gone/notes.md", "notes");
    agent.write(".kubeopencode/tasks/stays/notes.md", "notes");
    agent.write("src/a", "a");
    for task in ["gone", "never-there"] {
        let path = format!("v1/tasks/{task}");
        let answer = agent.call(Method::DELETE, &path, Some(TOKEN), Body::default()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{task}");
    }
    for task in ["..%2F..%2Fsrc", "%2E%2E%2Ftasks", "A"] {
        let path = format!("v1/tasks/{task}");
        let answer = agent.call(Method::DELETE, &path, Some(TOKEN), Body::default()).await.unwrap();
        assert!(answer.status().is_client_error(), "{task}");
    }
    assert_eq!(agent.tasks().await, json!({"tasks": ["stays"]}));
    assert!(agent.path("workspace/src/a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_on_an_agent_takes_inputs_and_leaves_results_as_one_on_a_template_does() {
    let agent = Agent::start().await;
    git(&agent.path("workspace"), &["init", "--quiet"]);
    agent.write("README.md", "first\n");
    git(&agent.path("workspace"), &["add", "."]);
    git(&agent.path("workspace"), &["commit", "--quiet", "-m", "first"]);
    let pod = Pod::new(&agent, "fix").await;
    pod.depot.add_input("build", "dist", &[("app", "built")]);
    fs::create_dir_all(pod.own()).unwrap();
    fs::write(pod.own().join("guide.md"), "guide").unwrap();
    let input = json!({"fromTask": "build", "artifact": "dist", "mountPath": pod.own().join("in")});
    pod.prepare(serde_json::from_value(json!({"inputs": [input]})).unwrap(), ALL).await.unwrap();
    let own = agent.of_task("fix");
    assert_eq!(fs::read_to_string(own.join("in/app")).unwrap(), "built");
    assert_eq!(fs::read_to_string(own.join("guide.md")).unwrap(), "guide");

    agent.write("README.md", "second\n");
    agent.write("dist/report.txt", "well\n");
    std::os::unix::fs::symlink(agent.path("outside"), agent.path("workspace/dist/out")).unwrap();
    fs::write(own.join(".outputs"), "verdict=good\n").unwrap();
    let keep = json!({
        "artifacts": [{"name": "dist", "paths": ["dist"]}, {"name": "none", "paths": ["*.log"], "optional": true}],
        "outputs": ["verdict"], "changes": true,
    });
    let report = pod.collect(keep).await;
    assert_eq!(report.failure, None, "{report:?}");
    let artifact = pod.depot.store().artifacts["dist"].clone();
    let unpacked = pod.depot.unpacked(&artifact);
    assert_eq!(fs::read_to_string(unpacked.path().join("dist/report.txt")).unwrap(), "well\n");
    assert_eq!((artifact.files, pod.depot.store().artifacts.len()), (1, 1), "nothing behind a link, and nothing else");
    assert!(report.notes.iter().any(|note| note.contains("dist/out")), "{:?}", report.notes);
    assert_eq!(pod.depot.store().outputs, Some(json!({"verdict": "good"})));
    let changes = pod.depot.store().changes.clone().unwrap();
    let patch = String::from_utf8(pod.depot.store().blobs[&changes.digest].clone()).unwrap();
    assert!(patch.contains("-first\n+second\n") && !patch.contains("guide"), "{patch}");
    assert_eq!(agent.known(), 0, "the companion has forgotten the run");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tasks_at_once_keep_their_own_outputs_and_say_what_they_share() {
    let agent = Agent::start().await;
    git(&agent.path("workspace"), &["init", "--quiet"]);
    agent.write("README.md", "first\n");
    let (one, two) = (Pod::new(&agent, "one").await, Pod::new(&agent, "two").await);
    one.prepare(Fetch::default(), ALL).await.unwrap();
    two.prepare(Fetch::default(), ALL).await.unwrap();
    agent.write(".kubeopencode/tasks/one/.outputs", "verdict=1");
    agent.write(".kubeopencode/tasks/two/.outputs", "verdict=2");
    agent.write("README.md", "second\n");
    let keep = json!({"outputs": ["verdict"], "artifacts": [{"name": "all", "paths": ["**"]}], "changes": true});
    for (pod, verdict) in [(&one, "1"), (&two, "2")] {
        let report = pod.collect(keep.clone()).await;
        assert_eq!(report.failure, None, "{report:?}");
        assert_eq!(pod.depot.store().outputs, Some(json!({"verdict": verdict})));
        let shared = report.notes.iter().filter(|note| note.contains("at the same time")).count();
        assert_eq!(shared, 1, "{:?}", report.notes);
        let artifact = pod.depot.store().artifacts["all"].clone();
        assert!(!artifact.manifest.to_string().contains(".kubeopencode"), "files of Tasks are in no artefact");
        assert!(pod.depot.store().changes.is_some());
    }
    let alone = Pod::new(&agent, "three").await;
    alone.prepare(Fetch::default(), ALL).await.unwrap();
    let report = alone.collect(json!({"outputs": ["verdict"], "changes": true})).await;
    let failure = report.failure.unwrap();
    assert_eq!(failure.reason, CollectFailure::OutputMissing);
    assert!(failure.message.contains(".kubeopencode/tasks/three/.outputs"), "{}", failure.message);
    assert!(!report.notes.iter().any(|note| note.contains("at the same time")), "{:?}", report.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_run_wrote_is_no_output_of_this_one() {
    let agent = Agent::start().await;
    agent.write(".kubeopencode/tasks/fix/.outputs", "verdict=old");
    let pod = Pod::new(&agent, "fix").await;
    pod.prepare(Fetch::default(), ALL).await.unwrap();
    assert!(!agent.of_task("fix").join(".outputs").exists());
    // A link to what the agent cannot read itself.
    std::os::unix::fs::symlink("/proc/self/environ", agent.of_task("fix").join(".outputs")).unwrap();
    let report = pod.collect(json!({"outputs": ["verdict"]})).await;
    assert_eq!(report.failure.unwrap().reason, CollectFailure::OutputMissing);
    let later = client::Settings { epoch: "2".to_owned(), ..agent.settings("fix") };
    Companion::connect(&later).unwrap().begin(Begin::default()).await.unwrap();
    let late = agent.companion("fix").deliver(Path::new("/var/empty")).await.is_err();
    assert!(late && agent.companion("fix").begin(ALL).await.is_err(), "an older run changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_companion_is_named_as_the_reason() {
    let url = Url::parse(&format!("http://127.0.0.1:{}", closed_port())).unwrap();
    let (task, uid, epoch) = ("fix".to_owned(), "u".to_owned(), "1".to_owned());
    let settings = prep::delivery::Settings {
        companion: client::Settings { url, token: Token::new(TOKEN), task, uid, epoch },
        directory: None,
        begin: Some(ALL),
        start: Duration::from_millis(600),
    };
    let error = prep::delivery::run(&settings).await.unwrap_err().to_string();
    assert!(error.contains("did not answer within") && error.contains("rolled out"), "{error}");
    assert!(!error.contains(TOKEN), "{error}");
}

#[test]
fn the_client_holds_the_lock_and_copies_its_report() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let url = format!("http://127.0.0.1:{}", closed_port());
    let environment = [
        (env::SHIM_LOCK_FILE, path("lock")),
        (env::SHIM_REPORT_FILE, path("copy")),
        (env::OUTCOME_FILE, path("outcome")),
        (env::START_TIMEOUT_SECONDS, "1".to_owned()),
    ];
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let attach = Helper::start(command("attach", &["run", "--attach", &url, "hello"], &environment));
    attach.finish(LIMIT);
    assert!(directory.path().join("lock").exists());
    let reports = ["outcome", "copy"].map(|name| outcome(&directory.path().join(name)).reason);
    assert_eq!(reports, [Reason::ServerLost; 2]);
}
