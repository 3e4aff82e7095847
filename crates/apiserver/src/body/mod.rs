//! What a client sends: JSON, YAML or protobuf, read into a JSON value.

mod protobuf;

use objects::schema::{JsonError, Parsed, parse_strict};
use serde_json::Value;

use crate::refusal::Refusal;

/// The largest body that is read, the same as kube-apiserver's.
pub(crate) const LARGEST: usize = 3 * 1024 * 1024;

/// Deeper than any object that people write, and not so deep that walking through it could exhaust a stack.
pub(crate) const DEEPEST: usize = 400;

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Why a body was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It is of a type that is not read here.
    #[error("the body of the request was in an unknown format - accepted media types include: {ACCEPTED}")]
    MediaType,
    /// It is not what its type promises.
    #[error("{0}")]
    Malformed(String),
    /// It has a number that is too large for anything.
    #[error("{0}")]
    Number(JsonError),
}

impl From<Unreadable> for Refusal {
    fn from(problem: Unreadable) -> Self {
        match problem {
            Unreadable::MediaType => Self::unsupported_media_type(problem.to_string()),
            Unreadable::Malformed(_) | Unreadable::Number(_) => Self::bad_request(problem.to_string()),
        }
    }
}

impl From<JsonError> for Unreadable {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax(sentence) => Self::Malformed(sentence),
            JsonError::Number(_) => Self::Number(error),
        }
    }
}

/// A body that was read.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Fields that were given twice.
    pub(crate) duplicates: Vec<String>,
}

impl From<Parsed> for Decoded {
    fn from(parsed: Parsed) -> Self {
        Self { value: parsed.value, duplicates: parsed.duplicates }
    }
}

/// The media type without its parameters.
fn media_type(content_type: Option<&str>) -> &str {
    content_type.and_then(|text| text.split(';').next()).map_or("", str::trim)
}

/// Reads the body of a create, an update or a delete.
pub(crate) fn decode(content_type: Option<&str>, bytes: &[u8]) -> Result<Decoded, Unreadable> {
    match media_type(content_type) {
        "" | "application/json" => json(bytes),
        "application/yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes)
            .map(|value| Decoded { value, duplicates: Vec::new() })
            .map_err(|error| Unreadable::Malformed(error.to_string())),
        _ => Err(Unreadable::MediaType),
    }
}

/// Reads JSON.
pub(crate) fn json(bytes: &[u8]) -> Result<Decoded, Unreadable> {
    Ok(parse_strict(bytes, DEEPEST)?.into())
}

/// Reads YAML, of which JSON is a part.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, Unreadable> {
    // Most that calls itself YAML is written by programs, as JSON; the strict reader knows duplicates.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
        && let Ok(parsed) = parse_strict(bytes, DEEPEST)
    {
        return Ok(parsed.into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Unreadable::Malformed(format!("yaml: {error}")))?;
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| Unreadable::Malformed(format!("error converting YAML to JSON: yaml: {error}")))?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_and_json_mean_the_same() {
        let expected = json!({"a": {"b": [1, "2", null]}});
        assert_eq!(yaml(b"a:\n  b: [1, \"2\", null]\n").unwrap().value, expected);
        assert_eq!(yaml(br#" {"a": {"b": [1, "2", null]}}"#).unwrap().value, expected);
        assert_eq!(decode(Some("application/yaml; charset=utf-8"), b"a: {b: [1, '2', ~]}").unwrap().value, expected);
    }

    #[test]
    fn an_unknown_type_is_refused_by_name() {
        let refusal = Refusal::from(decode(Some("text/csv"), b"a,b").unwrap_err());
        assert_eq!(refusal.code(), 415);
        assert!(refusal.message().contains("application/vnd.kubernetes.protobuf"));
    }
}
