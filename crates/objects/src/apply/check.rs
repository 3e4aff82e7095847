//! Validates a value against its schema, as far as field ownership needs it.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::element::Element;
use super::shape::{Form, ScalarForm, Shape};
use crate::schema::Type;

/// The paths at which a value does not match its schema, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMismatch(Vec<(String, String)>);

impl std::error::Error for SchemaMismatch {}

impl fmt::Display for SchemaMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(path, error)| if path.is_empty() { error.clone() } else { format!("{path}: {error}") })
            .collect();
        match &lines[..] {
            [one] => write!(out, "{one}"),
            many => write!(out, "errors:\n  {}", many.join("\n  ")),
        }
    }
}

/// Whether two list items may have the same key. A client must not apply such a list, but a stored object may contain
/// one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    ApplyError,
}

pub(super) fn check(value: &Value, shape: Shape<'_>, duplicates: Duplicates) -> Result<(), SchemaMismatch> {
    let mut errors = Vec::new();
    visit(value, shape, duplicates, "", &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(SchemaMismatch(errors)) }
}

fn visit(value: &Value, shape: Shape<'_>, duplicates: Duplicates, path: &str, errors: &mut Vec<(String, String)>) {
    if value.is_null() {
        return;
    }
    let mut error = |text: String| errors.push((path.to_owned(), text));
    match (shape.form(Some(value)), value) {
        (None, _) => error("schema error: invalid atom: inlined".to_owned()),
        (Some(Form::Scalar), _) => {
            if let Some(text) = scalar_error(value, shape.as_scalar()) {
                error(text);
            }
        }
        (Some(Form::Map(map)), Value::Object(object)) => {
            for (name, inside) in object {
                let path = format!("{path}.{name}");
                match map.field(name) {
                    Shape::Missing => {
                        errors.push((path, "field not declared in schema".to_owned()));
                        return;
                    }
                    field => visit(inside, field, duplicates, &path, errors),
                }
            }
        }
        (Some(Form::Map(_)), _) => error(format!("expected map, got &{{{}}}", printed_like_go(value))),
        (Some(Form::List(list)), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let element = if list.atomic() { Ok(Element::Index(index)) } else { list.element(item) };
                match element {
                    Ok(element) => {
                        let place = format!("{path}{element}");
                        if duplicates == Duplicates::ApplyError && !seen.insert(element.clone()) {
                            errors.push((path.to_owned(), format!("duplicate entries for key {element}")));
                        }
                        visit(item, list.item, duplicates, &place, errors);
                    }
                    Err(text) => {
                        errors.push((path.to_owned(), format!("element {index}: {text}")));
                        return;
                    }
                }
            }
        }
        (Some(Form::List(_)), _) => error(format!("expected list, got &{{{}}}", printed_like_go(value))),
    }
}

/// The messages of kube-apiserver, which prints values as Go does.
fn scalar_error(value: &Value, form: Option<ScalarForm>) -> Option<String> {
    let shown = printed_like_go(value);
    let Some(ScalarForm::Of(kind)) = form else {
        let scalar = !value.is_object() && !value.is_array();
        return (!scalar).then(|| format!("expected any scalar, got &{{{shown}}}"));
    };
    match (kind, value) {
        (Type::Integer | Type::Number, Value::Number(_))
        | (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Object | Type::Array, _) => None,
        (Type::Integer | Type::Number, _) => {
            let found = match value {
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                Value::Array(_) => "[]interface {}",
                _ => "map[string]interface {}",
            };
            Some(format!("expected numeric (int or float), got {found}"))
        }
        (Type::String, _) => {
            let shown = match value {
                Value::Array(_) => "[]interface {}{…}".to_owned(),
                Value::Object(_) => "map[string]interface {}{…}".to_owned(),
                other => other.to_string(),
            };
            Some(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}"))
        }
        (Type::Boolean, _) => Some(format!("expected boolean, got &{{{shown}}}")),
    }
}

fn printed_like_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(printed_like_go).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{name}:{}", printed_like_go(value))).collect();
            fields.sort();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}
