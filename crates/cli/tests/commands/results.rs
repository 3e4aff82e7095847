//! artifacts, diff, pull, outputs, store: against a server with a store, which answers on another thread while a command
//! runs.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use fileset::Patterns;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, RoleRef, Subject},
};
use kube::{
    Api, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
    core::ObjectMeta,
};
use serde_json::{Value, json};
use server::{Access, Listening, Options};
use store::{Archive as _, End, NewArtifact, Owner, Published, Run, Store};
use tokio::task::JoinHandle;

use crate::{
    check,
    world::{LIMIT, Ran, World},
};

/// A namespace, and a server with a store.
struct Results {
    world: World,
    store: Store,
    url: String,
    token: String,
    serving: JoinHandle<()>,
}

impl Drop for Results {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Results {
    async fn start() -> Self {
        let world = World::start().await;
        let store = Store::directory(&world.directory().join("store")).unwrap();
        let kubeconfig = Kubeconfig::read_from(world.cluster.kubeconfig_path()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let options = Options { results: Some(store.clone()), ..Options::local(([127, 0, 0, 1], 0).into()) };
        let listening = Listening::bind(Access::Config(Box::new(config)), options).await.unwrap();
        let url = format!("http://{}", listening.address());
        let serving = tokio::spawn(async move { listening.serve(std::future::pending()).await.unwrap() });
        let token = token(&world).await;
        let results = Self { world, store, url, token, serving };
        results.until_served().await;
        results
    }

    /// Waits until the server knows the rights of the token.
    async fn until_served(&self) {
        self.world.create("Task", "probe", json!({"agentRef": {"name": "dev"}}), Value::Null).await;
        let started = Instant::now();
        while self.run(&["artifacts", "probe"]).code() != Some(0) {
            assert!(started.elapsed() < LIMIT, "{}", self.run(&["artifacts", "probe"]).text());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A Task whose second run ended.
    async fn task(&self, name: &str) -> Owner {
        let outputs = json!({"outputs": {"URL": "https://small.example"}});
        let status = json!({"phase": "Completed", "reason": "Succeeded", "runEpoch": 2, "result": outputs});
        self.world.create("Task", name, json!({"description": "x", "agentRef": {"name": "dev"}}), status).await;
        let task = self.world.tasks().get(name).await.unwrap();
        Owner::new(&self.world.namespace, task.metadata.uid.as_deref().unwrap()).unwrap()
    }

    async fn put(&self, bytes: &[u8]) -> store::Digest {
        let chunk = Ok(bytes.to_vec().into());
        self.store.put_stream(futures::stream::iter([chunk]), u64::MAX).await.unwrap().digest
    }

    async fn publish(&self, run: &Run, name: &str, files: &[(&str, &str)]) {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
        }
        // The times of files are in the archive, whose size is on the screens below.
        let mut entries = vec![root.path().to_owned()];
        while let Some(entry) = entries.pop() {
            if entry.is_dir() {
                entries.extend(fs::read_dir(&entry).unwrap().map(|child| child.unwrap().path()));
            }
            fs::File::open(&entry)
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30))
                .unwrap();
        }
        let limits = fileset::Limits { files: 100, bytes: 1 << 20 };
        let mut archive = Vec::new();
        let packed = fileset::pack(root.path(), &Patterns::parse(&["."]).unwrap(), &[], limits, &mut archive).unwrap();
        let digest = self.put(&archive).await;
        let artifact = NewArtifact {
            name: name.to_owned(),
            digest,
            bytes: archive.len() as u64,
            files: packed.manifest.files(),
            manifest: serde_json::to_vec(&packed.manifest).unwrap(),
            expires: None,
        };
        assert_eq!(self.store.publish(run, artifact).await.unwrap(), Published::New);
    }

    async fn publish_patch(&self, run: &Run, patch: &str) {
        let digest = self.put(patch.as_bytes()).await;
        self.store.publish_patch(run, digest, patch.len() as u64).await.unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        command.env("KUBEOPENCODE_SERVER", &self.url).env("KUBEOPENCODE_TOKEN", &self.token);
        command.current_dir(self.world.directory());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.world.finish(&mut self.command(args))
    }

    /// Runs a command that calls git.
    fn run_with_git(&self, args: &[&str]) -> Ran {
        self.world.finish(self.command(args).env("PATH", std::env::var_os("PATH").unwrap()))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.world.directory().join(path)
    }
}

/// A token of an administrator: the server reads no client certificates.
async fn token(world: &World) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), &world.namespace);
    let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata: named("admin"), ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let binding = ClusterRoleBinding {
        metadata: named(&format!("admin-of-{}", world.namespace)),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "admin".to_owned(),
            namespace: Some(world.namespace.clone()),
            ..Subject::default()
        }]),
    };
    Api::all(world.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let created = accounts.create_token_request("admin", &PostParams::default(), &TokenRequest::default()).await;
    created.unwrap().status.unwrap().token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifacts_are_listed_downloaded_and_printed() {
    let it = Results::start().await;
    let task = it.task("fix").await;
    let (first, second) = (Run { task: task.clone(), epoch: 1 }, Run { task, epoch: 2 });
    it.publish(&first, "dist", &[("old", "old\n")]).await;
    it.publish(&first, "report", &[("summary.md", "# All is well\n")]).await;
    it.publish(&second, "dist", &[("app.js", "run()\n"), ("sub/x", "x")]).await;

    check!("artifacts", it.run(&["artifacts", "fix"]));
    check!("artifacts-none", it.run(&["artifacts", "probe"]));
    check!("artifacts-of-nobody", it.run(&["artifacts", "fixx"]));
    assert_eq!(it.run(&["artifacts", "fix", "-o", "name"]).stdout(), "dist\nreport\n");
    let list: Value =
        serde_json::from_str(&it.run(&["artifacts", "task/fix", "--epoch", "1", "-o", "json"]).stdout()).unwrap();
    assert_eq!((&list[0]["name"], &list[0]["epoch"]), (&json!("dist"), &json!(1)));

    check!("artifacts-get", it.run(&["artifacts", "fix", "get", "dist"]));
    assert_eq!(fs::read_to_string(it.at("dist/app.js")).unwrap(), "run()\n");
    assert_eq!(fs::read_to_string(it.at("dist/sub/x")).unwrap(), "x");
    assert_ne!(fs::metadata(it.at("dist")).unwrap().permissions().mode() & 0o055, 0, "others may read it");
    check!("artifacts-get-again", it.run(&["artifacts", "fix", "get", "dist"]));
    let forced = it.run(&["artifacts", "fix", "get", "dist", "--force", "--epoch", "1"]);
    assert_eq!(forced.code(), Some(0), "{}", forced.text());
    assert!(it.at("dist/old").exists() && it.at("dist/app.js").exists());
    check!("artifacts-get-unknown", it.run(&["artifacts", "fix", "get", "dits"]));

    let here = it.at("here");
    fs::create_dir(&here).unwrap();
    let got = it.world.finish(it.command(&["artifacts", "fix", "get", "dist", "-o", "."]).current_dir(&here));
    assert_eq!(got.code(), Some(0), "{}", got.text());
    assert_eq!(fs::read_to_string(here.join("sub/x")).unwrap(), "x");

    let cat = it.run(&["artifacts", "fix", "cat", "report", "summary.md"]);
    assert_eq!((cat.stdout().as_str(), cat.code()), ("# All is well\n", Some(0)));
    check!("artifacts-cat-unknown", it.run(&["artifacts", "fix", "cat", "report", "../summary.md"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_or_refuses_is_reported_with_a_next_step() {
    let it = Results::start().await;
    it.task("fix").await;
    let with = |name: &str, value: &str| it.world.finish(it.command(&["artifacts", "fix"]).env(name, value));
    check!("server-unknown", with("KUBEOPENCODE_SERVER", ""));
    check!("server-dead", with("KUBEOPENCODE_SERVER", "http://127.0.0.1:9"));
    check!("server-odd", with("KUBEOPENCODE_SERVER", "here"));
    let refused = with("KUBEOPENCODE_TOKEN", "wrong");
    assert_eq!(refused.code(), Some(6), "{}", refused.text());
    assert!(refused.stderr().contains("does not accept your token") && !refused.stderr().contains("wrong"));
}

const PATCH: &str = "\
diff --git a/app/main.rs b/app/main.rs
--- a/app/main.rs
+++ b/app/main.rs
@@ -1,3 +1,3 @@
 fn main() {
-    old();
+    new();
 }
diff --git a/app/new.txt b/app/new.txt
new file mode 100644
--- /dev/null
+++ b/app/new.txt
@@ -0,0 +1 @@
+new
";

fn git(directory: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let output = Command::new("git").arg("-C").arg(directory).args(identity).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_shown_and_applied_to_a_checkout() {
    let it = Results::start().await;
    let task = it.task("fix").await;
    check!("diff-none", it.run(&["diff", "fix"]));
    it.publish_patch(&Run { task, epoch: 2 }, PATCH).await;
    assert_eq!(it.run(&["diff", "fix"]).stdout(), PATCH);
    check!("diff-stat", it.run(&["diff", "fix", "--stat"]));
    assert_eq!(it.run(&["diff", "fix", "--epoch", "1"]).code(), Some(5));

    let checkout = it.at("checkout");
    fs::create_dir(&checkout).unwrap();
    git(&checkout, &["init", "--quiet", "--initial-branch=main"]);
    check!("pull-nowhere", it.run_with_git(&["pull", "fix", "/"]));
    fs::write(checkout.join("main.rs"), "fn main() {\n    old();\n}\n").unwrap();
    git(&checkout, &["add", "."]);
    git(&checkout, &["commit", "--quiet", "-m", "first"]);
    fs::write(checkout.join("mine"), "").unwrap();
    check!("pull-dirty", it.run_with_git(&["pull", "fix", "checkout"]));
    fs::remove_file(checkout.join("mine")).unwrap();

    check!("pull", it.run_with_git(&["pull", "fix", "checkout", "--branch", "agents/fix"]));
    assert_eq!(fs::read_to_string(checkout.join("main.rs")).unwrap(), "fn main() {\n    new();\n}\n");
    assert_eq!(git(&checkout, &["diff", "--cached", "--name-status"]), "M\tmain.rs\nA\tnew.txt\n");
    assert_eq!(git(&checkout, &["branch", "--show-current"]), "agents/fix\n");
    git(&checkout, &["reset", "--hard", "--quiet"]);
    git(&checkout, &["switch", "--quiet", "main"]);

    fs::write(checkout.join("main.rs"), "fn main() {\n    other();\n}\n").unwrap();
    git(&checkout, &["commit", "--quiet", "--all", "-m", "second"]);
    check!("pull-other-commit", it.run_with_git(&["pull", "fix", "checkout", "--branch", "again"]));
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");
    assert_eq!(git(&checkout, &["branch", "--list", "again"]), "");
    assert_eq!(git(&checkout, &["branch", "--show-current"]), "main\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_printed_for_people_and_shells() {
    let it = Results::start().await;
    let task = it.task("fix").await;
    // The status holds small ones, also where there is no server.
    check!("outputs-of-the-status", it.run(&["outputs", "fix"]));
    let json = json!({"URL": "https://app.example", "NOTE": "it's $HOME"});
    it.store.put_outputs(&Run { task, epoch: 2 }, json.to_string().into_bytes()).await.unwrap();
    check!("outputs", it.run(&["outputs", "fix"]));
    assert_eq!(it.run(&["outputs", "fix", "URL"]).stdout(), "https://app.example\n");
    assert_eq!(it.run(&["outputs", "fix", "-o", "env"]).stdout(), "NOTE='it'\\''s $HOME'\nURL='https://app.example'\n");
    let read: Value = serde_json::from_str(&it.run(&["outputs", "fix", "-o", "json"]).stdout()).unwrap();
    assert_eq!(read, json);
    check!("outputs-unknown", it.run(&["outputs", "fix", "NONE"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_checked_collected_and_copied_without_a_cluster() {
    let it = Results::start().await;
    let task = it.task("fix").await;
    let run = Run { task: task.clone(), epoch: 1 };
    it.publish(&run, "dist", &[("a", "content")]).await;
    it.publish_patch(&run, PATCH).await;
    it.put(b"nothing names these bytes").await;
    let store = |args: &[&str]| {
        let mut command = it.world.command(&[&["store"], args].concat());
        command.current_dir(it.world.directory()).env_remove("KUBECONFIG");
        it.world.finish(&mut command)
    };
    check!("store-none", store(&["check"]));
    check!("store-check", store(&["check", "--store", "store"]));
    assert_eq!(store(&["gc", "--store", "store"]).stdout(), "nothing to remove\n");
    let started = Instant::now();
    loop {
        let would = store(&["gc", "--store", "store", "--grace", "1s", "--dry-run"]);
        if would.stdout() != "nothing to remove\n" {
            assert_eq!(would.stdout(), "would remove 1 blob (25 B)\n", "{}", would.text());
            break;
        }
        assert!(started.elapsed() < LIMIT, "a second never ends");
    }
    assert_eq!(store(&["gc", "--store", "store", "--grace", "1s"]).stdout(), "removed 1 blob (25 B)\n");
    assert_eq!(store(&["gc", "--store", "store", "--grace", "1s"]).stdout(), "nothing to remove\n");

    check!("store-export", store(&["export", "backup", "--store", "store"]));
    assert_eq!(store(&["export", "backup", "--store", "store"]).stdout(), "nothing is new\n");
    check!("store-export-to-itself", store(&["export", "store", "--store", "store"]));
    let others = store(&["export", "--to-records", "other.db", "--to-blobs", "store/blobs", "--store", "store"]);
    assert_eq!(others.code(), Some(2), "{}", others.text());
    assert!(!it.at("other.db").exists());
    let archive = it.at("archive").join("default").join(task.uid());
    fs::create_dir_all(&archive).unwrap();
    fs::write(archive.join("k8s-9.log"), "2026-01-01T00:00:01Z a\n").unwrap();
    for _ in 0..2 {
        let imported = store(&["import", "archive", "--store", "store"]);
        assert_eq!(imported.stdout(), "copied the logs and records of 1 Task\n", "{}", imported.text());
    }
    assert!(archive.join("k8s-9.log").exists());
    check!("store-import-none", store(&["import", "elsewhere", "--store", "store"]));
    let backup = Store::directory(&it.at("backup")).unwrap();
    let artifact = backup.artifact(&run, "dist").await.unwrap().unwrap();
    let damaged = blob(&it.at("backup/blobs"), artifact.digest.as_str());
    fs::write(damaged, "damaged").unwrap();
    let checked = store(&["check", "--store", "backup"]);
    assert_eq!(checked.code(), Some(1));
    assert!(checked.stdout().contains("artifact dist of run"), "{}", checked.text());
    assert!(checked.stderr().ends_with("one problem was found\n"), "{}", checked.text());
    let records = it.at("backup/records.db").display().to_string();
    let blobs = it.at("backup/blobs").display().to_string();
    assert_eq!(store(&["check", "--records", &records, "--blobs", &blobs]).code(), Some(1));
}

/// The blocks of shell commands of a page of the documentation, below a heading.
fn documented(page: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("{page} has no {heading}"));
    let section = rest.split("\n## ").next().unwrap();
    section.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

impl Results {
    /// Runs a block of the documentation in a directory, with the program, kubectl and git on the PATH.
    fn paste(&self, block: &str, directory: &Path, env: &[(&str, &Path)]) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_kubeopencode")).parent().unwrap().to_owned();
        let kubectl = self.world.cluster.kubectl().parent().unwrap().to_owned();
        let known = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([program, kubectl].into_iter().chain(std::env::split_paths(&known))).unwrap();
        let mut command = Command::new("sh");
        command.args(["-e", "-c", block]).current_dir(directory).env("PATH", path).env("HOME", self.world.directory());
        command.env("KUBECONFIG", self.world.directory().join("config"));
        command.env("KUBEOPENCODE_SERVER", &self.url).env("KUBEOPENCODE_TOKEN", &self.token);
        let ran = self.world.finish(command.envs(env.iter().copied()));
        assert_eq!(ran.code(), Some(0), "{block}\n{}", ran.text());
        ran.stdout()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_on_results_work() {
    let it = Results::start().await;
    let update = it.task("update-dependencies").await;
    it.publish_patch(&Run { task: update, epoch: 2 }, PATCH).await;
    let outputs = json!({"outputs": {"pages": "12"}});
    let outputs = json!({"phase": "Completed", "runEpoch": 1, "podName": "build-site-pod", "result": outputs});
    it.world.create("Task", "build-site", json!({"description": "x", "agentRef": {"name": "dev"}}), outputs).await;
    let built = it.world.tasks().get("build-site").await.unwrap();
    let built = Owner::new(&it.world.namespace, built.metadata.uid.as_deref().unwrap()).unwrap();
    let run = Run { task: built, epoch: 1 };
    it.publish(&run, "site", &[("dist/index.html", "<h1>Hello</h1>\n"), ("dist/app.js", "run()\n")]).await;
    it.store.put_outputs(&run, br#"{"pages":"12"}"#.to_vec()).await.unwrap();
    let lines = b"2026-01-01T00:00:00Z GET /a 404\n2026-01-01T00:00:01Z fine\n".to_vec();
    let end = End { complete: true, lines: 2, bytes: lines.len() as u64, gaps: 0 };
    let logs = it.at("logs");
    let archive = store::open(&logs.display().to_string(), store::LOG_LIMIT).unwrap();
    archive.append(&run.log(), 0, lines).await.unwrap();
    archive.close(&run.log(), end).await.unwrap();

    let checkout = it.at("checkout");
    fs::create_dir(&checkout).unwrap();
    git(&checkout, &["init", "--quiet", "--initial-branch=main"]);
    fs::create_dir(checkout.join("app")).unwrap();
    fs::write(checkout.join("app/main.rs"), "fn main() {\n    old();\n}\n").unwrap();
    git(&checkout, &["add", "."]);
    git(&checkout, &["commit", "--quiet", "-m", "first"]);
    let paste = |heading: &str| {
        let blocks = documented("results.md", heading);
        assert!(!blocks.is_empty(), "{heading} has no commands");
        blocks.iter().map(|block| it.paste(block, &checkout, &[])).collect::<String>()
    };
    assert!(paste("Changes").starts_with(PATCH));
    assert!(fs::read_to_string(checkout.join("app/main.rs")).unwrap().contains("new()"));
    assert!(paste("Artifacts").contains("<h1>Hello</h1>\n"));
    assert_eq!(fs::read_to_string(checkout.join("site/dist/app.js")).unwrap(), "run()\n");
    assert_eq!(paste("Outputs"), "12\n12");
    let [log] = documented("results.md", "Log").try_into().unwrap();
    let found = it.paste(&log, &checkout, &[("KUBEOPENCODE_LOG_ARCHIVE", &logs)]);
    assert_eq!(found, "GET /a 404\nGET /a 404\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_steps_of_backup_and_restore_bring_everything_back() {
    let it = Results::start().await;
    let task = it.task("fix").await;
    let run = Run { task: task.clone(), epoch: 1 };
    it.publish(&run, "dist", &[("a", "content")]).await;
    it.publish_patch(&run, PATCH).await;
    it.store.put_outputs(&run, b"{}".to_vec()).await.unwrap();
    it.store.record_approval(&run, "answer", b"{}".to_vec()).await.unwrap();
    it.store.record(&run, b"record".to_vec()).await.unwrap();
    let (state, backup) = (it.at("."), it.at("backup"));
    let paste = |block: &str, state: &Path| {
        let block = block.replace("/backup", &backup.display().to_string());
        let (records, blobs) = (it.at("moved/records.db"), it.at("moved/blobs"));
        let env = [("KUBEOPENCODE_STATE_DIR", state), ("RECORDS", &*records), ("BLOBS", &*blobs)];
        it.paste(&block, &it.world.directory(), &env)
    };
    for block in documented("storage.md", "Check and clean") {
        paste(&block, &state);
    }
    let [save, restore] = documented("storage.md", "Back up and restore").try_into().unwrap();
    assert!(paste(&save, &state).contains("1 run"));

    // On another machine, whose store is empty.
    let other = it.at("other");
    Store::directory(&other.join("store")).unwrap();
    paste(&restore, &other);
    let restored = Store::directory(&other.join("store")).unwrap();
    assert_eq!(restored.results(&run).await.unwrap(), it.store.results(&run).await.unwrap());
    assert_eq!(restored.records(&task).await.unwrap(), it.store.records(&task).await.unwrap());
    assert_eq!(restored.approvals(&task).await.unwrap(), it.store.approvals(&task).await.unwrap());
    for block in documented("storage.md", "Move to another back end") {
        assert!(paste(&block, &state).contains("1 run"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_on_workspaces_work() {
    let it = Results::start().await;
    it.task("build").await;
    let blocks = documented("workspaces.md", "A claim of its own");
    assert!(it.paste(&blocks.concat(), &it.world.directory(), &[]).contains("build"));
    assert!(it.world.tasks().get("build").await.is_err());
}

/// The file of a blob.
fn blob(directory: &Path, digest: &str) -> PathBuf {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.file_name().unwrap().to_str().unwrap().starts_with(digest) {
                return path;
            }
        }
    }
    panic!("no blob {digest}");
}
