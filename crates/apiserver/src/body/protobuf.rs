//! Decodes Kubernetes' protobuf encoding into JSON.
//!
//! kubectl 1.32 and newer, and client-go with typed clients, send built-in kinds this way and do not fall back to JSON.
//! The message table (`messages.txt`) has one line per message: its name, then `number:field:type` for each field. `*`
//! marks a list, `%` a map with string keys, `?` an optional field, whose zero value counts; `.` as the field name
//! embeds the fields of the message.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Prefix of every encoded object.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix \"k8s\\x00\"")]
    Prefix,
    #[error("unexpected end of the protobuf message")]
    Short,
    #[error("unknown wire type {0} in the protobuf message")]
    WireType(u64),
    #[error("no kind {kind:?} is registered for version {version:?}")]
    Unknown { kind: String, version: String },
    #[error("text in the protobuf message is not UTF-8")]
    Text,
    #[error("JSON in the protobuf message cannot be read")]
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    Integer,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    Json,
    Texts,
    Message(&'static str),
}

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    shape: Shape,
    keeps_zero: bool,
    kind: Type,
}

static MESSAGES: LazyLock<HashMap<&'static str, HashMap<u64, Field>>> = LazyLock::new(|| {
    let lines = include_str!("messages.txt").lines();
    lines.filter_map(|line| line.split_once(' ').map(|(name, fields)| (name, read_fields(fields)))).collect()
});

fn read_fields(fields: &'static str) -> HashMap<u64, Field> {
    fields
        .split(' ')
        .filter_map(|field| {
            let mut parts = field.splitn(3, ':');
            let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
            let (shape, kind) = match kind.split_at_checked(1)? {
                ("*", rest) => (Shape::List, rest),
                ("%", rest) => (Shape::Map, rest),
                _ => (Shape::One, kind),
            };
            let keeps_zero = kind.starts_with('?');
            let kind = match kind.trim_start_matches('?') {
                "s" => Type::Text,
                "b" => Type::Bool,
                "i" => Type::Integer,
                "x" => Type::Bytes,
                "time" => Type::Time,
                "micro" => Type::MicroTime,
                "duration" => Type::Duration,
                "quantity" => Type::Quantity,
                "intstr" => Type::IntOrString,
                "fields" | "raw" => Type::Json,
                "strings" => Type::Texts,
                message => Type::Message(message),
            };
            Some((number, Field { name, shape, keeps_zero, kind }))
        })
        .collect()
}

/// A field on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(ProtobufError::Short)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Short)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtobufError> {
        let length = usize::try_from(length).map_err(|_| ProtobufError::Short)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            other => return Err(ProtobufError::WireType(other)),
        };
        Ok(Some((tag >> 3, wire)))
    }
}

/// The strings and numbers of a small message, by field number.
#[derive(Default)]
struct Flat<'a> {
    numbers: HashMap<u64, u64>,
    texts: HashMap<u64, &'a [u8]>,
}

impl<'a> Flat<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut flat = Self::default();
        let mut reader = Reader(bytes);
        while let Some((number, wire)) = reader.next()? {
            match wire {
                Wire::Number(value) => drop(flat.numbers.insert(number, value)),
                Wire::Bytes(value) => drop(flat.texts.insert(number, value)),
            }
        }
        Ok(flat)
    }

    fn number(&self, field: u64) -> i64 {
        self.numbers.get(&field).copied().unwrap_or_default().cast_signed()
    }

    fn text(&self, field: u64) -> Result<String, ProtobufError> {
        text(self.texts.get(&field).copied().unwrap_or_default())
    }
}

fn text(bytes: &[u8]) -> Result<String, ProtobufError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ProtobufError::Text)
}

/// Decodes an object with its envelope.
pub(super) fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?;
    let envelope = Flat::read(envelope)?;
    let kind = Flat::read(envelope.texts.get(&1).copied().unwrap_or_default())?;
    let (version, kind) = (kind.text(1)?, kind.text(2)?);
    let raw = envelope.texts.get(&2).copied().unwrap_or_default();
    let name = message_name(&version, &kind);
    let Some((name, _)) = MESSAGES.get_key_value(name.as_str()) else {
        return Err(ProtobufError::Unknown { kind, version });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), Value::String(version));
    object.insert("kind".to_owned(), Value::String(kind));
    message(name, raw, &mut object)?;
    Ok(Value::Object(object))
}

/// `rbac.authorization.k8s.io/v1` is the package `rbac/v1`; types shared by all groups are in `meta/v1`.
fn message_name(version: &str, kind: &str) -> String {
    if matches!(kind, "DeleteOptions" | "Status") {
        return format!("meta/v1.{kind}");
    }
    let (group, version) = version.rsplit_once('/').unwrap_or(("core", version));
    format!("{}/{version}.{kind}", group.split('.').next().unwrap_or_default())
}

fn message(name: &str, bytes: &[u8], object: &mut Map<String, Value>) -> Result<(), ProtobufError> {
    let Some(fields) = MESSAGES.get(name) else { return Ok(()) };
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        // Skip fields that are newer than the table.
        let Some(field) = fields.get(&number) else { continue };
        if let (".", Type::Message(inner), Wire::Bytes(bytes)) = (field.name, field.kind, &wire) {
            message(inner, bytes, object)?;
            continue;
        }
        match field.shape {
            Shape::Map => {
                let Wire::Bytes(bytes) = wire else { continue };
                let (key, value) = map_entry(field.kind, bytes)?;
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                map[key] = value;
            }
            Shape::List => {
                let value = value(field.kind, &wire)?;
                if let Some(list) = object.entry(field.name).or_insert_with(|| json!([])).as_array_mut() {
                    list.push(value);
                }
            }
            Shape::One => {
                let value = value(field.kind, &wire)?;
                if field.keeps_zero || !is_zero(&value) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// Go encodes required fields even if they are empty; JSON omits them.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn map_entry(kind: Type, bytes: &[u8]) -> Result<(String, Value), ProtobufError> {
    let mut reader = Reader(bytes);
    let (mut key, mut entry) = (String::new(), None);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => entry = Some(value(kind, &wire)?),
            _ => {}
        }
    }
    let empty = match kind {
        Type::Bytes | Type::Text => json!(""),
        _ => Value::Null,
    };
    Ok((key, entry.unwrap_or(empty)))
}

fn value(kind: Type, wire: &Wire<'_>) -> Result<Value, ProtobufError> {
    let bytes = match (kind, wire) {
        (Type::Bool, Wire::Number(number)) => return Ok(json!(*number != 0)),
        (_, Wire::Number(number)) => return Ok(json!(number.cast_signed())),
        (_, Wire::Bytes(bytes)) => *bytes,
    };
    Ok(match kind {
        Type::Text | Type::Bool | Type::Integer => json!(text(bytes)?),
        Type::Bytes => json!(BASE64_STANDARD.encode(bytes)),
        Type::Time | Type::MicroTime => time(bytes, matches!(kind, Type::MicroTime))?,
        Type::Duration => json!(format!("{}ns", Flat::read(bytes)?.number(1))),
        Type::Quantity => json!(Flat::read(bytes)?.text(1)?),
        Type::IntOrString => {
            let flat = Flat::read(bytes)?;
            if flat.number(1) == 0 { json!(flat.number(2)) } else { json!(flat.text(3)?) }
        }
        Type::Json => {
            let raw = Flat::read(bytes)?.texts.get(&1).copied().unwrap_or_default();
            serde_json::from_slice(raw).map_err(|_| ProtobufError::Json)?
        }
        Type::Texts => {
            let mut texts = Vec::new();
            let mut reader = Reader(bytes);
            while let Some((_, wire)) = reader.next()? {
                if let Wire::Bytes(bytes) = wire {
                    texts.push(text(bytes)?);
                }
            }
            json!(texts)
        }
        Type::Message(name) => {
            let mut object = Map::new();
            message(name, bytes, &mut object)?;
            Value::Object(object)
        }
    })
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, ProtobufError> {
    let flat = Flat::read(bytes)?;
    if flat.numbers.is_empty() {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(flat.number(2)).unwrap_or_default();
    let Ok(time) = Timestamp::new(flat.number(1), nanoseconds) else { return Ok(Value::Null) };
    let form = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(time.strftime(form).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        bytes.extend_from_slice(content);
        bytes
    }

    fn envelope(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn a_secret_comes_out_as_it_would_be_written_in_json() {
        let metadata =
            [field(1, b"token"), field(2, b""), field(8, b""), field(11, &[field(1, b"a"), field(2, b"b")].concat())];
        let data = [field(1, b"key"), field(2, b"value")].concat();
        let secret = [field(1, &metadata.concat()), field(2, &data), field(3, b"Opaque"), vec![5 << 3, 0]].concat();
        assert_eq!(
            decode(&envelope("v1", "Secret", &secret)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "labels": {"a": "b"}},
                "data": {"key": "dmFsdWU="}, "type": "Opaque", "immutable": false,
            })
        );
    }

    #[test]
    fn fields_of_an_embedded_message_belong_to_the_outer_one() {
        let volume = [field(1, b"v"), field(2, &field(2, b""))].concat();
        let pod = field(2, &field(1, &volume));
        assert_eq!(
            decode(&envelope("v1", "Pod", &pod)).unwrap()["spec"],
            json!({"volumes": [{"name": "v", "emptyDir": {}}]})
        );
    }

    #[test]
    fn truncated_and_unknown_messages_are_rejected() {
        assert_eq!(decode(b"{}"), Err(ProtobufError::Prefix));
        assert_eq!(decode(b"k8s\0\x0a\x7f"), Err(ProtobufError::Short));
        let unknown = decode(&envelope("v1", "Nonsense", b"")).unwrap_err();
        assert_eq!(unknown.to_string(), r#"no kind "Nonsense" is registered for version "v1""#);
    }

    #[test]
    fn every_type_in_the_table_is_known() {
        for (name, fields) in MESSAGES.iter() {
            for field in fields.values() {
                if let Type::Message(inner) = field.kind {
                    assert!(MESSAGES.contains_key(inner), "{name}.{} has unknown type {inner}", field.name);
                }
            }
        }
    }
}
