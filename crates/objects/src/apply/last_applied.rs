//! Migration from client-side to server-side apply: `kubectl apply` records its configuration in an annotation, and may
//! apply those fields without conflicts.

use serde_json::{Map, Value};

use super::check::{Duplicates, check};
use super::target::Target;
use super::walk::{compare, fields_of};
use super::{Conflicts, Fields};

/// The only manager that is migrated.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum total size of annotations, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The conflicts with fields that were not applied from the client; `None` if there are none.
pub(super) fn remaining_conflicts(conflicts: &Conflicts, live: &Value, target: &Target<'_>) -> Option<Conflicts> {
    let Some(allowed) = applied_from_client(live, target) else { return Some(conflicts.clone()) };
    let remaining: Vec<_> = conflicts.0.iter().filter(|conflict| !allowed.contains(&conflict.path)).cloned().collect();
    (!remaining.is_empty()).then_some(Conflicts(remaining))
}

/// The fields of the annotation whose live values are still those of the annotation.
fn applied_from_client(live: &Value, target: &Target<'_>) -> Option<Fields> {
    let shape = target.shape();
    let last: Value = serde_json::from_str(annotations(live)?.get(ANNOTATION)?.as_str()?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(target.api_version) {
        return None;
    }
    check(live, shape, Duplicates::ApplyError).ok()?;
    check(&last, shape, Duplicates::ApplyError).ok()?;
    let changed = compare(&last, live, shape);
    let changed = changed.modified.union(&changed.added).union(&changed.removed);
    Some(fields_of(&last, shape).difference(&changed))
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations")?.as_object()
}

/// Updates the annotation, if it exists, to the applied configuration.
pub(super) fn refresh(object: &mut Value, configuration: &Value) {
    let has_annotation = annotations(object)
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .is_some_and(|text| !text.is_empty());
    if !has_annotation {
        return;
    }
    let mut configuration = configuration.clone();
    if let Some(Value::Object(annotations)) = configuration.pointer_mut("/metadata/annotations") {
        annotations.shift_remove(ANNOTATION);
    }
    let text = encoded_like_go(&configuration);
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
        let length: usize =
            annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
        if length > MAX_ANNOTATIONS {
            annotations.shift_remove(ANNOTATION);
        }
    }
}

/// Sorted keys, three escaped characters, a trailing newline: the annotation is compared as text.
fn encoded_like_go(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    let text = sorted.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    format!("{text}\n")
}
