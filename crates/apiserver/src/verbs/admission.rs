//! From a request body to a stored object: type check, pruning, defaults, field ownership, completion, validation.
//!
//! This is the only module that uses schemas of the `objects` crate.

use std::sync::Arc;

use objects::apply::{Fields, Origin, Target, reset_fields, updated};
use objects::schema::{Schema, Violation, builtin, decode_error, fill_builtin_defaults, go_name, validate_builtin};
use serde_json::{Value, json};

use super::{Request, metadata, service};
use crate::api::hex;
use crate::body::{self, DecodeError, Decoded};
use crate::kinds::{DEFINITIONS, Resource, custom};
use crate::status_error::{Cause, StatusError};

/// A body that is not a valid object of the requested kind.
pub(super) struct InvalidBody {
    /// The kind that the body names.
    kind: String,
    version: String,
    pub(super) problem: String,
}

impl Request {
    /// The schema of the whole object.
    pub(super) fn schema(&self) -> Option<Arc<Schema>> {
        match &self.resource.custom {
            Some(version) => Some(Arc::clone(version.validator.schema())),
            None => builtin::schema(&self.resource.api_version(), &self.resource.kind).map(Arc::clone),
        }
    }

    pub(super) fn origin(&self) -> Origin {
        if self.resource.custom.is_some() { Origin::Custom } else { Origin::BuiltIn }
    }

    fn part(&self) -> Option<&str> {
        (!self.subresource.is_empty()).then_some(&*self.subresource)
    }

    /// Runs `work` with the server-side apply schema of the kind.
    pub(super) fn with_target<T>(&self, work: impl FnOnce(&Target<'_>) -> T) -> T {
        let api_version = self.resource.api_version();
        let open = Arc::new(Schema::default());
        let schema = self.schema().unwrap_or(open);
        let origin = self.origin();
        let reset: Fields = reset_fields(&api_version, &self.resource.kind, origin, self.part());
        work(&Target {
            schema: &schema,
            origin,
            api_version: &api_version,
            kind: &self.resource.kind,
            subresource: self.part(),
            reset: &reset,
        })
    }

    /// Decodes the body of a write, which must be of the requested kind.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Decoded, StatusError> {
        let mut decoded = body::decode(self.content_type.as_deref(), bytes).map_err(|problem| match &problem {
            DecodeError::MediaType => problem.into(),
            DecodeError::Malformed(sentence) => {
                let problem = format!("couldn't get version/kind; json parse error: {sentence}");
                self.unrecognized(&problem, bytes)
            }
            DecodeError::Number(sentence) => {
                let Resource { kind, version, .. } = &*self.resource;
                self.not_handled(&InvalidBody {
                    kind: kind.clone(),
                    version: version.clone(),
                    problem: sentence.to_string(),
                })
            }
        })?;
        if decoded.value.is_null() {
            // As in Go, null leaves the target unchanged.
            decoded.value = json!({});
        }
        if !decoded.value.is_object() {
            return Err(self.unrecognized(&no_object(&decoded.value), bytes));
        }
        if self.resource.custom.is_some() && decoded.value["kind"].as_str().unwrap_or_default().is_empty() {
            let problem = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes));
            if self.ignores_unknown_fields() {
                let Resource { kind, version, .. } = &*self.resource;
                return Err(self.not_handled(&InvalidBody { kind: kind.clone(), version: version.clone(), problem }));
            }
            return Err(self.unrecognized(&problem, bytes));
        }
        self.check_type(&decoded)?;
        Ok(decoded)
    }

    pub(super) fn not_handled(&self, invalid: &InvalidBody) -> StatusError {
        let InvalidBody { kind, version, problem } = invalid;
        let wanted = &self.resource.kind;
        StatusError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {problem}"))
    }

    /// The kind that an object names, if it differs. Only for custom kinds, for which kube-apiserver detects it during
    /// validation.
    fn other_kind<'a>(&self, object: &'a Value) -> Option<&'a str> {
        let kind = object["kind"].as_str().filter(|kind| !kind.is_empty() && *kind != self.resource.kind);
        kind.filter(|_| self.resource.custom.is_some())
    }

    fn unrecognized(&self, problem: &str, bytes: &[u8]) -> StatusError {
        let kind = &self.resource.kind;
        let summary = summary(bytes);
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {problem} ({summary})"
        ))
    }

    /// Rejects an object of another kind.
    fn check_type(&self, decoded: &Decoded) -> Result<(), StatusError> {
        let (resource, object) = (&self.resource, &decoded.value);
        let (api_version, kind) =
            (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
        let expected = resource.api_version();
        // Clients may omit what the path implies, but not for custom kinds.
        let same_version = api_version == expected || (api_version.is_empty() && resource.custom.is_none());
        if same_version && (kind.is_empty() || kind == resource.kind || resource.custom.is_some()) {
            return Ok(());
        }
        if resource.custom.is_some() {
            let warnings = self.check_fields_of_no_version(decoded, api_version, kind)?;
            let error = StatusError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            ));
            return Err(error.with_warnings(&warnings));
        }
        let (given, kind) = (
            if api_version.is_empty() { &expected } else { api_version },
            if kind.is_empty() { &resource.kind } else { kind },
        );
        let version = given.rsplit('/').next().unwrap_or_default();
        let package = |group: &str| {
            let first = group.split('.').next().unwrap_or_default();
            if first.is_empty() { "core".to_owned() } else { first.to_owned() }
        };
        let problem = if self.registry.of_kind(given, kind).is_some() {
            format!(
                "converting ({version}.{kind}) to ({}.{}): unknown conversion",
                package(&resource.group),
                resource.kind
            )
        } else {
            // The source location is part of kube-apiserver's message.
            format!("no kind {kind:?} is registered for version {given:?} in scheme \"pkg/runtime/scheme.go:110\"")
        };
        Err(self.not_handled(&InvalidBody { kind: kind.to_owned(), version: version.to_owned(), problem }))
    }

    /// For a version that is not served all fields are unknown, which is reported first.
    fn check_fields_of_no_version(
        &self,
        decoded: &Decoded,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<String>, StatusError> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if group != self.resource.group || kind != self.resource.kind {
            return Ok(Vec::new());
        }
        let mut unknown: Vec<String> =
            decoded.value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        unknown.retain(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        unknown.sort_unstable();
        let refused =
            |problem| self.not_handled(&InvalidBody { kind: kind.to_owned(), version: version.to_owned(), problem });
        self.report_fields(&decoded.duplicates, &unknown).map_err(refused)
    }

    /// Sets the type of the object, and prunes unknown fields. Returns warnings.
    pub(super) fn shape(&self, object: &mut Value, duplicates: &[String]) -> Result<Vec<String>, InvalidBody> {
        object["apiVersion"] = json!(self.resource.api_version());
        let other_kind = self.other_kind(object).map(str::to_owned);
        let kind = other_kind.as_deref().unwrap_or(&self.resource.kind);
        object["kind"] = json!(kind);
        let invalid = |problem| InvalidBody { kind: kind.to_owned(), version: self.resource.version.clone(), problem };
        let unknown = match self.schema() {
            Some(schema) if self.resource.custom.is_some() => {
                // Metadata has the same schema for all kinds.
                let metadata = builtin::schema("v1", "ConfigMap").and_then(|schema| schema.field("metadata"));
                if let Some(problem) = metadata.and_then(|schema| decode_error(schema, &object["metadata"])) {
                    return Err(invalid(problem));
                }
                metadata::of(object);
                // The fields of another kind are unknown.
                let open = || Schema { preserve_unknown: true, ..Schema::default() };
                let unknown = if other_kind.is_some() { open().prune(object) } else { schema.prune(object) };
                // Empty values are omitted, as in Go.
                super::create::remove_empty(object);
                unknown
            }
            Some(schema) => {
                if let Some(problem) = decode_error(&schema, object) {
                    return Err(invalid(problem));
                }
                metadata::of(object);
                schema.prune_typed(object)
            }
            None => Vec::new(),
        };
        self.report_fields(duplicates, &unknown).map_err(invalid)
    }

    /// The same without warnings, for an object that was checked before.
    pub(super) fn shape_quietly(&self, object: &mut Value) {
        if let Some(schema) = self.schema() {
            if self.resource.custom.is_some() {
                schema.prune(object)
            } else {
                schema.prune_typed(object)
            };
        }
    }

    pub(super) fn fill_defaults(&self, object: &mut Value) {
        if let Some(version) = &self.resource.custom {
            if self.other_kind(object).is_none() {
                version.validator.schema().fill_defaults(object);
            }
            return;
        }
        fill_builtin_defaults(&self.resource.api_version(), &self.resource.kind, object);
        let has_no_owners = object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
        if let Some(schema) = self.schema() {
            schema.normalize(object);
        }
        if has_no_owners {
            // Unlike other lists, an empty list is meaningful here.
            object["metadata"]["managedFields"] = json!([]);
        }
    }

    /// The same for an applied object.
    pub(super) fn fill_applied(&self, object: &mut Value) {
        match &self.resource.custom {
            Some(version) => version.validator.schema().fill_missing(object),
            None => self.fill_defaults(object),
        }
    }

    /// Updates managedFields.
    pub(super) fn with_owners(&self, before: Option<&Value>, after: Value) -> Value {
        self.with_target(|target| updated(before, after, &self.manager(), target, &self.now))
    }

    /// Sets the fields that the server computes for a new object.
    pub(super) fn complete_new(&self, object: &mut Value) -> Result<(), StatusError> {
        let keeps_status = self.resource.is("", "nodes");
        if self.resource.has_status()
            && !keeps_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.shift_remove("status");
        }
        match (&*self.resource.group, &*self.resource.plural) {
            _ if self.resource.custom.is_some() => {}
            ("", "namespaces") => {
                let mut finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
                if !finalizers.contains(&json!("kubernetes")) {
                    finalizers.push(json!("kubernetes"));
                }
                object["spec"] = json!({"finalizers": finalizers});
                object["status"] = json!({"phase": "Active"});
                let name = metadata::text(object, "name").to_owned();
                if let Some(metadata) = metadata::of(object) {
                    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
                    labels["kubernetes.io/metadata.name"] = json!(name);
                }
            }
            ("", "pods") => {
                super::pod::complete_new(object);
                super::pod::admit(object, None);
            }
            ("", "services") => service::allocate(&self.api, object, None)?,
            ("", "persistentvolumeclaims" | "persistentvolumes") => object["status"] = json!({"phase": "Pending"}),
            ("apps", "deployments") => object["status"] = json!({}),
            ("apps", "replicasets") => object["status"] = json!({"replicas": 0}),
            ("apiextensions.k8s.io", _) => custom::establish(object, self.taken_names(object), &self.now),
            _ => {}
        }
        Ok(())
    }

    /// The same for an update.
    pub(super) fn complete_change(&self, object: &mut Value, old: &Value) -> Result<(), StatusError> {
        if self.resource.custom.is_some() || !self.subresource.is_empty() {
            return Ok(());
        }
        match (&*self.resource.group, &*self.resource.plural) {
            ("", "services") => service::allocate(&self.api, object, Some(old))?,
            ("apiextensions.k8s.io", _) => custom::establish(object, self.taken_names(object), &self.now),
            ("", "namespaces") => object["spec"] = old["spec"].clone(),
            ("", "pods") => super::pod::admit(object, Some(old)),
            _ => {}
        }
        Ok(())
    }

    /// A conflict with the names of another definition.
    fn taken_names(&self, definition: &Value) -> Option<String> {
        let spec = &definition["spec"];
        let own = definition["metadata"]["name"].as_str();
        let others = self.api.store.list(DEFINITIONS, "");
        others.items.iter().find_map(|(_, entry)| {
            let other: Value = serde_json::from_slice(&entry.bytes).ok()?;
            if other["metadata"]["name"].as_str() == own || other["spec"]["group"] != spec["group"] {
                return None;
            }
            ["plural", "kind", "listKind", "singular"].iter().find_map(|name| {
                let value = spec["names"][name].as_str()?;
                (other["status"]["acceptedNames"][name] == value).then(|| format!("{value:?} is already in use"))
            })
        })
    }

    pub(super) fn validate_new(&self, object: &Value) -> Result<(), StatusError> {
        let found = || metadata::check_new(&self.resource, object);
        let found = match (&self.resource.custom, self.other_kind(object)) {
            (Some(version), Some(kind)) => version.validator.other_kind(object, None, vec![self.wrong_kind(kind)]),
            (Some(version), None) => version.validator.create(object, found()),
            (None, _) => self.with_builtin_rules(object, None, found()),
        };
        self.check_rules(object, None, &found)
    }

    pub(super) fn validate_change(&self, object: &Value, old: &Value) -> Result<(), StatusError> {
        let mut found = metadata::check_change(&self.resource, object, old);
        let status = self.subresource == "status";
        let found = match (&self.resource.custom, self.other_kind(object)) {
            (Some(version), Some(kind)) => {
                found.push(self.wrong_kind(kind));
                version.validator.other_kind(object, Some(old), found)
            }
            (Some(version), None) if status => version.validator.update_status(object, old, found),
            (Some(version), None) => version.validator.update(object, old, found),
            (None, _) if status => found,
            (None, _) => self.with_builtin_rules(object, Some(old), found),
        };
        self.check_rules(object, Some(old), &found)
    }

    fn wrong_kind(&self, given: &str) -> Violation {
        Violation::invalid_text("kind", given, &format!("must be {}", self.resource.kind))
    }

    fn with_builtin_rules(&self, object: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Vec<Violation> {
        found.extend(validate_builtin(&self.resource.api_version(), &self.resource.kind, object, old));
        found
    }

    fn check_rules(&self, object: &Value, old: Option<&Value>, found: &[Violation]) -> Result<(), StatusError> {
        let mut causes: Vec<Cause> = found.iter().map(cause).collect();
        if causes.is_empty() && self.resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            causes = custom::Definition::given(object).err().unwrap_or_default();
            causes.extend(old.map(|old| custom::changed_names(object, old)).unwrap_or_default());
        }
        if causes.is_empty() {
            return Ok(());
        }
        let kind = self.other_kind(object).unwrap_or(&self.resource.kind);
        Err(StatusError::invalid(kind, &self.resource.group, metadata::text(object, "name"), &causes))
    }
}

fn cause(violation: &Violation) -> Cause {
    Cause {
        reason: violation.reason.name().to_owned(),
        message: violation.message.clone(),
        field: violation.field.clone(),
    }
}

/// The Go type of the first decoding step, as in kube-apiserver's messages.
const GO_TYPE: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The error for a body that is not a JSON object.
pub(super) fn no_object(value: &Value) -> String {
    let found = go_name(value);
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {GO_TYPE}"
    )
}

/// The beginning of a body: as text if it looks like JSON, otherwise in hexadecimal.
fn summary(bytes: &[u8]) -> String {
    const MOST: usize = 30;
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let (start, dots) = match bytes.split_at_checked(MOST) {
        Some((start, rest)) if !rest.is_empty() => (start, " ..."),
        _ => (bytes, ""),
    };
    if bytes.first() == Some(&b'{') {
        return format!("{}{dots}", String::from_utf8_lossy(start));
    }
    format!("{}{dots}", hex(start))
}
