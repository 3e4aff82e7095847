//! Output as JSON, YAML or names, to standard output and standard error.

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use super::problem::{Answer, Problem};

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Only kind and name.
    Name,
}

/// How one answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// For people.
    #[default]
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl DataFormat {
    /// Renders `value` as data, or as text with `text`.
    pub fn show<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Answer<String> {
        match self {
            Self::Text => Ok(text(value)),
            Self::Json => json_text(value),
            Self::Yaml => yaml_text(value),
        }
    }
}

/// Indented JSON with a trailing newline.
pub fn json_text(value: &impl Serialize) -> Answer<String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|error| Problem::new(error.to_string()))
}

pub fn yaml_text(value: &impl Serialize) -> Answer<String> {
    let text = serde_saphyr::to_string(value).map_err(|error| Problem::new(error.to_string()))?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// Renders objects as a List, as kubectl does; with `single`, one object as itself.
pub fn list(mut objects: Vec<Value>, single: bool) -> Value {
    match objects.pop() {
        Some(object) if single && objects.is_empty() => object,
        last => {
            objects.extend(last);
            json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects })
        }
    }
}

/// The object without managed fields, which only the API server needs.
pub fn tidy(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Writes to standard output.
pub fn print(text: &str) -> Answer<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a line to standard error, so that it does not mix with output for scripts.
pub fn note(text: &str) {
    // Standard error may be closed; nothing else can be done.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The name of this program, for hints that can be pasted.
pub fn program() -> String {
    let called = std::env::args_os().next();
    let name = called.as_ref().and_then(|path| std::path::Path::new(path).file_name()).and_then(|name| name.to_str());
    name.filter(|name| *name == "kubeoc").unwrap_or("kubeopencode").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_printed_as_itself_and_many_as_a_list() {
        let (a, b) = (json!({"kind": "Task"}), json!({"kind": "Agent"}));
        assert_eq!(list(vec![a.clone()], true), a);
        assert_eq!(list(vec![a.clone()], false)["items"], json!([a]));
        assert_eq!(list(vec![a.clone(), b.clone()], true)["items"], json!([a, b]));
        assert_eq!(list(vec![], true)["items"], json!([]));
    }
}
