//! Correlates parts of a new object with parts of the stored one.

use serde_json::Value;

use super::node::{ListType, Schema};

/// A value, the value that it replaces, and the schema of both.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub new: &'a Value,
    pub old: &'a Value,
    pub schema: &'a Schema,
}

impl Pair<'_> {
    /// The field of both, if both have it.
    pub fn field(&self, name: &str) -> Option<Self> {
        let schema = self.schema.field(name)?;
        Some(Self { new: self.new.get(name)?, old: self.old.get(name)?, schema })
    }

    /// The item of the new list and the item of the old list with the same keys. Lists without keys do not correlate.
    pub fn item(&self, index: usize) -> Option<Self> {
        let new = self.new.get(index)?;
        let old = same_item(self.schema, self.old.as_array()?, new)?;
        Some(Self { new, old, schema: self.schema.items.as_deref()? })
    }

    /// Whether the values are equal, ignoring the order of items with keys.
    pub fn is_unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                let keyed = matches!(self.schema.list_type, ListType::Map(_));
                if !keyed || new.is_empty() {
                    return new == old;
                }
                let same = |index| self.item(index).is_some_and(|pair| pair.is_unchanged());
                new.len() == old.len() && (0..new.len()).all(same)
            }
            (Value::Object(new), Value::Object(old)) => {
                let same = |name: &String| self.field(name).is_some_and(|pair| pair.is_unchanged());
                new.len() == old.len() && new.keys().all(same)
            }
            (new, old) => new == old,
        }
    }
}

/// The item of `items` that has the same keys as `item`.
pub fn same_item<'a>(schema: &Schema, items: &'a [Value], item: &Value) -> Option<&'a Value> {
    let ListType::Map(keys) = &schema.list_type else { return None };
    if keys.is_empty() || !keys.iter().all(|key| item.get(key).is_some_and(is_scalar)) {
        return None;
    }
    items.iter().find(|candidate| candidate.is_object() && keys.iter().all(|key| candidate.get(key) == item.get(key)))
}

/// `old` with the items of its sets and keyed lists in the order of `new`, where both have the same items: rules that
/// compare two values ignore this order.
pub fn aligned(schema: &Schema, new: &Value, old: &Value) -> Value {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let fields = old.iter().map(|(name, field)| {
                let field = match (schema.field(name), new.get(name)) {
                    (Some(schema), Some(new)) if new.is_object() || new.is_array() => aligned(schema, new, field),
                    _ => field.clone(),
                };
                (name.clone(), field)
            });
            Value::Object(fields.collect())
        }
        (Value::Array(new), Value::Array(items)) if new.len() == items.len() => {
            let counterpart = |item: &Value| match &schema.list_type {
                ListType::Atomic => None,
                ListType::Set => items.iter().find(|old| *old == item).cloned(),
                ListType::Map(_) => {
                    let old = same_item(schema, items, item)?;
                    Some(schema.items.as_ref().map_or_else(|| old.clone(), |schema| aligned(schema, item, old)))
                }
            };
            new.iter().map(counterpart).collect::<Option<Vec<_>>>().map_or_else(|| old.clone(), Value::Array)
        }
        _ => old.clone(),
    }
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_items_that_have_none_is_made_equal() {
        let schema = Schema::from_json(&json!({ "type": "object", "properties": {
            "set": { "type": "array", "x-kubernetes-list-type": "set" },
            "list": { "type": "array" },
            "map": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": { "type": "object", "properties": { "k": {}, "set": { "type": "array", "x-kubernetes-list-type": "set" } } } },
        } }));
        let new = json!({ "set": [2, 1], "list": [2, 1], "map": [{ "k": 2 }, { "k": 1, "set": [2, 1] }] });
        let old = json!({ "set": [1, 2], "list": [1, 2], "map": [{ "k": 1, "set": [1, 2] }, { "k": 2 }] });
        let mut expected = new.clone();
        expected["list"] = json!([1, 2]);
        assert_eq!(aligned(&schema.expect("a schema"), &new, &old), expected);
    }

    #[test]
    fn items_correspond_by_their_keys() {
        let schema = Schema::from_json(&json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": { "type": "object", "properties": { "a": {}, "b": {}, "c": {} } },
        }));
        let schema = schema.expect("a schema");
        let old = json!([{ "a": 1, "b": "x", "c": 1 }, { "a": 2, "b": "x", "c": 2 }, 3]);
        let new = json!([{ "a": 2, "b": "x", "c": 2 }, { "a": 1, "b": "y" }, { "a": 1 }]);
        let pair = Pair { new: &new, old: &old, schema: &schema };
        assert_eq!(pair.item(0).map(|pair| pair.old), Some(&old[1]));
        assert!(pair.item(0).is_some_and(|pair| pair.is_unchanged()));
        assert!(pair.item(1).is_none() && pair.item(2).is_none() && pair.item(3).is_none());
        let swapped = json!([old[1], old[0]]);
        let old = json!([old[0], old[1]]);
        assert!(Pair { new: &swapped, old: &old, schema: &schema }.is_unchanged());
        assert!(!Pair { new: &new, old: &old, schema: &schema }.is_unchanged());
    }
}
