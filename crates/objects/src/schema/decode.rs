//! Type errors of built-in kinds, which Kubernetes decodes into Go types: a mismatch is a bad request.

use serde_json::{Number, Value};

use super::names;
use super::node::{Schema, Type};
use super::text::go_name;

/// The pattern of a quantity; the error message contains it.
const QUANTITY: &str = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";

/// The error of decoding `body` into the type of `schema`, as Go reports it.
pub fn decode_error(schema: &Schema, body: &Value) -> Option<String> {
    Place { owner: None, path: Vec::new() }.check(schema, body)
}

struct Place<'a> {
    /// The struct that contains the field.
    owner: Option<&'a str>,
    /// The path of the field, without indices and keys.
    path: Vec<&'a str>,
}

impl<'a> Place<'a> {
    fn check(&self, schema: &'a Schema, value: &'a Value) -> Option<String> {
        // As in Go, null leaves a field unchanged.
        if value.is_null() || schema.preserve_unknown {
            return None;
        }
        match schema.type_name.as_deref() {
            Some("intstr.IntOrString") => return int_or_string(value),
            Some("resource.Quantity") => return quantity(value),
            Some("v1.Time" | "v1.MicroTime") => return time(value),
            _ => {}
        }
        match (schema.kind?, value) {
            (Type::Object, Value::Object(fields)) => self.fields(schema, fields),
            (Type::Array, Value::Array(items)) => {
                let schema = schema.items.as_deref()?;
                items.iter().find_map(|item| self.check(schema, item))
            }
            (Type::String, Value::String(text)) if schema.format.as_deref() == Some("byte") => base64_error(text),
            (Type::String, Value::String(_)) | (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => {
                None
            }
            (Type::Integer, Value::Number(number)) if fits(schema, number) => None,
            (Type::Integer, Value::Number(number)) => Some(self.sentence(&format!("number {number}"), schema)),
            (_, value) => Some(self.sentence(go_name(value), schema)),
        }
    }

    fn fields(&self, schema: &'a Schema, fields: &'a serde_json::Map<String, Value>) -> Option<String> {
        let is_struct = !schema.properties.is_empty();
        fields.iter().find_map(|(name, field)| {
            let known = schema.field(name)?;
            if !is_struct {
                return self.check(known, field);
            }
            let owner = schema.type_name.as_deref().and_then(|name| name.rsplit('.').next());
            let path = self.path.iter().copied().chain([name.as_str()]).collect();
            Place { owner, path }.check(known, field)
        })
    }

    fn sentence(&self, found: &str, schema: &Schema) -> String {
        let wanted = go_type(schema);
        match self.owner {
            Some(owner) => {
                let path = self.path.join(".");
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        }
    }
}

fn fits(schema: &Schema, number: &Number) -> bool {
    let Some(whole) = number.as_i64() else { return false };
    schema.format.as_deref() != Some("int32") || i32::try_from(whole).is_ok()
}

/// The Go type. Enumerations have their own types in Go, which schemas do not name.
fn go_type(schema: &Schema) -> String {
    if let Some(name) = &schema.type_name {
        return name.clone();
    }
    let inner = |schema: Option<&Schema>| schema.map_or_else(|| "interface {}".to_owned(), go_type);
    match schema.kind {
        Some(Type::Object) => format!("map[string]{}", inner(schema.additional.as_deref())),
        Some(Type::Array) => format!("[]{}", inner(schema.items.as_deref())),
        Some(Type::String) if schema.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        Some(Type::String) => "string".to_owned(),
        Some(Type::Integer) => schema.format.clone().unwrap_or_else(|| "int64".to_owned()),
        Some(Type::Number) => "float64".to_owned(),
        Some(Type::Boolean) => "bool".to_owned(),
        None => "interface {}".to_owned(),
    }
}

fn int_or_string(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => None,
        Value::Number(number) if number.as_i64().is_some_and(|whole| i32::try_from(whole).is_ok()) => None,
        Value::Number(number) => Some(format!("json: cannot unmarshal number {number} into Go value of type int32")),
        other => Some(format!("json: cannot unmarshal {} into Go value of type int32", go_name(other))),
    }
}

fn quantity(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    (!names::is_quantity(&text)).then(|| format!("quantities must match the regular expression '{QUANTITY}'"))
}

fn time(value: &Value) -> Option<String> {
    let Value::String(text) = value else {
        return Some(format!("json: cannot unmarshal {} into Go value of type string", go_name(value)));
    };
    let good = super::formats::has_format("date-time", text) == Some(true);
    (!good).then(|| {
        format!("parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\"")
    })
}

/// The message of [`decode_error`] for an object that was converted rather than decoded: bytes have another decoder
/// then.
pub fn conversion_error(problem: String) -> String {
    if problem.starts_with(CORRUPT_BASE64) { format!("error decoding from json: {problem}") } else { problem }
}

const CORRUPT_BASE64: &str = "illegal base64 data at input byte";

fn base64_error(text: &str) -> Option<String> {
    corrupt_base64(text.as_bytes()).map(|at| format!("{CORRUPT_BASE64} {at}"))
}

/// The offset at which Go rejects base64 data.
fn corrupt_base64(bytes: &[u8]) -> Option<usize> {
    let mut digits = 0;
    for (place, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' => return corrupt_padding(bytes, place, digits),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'+' | b'/' => digits = (digits + 1) % 4,
            _ => return Some(place),
        }
    }
    (digits > 0).then(|| bytes.len() - digits)
}

/// The same from the first `=` on, which follows so many digits of a group of four.
fn corrupt_padding(bytes: &[u8], first: usize, digits: usize) -> Option<usize> {
    let rest = |from: usize| (from..bytes.len()).find(|place| !matches!(bytes[*place], b'\r' | b'\n'));
    let last = match digits {
        0 | 1 => return Some(first),
        2 => match rest(first + 1) {
            None => return Some(bytes.len()),
            Some(second) if bytes[second] == b'=' => second,
            Some(other) => return Some(other - 1),
        },
        _ => first,
    };
    rest(last + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::builtin;
    use super::*;

    #[test]
    fn base64_is_corrupt_where_go_gives_up() {
        for (text, at) in [
            ("", None),
            ("MQ==", None),
            ("MTI=\n", None),
            ("M\nQ==", None),
            ("MQ", Some(0)),
            ("MQ=", Some(3)),
            ("MTIz=", Some(4)),
            ("MQ=x", Some(2)),
            ("MQ==x", Some(4)),
            ("not base64", Some(3)),
        ] {
            assert_eq!(corrupt_base64(text.as_bytes()), at, "{text:?}");
        }
    }

    #[test]
    fn a_body_that_is_not_a_pod_gets_the_message_of_go() {
        let pod = builtin::schema("v1", "Pod").expect("Pod");
        let check =
            |body: Value, sentence: Option<&str>| assert_eq!(decode_error(pod, &body).as_deref(), sentence, "{body}");
        check(json!({ "spec": { "containers": [{ "name": "a", "ports": [{ "containerPort": 80 }] }] } }), None);
        check(json!("x"), Some("json: cannot unmarshal string into Go value of type v1.Pod"));
        check(
            json!({ "spec": { "containers": "x" } }),
            Some("json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"),
        );
        check(
            json!({ "spec": { "containers": [{ "ports": [{ "containerPort": 3_000_000_000_i64 }] }] } }),
            Some(
                "json: cannot unmarshal number 3000000000 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
        );
        check(
            json!({ "metadata": { "labels": { "a": 1 } } }),
            Some("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
        );
        check(
            json!({ "spec": { "containers": [{ "resources": { "limits": { "cpu": "x" } } }] } }),
            Some("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        );
    }
}
