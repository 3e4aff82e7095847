//! `logs`: the log of a Task or an Agent.

use api::{Agent, Task, conditions::reasons};
use domain::workload::names;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::sync::mpsc;

use super::follow::{Follow, find};
use crate::{
    commands::{
        connect::{Cluster, ClusterArgs},
        exit::Exit,
        log::{self, LogArgs, kept::KeptLog},
        output::note,
        problem::{Answer, Problem},
        screen::line,
        tunnel,
    },
    log_archive::LogArchiveArg,
};

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose log to show, or `agent/NAME` for the server of an Agent.
    #[arg(value_name = "TASK")]
    name: String,
    /// Follow until the Task ends; wait if it has not started.
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
    log_archive: LogArchiveArg,
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
    let explain = cluster.hint(format!("kubeopencode explain {name}"));
    let Some(wanted) = wanted(&task, args.previous, args.run, &explain)? else {
        if args.follow {
            return follow(&cluster, &name, &args).await;
        }
        return Err(Problem::new(format!("Task '{name}' has not started, so it has no log"))
            .next(format!("wait for it with --follow, or ask why: {explain}")));
    };
    let is_over = !wanted.current || Exit::of_task(&task).is_some();
    let kept = if is_over {
        KeptLog::find(&cluster, &args.log_archive, &task, wanted.run, args.log.container.as_deref()).await?
    } else {
        None
    };
    // Only the agent's log is archived. If the preparation failed, the log of that container is in the Pod.
    let unprepared = wanted.current && args.log.container.is_none() && preparation_failed(&task);
    if let Some(kept) = kept
        && ((kept.is_complete() && !unprepared) || pods.get_metadata_opt(&wanted.pod).await?.is_none())
    {
        kept.show(&args.log).await?;
        if unprepared && let Some(message) = task.status.as_ref().and_then(|status| status.message.as_deref()) {
            note(&format!("the log of the preparation is gone with its Pod: {}", line(message)));
        }
        return Ok(Exit::Success);
    }
    if args.follow && wanted.current {
        return follow(&cluster, &name, &args).await;
    }
    let is_archived = task.status.as_ref().is_some_and(|status| status.logs.is_some());
    show(&pods, &wanted.pod, &args).await.map_err(|problem| {
        problem.or_next(if is_archived {
            "read it in the page, or name the log archive with --log-archive".to_owned()
        } else {
            format!("see: {explain}")
        })
    })
}

fn preparation_failed(task: &Task) -> bool {
    let reason = task.status.as_ref().and_then(|status| status.reason.as_deref());
    reason == Some(reasons::PREPARATION_FAILED)
}

/// Follows the current run, or the first one if none has started.
async fn follow(cluster: &Cluster, name: &str, args: &Args) -> Answer<Exit> {
    let follow = Follow { log: Some(args.log.clone()), stages: true, after_run: None };
    follow.to_the_end(cluster, name).await?;
    Ok(Exit::Success)
}

async fn show(pods: &Api<Pod>, pod: &str, args: &Args) -> Answer<Exit> {
    let (sender, mut lines) = mpsc::channel(256);
    let work = Box::pin(log::pump(pods, pod, &args.log, args.follow, &sender));
    log::show(work, &mut lines).await?;
    Ok(Exit::Success)
}

/// The run whose log to show.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    run: i64,
    /// The name of its Pod, which may be deleted.
    pod: String,
    /// Whether it is the latest run.
    current: bool,
}

/// Selects the run; `None` if it has not started. `explain` is the command that explains the Task.
fn wanted(task: &Task, previous: bool, run: Option<i64>, explain: &str) -> Answer<Option<Wanted>> {
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
            0 => problem.next(format!("wait for the first with --follow, or ask why: {explain}")),
            _ => problem.next("choose a run with --run, the first being 1"),
        });
    }
    if run < current {
        return Ok(Some(Wanted { run, pod: names::task_pod(name, run), current: false }));
    }
    let pod = status.and_then(|status| status.pod_name.clone());
    Ok(pod.map(|pod| Wanted { run, pod, current: true }))
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
        let found = match wanted(&task, previous, run, "kubeopencode explain fix") {
            Ok(Some(Wanted { run, pod, current })) => format!("{run} {pod} {current}"),
            Ok(None) => "none".to_owned(),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn each_run_has_its_own_log() {
        let third = json!({"runEpoch": 3, "podName": "fix-pod-3"});
        check(&third, false, None, "3 fix-pod-3 true");
        check(&third, true, None, "2 fix-pod-2 false");
        check(&third, false, Some(1), "1 fix-pod false");
        check(&third, false, Some(3), "3 fix-pod-3 true");
        check(&third, false, Some(4), "Task 'fix' has 3 runs");
    }

    #[test]
    fn a_task_that_waits_has_no_log() {
        check(&json!({"phase": "Queued"}), false, None, "none");
        check(&json!({"phase": "Queued"}), true, None, "Task 'fix' has no run yet");
        check(&json!({"runEpoch": 1, "podName": "fix-pod"}), true, None, "Task 'fix' has one run");
    }
}
