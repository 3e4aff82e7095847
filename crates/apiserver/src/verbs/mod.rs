//! The verbs of objects.

mod admission;
mod create;
mod delete;
mod list;
mod metadata;
mod patch;
mod pod;
mod presentation;
mod read;
mod reviews;
mod scale;
mod service;
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

    pub(crate) async fn answer(self, verb: &str, call: Call) -> Result<ApiResponse, StatusError> {
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

fn unsupported(parameter: &str, message: String) -> Cause {
    Cause { reason: "FieldValueNotSupported".to_owned(), message, field: parameter.to_owned() }
}
