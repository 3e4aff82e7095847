//! Whether our kinds are installed in this version.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Map, Value};

use super::finding::Finding;
use crate::commands::{connect::Cluster, problem::Problem};

const INSTALL: &str = "kubeopencode crds | kubectl apply -f -";

/// Checks every definition.
pub async fn examine(cluster: &Cluster) -> Vec<Finding> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut found = Vec::new();
    for wanted in api::crds() {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match api.get_opt(&name).await {
            Ok(stored) => {
                let stored = stored.and_then(|stored| serde_json::to_value(stored).ok());
                found.push((name, state(&wanted, stored.as_ref())));
            }
            Err(error) => return vec![served(cluster, &Problem::from(error)).await],
        }
    }
    vec![judge(&found)]
}

/// Whether the group is served; for callers without the right to read definitions.
async fn served(cluster: &Cluster, problem: &Problem) -> Finding {
    let version = format!("{}/{}", api::names::GROUP, api::names::VERSION);
    match cluster.client.list_api_group_resources(&version).await {
        Ok(list) => {
            let kinds = list.resources.iter().filter(|resource| !resource.name.contains('/')).count();
            Finding::ok("definitions", format!("{kinds} kinds are served; you may not see of which version"))
        }
        Err(_) => {
            Finding::ok("definitions", format!("not served ({problem})")).fail(format!("install them: {INSTALL}"))
        }
    }
}

/// State of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    NotEstablished,
    OtherVersion,
    Same,
}

fn state(wanted: &Value, stored: Option<&Value>) -> State {
    let Some(stored) = stored else { return State::Missing };
    let conditions = stored["status"]["conditions"].as_array();
    let established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
    if !conditions.into_iter().flatten().any(established) {
        return State::NotEstablished;
    }
    let schema = |crd: &Value| tidy(&crd["spec"]["versions"][0]["schema"]);
    if schema(wanted) == schema(stored) { State::Same } else { State::OtherVersion }
}

/// Normalises a schema for comparison: the API server and its types omit nulls and write whole numbers as integers.
fn tidy(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut kept: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
            kept.sort_by_key(|(key, _)| *key);
            Value::Object(kept.into_iter().map(|(key, value)| (key.clone(), tidy(value))).collect::<Map<_, _>>())
        }
        Value::Array(list) => list.iter().map(tidy).collect(),
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        other => other.clone(),
    }
}

fn judge(found: &[(String, State)]) -> Finding {
    let named = |state: State| -> Vec<&str> {
        found.iter().filter(|(_, other)| *other == state).map(|(name, _)| name.as_str()).collect()
    };
    let (missing, broken, other) = (named(State::Missing), named(State::NotEstablished), named(State::OtherVersion));
    let all = found.len();
    if missing.len() == all {
        return Finding::ok("definitions", "none is installed").fail(format!("install them: {INSTALL}"));
    }
    if !missing.is_empty() {
        return Finding::ok("definitions", format!("not installed: {}", missing.join(", ")))
            .fail(format!("install them: {INSTALL}"));
    }
    if !broken.is_empty() {
        return Finding::ok("definitions", format!("refused by the API server: {}", broken.join(", ")))
            .fail(format!("see why: kubectl describe crd {}", broken[0]));
    }
    let finding = Finding::ok("definitions", format!("all {all} are installed"));
    if other.is_empty() {
        return finding;
    }
    Finding::ok("definitions", format!("of another version than this program: {}", other.join(", ")))
        .warn(format!("install those of this version: {INSTALL}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::finding::show, *};
    use crate::commands::screen::Screen;

    fn stored(schema: &Value) -> Value {
        json!({"spec": {"versions": [{"schema": schema}]}, "status": {"conditions": [{"type": "Established", "status": "True"}]}})
    }

    #[test]
    fn versions_are_told_apart_by_their_schemas() {
        let wanted = json!({"spec": {"versions": [{"schema": {"maximum": 5, "type": "object"}}]}});
        assert_eq!(state(&wanted, None), State::Missing);
        assert_eq!(state(&wanted, Some(&json!({}))), State::NotEstablished);
        let same = json!({"type": "object", "maximum": 5.0, "format": null});
        assert_eq!(state(&wanted, Some(&stored(&same))), State::Same);
        assert_eq!(state(&wanted, Some(&stored(&json!({"type": "object", "maximum": 6})))), State::OtherVersion);
    }

    #[test]
    fn the_worst_state_is_reported() {
        use State::{Missing, NotEstablished, OtherVersion, Same};
        let check = |states: &[State]| {
            let found: Vec<_> = states.iter().enumerate().map(|(at, state)| (format!("kind{at}"), *state)).collect();
            show(&[judge(&found)], &Screen::default())
        };
        let shown = [
            check(&[Same, Same]),
            check(&[Same, OtherVersion]),
            check(&[NotEstablished, OtherVersion]),
            check(&[Same, Missing]),
            check(&[Missing, Missing]),
        ];
        insta::assert_snapshot!(shown.concat(), @r"
        ok    definitions: all 2 are installed
        warn  definitions: of another version than this program: kind1
              fix: install those of this version: kubeopencode crds | kubectl apply -f -
        fail  definitions: refused by the API server: kind0
              fix: see why: kubectl describe crd kind0
        fail  definitions: not installed: kind1
              fix: install them: kubeopencode crds | kubectl apply -f -
        fail  definitions: none is installed
              fix: install them: kubeopencode crds | kubectl apply -f -
        ");
    }
}
