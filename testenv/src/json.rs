//! JSON as suites change and compare it.

use serde_json::{Map, Value, json};

/// Applies a JSON merge patch to `object`.
pub fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (field, change) in changes {
        if change.is_null() {
            drop(object.as_object_mut().map(|fields| fields.shift_remove(field)));
        } else {
            merge(&mut object[field.as_str()], change);
        }
    }
}

/// The same value with every whole number written without a point: `3` and `3.0` are the same.
pub fn with_plain_numbers(value: &Value) -> Value {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "checked: only numbers that fit")]
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => json!(float as i64),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(with_plain_numbers).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), with_plain_numbers(field))).collect::<Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}
