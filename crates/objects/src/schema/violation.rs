//! Validation errors of fields, with the messages of kube-apiserver.

use std::fmt;

use serde_json::Value;

use super::text::{float, json, quoted};

/// How kube-apiserver prints a missing path.
pub const NO_FIELD: &str = "<nil>";

/// The type of a violation; its name is the `reason` of a cause in a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A referenced value does not exist.
    NotFound,
    Required,
    Duplicate,
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The value cannot be set here or now.
    Forbidden,
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The validation itself failed.
    Internal,
    /// The value has the wrong JSON type.
    TypeInvalid,
}

impl Reason {
    /// The `reason` in the `causes` of a `Status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The beginning of the message.
    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// Whether CEL rules are skipped for an object with such a violation: they could not rely on its types.
    pub fn blocks_rules(self) -> bool {
        matches!(self, Self::NotSupported | Self::Required | Self::TooLong | Self::TooMany | Self::TypeInvalid)
    }
}

/// One validation error. `Display` prints `field: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub reason: Reason,
    /// The path of the field, or [`NO_FIELD`].
    pub field: String,
    /// The `message` of a cause in a `Status`.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Violation {
    fn new(reason: Reason, field: &str, value: &str, detail: &str) -> Self {
        let mut message = reason.title().to_owned();
        for part in [value, detail] {
            if !part.is_empty() {
                message.push_str(": ");
                message.push_str(part);
            }
        }
        let field = if field.is_empty() { NO_FIELD } else { field };
        Self { reason, field: field.to_owned(), message }
    }

    /// A missing field; `detail` may be empty.
    pub fn required(field: &str, detail: &str) -> Self {
        Self::new(Reason::Required, field, "", detail)
    }

    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::new(Reason::Invalid, field, &shown(value), detail)
    }

    /// A malformed struct; `shown` is its Go representation, with the fields in the order of its type.
    pub fn invalid_struct(field: &str, shown: &str, detail: &str) -> Self {
        Self::new(Reason::Invalid, field, shown, detail)
    }

    pub fn invalid_text(field: &str, value: &str, detail: &str) -> Self {
        Self::new(Reason::Invalid, field, &quoted(value), detail)
    }

    /// A value of the wrong type; `found` is the type's name.
    pub fn type_invalid(field: &str, found: &str, detail: &str) -> Self {
        Self::new(Reason::TypeInvalid, field, &quoted(found), detail)
    }

    pub fn not_supported<'a>(field: &str, value: &Value, choices: impl IntoIterator<Item = &'a str>) -> Self {
        let choices = choices.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
        let detail = if choices.is_empty() { choices } else { format!("supported values: {choices}") };
        Self::new(Reason::NotSupported, field, &shown(value), &detail)
    }

    /// A string with more than `most` bytes.
    pub fn too_long(field: &str, most: i64) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        Self::new(Reason::TooLong, field, "", &format!("may not be more than {most} {unit}"))
    }

    /// A list with `count` items, more than `most`.
    pub fn too_many(field: &str, count: usize, most: i64) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self::new(Reason::TooMany, field, &count.to_string(), &format!("must have at most {most} {unit}"))
    }

    pub fn duplicate(field: &str, value: &Value) -> Self {
        Self::new(Reason::Duplicate, field, &shown(value), "")
    }

    pub fn not_found(field: &str, value: &str) -> Self {
        Self::new(Reason::NotFound, field, &quoted(value), "")
    }

    /// A field that cannot be set or changed.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self::new(Reason::Forbidden, field, "", detail)
    }
}

/// A value as messages print it: scalars as Go prints them, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => float(number.as_f64().unwrap_or_default()),
        },
        Value::Bool(truth) => truth.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => json(value),
    }
}

/// The path of a field, extended while descending: `spec.containers[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn of(path: &str) -> Self {
        Self(path.to_owned())
    }

    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of a map entry.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as a string; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_violation_reads_as_kube_apiserver_writes_it() {
        let check = |violation: Violation, text: &str| assert_eq!(violation.to_string(), text);
        check(Violation::required("spec.name", ""), "spec.name: Required value");
        check(Violation::required("", "a name"), "<nil>: Required value: a name");
        check(Violation::invalid("a", &json!(null), "why"), "a: Invalid value: null: why");
        check(Violation::invalid("a", &json!(0.5), "why"), "a: Invalid value: 0.5: why");
        check(Violation::invalid("a", &json!({"b": "<", "a": 1}), ""), r#"a: Invalid value: {"a":1,"b":"\u003c"}"#);
        check(
            Violation::not_supported("a", &json!("x"), ["A", "B"]),
            r#"a: Unsupported value: "x": supported values: "A", "B""#,
        );
        check(Violation::too_long("a", 1), "a: Too long: may not be more than 1 byte");
        check(Violation::too_many("a", 11, 10), "a: Too many: 11: must have at most 10 items");
        check(Violation::duplicate("a[1]", &json!({"name": "x"})), r#"a[1]: Duplicate value: {"name":"x"}"#);
        check(Violation::not_found("a", "x"), r#"a: Not found: "x""#);
        check(Violation::forbidden("a", "no"), "a: Forbidden: no");
    }

    #[test]
    fn a_path_grows_by_fields_items_and_keys() {
        let path = Path::root().child("spec").child("ports").index(2).child("labels").key("a.b/c");
        assert_eq!(path.as_str(), "spec.ports[2].labels[a.b/c]");
    }
}
