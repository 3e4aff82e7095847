//! `update`, and the parts that it shares with `patch`.

use http::StatusCode;
use serde_json::{Value, json};

use super::create::remove_empty;
use super::{Request, Written, metadata};
use crate::body::MAX_BODY;
use crate::http::ApiResponse;
use crate::status_error::{Cause, StatusError};
use crate::store::{Action, Entry, Expect, WriteError};

/// Retries of a write without a resourceVersion after a race.
pub(super) const RETRIES: usize = 16;

impl Request {
    pub(super) async fn update(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        self.check_write_options()?;
        let decoded = self.decode(bytes)?;
        let mut object = decoded.value;
        let warnings = self.shape(&mut object, &decoded.duplicates).map_err(|invalid| self.not_handled(&invalid))?;
        let fits = self.check_name(&object).and_then(|()| self.set_namespace(&mut object));
        fits.map_err(|error| error.with_warnings(&warnings))?;
        let conditional = Self::is_conditional(&object);
        let outcome = self.replace(&object, conditional, &warnings).await;
        self.written(&outcome.map_err(|error| error.with_warnings(&warnings))?)
    }

    async fn replace(&self, object: &Value, conditional: bool, warnings: &[String]) -> Result<Written, StatusError> {
        let mut attempt = 0;
        loop {
            let mut new = object.clone();
            self.fill_defaults(&mut new);
            let entry = match self.stored() {
                Ok(entry) => entry,
                Err(error) if self.may_create() => {
                    self.check_uid(&Value::Null, &new)?;
                    if conditional {
                        return Err(error);
                    }
                    return self.store_new(self.with_owners(None, new), warnings.to_vec()).await;
                }
                Err(error) => return Err(error),
            };
            let old = self.resource.read(&entry.bytes)?;
            let new = self.with_owners(Some(&old), new);
            match self.store_change(&entry, &old, new, warnings.to_vec()).await {
                Err(error) if error.is("Conflict") && !conditional && attempt < RETRIES => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// The name of an object must be that of the path.
    pub(super) fn check_name(&self, object: &Value) -> Result<(), StatusError> {
        let given = metadata::text(object, "name");
        let name = &self.name;
        if given.is_empty() {
            let message =
                format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
            return Err(StatusError::bad_request(message));
        }
        if given != name {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(StatusError::bad_request(message));
        }
        Ok(())
    }

    /// Kinds that an update creates if they do not exist.
    fn may_create(&self) -> bool {
        self.subresource.is_empty()
            && self.resource.custom.is_none()
            && matches!(
                (&*self.resource.group, &*self.resource.plural),
                ("coordination.k8s.io" | "rbac.authorization.k8s.io", _) | ("", "endpoints" | "events" | "services")
            )
    }

    /// Whether a write applies only to the version that it names.
    pub(super) fn is_conditional(object: &Value) -> bool {
        !matches!(metadata::text(object, "resourceVersion"), "" | "0")
    }

    fn may_be_unconditional(&self) -> bool {
        self.resource.custom.is_none()
            && !matches!(&*self.resource.group, "apiextensions.k8s.io" | "coordination.k8s.io")
    }

    /// Replaces `old` by `new`, which is defaulted and has its managedFields.
    pub(super) async fn store_change(
        &self,
        entry: &Entry,
        old: &Value,
        mut new: Value,
        mut warnings: Vec<String>,
    ) -> Result<Written, StatusError> {
        self.check_version(old, &new)?;
        self.restore_immutable(old, &mut new);
        self.complete_change(&mut new, old)?;
        remove_empty(&mut new);
        self.check_escalation(&new, Some(old))?;
        self.count_generation(old, &mut new);
        self.validate_change(&new, old)?;
        self.check_task_secrets(&new, Some(old))?;
        warnings.extend(metadata::finalizer_warnings(&self.resource, &new, Some(old)));
        let unchanged = objects::apply::restore_timestamps(old, &mut new);
        let written = |object| Written { object, code: StatusCode::OK, warnings: warnings.clone() };
        if unchanged || self.is_dry_run()? {
            return Ok(written(new));
        }
        let ends = is_finished(&new);
        // Watchers get a deleted object in its last stored state.
        let action = if ends {
            Action::Remove(self.resource.encode(old)?)
        } else {
            let encoded = self.resource.encode(&new)?;
            // Each patch is small enough; many of them must not make an object that no client can write back.
            if encoded.len() > MAX_BODY && encoded.len() > entry.bytes.len() {
                return Err(StatusError::too_large(MAX_BODY));
            }
            Action::Put(encoded)
        };
        let key = self.resource.key(&self.namespace, &self.name);
        let outcome =
            self.api.store.write(&self.resource.storage_key, &key, Expect::Revision(entry.revision), action).await;
        match outcome {
            // The response to the final update has the previous version.
            Ok(_) if ends => Ok(written(new)),
            Ok(entry) => {
                new["metadata"]["resourceVersion"] = json!(entry.revision.to_string());
                Ok(written(new))
            }
            // Deleted concurrently: a conflict for the client.
            Err(WriteError::Unexpected(_)) => Err(self.resource.stale(&self.name)),
            Err(error) => Err(self.write_failed(&self.name, &error)),
        }
    }

    /// The UID in the request must be that of the stored object.
    fn check_uid(&self, old: &Value, new: &Value) -> Result<(), StatusError> {
        let uid = metadata::text(new, "uid");
        if !uid.is_empty() && uid != metadata::text(old, "uid") {
            // Without a write, the key in kube-apiserver's message has no storage prefix.
            let root = if self.is_dry_run()? { "" } else { "/registry" };
            let key =
                format!("{root}/{}/{}", self.resource.storage_name(), self.resource.key(&self.namespace, &self.name));
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                metadata::text(old, "uid")
            );
            return Err(StatusError::conflict(&self.resource.plural, &self.resource.group, &self.name, &why));
        }
        Ok(())
    }

    /// The resourceVersion in the request must be that of the stored object.
    fn check_version(&self, old: &Value, new: &Value) -> Result<(), StatusError> {
        self.check_uid(old, new)?;
        if Self::is_conditional(new) {
            let asked = metadata::text(new, "resourceVersion");
            if asked.parse::<u64>().is_err() {
                let message = format!("Invalid value: {asked:?}: must be a number");
                let field = "metadata.resourceVersion".to_owned();
                let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field };
                return Err(StatusError::invalid(&self.resource.kind, &self.resource.group, &self.name, &[cause]));
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
            return Err(StatusError::invalid(&self.resource.plural, &self.resource.group, &self.name, &[cause]));
        }
        Ok(())
    }

    /// Restores the fields that a write to this (sub)resource cannot change.
    fn restore_immutable(&self, old: &Value, new: &mut Value) {
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
                // Built-in kinds let a status update change most metadata; custom kinds do not.
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
        restore(old, new, &SYSTEM_FIELDS);
        if let Some(metadata) = metadata::of(new) {
            metadata.insert("managedFields".to_owned(), owners);
        }
    }

    /// Increments the generation when the desired state changes.
    fn count_generation(&self, old: &Value, new: &mut Value) {
        let Some(generation) = old["metadata"]["generation"].as_i64() else { return };
        if !self.counts_generations() {
            return;
        }
        let relevant = |object: &Value| -> Value {
            if self.resource.is("apps", "deployments") && self.subresource.is_empty() {
                // Annotations of a Deployment are part of its desired state.
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

/// Metadata fields that only the server sets.
const SYSTEM_FIELDS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
];

/// Restores metadata fields.
fn restore(old: &Value, new: &mut Value, fields: &[&str]) {
    let Some(metadata) = metadata::of(new) else { return };
    for &field in fields {
        match old["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.shift_remove(field)),
        }
    }
}

/// Whether an object marked for deletion has no finalizers left.
pub(super) fn is_finished(object: &Value) -> bool {
    let waits_for_node = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
    metadata::is_being_deleted(object)
        && metadata::finalizers(object).is_empty()
        && !waits_for_node
        && !has_contents(object)
}

/// Whether an object is a Namespace with the content finalizer.
pub(super) fn has_contents(object: &Value) -> bool {
    object["kind"] == "Namespace"
        && object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
