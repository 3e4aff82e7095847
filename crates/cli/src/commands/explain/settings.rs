//! The settings of a run, each with its origin.

use kubeopencode_core::{
    origin::Origin,
    resolve::{Target, resolve_task},
};
use serde_json::Value;

use super::{Facts, Setting};
use crate::commands::span;

/// The settings; `all` also those that nobody set.
pub fn settings(facts: &Facts, all: bool) -> Result<Vec<Setting>, String> {
    let target = match (&facts.agent, &facts.template) {
        (Some(agent), template) if facts.task.spec.agent_ref.is_some() => {
            let url = agent.status.as_ref().and_then(|status| status.url.as_deref()).unwrap_or_default();
            Target::Agent { agent, template: template.as_ref(), url }
        }
        (None, Some(template)) if facts.task.spec.template_ref.is_some() => Target::Template(template),
        _ => return Err(format!("{} does not exist", facts.target())),
    };
    let (resolved, origins) = resolve_task(&facts.task, target, &facts.platform).map_err(|error| error.to_string())?;
    let values = serde_json::to_value(&resolved).map_err(|error| error.to_string())?;
    let one = |(path, origin): (&str, &Origin)| {
        let value = match path {
            "place" => facts.target().into(),
            path => readable(lookup(&values, path)?.clone()),
        };
        let told = all || (*origin != Origin::BuiltIn && !is_nothing(&value));
        told.then(|| Setting { path: path.to_owned(), value, origin: origin.clone() })
    };
    Ok(origins.iter().filter_map(one).collect())
}

/// The value at `agent.tools[2]`.
fn lookup<'a>(values: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = values;
    for step in path.split('.') {
        let (name, index) = match step.strip_suffix(']').and_then(|step| step.split_once('[')) {
            Some((name, index)) => (name, Some(index.parse::<usize>().ok()?)),
            None => (step, None),
        };
        value = value.get(name)?;
        if let Some(index) = index {
            value = value.get(index)?;
        }
    }
    Some(value)
}

/// Spans of time as people write them.
fn readable(value: Value) -> Value {
    let seconds = value.get("secs").and_then(Value::as_i64).filter(|_| value.get("nanos").is_some());
    seconds.map_or(value, |seconds| span::age(seconds).into())
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
