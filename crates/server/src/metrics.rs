//! Metrics for Prometheus.

use std::{sync::atomic::AtomicI64, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// The metrics of the server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    /// Streams of logs and changes, terminals.
    pub streams: Gauge<i64, AtomicI64>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    method: String,
    route: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    route: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("kubeopencode_server");
        let requests = Family::default();
        let seconds: Family<Route, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]));
        let streams = Gauge::default();
        registry.register("requests", "Requests by route and status", requests.clone());
        registry.register("request_seconds", "Time until the answer begins", seconds.clone());
        registry.register("streams", "Open streams", streams.clone());
        Self { registry, requests, seconds, streams }
    }
}

impl Metrics {
    /// Records a response.
    pub fn answered(&self, method: &str, route: &str, code: u16, took: Duration) {
        let route = route.to_owned();
        self.seconds.get_or_create(&Route { route: route.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Request { method: method.to_owned(), route, code }).inc();
    }

    /// The metrics in OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

/// Counts a stream while it is open.
#[derive(Debug)]
pub struct OpenStream(Gauge<i64, AtomicI64>);

impl OpenStream {
    /// Counts a new stream.
    pub fn new(metrics: &Metrics) -> Self {
        metrics.streams.inc();
        Self(metrics.streams.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
