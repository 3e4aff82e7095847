//! Resolved settings as a list, each with its origin.

use kubeopencode_core::{origin::Origins, resolved::ResolvedTask};
use serde_json::Value;

use crate::{span, wire::Setting};

/// Every setting whose origin is known, by its path.
pub fn list(resolved: &ResolvedTask, origins: &Origins, prefix: &str) -> Vec<Setting> {
    let whole = serde_json::to_value(resolved).unwrap_or_default();
    let one = |(path, origin): (&str, &kubeopencode_core::origin::Origin)| {
        let value = whole.pointer(&pointer(path)).cloned().unwrap_or_default();
        Some(Setting {
            path: path.strip_prefix(prefix)?.to_owned(),
            value: readable(value),
            origin: origin.clone(),
            origin_text: origin.to_string(),
        })
    };
    origins.iter().filter_map(one).collect()
}

/// Those that are the agent's, without that word.
pub fn of_agent(settings: Vec<Setting>) -> Vec<Setting> {
    let one = |setting: Setting| Some(Setting { path: setting.path.strip_prefix("agent.")?.to_owned(), ..setting });
    settings.into_iter().filter_map(one).collect()
}

/// `agent.tools[2]` as `/agent/tools/2`.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace(['.', '['], "/").replace(']', ""))
}

/// A span of time as people write it; everything else as it is.
fn readable(value: Value) -> Value {
    match &value {
        Value::Object(object) if object.len() == 2 => match (object.get("secs"), object.get("nanos")) {
            (Some(seconds), Some(_)) => span::seconds_text(seconds.as_i64().unwrap_or_default()).into(),
            _ => value,
        },
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use api::{AgentTemplate, AgentTemplateSpec, Task, TaskSpec};
    use kubeopencode_core::{
        platform::Platform,
        resolve::{Target, resolve_task},
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn each_setting_tells_its_value_and_its_origin() {
        let spec = json!({"templateRef": {"name": "t"}, "description": "d", "timeout": "30m"});
        let task = Task::new("a", serde_json::from_value::<TaskSpec>(spec).unwrap());
        let spec = json!({"executorImage": "box:1"});
        let template = AgentTemplate::new("t", serde_json::from_value::<AgentTemplateSpec>(spec).unwrap());
        let (resolved, origins) = resolve_task(&task, Target::Template(&template), &Platform::default()).unwrap();
        let all = list(&resolved, &origins, "");
        let find = |path: &str| all.iter().find(|setting| setting.path == path).unwrap();
        assert_eq!(find("agent.executorImage").value, "box:1");
        assert_eq!(find("agent.executorImage").origin_text, "AgentTemplate 't'");
        assert_eq!(find("timeout").value, "30m0s");
        assert_eq!(find("timeout").origin_text, "the Task");
        assert!(all.iter().all(|setting| find(&setting.path).path == setting.path));
        assert!(of_agent(all).iter().any(|setting| setting.path == "executorImage"));
    }
}
