//! Which references across namespaces are allowed (invariant I8).

use std::collections::BTreeMap;

use api::refs::{AllowedNamespaces, NamespacesFrom};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Whether namespace `from` with the labels `labels` may refer to an object of namespace `target` that allows
/// `allowed`. An object may always be used in its own namespace.
pub fn may_refer(
    from: &str,
    labels: &BTreeMap<String, String>,
    target: &str,
    allowed: Option<&AllowedNamespaces>,
) -> bool {
    if from == target {
        return true;
    }
    let Some(allowed) = allowed else { return false };
    match allowed.from {
        NamespacesFrom::Same => false,
        NamespacesFrom::All => true,
        NamespacesFrom::Selector => allowed.selector.as_ref().is_some_and(|selector| matches(selector, labels)),
    }
}

/// Whether `labels` match a selector. An empty selector matches everything, as in Kubernetes.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    exact && selector.match_expressions.iter().flatten().all(|requirement| satisfied(requirement, labels))
}

/// An unknown operator matches nothing: it must not grant access.
fn satisfied(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|other| other == value));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(json: serde_json::Value) -> AllowedNamespaces {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn only_the_owner_opens_the_door() {
        let labels = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
        let cases = [
            ("home", None, true),
            ("away", None, false),
            ("away", Some(allowed(serde_json::json!({"from": "Same"}))), false),
            ("away", Some(allowed(serde_json::json!({"from": "All"}))), true),
            ("away", Some(allowed(serde_json::json!({"from": "Selector"}))), false),
            (
                "away",
                Some(allowed(serde_json::json!({"from": "Selector", "selector": {"matchLabels": {"team": "blue"}}}))),
                true,
            ),
            (
                "away",
                Some(allowed(serde_json::json!({"from": "Selector", "selector": {"matchLabels": {"team": "red"}}}))),
                false,
            ),
            (
                "away",
                Some(allowed(serde_json::json!({"from": "Selector", "selector": {"matchExpressions": [
                    {"key": "team", "operator": "NotIn", "values": ["blue"]}]}}))),
                false,
            ),
            (
                "away",
                Some(allowed(serde_json::json!({"from": "Selector", "selector": {"matchExpressions": [
                    {"key": "team", "operator": "Whatever"}]}}))),
                false,
            ),
        ];
        for (from, allowed, expected) in cases {
            assert_eq!(may_refer(from, &labels, "home", allowed.as_ref()), expected, "{from} {allowed:?}");
        }
    }
}
