//! What can be done with objects.

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
use objects::schema::{complaints, strict_error};
use serde_json::Value;

use crate::api::{Api, Call};
use crate::auth::User;
use crate::http::{self as answers, Answer, Form};
use crate::kinds::{Registry, Resource};
use crate::refusal::{Cause, Refusal};
use crate::request::Query;
use crate::store::{Entry, WriteError};

/// A request to a kind, with everything that is known about it.
pub(crate) struct Request {
    pub(crate) api: Arc<Api>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resource: Arc<Resource>,
    /// Empty if the kind has none, or for all of them.
    pub(crate) namespace: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) user: User,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: String,
    pub(crate) now: String,
    /// How the real server calls the options of the verb.
    pub(crate) options_kind: &'static str,
}

/// What happens to fields that a kind does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The result of a write.
struct Written {
    object: Value,
    code: StatusCode,
    warnings: Vec<String>,
}

impl Request {
    /// Carries out `verb`.
    pub(crate) async fn answer(self, verb: &str, call: Call) -> Result<Answer, Refusal> {
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
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    /// The stored object.
    fn stored(&self) -> Result<Entry, Refusal> {
        let key = self.resource.key(&self.namespace, &self.name);
        self.api.store.get(&self.resource.shelf, &key).ok_or_else(|| self.resource.not_found(&self.name))
    }

    fn is_dry_run(&self) -> Result<bool, Refusal> {
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
            // What clients get that say nothing.
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

    /// Judges the parameters that every write has, before anybody looks at the body.
    fn check_write_options(&self) -> Result<(), Refusal> {
        self.check_options(None)
    }

    /// The same, together with what else is wrong with them.
    fn check_options(&self, wrong: Option<Cause>) -> Result<(), Refusal> {
        let (dry_run, validation) = (self.dry_run().err(), self.field_validation().err());
        let causes: Vec<Cause> = wrong.into_iter().chain(dry_run).chain(validation).collect();
        if causes.is_empty() { Ok(()) } else { Err(self.invalid_options(&causes)) }
    }

    fn invalid_options(&self, causes: &[Cause]) -> Refusal {
        Refusal::invalid(self.options_kind, "meta.k8s.io", "", causes)
    }

    /// Complains about fields that a kind does not have, as loudly as the client asked for: with warnings, or with the
    /// sentence of a refusal.
    fn complain(&self, duplicates: &[String], unknown: &[String]) -> Result<Vec<String>, String> {
        if duplicates.is_empty() && unknown.is_empty() {
            return Ok(Vec::new());
        }
        match self.field_validation() {
            Ok(FieldValidation::Ignore) => Ok(Vec::new()),
            Ok(FieldValidation::Strict) => Err(strict_error(duplicates, unknown)),
            // Whatever else a client says was refused before its body was read.
            Ok(FieldValidation::Warn) | Err(_) => Ok(complaints(duplicates, unknown)),
        }
    }

    /// The manager to which a write is ascribed.
    fn manager(&self) -> String {
        objects::apply::manager_name(self.query.get("fieldManager"), &self.user_agent)
    }

    fn written(&self, written: &Written) -> Result<Answer, Refusal> {
        let body = self.present_one(&written.object)?;
        let mut answer = answers::json(written.code, body);
        answers::warn(&mut answer, &written.warnings);
        Ok(answer)
    }

    fn write_failed(&self, name: &str, error: &WriteError) -> Refusal {
        match error {
            WriteError::Unexpected(None) => self.resource.not_found(name),
            WriteError::Unexpected(Some(_)) => self.resource.stale(name),
            WriteError::Disk(_) | WriteError::Closed => Refusal::internal(error),
        }
    }
}

/// What is wrong with a parameter that has a value nobody knows.
fn unsupported(parameter: &str, message: String) -> Cause {
    Cause { reason: "FieldValueNotSupported".to_owned(), message, field: parameter.to_owned() }
}
