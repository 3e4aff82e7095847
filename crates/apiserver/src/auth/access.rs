//! Role-based access control.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{User, escalation};
use crate::status_error::StatusError;
use crate::store::Store;

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";

/// The object of an access check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    Resource { group: String, resource: String, subresource: String, namespace: String, name: String },
    Path(String),
}

/// An access check: may a user do this?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessCheck {
    pub(crate) verb: String,
    pub(crate) attributes: Attributes,
}

impl AccessCheck {
    /// The Forbidden error for `user`.
    pub(crate) fn forbidden(&self, user: &User) -> StatusError {
        let who = &user.name;
        let verb = &self.verb;
        match &self.attributes {
            Attributes::Path(path) => {
                let message = format!("forbidden: User {who:?} cannot {verb} path {path:?}");
                StatusError::new(http::StatusCode::FORBIDDEN, "Forbidden", message).with_details(json!({}))
            }
            Attributes::Resource { group, resource, subresource, namespace, name } => {
                let what = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let why = format!("User {who:?} cannot {verb} resource {what:?} in API group {group:?} {scope}");
                StatusError::forbidden(resource, group, name, &why)
            }
        }
    }
}

/// A rule of a Role or ClusterRole.
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
    fn allows(&self, check: &AccessCheck) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|entry| entry == "*" || entry == word);
        if !has(&self.verbs, &check.verb) {
            return false;
        }
        match &check.attributes {
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
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RoleRef {
    pub(crate) api_group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
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

/// The stored roles and bindings, indexed for access checks.
#[derive(Default)]
pub(crate) struct Access {
    version: [u64; 4],
    cluster: Vec<Grant>,
    namespaces: HashMap<String, Vec<Grant>>,
    /// The rules of Roles by namespace and name, and of ClusterRoles by name.
    roles: HashMap<(String, String), Arc<Vec<Rule>>>,
}

impl Access {
    /// The revisions of the kinds that this is read from.
    fn version(store: &Store) -> [u64; 4] {
        [CLUSTER_ROLES, ROLES, CLUSTER_BINDINGS, BINDINGS].map(|storage_key| store.changed(storage_key))
    }

    /// Whether roles and bindings are unchanged.
    pub(crate) fn is_current(&self, store: &Store) -> bool {
        self.version == Self::version(store)
    }

    pub(crate) fn read(store: &Store) -> Self {
        let version = Self::version(store);
        let read = |storage_key: &str| -> HashMap<(String, String), Arc<Vec<Rule>>> {
            parsed::<Role>(store, storage_key)
                .map(|role| {
                    let key = (role.metadata.namespace, role.metadata.name);
                    (key, Arc::new(role.rules.unwrap_or_default()))
                })
                .collect()
        };
        let mut roles = read(ROLES);
        roles.extend(read(CLUSTER_ROLES));
        let grant = |binding: Binding| -> Option<(String, Grant)> {
            let namespace = binding.metadata.namespace;
            let granted = Arc::clone(roles.get(&role_key(&binding.role_ref, &namespace))?);
            Some((namespace, Grant { subjects: binding.subjects.unwrap_or_default(), rules: granted }))
        };
        let cluster = parsed::<Binding>(store, CLUSTER_BINDINGS).filter_map(&grant).map(|(_, grant)| grant).collect();
        let mut namespaces: HashMap<String, Vec<Grant>> = HashMap::new();
        for (namespace, grant) in parsed::<Binding>(store, BINDINGS).filter_map(&grant) {
            namespaces.entry(namespace).or_default().push(grant);
        }
        Self { version, cluster, namespaces, roles }
    }

    /// The rules of the role that a binding in `namespace` refers to.
    pub(crate) fn role(&self, reference: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        self.roles.get(&role_key(reference, namespace)).map(|rules| rules.as_slice())
    }

    /// Returns an error message if `user` lacks some of `rules` in `namespace`.
    pub(crate) fn may_grant(&self, user: &User, namespace: &str, rules: &[Rule]) -> Result<(), String> {
        let owned: Vec<&Rule> = self.rules(user, namespace).collect();
        escalation::missing(&owned, rules).map_or(Ok(()), |missing| Err(escalation::message(user, missing)))
    }

    pub(crate) fn allows(&self, user: &User, check: &AccessCheck) -> bool {
        let namespace = match &check.attributes {
            Attributes::Resource { namespace, .. } => namespace.as_str(),
            Attributes::Path(_) => "",
        };
        self.rules(user, namespace).any(|rule| rule.allows(check))
    }

    /// The rules that apply to `user` in `namespace`.
    pub(crate) fn rules<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a Rule> {
        let local = self.namespaces.get(namespace).filter(|_| !namespace.is_empty());
        self.cluster
            .iter()
            .chain(local.into_iter().flatten())
            .filter(move |grant| grant.subjects.iter().any(|subject| subject.is(user, namespace)))
            .flat_map(|grant| grant.rules.iter())
    }
}

/// Only Roles have a namespace.
fn role_key(reference: &RoleRef, namespace: &str) -> (String, String) {
    let namespace = if reference.kind == "Role" { namespace } else { "" };
    (namespace.to_owned(), reference.name.clone())
}

fn parsed<'a, T: for<'de> Deserialize<'de> + 'a>(
    store: &Store,
    storage_key: &str,
) -> impl Iterator<Item = T> + use<'a, T> {
    let snapshot = store.list(storage_key, "");
    // An object that cannot be parsed grants nothing.
    snapshot.items.into_iter().filter_map(|(_, entry)| serde_json::from_slice(&entry.bytes).ok())
}

/// The rules in the format of a SelfSubjectRulesReview.
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

    fn ask(verb: &str, resource: &str, subresource: &str, name: &str) -> AccessCheck {
        let text = str::to_owned;
        AccessCheck {
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
    fn a_forbidden_error_names_user_verb_and_resource() {
        let user = User::authenticated("alice", Vec::new());
        let error = ask("get", "tasks", "log", "a").forbidden(&user);
        assert_eq!(
            error.message(),
            r#"tasks.g "a" is forbidden: User "alice" cannot get resource "tasks/log" in API group "g" in the namespace "ns""#
        );
    }

    #[test]
    fn paths_match_by_prefix_where_a_star_says_so() {
        let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/openapi/*"]}));
        let ask = |path: &str| AccessCheck { verb: "get".to_owned(), attributes: Attributes::Path(path.to_owned()) };
        assert!(rule.allows(&ask("/healthz")));
        assert!(!rule.allows(&ask("/healthz/x")));
        assert!(rule.allows(&ask("/openapi/v3")));
    }
}
