//! Applies the objects of an Agent: contexts, claims, Service, Deployment, Secrets.

use std::{collections::BTreeMap, fmt::Debug};

use api::{
    Agent,
    kinds::agent::Rollout,
    names::{field_managers, labels},
};
use domain::{
    agent::claims::{ClaimChange, claim_change},
    run::target::Target,
    workload::agent::AgentObjects,
};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{PersistentVolumeClaim, Secret},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use observe::{Cache, Key};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::Error;
use crate::shared::{
    Shared, apply,
    dependents::{Dependency, version_of},
};

pub struct AppliedObjects {
    /// A changed Deployment waits until no Task runs.
    pub held: bool,
    /// A sentence about claims that cannot be changed; `None` if all are as wanted.
    pub claims: Option<String>,
}

/// Applies the objects of an Agent, claims and ConfigMaps first, so that Pods find what they mount. Everything but the
/// claims is held back if the server would restart while Tasks run on it.
pub async fn apply_objects(shared: &Shared, agent: &Agent, objects: AgentObjects) -> Result<AppliedObjects, Error> {
    let AgentObjects { config_maps, claims: wanted, deployment, service } = objects;
    let mut troubles = Vec::new();
    for claim in &wanted {
        troubles.extend(keep_claim(shared, agent, claim).await?);
    }
    let claims = (!troubles.is_empty()).then(|| troubles.join("; "));
    let busy = shared.tasks.queues.with(|index| index.running(&Target::agent(Key::of(agent)))) > 0;
    // Suspending an Agent means stopping its server, busy or not.
    let waits = agent.spec.rollout == Rollout::WhenIdle && !agent.spec.suspend;
    if busy && waits && restarts(shared, &deployment).await? {
        return Ok(AppliedObjects { held: true, claims });
    }
    for config_map in &config_maps {
        apply(shared, &shared.cache.config_maps, config_map).await?;
    }
    apply(shared, &shared.cache.services, &service).await?;
    apply(shared, &shared.cache.deployments, &deployment).await?;
    Ok(AppliedObjects { held: false, claims })
}

/// Creates or grows a claim. Returns why the claim cannot be as wanted: Kubernetes refuses most changes, and a claim
/// holds data, so it is never replaced.
async fn keep_claim(shared: &Shared, agent: &Agent, wanted: &PersistentVolumeClaim) -> Result<Option<String>, Error> {
    let key = Key::of(wanted);
    let claims = shared.api::<PersistentVolumeClaim>(&key.namespace);
    let live = match shared.cache.claims.object(&key) {
        Some(live) => live,
        None => match claims.create(&PostParams::default(), wanted).await {
            Ok(made) => {
                shared.cache.claims.insert_written(made);
                return Ok(None);
            }
            // The watch shows only claims with our label, and with a delay.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => claims.get(&key.name).await?.into(),
            Err(error) => return Err(error.into()),
        },
    };
    if apply::controller_uid(&*live) != agent.metadata.uid.as_deref() {
        let owner = format!("Agent {}", agent.name_any());
        return Err(apply::Error::Taken { kind: "PersistentVolumeClaim".into(), key, owner }.into());
    }
    match claim_change(&live, wanted) {
        ClaimChange::Nothing => Ok(None),
        ClaimChange::Impossible(why) => Ok(Some(why)),
        ClaimChange::Grow(size) => {
            let patch = Patch::Merge(json!({ "spec": { "resources": { "requests": { "storage": size } } } }));
            match claims.patch(&key.name, &PatchParams::default(), &patch).await {
                Ok(grown) => {
                    shared.cache.claims.insert_written(grown);
                    Ok(None)
                }
                // Not every storage class allows growth, and no claim grows before it is bound.
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => {
                    Ok(Some(format!("claim '{}' cannot grow to {size}: {}", key.name, status.message)))
                }
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Whether applying a Deployment replaces Pods that run. Only the API server knows: it normalises values.
async fn restarts(shared: &Shared, wanted: &Deployment) -> Result<bool, Error> {
    let Some(live) = shared.cache.deployments.object(&Key::of(wanted)) else { return Ok(false) };
    let template = |of: &Deployment| of.spec.as_ref().map(|spec| spec.template.clone());
    let next = shared.agents.applied.apply(&shared.client, &apply_params().dry_run(), wanted, Some(&live)).await?;
    Ok(next.is_some_and(|next| template(&next) != template(&live)))
}

/// Takes over fields of an Agent's objects that another manager wrote.
fn apply_params() -> PatchParams {
    PatchParams::apply(field_managers::AGENT).force()
}

/// Applies one object, and puts it into the cache ahead of the watch.
async fn apply<K>(shared: &Shared, cache: &Cache<K>, wanted: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let live = cache.object(&Key::of(wanted));
    if let Some(made) = shared.agents.applied.apply(&shared.client, &apply_params(), wanted, live.as_deref()).await? {
        cache.insert_written(made);
    }
    Ok(())
}

/// Creates a password of an Agent's server or companion, once.
pub async fn ensure_password(shared: &Shared, agent: &Agent, name: &str, key: &str) -> Result<(), Error> {
    let namespace = agent.namespace().unwrap_or_default();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace),
            labels: Some(BTreeMap::from([
                (labels::APP.to_owned(), labels::APP_VALUE.to_owned()),
                (labels::AGENT.to_owned(), agent.name_any()),
            ])),
            owner_references: agent.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(crate::shared::secret::password()?.into_bytes()))])),
        ..Secret::default()
    };
    create_secret_once(shared, agent, secret).await
}

/// Creates a Secret of an Agent unless it exists. A Secret of another owner stays unchanged.
pub async fn create_secret_once(shared: &Shared, agent: &Agent, secret: Secret) -> Result<(), Error> {
    let key = Key::of(&secret);
    let secrets = shared.api::<Secret>(&key.namespace);
    let dependency = Dependency::of::<Secret>(&key.namespace, &key.name);
    if let Some(existing) = secrets.get_metadata_opt(&key.name).await? {
        shared.dependents.insert(dependency, version_of(&existing));
        if apply::controller_uid(&existing) == agent.metadata.uid.as_deref() {
            return Ok(());
        }
        let owner = format!("Agent {}", agent.name_any());
        return Err(apply::Error::Taken { kind: "Secret".into(), key, owner }.into());
    }
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(made) => {
            // So the watch event for this Secret is no change.
            shared.dependents.insert(dependency, version_of(&made));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error.into()),
    }
}
