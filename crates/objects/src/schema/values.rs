//! Validates values against types and bounds, with the messages of kube-openapi.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde_json::{Number, Value};

use super::correlate::Pair;
use super::formats;
use super::node::{Schema, Type};
use super::pattern;
use super::text::{float, json, quoted};
use super::violation::{Path, Violation};

/// Largest integer that a float represents exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// Validates `value`, which replaces the old value of `pair`. `field` is the path of the value in its object; messages
/// name fields relative to the value. Unchanged values are not reported, even if they are invalid (ratcheting).
pub fn validate(schema: &Schema, value: &Value, pair: Option<Pair<'_>>, field: &Path) -> Vec<Violation> {
    Checker { field }
        .check_ratcheting(schema, value, pair, &Place::Root)
        .findings
        .into_iter()
        .map(|(_, found)| found)
        .collect()
}

/// The path of a value below the validated one. Formatted only for messages.
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    /// A map entry: printed with a dot even at the top.
    Entry(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(above, name) | Self::Entry(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// The result of validating a value.
#[derive(Default)]
struct Outcome {
    /// Messages and violations. No message twice.
    findings: Vec<(String, Violation)>,
    messages: HashSet<String>,
    /// The number of passed checks: of several failed alternatives, the one with the most is reported.
    matched: usize,
}

impl Outcome {
    fn add(&mut self, sentence: String, violation: Violation) {
        if self.messages.insert(sentence.clone()) {
            self.findings.push((sentence, violation));
        }
    }

    fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        for (sentence, violation) in other.findings {
            self.add(sentence, violation);
        }
    }

    fn is_good(&self) -> bool {
        self.findings.is_empty()
    }
}

struct Checker<'a> {
    field: &'a Path,
}

impl Checker<'_> {
    /// Validates, tolerating unchanged violations.
    fn check_ratcheting(&self, schema: &Schema, value: &Value, pair: Option<Pair<'_>>, place: &Place<'_>) -> Outcome {
        let mut outcome = self.check(schema, value, pair, place);
        if !outcome.is_good() && pair.is_some_and(|pair| pair.is_unchanged()) {
            outcome.findings.clear();
            outcome.messages.clear();
        }
        outcome
    }

    fn check(&self, schema: &Schema, value: &Value, pair: Option<Pair<'_>>, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let format = schema.format.as_deref().filter(|format| formats::is_known(format));
        if value.is_null() {
            self.kind(schema, format, value, place, &mut outcome);
            self.choices(schema, value, place, &mut outcome);
            return outcome;
        }
        if schema.kind.is_some() || schema.int_or_string || format.is_some() {
            self.kind(schema, format, value, place, &mut outcome);
            outcome.matched += 1;
        }
        self.alternatives(schema, value, pair, place, &mut outcome);
        outcome.matched += 2;
        match value {
            Value::String(text) => {
                self.text(schema, text, place, &mut outcome);
                outcome.matched += 1;
                if let Some(format) = format {
                    if formats::has_format(format, text) == Some(false) {
                        self.wrong_type(place, format, text, &mut outcome);
                    }
                    outcome.matched += 1;
                }
            }
            Value::Number(number) => {
                self.number(schema, number, place, &mut outcome);
                outcome.matched += 2;
            }
            Value::Array(items) => {
                self.list(schema, items, pair, place, &mut outcome);
                outcome.matched += 2;
            }
            _ => {}
        }
        self.choices(schema, value, place, &mut outcome);
        outcome.matched += 1;
        if let Value::Object(fields) = value {
            self.object(schema, fields, value, pair, place, &mut outcome);
            outcome.matched += 1;
        }
        outcome.matched += 1;
        outcome
    }

    /// The path of a place in the whole object.
    fn path(&self, place: &str) -> String {
        match place.trim_start_matches('.') {
            "" => self.field.as_str().to_owned(),
            place => self.field.child(place).as_str().to_owned(),
        }
    }

    fn invalid(&self, place: &Place<'_>, value: &Value, sentence: &str, outcome: &mut Outcome) {
        let place = place.to_string();
        let sentence = format!("{place} in body {sentence}");
        let violation = Violation::invalid(&self.path(&place), value, &sentence);
        outcome.add(sentence, violation);
    }

    fn wrong_type(&self, place: &Place<'_>, wanted: &str, found: &str, outcome: &mut Outcome) {
        let place = place.to_string();
        let sentence = format!("{place} in body must be of type {wanted}: {}", quoted(found));
        let violation = Violation::type_invalid(&self.path(&place), found, &sentence);
        outcome.add(sentence, violation);
    }

    fn kind(&self, schema: &Schema, format: Option<&str>, value: &Value, place: &Place<'_>, outcome: &mut Outcome) {
        let wanted = match (schema.int_or_string, schema.kind) {
            (true, _) => vec!["integer", "string"],
            (false, Some(kind)) => vec![kind.name()],
            (false, None) => Vec::new(),
        };
        if value.is_null() {
            if wanted.is_empty() || schema.nullable {
                outcome.matched += 1;
            } else {
                self.wrong_type(place, &wanted.join(","), "null", outcome);
            }
            return;
        }
        let (found, found_format) = kind_of(value);
        let whole = found == "number" && wanted.contains(&"integer") && value.as_f64().is_some_and(is_whole);
        let widened = found == "integer" && wanted.contains(&"number");
        let fits = wanted.contains(&found) || whole || widened;
        let spelled = value.is_string() || value.is_array();
        match format {
            // Another type where a string of a certain format is expected.
            Some(format) if !spelled && !fits => self.wrong_type(place, format, found_format, outcome),
            // The format has its own check.
            Some(_) if spelled && !wanted.contains(&"number") && !wanted.contains(&"integer") => outcome.matched += 1,
            _ if fits => outcome.matched += 1,
            _ => self.wrong_type(place, &wanted.join(","), found, outcome),
        }
    }

    fn choices(&self, schema: &Schema, value: &Value, place: &Place<'_>, outcome: &mut Outcome) {
        if schema.choices.is_empty() || schema.choices.iter().any(|choice| is_choice(choice, value)) {
            return;
        }
        let place = place.to_string();
        let choices = schema.choices.iter().map(|choice| match choice {
            Value::String(text) => text.clone(),
            other => json(other),
        });
        let choices = choices.collect::<Vec<_>>();
        let violation = Violation::not_supported(&self.path(&place), value, choices.iter().map(String::as_str));
        outcome.add(format!("{place} in body should be one of [{}]", choices.join(" ")), violation);
    }

    fn text(&self, schema: &Schema, text: &str, place: &Place<'_>, outcome: &mut Outcome) {
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = whole(schema, "maxLength").filter(|most| length() > *most) {
            let place = place.to_string();
            let violation = Violation::too_long(&self.path(&place), most);
            outcome.add(format!("{place} in body should be at most {most} chars long"), violation);
        } else if let Some(least) = whole(schema, "minLength").filter(|least| length() < *least) {
            self.invalid(place, &text.into(), &format!("should be at least {least} chars long"), outcome);
        } else if let Some(pattern) =
            schema.checks.get("pattern").and_then(Value::as_str).filter(|text| !text.is_empty())
        {
            match pattern::matches(pattern, text) {
                Some(true) => {}
                Some(false) => self.invalid(place, &text.into(), &format!("should match '{pattern}'"), outcome),
                None => {
                    let sentence = format!("should match '{pattern}, but pattern is invalid'");
                    self.invalid(place, &text.into(), &sentence, outcome);
                }
            }
        }
    }

    fn number(&self, schema: &Schema, number: &Number, place: &Place<'_>, outcome: &mut Outcome) {
        let value = Value::Number(number.clone());
        let bound = |keyword: &str| schema.checks.get(keyword).and_then(Value::as_f64);
        let exclusive = |keyword: &str| schema.checks.get(keyword) == Some(&Value::Bool(true));
        if let Some(factor) = bound("multipleOf") {
            match multiple(number, factor) {
                Multiple::Yes => {}
                Multiple::No(factor) => {
                    self.invalid(place, &value, &format!("should be a multiple of {factor}"), outcome);
                }
                Multiple::NoFactor(factor) => {
                    let sentence =
                        format!("factor MultipleOf declared for {place} must be positive: {}", float(factor));
                    let violation = Violation::invalid(&self.path(&place.to_string()), &value, &sentence);
                    outcome.add(sentence, violation);
                }
            }
        }
        if let Some(least) = bound("minimum") {
            let strict = exclusive("exclusiveMinimum");
            if !at_least(number, least, strict) {
                let words = if strict { "greater than" } else { "greater than or equal to" };
                self.invalid(place, &value, &format!("should be {words} {}", bound_text(number, least)), outcome);
            }
        }
        if let Some(most) = bound("maximum") {
            let strict = exclusive("exclusiveMaximum");
            if !at_most(number, most, strict) {
                let words = if strict { "less than" } else { "less than or equal to" };
                self.invalid(place, &value, &format!("should be {words} {}", bound_text(number, most)), outcome);
            }
        }
    }

    fn list(&self, schema: &Schema, items: &[Value], pair: Option<Pair<'_>>, place: &Place<'_>, outcome: &mut Outcome) {
        if let Some(schema) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                let pair = pair.and_then(|pair| pair.item(index));
                outcome.merge(self.check_ratcheting(schema, item, pair, &Place::Item(place, index)));
            }
        }
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(least) = whole(schema, "minItems").filter(|least| size < *least) {
            self.invalid(place, &size.into(), &format!("should have at least {least} items"), outcome);
        }
        if let Some(most) = whole(schema, "maxItems").filter(|most| size > *most) {
            let place = place.to_string();
            let violation = Violation::too_many(&self.path(&place), items.len(), most);
            outcome.add(format!("{place} in body should have at most {most} items"), violation);
        }
        let unique = schema.checks.get("uniqueItems") == Some(&Value::Bool(true));
        if unique && items.iter().enumerate().any(|(index, item)| items[..index].contains(item)) {
            self.invalid(place, &"".into(), "shouldn't contain duplicates", outcome);
        }
    }

    fn object(
        &self,
        schema: &Schema,
        fields: &serde_json::Map<String, Value>,
        value: &Value,
        pair: Option<Pair<'_>>,
        place: &Place<'_>,
        outcome: &mut Outcome,
    ) {
        let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(least) = whole(schema, "minProperties").filter(|least| size < *least) {
            self.invalid(place, &size.into(), &format!("should have at least {least} properties"), outcome);
        }
        if let Some(most) = whole(schema, "maxProperties").filter(|most| size > *most) {
            let place = place.to_string();
            let violation = Violation::too_many(&self.path(&place), fields.len(), most);
            outcome.add(format!("{place} in body should have at most {most} properties"), violation);
        }
        // The type of the whole object cannot have been violated before.
        let at_top = matches!(place, Place::Root);
        let pair_of = |name: &str| {
            let about_type = at_top && matches!(name, "apiVersion" | "kind");
            pair.filter(|_| !about_type).and_then(|pair| pair.field(name))
        };
        if let Some(additional) = &schema.additional {
            for (name, field) in fields.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
                outcome.merge(self.check_ratcheting(additional, field, pair_of(name), &Place::Entry(place, name)));
            }
        }
        for (name, property) in &schema.properties {
            if let Some(field) = value.get(name) {
                outcome.merge(self.check_ratcheting(property, field, pair_of(name), &Place::Field(place, name)));
            }
        }
        for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
            let place = Place::Entry(place, name).to_string();
            outcome.add(format!("{place} in body is required"), Violation::required(&self.path(&place), ""));
        }
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`.
    fn alternatives(
        &self,
        schema: &Schema,
        value: &Value,
        pair: Option<Pair<'_>>,
        place: &Place<'_>,
        outcome: &mut Outcome,
    ) {
        let check = |schema: &Schema| self.check(schema, value, pair, place);
        let report = |words: &str, outcome: &mut Outcome| {
            let sentence = format!("{} {words}", quoted(&place.to_string()));
            let violation = Violation::invalid_text(self.field.as_str(), "", &sentence);
            outcome.add(sentence, violation);
        };
        if !schema.any_of.is_empty() {
            let (first_good, best) = best_of(schema.any_of.iter().map(|schema| check(schema)), true);
            if first_good.is_none() {
                report("must validate at least one schema (anyOf)", outcome);
            }
            outcome.merge(first_good.map_or(best, |(good, _)| good).unwrap_or_default());
        }
        if !schema.one_of.is_empty() {
            let (first_good, best) = best_of(schema.one_of.iter().map(|schema| check(schema)), false);
            match first_good {
                Some((good, 1)) => outcome.merge(good.unwrap_or_default()),
                Some((_, count)) => {
                    let found = format!("Found {count} valid alternatives");
                    report(&format!("must validate one and only one schema (oneOf). {found}"), outcome);
                }
                None => {
                    report("must validate one and only one schema (oneOf). Found none valid", outcome);
                    outcome.merge(best.unwrap_or_default());
                }
            }
        }
        if !schema.all_of.is_empty() {
            let mut good = 0;
            for schema in &schema.all_of {
                let result = check(schema);
                good += usize::from(result.is_good());
                outcome.merge(result);
            }
            if good < schema.all_of.len() {
                let none = if good == 0 { ". None validated" } else { "" };
                report(&format!("must validate all the schemas (allOf){none}"), outcome);
            }
        }
        if schema.not.as_ref().is_some_and(|schema| check(schema).is_good()) {
            report("must not validate the schema (not)", outcome);
        }
    }
}

/// The number of valid alternatives with the first of them, and the best of the others.
fn best_of(
    outcomes: impl Iterator<Item = Outcome>,
    one_is_enough: bool,
) -> (Option<(Option<Outcome>, usize)>, Option<Outcome>) {
    let (mut first_good, mut good, mut best) = (None, 0, None::<Outcome>);
    for outcome in outcomes {
        if outcome.is_good() {
            good += 1;
            first_good.get_or_insert(outcome);
            if one_is_enough {
                break;
            }
        } else if best.as_ref().is_none_or(|best| outcome.matched > best.matched) {
            best = Some(outcome);
        }
    }
    if good > 0 { (Some((first_good, good)), None) } else { (None, best) }
}

/// An integer bound.
fn whole(schema: &Schema, keyword: &str) -> Option<i64> {
    let bound = schema.checks.get(keyword)?;
    bound.as_i64().or_else(|| bound.as_f64().map(truncated))
}

/// The type of a value, and its format in Go.
fn kind_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => (Type::Boolean.name(), ""),
        Value::String(_) => (Type::String.name(), ""),
        Value::Array(_) => (Type::Array.name(), ""),
        Value::Object(_) => (Type::Object.name(), ""),
        Value::Number(number) if number.is_i64() => (Type::Integer.name(), "int64"),
        Value::Number(_) => (Type::Number.name(), "float64"),
    }
}

/// Whether a float is an integer that JSON represents without loss.
fn is_whole(number: f64) -> bool {
    if number.abs() > MAX_EXACT {
        return false;
    }
    let truncated = number.trunc();
    #[expect(clippy::float_cmp, reason = "the difference to a whole number is exact")]
    let exact = number == truncated;
    // Go divides by the sum of both to tolerate rounding errors.
    exact || (number > 0.0 && truncated > 0.0 && (number - truncated).abs() / (number + truncated) < 1e-9)
}

#[expect(clippy::cast_possible_truncation, reason = "bounds are cut like this in Go, too")]
fn truncated(bound: f64) -> i64 {
    bound as i64
}

fn is_choice(choice: &Value, value: &Value) -> bool {
    match (choice, value) {
        (_, Value::Null) | (Value::Null, _) => false,
        (Value::Number(choice), Value::Number(value)) => match (choice.as_i64(), value.as_i64()) {
            (Some(choice), Some(value)) => choice == value,
            (Some(choice), None) => value.as_f64().map(truncated) == Some(choice),
            (None, _) => choice.as_f64() == value.as_f64(),
        },
        _ => choice == value,
    }
}

enum Multiple {
    Yes,
    No(String),
    NoFactor(f64),
}

fn multiple(number: &Number, factor: f64) -> Multiple {
    let positive = number.as_i64().map_or(factor, |_| factor.trunc());
    if positive <= 0.0 {
        return Multiple::NoFactor(positive);
    }
    let is_multiple = if let Some(whole) = number.as_i64() {
        whole % truncated(factor) == 0
    } else {
        let number = number.as_f64().unwrap_or_default();
        is_whole(if factor < 1.0 { 1.0 / factor * number } else { number / factor })
    };
    if is_multiple { Multiple::Yes } else { Multiple::No(bound_text(number, factor)) }
}

fn at_least(number: &Number, least: f64, strict: bool) -> bool {
    match number.as_i64() {
        Some(whole) => whole > truncated(least) || (!strict && whole == truncated(least)),
        None => number.as_f64().is_some_and(|number| number > least || (!strict && number >= least)),
    }
}

fn at_most(number: &Number, most: f64, strict: bool) -> bool {
    match number.as_i64() {
        Some(whole) => whole < truncated(most) || (!strict && whole == truncated(most)),
        None => number.as_f64().is_some_and(|number| number < most || (!strict && number <= most)),
    }
}

/// A bound as printed beside an integer or a float.
fn bound_text(number: &Number, bound: f64) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = match number.as_i64() {
        Some(_) => write!(text, "{}", truncated(bound)),
        None => write!(text, "{}", float(bound)),
    };
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a reference")]
    #[track_caller]
    fn check(schema: &Value, value: Value, expected: &[&str]) {
        let schema =
            Schema::from_json(&json!({ "type": "object", "properties": { "spec": schema } })).expect("a schema");
        let value = json!({ "spec": value });
        let found = validate(&schema, &value, None, &Path::root());
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{value}");
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        let number = r#"spec: Invalid value: "string": spec in body must be of type integer: "string""#;
        check(&json!({ "type": "integer" }), json!("x"), &[number]);
        check(&json!({ "type": "integer" }), json!(1.0), &[]);
        let half = r#"spec: Invalid value: "number": spec in body must be of type integer: "number""#;
        check(&json!({ "type": "integer" }), json!(0.5), &[half]);
        check(&json!({ "type": "number" }), json!(1), &[]);
        let both = r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#;
        check(&json!({ "x-kubernetes-int-or-string": true }), json!(true), &[both]);
        let null = r#"spec: Invalid value: "null": spec in body must be of type string: "null""#;
        check(&json!({ "type": "string" }), json!(null), &[null]);
        check(&json!({ "type": "string", "nullable": true }), json!(null), &[]);
        let time = r#"spec: Invalid value: "int64": spec in body must be of type date-time: "int64""#;
        check(&json!({ "type": "string", "format": "date-time" }), json!(7), &[time]);
        let time = r#"spec: Invalid value: "x": spec in body must be of type date-time: "x""#;
        check(&json!({ "type": "string", "format": "date-time" }), json!("x"), &[time]);
        check(&json!({ "type": "integer", "format": "int32" }), json!(i64::MAX), &[]);
    }

    #[test]
    fn bounds_are_printed_as_numbers_of_their_type() {
        let schema = json!({ "type": "integer", "minimum": 1, "maximum": 10.0, "multipleOf": 2 });
        check(&schema, json!(0), &["spec: Invalid value: 0: spec in body should be greater than or equal to 1"]);
        check(&schema, json!(12), &["spec: Invalid value: 12: spec in body should be less than or equal to 10"]);
        check(&schema, json!(3), &["spec: Invalid value: 3: spec in body should be a multiple of 2"]);
        let schema = json!({ "type": "number", "exclusiveMinimum": true, "minimum": 0.5 });
        check(&schema, json!(0.5), &["spec: Invalid value: 0.5: spec in body should be greater than 0.5"]);
        let schema = json!({ "type": "number", "maximum": 2_147_483_647 });
        check(
            &schema,
            json!(1e10),
            &["spec: Invalid value: 1e+10: spec in body should be less than or equal to 2.147483647e+09"],
        );
    }

    #[test]
    fn only_the_first_error_of_a_string_is_reported() {
        let schema = json!({ "type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a" });
        check(&schema, json!("bbbb"), &["spec: Too long: may not be more than 3 bytes"]);
        check(&schema, json!("b"), &[r#"spec: Invalid value: "b": spec in body should be at least 2 chars long"#]);
        check(&schema, json!("bb"), &[r#"spec: Invalid value: "bb": spec in body should match '^a'"#]);
        check(&schema, json!("aéé"), &[]);
        let schema = json!({ "type": "string", "enum": ["A", "B"] });
        check(&schema, json!("x"), &[r#"spec: Unsupported value: "x": supported values: "A", "B""#]);
        let both = r#"spec: Invalid value: "integer": spec in body must be of type string: "integer""#;
        check(&schema, json!(1), &[both, r#"spec: Unsupported value: 1: supported values: "A", "B""#]);
    }

    #[test]
    fn lists_and_maps_are_counted_after_their_items() {
        let schema = json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "string" } });
        check(&schema, json!([]), &["spec: Invalid value: 0: spec in body should have at least 1 items"]);
        let item = r#"spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer""#;
        check(&schema, json!(["a", 1, "b"]), &[item, "spec: Too many: 3: must have at most 2 items"]);
        let schema = json!({ "type": "object", "maxProperties": 1, "required": ["b"],
            "additionalProperties": { "type": "string", "maxLength": 1 } });
        check(
            &schema,
            json!({ "a": "xx", "c": "" }),
            &[
                "spec: Too many: 2: must have at most 1 item",
                "spec.a: Too long: may not be more than 1 byte",
                "spec.b: Required value",
            ],
        );
        let schema = json!({ "type": "array", "uniqueItems": true });
        check(&schema, json!([1, 1]), &[r#"spec: Invalid value: "": spec in body shouldn't contain duplicates"#]);
    }

    #[test]
    fn of_several_alternatives_the_best_is_reported() {
        let schema = json!({ "type": "object", "properties": { "a": {}, "b": {} },
            "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
        check(
            &schema,
            json!({}),
            &[
                r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.a: Required value",
            ],
        );
        let two = r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#;
        check(&schema, json!({ "a": 1, "b": 1 }), &[two]);
        let schema =
            json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] });
        check(&schema, json!("x"), &[]);
        let schema = json!({ "type": "string", "not": { "enum": ["x"] }, "allOf": [{ "minLength": 2 }] });
        check(
            &schema,
            json!("x"),
            &[
                r#"spec: Invalid value: "x": spec in body should be at least 2 chars long"#,
                r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated"#,
                r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#,
            ],
        );
    }

    #[test]
    fn violations_are_tolerated_until_the_value_changes() {
        let schema = Schema::from_json(&json!({ "type": "object", "properties": {
            "a": { "type": "string", "maxLength": 1 }, "b": { "type": "string" } } }));
        let schema = schema.expect("a schema");
        let old = json!({ "a": "xx" });
        let check = |new: Value, count: usize| {
            let pair = Pair { new: &new, old: &old, schema: &schema };
            assert_eq!(validate(&schema, &new, Some(pair), &Path::root()).len(), count, "{new}");
        };
        check(json!({ "a": "xx", "b": "y" }), 0);
        check(json!({ "a": "yy" }), 1);
    }

    #[test]
    fn the_status_alone_is_named_from_itself_down() {
        let schema = Schema::from_json(&json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
        let found = validate(&schema.expect("a schema"), &json!({ "n": "x" }), None, &Path::of("status"));
        let text = r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#;
        assert_eq!(found[0].to_string(), text);
    }
}
