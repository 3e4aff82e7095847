//! Instruction: a text that many agents follow.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{AllowedNamespaces, ConfigMapKeyRef},
    run::Values,
    schema::IntoRule as _,
};

/// A text that many agents follow.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Instruction",
    plural = "instructions",
    shortname = "ins",
    category = "kubeopencode",
    namespaced,
    status = "InstructionStatus",
    derive = "PartialEq",
    doc = "A text that many agents follow.",
    printcolumn(name = "Accepted", type_ = "string", json_path = ".status.conditions[?(@.type=='Accepted')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.text) != has(self.configMapKeyRef)", "set exactly one of text and configMapKeyRef").into_rule())]
pub struct InstructionSpec {
    /// The text. `{{ name }}` is replaced by a variable.
    #[schemars(length(min = 1, max = 524_288))]
    pub text: Option<String>,
    /// Where the text is.
    pub config_map_key_ref: Option<ConfigMapKeyRef>,
    /// Values of the variables in the text.
    pub variables: Option<Values>,
    /// From which namespaces it may be used.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// Observed state of an Instruction.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}
