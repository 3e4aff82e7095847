//! ServiceAccount tokens: TokenRequest and token authentication.

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Request, metadata};
use crate::api::{Api, hex, printed};
use crate::auth::{Bound, Claims, ISSUER, Identity, User};
use crate::body;
use crate::http::{self as responses, ApiResponse};
use crate::status_error::{Cause, StatusError};

const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
/// Maximum lifetime in Kubernetes.
const MAX_SECONDS: i64 = 1 << 32;

impl Request {
    /// `serviceaccounts/token`.
    pub(super) fn request_token(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let mut review = body::decode(self.content_type.as_deref(), bytes)?.value;
        let account = self.resource.read(&self.stored()?.bytes)?;
        let spec = review["spec"].clone();
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            let (detail, field) = if seconds < MIN_SECONDS {
                ("may not specify a duration less than 10 minutes", "spec.expirationSeconds")
            } else {
                ("may not specify a duration larger than 2^32 seconds", "spec.expirationSeconds")
            };
            let message = format!("Invalid value: {seconds}: {detail}");
            let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field: field.to_owned() };
            return Err(StatusError::invalid("TokenRequest", "authentication.k8s.io", &self.name, &[cause]));
        }
        let audiences: Vec<String> =
            spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let identity = Identity {
            namespace: self.namespace.clone(),
            serviceaccount: Bound { name: self.name.clone(), uid: metadata::text(&account, "uid").to_owned() },
            pod: self.bound(&spec["boundObjectRef"], "Pod", "pods")?,
            secret: self.bound(&spec["boundObjectRef"], "Secret", "secrets")?,
        };
        let now = Timestamp::now();
        let id = hex(&self.api.random::<16>()?);
        let claims = Claims::new(identity, audiences, now.as_second(), seconds, id);
        let token = self.api.pki.tokens.sign(&claims).map_err(StatusError::internal)?;
        let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        review["apiVersion"] = json!("authentication.k8s.io/v1");
        review["kind"] = json!("TokenRequest");
        review["metadata"] = json!({"name": self.name, "namespace": self.namespace, "creationTimestamp": self.now});
        review["spec"]["audiences"] = json!(claims.aud);
        review["spec"]["expirationSeconds"] = json!(seconds);
        review["status"] = json!({"token": token, "expirationTimestamp": printed(end)});
        Ok(responses::json(StatusCode::CREATED, review.to_string()))
    }

    /// The object that a token is bound to.
    fn bound(&self, reference: &Value, kind: &str, plural: &str) -> Result<Option<Bound>, StatusError> {
        if reference["kind"] != kind {
            return Ok(None);
        }
        let name = reference["name"].as_str().unwrap_or_default();
        let uid = stored_uid(&self.api, plural, &self.namespace, name)
            .ok_or_else(|| StatusError::not_found(plural, "", name))?;
        if let Some(expected) = reference["uid"].as_str().filter(|expected| !expected.is_empty() && *expected != uid) {
            let why = format!(
                "the UID in the bound object reference ({expected}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            return Err(StatusError::conflict(plural, "", name, &why));
        }
        Ok(Some(Bound { name: name.to_owned(), uid }))
    }
}

fn stored_uid(api: &Api, storage_key: &str, namespace: &str, name: &str) -> Option<String> {
    let entry = api.store.get(storage_key, &format!("{namespace}/{name}"))?;
    let object: Value = serde_json::from_slice(&entry.bytes).ok()?;
    Some(metadata::text(&object, "uid").to_owned())
}

/// The user of a token, and which of `audiences` it is for; `None` if it is not valid.
pub(crate) fn token_user(api: &Api, token: &str, audiences: &[String]) -> Option<(User, Vec<String>)> {
    let claims = api.pki.tokens.verify(token, audiences, Timestamp::now().as_second()).ok()?;
    let identity = claims.identity;
    let alive = |storage_key: &str, bound: &Bound| {
        stored_uid(api, storage_key, &identity.namespace, &bound.name).as_ref() == Some(&bound.uid)
    };
    if !alive("serviceaccounts", &identity.serviceaccount)
        || identity.pod.as_ref().is_some_and(|pod| !alive("pods", pod))
        || identity.secret.as_ref().is_some_and(|secret| !alive("secrets", secret))
    {
        return None;
    }
    let groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", identity.namespace)];
    let mut user = User::authenticated(claims.sub, groups);
    user.uid.clone_from(&identity.serviceaccount.uid);
    let mut note = |key: &str, value: String| {
        user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    note("credential-id", format!("JTI={}", claims.jti));
    if let Some(pod) = identity.pod {
        note("pod-name", pod.name);
        note("pod-uid", pod.uid);
    }
    let shared = claims.aud.into_iter().filter(|audience| audiences.contains(audience)).collect();
    Some((user, shared))
}

/// The audiences of a review; by default that of this server.
pub(super) fn asked_audiences(spec: &Value) -> Vec<String> {
    let list: Vec<String> =
        spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if list.is_empty() { vec![ISSUER.to_owned()] } else { list }
}
