//! Who works on which queue, and how many at once.

use std::{fmt::Debug, future::Future, hash::Hash, sync::Arc};

use observe::{Next, Queue};
use tokio::{sync::watch as signal, task::JoinSet};

use crate::{
    agent::{self, delivered},
    config,
    context::Context,
    cron, logs, registry, task, template,
};

/// Starts the workers of every reconciler.
pub fn work_all(ctx: &Arc<Context>, concurrency: usize, stop: &signal::Receiver<bool>) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let work = &ctx.work;
    workers.spawn(drive(ctx, &work.admissions, 8, stop, "admission", async |ctx, target| {
        task::admission::pass(&ctx, &target).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.tasks, concurrency, stop, "task", async |ctx, key| {
        task::pass(&ctx, &key)
            .await
            .map_err(|error| Failure { reason: error.reason().into(), error: error.to_string() })
    }));
    workers.spawn(drive(ctx, &work.agents, 8, stop, "agent", async |ctx, key| {
        Box::pin(agent::pass(&ctx, &key))
            .await
            .map_err(|error| Failure { reason: error.reason().into(), error: error.to_string() })
    }));
    workers.spawn(drive(ctx, &work.templates, 4, stop, "template", async |ctx, key| {
        template::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.crons, 8, stop, "crontask", async |ctx, key| {
        cron::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.registries, 4, stop, "registry", async |ctx, key| {
        registry::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.configs, 1, stop, "config", async |ctx, key| {
        config::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.cleanups, 2, stop, "cleanup", async |ctx, namespace| {
        task::cleanup::pass(&ctx, &namespace).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.logs, 4, stop, "logs", async |ctx, task| {
        ctx.logs.remove(&task).await.map(|()| Next::Wait).map_err(Failure::from)
    }));
    let swept = Arc::clone(ctx);
    workers.spawn(async move {
        if let Err(error) = logs::sweep(&swept).await {
            tracing::warn!(%error, "logs of Tasks that are gone stay until the next start");
        }
    });
    workers.spawn(drive(ctx, &work.approvals, 8, stop, "approval", async |ctx, key| {
        task::approval::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.sessions, 16, stop, "session", async |ctx, left| {
        task::session::pass(&ctx, &left).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.sweeps, 16, stop, "sweep", async |ctx, key| {
        delivered::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers
}

/// A pass that failed.
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
    ctx: &Arc<Context>,
    queue: &Queue<K>,
    workers: usize,
    stop: &signal::Receiver<bool>,
    name: &'static str,
    pass: F,
) -> impl Future<Output = ()> + Send + 'static
where
    K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    F: Fn(Arc<Context>, K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
{
    let (ctx, queue, stop) = (Arc::clone(ctx), queue.clone(), stop.clone());
    queue.work(workers, stop, move |key: K| {
        ctx.metrics.passed(name);
        let (ctx, shown) = (Arc::clone(&ctx), key.clone());
        let work = pass(Arc::clone(&ctx), key);
        async move {
            match work.await {
                Ok(next) => next,
                Err(Failure { reason, error }) => {
                    ctx.metrics.failed(name, &reason);
                    tracing::warn!(controller = name, object = ?shown, %reason, %error, "a pass failed");
                    Next::Retry
                }
            }
        }
    })
}
