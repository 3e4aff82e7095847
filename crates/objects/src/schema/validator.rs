//! Validation of custom objects, except metadata.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::correlate::Pair;
use super::embedded;
use super::lists;
use super::node::Schema;
use super::rules::Rules;
use super::scale::Scale;
use super::values;
use super::violation::{Path, Violation};

/// The message of kube-apiserver for an object that is too invalid for rules.
const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                           errors to complete validation";

/// A schema with its compiled rules. Create one per version of a definition and keep it.
///
/// Rules are compiled on first use: at its start a server has more kinds than are used.
#[derive(Clone, Debug)]
pub struct Validator {
    schema: Arc<Schema>,
    rules: OnceLock<Option<Rules>>,
    scale: Option<Scale>,
}

impl Validator {
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { schema, rules: OnceLock::new(), scale: None }
    }

    /// Also validates the fields of the `scale` subresource.
    #[must_use]
    pub fn with_scale(self, scale: Option<Scale>) -> Self {
        Self { scale, ..self }
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Rules that do not compile, each with the path of its node: such a definition must be rejected.
    pub fn rule_errors(&self) -> Vec<(String, String)> {
        self.rules().map(Rules::errors).unwrap_or_default()
    }

    fn rules(&self) -> Option<&Rules> {
        self.rules.get_or_init(|| Rules::compile(&self.schema)).as_ref()
    }

    /// Validates a new object, which is pruned and defaulted. `found` are the violations of its metadata: they come
    /// first in the result, and prevent rules from running as in kube-apiserver.
    pub fn create(&self, object: &Value, mut found: Vec<Violation>) -> Vec<Violation> {
        found.extend(values::validate(&self.schema, object, None, &Path::root()));
        self.check_scale(object, &mut found);
        found.extend(embedded::validate(&self.schema, object, &Path::root()));
        found.extend(lists::validate(&self.schema, object, &Path::root()));
        self.try_rules(object, None, found)
    }

    /// Validates an object that names another kind: it is neither defaulted nor checked, but rules run. `found` is the
    /// violation of its kind.
    pub fn other_kind(&self, object: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Vec<Violation> {
        found.extend(embedded::validate(&self.schema, object, &Path::root()));
        found.extend(lists::validate(&self.schema, object, &Path::root()));
        self.try_rules(object, old, found)
    }

    /// Validates an object that replaces `old`. Unchanged violations are tolerated (ratcheting).
    pub fn update(&self, object: &Value, old: &Value, mut found: Vec<Violation>) -> Vec<Violation> {
        let pair = Pair { new: object, old, schema: &self.schema };
        found.extend(values::validate(&self.schema, object, Some(pair), &Path::root()));
        self.check_scale(object, &mut found);
        found.extend(embedded::validate(&self.schema, object, &Path::root()));
        if lists::validate(&self.schema, old, &Path::root()).is_empty() {
            found.extend(lists::validate(&self.schema, object, &Path::root()));
        }
        self.try_rules(object, Some(old), found)
    }

    /// Validates an object whose status replaces that of `old`. Messages name fields relative to the status.
    pub fn update_status(&self, object: &Value, old: &Value, mut found: Vec<Violation>) -> Vec<Violation> {
        if let Some(status) = object.get("status") {
            let open = Schema::default();
            let schema = self.schema.properties.get("status").map_or(&open, AsRef::as_ref);
            let pair = Pair { new: object, old, schema: &self.schema }.field("status");
            found.extend(values::validate(schema, status, pair, &Path::of("status")));
        }
        found.extend(self.scale.iter().flat_map(|scale| scale.validate_status(object)));
        let repeated = lists::validate(&self.schema, object, &Path::root());
        if !repeated.is_empty() && lists::validate(&self.schema, old, &Path::root()).is_empty() {
            found.extend(repeated);
        }
        self.try_rules(object, Some(old), found)
    }

    fn check_scale(&self, object: &Value, found: &mut Vec<Violation>) {
        if let Some(scale) = &self.scale {
            found.extend(scale.validate_spec(object));
            found.extend(scale.validate_status(object));
        }
    }

    fn try_rules(&self, object: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Vec<Violation> {
        let Some(rules) = self.rules() else { return found };
        if found.iter().any(|violation| violation.reason.blocks_rules()) {
            found.push(Violation::invalid("", &Value::Null, NOT_CHECKED));
        } else {
            found.extend(rules.validate(object, old));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validator() -> Validator {
        let schema = Schema::from_json(&json!({ "type": "object", "properties": {
            "spec": { "type": "object", "required": ["a"], "properties": {
                "a": { "type": "integer" },
                "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            }, "x-kubernetes-validations": [{ "rule": "self.a > 0", "message": "a must be positive" }] },
            "status": { "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } } },
        } }));
        Validator::new(Arc::new(schema.expect("a schema")))
    }

    fn texts(found: &[Violation]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_are_not_tried_on_an_object_without_its_fields() {
        let found = validator().create(&json!({ "spec": {} }), Vec::new());
        assert_eq!(
            texts(&found),
            ["spec.a: Required value".to_owned(), format!("<nil>: Invalid value: null: {NOT_CHECKED}")]
        );
        let name = vec![Violation::required("metadata.name", "name or generateName is required")];
        assert_eq!(validator().create(&json!({ "spec": { "a": 0 } }), name).len(), 2);
    }

    #[test]
    fn rules_are_tried_beside_lesser_faults() {
        let found = validator().create(&json!({ "spec": { "a": 0, "set": ["x", "x"] } }), Vec::new());
        let expected = [r#"spec.set[1]: Duplicate value: "x""#, r#"spec: Invalid value: "object": a must be positive"#];
        assert_eq!(texts(&found), expected);
    }

    #[test]
    fn an_update_tolerates_existing_violations() {
        let old = json!({ "spec": { "a": 0, "set": ["x", "x"] } });
        assert_eq!(validator().update(&old, &old, Vec::new()), []);
    }

    #[test]
    fn a_status_is_judged_by_itself() {
        let old = json!({ "spec": { "a": 1 }, "status": { "n": 1 } });
        let new = json!({ "spec": { "a": 1 }, "status": { "n": 0 } });
        let found = validator().update_status(&new, &old, Vec::new());
        assert_eq!(texts(&found), ["status.n: Invalid value: 0: n in body should be greater than or equal to 1"]);
    }
}
