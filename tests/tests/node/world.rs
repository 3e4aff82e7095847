//! The fixture of a case: a namespace of a real cluster with a real node, the controller, and a scripted model.

use std::{fmt::Debug, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, bail, ensure};
use api::{Agent, Task, TaskPhase, TaskStatus};
use blackbox::{
    controller::{Controller, Options},
    install,
    rest_server::{RestServer, Storage},
    server::Remote,
};
use demo::scripted_model::ScriptedModel;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use testenv::{Cluster, Postgres};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};

/// A Task takes ten seconds on an idle machine; four of them at once beside a build need longer.
pub const LIMIT: Duration = Duration::from_mins(3);
/// Any tag but `latest`, which nodes pull before every start.
const TAG: &str = "test";

/// Shared by all cases.
pub struct Shared {
    pub cluster: Cluster,
    pub controller: Controller,
    pub model: ScriptedModel,
    pub server: RestServer,
    _records: Postgres,
    _blobs: TempDir,
}

async fn shared() -> anyhow::Result<&'static Shared> {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    SHARED
        .get_or_try_init(|| async {
            let cluster = testenv::start(testenv::Options::with_node()).await?;
            for name in [
                "kubeopencode",
                "kubeopencode-agent-opencode",
                "kubeopencode-agent-devbox",
                "kubeopencode-agent-attach",
            ] {
                cluster.load_image(&images()?.join(format!("{name}_{TAG}.tar"))).await?;
            }
            let client = cluster.client().await?;
            install::install(&Remote::new(client.clone())).await?;
            configure(client).await?;
            let model = ScriptedModel::start_at(testenv::HOST_ADDRESS).await?;
            // What is in the images; a build of another one could take longer than a case may.
            let program = built()?.join("static/kubeopencode");
            let (records, blobs) = (Postgres::start().await?, tempfile::tempdir()?);
            let storage = Storage { records: records.database("node")?, blobs: blobs.path().to_owned(), depot: None };
            let server = RestServer::start(&cluster, testenv::HOST_ADDRESS, &storage, Some(&program)).await?;
            let storage = Storage { depot: Some(format!("http://{}", server.depot)), ..storage };
            let options = Options { program: Some(program), variables: storage.environment(), ..Options::default() };
            let controller = Controller::start(&cluster, options).await?;
            anyhow::Ok(Shared { cluster, controller, model, server, _records: records, _blobs: blobs })
        })
        .await
}

/// cargo's target directory: target/debug/deps/node-0123 -> target
fn built() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    Ok(test.ancestors().nth(3).context("the test has no directory")?.to_owned())
}

fn images() -> anyhow::Result<PathBuf> {
    Ok(built()?.join("images"))
}

/// Writes the images. Blocks; a first time takes minutes, which no case should wait for.
pub fn write_images() -> anyhow::Result<()> {
    let output = testenv::cargo()
        .args(["run", "--quiet", "--package", "xtask", "--", "images", "--tag", TAG, "--out"])
        .arg(images()?)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cargo cannot be run")?;
    ensure!(output.status.success(), "xtask images: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Our images are the ones that were loaded.
async fn configure(client: Client) -> anyhow::Result<()> {
    let image = |name: &str| format!("quay.io/kubeopencode/{name}:{TAG}");
    let config = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "KubeOpenCodeConfig", "metadata": {"name": "cluster"},
        "spec": {
            "systemImage": {"image": image("kubeopencode")},
            "defaults": {
                "agentImage": image("kubeopencode-agent-opencode"),
                "executorImage": image("kubeopencode-agent-devbox"),
                "attachImage": image("kubeopencode-agent-attach"),
            },
        },
    });
    let configs: Api<api::KubeOpenCodeConfig> = Api::all(client);
    configs.patch("cluster", &PatchParams::apply("blackbox").force(), &Patch::Apply(config)).await?;
    Ok(())
}

/// A namespace, and how to work in it.
pub struct World {
    pub shared: &'static Shared,
    pub namespace: String,
    client: Client,
}

/// Runs a case in a namespace of its own; if it fails, adds the controller's log.
pub async fn with_world(case: impl AsyncFnOnce(&World) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let shared = shared().await?;
    let client = shared.cluster.client().await?;
    let namespace = shared.cluster.namespace().await?;
    let restricted = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(&namespace, &PatchParams::default(), &Patch::Merge(restricted)).await?;
    let world = World { shared, namespace, client };
    let outcome = case(&world).await;
    outcome.map_err(|error| {
        let events = world.kubectl(&["get", "pods,events"]).unwrap_or_else(|error| error.to_string());
        let log = world.shared.controller.log(&world.namespace);
        anyhow::anyhow!("{error:#}\n{events}\nlog of the controller about {}:\n{log}", world.namespace)
    })
}

impl World {
    /// The objects of a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object.
    pub async fn create<K>(&self, name: &str, mut object: Value) -> anyhow::Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        object["metadata"] = json!({ "name": name });
        let object: K = serde_json::from_value(object)?;
        self.api().create(&PostParams::default(), &object).await.with_context(|| format!("creating {name}"))
    }

    /// Creates a template whose model is the scripted one.
    pub async fn template(&self, name: &str, mut spec: Value) -> anyhow::Result<()> {
        spec["config"] = self.shared.model.opencode_config();
        self.create::<api::AgentTemplate>(name, json!({ "spec": spec })).await.map(drop)
    }

    /// Creates an Agent whose model is the scripted one, and waits until its server is ready.
    pub async fn ready_agent(&self, name: &str, mut spec: Value) -> anyhow::Result<()> {
        spec["config"] = self.shared.model.opencode_config();
        self.create::<Agent>(name, json!({ "spec": spec })).await?;
        let ready = |agent: &Agent| agent.status.as_ref().and_then(|status| status.ready) == Some(true);
        self.until::<Agent>(name, "ready", ready).await.map(drop)
    }

    pub async fn task(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        self.create::<Task>(name, json!({ "spec": spec })).await.map(drop)
    }

    /// Asks for the end of a Task.
    pub async fn stop(&self, task: &str) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"annotations": {"kubeopencode.io/stop": "true"}}});
        self.api::<Task>().patch(task, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits for an object to be as wanted.
    pub async fn until<K>(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> anyhow::Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let started = Instant::now();
        loop {
            let found = self.api::<K>().get_opt(name).await?;
            match found.filter(&wanted) {
                Some(object) => return Ok(object),
                None if started.elapsed() < LIMIT => sleep(Duration::from_millis(200)).await,
                None => bail!("{name} is not {what} after {LIMIT:?}: {:?}", self.api::<K>().get_opt(name).await?),
            }
        }
    }

    /// Waits for the end of a Task.
    pub async fn ended(&self, task: &str) -> anyhow::Result<TaskStatus> {
        let over =
            |task: &Task| task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_finished);
        Ok(self.until::<Task>(task, "over", over).await?.status.unwrap_or_default())
    }

    /// Waits for the end of a Task, which must be this one.
    pub async fn ends(&self, task: &str, phase: TaskPhase, why: &str) -> anyhow::Result<TaskStatus> {
        let status = self.ended(task).await?;
        let as_wanted = status.phase == Some(phase) && status.reason.as_deref() == Some(why);
        ensure!(as_wanted, "{task}: not {phase:?} {why} but {status:?}\n{}", self.logs(task));
        Ok(status)
    }

    pub async fn succeeds(&self, task: &str) -> anyhow::Result<TaskStatus> {
        self.ends(task, TaskPhase::Completed, "Succeeded").await
    }

    /// Whether the model received this text, from a tool or from a context.
    pub fn model_received(&self, text: &str) -> bool {
        self.shared.model.requests().iter().any(|request| request.to_string().contains(text))
    }

    /// Waits until the model received this text.
    pub async fn until_model_received(&self, text: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.model_received(text) {
            ensure!(started.elapsed() < LIMIT, "the model never received {text:?}");
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The output of `kubectl logs` for a Task.
    pub fn logs(&self, task: &str) -> String {
        self.kubectl(&["logs", &format!("{task}-pod")]).unwrap_or_else(|error| format!("no log: {error:#}"))
    }

    /// The output of a command of ours that asks the server.
    pub fn command(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(built()?.join("static/kubeopencode"));
        command.args(args).args(["--namespace", &self.namespace]);
        command.env("KUBECONFIG", self.shared.cluster.kubeconfig_path());
        command.env("KUBEOPENCODE_SERVER", format!("http://{}", self.shared.server.address));
        let output = command.env("KUBEOPENCODE_TOKEN", self.token()?).output()?;
        ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A token of somebody who may do everything in this namespace.
    fn token(&self) -> anyhow::Result<String> {
        let rights = ["--clusterrole=cluster-admin", &format!("--serviceaccount={}:default", self.namespace)];
        let binding = [&["create", "rolebinding", "owner"], &rights[..]].concat();
        // It exists after the first command.
        let _ = self.kubectl(&binding);
        Ok(self.kubectl(&["create", "token", "default"])?.trim().to_owned())
    }

    pub fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = [&["--namespace", &self.namespace], args].concat();
        let output = self.shared.cluster.kubectl_command(args).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
