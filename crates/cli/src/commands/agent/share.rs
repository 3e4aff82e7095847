//! `agent share` and `agent unshare`: a link that opens the agent's terminal.

use std::time::Duration;

use api::{Agent, kinds::agent::Share};
use domain::workload::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Time};
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

/// Timeout for the Secret, which the controllers create at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `agent share`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The Agent.
    #[arg(value_name = "AGENT")]
    name: String,
    /// The link stops opening after this time, such as 24h; never when unset.
    #[arg(long, value_name = "SPAN", value_parser = span::read)]
    expires_in: Option<Duration>,
    /// Only from these addresses or ranges.
    #[arg(long = "allowed-ips", value_name = "ADDRESS", value_delimiter = ',')]
    allowed_ips: Vec<String>,
    /// Only show the link that is there.
    #[arg(long, conflicts_with_all = ["expires_in", "allowed_ips"])]
    show: bool,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Arguments of `agent unshare`.
#[derive(Debug, clap::Args)]
pub struct UnshareArgs {
    /// The Agent.
    #[arg(value_name = "AGENT")]
    name: String,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Opens or shows the link.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let agent = tunnel::find(&cluster, &args.name).await?;
    let name = agent.name_any();
    let share = if args.show {
        agent.spec.share.clone().filter(|share| share.enabled).ok_or_else(|| {
            Problem::not_found(format!("Agent '{name}' is not shared")).next(format!(
                "share it with: {}",
                cluster.hint(format!("kubeopencode agent share {name} --expires-in 24h"))
            ))
        })?
    } else {
        let share = wish(args.expires_in, args.allowed_ips, Timestamp::now());
        set(&cluster, &name, &share).await?;
        share
    };
    let token = token(&cluster, &name).await?;
    print(&format!("/s/{token}\n"))?;
    note(&about(&name, &share, &cluster.namespace_flag()));
    Ok(Exit::Success)
}

/// Closes the link.
pub async fn close(cluster: Cluster, args: UnshareArgs) -> Answer<Exit> {
    let agent = tunnel::find(&cluster, &args.name).await?;
    set(&cluster, &agent.name_any(), &Share::default()).await?;
    print(&format!("agent.kubeopencode.io/{} is not shared any more\n", agent.name_any()))?;
    Ok(Exit::Success)
}

fn wish(expires_in: Option<Duration>, allowed_ips: Vec<String>, now: Timestamp) -> Share {
    let until =
        expires_in.and_then(|span| SignedDuration::try_from(span).ok()).and_then(|span| now.checked_add(span).ok());
    let until = until.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    Share { enabled: true, expires_at: until.map(Time), allowed_ips: (!allowed_ips.is_empty()).then_some(allowed_ips) }
}

async fn set(cluster: &Cluster, name: &str, share: &Share) -> Answer<()> {
    // Null removes settings of an earlier link.
    let patch = json!({ "spec": { "share": {
        "enabled": share.enabled,
        "expiresAt": share.expires_at.as_ref().map_or(Value::Null, |time| time.0.to_string().into()),
        "allowedIPs": share.allowed_ips,
    } } });
    cluster.api::<Agent>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The token, once the controllers have created it.
async fn token(cluster: &Cluster, agent: &str) -> Answer<String> {
    let secrets: Api<Secret> = cluster.api();
    let name = names::agent_share(agent);
    let has_token = |secret: Option<&Secret>| secret.and_then(token_of).is_some();
    // A user without the right to watch may still have the right to get.
    let found = match secrets.get_opt(&name).await? {
        Some(secret) if token_of(&secret).is_some() => Some(secret),
        _ => match tokio::time::timeout(PATIENCE, await_condition(secrets, &name, has_token)).await {
            Ok(found) => found.map_err(|error| Problem::new(error.to_string()))?,
            Err(_) => None,
        },
    };
    found.as_ref().and_then(token_of).ok_or_else(|| {
        Problem::new(format!("Secret '{name}' with the token was not made within {} s", PATIENCE.as_secs()))
            .next("check whether the controllers run: kubeopencode doctor")
    })
}

fn token_of(secret: &Secret) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get("token")?.0.clone()).ok()
}

fn about(name: &str, share: &Share, flag: &str) -> String {
    let until = share.expires_at.as_ref().map(|time| format!(" until {}", time.0));
    let from = share.allowed_ips.as_ref().map(|all| format!(" from {}", all.join(", ")));
    format!(
        "this path on the KubeOpenCode server opens the terminal of Agent '{name}'{}{}; close it with: kubeopencode agent unshare {name}{flag}",
        until.unwrap_or_default(),
        from.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_tells_until_when_and_from_where_it_opens() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let share = wish(Some(Duration::from_hours(24)), vec!["10.0.0.0/8".to_owned()], now);
        insta::assert_snapshot!(about("dev", &share, " -n team"), @r"this path on the KubeOpenCode server opens the terminal of Agent 'dev' until 2026-01-02T00:00:00Z from 10.0.0.0/8; close it with: kubeopencode agent unshare dev -n team");
        assert_eq!(wish(None, vec![], now), Share { enabled: true, ..Share::default() });
    }
}
