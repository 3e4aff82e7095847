//! Exports the traces of finished runs to a collector, as OTLP over HTTP in JSON.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | the collector; `/v1/traces` is appended. `KubeOpenCodeConfig` wins |
//! | `OTEL_EXPORTER_OTLP_HEADERS` | headers of the export, `name=value,…`; the place for secret ones |
//!
//! Written by hand: an export is one POST of one JSON document, and the OpenTelemetry libraries would be the largest
//! dependency of this crate.

use std::{collections::BTreeMap, time::Duration};

use api::{Task, TaskStatus};
use domain::{platform::Platform, run::trace};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::{
    Environment,
    shared::background::{Background, ended},
};

/// Runs in the queue. If the collector does not answer, traces are dropped, so memory stays bounded.
const BACKLOG: usize = 1024;
const BATCH: usize = 128;
/// Timeout of one export.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where traces are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    url: String,
    headers: BTreeMap<String, String>,
    resource: Vec<(String, String)>,
}

impl Collector {
    /// The collector of the platform, if one is configured.
    pub fn of(platform: &Platform, environment: &Environment) -> Option<Self> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let configured = platform.open_telemetry.as_ref().filter(|telemetry| telemetry.enabled);
        let endpoint = configured.and_then(|telemetry| telemetry.endpoint.clone());
        let endpoint = endpoint.or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"))?;
        // Headers from Secrets are for Pods: those Secrets are in the namespaces of the Pods.
        let plain = configured.and_then(|telemetry| telemetry.headers.as_ref()).into_iter().flatten();
        let plain = plain.filter_map(|(name, header)| Some((name.clone(), header.value.clone()?)));
        let variable = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let own = variable.split(',').filter_map(|pair| pair.split_once('='));
        let own = own.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        let mut resource = vec![("service.name".to_owned(), "kubeopencode".to_owned())];
        resource.extend(configured.and_then(|telemetry| telemetry.resource_attributes.clone()).unwrap_or_default());
        Some(Self {
            url: format!("{}/v1/traces", endpoint.trim_end_matches('/')),
            headers: plain.chain(own).collect(),
            resource,
        })
    }
}

/// Exports the traces of finished runs.
#[derive(Clone, Debug)]
pub struct Traces(mpsc::Sender<(Collector, Vec<Value>)>);

impl Traces {
    /// Starts the exporter.
    pub fn start() -> (Self, Background) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (Self(sender), Background::start("traces", |ending| send(receiver, ending)))
    }

    /// Queues the trace of a run that ended with `status`.
    pub fn ended(&self, collector: Collector, task: &Task, status: &TaskStatus) {
        let spans = trace::spans(task, status);
        if !spans.is_empty() && self.0.try_send((collector, spans)).is_err() {
            tracing::warn!("a trace was dropped: the collector is too slow or does not answer");
        }
    }
}

/// Exports runs until shutdown, and then flushes the queue.
async fn send(mut runs: mpsc::Receiver<(Collector, Vec<Value>)>, mut ending: watch::Receiver<bool>) {
    let mut batch = Vec::new();
    // Created with the first export: it loads all certificates of the system into memory.
    let mut http = None;
    loop {
        let taken = tokio::select! {
            taken = runs.recv_many(&mut batch, BATCH) => taken,
            () = ended(&mut ending), if !runs.is_closed() => {
                runs.close();
                continue;
            }
        };
        if taken == 0 {
            return;
        }
        if http.is_none() {
            http = client().inspect_err(|error| tracing::warn!(%error, "no traces: no HTTP client")).ok();
        }
        let Some(client) = &http else {
            batch.clear();
            continue;
        };
        let mut waiting = std::mem::take(&mut batch).into_iter().peekable();
        while let Some((collector, mut spans)) = waiting.next() {
            while let Some((_, more)) = waiting.next_if(|(next, _)| *next == collector) {
                spans.extend(more);
            }
            if let Err(error) = export(client, &collector, spans).await {
                // The address may contain a password.
                tracing::warn!(error = %error.without_url(), "traces were not taken");
            }
        }
    }
}

fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().timeout(TIMEOUT).user_agent("kubeopencode").build()
}

async fn export(client: &reqwest::Client, collector: &Collector, spans: Vec<Value>) -> Result<(), reqwest::Error> {
    let mut request = client.post(&collector.url).json(&trace::export(&spans, &collector.resource));
    for (name, value) in &collector.headers {
        request = request.header(name, value);
    }
    request.send().await?.error_for_status().map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::kinds::config::OpenTelemetry;

    use super::*;

    fn collector(endpoint: Option<&str>, variable: Option<&'static str>) -> Option<String> {
        let environment: Environment =
            Arc::new(move |name| variable.filter(|_| name == "OTEL_EXPORTER_OTLP_ENDPOINT").map(ToOwned::to_owned));
        let mut platform = Platform::from(None, &*environment);
        platform.open_telemetry = endpoint.map(|endpoint| OpenTelemetry {
            enabled: true,
            endpoint: Some(endpoint.to_owned()),
            ..OpenTelemetry::default()
        });
        Collector::of(&platform, &environment).map(|collector| collector.url)
    }

    #[test]
    fn the_configuration_names_the_collector_else_the_environment() {
        assert_eq!(collector(None, None), None);
        assert_eq!(collector(None, Some("http://e:4318/")).as_deref(), Some("http://e:4318/v1/traces"));
        assert_eq!(collector(Some("http://c:4318"), Some("http://e")).as_deref(), Some("http://c:4318/v1/traces"));
    }
}
