//! The row of a Pod: the aggregate state of its containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{human_duration, moment, since};

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_true(value: &Value, path: &str) -> bool {
    value.pointer(path).and_then(Value::as_bool).unwrap_or_default()
}

fn is_there(value: &Value, path: &str) -> bool {
    value.pointer(path).is_some_and(|found| !found.is_null())
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    list(pod, "/status/conditions").iter().any(|it| text(it, "/type") == kind && text(it, "/status") == "True")
}

/// The condition of the row of a finished Pod, by which clients can filter.
pub(super) fn finished(object: &Value) -> Option<Value> {
    if text(object, "/kind") != "Pod" {
        return None;
    }
    let (reason, message) = match text(object, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

/// The number of restarts, and the time of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number(container, "/restartCount");
        self.last = self.last.max(moment(container.pointer("/lastState/terminated/finishedAt")));
    }

    fn printed(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, human_duration(last, now)),
            _ => self.count.to_string(),
        }
    }
}

/// The aggregate state of the containers.
struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let sidecars: Vec<&str> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| text(container, "/restartPolicy") == "Always")
        .map(|container| text(container, "/name"))
        .collect();
    let total = list(pod, "/spec/containers").len() + sidecars.len();
    let Summary { reason, ready, restarts } = summary(pod, &sidecars);
    let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
    [
        text(pod, "/metadata/name").to_owned(),
        format!("{ready}/{total}"),
        reason,
        restarts.printed(now),
        since(pod.pointer("/metadata/creationTimestamp"), now),
        or_none(text(pod, "/status/podIPs/0/ip")),
        or_none(text(pod, "/spec/nodeName")),
        or_none(text(pod, "/status/nominatedNodeName")),
        readiness_gates(pod),
    ]
    .map(Value::from)
    .into()
}

fn summary(pod: &Value, sidecars: &[&str]) -> Summary {
    let phase = text(pod, "/status/phase");
    let mut reason = match text(pod, "/status/reason") {
        "" => phase,
        reason => reason,
    }
    .to_owned();
    let gated = |it: &Value| text(it, "/type") == "PodScheduled" && text(it, "/reason") == "SchedulingGated";
    if list(pod, "/status/conditions").iter().any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut ready = 0;
    let (mut restarts, mut of_sidecars) = (Restarts::default(), Restarts::default());
    let mut initializing = false;
    for (index, container) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        let sidecar = sidecars.contains(&text(container, "/name"));
        restarts.add(container);
        if sidecar {
            of_sidecars.add(container);
        }
        let terminated = is_there(container, "/state/terminated");
        if terminated && number(container, "/state/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar && is_true(container, "/started") {
            ready += usize::from(is_true(container, "/ready"));
            continue;
        }
        let waiting = text(container, "/state/waiting/reason");
        reason = if terminated {
            format!("Init:{}", ended(container))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", list(pod, "/spec/initContainers").len())
        };
        initializing = true;
        break;
    }
    if !initializing || condition_is_true(pod, "Initialized") {
        restarts = of_sidecars;
        let mut running = false;
        for container in list(pod, "/status/containerStatuses").iter().rev() {
            restarts.add(container);
            let waiting = text(container, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut reason);
            } else if is_there(container, "/state/terminated") {
                reason = ended(container);
            } else if is_true(container, "/ready") && is_there(container, "/state/running") {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && running {
            let ready = condition_is_true(pod, "Ready");
            if ready { "Running" } else { "NotReady" }.clone_into(&mut reason);
        }
    }
    if is_there(pod, "/metadata/deletionTimestamp") {
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut reason);
        }
    }
    Summary { reason, ready, restarts }
}

/// Why a container terminated.
fn ended(container: &Value) -> String {
    match (text(container, "/state/terminated/reason"), number(container, "/state/terminated/signal")) {
        ("", 0) => format!("ExitCode:{}", number(container, "/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition_is_true(pod, text(gate, "/conditionType"))).count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ready, status and restarts of a Pod with two containers and one init container.
    #[track_caller]
    fn check(status: Value, expected: [&str; 3]) {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": status,
        });
        let cells = cells(&pod, Timestamp::from_second(300).unwrap());
        assert_eq!(cells[1..4], expected.map(Value::from));
    }

    #[test]
    fn the_status_is_the_most_telling_of_the_containers() {
        check(json!({"phase": "Pending"}), ["0/2", "Pending", "0"]);
        check(json!({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"]);
        check(
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ["0/2", "SchedulingGated", "0"],
        );
        let running = json!({"ready": true, "state": {"running": {}}});
        check(json!({"phase": "Running", "containerStatuses": [running, running]}), ["2/2", "Running", "0"]);
        let waiting = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "1970-01-01T00:00:00Z"}}});
        check(
            json!({"phase": "Running", "containerStatuses": [running, waiting]}),
            ["1/2", "CrashLoopBackOff", "3 (5m ago)"],
        );
        let killed = json!({"state": {"terminated": {"signal": 9, "exitCode": 137}}});
        check(json!({"phase": "Failed", "containerStatuses": [killed]}), ["0/2", "Signal:9", "0"]);
        let completed = json!({"state": {"terminated": {"reason": "Completed", "exitCode": 0}}});
        check(json!({"phase": "Running", "containerStatuses": [completed, running]}), ["1/2", "NotReady", "0"]);
    }

    #[test]
    fn init_containers_show_how_far_they_are() {
        let init = |state: Value| json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": state}]});
        check(init(json!({"running": {}})), ["0/2", "Init:0/1", "0"]);
        check(init(json!({"waiting": {"reason": "ErrImagePull"}})), ["0/2", "Init:ErrImagePull", "0"]);
        check(init(json!({"terminated": {"exitCode": 2}})), ["0/2", "Init:ExitCode:2", "0"]);
        check(init(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), ["0/2", "Init:Error", "0"]);
    }

    #[test]
    fn a_sidecar_counts_as_a_container() {
        let pod = json!({
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {
                "phase": "Running",
                "initContainerStatuses":
                    [{"name": "s", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}}],
                "containerStatuses": [{"name": "a", "ready": true, "restartCount": 1, "state": {"running": {}}}],
            },
        });
        let cells = cells(&pod, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1..4], [json!("2/2"), json!("Running"), json!("2")]);
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_terminating_unless_it_has_ended() {
        let pod = |phase: &str| json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": phase}});
        assert_eq!(cells(&pod("Running"), Timestamp::UNIX_EPOCH)[2], "Terminating");
        assert_eq!(cells(&pod("Succeeded"), Timestamp::UNIX_EPOCH)[2], "Succeeded");
    }

    #[test]
    fn only_a_pod_that_has_ended_is_marked_so() {
        assert!(finished(&json!({"kind": "Pod", "status": {"phase": "Failed"}})).is_some());
        assert!(finished(&json!({"kind": "Pod", "status": {"phase": "Running"}})).is_none());
        assert!(finished(&json!({"kind": "Task", "status": {"phase": "Failed"}})).is_none());
    }
}
