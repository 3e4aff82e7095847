//! # The controllers
//!
//! A thin shell: [`observe`] keeps caches of the cluster and work queues; each reconciler fetches, asks `domain`,
//! applies and reports. It decides nothing itself. `watches` queues the objects to reconcile when an object changes,
//! `workers` runs the reconcilers.
//!
//! | module | what it ensures |
//! |---|---|
//! | [`task`] | admitted Tasks have one Pod, ended ones a final status |
//! | [`agent`] | an Agent has its Deployment, Service, claims, contexts and password |
//! | [`agent::template`] | the status of an AgentTemplate reports whether it is valid and how many Agents use it |
//! | [`cron`] | Tasks are created on a schedule |
//! | [`registry`] | the status of a Registry reports which of its assets exist |
//! | [`config`] | the settings of KubeOpenCodeConfig are in use |
//! | [`opt_in`] | a Namespace lists its Secrets that Tasks may use |
//! | [`lookup`] | digests, commits and versions are looked up outside the cluster |
//! | [`logs`] | logs of Tasks outlive their Pods, and are deleted with the Tasks |
//!
//! Invariants: I1 and I2 (name and owner of a Pod, claim on the version seen), I3 (one decision per target at a time),
//! I5 (one final write), I6 (no write without a difference), I9 (an unreadable object affects only itself).

pub mod agent;
pub mod config;
pub mod cron;
pub mod http;
pub mod image;
pub mod leadership;
pub mod logs;
pub mod lookup;
pub mod opt_in;
pub mod registry;
pub mod shared;
pub mod task;
mod watches;
mod workers;

use std::{future::Future, io, sync::Arc, time::Duration};

use domain::{platform::Platform, task_secrets::Checked};
use kube::Client;
use observe::{Key, Readable};
use tokio::{sync::watch as signal, task::JoinSet};
use tower::Layer as _;

use domain::run::retention::LogLimits;
use leadership::{
    fence::{Fence, FenceLayer},
    lease,
};
use lookup::Lookup;
use shared::{Shared, Telemetry, background, events::Events, metrics::Metrics, traces::Traces};
use store::Archive;
use task::secrets::TaskSecrets;

/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Options of [`run`].
#[derive(Clone)]
pub struct Options {
    /// Addresses for metrics and health; `None` in a process that has a server of its own.
    pub listen: Option<http::Addresses>,
    /// Namespace of the leader lease; without one, this process assumes that it is alone.
    pub lease_namespace: Option<String>,
    /// Tasks that are reconciled concurrently.
    pub concurrency: usize,
    pub environment: Environment,
    /// Where logs are archived; without an archive they are lost with their Pods.
    pub log_archive: Option<Arc<dyn Archive>>,
    /// Which archived logs are removed.
    pub log_limits: LogLimits,
    /// Who checks that Tasks name only Secrets that they may use.
    pub task_secrets: Checked,
}

/// Why the controllers ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be bound.
    #[error("{0}")]
    Listen(#[from] io::Error),
    /// A setting of the operator is invalid.
    #[error(transparent)]
    Setting(#[from] lookup::BadSetting),
    #[error("another process leads now; this one ends, so that it can start afresh")]
    LeaseLost,
}

/// How long running passes have to finish on shutdown.
const GRACE: Duration = Duration::from_secs(20);

/// Runs the controllers until `stop` is ready, or until the lease is lost.
///
/// The client may talk to a cluster or to an API server in the same process.
pub async fn run(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::default());
    let fence = if options.lease_namespace.is_some() { Fence::closed() } else { Fence::default() };
    let layer = FenceLayer { fence: fence.clone(), metrics: Arc::clone(&metrics) };
    let namespace = client.default_namespace().to_owned();
    let readable = Readable(client);
    let unfenced = Client::new(readable.clone(), namespace.clone());
    let client = Client::new(layer.layer(readable), namespace);
    let identity = identity(&options.environment);
    let (events, events_left) = Events::start(client.clone(), fence.clone(), identity.clone());
    let (traces, traces_left) = Traces::start();
    // The first call sets the provider of the process; kube sets the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let environment = options.environment.clone();
    let archive = options.log_archive;
    let addressing = Platform::from(None, &*environment).addressing;
    let lookup = Lookup::new(lookup::policy(&environment, addressing)?);
    let secrets = TaskSecrets::new(options.task_secrets);
    let telemetry = Telemetry { events, metrics: Arc::clone(&metrics), traces };
    let shared = Shared::new(client, telemetry, environment, archive, lookup, secrets);
    let shared = Arc::new(shared);

    let (ready, is_ready) = signal::channel(false);
    if let Some(addresses) = options.listen {
        http::serve(addresses, Arc::clone(&metrics), is_ready).await?;
    }

    let mut followed = JoinSet::new();
    watches::follow_all(&shared, &unfenced, &mut followed);
    let mut dependencies = watches::follow_dependencies(&shared, &unfenced, &mut followed);
    tokio::pin!(stop);
    tokio::select! {
        () = async {
            watches::all_complete(&shared).await;
            for complete in &mut dependencies {
                // The watch owns the sender.
                let _ = complete.wait_for(|complete| *complete).await;
            }
        } => {}
        () = &mut stop => return Ok(()),
    }
    for pod in shared.cache.pods.all(task::still_runs) {
        shared.hold_slot(&pod);
    }
    ready.send_replace(true);

    let (ending, is_ending) = signal::channel(false);
    let (led, mut is_led) = signal::channel(options.lease_namespace.is_none());
    let (finished, mut is_finished) = signal::channel(false);
    let lease = async {
        let Some(namespace) = &options.lease_namespace else { return std::future::pending().await };
        lease::lead(unfenced, namespace, &identity, &fence, &led, background::ended(&mut is_finished)).await;
    };
    tokio::pin!(lease);
    tokio::select! {
        _ = is_led.wait_for(|led| *led) => {}
        () = &mut lease => return Err(Error::LeaseLost),
        () = &mut stop => return Ok(()),
    }
    metrics.leading.set(1);
    tracing::info!(tasks = shared.cache.tasks.len(), agents = shared.cache.agents.len(), "working");
    for agent in shared.cache.agents.all(|_| true) {
        // Tasks may have been deleted before the watch started.
        shared.work.sweeps.add(Key::of(&*agent));
    }
    let mut workers = workers::work_all(&shared, options.concurrency, options.log_limits, &is_ending);
    let asked_to_end = tokio::select! {
        () = &mut stop => true,
        () = &mut lease => false,
    };
    tracing::info!("ending");
    ending.send_replace(true);
    let finish = async {
        let passes = async { while workers.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, passes).await.is_err() {
            tracing::warn!("some passes did not end in time");
        }
        tokio::join!(events_left.drain(), traces_left.drain());
    };
    tokio::pin!(finish);
    // The lease is held until the last event is written.
    let led_to_the_end = asked_to_end
        && tokio::select! {
            () = &mut finish => true,
            () = &mut lease => false,
        };
    if !led_to_the_end {
        finish.await;
        return Err(Error::LeaseLost);
    }
    finished.send_replace(true);
    if options.lease_namespace.is_some() {
        lease.await;
    }
    Ok(())
}

/// Identity of this process: the Pod's name, or host name and process id.
fn identity(environment: &Environment) -> String {
    environment("POD_NAME")
        .or_else(|| environment("HOSTNAME").map(|host| format!("{host}-{}", std::process::id())))
        .unwrap_or_else(|| format!("kubeopencode-{}", std::process::id()))
}
