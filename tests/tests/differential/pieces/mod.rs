//! Random pieces of objects: valid, or nearly so.

mod builtin;
mod custom;

pub use builtin::*;
pub use custom::*;

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// Times that a client writes. Those of a server are of another year.
const TIMES: [&str; 2] = ["2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z"];

/// Labels, annotations, finalizers, owners.
pub fn metadata(dice: &mut Dice) -> Value {
    let mut metadata = json!({});
    if dice.once_in(2) {
        metadata["labels"] = map(dice);
    }
    if dice.once_in(3) {
        metadata["annotations"] = map(dice);
    }
    if dice.once_in(4) {
        metadata["finalizers"] = json!(dice.some(&["x.io/a", "x.io/b", "x.io/c"]));
    }
    if dice.once_in(5) {
        let owners = dice.some(&["u1", "u2"]);
        metadata["ownerReferences"] = owners.iter().map(|uid| owner(uid, dice)).collect();
    }
    // Only one at a time: in which order several errors are reported is left to chance.
    match dice.below(60) {
        0 => metadata["labels"] = Value::Null,
        1 => metadata["labels"] = json!({"a": "not a label"}),
        2 => metadata["annotations"] = json!({"not an annotation": "a"}),
        3 => metadata["finalizers"] = json!(["unqualified"]),
        _ => {}
    }
    metadata
}

fn owner(uid: &str, dice: &mut Dice) -> Value {
    let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": dice.pick(&["o", "p"]), "uid": uid});
    match dice.below(12) {
        0 | 3 => owner["controller"] = json!(true),
        1 => owner["blockOwnerDeletion"] = json!(true),
        2 => owner["name"] = json!(""),
        _ => {}
    }
    owner
}

/// A few texts.
fn map(dice: &mut Dice) -> Value {
    let mut map = Map::new();
    for key in dice.some(&["a", "b", "c"]) {
        map.insert(key.to_owned(), json!(dice.pick(&["1", "2"])));
    }
    map.into()
}

/// Conditions as all kinds have them.
fn conditions(dice: &mut Dice) -> Value {
    let types = dice.some(&["Ready", "Accepted", "Done"]);
    let condition = |kind: &&str, dice: &mut Dice| {
        json!({
            "type": kind,
            "status": dice.pick(&["True", "False"]),
            "reason": dice.pick(&["R1", "R2"]),
            "message": dice.pick(&["m1", "m2"]),
            "lastTransitionTime": dice.pick(&TIMES),
        })
    };
    types.iter().map(|kind| condition(kind, dice)).collect()
}
