//! All that is checked of an object of a custom kind besides its metadata.

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

/// What kube-apiserver says when an object is too broken for rules.
const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                           errors to complete validation";

/// A schema with its rules, ready to judge objects. Make one for each version of a definition and keep it.
///
/// Rules are read when they are first needed: a server that starts has more kinds than are used at once.
#[derive(Clone, Debug)]
pub struct Validator {
    schema: Arc<Schema>,
    rules: OnceLock<Option<Rules>>,
    scale: Option<Scale>,
}

impl Validator {
    /// Judges by `schema`.
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { schema, rules: OnceLock::new(), scale: None }
    }

    /// Also checks the fields that a definition names as its number of copies.
    #[must_use]
    pub fn with_scale(self, scale: Option<Scale>) -> Self {
        Self { scale, ..self }
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Rules that cannot be tried, each with the path of its node: a definition with such rules should be refused.
    pub fn rule_errors(&self) -> Vec<(String, String)> {
        self.rules().map(Rules::errors).unwrap_or_default()
    }

    fn rules(&self) -> Option<&Rules> {
        self.rules.get_or_init(|| Rules::compile(&self.schema)).as_ref()
    }

    /// Judges a new object, which was pruned and has its defaults. `found` is what is wrong with its metadata: it comes
    /// first in the result, and keeps rules from being tried where kube-apiserver would not try them.
    pub fn create(&self, object: &Value, mut found: Vec<Violation>) -> Vec<Violation> {
        found.extend(values::validate(&self.schema, object, None, &Path::root()));
        self.check_scale(object, &mut found);
        found.extend(embedded::validate(&self.schema, object, &Path::root()));
        found.extend(lists::validate(&self.schema, object, &Path::root()));
        self.try_rules(object, None, found)
    }

    /// Judges an object that says it is of another kind: it has neither defaults nor values that were checked, and yet
    /// rules are tried on it. `found` is what is wrong with its kind.
    pub fn other_kind(&self, object: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Vec<Violation> {
        found.extend(embedded::validate(&self.schema, object, &Path::root()));
        found.extend(lists::validate(&self.schema, object, &Path::root()));
        self.try_rules(object, old, found)
    }

    /// Judges an object that replaces `old`. What was wrong before and did not change is forgiven.
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

    /// Judges an object whose status replaces that of `old`. Messages name the fields of the status from there on.
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
    fn an_update_forgives_what_was_there() {
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
