//! `kubeopencode up`, once for all cases.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context as _, bail};
use blackbox::{controller, embedded};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, api::PostParams, runtime::wait::await_condition};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::OnceCell,
    time::timeout,
};

use crate::scratch::Scratch;

/// It greets within seconds; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(2);

/// A platform that runs. It ends with this process, however that ends, and its Pods end with it.
pub struct Platform {
    kubeconfig: PathBuf,
    _process: Child,
}

impl Platform {
    /// The one of this process.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Platform> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> anyhow::Result<Self> {
        let scratch = Scratch::shared()?;
        let log = scratch.path().join("up.log");
        let mut up = Command::new(controller::binary().await?)
            .args(["up", "--in-memory", "--host-images", "--api-port=0", "--port=0", "--state-dir"])
            .arg(scratch.path().join("up"))
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        scratch.kill_at_the_end(up.id().context("it ended at once")?)?;
        let mut lines = BufReader::new(up.stdout.take().context("it prints nothing")?).lines();
        let greeting = async {
            let mut kubeconfig = None;
            while let Some(line) = lines.next_line().await? {
                if let Some((_, file)) = line.split_once("export KUBECONFIG=") {
                    kubeconfig = Some(PathBuf::from(file.trim_matches('\'')));
                }
                if line.contains("Isolation") {
                    return kubeconfig.context("it does not say where its kubeconfig is");
                }
            }
            bail!("it ended: {}", std::fs::read_to_string(&log)?)
        };
        let kubeconfig = timeout(LIMIT, greeting).await.context("kubeopencode up does not greet")??;
        Ok(Self { kubeconfig, _process: up })
    }

    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Makes a namespace in which Pods can be created at once.
    pub async fn namespace(&self) -> anyhow::Result<String> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let client = embedded::client(&self.kubeconfig).await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &name);
        let there = await_condition(accounts, "default", |account: Option<&ServiceAccount>| account.is_some());
        timeout(LIMIT, there).await.context("the namespace has no ServiceAccount")??;
        Ok(name)
    }
}
