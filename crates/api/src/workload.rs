//! The Pods of an Agent or a Task: everything but images that a platform engineer sets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, Lifecycle, PodSecurityContext, ResourceRequirements, SecurityContext, Toleration, Volume,
    VolumeMount,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::LocalRef,
    schema::{Duration, IntoRule as _},
};

/// A Secret, given to the agent as environment variables or files.
///
/// | key | env | mountPath | what the agent gets |
/// |---|---|---|---|
/// | no | – | no | every key as an environment variable |
/// | no | – | yes | the Secret as a directory |
/// | yes | yes | no | one environment variable |
/// | yes | no | yes | one file |
/// | yes | yes | yes | both |
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.env) || (has(self.secretRef.key) && self.secretRef.key != '')", "env can only be set when secretRef.key is specified").into_rule())]
pub struct Credential {
    /// Name, for people and messages.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The Secret.
    pub secret_ref: CredentialSecretRef,
    /// Where to put the file or directory.
    #[schemars(length(max = 4096))]
    pub mount_path: Option<String>,
    /// Name of the environment variable.
    #[schemars(length(max = 253))]
    pub env: Option<String>,
    /// Permission bits of files; 0600 when unset.
    #[schemars(range(min = 0, max = 511))]
    pub file_mode: Option<i32>,
}

/// A Secret or one key of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialSecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// One key; all of them when unset.
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// Certificate authorities of private servers. OpenCode, git and npm trust them besides the system's.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.configMapRef) != has(self.secretRef)", "exactly one of configMapRef or secretRef must be specified").into_rule())]
pub struct CaBundle {
    /// From a ConfigMap; key `ca-bundle.crt` when unset.
    pub config_map_ref: Option<CaBundleRef>,
    /// From a Secret; key `ca.crt` when unset.
    pub secret_ref: Option<CaBundleRef>,
}

impl CaBundle {
    /// The object and the key that hold the certificates; a ConfigMap wins.
    pub fn place(&self) -> Option<CaBundlePlace> {
        let key = |source: &CaBundleRef, default: &str| {
            source.key.clone().filter(|key| !key.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        match (&self.config_map_ref, &self.secret_ref) {
            (Some(source), _) => {
                Some(CaBundlePlace::ConfigMap { name: source.name.clone(), key: key(source, "ca-bundle.crt") })
            }
            (None, Some(source)) => {
                Some(CaBundlePlace::Secret { name: source.name.clone(), key: key(source, "ca.crt") })
            }
            (None, None) => None,
        }
    }
}

/// What holds a bundle of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaBundlePlace {
    /// A key of a ConfigMap.
    ConfigMap {
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A key of a Secret.
    Secret {
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
}

/// Where a bundle of certificates is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaBundleRef {
    /// Name of the ConfigMap or Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in it.
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// HTTP proxy of every container. `.svc` and the cluster's domain are always excepted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    /// Proxy of http requests.
    #[schemars(length(max = 4096))]
    pub http_proxy: Option<String>,
    /// Proxy of https requests.
    #[schemars(length(max = 4096))]
    pub https_proxy: Option<String>,
    /// Hosts and domains that are reached directly, separated by commas.
    #[schemars(length(max = 16384))]
    pub no_proxy: Option<String>,
}

/// How many Tasks may start in a sliding window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// At most this many Tasks start in the window.
    #[schemars(range(min = 1))]
    pub max_task_starts: i32,
    /// Length of the window in seconds.
    #[schemars(range(min = 60, max = 86400))]
    pub window_seconds: i32,
}

/// A further port of an Agent's server.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraPort {
    /// Name of the port.
    #[schemars(length(min = 1, max = 15))]
    pub name: String,
    /// Number of the port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Port of the container, if it differs.
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: Option<i32>,
    /// Protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
}

/// Protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// TCP.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// UDP.
    #[serde(rename = "UDP")]
    Udp,
}

/// What of an Agent outlives its Pods.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Persistence {
    /// Sessions; 1Gi when no size is given.
    pub sessions: Option<VolumePersistence>,
    /// The workspace; 10Gi when no size is given.
    pub workspace: Option<VolumePersistence>,
}

/// A claim for a volume.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumePersistence {
    /// Storage class; the cluster's default when unset.
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Size, such as 10Gi.
    #[schemars(length(max = 64), regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|m|k)?$"))]
    pub size: Option<String>,
}

/// When an idle Agent is suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standby {
    /// Suspend the Agent when neither a Task nor a person used it for this long. A Task wakes it up.
    pub idle_timeout: Duration,
}

/// Scheduling, security, resources and extras of a Pod.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Labels of the Pod, for network policies and monitoring.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the Pod.
    pub annotations: Option<BTreeMap<String, String>>,
    /// On which nodes it may run.
    pub scheduling: Option<Scheduling>,
    /// RuntimeClass, such as gvisor.
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
    /// Security of the agent's container; restricted when unset.
    pub security_context: Option<SecurityContext>,
    /// Security of the Pod.
    pub pod_security_context: Option<PodSecurityContext>,
    /// Resources of the agent's container.
    pub resources: Option<ResourceRequirements>,
    /// Hooks of the agent's container.
    pub lifecycle: Option<Lifecycle>,
    /// Further volumes.
    pub extra_volumes: Option<Vec<Volume>>,
    /// Where the agent's container sees them.
    pub extra_volume_mounts: Option<Vec<VolumeMount>>,
    /// Further environment variables; they win over ours.
    pub extra_env: Option<Vec<EnvVar>>,
    /// Extras of our own containers.
    pub system_containers: Option<SystemContainers>,
    /// Mount the ServiceAccount's token. Off when unset: an agent should not hold the cluster's keys by accident.
    pub automount_service_account_token: Option<bool>,
}

/// On which nodes a Pod may run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that the node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that it tolerates.
    pub tolerations: Option<Vec<Toleration>>,
    /// Finer rules.
    pub affinity: Option<Affinity>,
}

/// Extras of the containers that prepare and accompany the agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemContainers {
    /// Copies OpenCode to `/tools`.
    pub open_code_init: Option<ContainerExtras>,
    /// Puts contexts in place.
    pub context_init: Option<ContainerExtras>,
    /// Clones repositories.
    pub git_init: Option<ContainerExtras>,
    /// Follows repositories.
    pub git_sync: Option<ContainerExtras>,
    /// Installs plugins.
    pub plugin_init: Option<ContainerExtras>,
    /// Fetches documents.
    pub url_init: Option<ContainerExtras>,
}

/// Extras of one container.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerExtras {
    /// Further environment variables.
    pub extra_env: Option<Vec<EnvVar>>,
    /// Further volume mounts.
    pub extra_volume_mounts: Option<Vec<VolumeMount>>,
}

/// Which network connections Pods may open.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkPolicy {
    /// Open: no policy. Restricted: only DNS, the Agent's own server and what `egress` lists.
    #[serde(default)]
    pub mode: NetworkMode,
    /// Connections that are allowed in Restricted mode.
    pub egress: Option<Vec<EgressRule>>,
}

/// How open the network is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NetworkMode {
    /// Nothing is forbidden by us.
    #[default]
    Open,
    /// Only listed destinations are allowed.
    Restricted,
}

/// One allowed destination: addresses, or Pods by label.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.cidr) != has(self.podLabels)", "set exactly one of cidr and podLabels").into_rule())]
pub struct EgressRule {
    /// Range of addresses.
    #[schemars(length(max = 64), regex(pattern = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"))]
    pub cidr: Option<String>,
    /// Labels of the Pods that may be reached.
    pub pod_labels: Option<BTreeMap<String, String>>,
    /// Labels of those Pods' namespaces; the same namespace when unset.
    pub namespace_labels: Option<BTreeMap<String, String>>,
    /// Ports; every port when unset.
    #[schemars(inner(range(min = 1, max = 65535)))]
    pub ports: Option<Vec<i32>>,
}

/// An image built from a repository at an exact commit, used by digest. `spec.imageBuild` of the KubeOpenCodeConfig names
/// the registry.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageBuild {
    /// URL of the repository.
    #[schemars(length(min = 1, max = 4096))]
    pub repository: String,
    /// Branch, tag or full commit; the default branch when unset. A Task looks the commit up when it starts, an Agent when
    /// `executorImageBuild` changes.
    #[serde(rename = "ref")]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// Path of the Dockerfile in the repository; `Dockerfile` when unset.
    #[schemars(length(max = 4096))]
    pub dockerfile: Option<String>,
    /// Directory of the build context; the whole repository when unset.
    #[schemars(length(max = 4096))]
    pub context: Option<String>,
    /// Arguments of the build. They are no place for secrets: they are visible in the Pod and in the image.
    pub build_args: Option<BTreeMap<String, String>>,
    /// Secret with credentials of the repository: `username` and `password`, or `ssh-privatekey` and `ssh-known-hosts`.
    pub secret_ref: Option<LocalRef>,
}
