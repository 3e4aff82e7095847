//! The kinds that the server serves: the built-in ones and those that CustomResourceDefinitions add.

mod builtin;
pub(crate) mod custom;
mod events;
mod registry;

pub(crate) use registry::{DEFINITIONS, Registry};

use std::sync::Arc;

use objects::schema::parse_strict;
use serde_json::{Map, Value};

use crate::body::DEEPEST;
use crate::refusal::Refusal;
use crate::store::Draft;

/// What a client can do with a collection or one of its subresources.
pub(crate) const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A part of an object that has its own address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// The last segment of its path.
    pub(crate) name: &'static str,
    /// Group, version and kind of what it takes and gives; an empty group and version mean those of the object.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: String,
    pub(crate) verbs: &'static [&'static str],
}

/// Where a custom kind keeps what `scale` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// A kind in one of its versions.
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
    /// Where its objects are stored, which versions and twins of a kind share.
    pub(crate) shelf: Arc<str>,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) scale: Option<ScalePaths>,
    /// What a CustomResourceDefinition says about this version.
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

    /// Whether this is the built-in kind of that group and plural name.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.custom.is_none() && self.group == group && self.plural == plural
    }

    /// Where an object is kept on its shelf.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// The beginning of the keys of a namespace; of all keys if there is none.
    pub(crate) fn prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.namespaced => format!("{namespace}/"),
            _ => String::new(),
        }
    }

    /// How the real server calls its storage of this kind, which shows in some of its sentences.
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

    pub(crate) fn not_found(&self, name: &str) -> Refusal {
        Refusal::not_found(&self.plural, &self.group, name)
    }

    pub(crate) fn stale(&self, name: &str) -> Refusal {
        Refusal::stale(&self.plural, &self.group, name)
    }

    /// Whether objects of this kind are stored in another form than they are shown.
    pub(crate) fn is_stored_differently(&self) -> bool {
        self.is("events.k8s.io", "events")
    }

    /// An object of this kind on its way to the store.
    pub(crate) fn draft(&self, object: &Value) -> Result<Draft, Refusal> {
        let draft = match object {
            Value::Object(fields) if self.is_stored_differently() => {
                Draft::new(&Value::Object(events::stored(fields.clone())))
            }
            object => Draft::new(object),
        };
        draft.map_err(Refusal::internal)
    }

    /// Reads stored bytes, and gives the object the type of this version.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Value, Refusal> {
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

/// The fields of a stored object. The usual reader is quicker, and gives up on what nests deeper than 128 levels.
fn fields(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    serde_json::from_slice(bytes).or_else(|error| match parse_strict(bytes, DEEPEST).map(|parsed| parsed.value) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Refusal::internal(error)),
    })
}
