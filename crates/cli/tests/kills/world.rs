//! The fixture: an API server that is not killed, a depot of the real binary, back ends, and the objects of runs.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use api::Task;
use blackbox::{
    embedded::{self, Embedded},
    install,
    server::Remote,
};
use domain::contract::{depot::AUDIENCE, environment};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::{Owner, Run, Store};
use tempfile::TempDir;
use testenv::{Bucket, Postgres};
use tokio::sync::Mutex;

use crate::{controller, dice::Dice, process::Kept};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kubeopencode");
/// Everything here takes a second; a machine that builds at the same time needs longer.
pub const LIMIT: Duration = Duration::from_mins(2);
pub const NAMESPACE: &str = "default";
/// Time for which a back end stays away at most, in milliseconds.
const AWAY: u64 = 400;

/// Where records and blobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackEnds {
    SqliteAndDirectory,
    PostgresAndDirectory,
    PostgresAndBucket,
}

impl BackEnds {
    pub const ALL: [Self; 3] = [Self::SqliteAndDirectory, Self::PostgresAndDirectory, Self::PostgresAndBucket];

    pub fn name(self) -> &'static str {
        match self {
            Self::SqliteAndDirectory => "sqlite",
            Self::PostgresAndDirectory => "postgres",
            Self::PostgresAndBucket => "postgres_s3",
        }
    }
}

pub struct World {
    pub dir: TempDir,
    pub records: String,
    pub blobs: String,
    pub server: Kept,
    pub controller: Kept,
    pub postgres: Option<Mutex<Postgres>>,
    pub bucket: Option<Mutex<Bucket>>,
    depot: SocketAddr,
    client: Client,
    _api: Embedded,
}

impl World {
    pub async fn start(back_ends: BackEnds) -> anyhow::Result<Self> {
        let api = Embedded::start().await?;
        let kubeconfig = api.kubeconfig_path();
        let client = embedded::client(&kubeconfig).await?;
        install::install(&Remote::new(client.clone())).await?;
        let account: ServiceAccount = read(json!({"metadata": {"name": "default"}}));
        // Other control planes make it themselves.
        let _ =
            Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &account).await;

        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("runs"))?;
        let store = dir.path().join("store");
        let (records, postgres) = match back_ends {
            BackEnds::SqliteAndDirectory => (format!("sqlite://{}/records.db", store.display()), None),
            BackEnds::PostgresAndDirectory | BackEnds::PostgresAndBucket => {
                let postgres = Postgres::start().await?;
                (postgres.database("kills")?, Some(Mutex::new(postgres)))
            }
        };
        let (blobs, bucket) = match back_ends {
            BackEnds::SqliteAndDirectory | BackEnds::PostgresAndDirectory => {
                (store.join("blobs").display().to_string(), None)
            }
            BackEnds::PostgresAndBucket => {
                let bucket = Bucket::start().await?;
                let url = format!("s3://{}/kills?endpoint={}&region=us-east-1", Bucket::NAME, bucket.endpoint());
                (url, Some(Mutex::new(bucket)))
            }
        };
        // Made before the first race for it, which is not what is tested here.
        drop(Store::open(&records, &blobs).await?);

        let depot = free_address()?;
        let server = {
            let (records, blobs) = (records.clone(), blobs.clone());
            Kept::start(&dir.path().join("server.log"), move || {
                let mut command = Command::new(PROGRAM);
                command.args(["server", "--address=127.0.0.1:0", "--anonymous", "--log-format=json"]);
                command.arg(format!("--depot-listen={depot}"));
                command.env("KUBEOPENCODE_STORE_RECORDS", &records).env("KUBEOPENCODE_STORE_BLOBS", &blobs);
                command.env("KUBECONFIG", &kubeconfig);
                command
            })
        };
        let controller = controller::start(dir.path(), &records, &blobs);
        Ok(Self { dir, records, blobs, server, controller, postgres, bucket, depot, client, _api: api })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The last lines of a log, for a failure.
    pub fn end_of(&self, log: &str) -> String {
        let text = fs::read_to_string(self.path(log)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("{log}:\n{}\n", lines[lines.len().saturating_sub(8)..].join("\n"))
    }

    /// Whether the depot takes connections.
    pub fn is_served(&self) -> bool {
        TcpStream::connect_timeout(&self.depot, LIMIT).is_ok()
    }

    /// Waits until the depot takes connections.
    pub async fn served(&self) -> anyhow::Result<()> {
        until("the depot", || self.is_served()).await
    }

    /// Kills the database, and starts it again some time later.
    pub async fn lose_postgres(&self, dice: &Dice) -> anyhow::Result<()> {
        let Some(postgres) = &self.postgres else { return Ok(()) };
        let mut postgres = postgres.lock().await;
        postgres.kill();
        away(dice).await;
        // Processes of the one that was killed may still be ending.
        let started = Instant::now();
        while let Err(error) = postgres.start_again().await {
            ensure!(started.elapsed() < LIMIT, "Postgres does not start again: {error}");
        }
        Ok(())
    }

    /// Kills the server of the bucket, and starts it again some time later.
    pub async fn lose_bucket(&self, dice: &Dice) -> anyhow::Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut bucket = bucket.lock().await;
        bucket.kill();
        away(dice).await;
        Ok(bucket.start_again().await?)
    }

    /// Makes a Task whose run goes on, and its Pod. Returns the run and the token of the Pod.
    pub async fn run(&self, name: &str, keep: &Value) -> anyhow::Result<(Run, String)> {
        let task = json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": name},
            "spec": {"description": "work", "templateRef": {"name": "t"}},
        });
        let task = self.api::<Task>().create(&PostParams::default(), &read(task)).await?;
        let uid = task.uid().unwrap_or_default();
        let pod = format!("{name}-pod");
        let owner = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": name, "uid": uid,
            "controller": true});
        let object = json!({
            "metadata": {"name": pod, "labels": {"kubeopencode.io/run-epoch": "1"}, "ownerReferences": [owner]},
            "spec": {"serviceAccountName": "default", "containers": [
                {"name": "agent", "image": "agent"},
                {"name": "housekeeper", "image": "system", "env": [{"name": environment::KEEP, "value": keep.to_string()}]},
            ]},
        });
        self.api::<Pod>().create(&PostParams::default(), &read(object)).await?;
        let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
        self.api::<Pod>().patch_status(&pod, &PatchParams::default(), &running).await?;
        self.status(name, json!({"phase": "Running", "runEpoch": 1, "podName": pod})).await?;
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
        let accounts = self.api::<ServiceAccount>();
        let issued = accounts.create_token_request("default", &PostParams::default(), &request).await?;
        let task = Owner::new(NAMESPACE, &uid).ok_or_else(|| anyhow::anyhow!("no owner"))?;
        Ok((Run { task, epoch: 1 }, issued.status.context("no token")?.token))
    }

    pub async fn status(&self, task: &str, status: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<Task>().patch_status(task, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The housekeeper of a run. `number` tells it from another one of the same run.
    pub fn housekeeper(&self, run: &Path, keep: &Value, number: usize) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("housekeeper").env(environment::KEEP, keep.to_string());
        command.env(environment::DEPOT_URL, format!("http://{}", self.depot));
        for (variable, name) in [
            (environment::DEPOT_TOKEN_FILE, "token".to_owned()),
            (environment::RESULTS_DIR, "results".to_owned()),
            (environment::COLLECT_DIR, "collect".to_owned()),
            (environment::WORKSPACE_DIR, "workspace".to_owned()),
            (environment::OUTCOME_FILE, format!("outcome-{number}")),
        ] {
            command.env(variable, run.join(name));
        }
        command
    }
}

async fn away(dice: &Dice) {
    tokio::time::sleep(Duration::from_millis(dice.within(0..AWAY))).await;
}

/// Looks until something is there.
pub async fn until(what: &str, is_there: impl Fn() -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    while !is_there() {
        ensure!(started.elapsed() < LIMIT, "{what} did not come within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Shared by the tasks of a case.
pub type Shared = Arc<World>;
