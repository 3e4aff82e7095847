//! Many Pods at once.

use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _};
use testenv::{cases, runner::Case};

use crate::world::{World, network, once, processes};

pub const CASES: &[Case] = cases![two_hundred_pods_run_at_once_and_leave_nothing];

async fn two_hundred_pods_run_at_once_and_leave_nothing() -> anyhow::Result<()> {
    let world = World::with(network()).await?;
    let begun = Instant::now();
    let names: Vec<String> = (0..200).map(|number| format!("pod-{number}")).collect();
    let create = |name: String| {
        let world = &world;
        async move {
            world.create(&name, once("sleep 2 & wait; echo done")).await?;
            anyhow::Ok(name)
        }
    };
    let created = futures::stream::iter(names.clone()).map(create).buffer_unordered(16);
    created.try_collect::<Vec<_>>().await?;
    for name in &names {
        world.phase(name, "Succeeded").await?;
    }
    println!("200 Pods that wait for 2 s took {:.1} s", begun.elapsed().as_secs_f64());
    let addresses: std::collections::BTreeSet<String> = world
        .pods()
        .list(&kube::api::ListParams::default())
        .await?
        .items
        .into_iter()
        .filter_map(|pod| pod.status?.pod_ip)
        .collect();
    assert_eq!(addresses.len(), 200, "each has its own address");
    let us = std::process::id().to_string();
    let zombies = processes().filter(|dir| {
        let stat = std::fs::read_to_string(dir.join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&us.as_str())
    });
    assert_eq!(zombies.count(), 0);
    world.end().await
}
