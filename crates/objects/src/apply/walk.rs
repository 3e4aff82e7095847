//! The traversals that field ownership is built from: the fields of a value, the difference of two values, a value
//! without some fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::Fields;
use super::shape::{Form, ListForm, MapForm, Shape};

/// The fields in which two values differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub removed: Fields,
    pub modified: Fields,
    pub added: Fields,
}

impl Comparison {
    /// Without the fields of `reset` and those below them.
    pub fn outside(self, reset: &Fields) -> Self {
        Self {
            removed: self.removed.outside(reset),
            modified: self.modified.outside(reset),
            added: self.added.outside(reset),
        }
    }
}

/// Equality in which 1 and 1.0 are the same number.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => left == right,
    }
}

/// All fields of a value.
pub(super) fn fields_of(value: &Value, shape: Shape<'_>) -> Fields {
    let mut fields = Fields::default();
    gather(value, shape, &mut Vec::new(), &mut fields);
    fields
}

fn gather(value: &Value, shape: Shape<'_>, path: &mut Vec<Element>, fields: &mut Fields) {
    match shape.form(Some(value)) {
        Some(Form::Map(map)) if !map.atomic => {
            let Value::Object(object) = value else { return };
            for (name, inside) in object {
                path.push(Element::field(name));
                gather(inside, map.field(name), path, fields);
                let empty = inside.is_null() || inside.as_object().is_some_and(Map::is_empty);
                if empty || !map.names(name) {
                    fields.insert(path);
                }
                path.pop();
            }
        }
        Some(Form::List(list)) if !list.atomic() => {
            let Value::Array(items) = value else { return };
            for (element, same_key) in by_element(list, items).1 {
                path.push(element);
                if let [item] = same_key[..] {
                    gather(item, list.item, path, fields);
                }
                fields.insert(path);
                path.pop();
            }
        }
        Some(_) => fields.insert(path),
        None => {}
    }
}

/// Items by their element, in the order of their first occurrence. Items without an element are skipped.
pub(super) fn by_element<'v>(
    list: ListForm<'_>,
    items: &'v [Value],
) -> (Vec<Element>, BTreeMap<Element, Vec<&'v Value>>) {
    let (mut order, mut found) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for item in items {
        if let Ok(element) = list.element(item) {
            let same_key = found.entry(element.clone()).or_default();
            if same_key.is_empty() {
                order.push(element);
            }
            same_key.push(item);
        }
    }
    (order, found)
}

/// The difference from `left` to `right`.
pub(super) fn compare(left: &Value, right: &Value, shape: Shape<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    differ(Some(left), Some(right), shape, &mut Vec::new(), &mut comparison);
    comparison
}

fn differ(
    left: Option<&Value>,
    right: Option<&Value>,
    shape: Shape<'_>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let (before, after) = (shape.form(left), shape.form(right));
    let leaf = match (left, right) {
        (_, None) => differ_as(before, left, right, path, out),
        (None, _) => differ_as(after, left, right, path, out),
        _ if before.map(Form::name) == after.map(Form::name) => differ_as(after, left, right, path, out),
        _ => {
            differ_as(before, left, right, path, out);
            differ_as(after, left, right, path, out)
        }
    };
    if !leaf {
        match (left, right) {
            (None, _) => out.added.insert(path),
            (_, None) => out.removed.insert(path),
            _ => {}
        }
    }
}

/// Returns whether the value is atomic.
fn differ_as(
    form: Option<Form<'_>>,
    left: Option<&Value>,
    right: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) -> bool {
    match form {
        Some(Form::Map(map)) => {
            let (before, after) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
            let empty = before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty);
            if !map.atomic && !empty {
                differ_in_map(map, before, after, path, out);
                return false;
            }
        }
        Some(Form::List(list)) => {
            let (before, after) = (left.and_then(Value::as_array), right.and_then(Value::as_array));
            let empty = before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty);
            if !list.atomic() && !empty {
                differ_in_list(list, before.map_or(&[], Vec::as_slice), after.map_or(&[], Vec::as_slice), path, out);
                return false;
            }
        }
        Some(Form::Scalar) => {}
        None => return false,
    }
    match (left, right) {
        (None, _) => out.added.insert(path),
        (_, None) => out.removed.insert(path),
        (Some(left), Some(right)) if !same(left, right) => out.modified.insert(path),
        _ => {}
    }
    true
}

fn differ_in_map(
    map: MapForm<'_>,
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let only_after = after.into_iter().flat_map(Map::keys).filter(|key| !before.is_some_and(|b| b.contains_key(*key)));
    for name in before.into_iter().flat_map(Map::keys).chain(only_after) {
        path.push(Element::field(name));
        let (left, right) = (before.and_then(|map| map.get(name)), after.and_then(|map| map.get(name)));
        differ(left, right, map.field(name), path, out);
        path.pop();
    }
}

fn differ_in_list(
    list: ListForm<'_>,
    before: &[Value],
    after: &[Value],
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let (mut order, left) = by_element(list, before);
    let (more, right) = by_element(list, after);
    order.extend(more.into_iter().filter(|element| !left.contains_key(element)));
    for element in order {
        let lefts = left.get(&element).map_or(&[][..], Vec::as_slice);
        let rights = right.get(&element).map_or(&[][..], Vec::as_slice);
        path.push(element);
        match (lefts, rights) {
            ([] | [_], [] | [_]) => differ(lefts.first().copied(), rights.first().copied(), list.item, path, out),
            // Several items with one key are owned as one value.
            ([_, _, ..], [_, _, ..]) => {
                if lefts.len() != rights.len() || !lefts.iter().zip(rights).all(|(a, b)| same(a, b)) {
                    out.modified.insert(path);
                }
            }
            ([_, _, ..], _) => {
                if let Some(right) = rights.first() {
                    differ(None, Some(right), list.item, path, out);
                }
                out.removed.insert(path);
            }
            (_, [_, _, ..]) => {
                if let Some(left) = lefts.first() {
                    differ(Some(left), None, list.item, path, out);
                }
                out.added.insert(path);
            }
        }
        path.pop();
    }
}

/// The value without some fields; null if nothing remains.
pub(super) fn without(value: &Value, fields: &Fields, shape: Shape<'_>) -> Value {
    match (shape.form(Some(value)), value) {
        (Some(Form::Scalar), _) => value.clone(),
        (Some(Form::Map(map)), Value::Object(object)) if !map.atomic => {
            let mut kept = Map::new();
            for (name, inside) in object {
                let element = Element::field(name);
                if fields.contains(std::slice::from_ref(&element)) {
                    continue;
                }
                let inside = match fields.below(&element) {
                    Some(below) => without(inside, below, map.field(name)),
                    None => inside.clone(),
                };
                kept.insert(name.clone(), inside);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Some(Form::List(list)), Value::Array(items)) if !list.atomic() => {
            let mut kept = Vec::new();
            for item in items {
                let Ok(element) = list.element(item) else { continue };
                if fields.contains(std::slice::from_ref(&element)) {
                    continue;
                }
                kept.push(match fields.below(&element) {
                    Some(below) => without(item, below, list.item),
                    None => item.clone(),
                });
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}

/// Adds every declared field with an owned field below it: removing the last owned field of a struct removes the
/// struct.
pub(super) fn with_named_fields(fields: &Fields, shape: Shape<'_>) -> Fields {
    let mut all = Fields::default();
    for (element, owned, below) in fields.elements() {
        let (named, inside) = match (element, shape.as_map(), shape.as_list()) {
            (Element::Field(name), Some(map), _) => (map.names(name) && !below.is_empty(), map.field(name)),
            (Element::Key(_), _, Some(list)) => (false, list.item),
            _ => (false, Shape::Missing),
        };
        all.put(element.clone(), owned || named, with_named_fields(below, inside));
    }
    all
}

/// Ownership under the current schema: a list or map that has become atomic is owned as a whole or not at all.
pub(super) fn with_atomic_fields(fields: &Fields, shape: Shape<'_>) -> Fields {
    let mut all = Fields::default();
    for (element, owned, below) in fields.elements() {
        let inside = match (element, shape.as_map(), shape.as_list()) {
            (Element::Field(name), Some(map), _) if !map.is_deduced() => map.field(name),
            (Element::Key(_) | Element::Item(_) | Element::Index(_), _, Some(list)) => list.item,
            _ => Shape::Missing,
        };
        let atomic = match (inside.as_map(), inside.as_scalar(), inside.as_list()) {
            (Some(map), ..) => map.atomic && !map.is_deduced(),
            (None, None, Some(list)) => list.atomic(),
            _ => false,
        };
        if atomic && !below.is_empty() {
            all.put(element.clone(), true, Fields::default());
        } else {
            all.put(element.clone(), owned, with_atomic_fields(below, inside));
        }
    }
    all
}
