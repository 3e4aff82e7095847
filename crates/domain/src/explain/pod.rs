//! Problems of a Pod, from the states of its containers.

use api::conditions::reasons;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};

use super::{Cause, Level, ObjectName};
use crate::run::progress::SESSION_CONTAINER;

/// Characters of a termination message to show; it can be the end of a log.
const LONGEST: usize = 500;

/// Causes that delay a Pod that has not started.
pub fn preparation(pod: &Pod) -> Vec<Cause> {
    let about = ObjectName::of("Pod", &pod.metadata);
    let mut chain: Vec<Cause> = unscheduled(pod).into_iter().collect();
    // The container for records runs from the beginning, and delays nothing.
    for container in containers(pod).filter(|container| container.name != SESSION_CONTAINER) {
        if let Some(running) = container.state.as_ref().and_then(|state| state.running.as_ref()) {
            let message = format!("container '{}' is running", container.name);
            let since = running.started_at.as_ref().map(|time| time.0);
            chain.push(Cause::new(Level::Wait, message, &about).since(since));
        }
    }
    chain.extend(broken(pod));
    chain
}

/// Why a Pod is not scheduled.
pub fn unscheduled(pod: &Pod) -> Option<Cause> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let condition = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    let message = condition.message.as_deref().unwrap_or("no node takes the Pod");
    let about = ObjectName::of("Pod", &pod.metadata);
    Some(Cause::new(Level::Error, message, &about).reason(reasons::UNSCHEDULABLE))
}

/// Containers of a Pod that cannot start or keep crashing.
pub fn broken(pod: &Pod) -> Vec<Cause> {
    let about = ObjectName::of("Pod", &pod.metadata);
    containers(pod).filter_map(|container| wrong(container, &about)).collect()
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod.status.iter();
    statuses.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten())
}

fn wrong(container: &ContainerStatus, about: &ObjectName) -> Option<Cause> {
    let name = &container.name;
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        // Temporary states.
        if matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            return None;
        }
        if reason == "CrashLoopBackOff" {
            return Some(crashed(container, about));
        }
        let why = waiting.message.as_deref().map(|message| format!(": {}", shortened(message))).unwrap_or_default();
        let message = format!("container '{name}' with image {} cannot start{why}", container.image);
        return Some(Cause::new(Level::Error, message, about).reason(reason));
    }
    // The next attempt may end like the previous one: until the container is ready, the last end is still the problem.
    if state.running.is_some() && !container.ready && last_end(container).is_some_and(|last| last.exit_code != 0) {
        return Some(crashed(container, about));
    }
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().filter(|reason| *reason != "Error").unwrap_or_default();
    let at = ended.finished_at.as_ref().map(|time| time.0);
    let message = format!("container '{name}' {}", ending(ended));
    Some(Cause::new(Level::Error, message, about).reason(reason).since(at))
}

/// A container that ended and was started again.
fn crashed(container: &ContainerStatus, about: &ObjectName) -> Cause {
    let times = match container.restart_count {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let last = last_end(container);
    let how = last.map(|last| format!("; it last {}", ending(last))).unwrap_or_default();
    let message = format!("container '{}' crashed and was started again {times}{how}", container.name);
    let at = last.and_then(|last| last.finished_at.as_ref()).map(|time| time.0);
    Cause::new(Level::Error, message, about).reason("CrashLoopBackOff").since(at)
}

fn last_end(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.last_state.as_ref().and_then(|last| last.terminated.as_ref())
}

/// How a container ended, with its termination message unless that is our helper's report, which the status contains.
fn ending(ended: &ContainerStateTerminated) -> String {
    let message =
        ended.message.as_deref().map(str::trim).filter(|message| !message.is_empty() && !message.starts_with('{'));
    let message = message.map(|message| format!(": {}", shortened(message))).unwrap_or_default();
    match ended.reason.as_deref() {
        Some("OOMKilled") => format!("exceeded its memory limit{message}"),
        _ => format!("ended with exit code {}{message}", ended.exit_code),
    }
}

/// The end of a text: the error is at the end.
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

    #[track_caller]
    fn check(state: &Value, last: &Value, restarts: i32, expected: Option<(Option<&str>, &str)>) {
        let container = json!({"name": "opencode-server", "image": "i:1", "imageID": "", "ready": false,
            "restartCount": restarts, "state": state, "lastState": last});
        let pod = json!({"metadata": {"name": "dev-server-1"}, "status": {"containerStatuses": [container]}});
        let explained = broken(&serde_json::from_value(pod).unwrap());
        let explained = explained.first().map(|cause| (cause.reason.as_deref(), cause.message.as_str()));
        assert_eq!(explained, expected);
    }

    #[test]
    fn a_container_that_does_not_run_says_why() {
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "port 4096 is taken\n"}});
        // The same cause is shown while the next attempt runs.
        for state in [json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"running": {}})] {
            check(
                &state,
                &last,
                5,
                Some((
                    Some("CrashLoopBackOff"),
                    "container 'opencode-server' crashed and was started again 5 times; it last ended with exit code \
                     1: port 4096 is taken",
                )),
            );
        }
        check(
            &json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            &json!({}),
            0,
            Some((Some("ImagePullBackOff"), "container 'opencode-server' with image i:1 cannot start: no such image")),
        );
        check(
            &json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            &json!({}),
            0,
            Some((Some("OOMKilled"), "container 'opencode-server' exceeded its memory limit")),
        );
        check(
            &json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "{\"outcome\":\"Failed\"}"}}),
            &json!({}),
            0,
            Some((None, "container 'opencode-server' ended with exit code 2")),
        );
    }

    #[test]
    fn a_container_that_is_about_to_run_is_not_wrong() {
        for state in [json!({"running": {}}), json!({"waiting": {"reason": "ContainerCreating"}}), json!({})] {
            check(&state, &json!({}), 0, None);
        }
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
