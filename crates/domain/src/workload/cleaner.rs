//! The Pod that removes the directories of deleted Tasks from the claim that the runs of a target share.
//!
//! It exists only while it works. It has the user, the node and the ServiceAccount of the runs, so that it can reach and
//! remove their files, and nothing else of theirs: no credentials, no contexts, no volumes of the user.

use std::collections::BTreeMap;

use api::names::labels;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use crate::{
    contract::{
        environment as variables,
        paths::{self, WORKSPACES},
        workspace::CleanReport,
    },
    platform::Platform,
    run::{
        resolved::ResolvedAgent,
        target::RunsOn,
        workspace::{VOLUME, shared_claim_name},
    },
    workload::{
        build::{self, BuildError, Owner},
        containers::Shared,
        environment::var,
        security, volumes,
    },
};

/// Value of [`labels::APP_COMPONENT`] on the Pod.
pub const COMPONENT: &str = "workspace-cleaner";
/// Tasks whose directories one Pod removes.
pub const AT_ONCE: usize = crate::contract::workspace::MOST_LISTED;
/// Existing Tasks that one Pod is told. The value of a variable has at most 128 KiB.
pub const MOST_KNOWN: usize = 2000;
/// One Pod works this long. What it does not remove is left to the next.
const LONGEST: i64 = 3600;
/// Requests and limits are explicit: those of a LimitRange could kill the helper.
const MEMORY: (&str, &str) = ("16Mi", "128Mi");
const CPU: &str = "10m";

/// Name of the Pod that cleans the claim `claim`; there is one at a time.
pub fn cleaner_name(claim: &str) -> String {
    format!("{claim}-cleaner")
}

/// The report of the Pod; `None` if it left none.
pub fn report_of(pod: &Pod) -> Option<CleanReport> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let ended = statuses.iter().find_map(|status| status.state.as_ref()?.terminated.as_ref())?;
    serde_json::from_str(ended.message.as_deref()?).ok()
}

/// The claim that the Pod cleans; `None` for any other Pod.
pub fn claim_of(pod: &Pod) -> Option<&str> {
    let component = pod.metadata.labels.as_ref()?.get(labels::APP_COMPONENT)?;
    pod.metadata.name.as_deref().filter(|_| component == COMPONENT)?.strip_suffix("-cleaner")
}

/// Input of [`cleaner_pod`].
#[derive(Clone, Copy, Debug)]
pub struct CleanerInput<'a> {
    pub namespace: &'a str,
    /// The target that owns the claim.
    pub runs_on: &'a RunsOn,
    /// UID of the target.
    pub uid: &'a str,
    /// The settings of the target.
    pub agent: &'a ResolvedAgent,
    pub platform: &'a Platform,
    /// UIDs of deleted Tasks, at most [`AT_ONCE`].
    pub removed: &'a [String],
    /// UIDs of existing Tasks, at most [`MOST_KNOWN`].
    pub known: &'a [String],
    /// The UID after which other Tasks are listed.
    pub list_after: Option<&'a str>,
}

/// The Pod that removes the directories of deleted Tasks, and lists those of Tasks that are not known.
pub fn cleaner_pod(input: &CleanerInput<'_>) -> Result<Pod, BuildError> {
    let CleanerInput { namespace, runs_on, uid, agent, platform, removed, known, list_after } = *input;
    let claim = shared_claim_name(runs_on);
    // The helper opens no connection.
    let agent = &ResolvedAgent { ca_bundle: None, ..agent.clone() };
    let mount = volumes::mount(VOLUME, WORKSPACES);
    let shared = Shared { platform, agent, env: Vec::new(), workspace: mount.clone(), outside: Vec::new() };
    let mut env = vec![var(variables::REMOVED_TASKS, removed.join(",")), var(variables::KNOWN_TASKS, known.join(","))];
    env.extend(list_after.map(|uid| var(variables::LIST_AFTER, uid)));
    let helper = shared.finished_helper("clean", "workspace-clean", env, vec![mount]);
    let container = Container {
        resources: Some(resources()),
        // As the agent, whose files are to be removed.
        security_context: Some(security::agent_container(&agent.pod)),
        working_dir: Some(paths::HOME.to_owned()),
        ..helper
    };
    let volume = volumes::claim(VOLUME, &claim);
    let mut spec = build::pod_spec(agent, Vec::new(), vec![container], vec![volume], &[])?;
    spec.restart_policy = Some("Never".to_owned());
    spec.active_deadline_seconds = Some(LONGEST);
    spec.automount_service_account_token = Some(false);
    let name = cleaner_name(&claim);
    let ours: BTreeMap<String, String> = build::labels_of([build::app(), (labels::APP_COMPONENT, COMPONENT)]);
    let owner = Owner { kind: runs_on.kind(), namespace, name: runs_on.name(), uid };
    Ok(Pod { metadata: owner.metadata(name, ours), spec: Some(spec), status: None })
}

fn resources() -> ResourceRequirements {
    let mut requests = volumes::amount("memory", MEMORY.0);
    requests.extend(volumes::amount("cpu", CPU));
    ResourceRequirements { requests: Some(requests), limits: Some(volumes::amount("memory", MEMORY.1)), claims: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample;

    #[test]
    fn it_has_the_user_of_the_runs_and_nothing_of_theirs_but_the_volume() {
        let mut agent = crate::workload::pod::tests::rich_agent();
        agent.pod.security_context = Some(sample::from_json(json!({"runAsUser": 0})));
        let [removed, known] = ["b", "c"].map(|last| [format!("1a2b3c4d-1111-2222-3333-0123456789a{last}")]);
        let runs_on = RunsOn::Template("go-dev".into());
        let input = CleanerInput {
            namespace: "team",
            runs_on: &runs_on,
            uid: "uid-of-go-dev",
            agent: &agent,
            platform: &sample::platform(),
            removed: &removed,
            known: &known,
            list_after: None,
        };
        let pod = cleaner_pod(&input).unwrap();
        assert_eq!(claim_of(&pod), Some("kubeopencode-workspace-template-go-dev"));
        insta::assert_yaml_snapshot!("cleaner_pod", pod);
        // Its name is that of a label value and of a host at most.
        let longest = shared_claim_name(&RunsOn::Template("x".repeat(63)));
        assert!(cleaner_name(&longest).len() <= 253);
        assert_eq!(claim_of(&Pod::default()), None);
    }
}
