//! Kubernetes Events of Pods.
//!
//! A background task writes them in batches; a full queue drops events. Repetitions increase the count of an existing
//! event, as on a cluster: `Started container main (x3 over 5m)`.

use std::collections::HashMap;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;

/// Length of the queue; further events are dropped.
const QUEUE: usize = 4096;
/// Maximum size of a batch; repetitions within a batch are one write.
const BATCH: usize = 64;
/// Number of concurrent writes.
const CONCURRENCY: usize = 8;
/// API servers delete events after an hour; an event that was not repeated for nearly as long starts anew.
const AGGREGATION_WINDOW: SignedDuration = SignedDuration::from_mins(50);
/// Maximum number of events that are remembered for aggregation.
const MAX_REMEMBERED: usize = 4096;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Emits events in the name of a component.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<NewEvent>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// An event to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    pub(crate) severity: Severity,
    pub(crate) about: ObjectReference,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) at: Timestamp,
}

impl Events {
    /// Starts the background task for `component`, such as `kubelet`, on the named node.
    pub fn start(client: Client, component: &str, node: &str) -> Self {
        let (sender, mut queue) = mpsc::channel(QUEUE);
        let mut aggregator = Aggregator::new(component, node);
        tokio::spawn(async move {
            let mut new = Vec::new();
            while queue.recv_many(&mut new, BATCH).await > 0 {
                let writes = aggregator.aggregate(new.drain(..));
                futures::stream::iter(writes).for_each_concurrent(CONCURRENCY, |write| write.make(&client)).await;
            }
        });
        Self(sender)
    }

    /// Emits a normal event with this time.
    pub fn normal(&self, pod: &Pod, at: Timestamp, reason: &str, message: &str) {
        self.send(Severity::Normal, pod.object_ref(&()), at, reason, message);
    }

    /// Emits a warning event.
    pub fn warning(&self, pod: &Pod, reason: &str, message: &str) {
        self.emit(Severity::Warning, pod.object_ref(&()), reason, message);
    }

    /// Emits an event about a Pod or one of its containers.
    pub(crate) fn emit(&self, severity: Severity, about: ObjectReference, reason: &str, message: &str) {
        self.send(severity, about, Timestamp::now(), reason, message);
    }

    fn send(&self, severity: Severity, about: ObjectReference, at: Timestamp, reason: &str, message: &str) {
        let message = message.chars().take(MAX_MESSAGE).collect();
        let new = NewEvent { severity, about, reason: reason.to_owned(), message, at };
        if self.0.try_send(new).is_err() {
            tracing::debug!(reason, "event queue full: event dropped");
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Write {
    New(Box<Event>),
    /// A repetition of an existing event.
    Again {
        namespace: String,
        name: String,
        count: i32,
        at: Timestamp,
    },
}

impl Write {
    fn name(&self) -> Option<&str> {
        match self {
            Self::New(event) => event.metadata.name.as_deref(),
            Self::Again { name, .. } => Some(name),
        }
    }

    /// Updates count and last timestamp.
    fn repeat(&mut self, now: i32, last: Timestamp) {
        match self {
            Self::New(event) => (event.count, event.last_timestamp) = (Some(now), Some(Time(last))),
            Self::Again { count, at, .. } => (*count, *at) = (now, last),
        }
    }

    async fn make(self, client: &Client) {
        let in_namespace = |namespace: &str| Api::<Event>::namespaced(client.clone(), namespace);
        let written = match self {
            Self::New(event) => {
                let namespace = event.metadata.namespace.clone().unwrap_or_default();
                in_namespace(&namespace).create(&PostParams::default(), &event).await
            }
            Self::Again { namespace, name, count, at } => {
                let patch = Patch::Merge(json!({ "count": count, "lastTimestamp": Time(at) }));
                in_namespace(&namespace).patch(&name, &PatchParams::default(), &patch).await
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, "cannot write event");
        }
    }
}

/// Recently written events, to aggregate repetitions.
struct Aggregator {
    component: String,
    node: String,
    known: HashMap<Key, Known>,
    /// The number in the name of the newest event.
    newest: i128,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    severity: Severity,
    uid: Option<String>,
    part: Option<String>,
    reason: String,
    message: String,
}

struct Known {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Aggregator {
    fn new(component: &str, node: &str) -> Self {
        Self { component: component.to_owned(), node: node.to_owned(), known: HashMap::new(), newest: 0 }
    }

    /// The writes for a batch: one per event, however often it is repeated.
    fn aggregate(&mut self, all: impl Iterator<Item = NewEvent>) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        for new in all {
            let key = Key {
                severity: new.severity,
                uid: new.about.uid.clone(),
                part: new.about.field_path.clone(),
                reason: new.reason.clone(),
                message: new.message.clone(),
            };
            let lately = |known: &Known| new.at.duration_since(known.last) < AGGREGATION_WINDOW;
            if let Some(known) = self.known.get_mut(&key).filter(|known| lately(known)) {
                (known.count, known.last) = (known.count.saturating_add(1), new.at);
                match writes.iter_mut().find(|write| write.name() == Some(known.name.as_str())) {
                    Some(write) => write.repeat(known.count, new.at),
                    None => writes.push(Write::Again {
                        namespace: new.about.namespace.unwrap_or_default(),
                        name: known.name.clone(),
                        count: known.count,
                        at: new.at,
                    }),
                }
                continue;
            }
            if self.known.len() >= MAX_REMEMBERED {
                self.known.retain(|_, known| lately(known));
            }
            if self.known.len() >= MAX_REMEMBERED {
                self.known.clear();
            }
            let event = self.event(new);
            let name = event.metadata.name.clone().unwrap_or_default();
            let last = event.last_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            self.known.insert(key, Known { name, count: 1, last });
            writes.push(Write::New(Box::new(event)));
        }
        writes
    }

    /// A new event. Its name sorts by time, so that lists show events of the same second in order.
    fn event(&mut self, new: NewEvent) -> Event {
        let NewEvent { severity, about, reason, message, at } = new;
        self.newest = at.as_nanosecond().max(self.newest + 1);
        let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), self.newest);
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: about.namespace.clone(), ..ObjectMeta::default() },
            type_: Some(if severity == Severity::Normal { "Normal" } else { "Warning" }.to_owned()),
            reason: Some(reason),
            message: Some(message),
            involved_object: about,
            source: Some(EventSource { component: Some(self.component.clone()), host: Some(self.node.clone()) }),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.node.clone()),
            first_timestamp: Some(Time(at)),
            last_timestamp: Some(Time(at)),
            count: Some(1),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(second: i64, part: &str, message: &str) -> NewEvent {
        NewEvent {
            severity: Severity::Normal,
            about: ObjectReference {
                uid: Some("u".into()),
                name: Some("p".into()),
                namespace: Some("n".into()),
                field_path: Some(part.into()),
                ..ObjectReference::default()
            },
            reason: "Started".into(),
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    /// `+` is a new event, `=` a repeated one; then message and count.
    #[track_caller]
    fn check(aggregator: &mut Aggregator, batch: &[(i64, &str, &str)], expected: &str) {
        let new = batch.iter().map(|(second, part, message)| new(*second, part, message));
        let shown = |write: &Write| match write {
            Write::New(event) => format!("+{} x{}", event.message.clone().unwrap(), event.count.unwrap()),
            Write::Again { count, at, .. } => format!("=x{count} at {}", at.as_second()),
        };
        assert_eq!(aggregator.aggregate(new).iter().map(shown).collect::<Vec<_>>().join(", "), expected);
    }

    #[test]
    fn repeated_events_are_counted_and_others_written() {
        let mut aggregator = Aggregator::new("kubelet", "local");
        check(&mut aggregator, &[(0, "a", "one"), (0, "a", "two"), (0, "b", "one")], "+one x1, +two x1, +one x1");
        check(&mut aggregator, &[(60, "a", "one")], "=x2 at 60");
        check(&mut aggregator, &[(70, "a", "one"), (71, "c", "one"), (72, "a", "one")], "=x4 at 72, +one x1");
        check(&mut aggregator, &[(80, "d", "one"), (81, "d", "one")], "+one x2");
        check(&mut aggregator, &[(72 + 50 * 60, "a", "one")], "+one x1");
    }

    #[test]
    fn names_are_in_the_order_of_time_also_within_a_moment() {
        let mut aggregator = Aggregator::new("kubelet", "local");
        let writes = aggregator.aggregate(["one", "two"].into_iter().map(|message| new(7, "a", message)));
        let names: Vec<&str> = writes.iter().filter_map(Write::name).collect();
        assert_eq!(names, ["p.1a13b8600", "p.1a13b8601"]);
    }
}
