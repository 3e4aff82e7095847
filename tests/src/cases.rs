//! Test cases that are stored as files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testenv::json::with_plain_numbers;

use crate::Kind;

/// A file or directory of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A file or directory of cases.
pub fn directory(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(path)
}

/// The objects of a manifest, read as kubectl reads it: 0400 is an octal number.
pub fn read<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Vec<T>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(&text, options).with_context(|| file.display().to_string())
}

/// The files of a directory whose names end with `.yaml`, by name.
pub fn manifests_in(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

/// Manifests that together set every field of `kind`.
///
/// Each type of the code is written once: CronTasks and workflows hold the specs of the Tasks, AgentTemplates
/// the settings of the Agents, MCPServers their Pods.
pub fn full(kind: &Kind) -> anyhow::Result<Vec<Value>> {
    let of = |plural: &str| read::<Value>(&directory("full").join(format!("{plural}.yaml")));
    let mut objects = of(&kind.plural)?;
    match kind.name.as_str() {
        "CronTask" => {
            for task in of("tasks")? {
                let mut object = objects[0].clone();
                object["metadata"]["name"] = format!("nightly-{}", object_name(&task)).into();
                object["spec"]["taskTemplate"]["spec"] = task["spec"].clone();
                objects.push(object);
            }
        }
        "AgentWorkflow" => {
            let tasks = of("tasks")?;
            let steps = tasks.iter().map(|task| json!({ "name": object_name(task), "task": task["spec"] }));
            let steps = steps.collect::<Vec<_>>();
            objects.push(json!({
                "apiVersion": objects[0]["apiVersion"], "kind": kind.name,
                "metadata": { "name": "tasks" }, "spec": { "steps": steps },
            }));
        }
        "AgentTemplate" => {
            for agent in of("agents")? {
                let known = &kind.schema["properties"]["spec"]["properties"];
                let mut spec = agent["spec"].as_object().cloned().unwrap_or_default();
                spec.retain(|field, _| known.get(field).is_some());
                objects.push(json!({
                    "apiVersion": agent["apiVersion"], "kind": kind.name,
                    "metadata": { "name": object_name(&agent) }, "spec": spec,
                }));
            }
        }
        "MCPServer" => objects[1]["spec"]["podSpec"] = of("agents")?[0]["spec"]["podSpec"].clone(),
        _ => {}
    }
    Ok(objects)
}

/// Name of an object.
pub fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Cases of one validation rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleCases {
    /// The rule's message.
    pub rule: String,
    /// Only for these kinds; for all that carry the rule when empty.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// For a rule about changes: how the object is stored before.
    pub before: Option<Value>,
    /// Values that must be accepted, by description.
    #[serde(default)]
    pub accepted: BTreeMap<String, Value>,
    /// Values that must be refused, by description.
    #[serde(default)]
    pub refused: BTreeMap<String, Value>,
}

/// The cases of all rules.
pub fn rules() -> anyhow::Result<Vec<RuleCases>> {
    let mut documents = read::<Vec<RuleCases>>(&directory("rules.yaml"))?;
    documents.pop().context("rules.yaml is empty")
}

/// A case that is written out: a whole object, and whether it must be accepted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WholeCase {
    /// Description of the object.
    pub name: String,
    /// Whether it must be accepted.
    pub accepted: bool,
    /// The object.
    pub object: Value,
}

/// The cases that are written out.
pub fn whole() -> anyhow::Result<Vec<WholeCase>> {
    let mut documents = read::<Vec<WholeCase>>(&directory("whole.yaml"))?;
    documents.pop().context("whole.yaml is empty")
}

/// Removes the fields that a server adds to every object, and the status. `3` and `3.0` are the same number.
pub fn as_sent(object: &Value) -> Value {
    let mut object = with_plain_numbers(object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"] {
            metadata.remove(field);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}
