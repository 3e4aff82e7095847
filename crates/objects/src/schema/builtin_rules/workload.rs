//! Deployment and ReplicaSet.

use serde_json::Value;

use super::super::names;
use super::super::violation::{Path, Violation};
use super::{Findings, items, pod, text};

pub(super) fn deployment(object: &Value, old: Option<&Value>, found: &mut Findings) {
    let spec = &object["spec"];
    let path = Path::of("spec");
    found.not_negative(&path.child("replicas"), &spec["replicas"]);
    template(spec, &path, found);
    strategy(&spec["strategy"], &path.child("strategy"), found);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        found.not_negative(&path.child(field), &spec[field]);
    }
    let ready = spec["minReadySeconds"].as_i64().unwrap_or_default();
    if spec["progressDeadlineSeconds"].as_i64().is_some_and(|deadline| deadline <= ready) {
        let sentence = "must be greater than minReadySeconds";
        found.invalid(&path.child("progressDeadlineSeconds"), &spec["progressDeadlineSeconds"], sentence);
    }
    same_selector(spec, old, found);
}

pub(super) fn replica_set(object: &Value, old: Option<&Value>, found: &mut Findings) {
    let spec = &object["spec"];
    let path = Path::of("spec");
    found.not_negative(&path.child("replicas"), &spec["replicas"]);
    found.not_negative(&path.child("minReadySeconds"), &spec["minReadySeconds"]);
    template(spec, &path, found);
    same_selector(spec, old, found);
}

fn same_selector(spec: &Value, old: Option<&Value>, found: &mut Findings) {
    if let Some(old) = old {
        found.unchanged(&Path::of("spec.selector"), &spec["selector"], &old["spec"]["selector"]);
    }
}

/// Validates the selector and the template that it must match.
fn template(spec: &Value, path: &Path, found: &mut Findings) {
    let selector = &spec["selector"];
    let selector_path = path.child("selector");
    if selector.is_null() {
        found.required(&selector_path, "");
    } else {
        self::selector(selector, &selector_path, found);
        if is_empty(selector) {
            found.invalid(&selector_path, selector, "empty selector is invalid for deployment");
        }
    }
    let template = &spec["template"];
    let template_path = path.child("template");
    let labels = &template["metadata"]["labels"];
    // A missing selector selects nothing.
    if selector.is_null() || (!is_empty(selector) && !matches(selector, labels)) {
        let sentence = "`selector` does not match template `labels`";
        found.invalid(&template_path.child("metadata").child("labels"), labels, sentence);
    }
    found.labels(&template_path.child("metadata").child("labels"), labels);
    let pod_path = template_path.child("spec");
    pod::spec(&template["spec"], &pod_path, found);
    let policy = text(&template["spec"], "restartPolicy");
    if policy != "Always" {
        let field = pod_path.child("restartPolicy");
        found.add(Violation::not_supported(field.as_str(), &policy.into(), ["Always"]));
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let sentence = "activeDeadlineSeconds in ReplicaSet is not Supported";
        found.forbidden(&pod_path.child("activeDeadlineSeconds"), sentence);
    }
}

fn is_empty(selector: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().map_or(0, serde_json::Map::len);
    labels + selector["matchExpressions"].as_array().map_or(0, Vec::len) == 0
}

fn selector(selector: &Value, path: &Path, found: &mut Findings) {
    found.labels(&path.child("matchLabels"), &selector["matchLabels"]);
    for (expression, path) in items(&selector["matchExpressions"], &path.child("matchExpressions")) {
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match text(expression, "operator") {
            "In" | "NotIn" if values == 0 => {
                let sentence = "must be specified when `operator` is 'In' or 'NotIn'";
                found.required(&path.child("values"), sentence);
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let sentence = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                found.forbidden(&path.child("values"), sentence);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => found.invalid(&path.child("operator"), &expression["operator"], "not a valid selector operator"),
        }
        let key = text(expression, "key");
        found.errors(&path.child("key"), key, names::qualified_name(key));
    }
}

fn matches(selector: &Value, labels: &Value) -> bool {
    let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| {
            let label = labels.get(text(expression, "key"));
            let listed = || {
                expression["values"].as_array().is_some_and(|values| label.is_some_and(|label| values.contains(label)))
            };
            match text(expression, "operator") {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}

fn strategy(strategy: &Value, path: &Path, found: &mut Findings) {
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" if !rolling.is_null() => {
            let sentence = "may not be specified when strategy `type` is 'Recreate'";
            found.forbidden(&path.child("rollingUpdate"), sentence);
        }
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            for field in ["maxUnavailable", "maxSurge"] {
                percentage(&rolling[field], &path.child(field), found);
            }
            let is_zero = |field: &str| rolling[field] == 0 || rolling[field] == "0%";
            if is_zero("maxUnavailable") && is_zero("maxSurge") {
                let sentence = "may not be 0 when `maxSurge` is 0";
                found.invalid(&path.child("maxUnavailable"), &rolling["maxUnavailable"], sentence);
            }
        }
        "Recreate" => {}
        _ => found.add(Violation::not_supported(path.as_str(), strategy, ["Recreate", "RollingUpdate"])),
    }
}

fn percentage(value: &Value, path: &Path, found: &mut Findings) {
    match value {
        Value::String(text) if super::super::pattern::matches("^[0-9]+%$", text) != Some(true) => {
            let sentence = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                            '93%', regex used for validation is '[0-9]+%')";
            found.invalid(path, value, sentence);
        }
        Value::Number(_) => found.not_negative(path, value),
        _ => {}
    }
}
