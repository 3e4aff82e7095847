//! What keeps the server of an Agent from running, as its Pod tells it.

use api::{Agent, names::labels};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::{Api, ResourceExt as _, api::ListParams};

use crate::{
    auth::{Caller, core_resource},
    error::Answer,
    state::Server,
    wire::{Cause, Level, ObjectName},
};

/// A last message can be the end of a log; this much of it is told.
const LONGEST: usize = 500;

/// What is wrong with the Pods of an Agent's server, for a caller who may see them.
pub async fn of_server(server: &Server, caller: &Caller, agent: &Agent) -> Answer<Option<Cause>> {
    let (namespace, name) = (agent.namespace().unwrap_or_default(), agent.name_any());
    let is_fine = agent.status.as_ref().and_then(|status| status.ready) == Some(true) || agent.spec.suspend;
    let list = core_resource("list", "pods", Some(&namespace), None);
    if is_fine || !server.reviews.may(caller, &list).await? {
        return Ok(None);
    }
    let pods: Api<Pod> = Api::namespaced(server.cluster.client(caller)?, &namespace);
    let wanted = format!("{}={name},{}=server", labels::AGENT, labels::APP_COMPONENT);
    let found = pods.list(&ListParams::default().labels(&wanted)).await?;
    Ok(found.items.iter().find_map(of_pod))
}

/// What is wrong with a Pod: the first container that cannot start or does not stay.
fn of_pod(pod: &Pod) -> Option<Cause> {
    let status = pod.status.as_ref()?;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let (reason, message, ended) = containers.into_iter().find_map(wrong)?;
    let object = ObjectName { kind: Some("Pod".to_owned()), namespace: pod.namespace(), name: pod.name_any() };
    let since = ended.and_then(|ended| ended.finished_at).map(|time| time.0);
    Some(Cause { level: Level::Error, reason: Some(reason), message, object: Some(object), since })
}

type Wrong = (String, String, Option<ContainerStateTerminated>);

fn wrong(container: &ContainerStatus) -> Option<Wrong> {
    let name = &container.name;
    let state = container.state.clone().unwrap_or_default();
    let last = container.last_state.clone().unwrap_or_default().terminated;
    if let Some(waiting) = state.waiting {
        let reason = waiting.reason.unwrap_or_default();
        if reason == "CrashLoopBackOff" {
            let times = match container.restart_count {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let end = last.as_ref().map(ending).unwrap_or_default();
            return Some((reason, format!("container '{name}' crashed and was started again {times}{end}"), last));
        }
        // These go away by themselves.
        if matches!(reason.as_str(), "" | "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let why = waiting.message.map(|message| format!(": {}", shortened(&message))).unwrap_or_default();
        return Some((reason, format!("container '{name}' cannot start{why}"), None));
    }
    let ended = state.terminated.filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.clone().unwrap_or_else(|| "Error".to_owned());
    Some((reason, format!("container '{name}' crashed{}", ending(&ended)), Some(ended)))
}

/// How a container ended, and its last words.
fn ending(ended: &ContainerStateTerminated) -> String {
    let words = ended.message.as_deref().map(str::trim).filter(|words| !words.is_empty());
    let words = words.map(|words| format!(": {}", shortened(words))).unwrap_or_default();
    match ended.reason.as_deref() {
        Some("OOMKilled") => format!("; it needed more memory than it may have{words}"),
        _ => format!("; it ended with exit code {}{words}", ended.exit_code),
    }
}

/// The end of a text: what went wrong stands last.
fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().rev().nth(LONGEST - 1) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(status: &Value) -> Option<(String, String)> {
        let pod =
            json!({"metadata": {"name": "dev-server-1", "namespace": "n"}, "status": {"containerStatuses": [status]}});
        of_pod(&serde_json::from_value(pod).unwrap()).map(|cause| (cause.reason.unwrap(), cause.message))
    }

    fn container(state: &Value, last: &Value, restarts: i32) -> Value {
        json!({"name": "opencode-server", "image": "i", "imageID": "", "ready": false, "restartCount": restarts,
            "state": state, "lastState": last})
    }

    #[test]
    fn a_server_that_crashes_is_named_with_its_last_words() {
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "port 4096 is taken\n"}});
        let status = container(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &last, 5);
        let (reason, message) = told(&status).unwrap();
        assert_eq!(reason, "CrashLoopBackOff");
        assert_eq!(
            message,
            "container 'opencode-server' crashed and was started again 5 times; it ended with exit code 1: port 4096 is taken"
        );
    }

    #[test]
    fn a_server_that_is_about_to_run_is_not_wrong() {
        for state in [json!({"running": {}}), json!({"waiting": {"reason": "ContainerCreating"}}), json!({})] {
            assert_eq!(told(&container(&state, &json!({}), 0)), None);
        }
    }

    #[test]
    fn other_ways_not_to_start_are_told_too() {
        let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        assert_eq!(
            told(&container(&state, &json!({}), 0)).unwrap().1,
            "container 'opencode-server' cannot start: no such image"
        );
        let state = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let (reason, message) = told(&container(&state, &json!({}), 0)).unwrap();
        assert_eq!(reason, "OOMKilled");
        assert!(message.contains("more memory"), "{message}");
    }

    #[test]
    fn of_a_long_text_the_end_is_told() {
        let text = format!("{}ä the cause", "x".repeat(2 * LONGEST));
        let short = shortened(&text);
        assert!(short.starts_with('…') && short.ends_with("ä the cause"));
        assert_eq!(short.chars().count(), LONGEST + 1);
        assert_eq!(shortened(&"y".repeat(LONGEST)), "y".repeat(LONGEST));
    }
}
