//! `doctor`: checks what the platform needs and suggests fixes.

mod controllers;
mod definitions;
mod finding;
mod keys;
mod rights;

use api::{Agent, AgentTemplate, KubeOpenCodeConfig, conditions::types};
use domain::{platform::Platform, status::find};
use jiff::Timestamp;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde::Serialize;

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{DataFormat, print},
    problem::{Answer, Problem},
    screen::{Screen, line},
};
use finding::{Finding, show};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = DataFormat::Text)]
    output: DataFormat,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// All results.
#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Finding>,
}

/// Runs all checks; fails if one failed.
pub async fn run(before: &ClusterArgs, args: Args) -> Answer<Exit> {
    let findings = match args.cluster.or(before).connect().await {
        Ok(cluster) => examine(&cluster).await,
        Err(problem) => vec![Finding::problem("cluster", &problem)],
    };
    let failed = findings.iter().any(Finding::is_failure);
    let screen = Screen::stdout();
    print(&args.output.show(&Report { findings }, |report| show(&report.findings, &screen))?)?;
    Ok(if failed { Exit::Failed } else { Exit::Success })
}

async fn examine(cluster: &Cluster) -> Vec<Finding> {
    let version = match cluster.client.apiserver_version().await {
        Ok(version) => version.git_version,
        // Without a connection no other check is possible.
        Err(error) => return vec![Finding::problem("cluster", &Problem::from(error))],
    };
    let mut findings =
        vec![Finding::ok("cluster", format!("Kubernetes {version} at {} ({})", cluster.server, cluster.source))];
    let definitions = definitions::examine(cluster).await;
    let installed = !definitions.iter().any(Finding::is_failure);
    findings.extend(definitions);
    findings.extend(rights::examine(cluster).await);
    if !installed {
        return findings;
    }
    let agents = listed(cluster.api::<Agent>()).await;
    let templates = listed(cluster.api::<AgentTemplate>()).await;
    findings.push(controllers::examine(cluster, Timestamp::now()).await);
    let configs: Api<KubeOpenCodeConfig> = Api::all(cluster.client.clone());
    match configs.get_opt("cluster").await {
        Ok(config) => findings.push(images(&Platform::from(config.as_ref(), &|_| None))),
        Err(error) => findings.push(Finding::unknown("images", &Problem::from(error))),
    }
    findings.extend(keys::examine(cluster, &agents, &templates).await);
    findings.push(health(&agents, &cluster.namespace, &cluster.namespace_flag()));
    findings.extend(unusable(&templates));
    findings
}

/// The objects; empty without the right to list them, which the check of rights reports.
async fn listed<K>(api: Api<K>) -> Vec<K>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
}

/// The images in use, and the source of each setting.
fn images(platform: &Platform) -> Finding {
    let all = [
        ("system", "systemImage", &platform.system_image),
        ("agent", "agentImage", &platform.agent_image),
        ("executor", "executorImage", &platform.executor_image),
        ("attach", "attachImage", &platform.attach_image),
    ];
    let named = all.map(|(name, setting, image)| format!("{name} {image} ({})", platform.origin(setting)));
    let moving: Vec<_> = all.iter().filter(|(_, _, image)| moves(image)).map(|(name, _, _)| *name).collect();
    if moving.is_empty() {
        return Finding::ok("images", named.join(", "));
    }
    Finding::ok("images", format!("{}; without a fixed version: {}", named.join(", "), moving.join(", ")))
        .warn("set them in KubeOpenCodeConfig (spec.systemImage, spec.defaults) or in the controller's environment, so that all nodes run the same")
}

/// Whether the image can change under the same name: it has no digest and no fixed tag.
fn moves(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Templates on which no Task can run.
fn unusable(templates: &[AgentTemplate]) -> Vec<Finding> {
    let one = |template: &AgentTemplate| {
        let conditions = template.status.as_ref()?.conditions.as_deref()?;
        let cause = find(conditions, types::READY).filter(|ready| ready.status == "False")?;
        let name = template.name_any();
        let found = format!("AgentTemplate '{name}' cannot be used: {}", line(&cause.message));
        Some(Finding::ok("templates", found).warn(format!("correct AgentTemplate '{name}'")))
    };
    templates.iter().filter_map(one).collect()
}

/// Whether Agents are ready. Commands get `flag`, which names the namespace.
fn health(agents: &[Agent], namespace: &str, flag: &str) -> Finding {
    let ready = |agent: &&Agent| agent.status.as_ref().and_then(|status| status.ready) == Some(true);
    let ill: Vec<_> = agents.iter().filter(|agent| !ready(agent) && !agent.spec.suspend).collect();
    if agents.is_empty() {
        return Finding::ok("agents", format!("none in namespace {namespace}"));
    }
    let seen = format!("{} of {} ready in namespace {namespace}", agents.iter().filter(ready).count(), agents.len());
    let Some(first) = ill.first() else { return Finding::ok("agents", seen) };
    let conditions = first.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let causes =
        [types::ACCEPTED, types::REFERENCES_RESOLVED, types::SECRETS_READY, types::CONFIG_VALID, types::SERVER_READY];
    let cause = causes.iter().filter_map(|kind| find(conditions, kind)).find(|one| one.status == "False");
    let cause = cause.map_or("it has no status yet".to_owned(), |condition| line(&condition.message));
    let name = first.name_any();
    Finding::ok("agents", format!("{seen}; Agent '{name}' is not: {cause}"))
        .warn(format!("see: kubeopencode explain agent/{name}{flag}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_without_a_version_moves() {
        for (image, expected) in [
            ("quay.io/a/b:latest", true),
            ("quay.io/a/b", true),
            ("host:5000/a/b", true),
            ("quay.io/a/b:0.2.0", false),
            ("quay.io/a/b@sha256:abc", false),
        ] {
            assert_eq!(moves(image), expected, "{image}");
        }
    }

    #[test]
    fn an_agent_that_is_not_ready_is_reported_with_its_cause() {
        let agent = |name: &str, status: serde_json::Value| -> Agent {
            serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent",
                "metadata": {"name": name}, "spec": {}, "status": status}))
            .unwrap()
        };
        let ill = agent(
            "ill",
            json!({"conditions": [{"type": "SecretsReady", "status": "False", "reason": "SecretMissing",
            "message": "Secret 'key' does not exist", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        );
        let findings = [
            health(&[], "team", ""),
            health(&[agent("dev", json!({"ready": true}))], "team", ""),
            health(&[agent("dev", json!({"ready": true})), ill], "team", " -n team"),
        ];
        insta::assert_snapshot!(show(&findings, &Screen::default()), @r"
        ok    agents: none in namespace team
        ok    agents: 1 of 1 ready in namespace team
        warn  agents: 1 of 2 ready in namespace team; Agent 'ill' is not: Secret 'key' does not exist
              fix: see: kubeopencode explain agent/ill -n team
        ");
    }

    #[test]
    fn a_template_that_cannot_be_used_is_reported_with_its_cause() {
        let template = |name: &str, status: &str| -> AgentTemplate {
            let ready = json!({"type": "Ready", "status": status, "reason": "Invalid", "message": "it is wrong",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate",
                "metadata": {"name": name}, "spec": {}, "status": {"conditions": [ready]}}))
            .unwrap()
        };
        let findings = unusable(&[template("good", "True"), template("bad", "False")]);
        insta::assert_snapshot!(show(&findings, &Screen::default()), @r"
        warn  templates: AgentTemplate 'bad' cannot be used: it is wrong
              fix: correct AgentTemplate 'bad'
        ");
    }
}
