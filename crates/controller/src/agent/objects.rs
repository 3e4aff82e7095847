//! Makes true what an Agent consists of: contexts, claims, Service, Deployment, Secrets.

use std::{collections::BTreeMap, fmt::Debug};

use api::{
    Agent,
    kinds::agent::Rollout,
    names::{field_managers, labels},
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
use kubeopencode_core::{
    agent_workload::AgentObjects,
    claims::{ClaimChange, claim_change},
};
use observe::{Key, Kind};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::Error;
use crate::{
    apply,
    context::Context,
    parts::{Part, version_of},
    task::target::Target,
};

/// What became of the objects of an Agent.
pub struct Made {
    /// A changed Deployment waits until no Task runs.
    pub held: bool,
    /// What is wrong with its claims, as a sentence.
    pub claims: Option<String>,
}

/// Applies everything, storage and contexts first, so that Pods find what they mount. All but the storage is held back
/// if the server would restart under the Tasks that run on it.
pub async fn make_true(ctx: &Context, agent: &Agent, objects: AgentObjects) -> Result<Made, Error> {
    let AgentObjects { config_maps, claims: wanted, deployment, service } = objects;
    let mut troubles = Vec::new();
    for claim in &wanted {
        troubles.extend(keep_claim(ctx, agent, claim).await?);
    }
    let claims = (!troubles.is_empty()).then(|| troubles.join("; "));
    let busy = ctx.queues.running(&Target::agent(Key::of(agent))) > 0;
    // Whoever suspends an Agent wants its server to stop.
    let waits = agent.spec.rollout == Rollout::WhenIdle && !agent.spec.suspend;
    if busy && waits && restarts(ctx, &deployment).await? {
        return Ok(Made { held: true, claims });
    }
    for config_map in &config_maps {
        apply(ctx, &ctx.seen.config_maps, config_map).await?;
    }
    apply(ctx, &ctx.seen.services, &service).await?;
    apply(ctx, &ctx.seen.deployments, &deployment).await?;
    Ok(Made { held: false, claims })
}

/// Creates a claim, or lets it grow. Answers why it cannot be as wanted: Kubernetes refuses most changes, and data hangs
/// on it.
async fn keep_claim(ctx: &Context, agent: &Agent, wanted: &PersistentVolumeClaim) -> Result<Option<String>, Error> {
    let key = Key::of(wanted);
    let claims = ctx.api::<PersistentVolumeClaim>(&key.namespace);
    let live = match ctx.seen.claims.object(&key) {
        Some(live) => live,
        None => match claims.create(&PostParams::default(), wanted).await {
            Ok(made) => {
                ctx.seen.claims.learn(made);
                return Ok(None);
            }
            // The watch shows only what carries our label, and that a little later.
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
                    ctx.seen.claims.learn(grown);
                    Ok(None)
                }
                // Not every storage can grow, and none does before it is there.
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => {
                    Ok(Some(format!("claim '{}' cannot grow to {size}: {}", key.name, status.message)))
                }
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Whether applying a Deployment replaces Pods that run. Only the API server can tell: it writes values in its own way.
async fn restarts(ctx: &Context, wanted: &Deployment) -> Result<bool, Error> {
    let Some(live) = ctx.seen.deployments.object(&Key::of(wanted)) else { return Ok(false) };
    let template = |of: &Deployment| of.spec.as_ref().map(|spec| spec.template.clone());
    let next = ctx.applied.apply(&ctx.client, &by_us().dry_run(), wanted, Some(&live)).await?;
    Ok(next.is_some_and(|next| template(&next) != template(&live)))
}

/// What an Agent consists of is ours, whoever else wrote it.
fn by_us() -> PatchParams {
    PatchParams::apply(field_managers::AGENT).force()
}

/// Applies one object, and remembers it ahead of the watch.
async fn apply<K>(ctx: &Context, seen: &Kind<K>, wanted: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let live = seen.object(&Key::of(wanted));
    if let Some(made) = ctx.applied.apply(&ctx.client, &by_us(), wanted, live.as_deref()).await? {
        seen.learn(made);
    }
    Ok(())
}

/// Makes the password of an Agent's server, once.
pub async fn ensure_password(ctx: &Context, agent: &Agent, name: &str, key: &str) -> Result<(), Error> {
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
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(crate::secret::password()?.into_bytes()))])),
        ..Secret::default()
    };
    create_secret_once(ctx, agent, secret).await
}

/// Creates a Secret of an Agent unless it is there. One that belongs to somebody else is left alone.
pub async fn create_secret_once(ctx: &Context, agent: &Agent, secret: Secret) -> Result<(), Error> {
    let key = Key::of(&secret);
    let secrets = ctx.api::<Secret>(&key.namespace);
    let part = Part::of::<Secret>(&key.namespace, &key.name);
    if let Some(existing) = secrets.get_metadata_opt(&key.name).await? {
        ctx.parts.learn(part, version_of(&existing));
        if apply::controller_uid(&existing) == agent.metadata.uid.as_deref() {
            return Ok(());
        }
        let owner = format!("Agent {}", agent.name_any());
        return Err(apply::Error::Taken { kind: "Secret".into(), key, owner }.into());
    }
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(made) => {
            // When the watch tells of it, that is no news.
            ctx.parts.learn(part, version_of(&made));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error.into()),
    }
}
