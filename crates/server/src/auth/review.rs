//! TokenReviews and SubjectAccessReviews, cached briefly.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use api::names::GROUP;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest as _, Sha256};

use super::{Caller, Credential, Token, User};
use crate::error::{Answer, ApiError};

/// How long the refusal of a token is cached: shorter, because the token may have been created a moment ago.
const REFUSAL_TTL: Duration = Duration::from_secs(3);
/// Maximum number of cached tokens. If none has expired, the cache is cleared.
const MOST_TOKENS: usize = 10_000;
/// Maximum number of cached rights (users times rights).
const MOST_RIGHTS: usize = 100_000;

/// The attributes of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Such as `list`.
    pub verb: String,
    /// API group; empty for Kubernetes' own core.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Such as `log` of `pods`.
    pub subresource: Option<String>,
    /// Namespace; all of them when unset.
    pub namespace: Option<String>,
    /// Name; all of them when unset.
    pub name: Option<String>,
}

/// `verb` on objects of one of our kinds.
pub fn ours(verb: &str, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Attributes {
    Attributes {
        verb: verb.to_owned(),
        group: GROUP.to_owned(),
        resource: resource.to_owned(),
        subresource: None,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
    }
}

/// `verb` on `resource/subresource` of Kubernetes' own core.
pub fn core_resource(verb: &str, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Attributes {
    let (resource, subresource) = resource.split_once('/').map_or((resource, None), |(a, b)| (a, Some(b.to_owned())));
    Attributes { group: String::new(), subresource, ..ours(verb, resource, namespace, name) }
}

impl Attributes {
    /// Whether the request is read-only. Reading a Secret does not count as read-only.
    fn only_reads(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch") && self.resource != "secrets"
    }

    /// A description for error messages.
    fn describe(&self) -> String {
        let sub = self.subresource.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
        let name = self.name.as_ref().map(|name| format!(" '{name}'")).unwrap_or_default();
        let place = self
            .namespace
            .as_ref()
            .map_or_else(|| " in all namespaces".to_owned(), |namespace| format!(" in namespace '{namespace}'"));
        format!("{} {}{sub}{name}{place}", self.verb, self.resource)
    }
}

/// A cache whose entries expire.
#[derive(Debug)]
struct ExpiringCache<K, V> {
    known: Mutex<HashMap<K, (V, Instant)>>,
    most: usize,
}

impl<K: Eq + Hash, V: Clone> ExpiringCache<K, V> {
    fn new(most: usize) -> Self {
        Self { known: Mutex::default(), most }
    }

    fn get(&self, key: &K) -> Option<V> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value.clone())
    }

    fn put(&self, key: K, value: V, life: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.most {
            let now = Instant::now();
            known.retain(|_, (_, until)| *until > now);
            if known.len() >= self.most {
                known.clear();
            }
        }
        known.insert(key, (value, Instant::now() + life));
    }
}

/// Authenticates tokens and checks rights at the Kubernetes API.
#[derive(Debug)]
pub struct Reviews {
    tokens: Api<TokenReview>,
    rights: Api<SubjectAccessReview>,
    users: ExpiringCache<[u8; 32], Option<Arc<User>>>,
    allowed: ExpiringCache<(Arc<User>, Attributes), bool>,
    ttl: Duration,
}

impl Reviews {
    /// Reviews made with the server's own `client`, cached for `ttl`.
    pub fn new(client: Client, ttl: Duration) -> Self {
        Self {
            ttl,
            tokens: Api::all(client.clone()),
            rights: Api::all(client),
            users: ExpiringCache::new(MOST_TOKENS),
            allowed: ExpiringCache::new(MOST_RIGHTS),
        }
    }

    /// The user of a token.
    pub async fn user(&self, token: &Token) -> Answer<Arc<User>> {
        let refused = || ApiError::unauthorized("the token is not valid here");
        if token.reveal().is_empty() {
            // The Kubernetes API would report an invalid review instead of an invalid token.
            return Err(refused());
        }
        let key: [u8; 32] = Sha256::digest(token.reveal()).into();
        if let Some(known) = self.users.get(&key) {
            return known.ok_or_else(refused);
        }
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.reveal().to_owned()), audiences: None },
            ..TokenReview::default()
        };
        let status =
            self.tokens.create(&PostParams::default(), &review).await.map_err(|error| not_reviewed(&error))?.status;
        let status = status.filter(|status| status.authenticated == Some(true));
        let user = status.and_then(|status| status.user).map(|user| {
            Arc::new(User {
                name: user.username.unwrap_or_default(),
                uid: user.uid,
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            })
        });
        self.users.put(key, user.clone(), if user.is_some() { self.ttl } else { REFUSAL_TTL.min(self.ttl) });
        user.ok_or_else(refused)
    }

    /// Whether `caller` has a right.
    pub async fn may(&self, caller: &Caller, what: &Attributes) -> Answer<bool> {
        match caller.credential {
            Credential::Server { write } => Ok(write || what.only_reads()),
            Credential::Token(_) | Credential::Impersonated { .. } => {
                let key = (Arc::clone(&caller.user), what.clone());
                if let Some(known) = self.allowed.get(&key) {
                    return Ok(known);
                }
                let allowed = self.ask(&caller.user, what).await?;
                self.allowed.put(key, allowed, self.ttl);
                Ok(allowed)
            }
        }
    }

    /// Fails unless `caller` has a right.
    pub async fn require(&self, caller: &Caller, what: &Attributes) -> Answer<()> {
        if self.may(caller, what).await? {
            return Ok(());
        }
        Err(ApiError::forbidden(format!("user '{}' may not {}", caller.user.name, what.describe())))
    }

    async fn ask(&self, user: &User, what: &Attributes) -> Answer<bool> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: user.uid.clone(),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(what.verb.clone()),
                    group: Some(what.group.clone()),
                    resource: Some(what.resource.clone()),
                    subresource: what.subresource.clone(),
                    namespace: what.namespace.clone(),
                    name: what.name.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = self.rights.create(&PostParams::default(), &review).await.map_err(|error| not_reviewed(&error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// A failed review is a problem of this server, not of the caller.
fn not_reviewed(error: &kube::Error) -> ApiError {
    tracing::error!(%error, "token or access review failed");
    ApiError::unavailable("tokens and rights cannot be reviewed now; try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_forgotten_in_time_and_never_grows_without_end() {
        let cache = ExpiringCache::new(2);
        cache.put(1, "a", Duration::ZERO);
        assert_eq!(cache.get(&1), None);
        cache.put(2, "b", Duration::from_mins(1));
        cache.put(3, "c", Duration::from_mins(1));
        assert_eq!(cache.get(&2), Some("b"));
        cache.put(4, "d", Duration::from_mins(1));
        assert_eq!((cache.get(&2), cache.get(&4)), (None, Some("d")));
    }

    #[test]
    fn rights_read_as_sentences() {
        let what = core_resource("get", "pods/log", Some("team"), Some("a-pod"));
        assert_eq!(what.describe(), "get pods/log 'a-pod' in namespace 'team'");
        assert_eq!(ours("list", "tasks", None, None).describe(), "list tasks in all namespaces");
    }

    #[test]
    fn reading_a_secret_is_more_than_reading() {
        assert!(!core_resource("get", "secrets", Some("a"), None).only_reads());
        assert!(ours("list", "tasks", None, None).only_reads());
        assert!(!core_resource("create", "pods/exec", Some("a"), None).only_reads());
    }
}
