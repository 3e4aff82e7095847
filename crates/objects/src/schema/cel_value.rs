//! Converts JSON values to CEL values by schema: a time becomes a timestamp, a `number` a double.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, NaiveDate, TimeDelta};
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::{Number, Value};

use super::formats;
use super::node::{Schema, Type};

/// Reserved words of CEL: `__namespace__` refers to the field `namespace`.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The metadata fields that are visible to rules.
const METADATA: [&str; 2] = ["name", "generateName"];

/// Which fields of a value a rule uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Used {
    All,
    /// Only these fields, by their names in CEL.
    Fields(Vec<String>),
}

/// The value of `self` or `oldSelf`. Of a whole object (`root`) only the name is visible in the metadata.
pub fn of(schema: &Schema, value: &Value, root: bool, used: &Used) -> Cel {
    let Value::Object(fields) = value else { return convert(Some(schema), value) };
    if !root && *used == Used::All && !schema.embedded_resource {
        return convert(Some(schema), value);
    }
    let is_map = schema.additional.is_some();
    let mut map = HashMap::new();
    for (name, field) in fields {
        let known = if is_map { Some(name.clone()) } else { escape(name) };
        let Some(known) = known else { continue };
        // A field with a reserved name can be used by both of its names.
        if let Used::Fields(used) = used
            && !used.contains(&known)
            && !used.contains(name)
        {
            continue;
        }
        let converted = if name == "metadata" && (root || schema.embedded_resource) {
            name_only(field)
        } else {
            convert(schema.field(name), field)
        };
        if !is_map && RESERVED.contains(&name.as_str()) {
            map.insert(Key::String(Arc::new(name.clone())), converted.clone());
        }
        map.insert(Key::String(Arc::new(known)), converted);
    }
    Cel::Map(Map { map: Arc::new(map) })
}

fn name_only(metadata: &Value) -> Cel {
    let fields = METADATA.iter().filter_map(|name| Some((*name, metadata.get(*name)?)));
    let map = fields.map(|(name, value)| (Key::String(Arc::new(name.to_owned())), convert(None, value)));
    Cel::Map(Map { map: Arc::new(map.collect()) })
}

fn convert(schema: Option<&Schema>, value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(value) => number(schema, value),
        Value::String(text) => string(schema, text),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            Cel::List(Arc::new(items.iter().map(|item| convert(schema, item)).collect()))
        }
        Value::Object(fields) => {
            let is_map = schema.is_some_and(|schema| schema.additional.is_some());
            let mut map = HashMap::with_capacity(fields.len());
            for (name, field) in fields {
                // A field whose name CEL cannot express is not accessible, but still part of a comparison.
                let known = if is_map { name.clone() } else { escape(name).unwrap_or_else(|| name.clone()) };
                let schema = schema.and_then(|schema| schema.field(name));
                let converted = convert(schema, field);
                if !is_map && RESERVED.contains(&name.as_str()) {
                    map.insert(Key::String(Arc::new(name.clone())), converted.clone());
                }
                map.insert(Key::String(Arc::new(known)), converted);
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

fn number(schema: Option<&Schema>, number: &Number) -> Cel {
    let float = number.as_f64().unwrap_or_default();
    let kind = schema.and_then(|schema| schema.kind);
    match (number.as_i64(), kind) {
        (_, Some(Type::Number)) => Cel::Float(float),
        (Some(whole), _) => Cel::Int(whole),
        #[expect(clippy::cast_possible_truncation, reason = "a float in an integer field was checked to be whole")]
        (None, Some(Type::Integer)) => Cel::Int(float as i64),
        (None, _) => Cel::Float(float),
    }
}

fn string(schema: Option<&Schema>, text: &str) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    match schema.and_then(|schema| schema.format.as_deref()) {
        Some("date-time") => DateTime::parse_from_rfc3339(text).map_or_else(|_| plain(), Cel::Timestamp),
        Some("date") => {
            let date = text.parse::<NaiveDate>().ok().and_then(|date| date.and_hms_opt(0, 0, 0));
            date.map_or_else(plain, |time| Cel::Timestamp(time.and_utc().fixed_offset()))
        }
        Some("duration") => {
            let duration = formats::duration(text).map(TimeDelta::nanoseconds);
            duration.map_or_else(plain, Cel::Duration)
        }
        Some("byte") => STANDARD.decode(text).map_or_else(|_| plain(), |bytes| Cel::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

/// The name of a field in CEL; `None` if CEL cannot express it.
pub fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte)) {
        return None;
    }
    let escaped = name.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped_as_kubernetes_does() {
        for (name, escaped) in [
            ("name", Some("name")),
            ("namespace", Some("__namespace__")),
            ("x-y", Some("x__dash__y")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("1a", None),
            ("$a", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped);
        }
    }

    #[test]
    fn a_value_has_the_type_that_its_schema_says() {
        let check = |schema: Value, value: Value, expected: Cel| {
            let schema = Schema::from_json(&schema).expect("a schema");
            assert_eq!(of(&schema, &value, false, &Used::All), expected);
        };
        check(json!({ "type": "number" }), json!(1), Cel::Float(1.0));
        check(json!({ "type": "integer" }), json!(1.0), Cel::Int(1));
        check(json!({ "type": "string", "format": "duration" }), json!("1m30s"), Cel::Duration(TimeDelta::seconds(90)));
        check(json!({ "type": "string", "format": "byte" }), json!("YQ=="), Cel::Bytes(Arc::new(b"a".to_vec())));
        check(json!({ "type": "string" }), json!("1m"), Cel::String(Arc::new("1m".to_owned())));
    }
}
