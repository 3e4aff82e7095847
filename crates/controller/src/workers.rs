//! The workers of each work queue, and how many run at once.

use std::{fmt::Debug, future::Future, hash::Hash, sync::Arc};

use domain::run::retention::LogLimits;
use observe::{Next, Queue};
use tokio::{sync::watch as signal, task::JoinSet};

use crate::{
    agent::{self, delivered, template},
    config, cron, image, logs, opt_in, registry,
    shared::Shared,
    task,
};

/// Starts the workers of every reconciler.
pub fn work_all(
    shared: &Arc<Shared>,
    concurrency: usize,
    log_limits: LogLimits,
    stop: &signal::Receiver<bool>,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let work = &shared.work;
    workers.spawn(drive(shared, &work.admissions, 8, stop, "admission", async |shared, target| {
        task::admission::pass(&shared, &target).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.tasks, concurrency, stop, "task", async |shared, key| {
        task::pass(&shared, &key)
            .await
            .map_err(|error| Failure { reason: error.reason().into(), error: error.to_string() })
    }));
    workers.spawn(drive(shared, &work.agents, 8, stop, "agent", async |shared, key| {
        Box::pin(agent::pass(&shared, &key))
            .await
            .map_err(|error| Failure { reason: error.reason().into(), error: error.to_string() })
    }));
    workers.spawn(drive(shared, &work.templates, 4, stop, "template", async |shared, key| {
        template::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.crons, 8, stop, "crontask", async |shared, key| {
        cron::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.registries, 4, stop, "registry", async |shared, key| {
        registry::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.configs, 1, stop, "config", async |shared, key| {
        config::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.cleanups, 2, stop, "cleanup", async |shared, namespace| {
        task::cleanup::pass(&shared, &namespace).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.claims, 4, stop, "claim", async |shared, key| {
        Box::pin(task::workspace::pass(&shared, &key)).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.images, 2, stop, "image", async |shared, key| {
        image::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.logs, 4, stop, "logs", async |shared, task| {
        shared.records.logs.remove(&task).await.map(|()| Next::Wait).map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.caches, 2, stop, "caches", async |shared, scope| {
        logs::sweep::remove_caches(&shared, &scope).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.opt_ins, 2, stop, "opt-in", async |shared, namespace| {
        opt_in::pass(&shared, &namespace).await.map_err(Failure::from)
    }));
    let swept = Arc::clone(shared);
    workers.spawn(async move {
        if let Err(error) = opt_in::sweep(&swept).await {
            tracing::warn!(%error, "annotations of Namespaces may be out of date until the next start");
        }
    });
    let (swept, stopped) = (Arc::clone(shared), stop.clone());
    workers.spawn(async move { logs::sweep::work(&swept, stopped).await });
    let (limited, stopped) = (Arc::clone(shared), stop.clone());
    workers.spawn(async move { logs::retention::work(&limited, log_limits, stopped).await });
    workers.spawn(drive(shared, &work.approvals, 8, stop, "approval", async |shared, key| {
        task::approval::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.sessions, 16, stop, "session", async |shared, left| {
        task::session::pass(&shared, &left).await.map_err(Failure::from)
    }));
    workers.spawn(drive(shared, &work.sweeps, 16, stop, "sweep", async |shared, key| {
        delivered::pass(&shared, &key).await.map_err(Failure::from)
    }));
    workers
}

struct Failure {
    reason: String,
    error: String,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self { reason: api::conditions::reasons::APPLY_FAILED.into(), error: error.to_string() }
    }
}

impl From<agent::server::Error> for Failure {
    fn from(error: agent::server::Error) -> Self {
        Self { reason: error.reason().into(), error: error.to_string() }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self { reason: "LogArchiveFailed".into(), error: error.to_string() }
    }
}

/// Works on one queue.
fn drive<K, F, Fut>(
    shared: &Arc<Shared>,
    queue: &Queue<K>,
    workers: usize,
    stop: &signal::Receiver<bool>,
    name: &'static str,
    pass: F,
) -> impl Future<Output = ()> + Send + 'static
where
    K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    F: Fn(Arc<Shared>, K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
{
    let (shared, queue, stop) = (Arc::clone(shared), queue.clone(), stop.clone());
    queue.work(workers, stop, move |key: K| {
        shared.telemetry.metrics.passed(name);
        let (shared, shown) = (Arc::clone(&shared), key.clone());
        let work = pass(Arc::clone(&shared), key);
        async move {
            match work.await {
                Ok(next) => next,
                Err(Failure { reason, error }) => {
                    shared.telemetry.metrics.failed(name, &reason);
                    tracing::warn!(controller = name, object = ?shown, %reason, %error, "a pass failed");
                    Next::Retry
                }
            }
        }
    })
}
