//! Ends that the cluster caused, after which a retry may well succeed.

use api::{TaskPhase, conditions::reasons, run::RetryCause};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use super::{Ending, Evidence, quote};
use crate::{
    contract::report::{RunReport, Verdict},
    run::progress::{condition, phase, status, task_ended},
};

/// The end that the cluster caused, if it did. A disruption after the agent finished does not count.
pub(super) fn find(evidence: &Evidence<'_>, report: Option<&RunReport>) -> Option<Ending> {
    let Some(pod) = evidence.pod else {
        return Some(lost("its Pod was deleted before it was seen"));
    };
    let ended = task_ended(pod);
    let done = ended.is_some_and(|state| state.exit_code == 0)
        && report.is_none_or(|report| report.outcome == Verdict::Succeeded);
    if done || phase(pod) == Some("Succeeded") {
        return None;
    }
    if let Some((reason, message)) = by_status(pod).or_else(|| by_condition(pod)) {
        let detail = quote(detail(pod));
        return Some(disrupted(reason, format!("{message}{detail}")));
    }
    if is_deleted(pod, ended) && !by_own_fault(report) {
        return Some(lost("its Pod was deleted while it ran"));
    }
    let vanished = evidence.gone && ended.is_none() && phase(pod) != Some("Failed");
    vanished.then(|| lost("its Pod does not exist any more; the node may be lost, or the Pod was deleted"))
}

/// Whether the Pod was deleted before its task ended, to the resolution of a second.
fn is_deleted(pod: &Pod, ended: Option<&ContainerStateTerminated>) -> bool {
    let Some(gone_by) = &pod.metadata.deletion_timestamp else { return false };
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
    let asked_at = gone_by.0.checked_sub(grace).unwrap_or(gone_by.0);
    ended.and_then(|state| state.finished_at.as_ref()).is_none_or(|end| end.0 >= asked_at)
}

/// A run that reports an error of its own did not fail because of a later deletion.
fn by_own_fault(report: Option<&RunReport>) -> bool {
    report.and_then(RunReport::known_reason).is_some_and(|reason| reason != reasons::SESSION_ABORTED)
}

/// The reason in the Pod's status, which the node sets.
fn by_status(pod: &Pod) -> Option<(&'static str, &'static str)> {
    match status(pod)?.reason.as_deref()? {
        "Evicted" => Some((reasons::EVICTED, "the node evicted the Pod because it ran short of resources")),
        "Preempting" | "Preempted" => {
            Some((reasons::PREEMPTED, "the node preempted the Pod for one of higher priority"))
        }
        "NodeLost" => Some((reasons::NODE_LOST, "the node stopped responding")),
        "NodeShutdown" | "Shutdown" | "Terminated" => Some((reasons::NODE_LOST, "the node was shut down")),
        "UnexpectedAdmissionError" | "NodeAffinity" | "NodePorts" | "TopologyAffinityError" => Some(REFUSED),
        reason if reason.starts_with("OutOf") => Some(REFUSED),
        _ => None,
    }
}

const REFUSED: (&str, &str) = (reasons::UNSCHEDULABLE, "the node that was chosen for the Pod refused it");

/// The condition DisruptionTarget, which the control plane sets.
fn by_condition(pod: &Pod) -> Option<(&'static str, &'static str)> {
    let condition = condition(pod, "DisruptionTarget").filter(|condition| condition.status == "True")?;
    Some(match condition.reason.as_deref() {
        Some("PreemptionByScheduler") => {
            (reasons::PREEMPTED, "the scheduler preempted the Pod for one of higher priority")
        }
        Some("DeletionByTaintManager") => (reasons::NODE_LOST, "the node got a taint that the Pod does not tolerate"),
        Some("DeletionByPodGC") => (reasons::NODE_LOST, "the node is gone"),
        _ => (reasons::EVICTED, "the Pod was evicted from its node"),
    })
}

/// The message of the cluster.
fn detail(pod: &Pod) -> Option<&str> {
    let said = condition(pod, "DisruptionTarget").and_then(|condition| condition.message.as_deref());
    status(pod)?.message.as_deref().or(said)
}

fn lost(message: &str) -> Ending {
    disrupted(reasons::POD_LOST, message.to_owned())
}

fn disrupted(reason: &'static str, message: String) -> Ending {
    Ending {
        phase: TaskPhase::Failed,
        disrupted: true,
        ..Ending::failed(reason, message, Some(RetryCause::Disruption))
    }
}
