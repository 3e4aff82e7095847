//! Roles and bindings: a user cannot grant rights that they lack.

use serde_json::{Value, json};

use super::{Request, metadata};
use crate::auth::{AccessCheck, Attributes, MASTERS, RBAC_GROUP, RoleRef, Rule};
use crate::status_error::StatusError;

impl Request {
    /// Rejects a role or binding that grants rights which the user lacks, unless the user may `escalate` or `bind` it.
    pub(super) fn check_escalation(&self, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
        if self.resource.custom.is_some() || self.resource.group != RBAC_GROUP || self.user.is_in(MASTERS) {
            return Ok(());
        }
        if old.is_some_and(|old| without_collector_fields(object) == without_collector_fields(old)) {
            return Ok(());
        }
        match &*self.resource.plural {
            "roles" | "clusterroles" => self.check_role(object, old),
            "rolebindings" | "clusterrolebindings" => self.check_binding(object),
            _ => Ok(()),
        }
    }

    fn check_role(&self, role: &Value, old: Option<&Value>) -> Result<(), StatusError> {
        if self.is_allowed("escalate", &self.resource.plural, &self.name) {
            return Ok(());
        }
        let rules: Vec<Rule> = match &role["rules"] {
            Value::Null => Vec::new(),
            rules => serde_json::from_value(rules.clone()).map_err(StatusError::internal)?,
        };
        self.check_rules_of(role, &rules)?;
        // An aggregated role can collect any rule.
        let aggregates = |role: &Value| {
            role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
        };
        if aggregates(role) || old.is_some_and(aggregates) {
            let any = || vec!["*".to_owned()];
            let everything = [
                Rule { verbs: any(), api_groups: any(), resources: any(), ..Rule::default() },
                Rule { verbs: any(), paths: any(), ..Rule::default() },
            ];
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.check_rules_of(role, &everything).map_err(|_| self.forbidden(role, why))?;
        }
        Ok(())
    }

    fn check_binding(&self, binding: &Value) -> Result<(), StatusError> {
        let reference: RoleRef = serde_json::from_value(binding["roleRef"].clone()).unwrap_or_default();
        let plural = match &*reference.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            // Validation rejects other kinds.
            _ => return Ok(()),
        };
        if reference.api_group == RBAC_GROUP && self.is_allowed("bind", plural, &reference.name) {
            return Ok(());
        }
        let access = self.api.access();
        let rules = access
            .role(&reference, &self.namespace)
            .ok_or_else(|| StatusError::not_found(plural, RBAC_GROUP, &reference.name))?;
        self.check_rules_of(binding, rules)
    }

    fn check_rules_of(&self, object: &Value, rules: &[Rule]) -> Result<(), StatusError> {
        let granted = self.api.access().may_grant(&self.user, &self.namespace, rules);
        granted.map_err(|why| self.forbidden(object, &why))
    }

    fn forbidden(&self, object: &Value, why: &str) -> StatusError {
        StatusError::forbidden(&self.resource.plural, &self.resource.group, metadata::text(object, "name"), why)
    }

    /// Whether the user is allowed a verb on a role of the namespace of this request.
    fn is_allowed(&self, verb: &str, resource: &str, name: &str) -> bool {
        let attributes = Attributes::Resource {
            group: RBAC_GROUP.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        };
        self.api.allows(&self.user, &AccessCheck { verb: verb.to_owned(), attributes })
    }
}

/// An object without the fields that a garbage collector changes, and those that every write changes.
fn without_collector_fields(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
        object["metadata"][field] = json!(null);
    }
    object
}
