//! Share links: a Secret with a token, owned by the Agent that it opens.

use std::collections::BTreeMap;

use api::{
    Agent,
    kinds::agent::ShareStatus,
    names::{annotations, labels},
};
use domain::{
    agent::share::{self, ShareLink},
    workload::names,
};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Resource as _, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use super::Error;
use crate::shared::{
    Shared,
    apply::controller_uid,
    dependents::{Dependency, Uses},
    now, secret,
};

/// Creates or removes the Secret of the share link, and adds it to `uses`. Returns the state of the link.
pub async fn pass(shared: &Shared, agent: &Agent, ready: bool, uses: &mut Uses<'_>) -> Result<ShareLink, Error> {
    let link = ShareLink::of(agent.spec.share.as_ref(), ready, now());
    let secret =
        Dependency::of::<Secret>(&agent.namespace().unwrap_or_default(), &names::agent_share(&agent.name_any()));
    uses.add(secret.clone());
    match link {
        // The Secret decides, not the status: the token in it gives access to the Agent.
        ShareLink::Off if shared.dependents.version(&secret).is_none() => {}
        ShareLink::Off => remove(shared, agent).await?,
        ShareLink::Active { .. } | ShareLink::Expired | ShareLink::AgentNotReady { .. } => make(shared, agent).await?,
    }
    Ok(link)
}

/// The share link as the status reports it.
pub fn status(agent: &Agent, link: ShareLink) -> Option<ShareStatus> {
    let secret_name = Some(names::agent_share(&agent.name_any()));
    let url = Some(share::PATH.to_owned());
    (link != ShareLink::Off).then(|| ShareStatus { secret_name, url, active: link.is_active() })
}

async fn make(shared: &Shared, agent: &Agent) -> Result<(), Error> {
    let name = agent.name_any();
    let namespace = agent.namespace().unwrap_or_default();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(names::agent_share(&name)),
            namespace: Some(namespace.clone()),
            labels: Some(BTreeMap::from([
                (labels::APP.to_owned(), labels::APP_VALUE.to_owned()),
                (labels::AGENT.to_owned(), name.clone()),
                (labels::SHARE_TOKEN.to_owned(), "true".to_owned()),
            ])),
            annotations: Some(BTreeMap::from([
                (annotations::AGENT_NAME.to_owned(), name),
                (annotations::AGENT_NAMESPACE.to_owned(), namespace),
            ])),
            owner_references: agent.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("token".to_owned(), ByteString(secret::token()?.into_bytes()))])),
        ..Secret::default()
    };
    super::objects::create_secret_once(shared, agent, secret).await
}

/// Removes our Secret. A Secret of that name with another owner stays.
async fn remove(shared: &Shared, agent: &Agent) -> Result<(), Error> {
    let secrets = shared.api::<Secret>(&agent.namespace().unwrap_or_default());
    let name = names::agent_share(&agent.name_any());
    let found = secrets.get_metadata_opt(&name).await?;
    let Some(ours) = found.filter(|found| controller_uid(found) == agent.metadata.uid.as_deref()) else {
        return Ok(());
    };
    let preconditions = Some(Preconditions { uid: ours.uid(), resource_version: None });
    match secrets.delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
