//! A mixed load of writes that no controller reacts to.

use std::time::{Duration, Instant};

use api::{Instruction, InstructionSpec};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// Clients that write at the same time.
const CLIENTS: usize = 16;
/// Writes of one round of a client.
const ROUND: u32 = 8;

/// Writes that a server acknowledged in a time.
pub struct Rate {
    /// Acknowledged writes.
    pub writes: u32,
    /// Time that they took.
    pub time: Duration,
}

impl Rate {
    /// Writes a second.
    pub fn a_second(&self) -> f64 {
        f64::from(self.writes) / self.time.as_secs_f64()
    }
}

/// Writes for about `length`: creates, merges, applies and deletes a custom resource and a built-in one in turn. `connect`
/// gives each client a connection of its own.
pub async fn run(
    connect: impl AsyncFn() -> anyhow::Result<Client>,
    namespace: &str,
    length: Duration,
) -> anyhow::Result<Rate> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect().await?);
    }
    let begin = Instant::now();
    let rounds = try_join_all(clients.into_iter().enumerate().map(|(number, client)| async move {
        let instructions: Api<Instruction> = Api::namespaced(client.clone(), namespace);
        let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
        let mut rounds = 0;
        while begin.elapsed() < length {
            round(&instructions, &maps, &format!("load-{number}-{rounds}")).await?;
            rounds += 1;
        }
        Ok::<u32, kube::Error>(rounds)
    }))
    .await?;
    Ok(Rate { writes: rounds.into_iter().sum::<u32>() * ROUND, time: begin.elapsed() })
}

async fn round(instructions: &Api<Instruction>, maps: &Api<ConfigMap>, name: &str) -> kube::Result<()> {
    let (create, merge) = (PostParams::default(), PatchParams::default());
    let apply = PatchParams::apply("bench").force();
    let delete = DeleteParams::default();
    let spec = InstructionSpec { text: Some("Write tests first.".repeat(20)), ..InstructionSpec::default() };
    instructions.create(&create, &Instruction::new(name, spec)).await?;
    let label = json!({ "metadata": { "labels": { "team": "bench" } } });
    instructions.patch(name, &merge, &Patch::Merge(&label)).await?;
    let applied = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Instruction", "metadata": { "name": name },
        "spec": { "text": "Write them last." },
    });
    instructions.patch(name, &apply, &Patch::Apply(&applied)).await?;

    let map = json!({ "metadata": { "name": name }, "data": { "task.md": "Say hello. ".repeat(40) } });
    let map: ConfigMap = serde_json::from_value(map).map_err(kube::Error::SerdeError)?;
    maps.create(&create, &map).await?;
    maps.patch(name, &merge, &Patch::Merge(&label)).await?;
    let applied =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "more": "Twice." } });
    maps.patch(name, &apply, &Patch::Apply(&applied)).await?;
    instructions.delete(name, &delete).await?;
    maps.delete(name, &delete).await?;
    Ok(())
}
