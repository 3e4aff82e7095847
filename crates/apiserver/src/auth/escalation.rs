//! The rights of a role that its author lacks: a user grants at most their own rights.

use std::collections::{BTreeMap, BTreeSet};

use objects::schema::quoted;

use super::User;
use super::access::Rule;

/// Maximum number of single rights that a role is divided into. A larger rule has to be covered by one rule of its
/// author, or is missing as a whole.
const MAX_RIGHTS: usize = 10_000;

/// The rights in `wanted` that `owned` does not cover; `None` if there are none.
pub(super) fn missing(owned: &[&Rule], wanted: &[Rule]) -> Option<Vec<Rule>> {
    let mut left = MAX_RIGHTS;
    let mut missing = Vec::new();
    for rule in wanted {
        let size = size(rule);
        let parts = if size > left { vec![rule.clone()] } else { single_rights(rule) };
        left = left.saturating_sub(size);
        missing.extend(parts.into_iter().filter(|part| !owned.iter().any(|owner| covers(owner, part))));
    }
    (!missing.is_empty()).then_some(missing)
}

/// The error of a user who lacks rights, as kube-apiserver reports it.
pub(super) fn message(user: &User, missing: Vec<Rule>) -> String {
    let missing: BTreeSet<String> = compacted(missing).iter().map(shown).collect();
    let missing: Vec<String> = missing.into_iter().collect();
    format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(&user.name),
        list(&user.groups),
        missing.join("\n")
    )
}

/// The number of single rights of a rule.
fn size(rule: &Rule) -> usize {
    let objects =
        rule.api_groups.len().saturating_mul(rule.resources.len()).saturating_mul(rule.resource_names.len().max(1));
    objects.saturating_add(rule.paths.len()).saturating_mul(rule.verbs.len())
}

/// The same rights as rules with one verb, and one resource or path, each.
fn single_rights(rule: &Rule) -> Vec<Rule> {
    let one = |text: &String| vec![text.clone()];
    let mut rights = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let right =
                    Rule { verbs: one(verb), api_groups: one(group), resources: one(resource), ..Rule::default() };
                if rule.resource_names.is_empty() {
                    rights.push(right);
                    continue;
                }
                let named = |name| Rule { resource_names: one(name), ..right.clone() };
                rights.extend(rule.resource_names.iter().map(named));
            }
        }
    }
    for path in &rule.paths {
        rights.extend(rule.verbs.iter().map(|verb| Rule { verbs: one(verb), paths: one(path), ..Rule::default() }));
    }
    rights
}

/// Whether one rule allows all that another one allows.
fn covers(owner: &Rule, rule: &Rule) -> bool {
    let all = |owned: &[String], wanted: &[String]| {
        owned.iter().any(|entry| entry == "*") || wanted.iter().all(|entry| owned.contains(entry))
    };
    let resource = |wanted: &String| {
        let with_any_parent = || {
            let (_, subresource) = wanted.split_once('/')?;
            owner.resources.iter().find(|entry| entry.strip_prefix("*/") == Some(subresource))
        };
        owner.resources.iter().any(|entry| entry == "*" || entry == wanted) || with_any_parent().is_some()
    };
    let path = |wanted: &String| {
        owner
            .paths
            .iter()
            .any(|entry| entry == wanted || (entry.ends_with('*') && wanted.starts_with(entry.trim_end_matches('*'))))
    };
    // A rule for some names does not cover one for all names.
    let names = owner.resource_names.is_empty()
        || (!rule.resource_names.is_empty()
            && rule.resource_names.iter().all(|name| owner.resource_names.contains(name)));
    all(&owner.verbs, &rule.verbs)
        && all(&owner.api_groups, &rule.api_groups)
        && rule.resources.iter().all(resource)
        && names
        && rule.paths.iter().all(path)
}

/// Rights to the same objects as one rule.
fn compacted(rights: Vec<Rule>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut places: BTreeMap<[Vec<String>; 3], usize> = BTreeMap::new();
    for right in rights {
        if right.resources.len() != 1 || right.api_groups.len() != 1 || right.resource_names.len() > 1 {
            rules.push(right);
            continue;
        }
        let object = [right.api_groups.clone(), right.resources.clone(), right.resource_names.clone()];
        let place = *places.entry(object).or_insert(rules.len());
        match rules.get_mut(place) {
            Some(rule) => rule.verbs.extend(right.verbs),
            None => rules.push(right),
        }
    }
    rules
}

/// A rule in Go's notation.
fn shown(rule: &Rule) -> String {
    let fields = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.paths),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let set = fields.iter().filter(|(_, values)| !values.is_empty());
    let parts: Vec<String> = set.map(|(name, values)| format!("{name}:{}", list(values))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// A list of texts in Go's notation.
fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use serde_json::{Value, json};

    use super::*;

    fn rules(value: Value) -> Vec<Rule> {
        serde_json::from_value(value).unwrap()
    }

    /// A rule in short: groups, resources, names and verbs, separated by commas; a path begins with a slash.
    fn rule(groups: &str, resources: &str, names: &str, verbs: &str) -> Value {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        if resources.starts_with('/') {
            return json!({"nonResourceURLs": list(resources), "verbs": list(verbs)});
        }
        let mut rule = json!({"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)});
        if !names.is_empty() {
            rule["resourceNames"] = json!(list(names));
        }
        rule
    }

    #[track_caller]
    fn check(owned: &[Value], wanted: &[Value], expected: &[&str]) {
        let owned = rules(json!(owned));
        let owned: Vec<&Rule> = owned.iter().collect();
        let missing = missing(&owned, &rules(json!(wanted))).unwrap_or_default();
        let missing: BTreeSet<String> = compacted(missing).iter().map(shown).collect();
        assert_eq!(missing.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_role_may_contain_what_its_author_has_and_no_more() {
        let pods = rule("", "pods", "", "get,list");
        check(from_ref(&pods), from_ref(&pods), &[]);
        check(from_ref(&pods), &[rule("", "pods", "", "get")], &[]);
        check(&[], &[], &[]);
        check(&[], from_ref(&pods), &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#]);
        check(
            from_ref(&pods),
            &[rule("", "pods,secrets", "", "get,delete")],
            &[
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}"#,
            ],
        );
        // Two rules together.
        let secrets = rule("", "secrets", "", "get");
        check(&[pods.clone(), secrets], &[rule("", "pods,secrets", "", "get")], &[]);
        check(
            &[pods],
            &[rule("apps", "pods", "", "get")],
            &[r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}"#],
        );
    }

    #[test]
    fn a_wildcard_is_covered_by_a_wildcard_only() {
        let everything = rule("*", "*", "", "*");
        check(from_ref(&everything), &[rule("a,b", "c/d,e", "f", "g")], &[]);
        check(from_ref(&everything), from_ref(&everything), &[]);
        check(
            &[rule("", "pods,secrets", "", "get,list,watch,create,update,patch,delete,deletecollection")],
            &[rule("", "pods", "", "*")],
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
        );
        check(&[rule("", "*", "", "get")], &[rule("", "pods/log", "", "get")], &[]);
        check(
            &[rule("", "*", "", "get")],
            &[rule("*", "*", "", "get")],
            &[r#"{APIGroups:["*"], Resources:["*"], Verbs:["get"]}"#],
        );
        check(&[rule("", "*/scale", "", "get")], &[rule("", "x/scale,*/scale", "", "get")], &[]);
        check(
            &[rule("", "*/scale", "", "get")],
            &[rule("", "x", "", "get")],
            &[r#"{APIGroups:[""], Resources:["x"], Verbs:["get"]}"#],
        );
        check(
            &[rule("", "pods", "", "get")],
            &[rule("", "pods/log", "", "get")],
            &[r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#],
        );
        // All objects are not all paths.
        check(&[everything], &[rule("", "/metrics", "", "get")], &[r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#]);
    }

    #[test]
    fn rights_to_names_do_not_cover_rights_to_all() {
        let named = rule("", "pods", "a,b", "get");
        check(from_ref(&named), &[rule("", "pods", "b", "get")], &[]);
        check(&[rule("", "pods", "", "get")], from_ref(&named), &[]);
        check(
            from_ref(&named),
            &[rule("", "pods", "", "get")],
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#],
        );
        check(
            &[named],
            &[rule("", "pods", "b,c", "get,list")],
            &[
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["list"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["c"], Verbs:["get" "list"]}"#,
            ],
        );
    }

    #[test]
    fn paths_are_covered_by_prefix() {
        check(&[rule("", "/a,/b/*", "", "get")], &[rule("", "/a,/b/c,/b/*", "", "get")], &[]);
        check(&[rule("", "/*", "", "*")], &[rule("", "/a", "", "get,post")], &[]);
        check(
            &[rule("", "/a", "", "get")],
            &[rule("", "/a,/a/b", "", "get")],
            &[r#"{NonResourceURLs:["/a/b"], Verbs:["get"]}"#],
        );
        check(
            &[rule("", "/a/*", "", "get")],
            &[rule("", "/*", "", "get")],
            &[r#"{NonResourceURLs:["/*"], Verbs:["get"]}"#],
        );
    }

    #[test]
    fn a_rule_of_billions_of_rights_is_compared_as_a_whole() {
        let many = |prefix: &str| (0..3000).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>().join(",");
        let huge = rule(&many("g"), &many("r"), "", &many("v"));
        check(&[rule("*", "*", "", "*")], from_ref(&huge), &[]);
        let huge = rules(json!([huge]));
        assert_eq!(missing(&[], &huge), Some(huge));
    }

    #[test]
    fn the_message_names_user_groups_and_missing_rights() {
        let user = User::authenticated("alice", vec!["devs".to_owned()]);
        let rules = rules(json!([rule("", "pods", "", "get"), rule("", "/x", "", "get")]));
        let expected = "user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC \
                        permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}\n\
                        {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}";
        assert_eq!(message(&user, rules), expected);
    }
}
