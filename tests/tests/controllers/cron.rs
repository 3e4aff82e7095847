//! Tasks by the clock.

use std::sync::Arc;

use anyhow::ensure;
use api::{CronTask, CronTaskStatus, Task};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::moment,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    events::until_event,
    world::{Alone, World, condition, explain, reason, shared},
};

pub const CASES: &[Case] = cases![
    a_time_that_has_come_creates_a_task,
    a_trigger_creates_a_task_now,
    forbid_lets_a_running_task_be,
    replace_stops_the_running_task_first,
    allow_runs_them_side_by_side,
    a_suspended_cron_task_creates_nothing_until_it_is_resumed,
    after_a_long_pause_the_last_missed_time_is_made_up_for_once,
    a_time_missed_by_more_than_its_deadline_is_skipped,
    no_more_tasks_exist_than_are_retained,
    tasks_with_its_label_count_whoever_created_them,
    a_schedule_that_cannot_be_read_is_said_so,
    a_task_that_the_api_server_refuses_is_said_so,
    a_trigger_whose_task_is_refused_is_tried_again,
    a_time_that_was_skipped_stays_skipped_when_its_task_is_gone,
    what_came_while_no_controller_ran_is_made_up_for,
];

const TRIGGER: &str = "kubeopencode.io/trigger";

/// Waits for a CronTask to be as wanted.
async fn until(
    world: &World,
    name: &str,
    what: &str,
    wanted: impl Fn(&CronTaskStatus) -> bool,
) -> anyhow::Result<CronTaskStatus> {
    let wanted = |cron: &CronTask| cron.status.as_ref().is_some_and(&wanted);
    let cron = world.record::<CronTask>().until_object(name, what, wanted).await?;
    Ok(cron.status.clone().unwrap_or_default())
}

/// Triggers a CronTask and waits until its status has shown the reason for not creating a Task.
async fn refuses(world: &World, name: &str, why: &str) -> anyhow::Result<()> {
    let crons = world.record::<CronTask>();
    crons.until_object(name, "there", |_| true).await?;
    world.annotate::<CronTask>(name, TRIGGER, "true").await?;
    let reported = |cron: &Arc<CronTask>| cron.status.as_ref().is_some_and(|status| ready(status) == why);
    crons.until(why, |crons| crons.versions().iter().any(reported).then_some(())).await
}

fn ready(status: &CronTaskStatus) -> String {
    condition(status.conditions.as_ref(), "Ready")
}

fn blocked(status: &CronTaskStatus) -> String {
    condition(status.conditions.as_ref(), "Blocked")
}

/// Waits until so many Tasks were created, and returns them by age.
async fn tasks(world: &World, number: usize) -> anyhow::Result<Vec<Arc<Task>>> {
    let mut found =
        world.tasks.until(&format!("{number} Tasks"), |t| Some(t.all()).filter(|all| all.len() >= number)).await?;
    found.sort_by_key(|task| task.metadata.name.clone());
    ensure!(found.len() == number, "{} Tasks, not {number}", found.len());
    Ok(found)
}

fn name(task: &Task) -> String {
    task.metadata.name.clone().unwrap_or_default()
}

async fn trigger(world: &World, cron: &str) -> anyhow::Result<()> {
    world.annotate::<CronTask>(cron, TRIGGER, "true").await?;
    until_trigger_is_handled(world, cron).await
}

/// Waits until a trigger was handled: a trigger set again before that counts once.
async fn until_trigger_is_handled(world: &World, cron: &str) -> anyhow::Result<()> {
    let pulled = |cron: &CronTask| cron.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(TRIGGER));
    world.record::<CronTask>().until_object(cron, "its trigger to be handled", |cron| !pulled(cron)).await?;
    Ok(())
}

async fn a_time_that_has_come_creates_a_task() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let cron = world.cron("tick", json!({"schedule": "* * * * *"})).await?;
        let first = tasks(&world, 1).await?.remove(0);
        let due = until(&world, "tick", "its first time", |status| status.last_schedule_time.is_some()).await?;
        let at = due.last_schedule_time.map(|time| time.0.as_second()).unwrap_or_default();
        ensure!(at % 60 == 0, "{at} is no full minute");
        ensure!(name(&first) == format!("tick-{at}"), "{}", name(&first));
        ensure!(due.next_schedule_time.map(|time| time.0.as_second()) == Some(at + 60), "the next time is wrong");
        let labels = first.metadata.labels.clone().unwrap_or_default();
        ensure!(labels.get("kubeopencode.io/crontask").is_some_and(|label| label == "tick"), "{labels:?}");
        let owners = first.metadata.owner_references.clone().unwrap_or_default();
        ensure!(owners.first().map(|owner| owner.uid.clone()) == cron.metadata.uid, "{owners:?}");
        world.succeeds(&name(&first)).await?;
        let status = until(&world, "tick", "its success", |status| status.last_successful_time.is_some()).await?;
        ensure!(status.total_executions == Some(1) && status.active == Some(0), "{status:?}");
        Ok(())
    })
    .await
}

async fn a_trigger_creates_a_task_now() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.cron("c", json!({})).await?;
        trigger(&world, "c").await?;
        let task = tasks(&world, 1).await?.remove(0);
        world.succeeds(&name(&task)).await?;
        trigger(&world, "c").await?;
        tasks(&world, 2).await?;
        let status = until(&world, "c", "two executions", |status| status.total_executions == Some(2)).await?;
        ensure!(ready(&status) == "True Scheduled", "{status:?}");
        Ok(())
    })
    .await
}

/// A CronTask whose first Task runs.
async fn occupied(world: &World, policy: &str) -> anyhow::Result<String> {
    world.template("t", json!({})).await?;
    let cron = world.cron("c", json!({"concurrencyPolicy": policy, "suspend": true})).await?;
    // The Tasks of a CronTask run until the script ends them: their names are not known before.
    let now = Timestamp::now().as_second();
    for second in now..now + 120 {
        world.hold(&format!("c-{second}"));
    }
    world.merge::<CronTask>("c", json!({"spec": {"suspend": false}})).await?;
    trigger(world, cron.metadata.name.as_deref().unwrap_or_default()).await?;
    let task = name(&tasks(world, 1).await?.remove(0));
    world.works(&task).await?;
    until(world, "c", "one active Task", |status| status.active == Some(1)).await?;
    Ok(task)
}

async fn forbid_lets_a_running_task_be() -> anyhow::Result<()> {
    shared(async |world| {
        let first = occupied(&world, "Forbid").await?;
        refuses(&world, "c", "True ActiveTaskExists").await?;
        let (kind, note) = until_event(&world, "c", "ActiveTaskExists").await?;
        ensure!(kind == "Warning" && note.starts_with("the trigger created no Task: Task 'c-"), "{kind} {note}");
        // And the reason stays as long as it holds.
        let status = world.api::<CronTask>().get("c").await?.status.unwrap_or_default();
        ensure!(ready(&status) == "True ActiveTaskExists", "{status:?}");
        tasks(&world, 1).await?;
        world.finish(&first);
        world.succeeds(&first).await?;
        trigger(&world, "c").await?;
        tasks(&world, 2).await?;
        Ok(())
    })
    .await
}

async fn replace_stops_the_running_task_first() -> anyhow::Result<()> {
    shared(async |world| {
        let first = occupied(&world, "Replace").await?;
        trigger(&world, "c").await?;
        let second = name(&tasks(&world, 2).await?.remove(1));
        let status = world.ended(&first).await?;
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        world.works(&second).await?;
        ensure!(crate::queue::most_running(&world) == 1, "both ran at once");
        Ok(())
    })
    .await
}

async fn allow_runs_them_side_by_side() -> anyhow::Result<()> {
    shared(async |world| {
        let first = occupied(&world, "Allow").await?;
        trigger(&world, "c").await?;
        let second = name(&tasks(&world, 2).await?.remove(1));
        world.works(&second).await?;
        until(&world, "c", "two active Tasks", |status| status.active == Some(2)).await?;
        world.finish(&first);
        world.finish(&second);
        world.succeeds(&first).await?;
        world.succeeds(&second).await?;
        Ok(())
    })
    .await
}

async fn a_suspended_cron_task_creates_nothing_until_it_is_resumed() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.cron("c", json!({"schedule": "@hourly", "suspend": true})).await?;
        until(&world, "c", "its suspension", |status| ready(status) == "False Suspended").await?;
        let hours_ago = Timestamp::now() - SignedDuration::from_hours(5);
        world.merge_status::<CronTask>("c", json!({"lastScheduleTime": moment(hours_ago)})).await?;
        let status = until(&world, "c", "a look", |status| status.last_schedule_time.is_some()).await?;
        ensure!(ready(&status) == "False Suspended" && world.tasks.all().is_empty(), "{status:?}");
        world.merge::<CronTask>("c", json!({"spec": {"suspend": false}})).await?;
        tasks(&world, 1).await?;
        Ok(())
    })
    .await
}

async fn after_a_long_pause_the_last_missed_time_is_made_up_for_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.cron("c", json!({"schedule": "0 * * * *", "suspend": true})).await?;
        // Upstream counts missed times and gives up at 100.
        let long_ago = Timestamp::now() - SignedDuration::from_hours(24 * 40);
        world.merge_status::<CronTask>("c", json!({"lastScheduleTime": moment(long_ago)})).await?;
        world.merge::<CronTask>("c", json!({"spec": {"suspend": false}})).await?;
        let task = tasks(&world, 1).await?.remove(0);
        let status = until(&world, "c", "its record", |status| status.total_executions == Some(1)).await?;
        let at = status.last_schedule_time.map(|time| time.0.as_second()).unwrap_or_default();
        ensure!(at % 3600 == 0 && Timestamp::now().as_second() - at < 3700, "{at} is not the last full hour");
        ensure!(name(&task) == format!("c-{at}"), "{}", name(&task));
        world.succeeds(&name(&task)).await?;
        until(&world, "c", "its success", |status| status.last_successful_time.is_some()).await?;
        tasks(&world, 1).await?;
        Ok(())
    })
    .await
}

async fn a_time_missed_by_more_than_its_deadline_is_skipped() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        // Yesterday's time, whatever time it is.
        let yesterday = Timestamp::now() - SignedDuration::from_hours(20);
        let hour = (yesterday.as_second() / 3600) % 24;
        let schedule = format!("0 {hour} * * *");
        world.cron("c", json!({"schedule": schedule, "startingDeadlineSeconds": 60, "suspend": true})).await?;
        let long_ago = Timestamp::now() - SignedDuration::from_hours(100);
        world.merge_status::<CronTask>("c", json!({"lastScheduleTime": moment(long_ago)})).await?;
        world.merge::<CronTask>("c", json!({"spec": {"suspend": false}})).await?;
        until(&world, "c", "its condition", |status| ready(status) == "True MissedDeadline").await?;
        ensure!(world.tasks.all().is_empty(), "it created a Task");
        Ok(())
    })
    .await
}

async fn no_more_tasks_exist_than_are_retained() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.cron("c", json!({"maxRetainedTasks": 1})).await?;
        trigger(&world, "c").await?;
        let first = name(&tasks(&world, 1).await?.remove(0));
        world.succeeds(&first).await?;
        // It is said before a run is asked for, and none is promised.
        let status =
            until(&world, "c", "its block", |status| blocked(status) == "True MaxRetainedTasksReached").await?;
        ensure!(ready(&status) == "False MaxRetainedTasksReached" && status.next_schedule_time.is_none(), "{status:?}");
        refuses(&world, "c", "False MaxRetainedTasksReached").await?;
        until_trigger_is_handled(&world, "c").await?;
        let (kind, note) = until_event(&world, "c", "MaxRetainedTasksReached").await?;
        ensure!(kind == "Warning" && note.contains("delete finished Tasks"), "{kind} {note}");
        tasks(&world, 1).await?;
        world.delete::<Task>(&first).await?;
        world.tasks.until_gone(&first).await?;
        let free = |status: &CronTaskStatus| blocked(status).is_empty() && status.next_schedule_time.is_some();
        until(&world, "c", "room", free).await?;
        trigger(&world, "c").await?;
        tasks(&world, 1).await?;
        Ok(())
    })
    .await
}

async fn tasks_with_its_label_count_whoever_created_them() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.cron("c", json!({"maxRetainedTasks": 2})).await?;
        let mine = |cron: serde_json::Value| json!({"metadata": {"labels": {"kubeopencode.io/crontask": cron}}});
        world.hold("by-hand");
        world.task("by-hand", json!({"templateRef": {"name": "t"}})).await?;
        world.works("by-hand").await?;
        world.merge::<Task>("by-hand", mine(json!("c"))).await?;
        let status = until(&world, "c", "the Task by hand", |status| status.active == Some(1)).await?;
        let named = |status: &CronTaskStatus| status.active_refs.iter().flatten().find_map(|task| task.name.clone());
        ensure!(named(&status).as_deref() == Some("by-hand"), "{status:?}");
        refuses(&world, "c", "True ActiveTaskExists").await?;
        world.finish("by-hand");
        world.succeeds("by-hand").await?;
        until_trigger_is_handled(&world, "c").await?;
        trigger(&world, "c").await?;
        tasks(&world, 2).await?;
        until(&world, "c", "its block", |status| blocked(status) == "True MaxRetainedTasksReached").await?;
        // A Task that loses the label does not count any more.
        world.merge::<Task>("by-hand", mine(serde_json::Value::Null)).await?;
        until(&world, "c", "room", |status| blocked(status).is_empty()).await?;
        Ok(())
    })
    .await
}

async fn a_schedule_that_cannot_be_read_is_said_so() -> anyhow::Result<()> {
    shared(async |world| {
        for (cron, schedule, zone) in
            [("minute", "61 * * * *", "UTC"), ("day", "0 0 31 2 *", "UTC"), ("zone", "0 0 * * *", "Mars/Base")]
        {
            world.cron(cron, json!({"schedule": schedule, "timeZone": zone})).await?;
            let status =
                until(&world, cron, "its condition", |status| ready(status) == "False InvalidSchedule").await?;
            ensure!(status.next_schedule_time.is_none(), "{status:?}");
        }
        world.merge::<CronTask>("minute", json!({"spec": {"schedule": "6 * * * *"}})).await?;
        until(&world, "minute", "its repair", |status| ready(status) == "True Scheduled").await?;
        Ok(())
    })
    .await
}

async fn a_task_that_the_api_server_refuses_is_said_so() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let spec = json!({"description": "say hello", "templateRef": {"name": "t"}});
        let template = json!({"metadata": {"labels": {"team": "not a label"}}, "spec": spec});
        let cron = json!({"schedule": "0 0 1 1 *", "suspend": true, "taskTemplate": template});
        world.create::<CronTask>("c", cron).await?;
        until(&world, "c", "its condition", |status| ready(status) == "False Suspended").await?;
        let years_ago = Timestamp::now() - SignedDuration::from_hours(24 * 700);
        world.merge_status::<CronTask>("c", json!({"lastScheduleTime": moment(years_ago)})).await?;
        world.merge::<CronTask>("c", json!({"spec": {"suspend": false}})).await?;
        let status = until(&world, "c", "its condition", |status| ready(status) == "False TaskNotCreated").await?;
        let messages =
            status.conditions.iter().flatten().map(|condition| condition.message.clone()).collect::<String>();
        ensure!(messages.contains("metadata.labels") && messages.contains("not a label"), "{messages}");
        ensure!(status.total_executions == Some(0), "{status:?}");
        let labels = json!({"team": "a"});
        world.merge::<CronTask>("c", json!({"spec": {"taskTemplate": {"metadata": {"labels": labels}}}})).await?;
        let task = tasks(&world, 1).await?.remove(0);
        world.succeeds(&name(&task)).await?;
        until(&world, "c", "its repair", |status| ready(status) == "True Scheduled").await?;
        Ok(())
    })
    .await
}

async fn a_trigger_whose_task_is_refused_is_tried_again() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let spec = json!({"description": "say hello", "templateRef": {"name": "t"}});
        let template = json!({"metadata": {"labels": {"team": "not a label"}}, "spec": spec});
        world.create::<CronTask>("c", json!({"schedule": "0 0 1 1 *", "taskTemplate": template})).await?;
        world.annotate::<CronTask>("c", TRIGGER, "true").await?;
        until(&world, "c", "its condition", |status| ready(status) == "False TaskNotCreated").await?;
        let labels = json!({"team": "a"});
        world.merge::<CronTask>("c", json!({"spec": {"taskTemplate": {"metadata": {"labels": labels}}}})).await?;
        let task = tasks(&world, 1).await?.remove(0);
        world.succeeds(&name(&task)).await?;
        let pulled = |cron: &CronTask| cron.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(TRIGGER));
        world.record::<CronTask>().until_object("c", "its trigger to be gone", |cron| !pulled(cron)).await?;
        let status = until(&world, "c", "its repair", |status| ready(status) == "True Scheduled").await?;
        ensure!(status.total_executions == Some(1), "{status:?}");
        tasks(&world, 1).await?;
        Ok(())
    })
    .await
}

async fn a_time_that_was_skipped_stays_skipped_when_its_task_is_gone() -> anyhow::Result<()> {
    shared(async |world| {
        let first = occupied(&world, "Forbid").await?;
        let years_ago = Timestamp::now() - SignedDuration::from_hours(24 * 700);
        world.merge_status::<CronTask>("c", json!({"lastScheduleTime": moment(years_ago)})).await?;
        let status = until(&world, "c", "a time that is skipped", |status| status.last_skipped_time.is_some()).await?;
        ensure!(ready(&status) == "True ActiveTaskExists", "{status:?}");
        world.delete::<Task>(&first).await?;
        world.tasks.until_gone(&first).await?;
        let status = until(&world, "c", "nothing to do", |status| ready(status) == "True Scheduled").await?;
        ensure!(status.active == Some(0) && world.tasks.all().is_empty(), "it was made up for: {status:?}");
        Ok(())
    })
    .await
}

async fn what_came_while_no_controller_ran_is_made_up_for() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({})).await?;
    world.cron("c", json!({"schedule": "*/5 * * * *"})).await?;
    let hours_ago = Timestamp::now() - SignedDuration::from_hours(3);
    world.merge_status::<CronTask>("c", json!({"lastScheduleTime": moment(hours_ago)})).await?;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        let task = tasks(world, 1).await?.remove(0);
        world.succeeds(&name(&task)).await?;
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}
