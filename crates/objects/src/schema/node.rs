//! One node of a schema, with every reference already resolved.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A map of named fields.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

/// How server-side apply sees the items of a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// One value, owned as a whole.
    #[default]
    Atomic,
    /// Scalars, each owned by itself.
    Set,
    /// Objects told apart by the values of these fields (`x-kubernetes-list-map-keys`).
    Map(Vec<String>),
}

/// How server-side apply sees the fields of an object (`x-kubernetes-map-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each field has its own owners.
    #[default]
    Granular,
    /// One value, owned as a whole.
    Atomic,
}

/// How a strategic merge patch treats a field (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// The list is merged item by item instead of being replaced.
    pub merge: bool,
    /// Keys of the object that the patch does not name are removed (volumes: one source only).
    pub retain_keys: bool,
    /// The field that tells items apart; without it a merged list is a set of scalars.
    pub merge_key: Option<String>,
}

/// A CEL rule (`x-kubernetes-validations`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression, over `self` and perhaps `oldSelf`.
    pub rule: String,
    /// What to tell the user.
    pub message: Option<String>,
    /// An expression that makes the message.
    pub message_expression: Option<String>,
    /// `FieldValueInvalid` unless set.
    pub reason: Option<String>,
    /// The field to blame, relative to the node.
    pub field_path: Option<String>,
    /// `oldSelf` is an optional and the rule also runs on creation.
    pub optional_old_self: bool,
}

/// One node of a structural schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// The type; absent for int-or-string and for fields that take anything.
    pub kind: Option<Type>,
    /// `int32`, `date-time`, `byte` …
    pub format: Option<String>,
    /// What `kubectl explain` shows.
    pub description: Option<String>,
    /// Named fields.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The schema of fields that are not named (`additionalProperties`).
    pub additional: Option<Arc<Schema>>,
    /// The schema of the items of a list.
    pub items: Option<Arc<Schema>>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The value of a field that was left out.
    pub default: Option<Value>,
    /// The allowed values.
    pub choices: Vec<Value>,
    /// An explicit null is a value.
    pub nullable: bool,
    /// A whole number or text (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// Unknown fields stay (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The object has `apiVersion`, `kind` and `metadata` of its own (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// Ownership of the items of a list.
    pub list_type: ListType,
    /// Ownership of the fields of an object.
    pub map_type: MapType,
    /// Strategic merge.
    pub patch: PatchStrategy,
    /// CEL rules of this node.
    pub rules: Vec<Rule>,
    /// The value must fit all of these too (`allOf`).
    pub all_of: Vec<Arc<Schema>>,
    /// The value must fit one or more of these (`anyOf`).
    pub any_of: Vec<Arc<Schema>>,
    /// The value must fit exactly one of these (`oneOf`).
    pub one_of: Vec<Arc<Schema>>,
    /// The value must not fit this (`not`).
    pub not: Option<Arc<Schema>>,
    /// The name of the type for a kind that is built in, such as `v1.PodSpec`: Kubernetes names it in its complaints.
    pub type_name: Option<String>,
    /// Everything else of the node as it was written (`minimum`, `pattern`, `title` …), in its JSON form.
    pub checks: serde_json::Map<String, Value>,
}
