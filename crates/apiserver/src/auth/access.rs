//! Role-based access control.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::User;
use crate::refusal::Refusal;
use crate::store::Store;

const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";

/// What somebody wants to do something with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    Resource { group: String, resource: String, subresource: String, namespace: String, name: String },
    Path(String),
}

/// May somebody do this?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) verb: String,
    pub(crate) attributes: Attributes,
}

impl Question {
    /// The refusal that `user` reads.
    pub(crate) fn refusal(&self, user: &User) -> Refusal {
        let who = &user.name;
        let verb = &self.verb;
        match &self.attributes {
            Attributes::Path(path) => {
                let message = format!("forbidden: User {who:?} cannot {verb} path {path:?}");
                Refusal::new(http::StatusCode::FORBIDDEN, "Forbidden", message).with_details(json!({}))
            }
            Attributes::Resource { group, resource, subresource, namespace, name } => {
                let what = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let why = format!("User {who:?} cannot {verb} resource {what:?} in API group {group:?} {scope}");
                Refusal::forbidden(resource, group, name, &why)
            }
        }
    }
}

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(crate) paths: Vec<String>,
}

impl Rule {
    fn allows(&self, question: &Question) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|entry| entry == "*" || entry == word);
        if !has(&self.verbs, &question.verb) {
            return false;
        }
        match &question.attributes {
            Attributes::Path(path) => self.paths.iter().any(|pattern| {
                pattern == path || pattern.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
            }),
            Attributes::Resource { group, resource, subresource, name, .. } => {
                let matches_resource = self.resources.iter().any(|entry| {
                    if entry == "*" {
                        return true;
                    }
                    match entry.split_once('/') {
                        None => subresource.is_empty() && entry == resource,
                        Some((left, right)) => right == subresource && (left == "*" || left == resource),
                    }
                });
                has(&self.api_groups, group)
                    && matches_resource
                    && (self.resource_names.is_empty() || self.resource_names.contains(name))
            }
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Role {
    metadata: Metadata,
    rules: Option<Vec<Rule>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Subject {
    fn is(&self, user: &User, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name || self.name == "*",
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => {
                let home = if self.namespace.is_empty() { namespace } else { &self.namespace };
                User::service_account(&user.name) == Some((home, &self.name))
            }
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    metadata: Metadata,
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

struct Grant {
    subjects: Vec<Subject>,
    rules: Arc<Vec<Rule>>,
}

/// Who may do what, read from the stored roles and bindings.
#[derive(Default)]
pub(crate) struct Access {
    version: [u64; 4],
    cluster: Vec<Grant>,
    namespaces: HashMap<String, Vec<Grant>>,
}

impl Access {
    /// When what this is read from last changed.
    fn version(store: &Store) -> [u64; 4] {
        [CLUSTER_ROLES, ROLES, CLUSTER_BINDINGS, BINDINGS].map(|shelf| store.changed(shelf))
    }

    /// Whether the roles and bindings are still what they were.
    pub(crate) fn is_current(&self, store: &Store) -> bool {
        self.version == Self::version(store)
    }

    pub(crate) fn read(store: &Store) -> Self {
        let version = Self::version(store);
        let rules = |shelf: &str| -> HashMap<(String, String), Arc<Vec<Rule>>> {
            parsed::<Role>(store, shelf)
                .map(|role| {
                    let key = (role.metadata.namespace, role.metadata.name);
                    (key, Arc::new(role.rules.unwrap_or_default()))
                })
                .collect()
        };
        let (everywhere, local) = (rules(CLUSTER_ROLES), rules(ROLES));
        let grant = |binding: Binding| -> Option<(String, Grant)> {
            let namespace = binding.metadata.namespace;
            let source = if binding.role_ref.kind == "Role" {
                local.get(&(namespace.clone(), binding.role_ref.name))
            } else {
                everywhere.get(&(String::new(), binding.role_ref.name))
            };
            let rules = Arc::clone(source?);
            Some((namespace, Grant { subjects: binding.subjects.unwrap_or_default(), rules }))
        };
        let cluster = parsed::<Binding>(store, CLUSTER_BINDINGS).filter_map(&grant).map(|(_, grant)| grant).collect();
        let mut namespaces: HashMap<String, Vec<Grant>> = HashMap::new();
        for (namespace, grant) in parsed::<Binding>(store, BINDINGS).filter_map(&grant) {
            namespaces.entry(namespace).or_default().push(grant);
        }
        Self { version, cluster, namespaces }
    }

    /// Whether a role allows it to `user`.
    pub(crate) fn allows(&self, user: &User, question: &Question) -> bool {
        let namespace = match &question.attributes {
            Attributes::Resource { namespace, .. } => namespace.as_str(),
            Attributes::Path(_) => "",
        };
        self.rules(user, namespace).any(|rule| rule.allows(question))
    }

    /// The rules that hold for `user` in `namespace`.
    pub(crate) fn rules<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a Rule> {
        let local = self.namespaces.get(namespace).filter(|_| !namespace.is_empty());
        self.cluster
            .iter()
            .chain(local.into_iter().flatten())
            .filter(move |grant| grant.subjects.iter().any(|subject| subject.is(user, namespace)))
            .flat_map(|grant| grant.rules.iter())
    }
}

fn parsed<'a, T: for<'de> Deserialize<'de> + 'a>(store: &Store, shelf: &str) -> impl Iterator<Item = T> + use<'a, T> {
    let snapshot = store.list(shelf, "");
    // What cannot be read grants nothing.
    snapshot.items.into_iter().filter_map(|(_, entry)| serde_json::from_slice(&entry.bytes).ok())
}

/// The rules in the form of a SelfSubjectRulesReview.
pub(crate) fn review(rules: &[&Rule]) -> (Vec<Value>, Vec<Value>) {
    let resource = rules.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| {
        let mut entry = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
        if !rule.resource_names.is_empty() {
            entry["resourceNames"] = json!(rule.resource_names);
        }
        entry
    });
    let paths = rules.iter().filter(|rule| !rule.paths.is_empty());
    (resource.collect(), paths.map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths})).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: Value) -> Rule {
        serde_json::from_value(text).unwrap()
    }

    fn ask(verb: &str, resource: &str, subresource: &str, name: &str) -> Question {
        let text = str::to_owned;
        Question {
            verb: text(verb),
            attributes: Attributes::Resource {
                group: text("g"),
                resource: text(resource),
                subresource: text(subresource),
                namespace: text("ns"),
                name: text(name),
            },
        }
    }

    #[test]
    fn a_rule_allows_exactly_what_it_lists() {
        let reader = rule(json!({"verbs": ["get"], "apiGroups": ["g"], "resources": ["tasks", "agents/status"]}));
        assert!(reader.allows(&ask("get", "tasks", "", "a")));
        assert!(!reader.allows(&ask("list", "tasks", "", "a")));
        assert!(!reader.allows(&ask("get", "tasks", "status", "a")));
        assert!(reader.allows(&ask("get", "agents", "status", "a")));
        assert!(!reader.allows(&ask("get", "agents", "", "a")));
        let named = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]}));
        assert!(named.allows(&ask("get", "tasks", "status", "a")));
        assert!(!named.allows(&ask("list", "tasks", "", "")));
        let every_status = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]}));
        assert!(every_status.allows(&ask("patch", "tasks", "status", "a")));
        assert!(!every_status.allows(&ask("patch", "tasks", "", "a")));
    }

    #[test]
    fn a_refusal_says_who_may_not_do_what_where() {
        let user = User::authenticated("alice", Vec::new());
        let refusal = ask("get", "tasks", "log", "a").refusal(&user);
        assert_eq!(
            refusal.message(),
            r#"tasks.g "a" is forbidden: User "alice" cannot get resource "tasks/log" in API group "g" in the namespace "ns""#
        );
    }

    #[test]
    fn paths_match_by_prefix_where_a_star_says_so() {
        let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/openapi/*"]}));
        let ask = |path: &str| Question { verb: "get".to_owned(), attributes: Attributes::Path(path.to_owned()) };
        assert!(rule.allows(&ask("/healthz")));
        assert!(!rule.allows(&ask("/healthz/x")));
        assert!(rule.allows(&ask("/openapi/v3")));
    }
}
