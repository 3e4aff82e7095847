//! A digest of the wanted state of an object, as an annotation on the object.
//!
//! An object shows whether it contains every wanted field, but not whether it contains one that is no longer wanted.
//! The stamp does: it changes when a field is added, changed or removed, also for a controller that has just started.

use api::names::annotations;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::workload::contexts::hex;

/// Adds the stamp to an object that is about to be applied. The annotation is on the object itself: on a Pod template
/// it would replace Pods.
pub fn stamp(wanted: &mut Value) {
    let digest = hex(&Sha256::digest(wanted.to_string()), 32);
    let metadata = &mut wanted["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][annotations::APPLIED] = Value::String(digest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(mut wanted: Value) -> Value {
        stamp(&mut wanted);
        wanted
    }

    fn of(wanted: &Value) -> String {
        stamped(wanted.clone())["metadata"]["annotations"][annotations::APPLIED].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_stamp_changes_with_whatever_is_added_changed_or_removed() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"class": "gvisor", "template": {"metadata": {}}}});
        assert_eq!(of(&object), of(&object.clone()), "the same has the same stamp");
        for other in [
            json!({"metadata": {"name": "a"}, "spec": {"template": {"metadata": {}}}}),
            json!({"metadata": {"name": "a"}, "spec": {"class": "kata", "template": {"metadata": {}}}}),
            json!({"metadata": {"name": "a", "labels": {}}, "spec": {"class": "gvisor", "template": {"metadata": {}}}}),
        ] {
            assert_ne!(of(&object), of(&other), "{other}");
        }
    }

    #[test]
    fn a_stamp_leaves_everything_else_as_it_is() {
        let object = json!({"metadata": {"name": "a", "annotations": {"mine": "1"}}, "spec": {"template": {}}});
        let mut wanted = stamped(object.clone());
        assert_eq!(wanted["metadata"]["annotations"]["mine"], "1");
        wanted["metadata"]["annotations"].as_object_mut().unwrap().remove(annotations::APPLIED);
        assert_eq!(wanted, object);
    }
}
