//! Common parts of the objects that we build: owner, labels, and the errors of what cannot be built.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::reasons,
    names::{GROUP, VERSION, labels},
    run::ApprovalMode,
    workload::PodSettings,
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Container, LocalObjectReference, PodSpec, Volume, VolumeMount},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use crate::{
    run::resolved::ResolvedAgent,
    workload::{
        contexts::{Bundle, ContextError},
        security,
        volumes::Mounted,
    },
};

/// Why an object cannot be built. Each says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The contexts do not fit.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Two things at one path.
    #[error("{first} and {second} are both mounted at {path}; give one of them another path")]
    SamePath {
        /// The first.
        first: String,
        /// The second.
        second: String,
        /// The path.
        path: String,
    },
    /// A volume of the user has a name of ours.
    #[error("podSpec.extraVolumes has a volume {0:?}, and so do we; give it another name")]
    VolumeName(String),
    /// A side service has a name of ours, or of another.
    #[error("services has a container {0:?}, and there is another of that name in the Pod; give it another name")]
    ServiceName(String),
    /// A port has a name of ours, or of another.
    #[error("extraPorts has a port {0:?}, and there is another of that name; give it another name")]
    PortName(String),
    /// Two ports have one number.
    #[error(
        "extraPorts has a port {name:?} with the number {number}, and so has port {other:?}; give it another number"
    )]
    PortNumber {
        /// The port.
        name: String,
        /// Its number.
        number: i32,
        /// The other one.
        other: String,
    },
    /// A field of a Task that only a Pod of its own could have.
    #[error(
        "spec.{field} has no effect on Agent '{agent}', whose server works for all its Tasks; {advice}, or use templateRef"
    )]
    OfTheAgent {
        /// The field.
        field: &'static str,
        /// The Agent.
        agent: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// A person should be asked, and there is no server on which they could answer.
    #[error(
        "approval.mode is {0:?}, but only the server of an Agent can wait for a person's answer; use agentRef, or set approval.mode to Never"
    )]
    NoApprover(ApprovalMode),
    /// A shared workspace without a claim.
    #[error("workspace.accessMode is ReadWriteMany, which shares a claim; name an existing one in workspace.claimName")]
    NoSharedClaim,
}

impl BuildError {
    /// The reason in the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Context(error) => error.reason(),
            Self::OfTheAgent { .. } | Self::NoApprover(_) => reasons::INVALID,
            _ => reasons::POD_CREATION_ERROR,
        }
    }
}

/// Who owns what we build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl Owner<'_> {
    /// Metadata of an object that goes when its owner goes.
    pub(crate) fn metadata(&self, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{GROUP}/{VERSION}"),
                kind: self.kind.to_owned(),
                name: self.name.to_owned(),
                uid: self.uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        }
    }

    /// The ConfigMaps of a bundle.
    pub(crate) fn config_maps(&self, bundle: Bundle, labels: &BTreeMap<String, String>) -> Vec<ConfigMap> {
        let maps = bundle.config_maps.into_iter().map(|(name, data)| ConfigMap {
            metadata: self.metadata(name, labels.clone()),
            data: Some(data),
            ..ConfigMap::default()
        });
        maps.collect()
    }
}

/// Our labels and the user's. Selectors, watches and the clean-up rely on ours, so no user sets those, and no user
/// adds one in our domain: a Task Pod with an Agent's label would receive that Agent's traffic.
pub(crate) fn with_user_labels(mut ours: BTreeMap<String, String>, pod: &PodSettings) -> BTreeMap<String, String> {
    let domain = format!("{GROUP}/");
    for (key, value) in pod.labels.iter().flatten() {
        if !key.starts_with(&domain) && !ours.contains_key(key) {
            ours.insert(key.clone(), value.clone());
        }
    }
    ours
}

/// A map of labels.
pub(crate) fn labels_of<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The label that every object of ours has.
pub(crate) fn app() -> (&'static str, &'static str) {
    (labels::APP, labels::APP_VALUE)
}

/// Refuses two mounts at one path, and names both.
pub(crate) fn distinct(mounted: Vec<Mounted>) -> Result<Vec<VolumeMount>, BuildError> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut mounts = Vec::new();
    for Mounted { mount, what } in mounted {
        let path = match mount.mount_path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        if let Some(first) = taken.insert(path.clone(), what.clone()) {
            return Err(BuildError::SamePath { first, second: what, path });
        }
        mounts.push(mount);
    }
    Ok(mounts)
}

/// The parts of a Pod that follow from the agent's settings alone.
pub(crate) fn pod_spec(
    agent: &ResolvedAgent,
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    mut volumes: Vec<Volume>,
    extra_volumes: &[Volume],
) -> Result<PodSpec, BuildError> {
    let ours: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    if let Some(volume) = extra_volumes.iter().find(|volume| ours.contains(volume.name.as_str())) {
        return Err(BuildError::VolumeName(volume.name.clone()));
    }
    volumes.extend(extra_volumes.iter().cloned());
    let scheduling = agent.pod.scheduling.clone().unwrap_or_default();
    let secrets = agent.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    Ok(PodSpec {
        init_containers: Some(init_containers).filter(|containers| !containers.is_empty()),
        containers,
        volumes: Some(volumes),
        service_account_name: Some(agent.service_account_name.clone()),
        automount_service_account_token: Some(agent.pod.automount_service_account_token.unwrap_or(false)),
        // Variables for every Service of the namespace are noise for an agent and can break a start by their number.
        enable_service_links: Some(false),
        image_pull_secrets: Some(secrets.collect()).filter(|secrets: &Vec<_>| !secrets.is_empty()),
        security_context: security::pod(&agent.pod),
        node_selector: scheduling.node_selector,
        tolerations: scheduling.tolerations,
        affinity: scheduling.affinity,
        runtime_class_name: agent.pod.runtime_class_name.clone(),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        ..PodSpec::default()
    })
}

/// From SIGTERM to SIGKILL. The shim takes 25 of them and needs the rest to write the outcome.
const GRACE_SECONDS: i64 = 30;
