//! Decodes request bodies: JSON, YAML or protobuf, into a JSON value.

mod protobuf;

pub(crate) use objects::patch::MAX_DEPTH;
use objects::schema::{JsonError, Parsed, parse_strict};
use serde_json::Value;

use crate::status_error::StatusError;

/// Maximum size of a body; kube-apiserver's default.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the body of the request was in an unknown format - accepted media types include: {ACCEPTED}")]
    MediaType,
    /// The body does not match its content type.
    #[error("{0}")]
    Malformed(String),
    /// A number is out of range.
    #[error("{0}")]
    Number(JsonError),
}

impl From<DecodeError> for StatusError {
    fn from(problem: DecodeError) -> Self {
        match problem {
            DecodeError::MediaType => Self::unsupported_media_type(problem.to_string()),
            DecodeError::Malformed(_) | DecodeError::Number(_) => Self::bad_request(problem.to_string()),
        }
    }
}

impl From<JsonError> for DecodeError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax(sentence) => Self::Malformed(sentence),
            JsonError::Number(_) => Self::Number(error),
        }
    }
}

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Fields that appear twice.
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

/// Decodes the body of a create, an update or a delete.
pub(crate) fn decode(content_type: Option<&str>, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    match media_type(content_type) {
        "" | "application/json" => json(bytes),
        "application/yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes)
            .map(|value| Decoded { value, duplicates: Vec::new() })
            .map_err(|error| DecodeError::Malformed(error.to_string())),
        _ => Err(DecodeError::MediaType),
    }
}

pub(crate) fn json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    Ok(parse_strict(bytes, MAX_DEPTH)?.into())
}

/// Decodes YAML, a superset of JSON.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    // Most YAML bodies are JSON written by programs; the strict JSON parser detects duplicates.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
        && let Ok(parsed) = parse_strict(bytes, MAX_DEPTH)
    {
        return Ok(parsed.into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| DecodeError::Malformed(format!("yaml: {error}")))?;
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| DecodeError::Malformed(format!("error converting YAML to JSON: yaml: {error}")))?;
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
        let error = StatusError::from(decode(Some("text/csv"), b"a,b").unwrap_err());
        assert_eq!(error.code(), 415);
        assert!(error.message().contains("application/vnd.kubernetes.protobuf"));
    }
}
