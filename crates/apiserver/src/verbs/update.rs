//! `update`, and what it has in common with `patch`.

use http::StatusCode;
use serde_json::{Value, json};

use super::create::tidy;
use super::{Request, Written, metadata};
use crate::http::Answer;
use crate::refusal::{Cause, Refusal};
use crate::store::{Action, Entry, Expect, WriteError};

/// How often a write that names no version is tried again when somebody else was faster.
pub(super) const RETRIES: usize = 16;

impl Request {
    pub(super) async fn update(&self, bytes: &[u8]) -> Result<Answer, Refusal> {
        self.check_write_options()?;
        let decoded = self.decode(bytes)?;
        let mut object = decoded.value;
        let warnings = self.shape(&mut object, &decoded.duplicates).map_err(|unfit| self.not_handled(&unfit))?;
        let fits = self.check_name(&object).and_then(|()| self.settle_namespace(&mut object));
        fits.map_err(|refusal| refusal.with_warnings(&warnings))?;
        let conditional = Self::is_conditional(&object);
        let outcome = self.replace(&object, conditional, &warnings).await;
        self.written(&outcome.map_err(|refusal| refusal.with_warnings(&warnings))?)
    }

    async fn replace(&self, object: &Value, conditional: bool, warnings: &[String]) -> Result<Written, Refusal> {
        let mut attempt = 0;
        loop {
            let mut new = object.clone();
            self.fill_defaults(&mut new);
            let entry = match self.stored() {
                Ok(entry) => entry,
                Err(refusal) if self.may_create() => {
                    self.check_uid(&Value::Null, &new)?;
                    if conditional {
                        return Err(refusal);
                    }
                    return self.store_new(self.with_owners(None, new), warnings.to_vec()).await;
                }
                Err(refusal) => return Err(refusal),
            };
            let old = self.resource.read(&entry.bytes)?;
            let new = self.with_owners(Some(&old), new);
            match self.store_change(&entry, &old, new, warnings.to_vec()).await {
                Err(refusal) if refusal.is("Conflict") && !conditional && attempt < RETRIES => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// The name of an object must be that of the path.
    pub(super) fn check_name(&self, object: &Value) -> Result<(), Refusal> {
        let given = metadata::text(object, "name");
        let name = &self.name;
        if given.is_empty() {
            let message =
                format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
            return Err(Refusal::bad_request(message));
        }
        if given != name {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(Refusal::bad_request(message));
        }
        Ok(())
    }

    /// Kinds that an update creates if they are not there.
    fn may_create(&self) -> bool {
        self.subresource.is_empty()
            && self.resource.custom.is_none()
            && matches!(
                (&*self.resource.group, &*self.resource.plural),
                ("coordination.k8s.io" | "rbac.authorization.k8s.io", _) | ("", "endpoints" | "events" | "services")
            )
    }

    /// Whether a write may only happen on the version that it names.
    pub(super) fn is_conditional(object: &Value) -> bool {
        !matches!(metadata::text(object, "resourceVersion"), "" | "0")
    }

    fn may_be_unconditional(&self) -> bool {
        self.resource.custom.is_none()
            && !matches!(&*self.resource.group, "apiextensions.k8s.io" | "coordination.k8s.io")
    }

    /// Replaces `old` by `new`, which has its defaults and its owners already.
    pub(super) async fn store_change(
        &self,
        entry: &Entry,
        old: &Value,
        mut new: Value,
        mut warnings: Vec<String>,
    ) -> Result<Written, Refusal> {
        self.check_version(old, &new)?;
        self.keep(old, &mut new);
        self.complete_change(&mut new, old)?;
        tidy(&mut new);
        self.count_generation(old, &mut new);
        self.validate_change(&new, old)?;
        warnings.extend(metadata::finalizer_warnings(&self.resource, &new, Some(old)));
        let unchanged = objects::apply::keep_times(old, &mut new);
        let written = |object| Written { object, code: StatusCode::OK, warnings: warnings.clone() };
        if unchanged || self.is_dry_run()? {
            return Ok(written(new));
        }
        let ends = is_finished(&new);
        // Whoever watches is shown an object that goes as it was stored last.
        let action =
            if ends { Action::Remove(self.resource.draft(old)?) } else { Action::Put(self.resource.draft(&new)?) };
        let key = self.resource.key(&self.namespace, &self.name);
        let outcome = self.api.store.write(&self.resource.shelf, &key, Expect::Revision(entry.revision), action).await;
        match outcome {
            // The last state of an object that goes has the version before it went.
            Ok(_) if ends => Ok(written(new)),
            Ok(entry) => {
                new["metadata"]["resourceVersion"] = json!(entry.revision.to_string());
                Ok(written(new))
            }
            // It was there a moment ago: for the client that is a conflict like any other.
            Err(WriteError::Unexpected(_)) => Err(self.resource.stale(&self.name)),
            Err(error) => Err(self.write_failed(&self.name, &error)),
        }
    }

    /// The identity that a client names must be that of the stored object.
    fn check_uid(&self, old: &Value, new: &Value) -> Result<(), Refusal> {
        let uid = metadata::text(new, "uid");
        if !uid.is_empty() && uid != metadata::text(old, "uid") {
            // The storage that changes nothing does not know where the other one begins.
            let root = if self.is_dry_run()? { "" } else { "/registry" };
            let key =
                format!("{root}/{}/{}", self.resource.storage_name(), self.resource.key(&self.namespace, &self.name));
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                metadata::text(old, "uid")
            );
            return Err(Refusal::conflict(&self.resource.plural, &self.resource.group, &self.name, &why));
        }
        Ok(())
    }

    /// The version and the identity that a client names must be those of the stored object.
    fn check_version(&self, old: &Value, new: &Value) -> Result<(), Refusal> {
        self.check_uid(old, new)?;
        if Self::is_conditional(new) {
            let asked = metadata::text(new, "resourceVersion");
            if asked.parse::<u64>().is_err() {
                let message = format!("Invalid value: {asked:?}: must be a number");
                let field = "metadata.resourceVersion".to_owned();
                let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field };
                return Err(Refusal::invalid(&self.resource.kind, &self.resource.group, &self.name, &[cause]));
            }
            if asked != metadata::text(old, "resourceVersion") {
                return Err(self.resource.stale(&self.name));
            }
        } else if !self.may_be_unconditional() && self.subresource != "scale" {
            let cause = Cause {
                reason: "FieldValueInvalid".to_owned(),
                message: "Invalid value: 0: must be specified for an update".to_owned(),
                field: "metadata.resourceVersion".to_owned(),
            };
            return Err(Refusal::invalid(&self.resource.plural, &self.resource.group, &self.name, &[cause]));
        }
        Ok(())
    }

    /// Puts back what a write to this (sub)resource cannot change.
    fn keep(&self, old: &Value, new: &mut Value) {
        let owners = new["metadata"]["managedFields"].clone();
        match &*self.subresource {
            "status" => {
                let status = new.get("status").cloned();
                let given = new["metadata"].take();
                *new = old.clone();
                if let Some(fields) = new.as_object_mut() {
                    match status {
                        Some(status) => drop(fields.insert("status".to_owned(), status)),
                        None => drop(fields.shift_remove("status")),
                    }
                }
                // Built-in kinds let a status write change most of the metadata too; custom ones nothing of it.
                if self.resource.custom.is_none() {
                    new["metadata"] = given;
                    let kept = match &*self.resource.plural {
                        "deployments" => &["labels"][..],
                        "pods" => &["ownerReferences"],
                        _ => &[],
                    };
                    restore(old, new, kept);
                }
            }
            "finalize" => {
                let finalizers = new["spec"]["finalizers"].clone();
                *new = old.clone();
                new["spec"] = match finalizers {
                    Value::Array(list) if !list.is_empty() => json!({"finalizers": list}),
                    _ => json!({}),
                };
            }
            _ => {
                if self.resource.has_status()
                    && let Some(fields) = new.as_object_mut()
                {
                    match old.get("status") {
                        Some(status) => drop(fields.insert("status".to_owned(), status.clone())),
                        None => drop(fields.shift_remove("status")),
                    }
                }
            }
        }
        restore(old, new, &SETTLED);
        if let Some(metadata) = metadata::of(new) {
            metadata.insert("managedFields".to_owned(), owners);
        }
    }

    /// The generation grows when what should be changes, not when what is does.
    fn count_generation(&self, old: &Value, new: &mut Value) {
        let Some(generation) = old["metadata"]["generation"].as_i64() else { return };
        if !self.counts_generations() {
            return;
        }
        let relevant = |object: &Value| -> Value {
            if self.resource.is("apps", "deployments") && self.subresource.is_empty() {
                // Its annotations tell its controller something.
                return json!([object["spec"], object["metadata"]["annotations"]]);
            }
            if self.resource.custom.is_none() {
                return object["spec"].clone();
            }
            let mut object = object.clone();
            if let Some(fields) = object.as_object_mut() {
                fields.shift_remove("metadata");
                if self.resource.has_status() {
                    fields.shift_remove("status");
                }
            }
            object
        };
        if relevant(old) != relevant(new) {
            new["metadata"]["generation"] = json!(generation + 1);
        }
    }
}

/// What of the metadata only the server changes.
const SETTLED: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
];

/// Puts fields of the metadata back as they were.
fn restore(old: &Value, new: &mut Value, fields: &[&str]) {
    let Some(metadata) = metadata::of(new) else { return };
    for &field in fields {
        match old["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.shift_remove(field)),
        }
    }
}

/// Whether an object that somebody asked to delete has nothing left that keeps it.
pub(super) fn is_finished(object: &Value) -> bool {
    let waits_for_node = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
    metadata::is_being_deleted(object)
        && metadata::finalizers(object).is_empty()
        && !waits_for_node
        && !has_contents(object)
}

/// Whether an object is a Namespace that may have objects in it.
pub(super) fn has_contents(object: &Value) -> bool {
    object["kind"] == "Namespace"
        && object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
