//! Which main model the settings of an Agent or AgentTemplate select.

use api::{refs::ObjectRef, settings::AgentSettings};
use serde_json::Value;

/// The selected main model.
#[derive(Clone, Debug, PartialEq)]
pub enum MainModel {
    /// `modelRef`: a Model object.
    Model(ObjectRef),
    /// `config.model`: provider/model, as OpenCode reads it.
    Named(String),
}

/// The main model of merged settings. A `modelRef` takes precedence over `config.model`, as in the compiled
/// configuration.
pub fn main_model(settings: &AgentSettings) -> Option<MainModel> {
    if let Some(model) = &settings.model_ref {
        return Some(MainModel::Model(model.clone()));
    }
    let parsed;
    let config = match settings.config.as_ref()? {
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text).ok()?;
            &parsed
        }
        config => config,
    };
    let name = config.get("model")?.as_str()?.trim();
    (!name.is_empty()).then(|| MainModel::Named(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::merge::merge;

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a reference")]
    fn check(agent: Value, template: Value, expected: Option<MainModel>) {
        let read = |settings: &Value| serde_json::from_value::<AgentSettings>(settings.clone()).unwrap();
        assert_eq!(main_model(&merge(&read(&agent), &read(&template))), expected, "{agent} {template}");
    }

    #[expect(clippy::unnecessary_wraps, reason = "an expected answer")]
    fn named(name: &str) -> Option<MainModel> {
        Some(MainModel::Named(name.to_owned()))
    }

    fn model(name: &str) -> Option<MainModel> {
        serde_json::from_value(json!({ "name": name })).ok().map(MainModel::Model)
    }

    #[test]
    fn the_model_comes_from_the_reference_then_the_configuration_then_the_template() {
        check(json!({}), json!({}), None);
        check(json!({"modelRef": {"name": "big"}, "config": {"model": "a/b"}}), json!({}), model("big"));
        check(json!({"config": {"model": "a/b"}}), json!({}), named("a/b"));
        check(json!({"config": "{\"model\": \"a/b\"}"}), json!({}), named("a/b"));
        check(json!({"config": {"theme": "x"}}), json!({}), None);
        check(json!({"config": "not JSON"}), json!({}), None);
        check(json!({}), json!({"config": {"model": "a/b"}}), named("a/b"));
        check(json!({}), json!({"modelRef": {"name": "big"}}), model("big"));
        check(json!({"config": {"model": "a/b"}}), json!({"config": {"model": "c/d"}}), named("a/b"));
    }
}
