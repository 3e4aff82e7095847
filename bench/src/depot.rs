//! A depot of the release binary with a store in a directory, and runs that may use it.

use std::{net::TcpStream, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use api::Task;
use domain::contract::{depot::AUDIENCE, environment};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use store::{Archive as _, Owner, Run, Store};
use tempfile::TempDir;
use testenv::{Cluster, Options};

use crate::{
    program::{Program, free_port},
    world,
};

/// A cluster, a depot process and its store. They end with this value.
pub struct Depot {
    pub server: Program,
    pub store: Store,
    pub dir: TempDir,
    pub url: String,
    client: Client,
    namespace: String,
    _cluster: Cluster,
}

/// A run that goes on, as the containers of its Pod know it.
pub struct DepotRun {
    run: Run,
    pub token: String,
}

impl Depot {
    pub async fn start() -> anyhow::Result<Self> {
        let cluster = world::start_with(Options::api_only()).await?;
        let (client, namespace) = (cluster.client().await?, cluster.namespace().await?);
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        if accounts.get_opt("default").await?.is_none() {
            let account = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
            accounts.create(&PostParams::default(), &account).await?;
        }
        let dir = tempfile::tempdir()?;
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (records, blobs) = (path("store/records.db"), path("store/blobs"));
        let store = Store::open(&records, &blobs).await?;
        let port = free_port()?;
        let arguments = [
            "server",
            "--address=127.0.0.1:0",
            "--anonymous",
            "--log=warn",
            &format!("--depot-listen=127.0.0.1:{port}"),
        ];
        let place = [("KUBEOPENCODE_STORE_RECORDS", records), ("KUBEOPENCODE_STORE_BLOBS", blobs)];
        let server = Program::start_with(&arguments, Some(cluster.kubeconfig_path()), &place)?;
        for _ in 0..300 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                let url = format!("http://127.0.0.1:{port}");
                return Ok(Self { server, store, dir, url, client, namespace, _cluster: cluster });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("the depot was not ready within 30 s")
    }

    /// A run of a Task of this name.
    pub async fn run(&self, name: &str, keep: &Value, fetch: &Value) -> anyhow::Result<DepotRun> {
        let tasks: Api<Task> = Api::namespaced(self.client.clone(), &self.namespace);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams::default();
        let task =
            tasks.create(&PostParams::default(), &world::task(name, world::on_template(world::TEMPLATE))).await?;
        let (uid, pod) = (task.uid().context("no UID")?, format!("{name}-pod"));
        let owner = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": name, "uid": uid,
            "controller": true});
        let variable = |name: &str, value: &Value| json!([{"name": name, "value": value.to_string()}]);
        let object = json!({
            "metadata": {"name": pod, "labels": {"kubeopencode.io/run-epoch": "1"}, "ownerReferences": [owner]},
            "spec": {
                "serviceAccountName": "default",
                "initContainers": [{"name": "prep", "image": "system", "env": variable(environment::FETCH, fetch)}],
                "containers": [
                    {"name": "agent", "image": "agent"},
                    {"name": "housekeeper", "image": "system", "env": variable(environment::KEEP, keep)},
                ],
            },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        pods.patch_status(&pod, &params, &Patch::Merge(json!({"status": {"phase": "Running"}}))).await?;
        let status = json!({"status": {"phase": "Running", "runEpoch": 1, "podName": pod}});
        tasks.patch_status(name, &params, &Patch::Merge(status)).await?;
        let bound = BoundObjectReference {
            kind: Some("Pod".into()),
            api_version: Some("v1".into()),
            name: Some(pod),
            uid: None,
        };
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![AUDIENCE.to_owned()],
                bound_object_ref: Some(bound),
                expiration_seconds: Some(3600),
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let issued = accounts.create_token_request("default", &PostParams::default(), &request).await?;
        let task = Owner::new(&self.namespace, &uid).context("no owner")?;
        Ok(DepotRun { run: Run { task, epoch: 1 }, token: issued.status.context("no token")?.token })
    }

    /// Ends a run well.
    pub async fn end(&self, run: &DepotRun) -> anyhow::Result<()> {
        self.store.record(&run.run, json!({"phase": "Completed"}).to_string().into_bytes()).await?;
        Ok(())
    }

    /// Starts a helper of the Pod of a run. Its other directories are in `dir`.
    pub fn helper(&self, which: &str, run: &DepotRun, dir: &Path, declared: &Value) -> anyhow::Result<Program> {
        for name in ["results", "collect"] {
            std::fs::create_dir_all(dir.join(name))?;
        }
        std::fs::write(dir.join("token"), &run.token)?;
        std::fs::write(dir.join("results/lock"), "")?;
        std::fs::write(dir.join("results/report.json"), r#"{"outcome":"Succeeded","reason":"Succeeded"}"#)?;
        let path = |name: &str| dir.join(name).display().to_string();
        let variable = if which == "prep" { environment::FETCH } else { environment::KEEP };
        let variables = [
            (variable, declared.to_string()),
            (environment::DEPOT_URL, self.url.clone()),
            (environment::DEPOT_TOKEN_FILE, path("token")),
            (environment::RESULTS_DIR, path("results")),
            (environment::COLLECT_DIR, path("collect")),
            (environment::WORKSPACE_DIR, path("workspace")),
            (environment::OUTCOME_FILE, path("outcome")),
        ];
        ensure!(dir.join("workspace").is_dir(), "no workspace");
        Program::start_with(&[which], None, &variables)
    }
}
