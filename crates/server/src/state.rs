//! The state that handlers share.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use futures::{StreamExt as _, stream};
use observe::Key;
use tokio::sync::{Semaphore, watch};

use crate::{
    Options,
    auth::{Caller, Codes, Reviews, Sessions, core_resource, oidc, ours},
    cluster::Cluster,
    edge::limits::Limits,
    error::{Answer, ApiError},
    live::cache::Caches,
    metrics::Metrics,
    routes::{artifact::Manifests, kind::Served, share::Shares},
};

/// Concurrent reviews of one request.
const AT_ONCE: usize = 16;

/// Shared state of all handlers.
pub struct Server {
    pub options: Options,
    pub caches: Arc<Caches>,
    pub cluster: Cluster,
    pub reviews: Reviews,
    pub sessions: Sessions,
    pub codes: Arc<Codes>,
    /// The identity provider, if there is one.
    pub oidc: Option<oidc::Provider>,
    pub limits: Limits,
    pub throttle: Option<Semaphore>,
    pub log_searches: Semaphore,
    pub metrics: Metrics,
    pub shares: Shares,
    pub manifests: Manifests,
    pub started: Instant,
    /// Becomes true at shutdown.
    pub ending: watch::Receiver<bool>,
}

/// The namespaces that a caller may list a kind in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    All,
    /// Only these namespaces.
    Only(BTreeSet<String>),
}

impl Visible {
    /// Whether an object is visible.
    pub fn shows(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.contains(&key.namespace),
        }
    }
}

impl Server {
    /// The namespaces in which `caller` may list a kind, within `namespace` if given. Fails if there is none.
    pub async fn visible<K: Served>(&self, caller: &Caller, namespace: Option<&str>) -> Answer<Visible> {
        if let Some(namespace) = namespace {
            self.reviews.require(caller, &ours("list", K::PLURAL, Some(namespace), None)).await?;
            return Ok(Visible::Only(BTreeSet::from([namespace.to_owned()])));
        }
        let everywhere = ours("list", K::PLURAL, None, None);
        if self.reviews.may(caller, &everywhere).await? {
            return Ok(Visible::All);
        }
        let mut candidates = K::cache(&self.caches).namespaces();
        candidates.extend(self.namespaces());
        let found = self.allowed_in(caller, K::PLURAL, candidates).await?;
        if found.is_empty() {
            return Err(ApiError::forbidden(format!(
                "user '{}' may not list {} in any namespace",
                caller.user.name,
                K::PLURAL
            )));
        }
        Ok(Visible::Only(found))
    }

    /// As [`Self::visible`], but returns an empty set instead of an error.
    pub async fn visible_or_nothing<K: Served>(&self, caller: &Caller, namespace: Option<&str>) -> Answer<Visible> {
        match self.visible::<K>(caller, namespace).await {
            Err(error) if error.status == http::StatusCode::FORBIDDEN => Ok(Visible::Only(BTreeSet::new())),
            answer => answer,
        }
    }

    /// Those of `namespaces` in which `caller` may list `plural`.
    async fn allowed_in(
        &self,
        caller: &Caller,
        plural: &str,
        namespaces: BTreeSet<String>,
    ) -> Answer<BTreeSet<String>> {
        let asked = stream::iter(namespaces).map(|namespace| async move {
            let what = ours("list", plural, Some(&namespace), None);
            self.reviews.may(caller, &what).await.map(|allowed| allowed.then_some(namespace))
        });
        let answers: Vec<Answer<Option<String>>> = asked.buffer_unordered(AT_ONCE).collect().await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// All namespaces of the cluster.
    fn namespaces(&self) -> BTreeSet<String> {
        let all = self.caches.namespaces.filter(|_, _| true);
        all.iter().filter_map(|namespace| namespace.metadata.name.clone()).collect()
    }

    /// The namespaces that `caller` may see.
    pub async fn namespaces_of(&self, caller: &Caller) -> Answer<BTreeSet<String>> {
        let all = self.namespaces();
        if self.reviews.may(caller, &core_resource("list", "namespaces", None, None)).await?
            || self.reviews.may(caller, &ours("list", "tasks", None, None)).await?
        {
            return Ok(all);
        }
        self.allowed_in(caller, "tasks", all).await
    }
}

/// Waits for shutdown.
pub async fn shutdown_requested(ending: &mut watch::Receiver<bool>) {
    // A dropped sender means that the process exits.
    let _ = ending.wait_for(|ending| *ending).await;
}
