//! Requests to the Kubernetes API, each with the rights of the caller.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use kube::{Client, Config, Resource, client::Body, config::AuthInfo};
use observe::Readable;
use serde_json::{Value, json};

use crate::{
    auth::{Caller, Credential, User, oidc::AUTHENTICATED},
    error::{Answer, ApiError},
};

/// Timeout of requests to the Kubernetes API, streams excepted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients of the Kubernetes API.
#[derive(Clone)]
pub struct Cluster {
    /// With the server's own rights.
    pub own: Client,
    /// With no rights: a caller's token is added to each request.
    bare: Client,
}

/// How to reach the Kubernetes API.
pub enum Access {
    /// Over the network, with a kubeconfig or from inside a Pod.
    Config(Box<Config>),
    /// In the same process.
    Client(Client),
}

impl Cluster {
    /// The cluster behind `access`.
    pub fn new(access: Access) -> Result<Self, kube::Error> {
        let mut config = match access {
            Access::Config(config) => *config,
            Access::Client(client) => return Ok(Self { own: client.clone(), bare: client }),
        };
        // A log or terminal may be silent for any time.
        config.read_timeout = None;
        let own = Client::try_from(config.clone())?;
        // A client certificate would win over a token.
        config.auth_info = AuthInfo::default();
        let bare = Client::try_from(config)?;
        Ok(Self { own, bare })
    }

    /// A client with the server's own rights whose responses are always valid JSON, for the watches.
    pub fn readable(&self) -> Client {
        Client::new(Readable(self.own.clone()), self.own.default_namespace().to_owned())
    }

    /// A client with the rights of `caller`. Check rights first: [`Credential::Server`] is the server's own.
    pub fn client(&self, caller: &Caller) -> Answer<Client> {
        match &caller.credential {
            Credential::Server { .. } => Ok(self.own.clone()),
            Credential::Token(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
                    .map_err(|_| ApiError::unauthorized("the token is not valid here"))?;
                value.set_sensitive(true);
                Ok(with_headers(&self.bare, HeaderMap::from_iter([(header::AUTHORIZATION, value)])))
            }
            Credential::Impersonated { .. } => Ok(with_headers(&self.own, impersonation(&caller.user)?)),
        }
    }
}

/// The client with these headers in every request, replacing any of the same names.
fn with_headers(client: &Client, headers: HeaderMap) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |mut request: Request<Body>| {
        for name in headers.keys() {
            request.headers_mut().remove(name);
        }
        for (name, value) in &headers {
            request.headers_mut().append(name, value.clone());
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

/// The headers with which this server impersonates `user`.
fn impersonation(user: &User) -> Answer<HeaderMap> {
    const USER: HeaderName = HeaderName::from_static("impersonate-user");
    const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
    // A missing header would leave the server's own rights.
    let value = |text: &str| match HeaderValue::from_str(text) {
        Ok(value) if !text.is_empty() => Ok(value),
        _ => Err(ApiError::unauthorized("this name cannot be used here")),
    };
    let mut headers = HeaderMap::from_iter([(USER, value(&user.name)?)]);
    for group in user.groups.iter().filter(|group| *group != AUTHENTICATED) {
        headers.append(GROUP, value(group)?);
    }
    Ok(headers)
}

/// Path of an object, or of all objects of a kind.
pub fn path<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: Option<&str>) -> String {
    let all = K::url_path(&(), namespace);
    name.map_or_else(|| all.clone(), |name| format!("{all}/{name}"))
}

/// Options of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Validate only; nothing is stored.
    pub dry_run: bool,
}

impl WriteOptions {
    fn query(self) -> &'static str {
        if self.dry_run {
            "?fieldManager=kubeopencode-server&fieldValidation=Strict&dryRun=All"
        } else {
            "?fieldManager=kubeopencode-server&fieldValidation=Strict"
        }
    }
}

/// Reads an object.
pub async fn read(client: &Client, path: &str) -> Answer<Value> {
    send(client, "GET", path, "application/json", None).await
}

/// Creates an object.
pub async fn create(client: &Client, path: &str, object: &Value, options: WriteOptions) -> Answer<Value> {
    send(client, "POST", &format!("{path}{}", options.query()), "application/json", Some(object)).await
}

/// Replaces an object.
pub async fn replace(client: &Client, path: &str, object: &Value, options: WriteOptions) -> Answer<Value> {
    send(client, "PUT", &format!("{path}{}", options.query()), "application/json", Some(object)).await
}

/// Changes fields of an object; null removes one.
pub async fn merge(client: &Client, path: &str, change: &Value, options: WriteOptions) -> Answer<Value> {
    send(client, "PATCH", &format!("{path}{}", options.query()), "application/merge-patch+json", Some(change)).await
}

/// Creates an object or changes the fields that `manager` applied; a field of another manager is a conflict.
pub async fn apply(client: &Client, path: &str, object: &Value, manager: &str) -> Answer<Value> {
    let uri = format!("{path}?fieldManager={manager}&fieldValidation=Strict");
    send(client, "PATCH", &uri, "application/apply-patch+yaml", Some(object)).await
}

/// Deletes an object, and its dependents in the background.
pub async fn delete(client: &Client, path: &str, version: Option<&str>, options: WriteOptions) -> Answer<()> {
    let mut body = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
    if let Some(version) = version {
        body["preconditions"] = json!({ "resourceVersion": version });
    }
    if options.dry_run {
        body["dryRun"] = json!(["All"]);
    }
    send(client, "DELETE", path, "application/json", Some(&body)).await.map(|_| ())
}

async fn send(client: &Client, method: &str, uri: &str, kind: &str, body: Option<&Value>) -> Answer<Value> {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, kind)
        .header(header::ACCEPT, "application/json")
        .body(bytes)
        .map_err(|error| ApiError::internal("a request cannot be built", &error))?;
    match tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(ApiError::unavailable("the Kubernetes API does not answer; try again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impersonated_user_is_named_with_all_groups() {
        let groups = ["oidc:dev", "oidc:ops", AUTHENTICATED].map(str::to_owned).to_vec();
        let user = User { name: "oidc:anna".to_owned(), groups, ..User::default() };
        let headers = impersonation(&user).unwrap();
        assert_eq!(headers["impersonate-user"], "oidc:anna");
        assert_eq!(headers.get_all("impersonate-group").iter().collect::<Vec<_>>(), ["oidc:dev", "oidc:ops"]);
    }

    #[test]
    fn a_name_that_no_header_can_carry_is_not_impersonated() {
        for name in ["", "a\nb"] {
            assert!(impersonation(&User { name: name.to_owned(), ..User::default() }).is_err(), "{name}");
        }
    }
}
