//! Merges an applied configuration into the live object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{Form, ListForm, MapForm, Shape};
use super::walk::by_element;

/// `applied` over `live`; `None` if nothing remains. List items keep the order of `applied` among themselves.
pub(super) fn merge(live: Option<&Value>, applied: Option<&Value>, shape: Shape<'_>) -> Option<Value> {
    let form = if applied.is_none() { shape.form(live) } else { shape.form(applied) };
    match form {
        Some(Form::Map(map)) => {
            let (left, right) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            let empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
            if !map.atomic && !empty {
                return merge_maps(map, left, right);
            }
        }
        Some(Form::List(list)) => {
            let (left, right) = (live.and_then(Value::as_array), applied.and_then(Value::as_array));
            let empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
            if !list.atomic() && !empty {
                return merge_lists(list, left.map_or(&[], Vec::as_slice), right.map_or(&[], Vec::as_slice));
            }
        }
        Some(Form::Scalar) => {}
        None => return None,
    }
    applied.or(live).cloned()
}

fn merge_maps(
    map: MapForm<'_>,
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
) -> Option<Value> {
    let mut merged = Map::new();
    let only_right = right.into_iter().flat_map(Map::keys).filter(|key| !left.is_some_and(|l| l.contains_key(*key)));
    for name in left.into_iter().flat_map(Map::keys).chain(only_right) {
        let (live, applied) = (left.and_then(|map| map.get(name)), right.and_then(|map| map.get(name)));
        if let Some(value) = merge(live, applied, map.field(name)) {
            merged.insert(name.clone(), value);
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Walks both lists at once. Items of only one side keep their position relative to their neighbours; common items
/// follow the order of the right side.
fn merge_lists(list: ListForm<'_>, left: &[Value], right: &[Value]) -> Option<Value> {
    let lefts: Vec<(Element, &Value)> = left.iter().filter_map(|item| Some((list.element(item).ok()?, item))).collect();
    let rights: Vec<(Element, &Value)> =
        right.iter().filter_map(|item| Some((list.element(item).ok()?, item))).collect();
    let (_, left_items) = by_element(list, left);
    let in_right: BTreeSet<&Element> = rights.iter().map(|(element, _)| element).collect();
    // Live items with a duplicate key are replaced, not merged.
    let counterpart = |element: &Element| match left_items.get(element).map(Vec::as_slice) {
        Some([item]) => Some(*item),
        Some(_) => Some(&Value::Null),
        None => None,
    };
    let mut shared = rights.iter().map(|(element, _)| element).filter(|element| left_items.contains_key(*element));
    let mut next_shared = shared.next();
    let mut done = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < lefts.len() || at_right < rights.len() {
        if let (Some((element, _)), Some((other, applied))) = (lefts.get(at_left), rights.get(at_right)) {
            if element == other {
                done.insert(element);
                merged.extend(merge(counterpart(element), Some(applied), list.item));
                at_left += 1;
                at_right += 1;
                next_shared = shared.next();
                continue;
            }
            if in_right.contains(element) && next_shared.is_some_and(|next| next != element) {
                at_left += 1;
                continue;
            }
        }
        if let Some((element, live)) = lefts.get(at_left) {
            if !in_right.contains(element) {
                merged.extend(merge(Some(live), None, list.item));
                at_left += 1;
                continue;
            }
            if done.contains(element) {
                at_left += 1;
            }
        }
        if let Some((element, applied)) = rights.get(at_right) {
            done.insert(element);
            merged.extend(merge(counterpart(element), Some(applied), list.item));
            at_right += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}
