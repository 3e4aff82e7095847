//! Plays a sequence on a server and records requests and answers.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use futures::io::AsyncBufReadExt as _;
use kube::Client;
use kube::client::Body as WireBody;
use serde_json::{Value, json};
use testenv::json::merge;

use crate::plain::Plain;
use crate::steps::{Body, Sequence, Step, Until, Version};
use crate::writes::GENERATED;

/// A watch ends by an event; this is for one that never comes.
const LIMIT: Duration = Duration::from_mins(1);

/// One request and its answer, as they are compared.
pub struct Exchange {
    pub request: String,
    pub answer: Answer,
}

/// An answer without the parts that differ between any two servers.
#[derive(PartialEq)]
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    /// One body; of a watch, all events.
    pub bodies: Vec<Value>,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} {:?}", self.code, self.warnings)?;
        self.bodies.iter().try_for_each(|body| writeln!(f, "{body}"))
    }
}

/// The observed states of an object.
#[derive(Default)]
struct Observed {
    first_version: String,
    last: Value,
}

struct Player<'a> {
    client: &'a Client,
    plain: Plain,
    observed: HashMap<String, Observed>,
    start: String,
    latest: u64,
    token: String,
}

/// Plays a sequence to its end.
pub async fn play(client: &Client, sequence: &Sequence) -> anyhow::Result<Vec<Exchange>> {
    let mut player = Player {
        client,
        plain: Plain::default(),
        observed: HashMap::new(),
        start: String::new(),
        latest: 0,
        token: String::new(),
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": sequence.namespace}});
    let created = player.exchange(&Step::new("POST", "/api/v1/namespaces").json(&namespace)).await?;
    anyhow::ensure!(created.answer.code == 201, "namespace {}: {}", sequence.namespace, created.answer);
    player.start = player.latest.to_string();
    let mut exchanges = Vec::with_capacity(sequence.steps.len());
    for step in &sequence.steps {
        let exchange = match &step.until {
            Some(until) => player.watch(step, until).await,
            None => player.exchange(step).await,
        };
        exchanges
            .push(exchange.with_context(|| format!("sequence {}: {} {}", sequence.number, step.method, step.path))?);
    }
    Ok(exchanges)
}

impl Player<'_> {
    async fn exchange(&mut self, step: &Step) -> anyhow::Result<Exchange> {
        let body = self.body(step);
        let target = self.target(step);
        let request = format!("{} {target} {} {body}", step.method, step.content_type);
        let wire = http::Request::builder()
            .method(step.method)
            .uri(&target)
            .header("content-type", step.content_type)
            .header("accept", step.accept)
            .header("user-agent", "differential/1.0")
            .body(WireBody::from(body.into_bytes()))?;
        let response = self.client.send(wire).await?;
        let code = response.status().as_u16();
        let texts = response.headers().get_all("warning").iter();
        let mut warnings: Vec<String> =
            texts.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()).collect();
        // "Warnings about Pods and Services" in docs/local-differences.md.
        warnings.retain(|warning| !warning.contains(": duplicate port definition with "));
        warnings.sort();
        let bytes = response.into_body().collect_bytes().await?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        self.learn(step, code, &body);
        let bodies = vec![self.plain.body(body)];
        Ok(Exchange { request: self.plain.text(&request), answer: Answer { code, warnings, bodies } })
    }

    /// Creates the object that ends the watch, then watches from the past until it comes.
    async fn watch(&mut self, step: &Step, until: &Until) -> anyhow::Result<Exchange> {
        // Before the end is known: the watch begins at the newest version of that moment.
        let target = self.target(step);
        let end = Step::new("POST", &until.collection).json(&until.object);
        let created = self.exchange(&end).await?;
        if created.answer.code != 201 {
            return Ok(created);
        }
        let wire = http::Request::get(&target).header("accept", step.accept).body(Vec::new())?;
        let mut answer = Answer { code: 200, warnings: Vec::new(), bodies: Vec::new() };
        match self.client.request_stream(wire).await {
            Ok(stream) => {
                let read = tokio::time::timeout(LIMIT, self.events(stream)).await;
                answer.bodies = read.context("the watch does not end")??;
            }
            Err(kube::Error::Api(status)) => {
                answer.code = status.code;
                answer.bodies.push(json!({"reason": status.reason, "message": self.plain.text(&status.message)}));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Exchange { request: format!("WATCH {target}"), answer })
    }

    async fn events(&mut self, stream: impl futures::AsyncBufRead) -> anyhow::Result<Vec<Value>> {
        let stream = std::pin::pin!(stream);
        let mut lines = stream.lines();
        let mut events = Vec::new();
        while let Some(line) = lines.try_next().await? {
            let mut event: Value = serde_json::from_str(&line)?;
            let object = event["object"].take();
            let last = object["metadata"]["name"] == "zz-end";
            event["object"] = self.plain.body(object);
            events.push(event);
            if last {
                break;
            }
        }
        Ok(events)
    }

    /// Stores the values that later requests refer to.
    fn learn(&mut self, step: &Step, code: u16, body: &Value) {
        if !(200..300).contains(&code) {
            let name = body["details"]["name"].as_str().unwrap_or_default();
            if step.method == "POST" && GENERATED.iter().any(|prefix| is_generated(name, prefix)) {
                self.plain.learn_name(name);
            }
            return;
        }
        let (name, prefix) = (&body["metadata"]["name"], &body["metadata"]["generateName"]);
        if let (Some(name), Some(prefix)) = (name.as_str(), prefix.as_str())
            && is_generated(name, prefix)
        {
            self.plain.learn_name(name);
            return;
        }
        let dry = matches!(&step.body, Body::Text(text) if text.contains("\"dryRun\":[\"All\"]"));
        if dry || step.query.iter().any(|parameter| parameter == "dryRun=All") {
            return;
        }
        if let Some(token) = body["metadata"]["continue"].as_str() {
            token.clone_into(&mut self.token);
        }
        let metadata = &body["metadata"];
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        if body.get("items").is_none() {
            self.latest = self.latest.max(version.parse().unwrap_or_default());
        }
        let name = metadata["name"].as_str().unwrap_or_default();
        let Some(path) = &step.object else { return };
        if name.is_empty() || metadata["uid"].is_null() || matches!(body["kind"].as_str(), Some("Status" | "Scale")) {
            return;
        }
        let observed = self.observed.entry(path.clone()).or_default();
        if observed.first_version.is_empty() {
            version.clone_into(&mut observed.first_version);
        }
        observed.last = body.clone();
    }

    fn target(&self, step: &Step) -> String {
        let query = self.filled(step, &step.query.join("&"));
        if query.is_empty() { step.path.clone() } else { format!("{}?{query}", step.path) }
    }

    fn body(&self, step: &Step) -> String {
        match &step.body {
            Body::Nothing => String::new(),
            Body::Text(text) => self.filled(step, text),
            Body::Stored { change, version } => {
                let observed = step.object.as_ref().and_then(|path| self.observed.get(path));
                let mut object = observed.map_or_else(|| json!({}), |observed| observed.last.clone());
                merge(&mut object, change);
                match version {
                    Version::Observed => {}
                    Version::None => merge(&mut object, &json!({"metadata": {"resourceVersion": null}})),
                    Version::First => {
                        let first = observed.map(|observed| observed.first_version.as_str()).unwrap_or_default();
                        merge(&mut object, &json!({"metadata": {"resourceVersion": first}}));
                    }
                }
                object.to_string()
            }
        }
    }

    /// A text with its placeholders replaced by the values that only the server knows.
    fn filled(&self, step: &Step, text: &str) -> String {
        if !text.contains('<') {
            return text.to_owned();
        }
        let observed = step.object.as_ref().and_then(|path| self.observed.get(path));
        let metadata = |field: &str| {
            let value = observed.and_then(|observed| observed.last["metadata"][field].as_str());
            value.unwrap_or_default().to_owned()
        };
        let first = observed.map(|observed| observed.first_version.clone()).unwrap_or_default();
        text.replace("<uid>", &metadata("uid"))
            .replace("<version>", &metadata("resourceVersion"))
            .replace("<first-version>", &first)
            .replace("<latest>", &self.latest.to_string())
            .replace("<start>", &self.start)
            .replace("<continue>", &self.token)
    }
}

/// Whether a server generated this name from that prefix.
fn is_generated(name: &str, prefix: &str) -> bool {
    name.starts_with(prefix) && name.len() == prefix.len() + 5
}
