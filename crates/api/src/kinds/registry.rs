//! Registry: a catalogue of images, skills and plugins.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    context::{GitSkillSource, PluginSpec},
    refs::{AllowedNamespaces, LocalRef},
    schema::Duration,
};

/// A catalogue of images, skills and plugins to build agents from.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Registry",
    plural = "registries",
    shortname = "reg",
    category = "kubeopencode",
    namespaced,
    status = "RegistryStatus",
    derive = "PartialEq",
    doc = "A catalogue of images, skills and plugins to build agents from.",
    printcolumn(name = "Images", type_ = "integer", json_path = ".status.summary.images"),
    printcolumn(name = "Skills", type_ = "integer", json_path = ".status.summary.skills"),
    printcolumn(name = "Plugins", type_ = "integer", json_path = ".status.summary.plugins"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.summary.readyCount"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.summary.totalCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySpec {
    /// How often the assets are looked at; 10m when unset.
    pub check_interval: Option<Duration>,
    /// Address of the npm registry; the controller's `npm_config_registry` when unset.
    #[serde(rename = "npmRegistryURL")]
    #[schemars(length(max = 4096), regex(pattern = r"^https?://[^\x00\s]+$"))]
    pub npm_registry_url: Option<String>,
    /// Images.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub images: Option<Vec<ImageAsset>>,
    /// Collections of skills.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub skills: Option<Vec<SkillAsset>>,
    /// Plugins.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub plugins: Option<Vec<PluginAsset>>,
    /// From which namespaces it may be used.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// An image of the catalogue.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageAsset {
    /// Name in the catalogue.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Secret for pulling it.
    pub secret_ref: Option<LocalRef>,
    /// What it is.
    pub metadata: Option<ImageMetadata>,
}

/// Description of an image.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageMetadata {
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Its category.
    #[schemars(length(max = 63))]
    pub category: Option<String>,
    /// Search terms.
    pub tags: Option<Vec<String>>,
    /// Tools inside.
    pub tools: Option<Vec<String>>,
    /// Source it was built from.
    #[schemars(length(max = 1024))]
    pub base_image: Option<String>,
    /// Maintainer.
    #[schemars(length(max = 253))]
    pub maintainer: Option<String>,
}

/// A collection of skills of the catalogue.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillAsset {
    /// Name in the catalogue.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Where it comes from.
    pub git: GitSkillSource,
    /// What it is.
    pub metadata: Option<SkillMetadata>,
}

/// Description of a collection of skills.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillMetadata {
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Search terms.
    pub tags: Option<Vec<String>>,
    /// Credentials that it needs.
    pub required_credentials: Option<Vec<RequiredCredential>>,
}

/// A credential that a skill or plugin needs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequiredCredential {
    /// Environment variable that carries it.
    #[schemars(length(min = 1, max = 253))]
    pub env: String,
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
}

/// A plugin of the catalogue.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginAsset {
    /// Name in the catalogue.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The plugin.
    pub plugin: PluginSpec,
    /// What it is.
    pub metadata: Option<SkillMetadata>,
}

/// Observed state of a Registry.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Images, as found.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub images: Option<Vec<ImageAssetStatus>>,
    /// Collections of skills, as found.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub skills: Option<Vec<SkillAssetStatus>>,
    /// Plugins, as found.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub plugins: Option<Vec<PluginAssetStatus>>,
    /// Numbers.
    pub summary: Option<RegistrySummary>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// Whether an asset is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AssetPhase {
    /// It is.
    Ready,
    /// It is not; the message says why.
    #[default]
    Unavailable,
}

/// An image, as found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageAssetStatus {
    /// Name in the catalogue.
    pub name: String,
    /// The image.
    pub image: Option<String>,
    /// Whether it is there.
    pub phase: AssetPhase,
    /// Its digest.
    pub digest: Option<String>,
    /// When it was looked at.
    pub last_checked: Option<Time>,
    /// Why it is not there.
    pub message: Option<String>,
}

/// A collection of skills, as found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillAssetStatus {
    /// Name in the catalogue.
    pub name: String,
    /// Whether it is there.
    pub phase: AssetPhase,
    /// Its latest commit.
    pub latest_commit: Option<String>,
    /// When it was looked at.
    pub last_checked: Option<Time>,
    /// Why it is not there.
    pub message: Option<String>,
}

/// A plugin, as found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginAssetStatus {
    /// Name in the catalogue.
    pub name: String,
    /// Whether it is there.
    pub phase: AssetPhase,
    /// Version that the range resolves to.
    pub resolved_version: Option<String>,
    /// When it was looked at.
    pub last_checked: Option<Time>,
    /// Why it is not there.
    pub message: Option<String>,
}

/// Numbers of a catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySummary {
    /// Images listed.
    pub images: i32,
    /// Collections of skills listed.
    pub skills: i32,
    /// Plugins listed.
    pub plugins: i32,
    /// Assets that are there.
    pub ready_count: i32,
    /// Assets listed.
    pub total_count: i32,
}
