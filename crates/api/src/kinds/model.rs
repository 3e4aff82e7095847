//! Model: one model of a provider, and how to use it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::refs::{AllowedNamespaces, ObjectRef};

/// One model of a provider, and how to use it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Model",
    plural = "models",
    shortname = "mdl",
    category = "kubeopencode",
    namespaced,
    status = "ModelStatus",
    derive = "PartialEq",
    doc = "One model of a provider, and how to use it.",
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.providerRef.name"),
    printcolumn(name = "Accepted", type_ = "string", json_path = ".status.conditions[?(@.type=='Accepted')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// Name of the model, as its provider calls it.
    #[schemars(length(min = 1, max = 253))]
    pub model: String,
    /// Provider that serves it.
    pub provider_ref: ObjectRef,
    /// How to use it.
    pub options: Option<ModelOptions>,
    /// How much it takes in and writes.
    pub limit: Option<ModelLimit>,
    /// Price of a million tokens.
    pub cost: Option<ModelCost>,
    /// From which namespaces Agents may use it.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// How a model is used.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelOptions {
    /// Longest answer, in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<i64>,
    /// Randomness from 0 to 2.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Nucleus sampling: probability mass from 0 to 1.
    #[serde(rename = "topP")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// How hard it thinks.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Further options, handed to the provider as they are.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub extra: Option<serde_json::Value>,
}

/// How hard a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// Normally.
    Medium,
    /// Hard.
    High,
    /// As hard as it can.
    XHigh,
}

/// How much a model takes in and writes, in tokens.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimit {
    /// Context window.
    #[schemars(range(min = 1))]
    pub context: Option<i64>,
    /// Longest answer.
    #[schemars(range(min = 1))]
    pub output: Option<i64>,
}

/// Price of a million tokens.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCost {
    /// Sent to the model.
    #[schemars(range(min = 0.0))]
    pub input: Option<f64>,
    /// Written by the model.
    #[schemars(range(min = 0.0))]
    pub output: Option<f64>,
    /// Read from the provider's cache.
    #[schemars(range(min = 0.0))]
    pub cache_read: Option<f64>,
    /// Written to the provider's cache.
    #[schemars(range(min = 0.0))]
    pub cache_write: Option<f64>,
}

/// Observed state of a Model.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}
