//! How objects refer to each other, and who may.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// An object of a known kind in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LocalRef {
    /// Name of the object, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl LocalRef {
    /// A reference to `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// An object of a known kind, possibly in another namespace whose owner allows it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object; its own namespace when unset. The object must allow it (`allowedNamespaces`).
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// One key of a ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapKeyRef {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// HTTP header names and values that are not secret.
pub type Headers = BTreeMap<String, String>;

/// An HTTP header whose value comes from a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderFromSecret {
    /// Name of the header.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"))]
    pub name: String,
    /// Where its value is.
    pub secret_key_ref: SecretKeyRef,
}

/// A Service as the target of HTTP calls.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.port) != has(self.portName)", "set exactly one of port and portName").into_rule())]
pub struct ServiceRef {
    /// Name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Namespace of the Service; the object's own when unset.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Number of the port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Name of the port, as the Service calls it.
    #[schemars(length(min = 1, max = 15))]
    pub port_name: Option<String>,
}

/// Trust settings of an HTTPS endpoint.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Certificate authorities to trust besides the system's, as PEM.
    pub ca_secret_ref: Option<SecretKeyRef>,
    /// Accept any certificate. For experiments only.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// From which namespaces an object may be referred to.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = ("self.from != 'Selector' || has(self.selector)", "selector is required when from is Selector").into_rule())]
#[x_kube(validation = ("self.from == 'Selector' || !has(self.selector)", "selector is only allowed when from is Selector").into_rule())]
pub struct AllowedNamespaces {
    /// Same: only its own namespace. All: every namespace. Selector: namespaces whose labels match.
    #[serde(default)]
    pub from: NamespacesFrom,
    /// Labels of the namespaces that may refer to it.
    pub selector: Option<LabelSelector>,
}

/// Which namespaces are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// Only the object's own.
    #[default]
    Same,
    /// Every one.
    All,
    /// Those that match a selector.
    Selector,
}

use crate::schema::IntoRule as _;
