#![allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]

use std::fmt::Write as _;

use api::{Task, TaskPhase};
use serde_json::{Value, json};

use super::*;

const NAME: &str = "nightly";

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

/// Due at every full hour; created at 00:00:30; `more` goes into the spec.
fn cron(more: Value) -> CronTask {
    let mut spec = json!({"schedule": "0 * * * *", "taskTemplate": {
        "metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}},
        "spec": {"description": "do it", "agentRef": {"name": "a"}},
    }});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut cron = CronTask::new(NAME, serde_json::from_value(spec).unwrap());
    cron.metadata.namespace = Some("ns".into());
    cron.metadata.uid = Some("cron-uid".into());
    cron.metadata.generation = Some(3);
    cron.metadata.creation_timestamp = Some(Time(at("00:00:30")));
    cron
}

fn last(mut cron: CronTask, time: &str) -> CronTask {
    cron.status.get_or_insert_default().last_schedule_time = Some(Time(at(time)));
    cron
}

fn triggered(mut cron: CronTask) -> CronTask {
    cron.metadata.annotations = Some([(annotations::TRIGGER.to_owned(), "true".to_owned())].into());
    cron
}

/// The trigger was seen at this time.
fn accepted(cron: CronTask, time: &str) -> CronTask {
    let mut cron = triggered(cron);
    cron.metadata.annotations = Some([(annotations::TRIGGER.to_owned(), at(time).to_string())].into());
    cron
}

fn name(time: &str) -> String {
    format!("{NAME}-{}", at(time).as_second())
}

fn child(created: &str) -> ChildTask {
    ChildTask {
        name: name(created),
        uid: "u".into(),
        created: at(created),
        active: true,
        ended_at: None,
        succeeded: false,
        stop_requested: false,
    }
}

fn ended(created: &str, end: &str) -> ChildTask {
    ChildTask { active: false, ended_at: Some(at(end)), succeeded: true, ..child(created) }
}

fn stopping(created: &str) -> ChildTask {
    ChildTask { stop_requested: true, ..child(created) }
}

/// Plans and compares the actions, as a line: `accept T, create T, stop T, clear, Status Reason`.
#[track_caller]
fn check(cron: &CronTask, children: &[ChildTask], now: &str, expected: &str) -> CronPlan {
    let plan = plan(cron, children, at(now));
    let mut line = String::new();
    if let Some(time) = plan.accept_trigger {
        write!(line, "accept {}, ", time.strftime("%H:%M:%S")).unwrap();
    }
    if let Some(task) = &plan.create {
        let seconds: i64 = task.metadata.name.as_deref().unwrap().rsplit('-').next().unwrap().parse().unwrap();
        let time = Timestamp::from_second(seconds).unwrap();
        write!(line, "create {}, ", time.strftime("%H:%M:%S")).unwrap();
    }
    for stop in &plan.stop {
        write!(line, "stop {stop}, ").unwrap();
    }
    if plan.clear_trigger {
        line.push_str("clear, ");
    }
    let ready = status::find(plan.status.conditions.as_deref().unwrap(), types::READY).unwrap();
    write!(line, "{} {}", ready.status, ready.reason).unwrap();
    assert_eq!(line, expected, "{}", ready.message);
    plan
}

#[test]
fn a_task_is_created_when_the_time_has_come() {
    let cron = cron(json!({}));
    let plan = check(&cron, &[], "00:59:59", "True Scheduled");
    assert_eq!(plan.next_wake, Some(at("01:00:00")));
    assert_eq!(plan.status.last_schedule_time, None);
    let plan = check(&cron, &[], "01:00:00", "create 01:00:00, True Scheduled");
    assert_eq!(plan.status.last_schedule_time, Some(Time(at("01:00:00"))));
    assert_eq!(plan.status.next_schedule_time, Some(Time(at("02:00:00"))));
    assert_eq!((plan.status.total_executions, plan.status.observed_generation), (Some(1), Some(3)));

    let task = plan.create.unwrap();
    assert_eq!(task.metadata.name, Some(name("01:00:00")));
    assert_eq!(task.metadata.namespace.as_deref(), Some("ns"));
    let labels = task.metadata.labels.unwrap();
    assert_eq!((labels["team"].as_str(), labels[labels::CRON_TASK].as_str()), ("x", NAME));
    assert_eq!(labels[labels::AGENT], "a");
    assert_eq!(task.metadata.annotations.unwrap()["note"], "y");
    let owner = &task.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.controller), ("cron-uid", Some(true)));
    assert_eq!(task.spec.description.as_deref(), Some("do it"));
}

#[test]
fn a_task_whose_creation_was_not_recorded_is_not_created_twice() {
    let plan = check(&cron(json!({})), &[child("01:00:00")], "01:00:05", "True Scheduled");
    assert_eq!(plan.status.last_schedule_time, Some(Time(at("01:00:00"))));
    assert_eq!(plan.status.total_executions, Some(1));
    let again = last(cron(json!({})), "01:00:00");
    check(&again, &[child("01:00:00")], "01:00:05", "True Scheduled");
}

#[test]
fn after_a_pause_the_most_recent_time_is_made_up_once_and_then_it_goes_on() {
    let cron = last(cron(json!({"schedule": "* * * * *"})), "00:01:00");
    let plan = check(&cron, &[], "23:00:30", "create 23:00:00, True Scheduled");
    let mut later = cron;
    later.status = Some(plan.status);
    let done = ended("23:00:00", "23:00:40");
    check(&later, std::slice::from_ref(&done), "23:00:50", "True Scheduled");
    check(&later, &[done], "23:01:00", "create 23:01:00, True Scheduled");
}

#[test]
fn a_time_beyond_its_deadline_is_passed_over() {
    let cron = last(cron(json!({"startingDeadlineSeconds": 10})), "01:00:00");
    check(&cron, &[], "04:00:10", "create 04:00:00, True Scheduled");
    let plan = check(&cron, &[], "04:00:11", "True MissedDeadline");
    let message = "the time 2026-01-01T04:00:00Z was missed by more than startingDeadlineSeconds (10), and 2 before it";
    assert_eq!(plan.status.conditions.unwrap()[0].message, message);
    assert_eq!(plan.next_wake, Some(at("05:00:00")));
    check(&cron, &[], "05:00:00", "create 05:00:00, True Scheduled");
}

#[test]
fn forbid_skips_the_time_for_good() {
    let cron = last(cron(json!({})), "01:00:00");
    let plan = check(&cron, &[child("01:00:00")], "02:00:00", "True ActiveTaskExists");
    assert_eq!(plan.next_wake, Some(at("03:00:00")));
    // After its end the skipped time is not made up.
    check(&cron, &[ended("01:00:00", "02:30:00")], "02:30:00", "True Scheduled");
    check(&cron, &[ended("01:00:00", "02:30:00")], "03:00:00", "create 03:00:00, True Scheduled");
    // Nor after the running Task is deleted.
    assert_eq!(plan.status.last_skipped_time, Some(Time(at("02:00:00"))));
    assert_eq!(
        (plan.status.last_schedule_time.as_ref(), plan.status.total_executions),
        (Some(&Time(at("01:00:00"))), Some(0))
    );
    let mut later = cron;
    later.status = Some(plan.status);
    check(&later, &[child("01:00:00")], "02:10:00", "True ActiveTaskExists");
    check(&later, &[], "02:30:00", "True Scheduled");
    check(&later, &[], "03:00:00", "create 03:00:00, True Scheduled");
}

#[test]
fn allow_creates_another() {
    let cron = last(cron(json!({"concurrencyPolicy": "Allow"})), "01:00:00");
    let plan = check(&cron, &[child("01:00:00")], "02:00:00", "create 02:00:00, True Scheduled");
    assert_eq!((plan.status.active, plan.status.active_refs.unwrap().len()), (Some(1), 1));
}

#[test]
fn replace_waits_for_the_old_one_to_end() {
    let cron = last(cron(json!({"concurrencyPolicy": "Replace", "startingDeadlineSeconds": 5})), "01:00:00");
    let stop = format!("stop {}, True ActiveTaskExists", name("01:00:00"));
    check(&cron, &[child("01:00:00")], "02:00:00", &stop);
    check(&cron, &[stopping("01:00:00")], "02:00:30", "True ActiveTaskExists");
    // Stopping took longer than the deadline: that does not count against the new Task.
    let old = ChildTask { stop_requested: true, succeeded: false, ..ended("01:00:00", "02:00:40") };
    check(&cron, &[old], "02:00:41", "create 02:00:00, True Scheduled");
}

#[test]
fn no_more_than_the_retained_limit() {
    let old = |hour: &str| ended(hour, "00:59:00");
    let limited = last(cron(json!({"maxRetainedTasks": 2})), "01:00:00");
    check(&limited, &[old("00:10:00")], "02:00:00", "create 02:00:00, True Scheduled");
    let full = [old("00:10:00"), old("00:20:00")];
    let plan = check(&limited, &full, "02:00:00", "False MaxRetainedTasksReached");
    let message = "no run starts, because the CronTask has as many Tasks as maxRetainedTasks (2) allows; delete finished \
                   Tasks, raise spec.maxRetainedTasks, or set cleanup in the KubeOpenCodeConfig";
    let blocked = status::find(plan.status.conditions.as_deref().unwrap(), types::BLOCKED).unwrap();
    assert_eq!((blocked.status.as_str(), blocked.message.as_str()), ("True", message));
    // It is said before a time is due, too, and no next time is promised.
    assert_eq!((plan.next_wake, &plan.status.next_schedule_time), (None, &None));
    let early = check(&limited, &full, "01:30:00", "False MaxRetainedTasksReached");
    assert_eq!((early.next_wake, &early.status.next_schedule_time), (None, &None));
    // With room again, the time that is due is made up for, and nothing is said to be blocked.
    let mut later = limited.clone();
    later.status = Some(plan.status);
    let plan = check(&later, &full[..1], "02:10:00", "create 02:00:00, True Scheduled");
    assert_eq!(status::find(plan.status.conditions.as_deref().unwrap(), types::BLOCKED), None);
    assert_eq!(plan.status.next_schedule_time, Some(Time(at("03:00:00"))));
    // A suspended CronTask that is full is both.
    let suspended = triggered(cron(json!({"maxRetainedTasks": 2, "suspend": true})));
    let plan = check(&suspended, &full, "02:00:00", "clear, False Suspended");
    assert!(status::holds(plan.status.conditions.as_deref(), types::BLOCKED));
    assert_eq!(plan.refusal.unwrap().message, format!("the trigger created no Task: {message}"));
    // No Task is stopped for one that cannot be created.
    let replace = last(cron(json!({"maxRetainedTasks": 1, "concurrencyPolicy": "Replace"})), "01:00:00");
    check(&replace, &[child("01:00:00")], "02:00:00", "False MaxRetainedTasksReached");
}

#[test]
fn suspended_means_no_times_and_no_next() {
    let cron = last(cron(json!({"suspend": true})), "01:00:00");
    let plan = check(&cron, &[], "05:00:00", "False Suspended");
    assert_eq!((plan.next_wake, plan.status.next_schedule_time), (None, None));
}

#[test]
fn a_schedule_that_cannot_be_read_says_why() {
    let plan = check(&cron(json!({"schedule": "0 0 31 2 *"})), &[], "05:00:00", "False InvalidSchedule");
    let message = "schedule '0 0 31 2 *' never comes: none of its months has such a day";
    assert_eq!(plan.status.conditions.unwrap()[0].message, message);
    check(&cron(json!({"timeZone": "Nowhere"})), &[], "05:00:00", "False InvalidSchedule");
}

#[test]
fn a_trigger_creates_one_now() {
    let plan = check(&triggered(cron(json!({}))), &[], "00:30:07", "accept 00:30:07, True Scheduled");
    assert_eq!((plan.status.total_executions, plan.next_wake), (Some(0), Some(at("00:30:07"))));
    let seen = |more: Value| accepted(cron(more), "00:30:07");
    let plan = check(&seen(json!({})), &[], "00:30:07", "create 00:30:07, clear, True Scheduled");
    assert_eq!(plan.status.last_schedule_time, Some(Time(at("00:30:07"))));
    assert_eq!(plan.status.total_executions, Some(1));
    check(&seen(json!({"suspend": true})), &[], "00:30:07", "create 00:30:07, clear, False Suspended");
    check(&seen(json!({"schedule": "x"})), &[], "00:30:07", "create 00:30:07, clear, False InvalidSchedule");
    // The name exists: use the next second.
    let allow = triggered(cron(json!({"concurrencyPolicy": "Allow"})));
    check(&allow, &[child("00:30:07")], "00:30:07", "accept 00:30:08, True Scheduled");
}

#[test]
fn a_trigger_whose_task_was_not_created_is_tried_again_and_creates_one() {
    let cron = accepted(cron(json!({})), "00:30:07");
    check(&cron, &[], "00:35:00", "create 00:30:07, clear, True Scheduled");
    // An earlier pass created it and did not remove the trigger.
    let plan = check(&cron, &[child("00:30:07")], "00:35:00", "clear, True Scheduled");
    assert_eq!(plan.status.total_executions, Some(1));
    let mut reported = cron;
    reported.status = Some(plan.status);
    let plan = check(&reported, &[child("00:30:07")], "00:35:01", "clear, True Scheduled");
    assert_eq!(plan.status.total_executions, Some(1));
}

#[test]
fn a_trigger_honours_policy_and_limit() {
    let forbid = triggered(cron(json!({})));
    let plan = check(&forbid, &[child("00:10:00")], "00:30:00", "clear, True ActiveTaskExists");
    let message = format!(
        "the trigger created no Task: Task '{}' still runs, and concurrencyPolicy Forbid allows no other",
        name("00:10:00")
    );
    assert_eq!(plan.refusal, Some(Refusal { reason: reasons::ACTIVE_TASK_EXISTS, message }));
    assert_eq!(plan.status.last_skipped_time, None);
    // The condition stays as long as it holds.
    let mut later = cron(json!({}));
    later.status = Some(plan.status);
    let plan = check(&later, &[child("00:10:00")], "00:31:00", "True ActiveTaskExists");
    assert_eq!(plan.refusal, None);
    check(&later, &[ended("00:10:00", "00:32:00")], "00:33:00", "True Scheduled");
    let full = triggered(cron(json!({"maxRetainedTasks": 1})));
    let plan = check(&full, &[ended("00:10:00", "00:11:00")], "00:30:00", "clear, False MaxRetainedTasksReached");
    assert_eq!(plan.refusal.map(|refusal| refusal.reason), Some(reasons::MAX_RETAINED_TASKS_REACHED));
    // The same is known before the trigger.
    let refusal = |cron: &CronTask, children: &[ChildTask]| {
        trigger_refusal(cron, children, at("00:30:00")).map(|refusal| refusal.reason)
    };
    assert_eq!(refusal(&full, &[ended("00:10:00", "00:11:00")]), Some(reasons::MAX_RETAINED_TASKS_REACHED));
    assert_eq!(refusal(&forbid, &[child("00:10:00")]), Some(reasons::ACTIVE_TASK_EXISTS));
    assert_eq!(refusal(&forbid, &[ended("00:10:00", "00:11:00")]), None);
    // There was room when the trigger was seen.
    check(&accepted(cron(json!({})), "00:29:00"), &[child("00:10:00")], "00:30:00", "clear, True ActiveTaskExists");
    let replace = triggered(cron(json!({"concurrencyPolicy": "Replace"})));
    let stop = format!("stop {}, True ActiveTaskExists", name("00:10:00"));
    check(&replace, &[child("00:10:00")], "00:30:00", &stop);
    check(&replace, &[stopping("00:10:00")], "00:30:10", "True ActiveTaskExists");
    let old = ChildTask { stop_requested: true, ..ended("00:10:00", "00:30:20") };
    check(&replace, &[old], "00:30:21", "accept 00:30:21, True Scheduled");
}

#[test]
fn a_trigger_at_the_full_hour_does_not_swallow_the_scheduled_task() {
    let cron = triggered(cron(json!({"concurrencyPolicy": "Allow"})));
    let plan = check(&cron, &[], "01:00:00", "create 01:00:00, True Scheduled");
    assert_eq!(plan.next_wake, Some(at("01:00:00")));
    let mut next = cron;
    next.status = Some(plan.status);
    check(&next, &[child("01:00:00")], "01:00:00", "accept 01:00:01, True Scheduled");
}

#[test]
fn a_stopped_task_is_no_success() {
    let mut task = Task::new("t", serde_json::from_value(json!({})).unwrap());
    let mut status = api::TaskStatus {
        phase: Some(TaskPhase::Completed),
        completion_time: Some(Time(at("01:10:00"))),
        ..api::TaskStatus::default()
    };
    task.status = Some(status.clone());
    assert!(ChildTask::of(&task).succeeded);
    let mut conditions = Vec::new();
    status::set(&mut conditions, types::STOPPED, true, reasons::TIMEOUT, "", None, at("01:10:00"));
    status.conditions = Some(conditions);
    task.status = Some(status);
    let stopped = ChildTask::of(&task);
    assert!(!stopped.succeeded && !stopped.active);

    let good = ended("00:10:00", "00:20:00");
    let plan = check(&cron(json!({})), &[good, stopped], "00:50:00", "True Scheduled");
    assert_eq!(plan.status.last_successful_time, Some(Time(at("00:20:00"))));
    // The time stays when the Task is deleted.
    let mut later = cron(json!({}));
    later.status = Some(plan.status);
    let plan = check(&later, &[], "00:51:00", "True Scheduled");
    assert_eq!(plan.status.last_successful_time, Some(Time(at("00:20:00"))));
}

#[test]
fn planning_again_changes_nothing() {
    let cron = last(cron(json!({})), "01:00:00");
    let first = plan(&cron, &[child("01:00:00")], at("01:10:00"));
    let mut written = cron;
    written.status = Some(first.status.clone());
    let second = plan(&written, &[child("01:00:00")], at("01:20:00"));
    assert!(status::same_ignoring_times(&first.status, &second.status));
}
