//! KubeOpenCodeConfig: settings of the whole platform.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{LocalObjectReference, ResourceRequirements, SecurityContext},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{LocalRef, SecretKeyRef},
    run::{Budget, Retry, Workspace},
    schema::{Duration, IntoRule as _},
    workload::{NetworkPolicy, Proxy},
};

/// Settings of the whole platform. There is one, named `cluster`; changes apply at once.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "KubeOpenCodeConfig",
    plural = "kubeopencodeconfigs",
    shortname = "ktc",
    category = "kubeopencode",
    status = "KubeOpenCodeConfigStatus",
    derive = "PartialEq",
    doc = "Settings of the whole platform. There is one, named cluster; changes apply at once.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name == 'cluster'", "there is only one KubeOpenCodeConfig: name it 'cluster'").into_rule()
)]
#[serde(rename_all = "camelCase")]
pub struct KubeOpenCodeConfigSpec {
    /// DNS domain of the cluster; cluster.local when unset.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub cluster_domain: Option<String>,
    /// Image of our own helpers in Pods.
    pub system_image: Option<SystemImage>,
    /// When finished Tasks are deleted; never when unset.
    pub cleanup: Option<Cleanup>,
    /// HTTP proxy of every Pod whose Agent or template sets none.
    pub proxy: Option<Proxy>,
    /// Traces of what happens in Pods.
    pub observability: Option<Observability>,
    /// Where images of `executorImageBuild` are built and kept. Without it, no image is built.
    pub image_build: Option<ImageBuilding>,
    /// Settings of Tasks and Agents that set none themselves.
    pub defaults: Option<Defaults>,
}

/// Image of our own helpers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemImage {
    /// The image.
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// When nodes pull it; IfNotPresent when unset.
    pub image_pull_policy: Option<ImagePullPolicy>,
}

/// Where images of `executorImageBuild` are built and kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageBuilding {
    /// Registry, and a path in it if wanted, such as `registry.example.com/agents`. An image is named
    /// `REGISTRY/NAMESPACE:COMMIT-KEY`. Nodes and builder Pods must reach the registry by this name.
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$")
    )]
    pub registry: String,
    /// Push by plain HTTP, or without checking the certificate of the registry.
    #[serde(default)]
    pub insecure: bool,
    /// Secret of type `kubernetes.io/dockerconfigjson` with the login for pushing, in the namespace of each build.
    pub secret_ref: Option<LocalRef>,
    /// Image with buildah; `quay.io/buildah/stable:latest` when unset.
    #[schemars(length(max = 1024))]
    pub builder_image: Option<String>,
    /// Security of the containers that build and push. When unset: user 1000 with the capabilities that user namespaces
    /// need (SETUID, SETGID), and no seccomp profile.
    pub security_context: Option<SecurityContext>,
    /// Resources of the containers that build and push.
    pub resources: Option<ResourceRequirements>,
}

/// When a node pulls an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Before every start.
    Always,
    /// Never.
    Never,
    /// If it is not there.
    IfNotPresent,
}

/// When finished Tasks are deleted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cleanup {
    /// This many seconds after they ended.
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// When a namespace holds more than this many finished ones, oldest first.
    #[schemars(range(min = 0))]
    pub max_retained_tasks: Option<i32>,
}

/// Observability.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observability {
    /// Export by OpenTelemetry.
    pub open_telemetry: Option<OpenTelemetry>,
}

/// Export by OpenTelemetry.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!self.enabled || (has(self.endpoint) && self.endpoint != '')", "endpoint is required when enabled is true").into_rule())]
pub struct OpenTelemetry {
    /// Export.
    pub enabled: bool,
    /// Address of the collector.
    #[schemars(length(max = 4096), regex(pattern = r"^https?://.+$"))]
    pub endpoint: Option<String>,
    /// Headers of the export.
    pub headers: Option<BTreeMap<String, OtelHeader>>,
    /// Trace calls of models.
    #[serde(default, rename = "enableLLMTraces")]
    pub enable_llm_traces: bool,
    /// Put prompts and answers into traces.
    #[serde(default)]
    pub record_content: bool,
    /// Attributes of every trace.
    pub resource_attributes: Option<BTreeMap<String, String>>,
}

/// A header of the export.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.value) != has(self.valueFrom)", "set exactly one of value and valueFrom").into_rule())]
pub struct OtelHeader {
    /// Its value, if it is no secret.
    #[schemars(length(max = 8192))]
    pub value: Option<String>,
    /// Where its value is, in the Pod's namespace.
    pub value_from: Option<OtelHeaderSource>,
}

/// Where a header's value is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtelHeaderSource {
    /// In a Secret.
    pub secret_key_ref: SecretKeyRef,
}

/// Settings of Tasks and Agents that set none themselves.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// Image that copies OpenCode to `/tools`.
    #[schemars(length(max = 1024))]
    pub agent_image: Option<String>,
    /// Image in which agents work.
    #[schemars(length(max = 1024))]
    pub executor_image: Option<String>,
    /// Image of the small client of Tasks on an Agent.
    #[schemars(length(max = 1024))]
    pub attach_image: Option<String>,
    /// ServiceAccount of Pods; `default` when unset.
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// Secrets for pulling images, in the namespace of each Pod.
    #[schemars(length(max = 64))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Where the files of runs live.
    pub workspace: Option<Workspace>,
    /// From admission to the start of the task container; 5m when unset.
    pub startup_timeout: Option<Duration>,
    /// A run without any event for this long ends; 15m when unset.
    pub stall_timeout: Option<Duration>,
    /// Whether failed runs are tried again.
    pub retry: Option<Retry>,
    /// From the end of the agent until everything that the run keeps is stored; 10m when unset.
    pub collect_timeout: Option<Duration>,
    /// What one run may use, or with a window the Tasks of an Agent or template together.
    pub budget: Option<Budget>,
    /// Which network connections Pods may open.
    pub network_policy: Option<NetworkPolicy>,
    /// How long a Task waits for a missing reference; 60s when unset.
    pub reference_grace_period: Option<Duration>,
}

/// Whether the configuration is in use.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeOpenCodeConfigStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}
