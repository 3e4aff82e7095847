//! Resolved settings as a list, each with its origin.

use api::{Agent, Task, TaskPhase, TaskSpec};
use serde_json::Value;
use units::duration::short_format;

use super::{Run, Setting, Surroundings};
use crate::run::{
    origin::{Origin, Origins},
    resolve::{Sources, resolve_task},
    resolved::ResolvedTask,
};

/// The settings of the current or last run of `task`, as recorded at its start. For a waiting Task, or without a
/// record, the settings of a run that would start now.
pub fn of_run(task: &Task, run: &Run, around: &Surroundings) -> Result<Vec<Setting>, String> {
    let phase = task.status.as_ref().and_then(|status| status.phase).unwrap_or_default();
    let began = phase == TaskPhase::Running || phase.is_finished();
    match &run.settings {
        Some(kept) if began => seen(around).map(|()| kept.clone()),
        _ => of_task(task, around),
    }
}

/// The settings of a starting run, in the form in which they are archived.
pub fn settings_of_run(task: &Task, resolved: &ResolvedTask, origins: &Origins) -> Vec<Setting> {
    list(resolved, origins, &target_of(task).unwrap_or_default())
}

fn target_of(task: &Task) -> Option<String> {
    let agent = task.spec.agent_ref.as_ref().map(|agent| format!("Agent '{}'", agent.name));
    agent.or_else(|| task.spec.template_ref.as_ref().map(|template| format!("AgentTemplate '{}'", template.name)))
}

fn seen(around: &Surroundings) -> Result<(), String> {
    if around.sight.target {
        Ok(())
    } else {
        Err("you are not allowed to read the Agent or template of the Task".to_owned())
    }
}

/// The settings of a run of `task` that would start now, or why they are not available.
pub fn of_task(task: &Task, around: &Surroundings) -> Result<Vec<Setting>, String> {
    let Some(name) = target_of(task) else { return Ok(Vec::new()) };
    seen(around)?;
    let sources = match (&around.agent, &around.template) {
        (Some(agent), template) if task.spec.agent_ref.is_some() => {
            let url = agent.status.as_ref().and_then(|status| status.url.as_deref()).unwrap_or_default();
            Sources::Agent { agent, template: template.as_deref(), url }
        }
        (_, Some(template)) if task.spec.agent_ref.is_none() => Sources::Template(template),
        _ => return Err(format!("{name} does not exist")),
    };
    let (resolved, origins) = resolve_task(task, sources, &around.platform).map_err(|error| error.to_string())?;
    Ok(list(&resolved, &origins, &name))
}

/// The settings of `agent`: those of a Task on it that sets nothing itself.
pub fn of_agent(agent: &Agent, around: &Surroundings) -> Result<Vec<Setting>, String> {
    let name = agent.metadata.name.clone().unwrap_or_default();
    let spec = TaskSpec { agent_ref: Some(api::refs::LocalRef { name }), ..TaskSpec::default() };
    let mut nothing = Task::new("", spec);
    nothing.metadata.namespace.clone_from(&agent.metadata.namespace);
    let own = |setting: Setting| Some(Setting { path: setting.path.strip_prefix("agent.")?.to_owned(), ..setting });
    Ok(of_task(&nothing, around)?.into_iter().filter_map(own).collect())
}

/// Every setting whose origin is known, by its path.
fn list(resolved: &ResolvedTask, origins: &Origins, target: &str) -> Vec<Setting> {
    let whole = serde_json::to_value(resolved).unwrap_or_default();
    let one = |(path, origin): (&str, &Origin)| {
        let value = match path {
            "target" => target.into(),
            path => readable(whole.pointer(&pointer(path)).cloned().unwrap_or_default()),
        };
        Setting { path: path.to_owned(), value, origin: origin.clone(), origin_text: origin.to_string() }
    };
    origins.iter().map(one).collect()
}

/// `agent.tools[2]` as `/agent/tools/2`.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace(['.', '['], "/").replace(']', ""))
}

/// Durations as text; other values unchanged.
fn readable(value: Value) -> Value {
    let seconds = value.get("secs").and_then(Value::as_u64).filter(|_| value.get("nanos").is_some());
    seconds.map_or(value, |seconds| short_format(seconds).into())
}
