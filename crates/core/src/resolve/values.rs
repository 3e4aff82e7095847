//! Values that are checked or brought into one form.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::depth::is_deeper;

/// Directories that a workspace must not cover: the system's own, and where OpenCode itself is mounted.
const RESERVED: [&str; 5] = ["/dev", "/etc", "/proc", "/sys", "/tools"];

/// Levels of a configuration. OpenCode's own needs fewer than ten; what lies deeper than [`crate::depth::MOST`] in the
/// whole object is lost, so this must be well below.
const DEEPEST: u32 = 64;

/// A span of time; zero is what tools write for "unset".
pub(super) fn span(span: Option<api::Duration>) -> Option<Duration> {
    span.map(api::Duration::to_std).filter(|span| !span.is_zero())
}

/// OpenCode's configuration as an object, in the order of its keys.
pub(super) fn config_object(config: Value) -> Result<Map<String, Value>, String> {
    let config = match config {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| {
            // serde_json ends its message with the position already, as "at line L column C".
            format!("it is no JSON: {error}")
        })?,
        other => other,
    };
    if is_deeper(&config, DEEPEST) {
        return Err(format!("it nests deeper than {DEEPEST} levels"));
    }
    let found = match config {
        Value::Object(map) => return Ok(map),
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
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
        return Err("/dev, /etc, /proc, /sys and /tools are in use; choose another directory");
    }
    Ok(dir)
}
