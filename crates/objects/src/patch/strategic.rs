//! Strategic merge patch: a merge patch that merges lists by item, according to the schema.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::PatchError;
use crate::schema::{Schema, go_name};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder";
const DELETE_ITEMS: &str = "$deleteFromPrimitiveList";

type Object = Map<String, Value>;
type Outcome<T> = Result<T, PatchError>;

/// Merges `patch` into the object. Custom resources have no merge strategies: without a schema the patch type is not
/// supported.
pub fn strategic_merge_patch(object: &Value, patch: &Value, schema: Option<&Schema>) -> Outcome<Value> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Object::new(),
        other => {
            let found = go_name(other);
            let text = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
            return Err(PatchError::Malformed(text));
        }
    };
    if schema.is_none() {
        return Err(PatchError::Malformed("strategic merge patch format is not supported".to_owned()));
    }
    merge_objects(object.as_object().cloned().unwrap_or_default(), patch, schema).map(Value::Object)
}

/// The schema of a field or of a map value.
fn field<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    let schema = schema?;
    schema.properties.get(name).or(schema.additional.as_ref()).map(AsRef::as_ref)
}

fn merge_objects(mut original: Object, mut patch: Object, schema: Option<&Schema>) -> Outcome<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.shift_remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_order(&mut original, &mut patch, schema)?;
    // Removed in one pass at the end: removing one field from the middle of an object moves all that follow.
    let mut removed = HashSet::new();
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_ITEMS) {
            let list = list.strip_prefix('/').ok_or_else(|| malformed("invalid patch format of primitive list"))?;
            match (original.get_mut(list), &value) {
                (_, Value::Null) => {
                    original.shift_remove(list);
                }
                (Some(Value::Array(items)), Value::Array(deleted)) => {
                    let deleted: HashSet<String> = deleted.iter().map(Value::to_string).collect();
                    items.retain(|item| !deleted.contains(&item.to_string()));
                }
                _ => {}
            }
            continue;
        }
        if value.is_null() {
            removed.insert(name);
            continue;
        }
        let merged = match (original.get_mut(&name).map(Value::take), value) {
            (Some(Value::Object(current)), Value::Object(patch)) => {
                Some(Value::Object(merge_objects(current, patch, field(schema, &name))?))
            }
            (Some(Value::Array(current)), Value::Array(patch)) => {
                Some(Value::Array(merge_lists(current, patch, field(schema, &name), &name)?))
            }
            (_, mut value) => {
                drop_nulls(&mut value);
                without_directives(value)
            }
        };
        match merged {
            Some(merged) => drop(original.insert(name, merged)),
            None => drop(removed.insert(name)),
        }
    }
    if !removed.is_empty() {
        original.retain(|name, _| !removed.contains(name));
    }
    Ok(original)
}

/// `$retainKeys` removes every field of the object that it does not list.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Outcome<()> {
    let Some(retained) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let invalid = || malformed("invalid patch format of retainKeys");
    let Value::Array(retained) = retained else { return Err(invalid()) };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let listed = |name: &String| retained.contains(name.as_str());
    for (name, value) in patch.iter() {
        if !value.is_null() && !name.starts_with(DELETE_ITEMS) && !name.starts_with(ORDER) && !listed(name) {
            return Err(invalid());
        }
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// `$setElementOrder/list` orders the items of a list, after the list of the patch is merged.
fn set_order(original: &mut Object, patch: &mut Object, schema: Option<&Schema>) -> Outcome<()> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(ORDER)).cloned().collect();
    if directives.is_empty() {
        return Ok(());
    }
    let mut done = HashSet::new();
    for directive in directives {
        let Some(order) = patch.get_mut(&directive).map(Value::take) else { continue };
        let name = directive
            .strip_prefix(ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(|| malformed("invalid patch format of setElementOrder list"))?;
        done.insert(name.to_owned());
        let order = list(order)?;
        let live = original.get(name).cloned().map(list).transpose()?;
        let changes = patch.get_mut(name).map(Value::take).map(list).transpose()?;
        let of_list = field(schema, name);
        let key = of_list.and_then(|schema| schema.patch.merge_key.as_deref());
        check_order(changes.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (live.clone(), changes) {
            (Some(live), None) => live,
            (None, Some(changes)) => changes.into_iter().filter_map(without_directives).collect(),
            (Some(live), Some(changes)) => merge_lists(live, changes, of_list, name)?,
            (None, None) => continue,
        };
        let ordered = in_order(merged, &order, live.as_deref().unwrap_or_default(), key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    patch.retain(|name, _| !name.starts_with(ORDER) && !done.contains(name));
    Ok(())
}

fn list(value: Value) -> Outcome<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(PatchError::Unmergeable(format!(
            "expected a []interface {{}}, but received a {}",
            match other {
                Value::Object(_) => "map[string]interface {}",
                Value::Number(_) => "int64",
                _ => go_name(&other),
            }
        ))),
    }
}

/// The items of the patch must be in the order of the directive.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Outcome<()> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for item in changes.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let wanted = identity(item, key)?;
        loop {
            let Some(place) = places.next() else {
                let shown = |items: &[Value]| Value::Array(items.to_vec()).to_string();
                let (changes, order) = (shown(changes), shown(order));
                let text = format!("The order in patch list:\n{changes}\n doesn't match {ORDER} list:\n{order}\n");
                return Err(PatchError::Unmergeable(text));
            };
            if identity(place, key)? == wanted {
                break;
            }
        }
    }
    Ok(())
}

/// The identity of an item: its merge key, or the scalar itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Outcome<&'a Value> {
    match (key, item) {
        (None, item) => Ok(item),
        (Some(key), Value::Object(object)) => object.get(key).ok_or_else(|| no_merge_key(item, key)),
        (Some(_), other) => {
            let text = format!("expected a map[string]interface {{}}, but received a {}", go_name(other));
            Err(PatchError::Unmergeable(text))
        }
    }
}

/// The first position of each identity, as text: lists of a hundred thousand items are merged in linear time.
fn positions(items: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut positions = HashMap::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        if let Ok(identity) = identity(item, key) {
            positions.entry(identity.to_string()).or_insert(position);
        }
    }
    positions
}

fn merge_lists(original: Vec<Value>, patch: Vec<Value>, schema: Option<&Schema>, name: &str) -> Outcome<Vec<Value>> {
    let Some(schema) = schema.filter(|schema| schema.patch.merge) else { return Ok(patch) };
    let Some(first) = original.iter().chain(&patch).next() else { return Ok(original) };
    let kind = go_name(first);
    if first.is_array() {
        let detail = "lists of lists are not supported".to_owned();
        return Err(PatchError::Inapplicable { detail });
    }
    if original.iter().chain(&patch).any(|item| go_name(item) != kind) {
        let shown = Value::Array(vec![Value::Array(original), Value::Array(patch)]);
        return Err(PatchError::Unmergeable(format!("list element types are not identical: {shown}")));
    }
    if !first.is_object() {
        let mut seen = HashSet::new();
        let unique = original.iter().chain(&patch).filter(|item| seen.insert(item.to_string()));
        let merged: Vec<Value> = unique.cloned().collect();
        return in_order(merged, &patch, &original, None);
    }
    let Some(key) = schema.patch.merge_key.as_deref() else {
        return Err(PatchError::Unmergeable(format!("cannot merge lists without merge key for {name}")));
    };
    let (original, patch) = apply_directives(original, patch, key)?;
    let mut merged = original.clone();
    let mut places = positions(&merged, Some(key));
    for change in &patch {
        let wanted = change.get(key).ok_or_else(|| no_merge_key(change, key))?.to_string();
        let current = places.get(&wanted).and_then(|place| merged.get_mut(*place));
        if let (Some(Value::Object(current)), Value::Object(change)) = (current, change) {
            *current = merge_objects(std::mem::take(current), change.clone(), schema.items.as_deref())?;
        } else {
            places.entry(wanted).or_insert(merged.len());
            merged.push(change.clone());
        }
    }
    in_order(merged, &patch, &original, Some(key))
}

/// Removes the items that the patch deletes, and the directives from the patch.
fn apply_directives(mut original: Vec<Value>, patch: Vec<Value>, key: &str) -> Outcome<(Vec<Value>, Vec<Value>)> {
    let (mut changes, mut replace, mut removed) = (Vec::new(), false, HashSet::new());
    for item in patch {
        match item.get(DIRECTIVE).map(Value::as_str) {
            None => changes.push(item),
            Some(Some("delete")) => {
                removed.insert(item.get(key).ok_or_else(|| no_merge_key(&item, key))?.to_string());
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => {
                let text = "merging lists cannot yet be specified in the patch".to_owned();
                return Err(PatchError::Unmergeable(text));
            }
            Some(_) => {
                let empty = Object::new();
                let directive = item.get(DIRECTIVE).unwrap_or(&Value::Null);
                return Err(unknown_directive(directive, item.as_object().unwrap_or(&empty)));
            }
        }
    }
    if !removed.is_empty() {
        original.retain(|item| item.get(key).is_none_or(|identity| !removed.contains(&identity.to_string())));
    }
    Ok(if replace { (changes, Vec::new()) } else { (original, changes) })
}

/// Items that `order` names follow its order; the others keep their position in the live list where possible.
fn in_order(merged: Vec<Value>, order: &[Value], live: &[Value], key: Option<&str>) -> Outcome<Vec<Value>> {
    let (in_order, on_server) = (positions(order, key), positions(live, key));
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let wanted = identity(&item, key)?.to_string();
        let on_server = on_server.get(&wanted).copied();
        match in_order.get(&wanted) {
            Some(index) => named.push((*index, on_server, item)),
            None => others.push((on_server, item)),
        }
    }
    named.sort_by_key(|(index, ..)| *index);
    others.sort_by_key(|(on_server, _)| *on_server);
    let mut ordered = Vec::new();
    let mut others = others.into_iter().peekable();
    for (_, on_server, item) in named {
        while let Some((_, next)) = others.next_if(|(other, _)| other.is_some() && *other < on_server) {
            ordered.push(next);
        }
        ordered.push(item);
    }
    ordered.extend(others.map(|(_, item)| item));
    Ok(ordered)
}

/// A value that is not merged with anything, without merge directives.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(DIRECTIVE) => None,
        Value::Object(object) => Some(Value::Object(
            object.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn malformed(text: &str) -> PatchError {
    PatchError::Malformed(text.to_owned())
}

fn unknown_directive(directive: &Value, patch: &Object) -> PatchError {
    let directive = directive.as_str().map_or_else(|| directive.to_string(), ToOwned::to_owned);
    PatchError::Unmergeable(format!("unknown patch type: {directive} in map: {}", shown(&Value::Object(patch.clone()))))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Unmergeable(format!("map: {} does not contain declared merge key: {key}", shown(item)))
}

/// A value as Go prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{}", shown(value))).collect();
            fields.sort();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{PatchStrategy, Type};

    fn object(fields: impl IntoIterator<Item = (&'static str, Schema)>) -> Schema {
        let properties: BTreeMap<_, _> =
            fields.into_iter().map(|(name, schema)| (name.to_owned(), Arc::new(schema))).collect();
        Schema { kind: Some(Type::Object), properties, ..Schema::default() }
    }

    fn merged_list(items: Schema, key: Option<&str>) -> Schema {
        let patch = PatchStrategy { merge: true, merge_key: key.map(ToOwned::to_owned), ..PatchStrategy::default() };
        Schema { kind: Some(Type::Array), items: Some(Arc::new(items)), patch, ..Schema::default() }
    }

    fn schema() -> Schema {
        let port = object([]);
        let container = object([("ports", merged_list(port, Some("containerPort")))]);
        object([
            ("containers", merged_list(container, Some("name"))),
            ("finalizers", merged_list(Schema::default(), None)),
            ("args", Schema { kind: Some(Type::Array), ..Schema::default() }),
            ("strategy", object([])),
        ])
    }

    #[track_caller]
    fn check(live: Value, patch: Value, expected: Value) {
        let patched = strategic_merge_patch(&live, &patch, Some(&schema())).unwrap();
        assert_eq!(patched.to_string(), expected.to_string());
    }

    #[track_caller]
    fn check_error(live: Value, patch: Value, code: u16, message: &str) {
        let error = strategic_merge_patch(&live, &patch, Some(&schema())).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }

    #[test]
    fn items_of_a_list_are_merged_by_their_key_and_new_ones_are_added() {
        check(
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}),
        );
        check(
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}),
        );
    }

    #[test]
    fn a_list_without_a_strategy_is_replaced() {
        check(json!({"args": [1, 2]}), json!({"args": [3]}), json!({"args": [3]}));
    }

    #[test]
    fn items_and_objects_can_be_deleted_and_replaced_by_directives() {
        let live = json!({"containers": [{"name": "a"}, {"name": "b"}], "strategy": {"type": "x", "more": 1}});
        check(
            live.clone(),
            json!({"containers": [{"$patch": "delete", "name": "a"}]}),
            json!({"containers": [{"name": "b"}], "strategy": {"type": "x", "more": 1}}),
        );
        check(
            live.clone(),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}], "strategy": {"$patch": "replace", "type": "y"}}),
            json!({"containers": [{"name": "c"}], "strategy": {"type": "y"}}),
        );
        check(
            live,
            json!({"strategy": {"$patch": "delete"}}),
            json!({"containers": [{"name": "a"}, {"name": "b"}], "strategy": {}}),
        );
    }

    #[test]
    fn retained_keys_are_all_that_remains() {
        check(
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        );
        check_error(
            json!({"strategy": {}}),
            json!({"strategy": {"$retainKeys": ["type"], "other": 1}}),
            400,
            "invalid patch format of retainKeys",
        );
    }

    #[test]
    fn scalars_are_added_once_and_deleted_by_a_parallel_list() {
        check(
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["b", "c"]}),
            json!({"finalizers": ["a", "b", "c"]}),
        );
        check(
            json!({"finalizers": ["a", "b"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
            json!({"finalizers": ["c", "b"]}),
        );
    }

    #[test]
    fn the_order_directive_orders_what_it_names_and_leaves_the_rest_in_place() {
        check(
            json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "x"}, {"name": "b", "image": "2"}, {"name": "a"}]}),
        );
        let error = strategic_merge_patch(
            &json!({}),
            &json!({"$setElementOrder/finalizers": ["a", "b"], "finalizers": ["b", "a"]}),
            Some(&schema()),
        );
        assert_eq!(error.unwrap_err().code(), 500);
    }

    #[test]
    fn a_merge_error_has_the_message_of_the_api_server() {
        check_error(
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"image": "x"}]}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        );
        check_error(
            json!({"strategy": {}}),
            json!({"strategy": {"$patch": "nonsense"}}),
            500,
            "unknown patch type: nonsense in map: map[$patch:nonsense]",
        );
        let error = strategic_merge_patch(&json!({}), &json!({}), None).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (400, "strategic merge patch format is not supported"));
    }

    #[test]
    fn large_lists_are_merged_in_linear_time() {
        // With one search per item this takes minutes.
        const COUNT: usize = 50_000;
        let named = |n: usize| json!({"name": n.to_string()});
        let all: Value = (0..COUNT).map(named).collect();
        let reversed: Value = (0..COUNT).rev().map(named).collect();
        check(json!({"containers": all}), json!({"containers": all}), json!({"containers": all}));
        check(
            json!({"containers": all}),
            json!({"$setElementOrder/containers": reversed, "containers": reversed}),
            json!({"containers": reversed}),
        );
        let deleted: Value = (0..COUNT).map(|n| json!({"$patch": "delete", "name": n.to_string()})).collect();
        check(json!({"containers": all}), json!({"containers": deleted}), json!({"containers": []}));
        let scalars: Value = (0..COUNT).map(|n| json!(n.to_string())).collect();
        check(json!({"finalizers": scalars}), json!({"finalizers": scalars}), json!({"finalizers": scalars}));
        check(
            json!({"finalizers": scalars}),
            json!({"$deleteFromPrimitiveList/finalizers": scalars}),
            json!({"finalizers": []}),
        );
        let fields =
            |value: Value| -> Value { Value::Object((0..COUNT).map(|n| (n.to_string(), value.clone())).collect()) };
        check(json!({"strategy": fields(json!(1))}), json!({"strategy": fields(Value::Null)}), json!({"strategy": {}}));
        let keys: Value = scalars.clone();
        let mut retained = fields(json!(2));
        retained["$retainKeys"] = keys;
        check(
            json!({"strategy": fields(json!(1))}),
            json!({"strategy": retained}),
            json!({"strategy": fields(json!(2))}),
        );
        let orders = (0..COUNT).map(|n| (format!("$setElementOrder/{n}"), json!([])));
        check(json!({"strategy": {}}), json!({"strategy": Value::Object(orders.collect())}), json!({"strategy": {}}));
    }
}
