//! `create`.

use std::sync::Arc;

use futures::future::try_join_all;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Request, Written, metadata};
use crate::api::{Api, hex, now};
use crate::auth::{DEFAULT_OBJECTS, User};
use crate::http::{Answer, Form};
use crate::refusal::{Cause, Refusal};
use crate::request::Query;
use crate::store::{Action, Expect, WriteError};

/// The letters of generated names: none that could form a word, none that look alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters are generated.
const GENERATED: usize = 5;
/// The longest prefix that leaves room for them.
const LONGEST_PREFIX: usize = 63 - GENERATED;
/// How often another name is tried if a generated one is taken.
const ATTEMPTS: usize = 8;

impl Request {
    pub(super) async fn create(&self, bytes: &[u8]) -> Result<Answer, Refusal> {
        self.check_write_options()?;
        let decoded = self.decode(bytes)?;
        let mut object = decoded.value;
        let warnings = self.shape(&mut object, &decoded.duplicates).map_err(|unfit| self.not_handled(&unfit))?;
        wipe(&mut object);
        let outcome = async {
            let object = self.with_owners(None, self.defaulted(object)?);
            self.store_new(object, warnings.clone()).await
        };
        let written = outcome.await.map_err(|refusal| refusal.with_warnings(&warnings))?;
        self.written(&written)
    }

    /// With the namespace of the request, and with defaults.
    fn defaulted(&self, mut object: Value) -> Result<Value, Refusal> {
        self.settle_namespace(&mut object)?;
        self.fill_defaults(&mut object);
        Ok(object)
    }

    /// The namespace of an object is that of the request; what the whole cluster has is in none.
    pub(super) fn settle_namespace(&self, object: &mut Value) -> Result<(), Refusal> {
        let given = metadata::text(object, "namespace").to_owned();
        if !given.is_empty() && !self.namespace.is_empty() && given != self.namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(message));
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

    /// Gives a new object what every object has, and stores it.
    pub(super) async fn store_new(&self, mut object: Value, mut warnings: Vec<String>) -> Result<Written, Refusal> {
        let prefix = metadata::text(&object, "generateName").to_owned();
        let generates = metadata::text(&object, "name").is_empty() && !prefix.is_empty();
        let uid = self.uid()?;
        wipe(&mut object);
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
        tidy(&mut object);
        self.validate_new(&object)?;
        self.check_namespace(metadata::text(&object, "name"))?;
        let advice = metadata::finalizer_warnings(&self.resource, &object, None);
        warnings.extend_from_slice(&advice);
        let stored = self.put_new(object, generates.then_some(&*prefix)).await;
        let object = stored.map_err(|refusal| refusal.with_warnings(&advice))?;
        Ok(Written { object, code: StatusCode::CREATED, warnings })
    }

    /// Stores a new object, under another name if the one that was generated from `prefix` is taken.
    async fn put_new(&self, mut object: Value, prefix: Option<&str>) -> Result<Value, Refusal> {
        let mut attempts = if prefix.is_some() { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let name = metadata::text(&object, "name").to_owned();
            let key = self.resource.key(&self.namespace, &name);
            if self.is_dry_run()? {
                if self.api.store.get(&self.resource.shelf, &key).is_some() {
                    return Err(self.already_exists(&name, &object));
                }
                return Ok(object);
            }
            if !metadata::text(&object, "resourceVersion").is_empty() {
                let message = "resourceVersion should not be set on objects to be created";
                return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
            }
            let draft = self.resource.draft(&object)?;
            match self.api.store.write(&self.resource.shelf, &key, Expect::Absent, Action::Put(draft)).await {
                Ok(entry) => {
                    object["metadata"]["resourceVersion"] = json!(entry.revision.to_string());
                    return Ok(object);
                }
                Err(WriteError::Unexpected(_)) => match prefix.filter(|_| attempts > 0) {
                    Some(prefix) => self.generate_name(&mut object, prefix)?,
                    None => return Err(self.already_exists(&name, &object)),
                },
                Err(error) => return Err(Refusal::internal(error)),
            }
        }
    }

    /// Somebody has the name; of one who is about to leave the real server says so.
    fn already_exists(&self, name: &str, object: &Value) -> Refusal {
        let key = self.resource.key(&self.namespace, name);
        let stored = self.api.store.get(&self.resource.shelf, &key);
        let leaving = stored
            .and_then(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok())
            .is_some_and(|object| metadata::is_being_deleted(&object));
        // It takes every name for generated if there is something to generate one from.
        let generated = !metadata::text(object, "generateName").is_empty();
        Refusal::already_exists(&self.resource.plural, &self.resource.group, name, leaving, generated)
    }

    /// Kinds whose objects say what should be have a generation; those that only hold data have none.
    pub(super) fn counts_generations(&self) -> bool {
        self.resource.custom.is_some()
            || matches!(
                (&*self.resource.group, &*self.resource.plural),
                ("", "pods")
                    | ("apps" | "policy" | "networking.k8s.io" | "discovery.k8s.io" | "apiextensions.k8s.io", _)
            )
    }

    fn uid(&self) -> Result<String, Refusal> {
        let mut bytes: [u8; 16] = self.api.random()?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = hex(&bytes);
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
        Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
    }

    fn generate_name(&self, object: &mut Value, prefix: &str) -> Result<(), Refusal> {
        let bytes: [u8; GENERATED] = self.api.random()?;
        let letters: String = bytes
            .iter()
            .filter_map(|byte| LETTERS.get(usize::from(*byte) % LETTERS.len()))
            .map(|&b| char::from(b))
            .collect();
        let longest = prefix.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST_PREFIX).last();
        let short =
            if prefix.len() > LONGEST_PREFIX { prefix.get(..longest.unwrap_or(0)).unwrap_or(prefix) } else { prefix };
        object["metadata"]["name"] = json!(format!("{short}{letters}"));
        Ok(())
    }

    /// New objects need a namespace that is there to stay.
    fn check_namespace(&self, name: &str) -> Result<(), Refusal> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        let Some(entry) = self.api.store.get("namespaces", &self.namespace) else {
            return Err(Refusal::not_found("namespaces", "", &self.namespace));
        };
        let namespace: Value = serde_json::from_slice(&entry.bytes).map_err(Refusal::internal)?;
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
        Err(Refusal::forbidden(&self.resource.plural, &self.resource.group, name, &why).with_causes(&[cause]))
    }
}

/// Drops what a client cannot say about a new object.
fn wipe(object: &mut Value) {
    if let Some(metadata) = metadata::of(object) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.shift_remove(field);
        }
    }
}

/// Leaves out empty collections of the metadata, as Go does.
pub(super) fn tidy(object: &mut Value) {
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

/// Creates the objects that every server has, unless they are there.
pub(crate) async fn bootstrap(api: &Arc<Api>) -> Result<(), Refusal> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(DEFAULT_OBJECTS).map_err(Refusal::internal)?;
    let registry = api.registry();
    let mut missing = Vec::new();
    for object in objects {
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let resource = registry.of_kind(api_version.unwrap_or_default(), kind.unwrap_or_default());
        let Some(resource) = resource.cloned() else { continue };
        let name = metadata::text(&object, "name");
        if api.store.get(&resource.shelf, &resource.key("", name)).is_some() {
            continue;
        }
        let request = Request {
            api: Arc::clone(api),
            registry: Arc::clone(&registry),
            resource,
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            query: Query::default(),
            form: Form::Whole,
            user: User::master(),
            content_type: None,
            user_agent: "kube-apiserver".to_owned(),
            now: now(),
            options_kind: "CreateOptions",
        };
        missing.push(async move { request.create(object.to_string().as_bytes()).await });
    }
    // Together, so that a new server waits for the disk a few times and not once for each.
    try_join_all(missing).await?;
    super::delete::resume(api);
    Ok(())
}
