//! The verbs of objects.

mod admission;
mod create;
mod delete;
mod escalation;
mod list;
mod metadata;
mod patch;
mod pod;
mod presentation;
mod read;
mod reviews;
mod scale;
mod service;
mod task_secrets;
mod tokens;
mod update;
mod watch;

pub(crate) use create::bootstrap;
pub(crate) use tokens::token_user;

use std::sync::Arc;

use http::StatusCode;
use objects::schema::{field_warnings, strict_error};
use serde_json::Value;

use crate::api::{Api, Call, now};
use crate::auth::User;
use crate::http::{self as responses, ApiResponse, Representation};
use crate::kinds::{Registry, Resource};
use crate::request::Query;
use crate::status_error::{Cause, StatusError};
use crate::store::{Entry, WriteError};

/// Size of body and stored object from which a write runs off the async workers, in bytes: about a millisecond.
const HEAVY: usize = 64 * 1024;

/// A request to a kind.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) api: Arc<Api>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resource: Arc<Resource>,
    /// Empty for cluster-scoped kinds, and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) query: Query,
    pub(crate) form: Representation,
    pub(crate) user: User,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: String,
    pub(crate) now: String,
    /// The name of the options type of the verb, for messages.
    pub(crate) options_kind: &'static str,
}

/// The `fieldValidation` parameter: how unknown fields are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

struct Written {
    object: Value,
    code: StatusCode,
    warnings: Vec<String>,
}

impl Request {
    /// A request of the server itself to all objects of a kind.
    fn internal(api: &Arc<Api>, registry: &Arc<Registry>, resource: Arc<Resource>) -> Self {
        Self {
            api: Arc::clone(api),
            registry: Arc::clone(registry),
            resource,
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            query: Query::default(),
            form: Representation::Whole,
            user: User::master(),
            content_type: None,
            user_agent: "kube-apiserver".to_owned(),
            now: now(),
            options_kind: "CreateOptions",
        }
    }

    pub(crate) async fn answer(self, verb: &'static str, call: Call) -> Result<ApiResponse, StatusError> {
        if !self.is_heavy(verb, call.body.len()) {
            return self.perform(verb, call).await;
        }
        // The queue is fair, and one core stays free for small requests.
        let _turn = Arc::clone(&self.api.heavy).acquire_owned().await.map_err(StatusError::internal)?;
        off_worker(self.perform(verb, call)).await?
    }

    /// Whether a write takes so long that other requests would wait for its async worker.
    fn is_heavy(&self, verb: &str, body: usize) -> bool {
        let stored = || match verb {
            "patch" => self.stored().map_or(0, |entry| entry.bytes.len()),
            _ => 0,
        };
        matches!(verb, "create" | "update" | "patch") && body + stored() > HEAVY
    }

    async fn perform(self, verb: &str, call: Call) -> Result<ApiResponse, StatusError> {
        match (&*self.subresource, verb) {
            ("log", _) => return self.log().await,
            ("exec" | "attach" | "portforward", _) => return self.stream(call),
            ("scale", _) => return self.scale(verb, &call.body).await,
            ("binding", _) => return self.bind(&call.body).await,
            ("eviction", _) => return self.evict(&call.body).await,
            ("token", _) => return self.request_token(&call.body),
            ("finalize", _) => return self.update(&call.body).await,
            _ => {}
        }
        if self.resource.verbs == ["create"] {
            return self.review(&call.body).await;
        }
        match verb {
            "get" => self.get(),
            "list" => self.list().await,
            "watch" => self.watch().await,
            "create" => self.create(&call.body).await,
            "update" => self.update(&call.body).await,
            "patch" => self.patch(&call.body).await,
            "delete" => self.delete(&call.body).await,
            "deletecollection" => self.delete_collection(&call.body).await,
            _ => Err(StatusError::method_not_allowed()),
        }
    }

    fn stored(&self) -> Result<Entry, StatusError> {
        let key = self.resource.key(&self.namespace, &self.name);
        self.api.store.get(&self.resource.storage_key, &key).ok_or_else(|| self.resource.not_found(&self.name))
    }

    fn is_dry_run(&self) -> Result<bool, StatusError> {
        self.dry_run().map_err(|cause| self.invalid_options(&[cause]))
    }

    fn dry_run(&self) -> Result<bool, Cause> {
        let mut dry = false;
        for value in self.query.all("dryRun").filter(|value| !value.is_empty()) {
            if value != "All" {
                let message = format!("Unsupported value: [{value:?}]: supported values: \"All\"");
                return Err(unsupported("dryRun", message));
            }
            dry = true;
        }
        Ok(dry)
    }

    fn field_validation(&self) -> Result<FieldValidation, Cause> {
        match self.query.get("fieldValidation") {
            Some("Ignore") => Ok(FieldValidation::Ignore),
            // The default.
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => {
                let message =
                    format!("Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
                Err(unsupported("fieldValidation", message))
            }
        }
    }

    fn ignores_unknown_fields(&self) -> bool {
        matches!(self.field_validation(), Ok(FieldValidation::Ignore))
    }

    /// Validates the parameters of a write, before the body is read.
    fn check_write_options(&self) -> Result<(), StatusError> {
        self.check_options(None)
    }

    /// The same, together with other invalid parameters.
    fn check_options(&self, wrong: Option<Cause>) -> Result<(), StatusError> {
        let (dry_run, validation) = (self.dry_run().err(), self.field_validation().err());
        let causes: Vec<Cause> = wrong.into_iter().chain(dry_run).chain(validation).collect();
        if causes.is_empty() { Ok(()) } else { Err(self.invalid_options(&causes)) }
    }

    fn invalid_options(&self, causes: &[Cause]) -> StatusError {
        StatusError::invalid(self.options_kind, "meta.k8s.io", "", causes)
    }

    /// Reports unknown and duplicate fields according to `fieldValidation`: as warnings, or as an error message.
    fn report_fields(&self, duplicates: &[String], unknown: &[String]) -> Result<Vec<String>, String> {
        if duplicates.is_empty() && unknown.is_empty() {
            return Ok(Vec::new());
        }
        match self.field_validation() {
            Ok(FieldValidation::Ignore) => Ok(Vec::new()),
            Ok(FieldValidation::Strict) => Err(strict_error(duplicates, unknown)),
            // Invalid values were rejected before the body was read.
            Ok(FieldValidation::Warn) | Err(_) => Ok(field_warnings(duplicates, unknown)),
        }
    }

    /// The field manager of a write.
    fn manager(&self) -> String {
        objects::apply::manager_name(self.query.get("fieldManager"), &self.user_agent)
    }

    fn written(&self, written: &Written) -> Result<ApiResponse, StatusError> {
        let body = self.present_one(&written.object)?;
        let mut answer = responses::json(written.code, body);
        responses::warn(&mut answer, &written.warnings);
        Ok(answer)
    }

    fn write_failed(&self, name: &str, error: &WriteError) -> StatusError {
        match error {
            WriteError::Unexpected(None) => self.resource.not_found(name),
            WriteError::Unexpected(Some(_)) => self.resource.stale(name),
            WriteError::Disk(_) | WriteError::Closed => StatusError::internal(error),
        }
    }
}

/// Runs `work` on a thread that may block. The work ends even if its client does not wait for it.
async fn off_worker<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, StatusError> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(work)).await.map_err(StatusError::internal)
}

fn unsupported(parameter: &str, message: String) -> Cause {
    Cause { reason: "FieldValueNotSupported".to_owned(), message, field: parameter.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::Options;

    /// A request to the Role `big`, with a rule of `size` bytes.
    async fn request(size: usize) -> Request {
        let api = Api::open(Options::default()).await.unwrap();
        let registry = api.registry();
        let resource = Arc::clone(registry.of_kind("rbac.authorization.k8s.io/v1", "Role").unwrap());
        let mut request = Request::internal(&api, &registry, resource);
        request.namespace = "default".to_owned();
        let role = json!({"metadata": {"name": "big"}, "rules": [rule(size)]});
        request.create(role.to_string().as_bytes()).await.unwrap();
        request.name = "big".to_owned();
        request
    }

    fn rule(size: usize) -> Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["x".repeat(size)]})
    }

    #[tokio::test]
    async fn a_large_write_does_not_hold_an_async_worker() {
        let here = std::thread::current().id();
        assert_ne!(off_worker(async { std::thread::current().id() }).await.unwrap(), here);
        let small = request(10).await;
        assert!(!small.is_heavy("patch", 1000));
        assert!(small.is_heavy("update", HEAVY + 1));
        assert!(!small.is_heavy("get", HEAVY + 1));
        // A small patch of a large object is as expensive.
        assert!(request(HEAVY).await.is_heavy("patch", 10));
    }

    #[test]
    fn a_large_write_runs_on_a_thread_that_may_block() {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.on_thread_start(|| {
            THREADS.fetch_add(1, Ordering::Relaxed);
        });
        let runtime = runtime.build().unwrap();
        runtime.block_on(async {
            let request = request(10).await;
            let update = async |size: usize| {
                let role = json!({"metadata": {"name": "big"}, "rules": [rule(size)]});
                let (parts, ()) = http::Request::put("/").body(()).unwrap().into_parts();
                let call = Call { parts, body: role.to_string().into(), certificate: None, upgrade: None };
                let before = THREADS.load(Ordering::Relaxed);
                request.clone().answer("update", call).await.unwrap();
                THREADS.load(Ordering::Relaxed) - before
            };
            assert_eq!(update(100).await, 0);
            assert_eq!(update(HEAVY).await, 1);
        });
    }

    #[tokio::test]
    async fn patches_do_not_make_an_object_larger_than_a_body() {
        let mut request = request(2 * 1024 * 1024).await;
        request.content_type = Some("application/json-patch+json".to_owned());
        let patch = |size: usize| json!([{"op": "add", "path": "/rules/-", "value": rule(size)}]).to_string();
        let refused = request.patch(patch(2 * 1024 * 1024).as_bytes()).await.unwrap_err();
        assert_eq!((refused.code().as_u16(), refused.is("RequestEntityTooLarge")), (413, true));
        assert!(request.patch(patch(100).as_bytes()).await.is_ok());
    }
}
