//! `delete` and `deletecollection`: preconditions, grace period, finalizers and propagation.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use objects::schema::go_name;
use serde::Deserialize;
use serde_json::{Value, json};

use super::update::{RETRIES, has_contents, is_finished};
use super::{Request, metadata, unsupported};
use crate::api::{Api, printed};
use crate::body;
use crate::http::{self as responses, ApiResponse};
use crate::kinds::{DEFINITIONS, custom};
use crate::status_error::{Cause, StatusError};
use crate::store::{Action, EncodedObject, Entry, Expect, Limit, WriteError};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The body of a deletion.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
}

/// The result of a deletion.
enum Outcome {
    /// The object is removed; this was its last state.
    Gone(Value),
    /// The object is marked for deletion.
    Marked(Value),
}

impl Request {
    pub(super) async fn delete(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let options = self.delete_options(bytes)?;
        let outcome = self.delete_one(&self.name, &options).await?;
        let (object, gone) = match outcome {
            Outcome::Gone(object) => (object, true),
            Outcome::Marked(object) => (object, false),
        };
        // Only the deprecated `orphanDependents: false` changes the status code.
        let cascades = options.orphan_dependents == Some(false);
        let code = if !gone && cascades { StatusCode::ACCEPTED } else { StatusCode::OK };
        if gone && !self.returns_deleted() {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": self.details(&object),
            });
            return Ok(responses::json(code, status.to_string()));
        }
        Ok(responses::json(code, self.present_one(&object)?))
    }

    fn details(&self, object: &Value) -> Value {
        let mut details = json!({"name": metadata::text(object, "name")});
        if !self.resource.group.is_empty() {
            details["group"] = json!(self.resource.group);
        }
        details["kind"] = json!(self.resource.plural);
        details["uid"] = json!(metadata::text(object, "uid"));
        details
    }

    /// Kinds that return the deleted object instead of a Status.
    fn returns_deleted(&self) -> bool {
        self.resource.custom.is_none()
            && matches!(
                (&*self.resource.group, &*self.resource.plural),
                ("", "pods" | "services" | "serviceaccounts" | "persistentvolumeclaims" | "persistentvolumes")
                    | ("storage.k8s.io", _)
            )
    }

    pub(super) async fn delete_collection(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let options = self.delete_options(bytes)?;
        let selection = self.selection()?;
        let found = self.selected(&selection)?;
        let mut items = Vec::with_capacity(found.len());
        for (object, entry) in found {
            let name = metadata::text(&object, "name").to_owned();
            let namespace = metadata::text(&object, "namespace").to_owned();
            let one = Self { namespace, name: name.clone(), ..self.clone() };
            match one.delete_one(&name, &options).await {
                Ok(_) => items.push(entry.bytes),
                // Deleted concurrently, with the same result.
                Err(error) if error.is("NotFound") => items.push(entry.bytes),
                Err(error) => return Err(error),
            }
        }
        let mut metadata = json!({"resourceVersion": self.api.store.revision().to_string()});
        if self.resource.custom.is_some() {
            metadata["continue"] = json!("");
        }
        Ok(responses::json(StatusCode::OK, self.present_items(&metadata, &items)?))
    }

    /// Options come in the body or in the query.
    fn delete_options(&self, bytes: &[u8]) -> Result<DeleteOptions, StatusError> {
        let mut options = DeleteOptions::default();
        if bytes.is_empty() {
            if let Some(text) = self.query.get("gracePeriodSeconds") {
                let problem =
                    || StatusError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
                options.grace_period_seconds = Some(text.parse().map_err(|_| problem())?);
            }
            options.propagation_policy = self.query.get("propagationPolicy").map(str::to_owned);
            options.orphan_dependents = self.query.get("orphanDependents").map(|text| text != "false");
        } else {
            let decoded = body::decode(self.content_type.as_deref(), bytes)?.value;
            let failed = |message: String| StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message);
            if decoded["kind"].as_str().is_some_and(|kind| kind != "DeleteOptions") {
                let (kind, version) = (decoded["kind"].as_str(), decoded["apiVersion"].as_str());
                return Err(failed(format!(
                    "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:110\"",
                    kind.unwrap_or_default(),
                    version.unwrap_or_default()
                )));
            }
            let seconds = &decoded["gracePeriodSeconds"];
            if !seconds.is_null() && !seconds.is_i64() {
                return Err(failed(format!(
                    "json: cannot unmarshal {} into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
                    go_name(seconds)
                )));
            }
            options = serde_json::from_value(decoded).map_err(|error| StatusError::bad_request(error.to_string()))?;
            if let Some(value) = options.dry_run.iter().find(|value| *value != "All") {
                let message = format!("Unsupported value: [{value:?}]: supported values: \"All\"");
                return Err(self.invalid_options(&[unsupported("dryRun", message)]));
            }
        }
        if self.is_dry_run()? {
            options.dry_run = vec!["All".to_owned()];
        }
        let invalid = |field: &str, reason: &str, message: String| {
            let cause = Cause { reason: reason.to_owned(), message, field: field.to_owned() };
            StatusError::invalid("DeleteOptions", "meta.k8s.io", "", &[cause])
        };
        match options.propagation_policy.as_deref() {
            None | Some("Foreground" | "Background" | "Orphan") => {}
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                );
                return Err(invalid("propagationPolicy", "FieldValueNotSupported", message));
            }
        }
        if options.propagation_policy.is_some() && options.orphan_dependents.is_some() {
            let given = options.propagation_policy.as_deref().unwrap_or_default();
            let message =
                format!("Invalid value: {given:?}: orphanDependents and deletionPropagation cannot be both set");
            return Err(invalid("propagationPolicy", "FieldValueInvalid", message));
        }
        Ok(options)
    }

    async fn delete_one(&self, name: &str, options: &DeleteOptions) -> Result<Outcome, StatusError> {
        for _ in 0..=RETRIES {
            let entry = self.stored()?;
            let object = self.resource.read(&entry.bytes)?;
            self.check_preconditions(&object, options)?;
            match self.try_delete(name, &entry, object, options).await {
                // Without preconditions any version can be deleted: retry.
                Err(error) if error.is("Conflict") => {}
                outcome => return outcome,
            }
        }
        Err(self.resource.stale(name))
    }

    fn check_preconditions(&self, object: &Value, options: &DeleteOptions) -> Result<(), StatusError> {
        let Some(preconditions) = &options.preconditions else { return Ok(()) };
        let checks = [
            ("UID", preconditions.uid.as_deref(), metadata::text(object, "uid")),
            ("ResourceVersion", preconditions.resource_version.as_deref(), metadata::text(object, "resourceVersion")),
        ];
        for (what, expected, found) in checks {
            let Some(expected) = expected.filter(|expected| *expected != found) else { continue };
            let name = metadata::text(object, "name");
            if self.resource.is("", "namespaces") {
                let why =
                    format!("Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}");
                return Err(StatusError::conflict(&self.resource.plural, "", name, &why));
            }
            let guess = if what == "UID" { "deleted and then recreated" } else { "modified" };
            let why = format!(
                "the {what} in the precondition ({expected}) does not match the {what} in record ({found}). The object \
                 might have been {guess}"
            );
            return Err(StatusError::conflict(&self.resource.kind, &self.resource.group, name, &why));
        }
        Ok(())
    }

    async fn try_delete(
        &self,
        name: &str,
        entry: &Entry,
        mut object: Value,
        options: &DeleteOptions,
    ) -> Result<Outcome, StatusError> {
        let already = metadata::is_being_deleted(&object);
        let definition = self.resource.is("apiextensions.k8s.io", "customresourcedefinitions");
        if definition && !already {
            add_cleanup_finalizer(&mut object);
        }
        if already && has_contents(&object) {
            return Ok(Outcome::Marked(object));
        }
        let grace = self.grace(&object, options);
        let namespace = self.resource.is("", "namespaces");
        let changed_finalizers = apply_propagation_policy(&mut object, options, namespace);
        let dry = options.dry_run.iter().any(|value| value == "All");
        let earlier = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        if already {
            let shortens = grace < earlier;
            if !shortens && !changed_finalizers {
                if is_finished(&object) {
                    return self.remove(name, entry, object, dry).await;
                }
                return Ok(Outcome::Marked(object));
            }
            if shortens {
                object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                object["metadata"]["deletionTimestamp"] = json!(after(grace));
            }
        } else {
            let needs_mark =
                grace > 0 || !metadata::finalizers(&object).is_empty() || self.resource.is("", "namespaces");
            if !needs_mark {
                return self.remove(name, entry, object, dry).await;
            }
            let generation = object["metadata"]["generation"].as_i64();
            if let Some(metadata) = metadata::of(&mut object) {
                metadata.insert("deletionTimestamp".to_owned(), json!(after(grace)));
                metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
                if let Some(generation) = generation {
                    metadata.insert("generation".to_owned(), json!(generation + 1));
                }
            }
            if self.resource.is("", "namespaces") {
                object["status"]["phase"] = json!("Terminating");
            }
            if definition {
                custom::terminating(&mut object, &self.now);
            }
            // kube-apiserver marks these two kinds with their own rules, which skip this.
            if (definition || self.resource.is("", "namespaces"))
                && let Some(metadata) = metadata::of(&mut object)
            {
                metadata.shift_remove("deletionGracePeriodSeconds");
                if let Some(generation) = generation {
                    metadata.insert("generation".to_owned(), json!(generation));
                }
            }
        }
        if is_finished(&object) {
            return self.remove(name, entry, object, dry).await;
        }
        if dry {
            return Ok(Outcome::Marked(object));
        }
        let encoded = self.resource.encode(&object)?;
        let key = self.resource.key(&self.namespace, name);
        let written = self
            .api
            .store
            .write(&self.resource.storage_key, &key, Expect::Revision(entry.revision), Action::Put(encoded))
            .await;
        let written = written.map_err(|error| self.race(name, error))?;
        object["metadata"]["resourceVersion"] = json!(written.revision.to_string());
        if definition && !already {
            tokio::spawn(clean_up(Arc::clone(&self.api), name.to_owned()));
        }
        Ok(Outcome::Marked(object))
    }

    async fn remove(&self, name: &str, entry: &Entry, mut object: Value, dry: bool) -> Result<Outcome, StatusError> {
        if !self.resource.is("", "pods") {
            // Removed in its last stored state, without changes of the request.
            object = self.resource.read(&entry.bytes)?;
        } else if !metadata::is_being_deleted(&object) {
            // Pods always get a deletion timestamp, even with a grace period of zero.
            object["metadata"]["deletionTimestamp"] = json!(after(0));
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
            object["metadata"]["generation"] = json!(generation + 1);
        }
        if dry {
            return Ok(Outcome::Gone(object));
        }
        let encoded = self.resource.encode(&object)?;
        let key = self.resource.key(&self.namespace, name);
        let expect = Expect::Revision(entry.revision);
        let written = self.api.store.write(&self.resource.storage_key, &key, expect, Action::Remove(encoded)).await;
        let written = written.map_err(|error| self.race(name, error))?;
        object["metadata"]["resourceVersion"] = json!(written.revision.to_string());
        Ok(Outcome::Gone(object))
    }

    fn race(&self, name: &str, error: WriteError) -> StatusError {
        match error {
            WriteError::Unexpected(_) => self.resource.stale(name),
            error => StatusError::internal(error),
        }
    }

    /// The grace period in seconds. Only Pods on a node have one: their processes must terminate.
    fn grace(&self, object: &Value, options: &DeleteOptions) -> i64 {
        if !self.resource.is("", "pods") {
            return 0;
        }
        let bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !bound || ended {
            return 0;
        }
        let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
        // A negative grace period means the shortest one.
        let grace = options.grace_period_seconds.unwrap_or(own);
        if grace < 0 { 1 } else { grace }
    }
}

/// Adds the cleanup finalizer.
fn add_cleanup_finalizer(definition: &mut Value) {
    let mut finalizers: Vec<String> = metadata::finalizers(definition).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|name| name == custom::CLEANUP) {
        finalizers.push(custom::CLEANUP.to_owned());
    }
    if let Some(metadata) = metadata::of(definition) {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

fn after(seconds: i64) -> String {
    let end = Timestamp::now().checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    printed(end)
}

/// Translates the propagation policy into finalizers. Returns whether they changed.
///
/// As in kube-apiserver, the deletion of a Namespace without orphaning waits for the dependents.
fn apply_propagation_policy(object: &mut Value, options: &DeleteOptions, namespace: bool) -> bool {
    let before: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
    let wanted = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(true), _) | (_, Some("Orphan")) => Some(ORPHAN),
        (_, Some("Foreground")) => Some(FOREGROUND),
        (Some(false), _) if namespace => Some(FOREGROUND),
        (Some(false), _) | (_, Some(_)) => None,
        // Without a policy the finalizers are kept.
        (None, None) => return false,
    };
    let mut after: Vec<String> =
        before.iter().filter(|finalizer| !matches!(finalizer.as_str(), ORPHAN | FOREGROUND)).cloned().collect();
    after.extend(wanted.map(str::to_owned));
    let mut sorted = (before.clone(), after.clone());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    if sorted.0 == sorted.1 {
        return false;
    }
    if let Some(metadata) = metadata::of(object) {
        if after.is_empty() {
            metadata.shift_remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), json!(after));
        }
    }
    true
}

/// Resumes the cleanup of definitions that were being deleted when the server stopped.
pub(super) fn resume(api: &Arc<Api>) {
    for (name, entry) in api.store.list(DEFINITIONS, "").items {
        let marked =
            serde_json::from_slice::<Value>(&entry.bytes).is_ok_and(|object| metadata::is_being_deleted(&object));
        if marked {
            tokio::spawn(clean_up(Arc::clone(api), name.to_string()));
        }
    }
}

/// Deletes the instances of a definition, then the definition. Boxed because the deletion can start another cleanup.
fn clean_up(api: Arc<Api>, definition: String) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        delete_instances(&api, &definition).await;
        if let Err(message) = release(&api, &definition).await {
            tracing::warn!(definition, message, "cannot remove a definition");
        }
    })
}

async fn delete_instances(api: &Arc<Api>, definition: &str) {
    loop {
        let storage_key = definition;
        let registry = api.registry();
        let resource =
            registry.all().find(|resource| resource.custom.is_some() && *resource.storage_key == *storage_key).cloned();
        let Some(resource) = resource else { break };
        let Ok(mut watcher) = api.store.watch(storage_key, "", api.store.revision()) else { break };
        let request = Request::internal(api, &registry, resource);
        if let Err(error) = request.delete_collection(b"").await {
            tracing::warn!(definition, message = error.message(), "cannot delete instances");
        }
        if !api.store.any(storage_key, "") {
            break;
        }
        // An instance still has finalizers; wait for the next change.
        if watcher.next(Limit::NONE).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
}

/// Removes the cleanup finalizer of a definition.
async fn release(api: &Arc<Api>, definition: &str) -> Result<(), String> {
    for _ in 0..=RETRIES {
        let Some(entry) = api.store.get(DEFINITIONS, definition) else { return Ok(()) };
        let mut object: Value = serde_json::from_slice(&entry.bytes).map_err(|error| error.to_string())?;
        let mut left = metadata::finalizers(&object)
            .into_iter()
            .filter(|name| *name != custom::CLEANUP)
            .map(str::to_owned)
            .collect::<Vec<_>>();
        left.dedup();
        if let Some(metadata) = metadata::of(&mut object) {
            metadata.insert("finalizers".to_owned(), json!(left));
        }
        let encoded = EncodedObject::new(&object).map_err(|error| error.to_string())?;
        let action = if left.is_empty() { Action::Remove(encoded) } else { Action::Put(encoded) };
        match api.store.write(DEFINITIONS, definition, Expect::Revision(entry.revision), action).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Unexpected(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("too many concurrent changes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(finalizers: &[&str], policy: Option<&str>, orphan: Option<bool>, expected: &[&str]) {
        check_of(false, finalizers, policy, orphan, expected);
    }

    fn check_of(namespace: bool, finalizers: &[&str], policy: Option<&str>, orphan: Option<bool>, expected: &[&str]) {
        let mut object = json!({"metadata": {"finalizers": finalizers}});
        let options = DeleteOptions {
            propagation_policy: policy.map(str::to_owned),
            orphan_dependents: orphan,
            ..DeleteOptions::default()
        };
        apply_propagation_policy(&mut object, &options, namespace);
        assert_eq!(metadata::finalizers(&object), expected);
    }

    #[test]
    fn the_policy_becomes_a_finalizer() {
        check(&["a"], Some("Orphan"), None, &["a", "orphan"]);
        check(&["a"], None, Some(true), &["a", "orphan"]);
        check(&["orphan"], Some("Foreground"), None, &["foregroundDeletion"]);
        check(&["orphan", "a"], Some("Background"), None, &["a"]);
        check(&["orphan"], None, None, &["orphan"]);
        check(&["orphan", "a"], None, Some(false), &["a"]);
        check_of(true, &["orphan", "a"], None, Some(false), &["a", "foregroundDeletion"]);
    }
}
