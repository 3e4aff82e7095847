#![allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]

use serde_json::{Value, json};

use super::*;

/// A Pod whose task container ended.
fn ended(code: i32, reason: &str, message: &str) -> Value {
    let state = json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
    json!({"status": {"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses": [container("agent", state)]}})
}

/// A Pod whose task container ended and left a report.
fn reported(code: i32, outcome: &str, reason: &str, message: &str) -> Value {
    let report = json!({"outcome": outcome, "reason": reason, "message": message, "sessionID": "ses_1"});
    ended(code, "Error", &report.to_string())
}

fn running() -> Value {
    json!({"status": {"phase": "Running", "containerStatuses": [container("agent", json!({"running": {}}))]}})
}

fn container(name: &str, state: Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn unprepared(name: &str, code: i32, reason: &str, message: &str) -> Value {
    let state = json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    json!({"status": {
        "phase": "Failed",
        "initContainerStatuses": [container("opencode-init", json!({"terminated": {"exitCode": 0}})), container(name, state)],
        "containerStatuses": [container("agent", waiting)],
    }})
}

fn with_status(mut pod: Value, phase: &str, reason: &str, message: &str) -> Value {
    pod["status"]["phase"] = phase.into();
    pod["status"]["reason"] = reason.into();
    pod["status"]["message"] = message.into();
    pod
}

fn targeted(mut pod: Value, reason: &str) -> Value {
    pod["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "said the cluster"}]);
    pod
}

fn deleted(mut pod: Value) -> Value {
    pod["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    pod
}

struct Case {
    pod: Option<Value>,
    gone: bool,
    stop: Option<Stop>,
    report_required: bool,
    keeps: bool,
}

fn case(pod: Value) -> Case {
    Case { pod: Some(pod), gone: false, stop: None, report_required: true, keeps: false }
}

impl Case {
    fn gone(self) -> Self {
        Self { gone: true, ..self }
    }

    fn stop(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    fn foreign_image(self) -> Self {
        Self { report_required: false, ..self }
    }

    fn keeps(self) -> Self {
        Self { keeps: true, ..self }
    }

    fn classify(&self) -> Option<Ending> {
        self.with_evidence(classify)
    }

    /// The note on results that are not kept, besides the ending.
    fn lost(&self) -> Option<String> {
        self.with_evidence(|evidence| results_lost(evidence, &classify(evidence).unwrap()))
    }

    fn with_evidence<T>(&self, look: impl Fn(&Evidence<'_>) -> T) -> T {
        let pod: Option<Pod> = self.pod.clone().map(|mut pod| {
            pod.as_object_mut().unwrap().entry("metadata").or_insert(json!({}));
            serde_json::from_value(pod).unwrap()
        });
        let stop = self.stop.as_ref();
        let Self { gone, report_required, keeps, .. } = *self;
        look(&Evidence { pod: pod.as_ref(), gone, stop, report_required, keeps })
    }
}

#[track_caller]
fn check(case: Case, phase: TaskPhase, reason: &str, message: &str) -> Ending {
    let ending = case.classify().expect("the run has ended");
    assert_eq!((ending.phase, ending.reason, ending.message.as_str()), (phase, reason, message));
    ending
}

#[track_caller]
fn check_failed(case: Case, reason: &str, message: &str) -> Ending {
    check(case, TaskPhase::Failed, reason, message)
}

#[test]
fn a_run_that_goes_on_has_not_ended() {
    assert_eq!(case(running()).classify(), None);
    assert_eq!(case(running()).stop(Stop::User).classify(), None, "its end is awaited, so that the log is whole");
    assert_eq!(case(deleted(running())).classify(), None);
    assert_eq!(case(json!({"status": {"phase": "Pending"}})).classify(), None);
    assert_eq!(Case { pod: None, gone: false, stop: None, report_required: true, keeps: false }.classify(), None);
}

#[test]
fn success_needs_exit_code_and_report() {
    let done = || reported(0, "Succeeded", "Succeeded", "the agent finished");
    let ending = check(case(done()), TaskPhase::Completed, reasons::SUCCEEDED, "the agent finished its work");
    assert!(ending.succeeded() && ending.exit_code == Some(0) && ending.retry.is_none());
    assert_eq!(ending.session().and_then(|session| session.id).as_deref(), Some("ses_1"));
    assert!(ending.usage().is_some());

    let message = "the task ended without leaving a result; the log may say why";
    check_failed(case(ended(0, "Completed", "")), reasons::RESULT_MISSING, message);
    let foreign = case(ended(0, "Completed", "")).foreign_image();
    check(foreign, TaskPhase::Completed, reasons::SUCCEEDED, "the agent finished its work");
    let message = "the agent finished its work, but the task container failed with exit code 9";
    check_failed(case(reported(9, "Succeeded", "Succeeded", "")), reasons::NON_ZERO_EXIT, message);
}

/// The Pod with a housekeeper in this state.
fn beside(mut pod: Value, housekeeper: Value) -> Value {
    pod["status"]["phase"] = "Running".into();
    pod["status"]["containerStatuses"].as_array_mut().unwrap().push(container("housekeeper", housekeeper));
    pod
}

fn housekeeper_ended_with(code: i32, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": "Error", "message": message}})
}

#[test]
fn a_run_lasts_until_what_it_leaves_is_stored() {
    let done = || reported(0, "Succeeded", "Succeeded", "the agent finished");
    let running = || json!({"running": {}});
    assert_eq!(case(beside(done(), running())).keeps().classify(), None);
    let stored = case(beside(done(), housekeeper_ended_with(0, "{}"))).keeps();
    check(stored, TaskPhase::Completed, reasons::SUCCEEDED, "the agent finished its work");
    // Also that of a failed or stopped run: its artefacts may be kept.
    let failed = || reported(1, "Failed", "ModelError", "429");
    assert_eq!(case(beside(failed(), running())).keeps().classify(), None);
    assert_eq!(case(beside(failed(), running())).keeps().stop(Stop::User).classify(), None);
    // The controller ends the housekeeper of a task that could not be started; that is no timeout.
    let mut unstarted = with_status(
        beside(ended(128, "StartError", "no such file"), housekeeper_ended_with(1, "{}")),
        "Failed",
        "DeadlineExceeded",
        "",
    );
    unstarted["metadata"] = json!({"annotations": {"kubeopencode.io/ended-for": "CollectFailed"}});
    let message = "the task container could not be started: no such file";
    check_failed(case(unstarted).keeps(), reasons::PREPARATION_FAILED, message);
    // A run without a housekeeper does not wait for a container of that name, which is its user's.
    assert!(case(beside(done(), running())).classify().is_some());
}

#[test]
fn a_success_needs_everything_that_the_run_had_to_leave() {
    let done = || reported(0, "Succeeded", "Succeeded", "the agent finished");
    let failure = |reason: &str| json!({"failure": {"reason": reason, "message": "why"}}).to_string();
    for (word, reason) in [
        ("ArtifactMissing", reasons::ARTIFACT_MISSING),
        ("OutputMissing", reasons::OUTPUT_MISSING),
        ("PublishFailed", reasons::PUBLISH_FAILED),
        ("CollectFailed", reasons::COLLECT_FAILED),
        ("Later", reasons::COLLECT_FAILED),
    ] {
        let ending =
            check_failed(case(beside(done(), housekeeper_ended_with(1, &failure(word)))).keeps(), reason, "why");
        assert!(ending.report.is_some() && ending.retry.is_none(), "{word}");
    }
    let killed = "the container that stores results was killed (exit code 137)";
    check_failed(case(beside(done(), housekeeper_ended_with(137, ""))).keeps(), reasons::COLLECT_FAILED, killed);
    let lost = "the Pod was lost before the results of the run were stored";
    check_failed(case(beside(done(), json!({"running": {}}))).keeps().gone(), reasons::COLLECT_FAILED, lost);
    // The run's own failure is the first cause.
    let missing = housekeeper_ended_with(1, &failure("ArtifactMissing"));
    let own = case(beside(reported(1, "Failed", "ModelError", "429"), missing.clone())).keeps();
    check_failed(own, reasons::MODEL_ERROR, "429");
    let stopped = case(beside(done(), missing)).keeps().stop(Stop::User);
    check(stopped, TaskPhase::Completed, reasons::USER_STOPPED, "a user stopped the Task");
}

#[test]
fn results_that_are_lost_after_a_failure_or_a_stop_are_noted() {
    let done = || reported(0, "Succeeded", "Succeeded", "the agent finished");
    let failed = || reported(1, "Failed", "ModelError", "429");
    let failure = || housekeeper_ended_with(1, r#"{"failure": {"reason": "CollectFailed", "message": "why"}}"#);
    let lost = "the Pod was lost before the results of the run were stored";
    let killed = "the container that stores results was killed (exit code 137)";
    for (case, expected) in [
        (case(beside(failed(), failure())).keeps(), Some("why")),
        (case(beside(done(), failure())).keeps().stop(Stop::User), Some("why")),
        (case(beside(failed(), housekeeper_ended_with(137, ""))).keeps(), Some(killed)),
        (case(beside(running(), json!({"running": {}}))).keeps().gone(), Some(lost)),
        // The failure is the reason of the Task, or nothing was to be kept.
        (case(beside(done(), failure())).keeps(), None),
        (case(beside(failed(), housekeeper_ended_with(0, "{}"))).keeps(), None),
        (case(failed()), None),
        (case(unprepared("git-init-0", 128, "Error", "")).keeps(), None),
        (case(ended(128, "StartError", "no such file")).keeps(), None),
    ] {
        assert_eq!(case.lost().as_deref(), expected, "{:?}", case.pod);
    }
}

#[test]
fn a_report_of_failure_counts_whatever_the_exit_code() {
    for (word, reason) in [
        ("ModelError", reasons::MODEL_ERROR),
        ("PermissionRejected", reasons::PERMISSION_REJECTED),
        ("LengthLimit", reasons::LENGTH_LIMIT),
        ("ContentFiltered", reasons::CONTENT_FILTERED),
        ("SessionAborted", reasons::SESSION_ABORTED),
        ("ServerLost", reasons::SERVER_LOST),
        ("NoProgress", reasons::NO_PROGRESS),
        ("BudgetExceeded", reasons::BUDGET_EXCEEDED),
        ("NoAnswer", reasons::RESULT_MISSING),
        ("CommandFailed", reasons::NON_ZERO_EXIT),
        ("ContextOverflow", "ContextOverflow"),
        ("Evicted", reasons::NON_ZERO_EXIT),
        ("Succeeded", reasons::NON_ZERO_EXIT),
    ] {
        for code in [0, 1] {
            let ending = check_failed(case(reported(code, "Failed", word, "so it was")), reason, "so it was");
            assert_eq!(ending.exit_code, Some(code));
            let over = word == "BudgetExceeded";
            assert_eq!((ending.stopped, ending.retry.is_none()), (over, over), "{word}");
        }
    }
    check_failed(case(reported(3, "Failed", "?", "")), reasons::NON_ZERO_EXIT, "the task failed with exit code 3");
}

#[test]
fn without_a_report_the_exit_code_speaks() {
    check_failed(case(ended(3, "Error", "")), reasons::NON_ZERO_EXIT, "the task command failed with exit code 3");
    let message = "the task command failed with exit code 1: npm: not found";
    check_failed(case(ended(1, "Error", " npm: not found\n")), reasons::NON_ZERO_EXIT, message);
    let message = "the task command was killed (exit code 137)";
    let ending = check_failed(case(ended(137, "Error", "")), reasons::NON_ZERO_EXIT, message);
    assert_eq!(ending.retry, Some(RetryCause::NonZeroExit));
    let message = "the task needed more memory than its limit; raise podSpec.resources.limits.memory";
    check_failed(case(ended(137, "OOMKilled", "")), reasons::OOM_KILLED, message);
    let long = ended(1, "Error", &format!("{}the end", "x".repeat(5000)));
    let ending = case(long).classify().unwrap();
    assert!(ending.message.len() < 1200 && ending.message.ends_with("the end"), "{}", ending.message);
}

#[test]
fn preparation_names_the_step_and_what_it_said() {
    let pod = unprepared("git-init-0", 128, "Error", "repository not found");
    let message = "cloning a repository (git-init-0) failed with exit code 128: repository not found";
    let ending = check_failed(case(pod), reasons::PREPARATION_FAILED, message);
    assert_eq!((ending.retry, ending.exit_code), (Some(RetryCause::Startup), None));
    let message = "putting contexts in place (context-init) needed more memory than its limit";
    check_failed(case(unprepared("context-init", 137, "OOMKilled", "")), reasons::PREPARATION_FAILED, message);
    let message = "the task container could not be started: exec: no such file";
    check_failed(case(ended(128, "StartError", "exec: no such file")), reasons::PREPARATION_FAILED, message);
    let message = "the Pod ended before the task container started; `kubectl describe pod` may say why";
    check_failed(case(json!({"status": {"phase": "Failed"}})), reasons::PREPARATION_FAILED, message);
}

#[test]
fn a_service_that_ends_badly_after_the_task_is_no_preparation_failure() {
    let mut pod = reported(0, "Succeeded", "Succeeded", "");
    pod["status"]["initContainerStatuses"] = json!([container("db", json!({"terminated": {"exitCode": 137}}))]);
    assert!(case(pod).classify().unwrap().succeeded());
}

#[test]
fn the_cluster_is_blamed_for_what_it_did() {
    for (pod, reason, message) in [
        (
            with_status(running(), "Failed", "Evicted", "low on memory"),
            reasons::EVICTED,
            "the node evicted the Pod because it ran short of resources: low on memory",
        ),
        (
            with_status(running(), "Failed", "Preempting", ""),
            reasons::PREEMPTED,
            "the node preempted the Pod for one of higher priority",
        ),
        (with_status(running(), "Failed", "NodeLost", ""), reasons::NODE_LOST, "the node stopped responding"),
        (with_status(running(), "Failed", "Terminated", ""), reasons::NODE_LOST, "the node was shut down"),
        (
            with_status(json!({}), "Failed", "UnexpectedAdmissionError", "no device"),
            reasons::UNSCHEDULABLE,
            "the node that was chosen for the Pod refused it: no device",
        ),
        (
            with_status(json!({}), "Failed", "OutOfcpu", ""),
            reasons::UNSCHEDULABLE,
            "the node that was chosen for the Pod refused it",
        ),
        (
            targeted(ended(143, "Error", ""), "PreemptionByScheduler"),
            reasons::PREEMPTED,
            "the scheduler preempted the Pod for one of higher priority: said the cluster",
        ),
        (
            targeted(ended(143, "Error", ""), "EvictionByEvictionAPI"),
            reasons::EVICTED,
            "the Pod was evicted from its node: said the cluster",
        ),
        (targeted(with_status(running(), "Failed", "", ""), "DeletionByPodGC"), reasons::NODE_LOST, "the node is gone"),
        (
            targeted(ended(137, "Error", ""), "DeletionByTaintManager"),
            reasons::NODE_LOST,
            "the node got a taint that the Pod does not tolerate: said the cluster",
        ),
    ] {
        let ending = check_failed(case(pod), reason, message);
        assert!(ending.disrupted && ending.retry == Some(RetryCause::Disruption), "{reason}");
    }
}

#[test]
fn a_vanished_pod_ends_the_task() {
    let message = "its Pod does not exist any more; the node may be lost, or the Pod was deleted";
    let ending = check_failed(case(running()).gone(), reasons::POD_LOST, message);
    assert!(ending.disrupted);
    let unseen = Case { pod: None, gone: true, stop: None, report_required: true, keeps: false };
    check_failed(unseen, reasons::POD_LOST, "its Pod was deleted before it was seen");
    let message = "its Pod was deleted while it ran";
    check_failed(case(deleted(ended(137, "Error", ""))), reasons::POD_LOST, message);
    check_failed(case(deleted(reported(143, "Failed", "Stopped", "asked to stop"))), reasons::POD_LOST, message);
    check_failed(case(deleted(running())).gone(), reasons::POD_LOST, message);
    // What was seen before it vanished counts.
    let message = "the node is gone: said the cluster";
    check_failed(case(targeted(running(), "DeletionByPodGC")).gone(), reasons::NODE_LOST, message);
    let seen = case(reported(0, "Succeeded", "Succeeded", "")).gone();
    assert!(seen.classify().unwrap().succeeded());
    check_failed(case(deleted(reported(1, "Failed", "ModelError", "401"))).gone(), reasons::MODEL_ERROR, "401");
}

#[test]
fn a_run_that_ended_before_its_pod_went_has_its_own_reason() {
    // Its Pod was deleted at 11:59:30, with 30 seconds to go.
    let at = |second: &str| {
        let mut pod = ended(3, "Error", "");
        pod["metadata"] = json!({"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30});
        let end = format!("2026-01-01T11:59:{second}Z");
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = end.into();
        pod
    };
    for gone in [false, true] {
        let message = "the task command failed with exit code 3";
        check_failed(Case { gone, ..case(at("29")) }, reasons::NON_ZERO_EXIT, message);
        let message = "its Pod was deleted while it ran";
        check_failed(Case { gone, ..case(at("30")) }, reasons::POD_LOST, message);
    }
    let message = "cloning a repository (git-init-0) failed with exit code 128";
    let unprepared = unprepared("git-init-0", 128, "Error", "");
    check_failed(case(unprepared).gone(), reasons::PREPARATION_FAILED, message);
}

#[test]
fn what_the_agent_finished_is_finished() {
    let done = reported(0, "Succeeded", "Succeeded", "");
    for pod in [targeted(done.clone(), "EvictionByEvictionAPI"), deleted(done)] {
        assert!(case(pod).classify().unwrap().succeeded());
    }
}

#[test]
fn our_own_stops_win_over_everything() {
    let trouble = Trouble { reason: reasons::IMAGE_PULL_FAILED, message: "no such image".into() };
    for (stop, phase, reason, message, stopped) in [
        (Stop::User, TaskPhase::Completed, reasons::USER_STOPPED, "a user stopped the Task", true),
        (
            Stop::Timeout(Duration::from_mins(90)),
            TaskPhase::Completed,
            reasons::TIMEOUT,
            "the Task ran for 1h 30m, as long as spec.timeout allows, and was stopped",
            true,
        ),
        (
            Stop::AgentGone("a".into()),
            TaskPhase::Failed,
            reasons::AGENT_GONE,
            "Agent 'a' was deleted while the Task ran on it",
            false,
        ),
        (Stop::Startup(trouble), TaskPhase::Failed, reasons::IMAGE_PULL_FAILED, "no such image", false),
    ] {
        for pod in [ended(143, "Error", ""), targeted(running(), "DeletionByPodGC"), reported(0, "Succeeded", "", "")] {
            let ending = check(case(pod).gone().stop(stop.clone()), phase, reason, message);
            assert!(ending.stopped == stopped && !ending.disrupted && !ending.succeeded());
        }
    }
}

#[test]
fn the_pods_own_deadline_is_a_timeout() {
    let mut pod = with_status(ended(137, "Error", ""), "Failed", "DeadlineExceeded", "");
    pod["spec"] = json!({"activeDeadlineSeconds": 60, "containers": []});
    let message = "the Task ran for 1m, as long as spec.timeout allows, and was stopped";
    check(case(pod), TaskPhase::Completed, reasons::TIMEOUT, message);
}

#[test]
fn causes_have_an_order() {
    // Disruption before preparation before exit code.
    let both = with_status(unprepared("git-init-0", 137, "Error", ""), "Failed", "Evicted", "");
    assert_eq!(case(both).classify().unwrap().reason, reasons::EVICTED);
    let report = targeted(reported(1, "Failed", "ServerLost", ""), "EvictionByEvictionAPI");
    assert_eq!(case(report).classify().unwrap().reason, reasons::EVICTED);
    assert_eq!(case(ended(137, "OOMKilled", "")).classify().unwrap().reason, reasons::OOM_KILLED);
}

#[test]
fn a_task_that_its_user_or_its_timeout_ended_is_stopped() {
    for (phase, reason, expected) in [
        ("Completed", "UserStopped", true),
        ("Completed", "Timeout", true),
        ("Completed", "Succeeded", false),
        ("Failed", "BudgetExceeded", false),
        ("Running", "UserStopped", false),
    ] {
        let status = serde_json::from_value(json!({"phase": phase, "reason": reason})).unwrap();
        assert_eq!(is_stopped(&status), expected, "{phase} {reason}");
    }
}
