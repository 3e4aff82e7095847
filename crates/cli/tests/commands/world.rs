//! The fixture of a test: a namespace of a real API server that serves our kinds, and the program as a user calls it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use api::Task;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use testenv::Cluster;
use tokio::sync::OnceCell;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubeopencode");
/// Nothing here takes longer on an idle machine than a second; beside a build it may.
pub const LIMIT: Duration = Duration::from_mins(1);

/// A namespace that no other test uses.
pub struct World {
    pub cluster: &'static Cluster,
    pub client: Client,
    pub namespace: String,
    home: TempDir,
}

impl World {
    pub async fn start() -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let cluster = testenv::shared().await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespace = cluster.namespace().await.unwrap();
        let world = Self { cluster, client, namespace, home: TempDir::new().unwrap() };
        INSTALLED.get_or_init(|| world.install()).await;
        world
    }

    /// Installs our kinds with our own `apply`, and waits until all are served.
    async fn install(&self) {
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        let ran = self.run(&["apply", "-f", &definitions.display().to_string()]);
        assert!(ran.output.status.success(), "{}", ran.text());
        let started = Instant::now();
        while !self.run(&["get", "all"]).output.status.success() {
            assert!(started.elapsed() < LIMIT, "the definitions are not served");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// A directory that goes with the test.
    pub fn directory(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// The program in this namespace, with nothing of the machine's own configuration.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).env_clear().env("HOME", self.home.path()).env("PATH", "/nowhere").stdin(Stdio::null());
        command.env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// The cluster's kubeconfig with this namespace as its current one.
    fn kubeconfig(&self) -> PathBuf {
        let file = self.home.path().join("config");
        if !file.exists() {
            let text = std::fs::read_to_string(self.cluster.kubeconfig_path()).unwrap();
            let mut config: Value = serde_saphyr::from_str(&text).unwrap();
            config["contexts"][0]["context"]["namespace"] = self.namespace.as_str().into();
            std::fs::write(&file, config.to_string()).unwrap();
        }
        file
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.finish(&mut self.command(args))
    }

    /// Runs a command to its end.
    pub fn finish(&self, command: &mut Command) -> Ran {
        Ran { output: command.output().unwrap(), namespace: self.namespace.clone() }
    }

    /// Objects of one of our kinds.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let plural = kind.to_ascii_lowercase() + if kind.ends_with('y') { "" } else { "s" };
        let gvk = GroupVersionKind::gvk("kubeopencode.io", "v1alpha1", kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk_with_plural(&gvk, &plural))
    }

    pub fn tasks(&self) -> Api<Task> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes an object, and its status as a controller would.
    pub async fn create(&self, kind: &str, name: &str, spec: Value, status: Value) {
        let object =
            json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap();
        if !status.is_null() {
            self.status(kind, name, status).await;
        }
    }

    /// Writes a status as a controller would.
    pub async fn status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the only Task of the namespace exists, and returns its name.
    pub async fn only_task(&self) -> String {
        let started = Instant::now();
        loop {
            let found = self.tasks().list(&kube::api::ListParams::default()).await.unwrap().items;
            if let Some(name) = found.into_iter().next().and_then(|task| task.metadata.name) {
                return name;
            }
            assert!(started.elapsed() < LIMIT, "no Task was created");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// How a command ended.
pub struct Ran {
    pub output: Output,
    namespace: String,
}

impl Ran {
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// All of it, as a snapshot keeps it.
    pub fn text(&self) -> String {
        let code = self.code().map_or("killed".to_owned(), |code| code.to_string());
        let text = format!("exit code: {code}\n----- stdout\n{}----- stderr\n{}", self.stdout(), self.stderr());
        text.replace(&self.namespace, "[namespace]")
    }
}

/// Compares a whole command with its snapshot, without the parts that differ from run to run.
#[macro_export]
macro_rules! check {
    ($name:expr, $ran:expr) => {
        let text = $ran.text();
        insta::with_settings!({ omit_expression => true, filters => $crate::world::FILTERS.to_vec() }, {
            insta::assert_snapshot!($name, text);
        });
    };
}

/// Moments, ages at the end of a line and in a column, addresses, versions; and doctor's findings about controllers, as it
/// looks at the Tasks of all tests.
pub const FILTERS: [(&str, &str); 10] = [
    (r"(?m)^(ok  |warn|fail)  controllers: .*\n(      fix: .*\n)?", "[controllers]\n"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
    (r"(?m)  ([0-9]+[smhdy]){1,2}$", "  [age]"),
    (r"\b([0-9]+[dy]){1,2}  ", "[age]  "),
    (r"\b[0-9]+s(  +never)", "[age]$1"),
    (r"\b([0-9]+[smhdy]){1,2} ago", "[age] ago"),
    (r"https://127\.0\.0\.1:\d+", "[server]"),
    (r"/tmp/[^ :)]*/", "[directory]/"),
    (r"Kubernetes v[0-9.]+", "Kubernetes [version]"),
    (r#"(kubeopencode |client": ")[0-9]+\.[0-9]+\.[0-9]+"#, "$1[version]"),
];
