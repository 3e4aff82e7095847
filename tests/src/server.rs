//! The API server of a case: takes requests and returns responses.

use anyhow::Context as _;
use futures::future::BoxFuture;
use http::Method;
use kube::{Client, client::Body};
use serde_json::Value;

use crate::Kind;

/// The query of a request that changes nothing and forgives nothing.
const STRICT_DRY_RUN: &str = "dryRun=All&fieldValidation=Strict";
/// The query of a request that forgives nothing.
const STRICT: &str = "fieldValidation=Strict";

/// An API server, wherever it runs.
pub trait ApiServer: Send + Sync {
    /// Sends a request. Every answer is a [`Response`], a refusal too; an error means that there was no answer.
    fn send(&self, request: Request) -> BoxFuture<'_, anyhow::Result<Response>>;
}

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Type of the body.
    pub content_type: &'static str,
    /// The body, which need not match its content type.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads an object or a list.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), content_type: "application/json", body: Vec::new() }
    }

    /// Deletes an object.
    pub fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    /// Creates an object, for real.
    pub fn create(kind: &Kind, namespace: &str, object: &Value) -> Self {
        Self::post(format!("{}?{STRICT}", kind.path(namespace)), object.to_string())
    }

    /// Asks whether an object could be created.
    pub fn try_create(kind: &Kind, namespace: &str, object: &Value) -> Self {
        Self::try_create_text(kind, namespace, object.to_string())
    }

    /// The same with any body, valid or not.
    pub fn try_create_text(kind: &Kind, namespace: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::post(format!("{}?{STRICT_DRY_RUN}", kind.path(namespace)), body)
    }

    /// Asks whether the status of a stored object could be replaced.
    pub fn try_replace_status(kind: &Kind, namespace: &str, name: &str, object: &Value) -> Self {
        let path = format!("{}/{name}/status?{STRICT_DRY_RUN}", kind.path(namespace));
        Self { method: Method::PUT, ..Self::post(path, object.to_string()) }
    }

    /// Stores a new object under its collection's path.
    pub fn create_at(path: &str, object: &Value) -> Self {
        Self::post(path.to_owned(), object.to_string())
    }

    /// Puts an object in the place of the stored one.
    pub fn replace(path: &str, object: &Value) -> Self {
        Self { method: Method::PUT, ..Self::post(path.to_owned(), object.to_string()) }
    }

    /// Patches an object or its status, for real.
    pub fn merge(path: &str, change: &Value) -> Self {
        let request = Self::post(format!("{path}?{STRICT}"), change.to_string());
        Self { method: Method::PATCH, content_type: "application/merge-patch+json", ..request }
    }

    /// Makes an object as it is given, whatever is stored now.
    pub fn apply(path: &str, object: &Value) -> Self {
        let request = Self::post(format!("{path}?fieldManager=blackbox&force=true"), object.to_string());
        Self { method: Method::PATCH, content_type: "application/apply-patch+yaml", ..request }
    }

    fn post(path: String, body: impl Into<Vec<u8>>) -> Self {
        Self { method: Method::POST, path, content_type: "application/json", body: body.into() }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub code: u16,
    /// The body: an object, or a Status with the error. Text that is not JSON becomes a JSON string.
    pub body: Value,
}

impl Response {
    /// Whether the request was granted.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The body of a request that was granted; otherwise an error with the server's message.
    pub fn granted(self) -> anyhow::Result<Value> {
        anyhow::ensure!(self.is_success(), "{} {}", self.code, self.message());
        Ok(self.body)
    }

    /// The sentence that a person reads.
    pub fn message(&self) -> &str {
        self.body.as_str().or_else(|| self.body["message"].as_str()).unwrap_or_default()
    }

    /// The errors, field by field.
    pub fn causes(&self) -> Vec<Cause> {
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        causes
            .map(|cause| Cause { field: text(&cause["field"]), message: text(&cause["message"]) })
            // A remark about other checks, not a finding.
            .filter(|cause| !cause.message.contains("some validation rules were not checked"))
            .collect()
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Path of the field.
    pub field: String,
    /// The error message.
    pub message: String,
}

/// An API server that a client of kube reaches.
pub struct Remote(Client);

impl Remote {
    /// The server of `client`.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

impl ApiServer for Remote {
    fn send(&self, request: Request) -> BoxFuture<'_, anyhow::Result<Response>> {
        Box::pin(async move {
            let what = format!("{} {}", request.method, request.path);
            let mut wire = http::Request::new(Body::from(request.body));
            *wire.method_mut() = request.method;
            *wire.uri_mut() = request.path.parse()?;
            wire.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(request.content_type));
            let response = self.0.send(wire).await.with_context(|| what.clone())?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.with_context(|| what)?;
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
            Ok(Response { code, body })
        })
    }
}
