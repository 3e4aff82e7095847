//! Progress of the Pod of a run, read from its status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};

/// Name of the container in which the task runs.
pub const TASK_CONTAINER: &str = "agent";

/// Name of the container whose log is the records of the session.
pub const SESSION_CONTAINER: &str = "session";

/// Name of the init container that fetches inputs and caches.
pub const PREP_CONTAINER: &str = "prep";

/// Name of the container that keeps what the run leaves.
pub const HOUSEKEEPER_CONTAINER: &str = "housekeeper";

/// Whether the Pod has a container for records. Pods that an earlier version created have none. Read from the status
/// too: cached Pods have no container specs.
pub fn has_session(pod: &Pod) -> bool {
    let specified = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    specified
        .map(|container| &container.name)
        .chain(init_statuses(pod).map(|status| &status.name))
        .any(|name| name == SESSION_CONTAINER)
}

/// Whether the container for records runs. It ends after the task container.
pub fn session_runs(pod: &Pod) -> bool {
    let session = init_statuses(pod).find(|status| status.name == SESSION_CONTAINER);
    session.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

/// Times of the stages of a Pod; the fields of `Task.status.timings` and `startTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The Pod was created.
    pub created_at: Option<Timestamp>,
    /// The Pod was bound to a node.
    pub scheduled_at: Option<Timestamp>,
    /// All init containers ended.
    pub prepared_at: Option<Timestamp>,
    /// The task container started.
    pub started_at: Option<Timestamp>,
    /// The task container ended.
    pub ended_at: Option<Timestamp>,
    /// The housekeeper ended.
    pub collected_at: Option<Timestamp>,
}

impl Progress {
    /// The progress of `pod`.
    pub fn of(pod: &Pod) -> Self {
        let reached = |kind: &str| {
            let condition = condition(pod, kind).filter(|condition| condition.status == "True");
            condition.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0)
        };
        let ended = task_ended(pod);
        let running =
            task_container(pod).and_then(|status| status.state.as_ref()).and_then(|state| state.running.as_ref());
        let started = running.and_then(|state| state.started_at.as_ref());
        let started = started.or_else(|| ended.and_then(|state| state.started_at.as_ref()));
        Self {
            created_at: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            scheduled_at: reached("PodScheduled"),
            prepared_at: reached("Initialized"),
            started_at: started.map(|time| time.0),
            ended_at: ended.and_then(|state| state.finished_at.as_ref()).map(|time| time.0),
            collected_at: housekeeper_ended(pod).and_then(|state| state.finished_at.as_ref()).map(|time| time.0),
        }
    }
}

/// The status of the task container.
pub(crate) fn task_container(pod: &Pod) -> Option<&ContainerStatus> {
    status(pod)?.container_statuses.iter().flatten().find(|status| status.name == TASK_CONTAINER)
}

/// How the task container ended, if it did.
pub(crate) fn task_ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    task_container(pod)?.state.as_ref()?.terminated.as_ref()
}

/// Whether the task container ran. One that the runtime could not start never did.
pub fn task_started(pod: &Pod) -> bool {
    let unstarted = |state: &ContainerStateTerminated| {
        matches!(state.reason.as_deref(), Some("StartError" | "ContainerCannotRun" | "ContainerStatusUnknown"))
    };
    task_ended(pod).is_none_or(|state| !unstarted(state))
}

/// Whether the Pod has a housekeeper, as far as its node reported containers. A cached Pod has none in its spec.
pub fn may_have_housekeeper(pod: &Pod) -> bool {
    let reported = status(pod).and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    reported.is_empty() || reported.iter().any(|container| container.name == HOUSEKEEPER_CONTAINER)
}

/// How the housekeeper ended, if it did.
pub(crate) fn housekeeper_ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let mut all = status(pod)?.container_statuses.iter().flatten();
    all.find(|status| status.name == HOUSEKEEPER_CONTAINER)?.state.as_ref()?.terminated.as_ref()
}

/// Statuses of the containers that prepare the Pod, in the order in which they run. The container for records is not
/// among them: it ends after the task, and its exit code does not matter.
pub(crate) fn preparing(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    init_statuses(pod).filter(|status| status.name != SESSION_CONTAINER)
}

fn init_statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    status(pod).into_iter().flat_map(|status| status.init_container_statuses.iter().flatten())
}

/// The container that failed to prepare the Pod.
pub fn failed_preparation(pod: &Pod) -> Option<&ContainerStatus> {
    let failed = |state: &ContainerState| state.terminated.as_ref().is_some_and(|ended| ended.exit_code != 0);
    preparing(pod).find(|status| status.state.as_ref().is_some_and(failed))
}

/// The condition of a type.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    status(pod)?.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// The phase: Pending, Running, Succeeded, Failed or Unknown.
pub(crate) fn phase(pod: &Pod) -> Option<&str> {
    status(pod)?.phase.as_deref()
}

/// The status, if there is one.
pub(crate) fn status(pod: &Pod) -> Option<&PodStatus> {
    pod.status.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_for_records_is_found_in_the_spec_and_in_the_status() {
        let pod = |pod: serde_json::Value| -> Pod { serde_json::from_value(pod).unwrap() };
        let specified = serde_json::json!({"initContainers": [{"name": "session"}], "containers": []});
        assert!(has_session(&pod(serde_json::json!({"metadata": {}, "spec": specified}))));
        let status = |state: &str| {
            let session = serde_json::json!({"name": "session", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": {state: {"exitCode": 0}}});
            pod(serde_json::json!({"metadata": {}, "status": {"initContainerStatuses": [session]}}))
        };
        assert!(has_session(&status("running")) && session_runs(&status("running")));
        assert!(has_session(&status("terminated")) && !session_runs(&status("terminated")));
        assert!(!has_session(&pod(serde_json::json!({"metadata": {}}))));
    }

    #[test]
    fn the_container_that_failed_to_prepare_is_found() {
        let pod = |code: i32| -> Pod {
            let state = |name: &str, code: i32| {
                serde_json::json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code}}})
            };
            let statuses = [state("session", 137), state("context-init", 0), state("git-init-0", code)];
            serde_json::from_value(serde_json::json!({"status": {"initContainerStatuses": statuses}})).unwrap()
        };
        let failed = |pod: &Pod| failed_preparation(pod).map(|status| status.name.clone());
        assert_eq!(failed(&pod(3)).as_deref(), Some("git-init-0"));
        assert_eq!((failed(&pod(0)), failed(&Pod::default())), (None, None));
    }

    #[test]
    fn a_pod_has_no_housekeeper_once_its_node_reports_others_only() {
        let check = |names: &[&str], expected: bool| {
            let statuses: Vec<serde_json::Value> = names
                .iter()
                .map(|name| serde_json::json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0}))
                .collect();
            let pod: Pod = serde_json::from_value(serde_json::json!({
                "metadata": {}, "spec": {"containers": []}, "status": {"containerStatuses": statuses},
            }))
            .unwrap();
            assert_eq!(may_have_housekeeper(&pod), expected, "{names:?}");
        };
        check(&[], true);
        check(&["agent", "housekeeper"], true);
        check(&["agent"], false);
    }

    #[test]
    fn stages_are_read_from_the_status() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                    {"type": "Initialized", "status": "False", "lastTransitionTime": "2026-01-01T00:00:02Z"},
                ],
                "containerStatuses": [
                    {"name": "other", "image": "", "imageID": "", "ready": true, "restartCount": 0},
                    {"name": "agent", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                     "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}},
                ],
            },
        }))
        .unwrap();
        let time = |second: &str| Some(format!("2026-01-01T00:00:{second}Z").parse().unwrap());
        let expected = Progress {
            created_at: time("00"),
            scheduled_at: time("01"),
            prepared_at: None,
            started_at: time("05"),
            ended_at: None,
            collected_at: None,
        };
        assert_eq!(Progress::of(&pod), expected);
    }
}
