//! The view of server-side apply on a position in an object: list, map or scalar, and how managers share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::element::{Element, Scalar};
use crate::schema::{ListType, MapType, Schema, Type, builtin};

/// A position in an object.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    Known {
        schema: &'a Schema,
        /// Unknown fields are preserved, here and below.
        open: bool,
        /// It has `apiVersion`, `kind` and `metadata` even if the schema does not declare them.
        resource: bool,
    },
    /// Not described: an object is shared field by field, a list is atomic.
    Deduced,
    /// Inside a list that is not described: atomic.
    Untyped,
    /// The schema has no such position.
    Missing,
}

/// How a value at a position is handled.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    Map(MapForm<'a>),
    List(ListForm<'a>),
    Scalar,
}

impl Form<'_> {
    pub fn name(self) -> &'static str {
        match self {
            Self::Map(_) => "map",
            Self::List(_) => "list",
            Self::Scalar => "scalar",
        }
    }
}

/// The scalars that a position accepts.
#[derive(Clone, Copy)]
pub(super) enum ScalarForm {
    Any,
    Of(Type),
}

#[derive(Clone, Copy)]
pub(super) struct MapForm<'a> {
    shape: Shape<'a>,
    pub atomic: bool,
}

#[derive(Clone, Copy)]
pub(super) struct ListForm<'a> {
    list_type: &'a ListType,
    pub item: Shape<'a>,
}

impl<'a> Shape<'a> {
    pub fn of_object(schema: &'a Schema) -> Self {
        Self::Known { schema, open: schema.preserve_unknown, resource: true }
    }

    fn of(schema: &'a Schema, open: bool) -> Self {
        Self::Known { schema, open: open || schema.preserve_unknown, resource: schema.embedded_resource }
    }

    pub fn as_map(self) -> Option<MapForm<'a>> {
        let atomic = match self {
            Self::Known { schema, .. } => match schema.kind {
                Some(Type::Object) | None => schema.map_type == MapType::Atomic,
                Some(_) => return None,
            },
            Self::Deduced => false,
            Self::Untyped => true,
            Self::Missing => return None,
        };
        Some(MapForm { shape: self, atomic })
    }

    pub fn as_list(self) -> Option<ListForm<'a>> {
        match self {
            Self::Known { schema, open, .. } => match schema.kind {
                Some(Type::Array) | None => {
                    let item = schema.items.as_deref().map_or(Self::Untyped, |items| Self::of(items, open));
                    Some(ListForm { list_type: &schema.list_type, item })
                }
                Some(_) => None,
            },
            Self::Deduced | Self::Untyped => Some(ListForm { list_type: &ListType::Atomic, item: Self::Untyped }),
            Self::Missing => None,
        }
    }

    /// The scalars that this position accepts; `None` if it accepts none.
    pub fn as_scalar(self) -> Option<ScalarForm> {
        match self {
            Self::Known { schema, .. } => match schema.kind {
                Some(Type::Object | Type::Array) => None,
                // Times, quantities and similar formats have more than one JSON type.
                Some(Type::String) if schema.format.as_deref().is_some_and(|format| format != "byte") => {
                    Some(ScalarForm::Any)
                }
                Some(kind) => Some(ScalarForm::Of(kind)),
                None => Some(ScalarForm::Any),
            },
            Self::Deduced | Self::Untyped => Some(ScalarForm::Any),
            Self::Missing => None,
        }
    }

    /// How `value` is handled here. A missing or mismatching value is handled as the most structured form.
    pub fn form(self, value: Option<&Value>) -> Option<Form<'a>> {
        let (map, list) = (self.as_map().map(Form::Map), self.as_list().map(Form::List));
        let scalar = self.as_scalar().map(|_| Form::Scalar);
        let fitting = match value {
            Some(Value::Object(_)) => map,
            Some(Value::Array(_)) => list,
            Some(Value::Null) | None => None,
            Some(_) => scalar,
        };
        fitting.or(map).or(scalar).or(list)
    }
}

impl<'a> MapForm<'a> {
    /// The position of a field.
    pub fn field(self, name: &str) -> Shape<'a> {
        match self.shape {
            Shape::Known { schema, open, resource } => {
                let described = schema.properties.get(name);
                if resource && let Some(own) = resource_field(name, described) {
                    return Shape::of(own, false);
                }
                match (described, &schema.additional) {
                    (Some(described), _) => Shape::of(described, open),
                    (None, Some(additional)) => Shape::of(additional, open),
                    (None, None) if open || schema.properties.is_empty() => Shape::Deduced,
                    (None, None) => Shape::Missing,
                }
            }
            Shape::Deduced => Shape::Deduced,
            Shape::Untyped => Shape::Untyped,
            Shape::Missing => Shape::Missing,
        }
    }

    /// Whether the schema declares this field; other fields are map keys.
    pub fn names(self, field: &str) -> bool {
        match self.shape {
            Shape::Known { schema, resource, .. } => {
                schema.properties.contains_key(field) || (resource && resource_field(field, None).is_some())
            }
            _ => false,
        }
    }

    /// Whether the fields are not described.
    pub fn is_deduced(self) -> bool {
        match self.shape {
            Shape::Known { schema, .. } => schema.properties.is_empty() && schema.additional.is_none(),
            Shape::Deduced | Shape::Untyped => true,
            Shape::Missing => false,
        }
    }
}

impl ListForm<'_> {
    pub fn atomic(self) -> bool {
        *self.list_type == ListType::Atomic
    }

    /// The path element of an item. The error is the message of kube-apiserver.
    pub fn element(self, item: &Value) -> Result<Element, String> {
        match self.list_type {
            ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListType::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(Element::Item(Scalar(scalar.clone()))),
            },
            ListType::Map(keys) => self.key(keys, item),
        }
    }

    fn key(self, keys: &[String], item: &Value) -> Result<Element, String> {
        let object = match item {
            Value::Object(object) => object,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found = BTreeMap::new();
        for key in keys {
            if let Some(value) = object.get(key).or_else(|| self.default_of(key)) {
                found.insert(key.clone(), Scalar(value.clone()));
            }
        }
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::Key(found.into_iter().collect()))
    }

    fn default_of(&self, key: &str) -> Option<&Value> {
        match self.item {
            Shape::Known { schema, .. } => schema.properties.get(key)?.default.as_ref(),
            _ => None,
        }
    }
}

/// The fields of every resource, for a schema that only declares `metadata` as an object.
fn resource_field(name: &str, described: Option<&Arc<Schema>>) -> Option<&'static Schema> {
    let metadata = builtin::metadata()?;
    match name {
        "metadata" if described.is_none_or(|schema| schema.properties.is_empty()) => Some(metadata),
        // Strings like the name, as far as ownership is concerned.
        "apiVersion" | "kind" if described.is_none() => metadata.properties.get("name").map(AsRef::as_ref),
        _ => None,
    }
}
