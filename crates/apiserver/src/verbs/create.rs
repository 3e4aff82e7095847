//! `create`.

use std::sync::Arc;

use futures::future::try_join_all;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Request, Written, metadata};
use crate::api::{Api, hex};
use crate::auth::DEFAULT_OBJECTS;
use crate::http::ApiResponse;
use crate::status_error::{Cause, StatusError};
use crate::store::{Action, Expect, WriteError};

/// Alphabet of generated names: no vowels, so that no words are formed, and no characters that look alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the generated suffix.
const GENERATED: usize = 5;
/// Maximum length of a prefix before the suffix.
const MAX_PREFIX: usize = 63 - GENERATED;
/// Attempts if a generated name is taken.
const ATTEMPTS: usize = 8;

impl Request {
    pub(super) async fn create(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        self.check_write_options()?;
        let decoded = self.decode(bytes)?;
        let mut object = decoded.value;
        let warnings = self.shape(&mut object, &decoded.duplicates).map_err(|invalid| self.not_handled(&invalid))?;
        clear_system_fields(&mut object);
        let outcome = async {
            let object = self.with_owners(None, self.defaulted(object)?);
            self.store_new(object, warnings.clone()).await
        };
        let written = outcome.await.map_err(|error| error.with_warnings(&warnings))?;
        self.written(&written)
    }

    /// The object with the namespace of the request and defaults.
    fn defaulted(&self, mut object: Value) -> Result<Value, StatusError> {
        self.set_namespace(&mut object)?;
        self.fill_defaults(&mut object);
        Ok(object)
    }

    /// Sets the namespace of an object to that of the request, or removes it for cluster-scoped kinds.
    pub(super) fn set_namespace(&self, object: &mut Value) -> Result<(), StatusError> {
        let given = metadata::text(object, "namespace").to_owned();
        if !given.is_empty() && !self.namespace.is_empty() && given != self.namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(StatusError::bad_request(message));
        }
        if let Some(metadata) = metadata::of(object) {
            if self.namespace.is_empty() {
                metadata.shift_remove("namespace");
            } else {
                metadata.insert("namespace".to_owned(), json!(self.namespace));
            }
        }
        Ok(())
    }

    /// Sets the system fields of a new object, and stores it.
    pub(super) async fn store_new(&self, mut object: Value, mut warnings: Vec<String>) -> Result<Written, StatusError> {
        let prefix = metadata::text(&object, "generateName").to_owned();
        let generates = metadata::text(&object, "name").is_empty() && !prefix.is_empty();
        let uid = self.uid()?;
        clear_system_fields(&mut object);
        if let Some(metadata) = metadata::of(&mut object) {
            metadata.insert("uid".to_owned(), json!(uid));
            metadata.insert("creationTimestamp".to_owned(), json!(self.now));
            if self.counts_generations() {
                metadata.insert("generation".to_owned(), json!(1));
            }
        }
        if generates {
            self.generate_name(&mut object, &prefix)?;
        }
        self.complete_new(&mut object)?;
        remove_empty(&mut object);
        self.check_escalation(&object, None)?;
        self.validate_new(&object)?;
        self.check_namespace(metadata::text(&object, "name"))?;
        self.check_task_secrets(&object, None)?;
        let advice = metadata::finalizer_warnings(&self.resource, &object, None);
        warnings.extend_from_slice(&advice);
        let stored = self.put_new(object, generates.then_some(&*prefix)).await;
        let object = stored.map_err(|error| error.with_warnings(&advice))?;
        Ok(Written { object, code: StatusCode::CREATED, warnings })
    }

    /// Stores a new object; retries with another name if the generated one is taken.
    async fn put_new(&self, mut object: Value, prefix: Option<&str>) -> Result<Value, StatusError> {
        let mut attempts = if prefix.is_some() { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let name = metadata::text(&object, "name").to_owned();
            let key = self.resource.key(&self.namespace, &name);
            if self.is_dry_run()? {
                if self.api.store.get(&self.resource.storage_key, &key).is_some() {
                    return Err(self.already_exists(&name, &object));
                }
                return Ok(object);
            }
            if !metadata::text(&object, "resourceVersion").is_empty() {
                let message = "resourceVersion should not be set on objects to be created";
                return Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
            }
            let encoded = self.resource.encode(&object)?;
            match self.api.store.write(&self.resource.storage_key, &key, Expect::Absent, Action::Put(encoded)).await {
                Ok(entry) => {
                    object["metadata"]["resourceVersion"] = json!(entry.revision.to_string());
                    return Ok(object);
                }
                Err(WriteError::Unexpected(_)) => match prefix.filter(|_| attempts > 0) {
                    Some(prefix) => self.generate_name(&mut object, prefix)?,
                    None => return Err(self.already_exists(&name, &object)),
                },
                Err(error) => return Err(StatusError::internal(error)),
            }
        }
    }

    /// The AlreadyExists error; its message depends on whether the existing object is being deleted.
    fn already_exists(&self, name: &str, object: &Value) -> StatusError {
        let key = self.resource.key(&self.namespace, name);
        let stored = self.api.store.get(&self.resource.storage_key, &key);
        let leaving = stored
            .and_then(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok())
            .is_some_and(|object| metadata::is_being_deleted(&object));
        // As in kube-apiserver, every name counts as generated if generateName is set.
        let generated = !metadata::text(object, "generateName").is_empty();
        StatusError::already_exists(&self.resource.plural, &self.resource.group, name, leaving, generated)
    }

    /// Kinds with a desired state have a generation; those that only contain data have none.
    pub(super) fn counts_generations(&self) -> bool {
        self.resource.custom.is_some()
            || matches!(
                (&*self.resource.group, &*self.resource.plural),
                ("", "pods")
                    | ("apps" | "policy" | "networking.k8s.io" | "discovery.k8s.io" | "apiextensions.k8s.io", _)
            )
    }

    fn uid(&self) -> Result<String, StatusError> {
        let mut bytes: [u8; 16] = self.api.random()?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = hex(&bytes);
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
        Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
    }

    fn generate_name(&self, object: &mut Value, prefix: &str) -> Result<(), StatusError> {
        let bytes: [u8; GENERATED] = self.api.random()?;
        let letters: String = bytes
            .iter()
            .filter_map(|byte| LETTERS.get(usize::from(*byte) % LETTERS.len()))
            .map(|&b| char::from(b))
            .collect();
        let longest = prefix.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX_PREFIX).last();
        let short =
            if prefix.len() > MAX_PREFIX { prefix.get(..longest.unwrap_or(0)).unwrap_or(prefix) } else { prefix };
        object["metadata"]["name"] = json!(format!("{short}{letters}"));
        Ok(())
    }

    /// The namespace of a new object must exist and not be terminating.
    fn check_namespace(&self, name: &str) -> Result<(), StatusError> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        let Some(entry) = self.api.store.get("namespaces", &self.namespace) else {
            return Err(StatusError::not_found("namespaces", "", &self.namespace));
        };
        let namespace: Value = serde_json::from_slice(&entry.bytes).map_err(StatusError::internal)?;
        if !metadata::is_being_deleted(&namespace) {
            return Ok(());
        }
        let namespace = &self.namespace;
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        Err(StatusError::forbidden(&self.resource.plural, &self.resource.group, name, &why).with_causes(&[cause]))
    }
}

/// Removes fields that a client cannot set on a new object.
fn clear_system_fields(object: &mut Value) {
    if let Some(metadata) = metadata::of(object) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.shift_remove(field);
        }
    }
}

/// Removes empty collections of the metadata, as Go does.
pub(super) fn remove_empty(object: &mut Value) {
    if let Some(metadata) = metadata::of(object) {
        metadata.retain(|field, value| {
            let collection =
                matches!(field.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences" | "managedFields");
            let empty = match value {
                Value::Null => true,
                Value::Array(items) => collection && items.is_empty(),
                Value::Object(fields) => collection && fields.is_empty(),
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            !empty
        });
    }
}

/// Creates the default objects, unless they exist.
pub(crate) async fn bootstrap(api: &Arc<Api>) -> Result<(), StatusError> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(DEFAULT_OBJECTS).map_err(StatusError::internal)?;
    let registry = api.registry();
    let mut missing = Vec::new();
    for object in objects {
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let resource = registry.of_kind(api_version.unwrap_or_default(), kind.unwrap_or_default());
        let Some(resource) = resource.cloned() else { continue };
        let name = metadata::text(&object, "name");
        if api.store.get(&resource.storage_key, &resource.key("", name)).is_some() {
            continue;
        }
        let request = Request::internal(api, &registry, resource);
        missing.push(async move { request.create(object.to_string().as_bytes()).await });
    }
    // Concurrently, so that they share commits.
    try_join_all(missing).await?;
    super::delete::resume(api);
    Ok(())
}
