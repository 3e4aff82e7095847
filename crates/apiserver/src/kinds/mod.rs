//! The served kinds: built-in ones and those of CustomResourceDefinitions.

mod builtin;
pub(crate) mod custom;
mod events;
mod registry;

pub(crate) use registry::{DEFINITIONS, Registry};

use std::sync::Arc;

use objects::schema::parse_strict;
use serde_json::{Map, Value};

use crate::body::MAX_DEPTH;
use crate::status_error::StatusError;
use crate::store::EncodedObject;

/// The verbs of a collection.
pub(crate) const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// The last segment of its path.
    pub(crate) name: &'static str,
    /// Group, version and kind of its objects; empty group and version mean those of the parent.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: String,
    pub(crate) verbs: &'static [&'static str],
}

/// Where a custom kind stores the fields of `scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// A kind in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// The key of its objects in the store, shared by the versions of a kind.
    pub(crate) storage_key: Arc<str>,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) scale: Option<ScalePaths>,
    /// Set for kinds of a CustomResourceDefinition.
    pub(crate) custom: Option<Arc<custom::Version>>,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether this is the built-in kind with this group and plural name.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.custom.is_none() && self.group == group && self.plural == plural
    }

    /// The key of an object in its collection.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// The common prefix of the keys of a namespace, or of all keys.
    pub(crate) fn prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.namespaced => format!("{namespace}/"),
            _ => String::new(),
        }
    }

    /// The name of the storage in error messages of kube-apiserver.
    pub(crate) fn storage_name(&self) -> String {
        match &*self.plural {
            plural if self.custom.is_some() || self.group == "apiextensions.k8s.io" => {
                format!("{}/{plural}", self.group)
            }
            "services" => "services/specs".to_owned(),
            "endpoints" => "services/endpoints".to_owned(),
            "nodes" => "minions".to_owned(),
            plural => plural.to_owned(),
        }
    }

    pub(crate) fn not_found(&self, name: &str) -> StatusError {
        StatusError::not_found(&self.plural, &self.group, name)
    }

    pub(crate) fn stale(&self, name: &str) -> StatusError {
        StatusError::stale(&self.plural, &self.group, name)
    }

    /// Whether the stored schema differs from that of this version.
    pub(crate) fn is_stored_differently(&self) -> bool {
        self.is("events.k8s.io", "events")
    }

    /// Serializes an object for the store.
    pub(crate) fn encode(&self, object: &Value) -> Result<EncodedObject, StatusError> {
        let encoded = match object {
            Value::Object(fields) if self.is_stored_differently() => {
                EncodedObject::new(&Value::Object(events::stored(fields.clone())))
            }
            object => EncodedObject::new(object),
        };
        encoded.map_err(StatusError::internal)
    }

    /// Parses stored bytes, and sets the apiVersion and kind of this version.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Value, StatusError> {
        let mut stored = fields(bytes)?;
        if self.is_stored_differently() {
            stored = events::shown(stored);
        }
        let mut object = Map::with_capacity(stored.len() + 2);
        object.insert("apiVersion".to_owned(), Value::String(self.api_version()));
        object.insert("kind".to_owned(), Value::String(self.kind.clone()));
        object.extend(stored);
        Ok(Value::Object(object))
    }
}

/// Parses the fields of a stored object. Falls back to a slower parser for more than 128 levels of nesting.
fn fields(bytes: &[u8]) -> Result<Map<String, Value>, StatusError> {
    serde_json::from_slice(bytes).or_else(|error| match parse_strict(bytes, MAX_DEPTH).map(|parsed| parsed.value) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(StatusError::internal(error)),
    })
}
