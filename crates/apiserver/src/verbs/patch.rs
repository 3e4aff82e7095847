//! `patch`: three kinds of patches, and server-side apply.

use http::StatusCode;
use objects::apply::{Applied, Refused, apply};
use objects::patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
use objects::schema::{conversion_error, go_name, go_value, quoted};
use serde_json::{Value, json};

use super::admission::no_object;
use super::update::RETRIES;
use super::{Request, Written, metadata};
use crate::body;
use crate::http::Answer;
use crate::refusal::{Cause, Refusal};
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
    pub(super) async fn patch(&self, bytes: &[u8]) -> Result<Answer, Refusal> {
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
        let decoded =
            body::json(bytes).map_err(|problem| Refusal::bad_request(format!("error decoding patch: {problem}")))?;
        let patch = decoded.value;
        let mut attempt = 0;
        loop {
            let entry = self.stored()?;
            let old = self.resource.read(&entry.bytes)?;
            if kind == Kind::Merge && patch.is_array() && self.ignores_unknown_fields() {
                // Then nobody looks at the patch before it is taken for the object.
                return Err(Self::unreadable(&patch.to_string(), &no_object(&patch)));
            }
            if kind == Kind::Json && !patch.is_array() && !patch.is_null() && self.ignores_unknown_fields() {
                let found = go_name(&patch);
                let problem = format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch");
                return Err(Refusal::bad_request(problem));
            }
            let patched = match kind {
                Kind::Json => json_patch(&old, &patch),
                Kind::Merge | Kind::Apply => merge_patch(&old, &patch),
                Kind::Strategic => strategic_merge_patch(&old, &patch, self.schema().as_deref()),
            };
            let mut new = patched.map_err(|error| Self::patch_refusal(&error))?;
            // A patch that names a version is meant for that one only.
            let conditional = metadata::text(&new, "resourceVersion") != metadata::text(&old, "resourceVersion");
            let warnings = self.shape(&mut new, &decoded.duplicates).map_err(|unfit| {
                if kind == Kind::Strategic {
                    Self::unreadable(&go_value(&patch), &conversion_error(unfit.problem))
                } else {
                    Self::unreadable(&new.to_string(), &unfit.problem)
                }
            })?;
            self.check_identity(&mut new).map_err(|refusal| refusal.with_warnings(&warnings))?;
            self.fill_defaults(&mut new);
            let new = self.with_owners(Some(&old), new);
            match self.store_change(&entry, &old, new, warnings.clone()).await {
                Err(refusal) if refusal.is("Conflict") && !conditional && attempt < RETRIES => attempt += 1,
                outcome => return self.written(&outcome.map_err(|refusal| refusal.with_warnings(&warnings))?),
            }
        }
    }

    fn patch_kind(&self) -> Result<Kind, Refusal> {
        let given = self.content_type.as_deref().unwrap_or_default();
        let builtin = self.resource.custom.is_none();
        match given.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Kind::Json),
            "application/merge-patch+json" => Ok(Kind::Merge),
            "application/strategic-merge-patch+json" if builtin => Ok(Kind::Strategic),
            "application/apply-patch+yaml" => Ok(Kind::Apply),
            _ => {
                if builtin {
                    let refusal = Refusal::unsupported_media_type("415: Unsupported Media Type");
                    return Err(refusal.with_details(json!({})));
                }
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
                );
                Err(Refusal::unsupported_media_type(message))
            }
        }
    }

    fn patch_refusal(error: &PatchError) -> Refusal {
        tracing::debug!(?error, "a patch does not fit");
        let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
        let refusal = Refusal::new(code, error.reason(), error.to_string());
        match error {
            PatchError::Inapplicable { .. } => refusal.with_details(json!({})),
            _ => refusal,
        }
    }

    /// What the patch makes is no object of its kind.
    fn unreadable(shown: &str, problem: &str) -> Refusal {
        let message = format!("Invalid value: {}: {problem}", quoted(shown));
        let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field: "patch".to_owned() };
        Refusal::invalid("", "", "", &[cause])
    }

    /// A patch can rename or move an object as little as anything else can.
    fn check_identity(&self, object: &mut Value) -> Result<(), Refusal> {
        self.settle_namespace(object)?;
        self.check_name(object)
    }

    /// Server-side apply.
    async fn apply(&self, bytes: &[u8]) -> Result<Answer, Refusal> {
        let manager = self.query.get("fieldManager");
        let nobody = Cause {
            reason: "FieldValueRequired".to_owned(),
            message: "Required value: is required for apply patch".to_owned(),
            field: "fieldManager".to_owned(),
        };
        self.check_options(manager.is_none().then_some(nobody))?;
        let manager = manager.unwrap_or_default();
        let decoded =
            body::yaml(bytes).map_err(|problem| Refusal::bad_request(format!("error decoding YAML: {problem}")))?;
        let configuration = decoded.value;
        if !configuration.is_object() {
            if !self.subresource.is_empty() {
                self.stored()?;
            }
            return Err(Refusal::bad_request(format!(
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
                Err(refusal) if is_race(&refusal) && attempt < RETRIES => attempt += 1,
                outcome => return self.written(&outcome?),
            }
        }
    }

    /// What of the configuration the kind does not have. The configuration itself stays as it is.
    fn unknown_fields(&self, configuration: &Value, duplicates: &[String]) -> Result<Vec<String>, Refusal> {
        self.shape(&mut configuration.clone(), duplicates).map_err(|unfit| self.not_handled(&unfit))
    }

    async fn apply_once(
        &self,
        configuration: &Value,
        manager: &str,
        force: bool,
        duplicates: &[String],
    ) -> Result<Written, Refusal> {
        let entry = match self.stored() {
            Ok(entry) => Some(entry),
            Err(refusal) if self.subresource.is_empty() && refusal.is("NotFound") => None,
            Err(refusal) => return Err(refusal),
        };
        let old = entry.as_ref().map(|entry| self.resource.read(&entry.bytes)).transpose()?;
        if old.is_none() && !metadata::text(configuration, "uid").is_empty() {
            let uid = metadata::text(configuration, "uid");
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Refusal::conflict(&self.resource.plural, &self.resource.group, &self.name, &why));
        }
        let applied = self
            .with_target(|target| apply(old.as_ref(), configuration, manager, force, target, &self.now))
            .map_err(|refused| Self::apply_refusal(&refused))?;
        let warnings = self.unknown_fields(configuration, duplicates)?;
        let stored = self.store_applied(entry, old, applied, warnings.clone()).await;
        stored.map_err(|refusal| refusal.with_warnings(&warnings))
    }

    async fn store_applied(
        &self,
        entry: Option<Entry>,
        old: Option<Value>,
        applied: Applied,
        warnings: Vec<String>,
    ) -> Result<Written, Refusal> {
        let mut object = applied.object;
        self.check_identity(&mut object)?;
        let (Some(entry), Some(old)) = (entry, old) else {
            self.shape_quietly(&mut object);
            self.fill_applied(&mut object);
            if let Some(metadata) = metadata::of(&mut object) {
                // A version that is gone with its object keeps nobody from making another.
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

    fn apply_refusal(refused: &Refused) -> Refusal {
        let code = StatusCode::from_u16(refused.code()).unwrap_or(StatusCode::BAD_REQUEST);
        let refusal = Refusal::new(code, refused.reason(), refused.to_string());
        match refused {
            Refused::Conflict(conflicts) => refusal.with_details(json!({"causes": conflicts.causes()})),
            _ => refusal,
        }
    }
}

/// Somebody else wrote in between; a conflict about fields is another matter, and says so.
fn is_race(refusal: &Refusal) -> bool {
    refusal.is("AlreadyExists")
        || (refusal.is("Conflict") && refusal.message().contains("the object has been modified"))
}
