//! Kinds that have no shape of their own on the wire, and the configuration.

use api::{
    KubeOpenCodeConfig,
    conditions::types,
    kinds::config::{Cleanup, Defaults, ImageBuilding, Observability, SystemImage},
    workload::Proxy,
};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{Condition, Identity, conditions, piece::piece};

/// An object of any kind: identity, spec and status as in its definition.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ObjectResponse {
    /// Kind of the object.
    pub kind: String,
    #[serde(flatten)]
    pub identity: Identity,
    /// Whether all conditions about readiness are true; absent if there are none.
    pub ready: Option<bool>,
    pub conditions: Vec<Condition>,
    #[schema(value_type = Object)]
    pub spec: Value,
    /// Status without conditions.
    #[schema(value_type = Option<Object>)]
    pub status: Option<Value>,
}

/// Whether all conditions about readiness are true; `None` if there are none.
pub fn ready(conditions: &[Condition]) -> Option<bool> {
    const TELLING: [&str; 7] = [
        types::READY,
        types::ACCEPTED,
        types::REFERENCES_RESOLVED,
        types::SECRETS_READY,
        types::REACHABLE,
        types::SCHEMA_RESOLVED,
        types::COMPILED,
    ];
    let mut telling = conditions.iter().filter(|condition| TELLING.contains(&condition.kind.as_str())).peekable();
    telling.peek()?;
    Some(telling.all(|condition| condition.status == "True"))
}

/// The settings of the whole platform.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigResponse {
    #[serde(flatten)]
    pub identity: Identity,
    #[schema(schema_with = piece::<SystemImage>)]
    pub system_image: Option<SystemImage>,
    #[schema(schema_with = piece::<Cleanup>)]
    pub cleanup: Option<Cleanup>,
    #[schema(schema_with = piece::<Proxy>)]
    pub proxy: Option<Proxy>,
    pub cluster_domain: Option<String>,
    #[schema(schema_with = piece::<Observability>)]
    pub observability: Option<Observability>,
    #[schema(schema_with = piece::<ImageBuilding>)]
    pub image_build: Option<ImageBuilding>,
    #[schema(schema_with = piece::<Defaults>)]
    pub defaults: Option<Defaults>,
    pub conditions: Vec<Condition>,
}

impl ConfigResponse {
    /// The configuration.
    pub fn of(config: &KubeOpenCodeConfig) -> Self {
        let spec = config.spec.clone();
        Self {
            identity: Identity::of(config),
            system_image: spec.system_image,
            cleanup: spec.cleanup,
            proxy: spec.proxy,
            cluster_domain: spec.cluster_domain,
            observability: spec.observability,
            image_build: spec.image_build,
            defaults: spec.defaults,
            conditions: conditions(config.status.as_ref().and_then(|status| status.conditions.as_ref())),
        }
    }
}
