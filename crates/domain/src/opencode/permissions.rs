//! Permissions of the agent. In OpenCode the last rule that matches wins, so the order of keys matters: `"*"` comes
//! first, and no rule after ours may allow more.

use api::run::ApprovalMode;
use serde_json::{Map, Value, json};

use super::{ConfigInput, ToolServer, draft::Draft};

/// A name as it appears in the names of OpenCode's tools.
pub(super) fn sanitised(name: &str) -> String {
    name.chars()
        .map(|char| if char.is_ascii_alphanumeric() || matches!(char, '_' | '-') { char } else { '_' })
        .collect()
}

/// Writes the rules, or returns `OPENCODE_PERMISSION` if there are none.
pub(super) fn decide(input: &ConfigInput<'_>, draft: &mut Draft) -> Option<String> {
    let always = input.agent.approval.mode == ApprovalMode::Always;
    let typed = tool_rules(input.tools, always);
    let own = draft.whole.get("permission").cloned();
    if typed.is_empty() && !always {
        let Some(own) = own else {
            // Merged last by OpenCode, after every configuration: only correct if there are no other rules.
            return Some(r#"{"*":"allow"}"#.to_owned());
        };
        draft.enforced.insert("permission".to_owned(), own);
        return None;
    }
    let mut rules = Map::new();
    let own = match own {
        Some(Value::Object(own)) => own,
        Some(Value::String(action)) => [("*".to_owned(), json!(action))].into_iter().collect(),
        _ => Map::new(),
    };
    if always {
        rules.insert("*".to_owned(), json!("ask"));
        rules.extend(own.into_iter().filter_map(|(key, rule)| Some((key, only_denials(rule)?))));
    } else {
        if !own.contains_key("*") {
            rules.insert("*".to_owned(), json!("allow"));
        }
        rules.extend(own);
    }
    for (key, rule) in typed {
        if rules.shift_remove(&key).is_some_and(|old| old != rule) {
            draft.overridden.insert(format!("permission.{key}"));
        }
        rules.insert(key, rule);
    }
    draft.whole.insert("permission".to_owned(), Value::Object(rules.clone()));
    draft.enforced.insert("permission".to_owned(), Value::Object(rules));
    None
}

/// Rules of typed tools. With `always`, allowed tools need approval.
fn tool_rules(servers: &[ToolServer], always: bool) -> Vec<(String, Value)> {
    let allow = if always { "ask" } else { "allow" };
    let mut rules = Vec::new();
    for server in servers.iter().filter(|server| server.enabled) {
        let name = sanitised(&server.name);
        if !server.allowed.is_empty() {
            rules.push((format!("{name}_*"), json!("deny")));
            for tool in server.allowed.iter().filter(|tool| !server.ask.contains(tool)) {
                rules.push((format!("{name}_{}", sanitised(tool)), json!(allow)));
            }
        }
        for tool in &server.ask {
            rules.push((format!("{name}_{}", sanitised(tool)), json!("ask")));
        }
    }
    rules
}

/// The part of a rule that still holds if a person decides about everything else.
fn only_denials(rule: Value) -> Option<Value> {
    match rule {
        Value::String(action) if action == "deny" => Some(json!("deny")),
        Value::Object(patterns) => {
            let denials: Map<String, Value> = patterns.into_iter().filter(|(_, action)| *action == "deny").collect();
            (!denials.is_empty()).then_some(Value::Object(denials))
        }
        _ => None,
    }
}
