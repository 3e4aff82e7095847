//! Several controllers at once: one works.

use anyhow::ensure;
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;

use crate::world::{Alone, World, explain};

pub const CASES: &[Case] = cases![
    another_controller_takes_over_when_the_leader_is_killed,
    a_leader_that_was_frozen_too_long_writes_nothing_more_and_ends,
    a_leader_that_slept_through_the_turn_of_another_one_ends_although_the_lease_is_free,
    a_lease_whose_holder_has_a_clock_far_behind_is_left_to_it,
];

const LEASE: &str = "kubeopencode.io";

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), "default")
}

/// Sets the holder of the lease, or removes it.
async fn hand_over(world: &World, holder: Option<&str>) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": holder}}));
    leases(world).patch(LEASE, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn contender(world: &World, name: &'static str) -> anyhow::Result<Controller> {
    Controller::start(world.cluster, Options { leader: Some(name), ..Options::default() }).await
}

async fn another_controller_takes_over_when_the_leader_is_killed() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let leader = contender(world, "leader").await?;
    leader.wait_for_log("working").await?;
    let other = contender(world, "other").await?;
    let outcome = async {
        world.template("t", json!({})).await?;
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("first").await?;
        ensure!(leader.leads().await? && !other.leads().await?, "both lead, or none");
        ensure!(other.writes().await?.is_empty(), "the other one wrote, too: {:?}", other.writes().await?);
        world.hold("second");
        world.task("second", json!({"templateRef": {"name": "t"}})).await?;
        world.works("second").await?;
        leader.kill().await?;
        world.finish("second");
        world.task("third", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("second").await?;
        world.succeeds("third").await?;
        ensure!(other.leads().await?, "no process leads");
        world.each_run_has_one_pod()?;
        // One that ends well gives the lease back: the next need not wait.
        other.terminate().await?;
        let next = contender(world, "next").await?;
        next.wait_for_log("working").await?;
        next.terminate().await
    };
    explain(outcome.await, world, &[&leader, &other])
}

async fn a_leader_that_was_frozen_too_long_writes_nothing_more_and_ends() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let leader = contender(world, "frozen").await?;
    leader.wait_for_log("working").await?;
    let other = contender(world, "other").await?;
    let outcome = async {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.hold("a");
        world.task("a", json!({"templateRef": {"name": "t"}})).await?;
        world.works("a").await?;
        for name in ["b", "c", "d"] {
            world.hold(name);
            world.task(name, json!({"templateRef": {"name": "t"}})).await?;
            world.waits(name, "TemplateAtCapacity").await?;
        }
        leader.send(Signal::STOP)?;
        // Work that it finds when it wakes: a slot became free.
        world.finish("a");
        world.succeeds("a").await?;
        world.works("b").await?;
        let before = world.tasks.versions().len();
        leader.send(Signal::CONT)?;
        let status = leader.exit().await?;
        ensure!(!status.success(), "it ended as if nothing had happened");
        // The other process has no work meanwhile, so every write now comes from the frozen one.
        ensure!(world.tasks.versions().len() == before, "it wrote after it had woken up");
        for name in ["b", "c", "d"] {
            world.finish(name);
            world.succeeds(name).await?;
        }
        ensure!(crate::queue::most_running(world) == 1, "two ran at once");
        world.each_run_has_one_pod()?;
        other.terminate().await
    };
    explain(outcome.await, world, &[&leader, &other])
}

async fn a_leader_that_slept_through_the_turn_of_another_one_ends_although_the_lease_is_free() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let leader = contender(world, "asleep").await?;
    leader.wait_for_log("working").await?;
    let outcome = async {
        leader.send(Signal::STOP)?;
        hand_over(world, Some("other")).await?;
        hand_over(world, None).await?;
        leader.send(Signal::CONT)?;
        let status = leader.exit().await?;
        ensure!(!status.success(), "it ended as if nothing had happened");
        // It left the lease alone, so that the next need not wait.
        let holder = leases(world).get(LEASE).await?.spec.and_then(|spec| spec.holder_identity);
        ensure!(holder.is_none(), "{holder:?} holds the lease");
        let next = contender(world, "next").await?;
        next.wait_for_log("working").await?;
        next.terminate().await
    };
    explain(outcome.await, world, &[&leader])
}

async fn a_lease_whose_holder_has_a_clock_far_behind_is_left_to_it() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let spec = json!({
        "holderIdentity": "behind", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z",
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec,
    });
    leases(world).patch(LEASE, &PatchParams::apply("blackbox").force(), &Patch::Apply(lease)).await?;
    let other = contender(world, "other").await?;
    let outcome = async {
        other.wait_for_log("another process leads").await?;
        let holder = leases(world).get(LEASE).await?.spec.and_then(|spec| spec.holder_identity);
        ensure!(holder.as_deref() == Some("behind"), "{holder:?} holds the lease");
        ensure!(other.writes().await?.is_empty(), "it wrote: {:?}", other.writes().await?);
        hand_over(world, None).await?;
        other.wait_for_log("working").await?;
        other.terminate().await
    };
    explain(outcome.await, world, &[&other])
}
