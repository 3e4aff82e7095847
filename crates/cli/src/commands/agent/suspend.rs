//! `agent suspend` and `agent resume`.

use std::time::Duration;

use api::{Agent, names::annotations};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{note, print},
    problem::{Answer, Problem},
    span, tunnel,
};

/// Arguments of `agent suspend` and `agent resume`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The Agent.
    #[arg(value_name = "AGENT")]
    name: String,
    /// Wait until it is so.
    #[arg(short, long)]
    wait: bool,
    /// Wait at most this long.
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = span::read)]
    timeout: Duration,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Suspends or resumes an Agent.
pub async fn run(cluster: Cluster, args: Args, suspend: bool) -> Answer<Exit> {
    let agent = tunnel::find(&cluster, &args.name).await?;
    let name = agent.name_any();
    let result = if suspend { "suspended" } else { "resumed" };
    if agent.spec.suspend == suspend && !is_standby(&agent) {
        print(&format!("agent.kubeopencode.io/{name} is {result} already\n"))?;
    } else {
        set(&cluster, &name, suspend).await?;
        print(&format!("agent.kubeopencode.io/{name} {result}\n"))?;
    }
    if args.wait && suspend {
        let gone = |agent: Option<&Agent>| agent.is_none_or(|agent| status(agent, |status| status.suspended));
        wait(&cluster, &name, gone, args.timeout, "is not scaled to zero").await?;
    } else if args.wait {
        ready(&cluster, &name, args.timeout).await?;
    }
    Ok(Exit::Success)
}

/// Whether standby suspended the Agent. Then an explicit suspend is still a change: it keeps the Agent suspended.
fn is_standby(agent: &Agent) -> bool {
    agent.annotations().contains_key(annotations::SUSPENDED_BY)
}

fn status(agent: &Agent, field: impl Fn(&api::AgentStatus) -> Option<bool>) -> bool {
    agent.status.as_ref().and_then(field) == Some(true)
}

/// Sets `spec.suspend` and removes the standby annotation: the explicit choice of the user takes precedence.
pub async fn set(cluster: &Cluster, name: &str, suspend: bool) -> Answer<()> {
    let patch = json!({
        "metadata": { "annotations": { annotations::SUSPENDED_BY: Value::Null } },
        "spec": { "suspend": suspend },
    });
    cluster.api::<Agent>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Waits until the Agent is ready.
pub async fn ready(cluster: &Cluster, name: &str, patience: Duration) -> Answer<()> {
    let is_ready = |agent: Option<&Agent>| agent.is_some_and(|agent| status(agent, |status| status.ready));
    note(&format!("waiting for Agent '{name}' to be ready"));
    wait(cluster, name, is_ready, patience, "is not ready").await
}

async fn wait(
    cluster: &Cluster,
    name: &str,
    condition: impl Fn(Option<&Agent>) -> bool,
    patience: Duration,
    trouble: &str,
) -> Answer<()> {
    let agents: Api<Agent> = cluster.api();
    match tokio::time::timeout(patience, await_condition(agents, name, condition)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Problem::new(error.to_string())),
        Err(_) => Err(Problem::new(format!("Agent '{name}' {trouble} after {patience:?}"))
            .next(format!("see why: {}", cluster.hint(format!("kubeopencode explain agent/{name}"))))),
    }
}
