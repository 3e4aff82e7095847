//! `logs`: what a Task or an Agent writes.

use api::{Agent, Task};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kubeopencode_core::names;
use tokio::sync::mpsc;

use super::follow::{Follow, find};
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    log::{self, LogArgs},
    problem::{Answer, Problem},
    tunnel,
};

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose log to show, or `agent/NAME` for the server of an Agent.
    #[arg(value_name = "TASK")]
    name: String,
    /// Go on until the Task has ended; wait for it if it has not started.
    #[arg(short, long)]
    follow: bool,
    /// The run before the current one.
    #[arg(short, long, conflicts_with = "run")]
    previous: bool,
    /// This run, the first being 1.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    run: Option<i64>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Shows a log.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let pods: Api<Pod> = cluster.api();
    if let Some(agent) = args.name.strip_prefix("agent/").or_else(|| args.name.strip_prefix("agents/")) {
        let agent: Agent = tunnel::find(&cluster, agent).await?;
        let pod = tunnel::pod(&cluster, &agent).await?;
        return show(&pods, &pod, &args).await;
    }
    let task = find(&cluster, &args.name).await?;
    let name = task.metadata.name.clone().unwrap_or_default();
    match wanted(&task, args.previous, args.run)? {
        Wanted::Current(_) | Wanted::None if args.follow => {
            let follow = Follow { log: Some(args.log.clone()), stages: true, after_run: None };
            follow.to_the_end(&cluster, &name).await?;
            Ok(Exit::Success)
        }
        Wanted::Current(pod) | Wanted::Earlier(pod) => show(&pods, &pod, &args)
            .await
            .map_err(|problem| problem.or_next(format!("see what is known: kubeopencode explain {name}"))),
        Wanted::None => Err(Problem::new(format!("Task '{name}' has not started, so it has no log"))
            .next(format!("wait for it with --follow, or ask why: kubeopencode explain {name}"))),
    }
}

async fn show(pods: &Api<Pod>, pod: &str, args: &Args) -> Answer<Exit> {
    let (sender, mut lines) = mpsc::channel(256);
    let work = Box::pin(log::pump(pods, pod, &args.log, args.follow, &sender));
    log::show(work, &mut lines).await?;
    Ok(Exit::Success)
}

/// Which Pod has the log.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// The Pod of the current run.
    Current(String),
    /// The Pod of an earlier run.
    Earlier(String),
    /// There is none yet.
    None,
}

fn wanted(task: &Task, previous: bool, run: Option<i64>) -> Answer<Wanted> {
    let status = task.status.as_ref();
    let current = status.and_then(|status| status.run_epoch).unwrap_or(0);
    let name = task.metadata.name.as_deref().unwrap_or_default();
    let run = match (run, previous) {
        (Some(run), _) => run,
        (None, true) => current - 1,
        (None, false) => current,
    };
    if run > current || (run < 1 && previous) {
        let runs = match current {
            0 => "no run yet".to_owned(),
            1 => "one run".to_owned(),
            many => format!("{many} runs"),
        };
        let problem = Problem::not_found(format!("Task '{name}' has {runs}"));
        return Err(match current {
            0 => problem.next(format!("wait for the first with --follow, or ask why: kubeopencode explain {name}")),
            _ => problem.next("choose a run with --run, the first being 1"),
        });
    }
    if run < current {
        return Ok(Wanted::Earlier(names::task_pod(name, run)));
    }
    Ok(status.and_then(|status| status.pod_name.clone()).map_or(Wanted::None, Wanted::Current))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(status: &Value, previous: bool, run: Option<i64>, expected: &str) {
        let task: Task = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "fix"},
            "spec": {"agentRef": {"name": "dev"}}, "status": status,
        }))
        .unwrap();
        let found = match wanted(&task, previous, run) {
            Ok(wanted) => format!("{wanted:?}"),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn each_run_has_its_own_log() {
        let third = json!({"runEpoch": 3, "podName": "fix-pod-3"});
        check(&third, false, None, r#"Current("fix-pod-3")"#);
        check(&third, true, None, r#"Earlier("fix-pod-2")"#);
        check(&third, false, Some(1), r#"Earlier("fix-pod")"#);
        check(&third, false, Some(3), r#"Current("fix-pod-3")"#);
        check(&third, false, Some(4), "Task 'fix' has 3 runs");
    }

    #[test]
    fn a_task_that_waits_has_no_log() {
        check(&json!({"phase": "Queued"}), false, None, "None");
        check(&json!({"phase": "Queued"}), true, None, "Task 'fix' has no run yet");
        check(&json!({"runEpoch": 1, "podName": "fix-pod"}), true, None, "Task 'fix' has one run");
    }
}
