//! The real API server that is asked, and its answers in a form that can be compared.

use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use kube::{Client, client::Body};
use kubeopencode_objects::schema::Violation;
use serde_json::{Value, json};
use testenv::{Cluster, Options};
use tokio::sync::OnceCell;

use crate::cases::definitions;

/// A server establishes a definition in less than a second; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

/// An answer.
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    /// The body of a request that was granted.
    pub fn granted(self) -> anyhow::Result<Value> {
        anyhow::ensure!(self.code < 300, "{} {}", self.code, self.body["message"]);
        Ok(self.body)
    }
}

/// A namespace on an API server without controllers: objects are stored as they were sent.
pub struct Oracle {
    client: Client,
    pub namespace: String,
}

impl Oracle {
    pub async fn start() -> anyhow::Result<Self> {
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_try_init(|| testenv::start(Options::api_only())).await?;
        let oracle = Self { client: cluster.client().await?, namespace: cluster.namespace().await? };
        INSTALLED.get_or_try_init(|| oracle.install()).await?;
        Ok(oracle)
    }

    /// Makes our kinds known to the server and waits until it serves them.
    async fn install(&self) -> anyhow::Result<()> {
        let definitions = definitions()?;
        let defined = definitions.iter().map(async |kind| self.define(&kind.crd, &kind.path(&self.namespace)).await);
        try_join_all(defined).await.map(drop)
    }

    /// Makes a kind known to the server and waits until it serves its objects at `path`.
    pub async fn define(&self, crd: &Value, path: &str) -> anyhow::Result<()> {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.ask(Method::POST, definitions, crd).await?.granted().with_context(|| path.to_owned())?;
        let started = tokio::time::Instant::now();
        while self.ask(Method::GET, path, &Value::Null).await?.code != 200 {
            anyhow::ensure!(started.elapsed() < LIMIT, "{path} is not served");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub async fn ask(&self, method: Method, path: &str, object: &Value) -> anyhow::Result<Answer> {
        self.ask_for("application/json", method, path, object).await
    }

    /// The same for an answer in a form of its own.
    pub async fn ask_for(
        &self,
        form: &'static str,
        method: Method,
        path: &str,
        object: &Value,
    ) -> anyhow::Result<Answer> {
        let merges = method == Method::PATCH;
        let sent = if object.is_null() { Vec::new() } else { object.to_string().into_bytes() };
        let mut request = http::Request::new(Body::from(sent));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse()?;
        let content = if merges { "application/merge-patch+json" } else { "application/json" };
        request.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content));
        request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(form));
        let response = self.client.send(request).await.with_context(|| path.to_owned())?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let body =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({ "message": String::from_utf8_lossy(&bytes) }));
        Ok(Answer { code, body })
    }
}

/// The answer of an API server: an object, or errors (reason, field, message) in no particular order.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Accepted(Value),
    Refused(Vec<(String, String, String)>),
    /// The body could not even be read.
    Unreadable(String),
}

impl Verdict {
    pub fn refused(violations: &[Violation]) -> Self {
        let complaints = violations
            .iter()
            .map(|violation| (violation.reason.name().to_owned(), violation.field.clone(), violation.message.clone()));
        Self::Refused(sorted(complaints.collect()))
    }

    pub fn of(answer: &Answer) -> Self {
        if answer.code < 300 {
            return Self::Accepted(without_bookkeeping(&answer.body));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if answer.code != 422 {
            return Self::Unreadable(format!("{} {}", answer.code, text(&answer.body["message"])));
        }
        let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.map(|cause| (text(&cause["reason"]), text(&cause["field"]), text(&cause["message"])));
        Self::Refused(sorted(causes.collect()))
    }
}

fn sorted(mut complaints: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    complaints.sort();
    complaints.dedup();
    complaints
}

/// An object without the fields that a server adds to every one.
pub fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"] {
            metadata.remove(field);
        }
    }
    object
}
