//! Follows a Task until it finishes: its stages and its log.

use std::time::Duration;

use api::Task;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, runtime::watcher::watch_object};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::stage::stage;
use crate::commands::{
    connect::Cluster,
    exit::Exit,
    kinds::Kind,
    log::{self, LogArgs},
    missing::missing,
    output::note,
    problem::{Answer, Problem},
};

/// Timeout for the rest of the log of a finished Task, which may not be kept any more.
const REST_OF_THE_LOG: Duration = Duration::from_secs(10);

/// What to show while a Task is followed.
#[derive(Clone, Debug, Default)]
pub struct Follow {
    /// Part of the log to stream to standard output; `None` for no log.
    pub log: Option<LogArgs>,
    /// Report its stages on standard error.
    pub stages: bool,
    /// Wait for a run after this one, which has finished.
    pub after_run: Option<i64>,
}

impl Follow {
    /// Follows the Task `name` until it has ended and returns its final state.
    pub async fn to_the_end(&self, cluster: &Cluster, name: &str) -> Answer<Task> {
        let mut changes = watch_object(cluster.api::<Task>(), name).boxed();
        let (sender, mut lines) = mpsc::channel::<Vec<u8>>(256);
        let mut reader: Option<(String, JoinHandle<Answer<()>>)> = None;
        let mut reported = String::new();
        let mut seen = false;
        let ended = loop {
            let change = tokio::select! {
                biased;
                Some(line) = lines.recv() => {
                    log::write(&line)?;
                    continue;
                }
                change = changes.next() => change,
            };
            let task = match change {
                Some(Ok(Some(task))) => task,
                Some(Ok(None)) if !seen => return Err(missing(cluster, &Kind::of_type::<Task>()?, name).await),
                Some(Ok(None)) => break Err(Problem::not_found(format!("Task '{name}' was deleted meanwhile"))),
                Some(Err(error)) if !seen => return Err(error.into()),
                // The watch restarts by itself; a cluster that is temporarily unavailable is no reason to fail.
                Some(Err(_)) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
                None => break Err(Problem::new("the watch of the Task ended")),
            };
            seen = true;
            if self.is_before(&task) {
                continue;
            }
            let now = stage(&task, &cluster.namespace_flag());
            if self.stages && now != reported {
                note(&now);
                reported = now;
            }
            let pod = task.status.as_ref().and_then(|status| status.pod_name.clone());
            if let (Some(args), Some(pod)) = (&self.log, pod)
                && reader.as_ref().is_none_or(|(current, _)| *current != pod)
            {
                reader = Some((pod.clone(), read(cluster, pod, args.clone(), sender.clone())));
            }
            if Exit::of_task(&task).is_some() {
                break Ok(task);
            }
        };
        drop(sender);
        if let Some((_, reader)) = reader {
            let deadline = Instant::now() + REST_OF_THE_LOG;
            while let Ok(Some(line)) = timeout_at(deadline, lines.recv()).await {
                log::write(&line)?;
            }
            reader.abort();
            if let Ok(Err(problem)) = reader.await {
                note(&format!("no log: {problem}"));
            }
        }
        ended
    }

    /// Whether the Task has not yet started a run after `after_run`.
    fn is_before(&self, task: &Task) -> bool {
        let run = task.status.as_ref().and_then(|status| status.run_epoch).unwrap_or(0);
        self.after_run.is_some_and(|known| run <= known && Exit::of_task(task).is_some())
    }
}

fn read(cluster: &Cluster, pod: String, args: LogArgs, lines: mpsc::Sender<Vec<u8>>) -> JoinHandle<Answer<()>> {
    let pods: Api<Pod> = cluster.api();
    tokio::spawn(async move { log::pump(&pods, &pod, &args, true, &lines).await })
}

/// Fetches a Task.
pub async fn find(cluster: &Cluster, name: &str) -> Answer<Task> {
    let name = name.strip_prefix("task/").or_else(|| name.strip_prefix("tasks/")).unwrap_or(name);
    match cluster.api::<Task>().get_opt(name).await? {
        Some(task) => Ok(task),
        None => Err(missing(cluster, &Kind::of_type::<Task>()?, name).await),
    }
}
