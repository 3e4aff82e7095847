//! Tasks and CronTasks: an author uses only Secrets that they can read, or whose owner opted in.
//!
//! A cluster does the same with a ValidatingAdmissionPolicy, `deploy/admission/task-secrets.yaml`.

use api::names::GROUP;
use domain::task_secrets::{Kind, allows_tasks};
use serde_json::Value;

use super::{Request, metadata};
use crate::auth::{AccessCheck, Attributes, MASTERS};
use crate::status_error::StatusError;

impl Request {
    /// Rejects a Task or CronTask that names a Secret which the user may not use.
    pub(super) fn check_task_secrets(&self, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
        if self.resource.group != GROUP || !self.subresource.is_empty() || self.user.is_in(MASTERS) {
            return Ok(());
        }
        let Some(kind) = Kind::of(&self.resource.kind) else { return Ok(()) };
        let named = kind.named(object, old);
        let Some(refused) = named.iter().find(|secret| !self.may_use(&secret.name)) else { return Ok(()) };
        let (resource, name) = (&self.resource, metadata::text(object, "name"));
        Err(StatusError::forbidden(&resource.plural, &resource.group, name, &kind.refusal(refused)))
    }

    fn may_use(&self, secret: &str) -> bool {
        let attributes = Attributes::Resource {
            group: String::new(),
            resource: "secrets".to_owned(),
            subresource: String::new(),
            namespace: self.namespace.clone(),
            name: secret.to_owned(),
        };
        self.api.allows(&self.user, &AccessCheck { verb: "get".to_owned(), attributes }) || self.opted_in(secret)
    }

    /// Whether the owner of a Secret lets every Task of the namespace use it.
    fn opted_in(&self, secret: &str) -> bool {
        let stored = self.api.store.get("secrets", &format!("{}/{secret}", self.namespace));
        let secret = stored.and_then(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok());
        let labels = secret.and_then(|secret| serde_json::from_value(secret["metadata"]["labels"].clone()).ok());
        allows_tasks(labels.as_ref())
    }
}
