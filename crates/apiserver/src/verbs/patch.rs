//! `patch`: JSON patch, merge patch, strategic merge patch and server-side apply.

use http::StatusCode;
use objects::apply::{Applied, ApplyError, apply};
use objects::patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
use objects::schema::{conversion_error, go_name, go_value, quoted};
use serde_json::{Value, json};

use super::admission::no_object;
use super::update::RETRIES;
use super::{Request, Written, metadata};
use crate::body;
use crate::http::ApiResponse;
use crate::status_error::{Cause, StatusError};
use crate::store::Entry;

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Request {
    pub(super) async fn patch(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let kind = self.patch_kind()?;
        if kind == Kind::Apply {
            return self.apply(bytes).await;
        }
        let force = Cause {
            reason: "FieldValueForbidden".to_owned(),
            message: "Forbidden: may not be specified for non-apply patch".to_owned(),
            field: "force".to_owned(),
        };
        self.check_options(self.query.flag("force").then_some(force))?;
        let decoded = body::json(bytes)
            .map_err(|problem| StatusError::bad_request(format!("error decoding patch: {problem}")))?;
        let patch = decoded.value;
        let mut attempt = 0;
        loop {
            let entry = self.stored()?;
            let old = self.resource.read(&entry.bytes)?;
            if kind == Kind::Merge && patch.is_array() && self.ignores_unknown_fields() {
                // As in kube-apiserver, such a patch is taken for the patched object.
                return Err(Self::unreadable(&patch.to_string(), &no_object(&patch)));
            }
            if kind == Kind::Json && !patch.is_array() && !patch.is_null() && self.ignores_unknown_fields() {
                let found = go_name(&patch);
                let problem = format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch");
                return Err(StatusError::bad_request(problem));
            }
            let patched = match kind {
                Kind::Json => json_patch(&old, &patch),
                Kind::Merge | Kind::Apply => merge_patch(&old, &patch),
                Kind::Strategic => strategic_merge_patch(&old, &patch, self.schema().as_deref()),
            };
            let mut new = patched.map_err(|error| Self::patch_error(&error))?;
            // A patch with a resourceVersion applies to that version only.
            let conditional = metadata::text(&new, "resourceVersion") != metadata::text(&old, "resourceVersion");
            let warnings = self.shape(&mut new, &decoded.duplicates).map_err(|invalid| {
                if kind == Kind::Strategic {
                    Self::unreadable(&go_value(&patch), &conversion_error(invalid.problem))
                } else {
                    Self::unreadable(&new.to_string(), &invalid.problem)
                }
            })?;
            self.check_identity(&mut new).map_err(|error| error.with_warnings(&warnings))?;
            self.fill_defaults(&mut new);
            let new = self.with_owners(Some(&old), new);
            match self.store_change(&entry, &old, new, warnings.clone()).await {
                Err(error) if error.is("Conflict") && !conditional && attempt < RETRIES => attempt += 1,
                outcome => return self.written(&outcome.map_err(|error| error.with_warnings(&warnings))?),
            }
        }
    }

    fn patch_kind(&self) -> Result<Kind, StatusError> {
        let given = self.content_type.as_deref().unwrap_or_default();
        let builtin = self.resource.custom.is_none();
        match given.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Kind::Json),
            "application/merge-patch+json" => Ok(Kind::Merge),
            "application/strategic-merge-patch+json" if builtin => Ok(Kind::Strategic),
            "application/apply-patch+yaml" => Ok(Kind::Apply),
            _ => {
                if builtin {
                    let error = StatusError::unsupported_media_type("415: Unsupported Media Type");
                    return Err(error.with_details(json!({})));
                }
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
                );
                Err(StatusError::unsupported_media_type(message))
            }
        }
    }

    fn patch_error(error: &PatchError) -> StatusError {
        tracing::debug!(?error, "cannot apply a patch");
        let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
        let status = StatusError::new(code, error.reason(), error.to_string());
        match error {
            PatchError::Inapplicable { .. } => status.with_details(json!({})),
            _ => status,
        }
    }

    /// The patched result is not a valid object of its kind.
    fn unreadable(shown: &str, problem: &str) -> StatusError {
        let message = format!("Invalid value: {}: {problem}", quoted(shown));
        let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field: "patch".to_owned() };
        StatusError::invalid("", "", "", &[cause])
    }

    /// A patch cannot change name or namespace.
    fn check_identity(&self, object: &mut Value) -> Result<(), StatusError> {
        self.set_namespace(object)?;
        self.check_name(object)
    }

    /// Server-side apply.
    async fn apply(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let manager = self.query.get("fieldManager");
        let missing_manager = Cause {
            reason: "FieldValueRequired".to_owned(),
            message: "Required value: is required for apply patch".to_owned(),
            field: "fieldManager".to_owned(),
        };
        self.check_options(manager.is_none().then_some(missing_manager))?;
        let manager = manager.unwrap_or_default();
        let decoded =
            body::yaml(bytes).map_err(|problem| StatusError::bad_request(format!("error decoding YAML: {problem}")))?;
        let configuration = decoded.value;
        if !configuration.is_object() {
            if !self.subresource.is_empty() {
                self.stored()?;
            }
            return Err(StatusError::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go \
                 value of type map[string]interface {{}}",
                go_name(&configuration)
            )));
        }
        let force = self.query.flag("force");
        let mut attempt = 0;
        loop {
            let outcome = self.apply_once(&configuration, manager, force, &decoded.duplicates).await;
            match outcome {
                Err(error) if is_race(&error) && attempt < RETRIES => attempt += 1,
                outcome => return self.written(&outcome?),
            }
        }
    }

    /// The unknown fields of an applied configuration, which itself is not changed.
    fn unknown_fields(&self, configuration: &Value, duplicates: &[String]) -> Result<Vec<String>, StatusError> {
        self.shape(&mut configuration.clone(), duplicates).map_err(|invalid| self.not_handled(&invalid))
    }

    async fn apply_once(
        &self,
        configuration: &Value,
        manager: &str,
        force: bool,
        duplicates: &[String],
    ) -> Result<Written, StatusError> {
        let entry = match self.stored() {
            Ok(entry) => Some(entry),
            Err(error) if self.subresource.is_empty() && error.is("NotFound") => None,
            Err(error) => return Err(error),
        };
        let old = entry.as_ref().map(|entry| self.resource.read(&entry.bytes)).transpose()?;
        if old.is_none() && !metadata::text(configuration, "uid").is_empty() {
            let uid = metadata::text(configuration, "uid");
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(StatusError::conflict(&self.resource.plural, &self.resource.group, &self.name, &why));
        }
        let applied = self
            .with_target(|target| apply(old.as_ref(), configuration, manager, force, target, &self.now))
            .map_err(|refused| Self::apply_error(&refused))?;
        let warnings = self.unknown_fields(configuration, duplicates)?;
        let stored = self.store_applied(entry, old, applied, warnings.clone()).await;
        stored.map_err(|error| error.with_warnings(&warnings))
    }

    async fn store_applied(
        &self,
        entry: Option<Entry>,
        old: Option<Value>,
        applied: Applied,
        warnings: Vec<String>,
    ) -> Result<Written, StatusError> {
        let mut object = applied.object;
        self.check_identity(&mut object)?;
        let (Some(entry), Some(old)) = (entry, old) else {
            self.shape_quietly(&mut object);
            self.fill_applied(&mut object);
            if let Some(metadata) = metadata::of(&mut object) {
                // The version refers to a deleted object; create a new one.
                metadata.shift_remove("resourceVersion");
            }
            return self.store_new(object, warnings).await;
        };
        if applied.unchanged {
            return Ok(Written { object: old, code: StatusCode::OK, warnings });
        }
        self.shape_quietly(&mut object);
        self.fill_applied(&mut object);
        self.store_change(&entry, &old, object, warnings).await
    }

    fn apply_error(refused: &ApplyError) -> StatusError {
        let code = StatusCode::from_u16(refused.code()).unwrap_or(StatusCode::BAD_REQUEST);
        let error = StatusError::new(code, refused.reason(), refused.to_string());
        match refused {
            ApplyError::Conflict(conflicts) => error.with_details(json!({"causes": conflicts.causes()})),
            _ => error,
        }
    }
}

/// Whether the error is a write race; a field ownership conflict is not.
fn is_race(error: &StatusError) -> bool {
    error.is("AlreadyExists") || (error.is("Conflict") && error.message().contains("the object has been modified"))
}
