//! Tasks and CronTasks: a caller uses only Secrets that they can read, or whose owner opted in.
//!
//! The embedded API server, and a cluster with `deploy/admission/task-secrets.yaml`, check the same. A cluster without
//! that policy does not, and a caller may have no other way to the Kubernetes API than this server.

use domain::task_secrets::{Kind, NamedSecret, allows_tasks};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::{Caller, core_resource};
use crate::{
    error::{Answer, ApiError},
    state::Server,
};

/// Checks the writes of `caller` to objects of `kind` in `namespace`.
pub struct TaskSecrets<'a> {
    pub server: &'a Server,
    pub caller: &'a Caller,
    pub kind: Kind,
    pub namespace: &'a str,
}

impl TaskSecrets<'_> {
    /// Fails if `object`, which replaces `before`, names a Secret that the caller may not use.
    pub async fn check(&self, object: &Value, before: Option<&Value>) -> Answer<()> {
        for secret in self.kind.named(object, before) {
            if !self.may_use(&secret).await? {
                return Err(ApiError::forbidden(self.kind.refusal(&secret)));
            }
        }
        Ok(())
    }

    async fn may_use(&self, secret: &NamedSecret) -> Answer<bool> {
        let read = core_resource("get", "secrets", Some(self.namespace), Some(&secret.name));
        if self.server.reviews.may(self.caller, &read).await? {
            return Ok(true);
        }
        if !secret.can_exist() {
            return Ok(false);
        }
        // The caller may not see the label, so this server reads it.
        let secrets: Api<Secret> = Api::namespaced(self.server.cluster.own.clone(), self.namespace);
        match secrets.get_metadata_opt(&secret.name).await {
            Ok(found) => Ok(found.is_some_and(|secret| allows_tasks(Some(secret.labels())))),
            // This server has no right to read Secrets here.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
