//! Requests to the Kubernetes API, each with the rights of who asked for it.

use std::time::Duration;

use http::{HeaderValue, Request, header};
use kube::{Client, Config, Resource, client::Body, config::AuthInfo};
use serde_json::{Value, json};

use crate::{
    auth::{Caller, Standing},
    error::{Answer, ApiError},
};

/// An answer of the Kubernetes API that is no stream comes within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ways to the Kubernetes API.
#[derive(Clone)]
pub struct Cluster {
    /// With the server's own rights.
    pub own: Client,
    /// With no rights: a caller's token is added to each request.
    bare: Client,
}

/// How to reach the Kubernetes API.
pub enum Access {
    /// Over the network, as of a kubeconfig or in a Pod.
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
        // A quiet log or terminal is no lost connection.
        config.read_timeout = None;
        let own = Client::try_from(config.clone())?;
        // A client certificate would win over a token.
        config.auth_info = AuthInfo::default();
        let bare = Client::try_from(config)?;
        Ok(Self { own, bare })
    }

    /// A client with the rights of `caller`. Check them first: without a token it has the server's.
    pub fn client(&self, caller: &Caller) -> Answer<Client> {
        let Standing::Token(token) = &caller.standing else { return Ok(self.own.clone()) };
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| ApiError::unauthorized("the token is not valid here"))?;
        value.set_sensitive(true);
        let (bare, namespace) = (self.bare.clone(), self.bare.default_namespace().to_owned());
        let service = tower::service_fn(move |mut request: Request<Body>| {
            request.headers_mut().insert(header::AUTHORIZATION, value.clone());
            let bare = bare.clone();
            async move { bare.send(request).await }
        });
        Ok(Client::new(service, namespace))
    }
}

/// Path of an object, or of all objects of a kind.
pub fn path<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: Option<&str>) -> String {
    let all = K::url_path(&(), namespace);
    name.map_or_else(|| all.clone(), |name| format!("{all}/{name}"))
}

/// How a change is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Only tell what would happen.
    pub dry_run: bool,
}

impl Manner {
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
pub async fn create(client: &Client, path: &str, object: &Value, manner: Manner) -> Answer<Value> {
    send(client, "POST", &format!("{path}{}", manner.query()), "application/json", Some(object)).await
}

/// Replaces an object.
pub async fn replace(client: &Client, path: &str, object: &Value, manner: Manner) -> Answer<Value> {
    send(client, "PUT", &format!("{path}{}", manner.query()), "application/json", Some(object)).await
}

/// Changes fields of an object; null removes one.
pub async fn merge(client: &Client, path: &str, change: &Value, manner: Manner) -> Answer<Value> {
    send(client, "PATCH", &format!("{path}{}", manner.query()), "application/merge-patch+json", Some(change)).await
}

/// Deletes an object, and what it owns after it.
pub async fn delete(client: &Client, path: &str, version: Option<&str>, manner: Manner) -> Answer<()> {
    let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
    if let Some(version) = version {
        options["preconditions"] = json!({ "resourceVersion": version });
    }
    if manner.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    send(client, "DELETE", path, "application/json", Some(&options)).await.map(|_| ())
}

async fn send(client: &Client, method: &str, uri: &str, kind: &str, body: Option<&Value>) -> Answer<Value> {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, kind)
        .header(header::ACCEPT, "application/json")
        .body(bytes)
        .map_err(|error| ApiError::internal("a request cannot be made", &error))?;
    match tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(ApiError::unavailable("the Kubernetes API does not answer; try again")),
    }
}
