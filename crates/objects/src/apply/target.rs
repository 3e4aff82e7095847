//! The kind and subresource of a write, and the fields that are not tracked.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::shape::Shape;
use crate::schema::{Schema, Type};

/// Who defined a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Kubernetes: objects have all fields of their Go structs, also those that were not given (`status: {}`).
    BuiltIn,
    /// A CustomResourceDefinition: objects have the given fields only.
    Custom,
}

/// The kind and subresource of a write.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The schema of the whole object.
    pub schema: &'a Schema,
    pub origin: Origin,
    /// `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// `ConfigMap`.
    pub kind: &'a str,
    /// `status`, `scale`; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// Fields that a write to this (sub)resource does not change, see [`reset_fields`].
    pub reset: &'a Fields,
}

impl<'a> Target<'a> {
    pub(super) fn shape(&self) -> Shape<'a> {
        Shape::of_object(self.schema)
    }

    /// The object that a create is compared with.
    pub(super) fn nothing(&self) -> Value {
        let mut object = match self.origin {
            Origin::BuiltIn => empty_struct(self.schema),
            Origin::Custom => Map::new(),
        };
        object.insert("apiVersion".to_owned(), self.api_version.into());
        object.insert("kind".to_owned(), self.kind.into());
        Value::Object(object)
    }

    /// Removes nulls that mean missing fields. In custom resources nulls are values, which validation checks.
    pub(super) fn drop_nulls(&self, object: &mut Value) {
        match self.origin {
            Origin::BuiltIn => drop_nulls(object, Some(self.schema)),
            Origin::Custom => {
                if let Some(metadata) = object.get_mut("metadata") {
                    drop_nulls(metadata, None);
                }
            }
        }
    }
}

/// An empty struct of the API: nested structs and fields that are always serialized are present. The published schema
/// distinguishes them: the former have the default `{}`, the latter are required.
fn empty_struct(schema: &Schema) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, field) in &schema.properties {
        let required = schema.required.contains(name);
        match &field.default {
            Some(Value::Object(fields)) if fields.is_empty() => {
                object.insert(name.clone(), Value::Object(empty_struct(field)));
            }
            Some(Value::String(text)) if required && text.is_empty() => {
                object.insert(name.clone(), "".into());
            }
            Some(Value::Number(number)) if required && number.as_i64() == Some(0) => {
                object.insert(name.clone(), 0.into());
            }
            Some(Value::Bool(false)) if required => {
                object.insert(name.clone(), false.into());
            }
            None if required && matches!(field.kind, Some(Type::Array | Type::Object)) => {
                object.insert(name.clone(), Value::Null);
            }
            _ => {}
        }
    }
    object
}

fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(object) => {
            let always_written = |name: &String| schema.is_some_and(|schema| schema.required.contains(name));
            object.retain(|name, value| !value.is_null() || always_written(name));
            for (name, inside) in object.iter_mut() {
                let field = schema.and_then(|schema| schema.properties.get(name).or(schema.additional.as_ref()));
                drop_nulls(inside, field.map(AsRef::as_ref));
            }
        }
        Value::Array(items) => {
            let of_items = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls(item, of_items);
            }
        }
        _ => {}
    }
}

/// The fields that a write to a (sub)resource does not change, so that it does not own them.
pub fn reset_fields(api_version: &str, kind: &str, origin: Origin, subresource: Option<&str>) -> Fields {
    let status: &[&str] = &["status"];
    let spec: &[&str] = &["spec"];
    match (origin, api_version, kind, subresource) {
        (_, "v1", "Pod", Some("status")) => {
            Fields::of([spec, &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
        }
        (_, "apps/v1", "Deployment", Some("status")) => Fields::of([spec, &["metadata", "labels"]]),
        (_, "networking.k8s.io/v1", "NetworkPolicy", _)
        | (_, "coordination.k8s.io/v1", _, _)
        | (_, _, _, Some("scale")) => Fields::default(),
        (_, _, _, Some("status")) => Fields::of([spec]),
        _ => Fields::of([status]),
    }
}
