//! The startup of an admitted run: whether it started, is delayed, or failed.

use std::time::Duration;

use api::conditions::reasons;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod};

use crate::{
    duration::{later, signed, spoken},
    run::progress::{Progress, condition, preparing, status, task_container},
};

/// How long a failing image pull is tolerated, because a registry may be unavailable for a moment. The kubelet retries
/// after 10, 20 and 40 seconds.
const IMAGE_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// A volume is usually there within seconds. Only a run that waits longer for it says so.
const VOLUME_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// State of a run before its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup {
    /// The task container started at this time.
    Started(Timestamp),
    /// The task container has not started yet.
    Waiting {
        /// The cause of the delay, if there is one. It may still be resolved.
        trouble: Option<Trouble>,
        /// Check again at this time, also without an event.
        next_look: Timestamp,
    },
    /// The task will not start: stop the run with [`crate::run::outcome::Stop::Startup`].
    Failed(Trouble),
}

/// The cause of a delayed or failed start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Stable reason, one of [`reasons`].
    pub reason: &'static str,
    /// The reason as a sentence for users.
    pub message: String,
}

/// The state of a run that was admitted at `admitted_at` and must start within `limit`. `volume` is the claim with its
/// files, if it has one. Call [`crate::run::outcome::classify`] first: a Pod that has ended does not wait.
pub fn startup(
    pod: Option<&Pod>,
    volume: Option<&PersistentVolumeClaim>,
    admitted_at: Timestamp,
    limit: Duration,
    now: Timestamp,
) -> Startup {
    let progress = pod.map(Progress::of).unwrap_or_default();
    if let Some(at) = progress.started_at {
        return Startup::Started(at);
    }
    let deadline = later(admitted_at, signed(limit));
    let delay = pod.and_then(|pod| delay_of(pod, volume));
    let mut next_look = deadline;
    if delay.as_ref().is_some_and(|delay| delay.by_volume) {
        let told_at = later(progress.created_at.unwrap_or(admitted_at), VOLUME_GRACE);
        if now < told_at.min(deadline) {
            return Startup::Waiting { trouble: None, next_look: told_at.min(deadline) };
        }
    }
    if let Some(Delay { trouble, recovers: Recovers::Perhaps, .. }) = &delay
        && trouble.reason == reasons::IMAGE_PULL_FAILED
    {
        let grace = later(progress.scheduled_at.unwrap_or(admitted_at), IMAGE_GRACE);
        if now >= grace {
            return Startup::Failed(trouble.clone());
        }
        next_look = next_look.min(grace);
    }
    match delay {
        Some(Delay { trouble, recovers: Recovers::Never, .. }) => Startup::Failed(trouble),
        delay if now >= deadline => Startup::Failed(too_late(delay.map(|delay| delay.trouble), pod, limit)),
        delay => Startup::Waiting { trouble: delay.map(|delay| delay.trouble), next_look },
    }
}

/// The known cause of the delay, else the timeout.
fn too_late(trouble: Option<Trouble>, pod: Option<&Pod>, limit: Duration) -> Trouble {
    let limit = spoken(limit);
    if let Some(Trouble { reason, message }) = trouble {
        return Trouble { reason, message: format!("the task did not start within {limit}: {message}") };
    }
    let busy =
        pod.and_then(|pod| preparing(pod).find(|container| is_running(container) && !is_started_sidecar(container)));
    let cause = match busy {
        Some(container) => format!("container {} still prepares the Pod", container.name),
        None if pod.is_none() => "its Pod was not created".to_owned(),
        None => "the Pod is not ready".to_owned(),
    };
    Trouble {
        reason: reasons::STARTUP_TIMEOUT,
        message: format!("the task did not start within {limit} (startupTimeout): {cause}"),
    }
}

struct Delay {
    trouble: Trouble,
    recovers: Recovers,
    /// The Pod waits for a volume.
    by_volume: bool,
}

/// Whether the cause can be resolved without a change of the Task.
#[derive(PartialEq, Eq)]
enum Recovers {
    Perhaps,
    Never,
}

fn delay_of(pod: &Pod, volume: Option<&PersistentVolumeClaim>) -> Option<Delay> {
    let volume = volume.and_then(provisioned);
    let stuck = || preparing(pod).chain(task_container(pod)).find_map(stuck);
    match (unscheduled(pod), volume) {
        // Without a node because of the volume: the scheduler says what is wrong.
        (Some(delay), Some(volume)) if delay.by_volume => {
            let message = format!("{volume} ({})", delay.trouble.message);
            Some(Delay { trouble: Trouble { message, ..delay.trouble }, ..delay })
        }
        (Some(delay), _) => Some(delay),
        (None, Some(volume)) => stuck().or_else(|| {
            let trouble = Trouble { reason: reasons::UNSCHEDULABLE, message: volume };
            Some(Delay { trouble, recovers: Recovers::Perhaps, by_volume: true })
        }),
        (None, None) => stuck(),
    }
}

/// A sentence about a volume that is not there yet.
fn provisioned(claim: &PersistentVolumeClaim) -> Option<String> {
    let phase = claim.status.as_ref()?.phase.as_deref()?;
    if phase == "Bound" {
        return None;
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    let class = class.map(|class| format!(" of storage class '{class}'")).unwrap_or_default();
    Some(format!("the Pod waits for its workspace volume: PersistentVolumeClaim '{name}'{class} is {phase}"))
}

fn unscheduled(pod: &Pod) -> Option<Delay> {
    let condition = condition(pod, "PodScheduled").filter(|condition| condition.status == "False")?;
    let detail =
        condition.message.as_deref().or(status(pod)?.message.as_deref()).unwrap_or("the scheduler gives no reason");
    let trouble = Trouble { reason: reasons::UNSCHEDULABLE, message: format!("no node takes the Pod: {detail}") };
    let by_volume = detail.to_ascii_lowercase().contains("persistentvolumeclaim");
    Some(Delay { trouble, recovers: Recovers::Perhaps, by_volume })
}

/// Why a container does not start.
fn stuck(container: &ContainerStatus) -> Option<Delay> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let (name, image) = (&container.name, &container.image);
    let detail = waiting.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let (reason, message, recovers) = match waiting.reason.as_deref()? {
        "InvalidImageName" => (
            reasons::IMAGE_PULL_FAILED,
            format!("image '{image}' of container {name} has no valid name{detail}"),
            Recovers::Never,
        ),
        "ErrImageNeverPull" => (
            reasons::IMAGE_PULL_FAILED,
            format!("image '{image}' of container {name} is not on the node, and its pull policy is Never{detail}"),
            Recovers::Never,
        ),
        "ErrImagePull"
        | "ImagePullBackOff"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "SignatureValidationFailed" => (
            reasons::IMAGE_PULL_FAILED,
            format!("image '{image}' of container {name} cannot be pulled{detail}"),
            Recovers::Perhaps,
        ),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" | "CrashLoopBackOff" => {
            (reasons::PREPARATION_FAILED, format!("container {name} cannot be started{detail}"), Recovers::Perhaps)
        }
        _ => return None,
    };
    Some(Delay { trouble: Trouble { reason, message }, recovers, by_volume: false })
}

fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// A sidecar runs from before the start of the task to after its end; once started it delays nothing.
fn is_started_sidecar(container: &ContainerStatus) -> bool {
    container.started == Some(true) && container.ready
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]

    use serde_json::{Value, json};

    use super::*;

    const ADMITTED: i64 = 1000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn container(name: &str, state: Value) -> Value {
        json!({"name": name, "image": "img:1", "imageID": "", "ready": false, "restartCount": 0, "state": state})
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"containerStatuses": [container("agent", json!({"waiting": {"reason": reason, "message": message}}))]})
    }

    fn look(status: &Value, after: i64) -> Startup {
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
        startup(Some(&pod), None, at(ADMITTED), Duration::from_mins(5), at(ADMITTED + after))
    }

    /// Checks a Pod after `after` seconds, and whether the result is final.
    #[track_caller]
    fn check(status: &Value, after: i64, fatal: bool, reason: Option<&'static str>, message: &str) {
        let (found, trouble) = match look(status, after) {
            Startup::Failed(trouble) => (true, Some(trouble)),
            Startup::Waiting { trouble, .. } => (false, trouble),
            Startup::Started(at) => panic!("started at {at}"),
        };
        let expected = reason.map(|reason| Trouble { reason, message: message.to_owned() });
        assert_eq!((found, trouble), (fatal, expected));
    }

    #[test]
    fn an_image_that_cannot_be_pulled_fails_after_a_grace() {
        let message = "image 'img:1' of container agent cannot be pulled: 404";
        for word in ["ErrImagePull", "ImagePullBackOff"] {
            check(&waiting(word, "404"), 59, false, Some(reasons::IMAGE_PULL_FAILED), message);
            check(&waiting(word, "404"), 60, true, Some(reasons::IMAGE_PULL_FAILED), message);
        }
        let Startup::Waiting { next_look, .. } = look(&waiting("ErrImagePull", ""), 1) else { panic!() };
        assert_eq!(next_look, at(ADMITTED + 60));
        let message = "image 'img:1' of container agent has no valid name: bad";
        check(&waiting("InvalidImageName", "bad"), 0, true, Some(reasons::IMAGE_PULL_FAILED), message);
    }

    #[test]
    fn the_grace_counts_from_when_a_node_took_the_pod() {
        let mut status = waiting("ErrImagePull", "x");
        status["conditions"] = json!([
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(ADMITTED + 100).to_string()}
        ]);
        assert!(matches!(look(&status, 159), Startup::Waiting { .. }));
        assert!(matches!(look(&status, 160), Startup::Failed(_)));
    }

    #[test]
    fn a_pod_that_no_node_takes_is_waited_for_until_time_is_up() {
        let status = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]});
        let message = "no node takes the Pod: 0/3 nodes are available";
        check(&status, 299, false, Some(reasons::UNSCHEDULABLE), message);
        let message = "the task did not start within 5m: no node takes the Pod: 0/3 nodes are available";
        check(&status, 300, true, Some(reasons::UNSCHEDULABLE), message);
    }

    #[test]
    fn a_missing_secret_is_named_when_time_is_up() {
        let status = waiting("CreateContainerConfigError", "secret \"s\" not found");
        let message = "container agent cannot be started: secret \"s\" not found";
        check(&status, 10, false, Some(reasons::PREPARATION_FAILED), message);
        let message = "the task did not start within 5m: container agent cannot be started: secret \"s\" not found";
        check(&status, 300, true, Some(reasons::PREPARATION_FAILED), message);
    }

    #[test]
    fn a_start_that_takes_too_long_names_what_is_not_done() {
        check(&json!({}), 299, false, None, "");
        let message = "the task did not start within 5m (startupTimeout): the Pod is not ready";
        check(&json!({}), 300, true, Some(reasons::STARTUP_TIMEOUT), message);
        let init = container("git-init-0", json!({"running": {}}));
        let status = json!({"initContainerStatuses": [init]});
        let message = "the task did not start within 5m (startupTimeout): container git-init-0 still prepares the Pod";
        check(&status, 300, true, Some(reasons::STARTUP_TIMEOUT), message);
        let nothing = startup(None, None, at(0), Duration::from_mins(5), at(300));
        let message = "the task did not start within 5m (startupTimeout): its Pod was not created";
        assert_eq!(nothing, Startup::Failed(Trouble { reason: reasons::STARTUP_TIMEOUT, message: message.into() }));
    }

    #[test]
    fn a_run_that_waits_for_its_volume_says_so() {
        let look = |status: &Value, phase: &str, after: i64| {
            let metadata = json!({"creationTimestamp": at(ADMITTED + 5).to_string()});
            let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
            let claim: PersistentVolumeClaim = serde_json::from_value(json!({
                "metadata": {"name": "t-pod-workspace"}, "spec": {"storageClassName": "nfs"}, "status": {"phase": phase},
            }))
            .unwrap();
            let found = startup(Some(&pod), Some(&claim), at(ADMITTED), Duration::from_mins(5), at(ADMITTED + after));
            match found {
                Startup::Waiting { trouble, next_look } => {
                    let message = trouble.map(|trouble| (trouble.reason, trouble.message));
                    (message, next_look.as_second() - ADMITTED)
                }
                Startup::Failed(Trouble { reason, message }) => (Some((reason, message)), 0),
                Startup::Started(at) => panic!("started at {at}"),
            }
        };
        let told = |message: &str| Some((reasons::UNSCHEDULABLE, message.to_owned()));
        let waits = "the Pod waits for its workspace volume: PersistentVolumeClaim 't-pod-workspace' of storage class \
                     'nfs' is Pending";
        // For a moment it is nobody's concern.
        assert_eq!(look(&json!({}), "Pending", 14), (None, 15));
        assert_eq!(look(&json!({}), "Pending", 15), (told(waits), 300));
        assert_eq!(look(&json!({}), "Pending", 300), (told(&format!("the task did not start within 5m: {waits}")), 0));
        assert_eq!(look(&json!({}), "Bound", 15), (None, 300));
        let unscheduled = |detail: &str| json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": detail}]});
        let unbound = unscheduled("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
        let why = "(no node takes the Pod: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.)";
        assert_eq!(look(&unbound, "Pending", 14), (None, 15));
        assert_eq!(look(&unbound, "Pending", 15), (told(&format!("{waits} {why}")), 300));
        let busy = unscheduled("0/3 nodes are available: 3 Insufficient cpu.");
        let why = "no node takes the Pod: 0/3 nodes are available: 3 Insufficient cpu.";
        assert_eq!(look(&busy, "Pending", 1), (told(why), 300));
        // What keeps a container from starting is the nearer cause.
        let status = waiting("CreateContainerConfigError", "no secret");
        let why = "container agent cannot be started: no secret";
        assert_eq!(look(&status, "Pending", 20), (Some((reasons::PREPARATION_FAILED, why.to_owned())), 300));
    }

    #[test]
    fn a_started_container_has_started_whatever_the_clock_says() {
        let state = json!({"running": {"startedAt": at(ADMITTED + 5).to_string()}});
        let status = json!({"containerStatuses": [container("agent", state)]});
        assert_eq!(look(&status, 9999), Startup::Started(at(ADMITTED + 5)));
    }
}
