//! Tasks that others depend on: how long they are waited for, and how long they stay.

use anyhow::ensure;
use api::{Task, TaskStatus};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::moment,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::world::{Alone, explain, message, shared};

pub const CASES: &[Case] = cases![
    a_dependency_stays_until_its_dependant_has_ended_and_not_longer,
    a_dependency_stays_until_its_dependant_is_deleted_and_not_longer,
    a_dependency_that_is_created_again_is_waited_for,
];

async fn cleaned_up(ends: bool) -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.configure(json!({"cleanup": {"ttlSecondsAfterFinished": 0}})).await?;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.template("t", json!({})).await?;
        world.hold("first");
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        world.hold("second");
        let depends_on = json!([{"task": "first"}]);
        world.task("second", json!({"templateRef": {"name": "t"}, "dependsOn": depends_on})).await?;
        world.waits("second", "WaitingForDependency").await?;
        world.finish("first");
        world.works("second").await?;
        // A Task that is not needed is removed at once; when this one is gone, the first would be.
        world.task("other", json!({"templateRef": {"name": "t"}})).await?;
        world
            .tasks
            .until("the end of other", |t| {
                t.versions()
                    .iter()
                    .any(|task| {
                        task.metadata.name.as_deref() == Some("other")
                            && task.status.as_ref().is_some_and(|s| s.completion_time.is_some())
                    })
                    .then_some(())
            })
            .await?;
        world.tasks.until_gone("other").await?;
        ensure!(world.tasks.now("first").is_some(), "it was deleted although another Task needs it");
        if ends {
            world.finish("second");
            world.tasks.until_gone("second").await?;
        } else {
            world.delete::<Task>("second").await?;
        }
        world.tasks.until_gone("first").await
    };
    explain(outcome.await, world, &[&controller])
}

async fn a_dependency_stays_until_its_dependant_has_ended_and_not_longer() -> anyhow::Result<()> {
    cleaned_up(true).await
}

async fn a_dependency_stays_until_its_dependant_is_deleted_and_not_longer() -> anyhow::Result<()> {
    cleaned_up(false).await
}

async fn a_dependency_that_is_created_again_is_waited_for() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("first");
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        let depends_on = json!([{"task": "first"}]);
        world.task("second", json!({"templateRef": {"name": "t"}, "dependsOn": depends_on})).await?;
        world.waits("second", "WaitingForDependency").await?;
        // It has waited for longer than anything that is missing is waited for.
        let long_ago = moment(Timestamp::now() - SignedDuration::from_hours(1));
        world.merge_status::<Task>("second", json!({"timings": {"queuedAt": long_ago}})).await?;
        world.delete::<Task>("first").await?;
        let missed =
            |status: &TaskStatus| message(status).starts_with("Task 'first' must end first and does not exist");
        let status = world.until("second", "what is missing", missed).await?;
        ensure!(message(&status).contains("this Task fails at"), "{status:?}");
        world.finish("first");
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("second").await?;
        Ok(())
    })
    .await
}
