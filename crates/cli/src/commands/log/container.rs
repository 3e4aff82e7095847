//! Selects the container of a Pod whose log to show.

use domain::run::progress::failed_preparation;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::commands::problem::{Answer, Problem};

/// The container that works on a Task.
const AGENT: &str = "agent";

/// The container to read: the requested one, else one that failed during preparation, else the one that works on the
/// Task.
pub fn choose(pod: &Pod, wanted: Option<&str>) -> Answer<String> {
    let names = names(pod);
    if let Some(wanted) = wanted {
        if names.iter().any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        return Err(Problem::not_found(format!("Pod '{pod}' has no container '{wanted}'"))
            .next(format!("choose one of: {}", names.join(", "))));
    }
    if let Some(failed) = failed_preparation(pod) {
        return Ok(failed.name.clone());
    }
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let main = containers.iter().find(|container| container.name == AGENT).or(containers.first());
    main.map(|container| container.name.clone()).ok_or_else(|| Problem::new("the Pod has no containers"))
}

fn names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    all.map(|container| container.name.clone()).collect()
}

fn terminated(status: &ContainerStatus) -> Option<i32> {
    status.state.as_ref()?.terminated.as_ref().map(|ended| ended.exit_code)
}

fn status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.into_iter().find(|status| status.name == container)
}

fn is_over(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Whether there is a log to read.
pub fn has_started(pod: &Pod, wanted: Option<&str>) -> bool {
    if is_over(pod) {
        return true;
    }
    // A container that does not exist is reported at once.
    let Ok(container) = choose(pod, wanted) else { return true };
    let state = status(pod, &container).and_then(|status| status.state.as_ref());
    state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// Whether the container's log is complete.
pub fn has_ended(pod: &Pod, container: &str) -> bool {
    is_over(pod) || status(pod, container).and_then(terminated).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "fix-pod"},
            "spec": {"initContainers": [{"name": "git-init-0"}, {"name": "session", "restartPolicy": "Always"}], "containers": [{"name": "side"}, {"name": "agent"}]},
            "status": status,
        }))
        .unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn state(name: &str, state: Value) -> Value {
        json!({"name": name, "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0})
    }

    #[test]
    fn the_agent_is_read_unless_preparation_failed() {
        let prepared = json!({"initContainerStatuses": [state("git-init-0", json!({"terminated": {"exitCode": 0}}))]});
        let failed = json!({"initContainerStatuses": [state("git-init-0", json!({"terminated": {"exitCode": 3}}))]});
        assert_eq!(choose(&pod(json!({})), None).unwrap(), "agent");
        assert_eq!(choose(&pod(prepared), None).unwrap(), "agent");
        assert_eq!(choose(&pod(failed), None).unwrap(), "git-init-0");
        let killed = json!({"initContainerStatuses": [state("session", json!({"terminated": {"exitCode": 137}}))]});
        assert_eq!(choose(&pod(killed), None).unwrap(), "agent");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let problem = choose(&pod(json!({})), Some("agnet")).unwrap_err();
        assert_eq!(problem.to_string(), "Pod 'fix-pod' has no container 'agnet'");
        assert_eq!(problem.next_step(), Some("choose one of: side, agent, git-init-0, session"));
    }

    #[test]
    fn a_log_can_be_read_once_its_container_runs() {
        let waiting = pod(json!({"containerStatuses": [state("agent", json!({"waiting": {}}))]}));
        let running = pod(json!({"containerStatuses": [state("agent", json!({"running": {}}))]}));
        let ended = pod(json!({"containerStatuses": [state("agent", json!({"terminated": {"exitCode": 1}}))]}));
        assert!(!has_started(&pod(json!({})), None) && !has_started(&waiting, None));
        assert!(has_started(&running, None) && !has_ended(&running, "agent"));
        assert!(has_started(&ended, None) && has_ended(&ended, "agent"));
        assert!(has_started(&pod(json!({"phase": "Failed"})), None));
    }
}
