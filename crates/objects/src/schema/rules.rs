//! CEL rules (`x-kubernetes-validations`): compiled once per schema, evaluated for every object.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::cel_value;
use super::correlate::{Pair, aligned, same_item};
use super::expression::{Expression, ExpressionError, optional};
use super::node::{Rule, Schema};
use super::violation::{Path, Violation};

/// Maximum length of a computed message, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// The rules of a schema, in the structure of the schema. Parts without rules are omitted.
#[derive(Clone, Debug)]
pub struct Rules {
    schema: Arc<Schema>,
    /// Whether the value is a whole object with metadata.
    root: bool,
    compiled: Vec<Compiled>,
    properties: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
    all_of: Vec<Rules>,
}

#[derive(Clone, Debug)]
struct Compiled {
    rule: Rule,
    expression: Result<Arc<Expression>, ExpressionError>,
    message: Option<Arc<Expression>>,
    /// The reported field, relative to the node.
    field: String,
}

impl Rules {
    /// Compiles the rules of a custom kind; `None` if it has none.
    pub fn compile(schema: &Arc<Schema>) -> Option<Self> {
        Self::node(schema, schema, true)
    }

    /// `rules` contains the rules, `schema` describes the values: they differ inside of `allOf`.
    fn node(rules: &Schema, schema: &Arc<Schema>, root: bool) -> Option<Self> {
        let below = |rules: &Schema, schema: &Arc<Schema>| Self::node(rules, schema, schema.embedded_resource);
        let pair = |rules: &Option<Arc<Schema>>, schema: &Option<Arc<Schema>>| {
            below(rules.as_deref()?, schema.as_ref()?).map(Box::new)
        };
        let properties = rules.properties.iter().filter_map(|(name, rules)| {
            let schema = schema.properties.get(name)?;
            below(rules, schema).map(|node| (name.clone(), node))
        });
        let node = Self {
            schema: Arc::clone(schema),
            root,
            compiled: rules
                .rules
                .iter()
                .filter(|rule| !rule.rule.is_empty())
                .map(|rule| compile(rule, schema))
                .collect(),
            properties: properties.collect(),
            additional: pair(&rules.additional, &schema.additional),
            items: pair(&rules.items, &schema.items),
            all_of: rules.all_of.iter().filter_map(|rules| Self::node(rules, schema, root)).collect(),
        };
        let empty = node.compiled.is_empty()
            && node.properties.is_empty()
            && node.additional.is_none()
            && node.items.is_none()
            && node.all_of.is_empty();
        (!empty).then_some(node)
    }

    /// The compilation errors, each with the path of its node.
    pub fn errors(&self) -> Vec<(String, String)> {
        let mut errors = Vec::new();
        self.collect_errors(&Path::root(), &mut errors);
        errors
    }

    fn collect_errors(&self, path: &Path, errors: &mut Vec<(String, String)>) {
        for rule in &self.compiled {
            if let Err(error) = &rule.expression {
                errors.push((path.as_str().to_owned(), format!("{error}: {}", rule.rule.rule)));
            }
        }
        self.properties.iter().for_each(|(name, node)| node.collect_errors(&path.child(name), errors));
        let others = self.additional.iter().chain(&self.items).map(AsRef::as_ref).chain(&self.all_of);
        others.for_each(|node| node.collect_errors(path, errors));
    }

    /// Evaluates the rules for an object and the one that it replaces.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Violation> {
        let current = old.map(|old| Pair { new, old, schema: &self.schema });
        let mut found = Vec::new();
        self.walk(new, old, Ratchet { current, nearest: None }, &Path::root(), &mut found);
        found
    }

    fn walk(&self, new: &Value, old: Option<&Value>, ratchet: Ratchet<'_>, path: &Path, found: &mut Vec<Violation>) {
        if new.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        for rule in &self.compiled {
            self.evaluate(rule, new, old, ratchet, path, found);
        }
        for node in &self.all_of {
            node.walk(new, old, Ratchet { current: None, nearest: ratchet.nearest }, path, found);
        }
        match new {
            Value::Array(items) => {
                let Some(node) = &self.items else { return };
                let old = old.and_then(Value::as_array);
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| same_item(&self.schema, old, item));
                    node.walk(item, old, ratchet.item(index), &path.index(index), found);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let old = || old.and_then(|old| old.get(name));
                    if let Some(node) = &self.additional {
                        node.walk(field, old(), ratchet.field(name), &path.key(name), found);
                    }
                    if let Some(node) = self.properties.get(name) {
                        node.walk(field, old(), ratchet.field(name), &path.child(name), found);
                    }
                }
            }
            _ => {}
        }
    }

    fn evaluate(
        &self,
        compiled: &Compiled,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &Path,
        found: &mut Vec<Violation>,
    ) {
        let rule = &compiled.rule;
        let kind = self.schema.kind.map_or("", super::node::Type::name);
        let mut violation = |detail: &str| found.push(Violation::invalid_text(path.as_str(), kind, detail));
        let expression = match &compiled.expression {
            Ok(expression) => expression,
            Err(error) => return violation(&format!("rule compile error: {error}")),
        };
        let compares = expression.of_old_self.is_some();
        // A transition rule runs only if there is an old value, unless optionalOldSelf is set.
        if compares && old.is_none() && !rule.optional_old_self {
            return;
        }
        match expression.evaluate(&self.variables(expression, rule, new, old)) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                if !compares && ratchet.is_unchanged() {
                    return;
                }
                let message = compiled
                    .message
                    .as_ref()
                    .and_then(|message| usable(&message.evaluate(&self.variables(message, rule, new, old)).ok()?));
                let message = message.unwrap_or_else(|| message_of(rule));
                let field = if compiled.field.is_empty() { path.clone() } else { path.child(&compiled.field) };
                found.push(for_reason(field.as_str(), kind, &message, rule.reason.as_deref()));
            }
            Err(error @ ExpressionError::NoSuchOverload) => violation(&format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                name_of(rule)
            )),
            Err(error) => violation(&format!("{error} evaluating rule: {}", name_of(rule))),
        }
    }

    fn variables(
        &self,
        expression: &Expression,
        rule: &Rule,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<(&'static str, Cel)> {
        let value = |value: &Value, used| cel_value::of(&self.schema, value, self.root, used);
        let mut variables = vec![("self", value(new, &expression.of_self))];
        if let Some(used) = &expression.of_old_self {
            let old = old.map(|old| value(&aligned(&self.schema, new, old), used));
            match (rule.optional_old_self, old) {
                (true, old) => variables.push(("oldSelf", optional(old))),
                (false, Some(old)) => variables.push(("oldSelf", old)),
                (false, None) => {}
            }
        }
        variables
    }
}

/// The old value of a value, for validation ratcheting.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    /// The closest correlated parent, if the value itself has no old value.
    nearest: Option<Pair<'a>>,
}

impl Ratchet<'_> {
    fn is_unchanged(&self) -> bool {
        self.current.or(self.nearest).is_some_and(|pair| pair.is_unchanged())
    }

    fn field(self, name: &str) -> Self {
        match self.current {
            None => self,
            Some(_) if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") => {
                Self { current: None, nearest: None }
            }
            Some(pair) => Self { current: pair.field(name), nearest: Some(pair) },
        }
    }

    fn item(self, index: usize) -> Self {
        self.current.map_or(self, |pair| Self { current: pair.item(index), nearest: Some(pair) })
    }
}

fn compile(rule: &Rule, schema: &Schema) -> Compiled {
    Compiled {
        rule: rule.clone(),
        expression: Expression::shared(rule.rule.trim()),
        // A message expression that does not compile is replaced by the plain message.
        message: rule.message_expression.as_deref().and_then(|text| Expression::shared(text.trim()).ok()),
        field: rule.field_path.as_deref().and_then(|path| relative_path(path, schema)).unwrap_or_default(),
    }
}

/// `.a.b` and `['a']` as a path; `None` if the schema has no such field.
fn relative_path(text: &str, schema: &Schema) -> Option<String> {
    let mut schema = schema;
    let mut path = Path::root();
    let mut rest = text;
    while !rest.is_empty() {
        let name = if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']")?;
            rest = &quoted[end + 2..];
            quoted[..end].replace("\\'", "'").replace("\\\\", "\\")
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            rest = &plain[end..];
            plain[..end].to_owned()
        };
        path = if schema.properties.is_empty() { path.key(&name) } else { path.child(&name) };
        schema = schema.field(&name)?;
    }
    Some(path.as_str().to_owned())
}

/// A computed message, if it is printable.
fn usable(message: &Cel) -> Option<String> {
    let Cel::String(text) = message else { return None };
    let text = text.trim();
    let good = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    good.then(|| text.to_owned())
}

fn message_of(rule: &Rule) -> String {
    match &rule.message {
        Some(message) => message.trim().to_owned(),
        None => format!("failed rule: {}", rule.rule.trim()),
    }
}

fn name_of(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
}

fn for_reason(field: &str, kind: &str, message: &str, reason: Option<&str>) -> Violation {
    match reason {
        Some("FieldValueForbidden") => Violation::forbidden(field, message),
        Some("FieldValueRequired") => Violation::required(field, message),
        Some("FieldValueDuplicate") => Violation::duplicate(field, &kind.into()),
        _ => Violation::invalid_text(field, kind, message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a reference")]
    #[track_caller]
    fn check(schema: &Value, old: Option<Value>, new: Value, expected: &[&str]) {
        let schema = Arc::new(Schema::from_json(schema).expect("a schema"));
        let rules = Rules::compile(&schema).expect("rules");
        assert_eq!(rules.errors(), []);
        let found = rules.validate(&new, old.as_ref());
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{new}");
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a reference")]
    fn spec(rule: Value) -> Value {
        json!({ "type": "object", "properties": { "spec": { "type": "object", "x-kubernetes-validations": [rule],
            "properties": { "a": { "type": "integer" }, "b": { "type": "string" } } } } })
    }

    #[test]
    fn a_rule_that_is_broken_gives_its_message() {
        let schema = spec(json!({ "rule": "self.a > 1", "message": "a must be large" }));
        check(&schema, None, json!({ "spec": { "a": 2 } }), &[]);
        check(&schema, None, json!({ "spec": { "a": 1 } }), &[r#"spec: Invalid value: "object": a must be large"#]);
        check(
            &schema,
            None,
            json!({ "spec": {} }),
            &[r#"spec: Invalid value: "object": no such key: a evaluating rule: a must be large"#],
        );
        let schema = spec(json!({ "rule": "self.a > 1" }));
        check(
            &schema,
            None,
            json!({ "spec": { "a": 1 } }),
            &[r#"spec: Invalid value: "object": failed rule: self.a > 1"#],
        );
    }

    #[test]
    fn reason_field_and_message_can_be_made() {
        let schema = spec(json!({ "rule": "self.a > 1", "messageExpression": "'a is ' + string(self.a)",
            "reason": "FieldValueForbidden", "fieldPath": ".a" }));
        check(&schema, None, json!({ "spec": { "a": 1 } }), &["spec.a: Forbidden: a is 1"]);
        let schema =
            spec(json!({ "rule": "has(self.b)", "message": "b!", "reason": "FieldValueRequired", "fieldPath": ".b" }));
        check(&schema, None, json!({ "spec": { "a": 1 } }), &["spec.b: Required value: b!"]);
        let schema = spec(json!({ "rule": "self.a > 1", "message": "plain", "messageExpression": "self.b" }));
        check(&schema, None, json!({ "spec": { "a": 1 } }), &[r#"spec: Invalid value: "object": plain"#]);
    }

    #[test]
    fn a_rule_about_changes_needs_something_before() {
        let schema = spec(json!({ "rule": "self.a == oldSelf.a", "message": "a is fixed" }));
        let complaint = r#"spec: Invalid value: "object": a is fixed"#;
        check(&schema, None, json!({ "spec": { "a": 2 } }), &[]);
        check(&schema, Some(json!({})), json!({ "spec": { "a": 2 } }), &[]);
        check(&schema, Some(json!({ "spec": { "a": 1 } })), json!({ "spec": { "a": 2 } }), &[complaint]);
        let schema =
            spec(json!({ "rule": "!oldSelf.hasValue() || self.a == oldSelf.value().a", "message": "a is fixed",
            "optionalOldSelf": true }));
        check(&schema, None, json!({ "spec": { "a": 2 } }), &[]);
        check(&schema, Some(json!({ "spec": { "a": 1 } })), json!({ "spec": { "a": 2 } }), &[complaint]);
        let schema = spec(json!({ "rule": "oldSelf.hasValue()", "message": "never new", "optionalOldSelf": true }));
        check(&schema, None, json!({ "spec": {} }), &[r#"spec: Invalid value: "object": never new"#]);
    }

    #[test]
    fn the_order_of_a_set_is_no_change() {
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } } },
                "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "fixed" }] } } });
        let old = json!({ "spec": { "set": ["a", "b"] } });
        check(&schema, Some(old.clone()), json!({ "spec": { "set": ["b", "a"] } }), &[]);
        check(
            &schema,
            Some(old),
            json!({ "spec": { "set": ["b", "c"] } }),
            &[r#"spec: Invalid value: "object": fixed"#],
        );
    }

    #[test]
    fn items_and_entries_meet_their_former_selves() {
        let item = json!({ "type": "object", "properties": { "k": { "type": "string" }, "v": { "type": "integer" } },
            "x-kubernetes-validations": [{ "rule": "self.v >= oldSelf.v", "message": "v only grows" }] });
        let schema = json!({ "type": "object", "properties": {
            "list": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item },
            "map": { "type": "object", "additionalProperties": item },
        } });
        let old = json!({ "list": [{ "k": "a", "v": 5 }, { "k": "b", "v": 1 }], "map": { "x": { "v": 5 } } });
        check(&schema, Some(old.clone()), json!({ "list": [{ "k": "b", "v": 2 }, { "k": "c", "v": 0 }] }), &[]);
        check(
            &schema,
            Some(old.clone()),
            json!({ "list": [{ "k": "c", "v": 0 }, { "k": "a", "v": 4 }] }),
            &[r#"list[1]: Invalid value: "object": v only grows"#],
        );
        check(
            &schema,
            Some(old),
            json!({ "map": { "x": { "v": 1 }, "y": { "v": 1 } } }),
            &[r#"map[x]: Invalid value: "object": v only grows"#],
        );
    }

    #[test]
    fn a_rule_that_was_broken_before_is_forgiven_until_its_value_changes() {
        let schema = spec(json!({ "rule": "self.a > 1", "message": "a must be large" }));
        let old = json!({ "spec": { "a": 1 } });
        check(&schema, Some(old.clone()), json!({ "spec": { "a": 1 }, "other": 1 }), &[]);
        check(
            &schema,
            Some(old),
            json!({ "spec": { "a": 1, "b": "x" } }),
            &[r#"spec: Invalid value: "object": a must be large"#],
        );
    }

    #[test]
    fn of_the_whole_object_a_rule_sees_the_name() {
        let schema = json!({ "type": "object", "x-kubernetes-validations": [
            { "rule": "self.metadata.name.size() <= 3 && !has(self.metadata.labels)", "message": "too long" }] });
        check(&schema, None, json!({ "metadata": { "name": "abc", "labels": {} } }), &[]);
        check(
            &schema,
            None,
            json!({ "metadata": { "name": "abcd" } }),
            &[r#"<nil>: Invalid value: "object": too long"#],
        );
    }

    #[test]
    fn a_rule_that_does_not_compile_is_reported() {
        let schema = Arc::new(Schema::from_json(&spec(json!({ "rule": "self." }))).expect("a schema"));
        let errors = Rules::compile(&schema).expect("rules").errors();
        assert_eq!((errors.len(), errors[0].0.as_str()), (1, "spec"));
    }
}
