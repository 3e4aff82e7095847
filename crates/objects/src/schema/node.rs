//! One node of a schema, with every reference resolved.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// Ownership of list items (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Owned as a whole.
    #[default]
    Atomic,
    /// Scalars, each with its own owners.
    Set,
    /// Objects identified by the values of these fields (`x-kubernetes-list-map-keys`).
    Map(Vec<String>),
}

/// Ownership of fields (`x-kubernetes-map-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each field has its own owners.
    #[default]
    Granular,
    /// Owned as a whole.
    Atomic,
}

/// Handling of a field by strategic merge patch (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// The list is merged item by item instead of being replaced.
    pub merge: bool,
    /// Fields that the patch does not name are removed (volumes: one source only).
    pub retain_keys: bool,
    /// The field that identifies items; without it a merged list is a set of scalars.
    pub merge_key: Option<String>,
}

/// A CEL rule (`x-kubernetes-validations`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression over `self` and optionally `oldSelf`.
    pub rule: String,
    pub message: Option<String>,
    /// An expression that computes the message.
    pub message_expression: Option<String>,
    /// Defaults to `FieldValueInvalid`.
    pub reason: Option<String>,
    /// The reported field, relative to the node.
    pub field_path: Option<String>,
    /// `oldSelf` is an optional, and the rule also runs on creation.
    pub optional_old_self: bool,
}

/// One node of a structural schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// `None` for int-or-string and for fields of any type.
    pub kind: Option<Type>,
    /// `int32`, `date-time`, `byte` …
    pub format: Option<String>,
    /// Shown by `kubectl explain`.
    pub description: Option<String>,
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The schema of map values (`additionalProperties`).
    pub additional: Option<Arc<Schema>>,
    pub items: Option<Arc<Schema>>,
    pub required: Vec<String>,
    pub default: Option<Value>,
    /// The allowed values (`enum`).
    pub choices: Vec<Value>,
    /// Whether null is a value.
    pub nullable: bool,
    /// An integer or string (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The object has its own `apiVersion`, `kind` and `metadata` (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    pub list_type: ListType,
    pub map_type: MapType,
    pub patch: PatchStrategy,
    pub rules: Vec<Rule>,
    /// `allOf`.
    pub all_of: Vec<Arc<Schema>>,
    /// `anyOf`.
    pub any_of: Vec<Arc<Schema>>,
    /// `oneOf`.
    pub one_of: Vec<Arc<Schema>>,
    /// `not`.
    pub not: Option<Arc<Schema>>,
    /// The Go type of a built-in kind, such as `v1.PodSpec`, for error messages.
    pub type_name: Option<String>,
    /// All other keywords (`minimum`, `pattern`, `title` …) as given.
    pub checks: serde_json::Map<String, Value>,
}
