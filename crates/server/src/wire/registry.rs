//! Registries on the wire: packages of the spec with their resolved versions.

use api::{
    Registry,
    context::{GitSkillSource, PluginSpec},
    kinds::registry::{AssetPhase, ImageMetadata, RegistrySummary, SkillMetadata},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{Condition, Identity, conditions, piece::piece, time};
use crate::wire::duration;

/// A Registry.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryResponse {
    #[serde(flatten)]
    pub identity: Identity,
    pub check_interval: Option<String>,
    #[serde(rename = "npmRegistryURL")]
    pub npm_registry_url: Option<String>,
    pub images: Vec<Image>,
    pub skills: Vec<Skill>,
    pub plugins: Vec<Plugin>,
    #[schema(schema_with = piece::<RegistrySummary>)]
    pub summary: Option<RegistrySummary>,
    pub conditions: Vec<Condition>,
}

/// Whether an asset is there.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Absent before the first look.
    #[schema(schema_with = piece::<AssetPhase>)]
    pub phase: Option<AssetPhase>,
    pub last_checked: Option<Timestamp>,
    /// Why the package is not available.
    pub message: Option<String>,
}

/// An image of the catalogue.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Image {
    pub name: String,
    pub image: String,
    #[schema(schema_with = piece::<ImageMetadata>)]
    pub metadata: Option<ImageMetadata>,
    pub digest: Option<String>,
    #[serde(flatten)]
    pub found: Found,
}

/// A collection of skills of the catalogue.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    pub name: String,
    #[schema(schema_with = piece::<GitSkillSource>)]
    pub git: GitSkillSource,
    #[schema(schema_with = piece::<SkillMetadata>)]
    pub metadata: Option<SkillMetadata>,
    pub latest_commit: Option<String>,
    #[serde(flatten)]
    pub found: Found,
}

/// A plugin of the catalogue.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    pub name: String,
    #[schema(schema_with = piece::<PluginSpec>)]
    pub plugin: PluginSpec,
    #[schema(schema_with = piece::<SkillMetadata>)]
    pub metadata: Option<SkillMetadata>,
    pub resolved_version: Option<String>,
    #[serde(flatten)]
    pub found: Found,
}

impl RegistryResponse {
    /// The Registry.
    pub fn of(registry: &Registry) -> Self {
        let spec = &registry.spec;
        let status = registry.status.clone().unwrap_or_default();
        let image = |asset: &api::kinds::registry::ImageAsset| {
            let seen = status.images.iter().flatten().find(|seen| seen.name == asset.name);
            Image {
                name: asset.name.clone(),
                image: asset.image.clone(),
                metadata: asset.metadata.clone(),
                digest: seen.and_then(|seen| seen.digest.clone()),
                found: seen.map_or_else(Found::default, |seen| {
                    found(seen.phase, time(seen.last_checked.as_ref()), seen.message.clone())
                }),
            }
        };
        let skill = |asset: &api::kinds::registry::SkillAsset| {
            let seen = status.skills.iter().flatten().find(|seen| seen.name == asset.name);
            Skill {
                name: asset.name.clone(),
                git: asset.git.clone(),
                metadata: asset.metadata.clone(),
                latest_commit: seen.and_then(|seen| seen.latest_commit.clone()),
                found: seen.map_or_else(Found::default, |seen| {
                    found(seen.phase, time(seen.last_checked.as_ref()), seen.message.clone())
                }),
            }
        };
        let plugin = |asset: &api::kinds::registry::PluginAsset| {
            let seen = status.plugins.iter().flatten().find(|seen| seen.name == asset.name);
            Plugin {
                name: asset.name.clone(),
                plugin: asset.plugin.clone(),
                metadata: asset.metadata.clone(),
                resolved_version: seen.and_then(|seen| seen.resolved_version.clone()),
                found: seen.map_or_else(Found::default, |seen| {
                    found(seen.phase, time(seen.last_checked.as_ref()), seen.message.clone())
                }),
            }
        };
        Self {
            identity: Identity::of(registry),
            check_interval: spec.check_interval.map(|interval| duration::text(interval.to_std())),
            npm_registry_url: spec.npm_registry_url.clone(),
            images: spec.images.iter().flatten().map(image).collect(),
            skills: spec.skills.iter().flatten().map(skill).collect(),
            plugins: spec.plugins.iter().flatten().map(plugin).collect(),
            summary: status.summary,
            conditions: conditions(status.conditions.as_ref()),
        }
    }
}

fn found(phase: AssetPhase, last_checked: Option<Timestamp>, message: Option<String>) -> Found {
    Found { phase: Some(phase), last_checked, message }
}
