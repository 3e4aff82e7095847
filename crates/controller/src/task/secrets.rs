//! Secrets that a Task itself names: the run starts only if it may use them.
//!
//! The API server refuses a Task whose author may not use a Secret that it names, where the admission policy is in force.
//! Elsewhere the author is unknown, so the owner of the Secret has to opt in.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use api::{
    Task,
    conditions::reasons,
    names::{TASK_SECRETS_POLICY, labels},
};
use domain::task_secrets::{Checked, Kind, NamedSecret, allows_tasks, is_in_force, refusal_at_start};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::Secret,
};
use kube::{Api, Resource, ResourceExt as _};
use observe::Key;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::start::Error;
use crate::shared::{
    Shared,
    dependents::{Dependency, Uses},
};

/// How long the state of the admission policy is cached.
const POLICY_TTL: Duration = Duration::from_secs(10);

/// Decides whether Tasks may use the Secrets that they name.
#[derive(Debug, Default)]
pub struct TaskSecrets {
    checked: Checked,
    /// When the policy was looked up, and whether it was in force.
    policy: Mutex<Option<(Instant, bool)>>,
}

impl TaskSecrets {
    /// With the checks that other parts of the platform do.
    pub fn new(checked: Checked) -> Self {
        Self { checked, policy: Mutex::default() }
    }

    /// Fails if the spec of `task` names a Secret that it may not use. A Secret that does not exist is reported by
    /// [`super::needs`].
    pub async fn check(&self, shared: &Shared, task: &Task, uses: &mut Uses<'_>) -> Result<(), Error> {
        let namespace = task.namespace().unwrap_or_default();
        let named = Kind::Task.named(&json!({ "spec": task.spec }), None);
        if named.is_empty() || self.checked == Checked::Elsewhere {
            return Ok(());
        }
        let mut closed = Vec::new();
        for secret in named {
            uses.add(Dependency::of::<Secret>(&namespace, &secret.name));
            if is_closed(shared, &namespace, &secret).await? {
                closed.push(secret);
            }
        }
        if closed.is_empty() || self.policy_is_in_force(shared).await? {
            return Ok(());
        }
        let sentences: Vec<String> = closed.iter().map(refusal_at_start).collect();
        Err(Error::Lacks { reason: reasons::SECRET_NOT_ALLOWED, message: sentences.join("; ") })
    }

    async fn policy_is_in_force(&self, shared: &Shared) -> Result<bool, kube::Error> {
        let cached = || self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, in_force)) = cached().filter(|(at, _)| at.elapsed() < POLICY_TTL) {
            return Ok(in_force);
        }
        let policy = readable::<ValidatingAdmissionPolicy>(shared).await?;
        let binding = readable::<ValidatingAdmissionPolicyBinding>(shared).await?;
        let in_force = is_in_force(policy.as_ref(), binding.as_ref());
        *cached() = Some((Instant::now(), in_force));
        Ok(in_force)
    }
}

/// Whether a Secret exists without the label.
async fn is_closed(shared: &Shared, namespace: &str, secret: &NamedSecret) -> Result<bool, kube::Error> {
    if !secret.can_exist() || shared.opt_ins.contains(&Key::new(namespace, &secret.name)) {
        return Ok(false);
    }
    // The watch may be behind.
    let found = shared.api::<Secret>(namespace).get_metadata_opt(&secret.name).await?;
    Ok(found.is_some_and(|secret| !allows_tasks(secret.metadata.labels.as_ref())))
}

/// The policy or its binding. One that does not exist, or that the controller may not read, protects nothing.
async fn readable<K>(shared: &Shared) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    match Api::<K>::all(shared.client.clone()).get_opt(TASK_SECRETS_POLICY).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            tracing::warn!(kind = %K::kind(&()), label = labels::ALLOW_TASKS, "no right to read the admission policy");
            Ok(None)
        }
        // A server without this API answers with a plain 404.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        found => found,
    }
}
