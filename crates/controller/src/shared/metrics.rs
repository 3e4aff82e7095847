//! Prometheus metrics.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicI64},
    time::{Duration, Instant},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// The series of a namespace are exported this long after its last Task is gone, so that they are scraped once more.
const EXPORTED_AFTERWARDS: Duration = Duration::from_hours(1);

/// All metrics of the controllers.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Waiting Tasks, by target.
    queue_length: Family<Target, Gauge>,
    /// Running Tasks, by target.
    running: Family<Target, Gauge>,
    wait_seconds: Histogram,
    collect_seconds: Histogram,
    task_seconds: Family<Namespace, Histogram, fn() -> Histogram>,
    outcomes: Family<Outcome, Counter>,
    /// Namespaces with series of their own.
    namespaces: Mutex<HashMap<String, Reported>>,
    writes: Family<Write, Counter>,
    passes: Family<Pass, Counter>,
    errors: Family<Failure, Counter>,
    log_bytes: Counter,
    logs_cut: Counter,
    /// 1 while this process holds the lease.
    pub leading: Gauge<i64, AtomicI64>,
}

/// Labels of a series: the Agent or template that Tasks wait for or run on.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Target {
    pub namespace: String,
    /// `Agent` or `AgentTemplate`.
    pub kind: &'static str,
    pub name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Namespace {
    namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    namespace: String,
    phase: String,
    reason: String,
}

/// The series of a namespace, which may be deleted already.
#[derive(Debug, Default)]
struct Reported {
    outcomes: HashSet<Outcome>,
    /// When its last Task was deleted; `None` while it has Tasks.
    empty_since: Option<Instant>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Write {
    verb: String,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Pass {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failure {
    controller: &'static str,
    reason: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("kubeopencode"),
            queue_length: Family::default(),
            running: Family::default(),
            wait_seconds: seconds(),
            collect_seconds: seconds(),
            task_seconds: Family::new_with_constructor(seconds),
            outcomes: Family::default(),
            namespaces: Mutex::default(),
            writes: Family::default(),
            passes: Family::default(),
            errors: Family::default(),
            log_bytes: Counter::default(),
            logs_cut: Counter::default(),
            leading: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("queue_length", "Tasks that wait", metrics.queue_length.clone());
        registry.register("tasks_running", "Tasks that run", metrics.running.clone());
        registry.register("task_wait_seconds", "From creation to admission", metrics.wait_seconds.clone());
        let collect = "From the end of the agent until everything that the run keeps was stored";
        registry.register("task_collect_seconds", collect, metrics.collect_seconds.clone());
        registry.register("task_duration_seconds", "From admission to the end", metrics.task_seconds.clone());
        registry.register("task_outcomes", "How Tasks ended", metrics.outcomes.clone());
        registry.register("api_writes", "Writes to the API server", metrics.writes.clone());
        registry.register("reconcile_passes", "Passes over objects", metrics.passes.clone());
        registry.register("reconcile_errors", "Passes that failed", metrics.errors.clone());
        registry.register("log_archive_bytes", "Bytes of logs that became durable", metrics.log_bytes.clone());
        registry.register("log_archive_cut", "Logs whose end was not seen", metrics.logs_cut.clone());
        registry.register("leading", "Whether this process leads", metrics.leading.clone());
        metrics
    }
}

impl Metrics {
    /// Counts a write to the API server.
    pub fn wrote(&self, verb: &str, resource: String) {
        self.writes.get_or_create(&Write { verb: verb.to_lowercase(), resource }).inc();
    }

    /// Sets the numbers of Tasks that wait for a target and run on it.
    pub fn queued(&self, target: &Target, waiting: usize, running: usize) {
        if waiting == 0 && running == 0 {
            // An unused target needs no series and may be deleted already.
            self.queue_length.remove(target);
            self.running.remove(target);
            return;
        }
        self.queue_length.get_or_create(target).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.running.get_or_create(target).set(i64::try_from(running).unwrap_or(i64::MAX));
    }

    /// Counts a pass.
    pub fn passed(&self, controller: &'static str) {
        self.passes.get_or_create(&Pass { controller }).inc();
    }

    /// Counts a failed pass.
    pub fn failed(&self, controller: &'static str, reason: &str) {
        self.errors.get_or_create(&Failure { controller, reason: reason.into() }).inc();
    }

    /// Counts archived bytes of logs.
    pub fn log_kept(&self, bytes: u64) {
        self.log_bytes.inc_by(bytes);
    }

    /// Counts a log whose end was not read.
    pub fn log_cut(&self) {
        self.logs_cut.inc();
    }

    /// Records how long a Task waited for its admission.
    pub fn admitted(&self, waited: Duration) {
        self.wait_seconds.observe(waited.as_secs_f64());
    }

    /// Records how long storing the results of a Task took.
    pub fn collected(&self, took: Duration) {
        self.collect_seconds.observe(took.as_secs_f64());
    }

    /// Counts a finished Task, and records its duration if it ran.
    pub fn ended(&self, namespace: &str, phase: &str, reason: &str, took: Option<Duration>) {
        if let Some(took) = took {
            self.task_seconds.get_or_create(&Namespace { namespace: namespace.into() }).observe(took.as_secs_f64());
        }
        let outcome = Outcome { namespace: namespace.into(), phase: phase.into(), reason: reason.into() };
        self.outcomes.get_or_create(&outcome).inc();
        self.namespaces().entry(namespace.into()).or_default().outcomes.insert(outcome);
    }

    /// Records whether a namespace has Tasks. The series of a namespace that stays empty are removed.
    pub fn has_tasks(&self, namespace: &str, any: bool, now: Instant) {
        if let Some(exported) = self.namespaces().get_mut(namespace) {
            exported.empty_since = if any { None } else { exported.empty_since.or(Some(now)) };
        }
        self.forget_empty(now);
    }

    fn forget_empty(&self, now: Instant) {
        self.namespaces().retain(|namespace, exported| {
            let keep =
                exported.empty_since.is_none_or(|since| now.saturating_duration_since(since) < EXPORTED_AFTERWARDS);
            if !keep {
                self.task_seconds.remove(&Namespace { namespace: namespace.clone() });
                for outcome in &exported.outcomes {
                    self.outcomes.remove(outcome);
                }
            }
            keep
        });
    }

    fn namespaces(&self) -> MutexGuard<'_, HashMap<String, Reported>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        self.forget_empty(Instant::now());
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

/// Buckets from 50 ms to about a day.
fn seconds() -> Histogram {
    Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_without_tasks_is_forgotten_after_a_while() {
        let metrics = Metrics::default();
        let start = Instant::now();
        let exported = |namespace: &str| metrics.render().matches(&format!("namespace=\"{namespace}\"")).count() > 0;
        for namespace in ["gone", "back", "used"] {
            metrics.ended(namespace, "Completed", "Succeeded", Some(Duration::from_secs(1)));
            metrics.ended(namespace, "Failed", "ModelError", Some(Duration::from_secs(1)));
        }
        metrics.has_tasks("gone", false, start);
        metrics.has_tasks("back", false, start);
        metrics.has_tasks("gone", false, start + EXPORTED_AFTERWARDS / 2);
        assert!(exported("gone"), "it was not scraped yet");
        metrics.has_tasks("back", true, start + EXPORTED_AFTERWARDS / 2);
        metrics.has_tasks("other", false, start + EXPORTED_AFTERWARDS);
        assert_eq!(
            (exported("gone"), exported("back"), exported("used"), exported("other")),
            (false, true, true, false)
        );
    }
}
