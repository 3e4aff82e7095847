//! Common parts of the built objects: owner, labels and errors.

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
    contract::companion,
    run::resolved::ResolvedAgent,
    workload::{
        contexts::{Bundle, ContextError},
        security,
        volumes::Mounted,
    },
};

/// Why an object cannot be built. Each message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The contexts cannot be delivered.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Two mounts have the same path.
    #[error("{first} and {second} are both mounted at {path}; give one of them another path")]
    SamePath { first: String, second: String, path: String },
    /// A volume of the user has a reserved name.
    #[error("podSpec.extraVolumes has a volume {0:?}, and so do we; give it another name")]
    VolumeName(String),
    /// A side service has a reserved or repeated name.
    #[error("services has a container {0:?}, and there is another of that name in the Pod; give it another name")]
    ServiceName(String),
    /// A port has a reserved or repeated name.
    #[error("extraPorts has a port {0:?}, and there is another of that name; give it another name")]
    PortName(String),
    /// Two ports have the same number.
    #[error(
        "extraPorts has a port {name:?} with the number {number}, and so has port {other:?}; give it another number"
    )]
    PortNumber { name: String, number: i32, other: String },
    /// A port of the user is that of the companion.
    #[error("{field} has the port {port}, which the companion of each Agent has; use another number", port = companion::PORT)]
    CompanionPort { field: &'static str },
    /// A field of a Task that has no effect on an Agent's server.
    #[error(
        "spec.{field} has no effect on Agent '{agent}', whose server works for all its Tasks; {advice}, or use templateRef"
    )]
    OfTheAgent { field: &'static str, agent: String, advice: &'static str },
    /// Approvals are requested, but there is no server on which a person could answer.
    #[error(
        "approval.mode is {0:?}, but only the server of an Agent can wait for a person's answer; use agentRef, or set approval.mode to Never"
    )]
    NoApprover(ApprovalMode),
    /// An input cannot be put where it should be.
    #[error("an input cannot be put at {path:?}: mountPath is a path below the workspace, without ..")]
    InputPath { path: String },
    /// The settings of a container that stores or fetches results are too long.
    #[error(
        "the description of what is {what} for the run takes {bytes} bytes, and a container can be started with 122880; shorten publish.pullRequest.body and publish.message, or name fewer paths in artifacts, inputs and caches"
    )]
    TooManyResults { what: &'static str, bytes: usize },
    /// The changes of the run cannot be published.
    #[error("spec.publish cannot be used: {0}")]
    Publish(String),
}

impl BuildError {
    /// Reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Context(error) => error.reason(),
            Self::OfTheAgent { .. }
            | Self::NoApprover(_)
            | Self::InputPath { .. }
            | Self::TooManyResults { .. }
            | Self::Publish(_) => reasons::INVALID,
            _ => reasons::POD_CREATION_ERROR,
        }
    }
}

/// The owner of the built objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl Owner<'_> {
    /// Metadata of an object that Kubernetes deletes with its owner.
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

/// Our labels and the user's. Selectors, watches and the cleanup rely on ours, so users cannot set those or add others
/// in our domain: a Task Pod with an Agent's label would receive that Agent's traffic.
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

/// The label of all our objects.
pub(crate) fn app() -> (&'static str, &'static str) {
    (labels::APP, labels::APP_VALUE)
}

/// Refuses two mounts at one path. The error names both.
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
        // Variables for every Service of the namespace are of no use to an agent, and too many of them can prevent a
        // start.
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

/// Seconds from SIGTERM to SIGKILL. The shim uses 25 of them and needs the rest to write the report.
const GRACE_SECONDS: i64 = 30;
