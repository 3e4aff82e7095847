//! Validation and normalisation of values.

use std::time::Duration;

use serde_json::{Map, Value};

/// Directories that a workspace must not cover: those of the system, and the mount of OpenCode.
const RESERVED: [&str; 5] = ["/dev", "/etc", "/proc", "/sys", "/tools"];

/// Nesting levels of a configuration. OpenCode needs fewer than ten. Values deeper than `observe::depth::MOST` in the
/// whole object are dropped, so this must be well below.
const MAX_DEPTH: u32 = 64;

/// A duration; zero is what tools write for "unset".
pub(in crate::run) fn span(span: Option<api::Duration>) -> Option<Duration> {
    span.and_then(api::Duration::nonzero)
}

/// OpenCode's configuration as an object, in the order of its keys.
pub(super) fn config_object(config: Value) -> Result<Map<String, Value>, String> {
    let config = match config {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| {
            // serde_json's message ends with the position.
            format!("it is not valid JSON: {error}")
        })?,
        other => other,
    };
    if is_deeper(&config, MAX_DEPTH) {
        return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
    }
    let found = match config {
        Value::Object(map) => return Ok(map),
        Value::Array(_) => "a list",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "true or false",
        Value::Null => "null",
    };
    Err(format!("it must be a JSON object such as {{\"model\": \"provider/model\"}}, but it is {found}"))
}

/// An absolute directory without a trailing slash, `.` or `..`.
pub(super) fn normal_dir(dir: &str) -> Result<String, &'static str> {
    if !dir.starts_with('/') {
        return Err("it must be an absolute path such as /workspace");
    }
    let mut parts = Vec::new();
    for part in dir.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err("it must not contain '..'"),
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return Err("the root directory cannot be a workspace; use a directory below it");
    }
    let dir = format!("/{}", parts.join("/"));
    let is_in = |reserved: &str| dir == reserved || dir.starts_with(&format!("{reserved}/"));
    if RESERVED.into_iter().any(is_in) {
        return Err("/dev, /etc, /proc, /sys and /tools are reserved; choose another directory");
    }
    Ok(dir)
}

/// Whether a value nests deeper than `levels`.
fn is_deeper(value: &Value, levels: u32) -> bool {
    let Some(below) = levels.checked_sub(1) else { return value.is_object() || value.is_array() };
    match value {
        Value::Object(map) => map.values().any(|value| is_deeper(value, below)),
        Value::Array(list) => list.iter().any(|value| is_deeper(value, below)),
        _ => false,
    }
}
