//! Events: what `kubectl describe pod` and `kubectl events` tell of a Pod.
//!
//! They are written aside and several at a time; nobody waits for one, and a flood of them is cut rather than kept. What
//! happens again is counted, as everybody knows it of a cluster: `Started container main (x3 over 5m)`.

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

/// Events that wait to be written; more are dropped.
const BACKLOG: usize = 4096;
/// So many are looked at together, so that what repeats among them is one write.
const TOGETHER: usize = 64;
/// So many are written at once, so that they share the writes of a disk.
const AT_ONCE: usize = 8;
/// An API server keeps an event for an hour; one that was not repeated for nearly as long begins anew.
const COUNTED_FOR: SignedDuration = SignedDuration::from_mins(50);
/// What was said is forgotten when it is more than this.
const MOST_KNOWN: usize = 4096;
/// As much as a person reads.
const LONGEST_MESSAGE: usize = 1024;

/// Writes events in the name of a component.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<Said>);

/// Whether a person should look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Weight {
    Normal,
    Warning,
}

/// Something to tell.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) weight: Weight,
    pub(crate) about: ObjectReference,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) at: Timestamp,
}

impl Events {
    /// Starts to write events of `component`, such as `kubelet`, on the node of this name.
    pub fn start(client: Client, component: &str, node: &str) -> Self {
        let (sender, mut queue) = mpsc::channel(BACKLOG);
        let mut ledger = Ledger::new(component, node);
        tokio::spawn(async move {
            let mut said = Vec::new();
            while queue.recv_many(&mut said, TOGETHER).await > 0 {
                let writes = ledger.enter(said.drain(..));
                futures::stream::iter(writes).for_each_concurrent(AT_ONCE, |write| write.make(&client)).await;
            }
        });
        Self(sender)
    }

    /// Something went as it should, at this moment.
    pub fn normal(&self, pod: &Pod, at: Timestamp, reason: &str, message: &str) {
        self.send(Weight::Normal, pod.object_ref(&()), at, reason, message);
    }

    /// Something a person should look at.
    pub fn warning(&self, pod: &Pod, reason: &str, message: &str) {
        self.say(Weight::Warning, pod.object_ref(&()), reason, message);
    }

    /// Tells of a Pod or of a part of it.
    pub(crate) fn say(&self, weight: Weight, about: ObjectReference, reason: &str, message: &str) {
        self.send(weight, about, Timestamp::now(), reason, message);
    }

    fn send(&self, weight: Weight, about: ObjectReference, at: Timestamp, reason: &str, message: &str) {
        let message = message.chars().take(LONGEST_MESSAGE).collect();
        let said = Said { weight, about, reason: reason.to_owned(), message, at };
        if self.0.try_send(said).is_err() {
            tracing::debug!(reason, "too many events: one was dropped");
        }
    }
}

/// A write of an event.
#[derive(Clone, Debug, PartialEq)]
enum Write {
    New(Box<Event>),
    /// It happened again.
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

    /// Replaces how often it happened, and when last.
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
            tracing::debug!(%error, "an event was not written");
        }
    }
}

/// What was said lately, to tell what is new from what happened again.
struct Ledger {
    component: String,
    node: String,
    known: HashMap<Key, Known>,
    /// The number in the name of the newest event.
    newest: i128,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    weight: Weight,
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

impl Ledger {
    fn new(component: &str, node: &str) -> Self {
        Self { component: component.to_owned(), node: node.to_owned(), known: HashMap::new(), newest: 0 }
    }

    /// What is to be written: one write an event, however often it is said.
    fn enter(&mut self, all: impl Iterator<Item = Said>) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        for said in all {
            let key = Key {
                weight: said.weight,
                uid: said.about.uid.clone(),
                part: said.about.field_path.clone(),
                reason: said.reason.clone(),
                message: said.message.clone(),
            };
            let lately = |known: &Known| said.at.duration_since(known.last) < COUNTED_FOR;
            if let Some(known) = self.known.get_mut(&key).filter(|known| lately(known)) {
                (known.count, known.last) = (known.count.saturating_add(1), said.at);
                match writes.iter_mut().find(|write| write.name() == Some(known.name.as_str())) {
                    Some(write) => write.repeat(known.count, said.at),
                    None => writes.push(Write::Again {
                        namespace: said.about.namespace.unwrap_or_default(),
                        name: known.name.clone(),
                        count: known.count,
                        at: said.at,
                    }),
                }
                continue;
            }
            if self.known.len() >= MOST_KNOWN {
                self.known.retain(|_, known| lately(known));
            }
            if self.known.len() >= MOST_KNOWN {
                self.known.clear();
            }
            let event = self.event(said);
            let name = event.metadata.name.clone().unwrap_or_default();
            let last = event.last_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            self.known.insert(key, Known { name, count: 1, last });
            writes.push(Write::New(Box::new(event)));
        }
        writes
    }

    /// A new event. Its name is in the order of time, which is how lists show events of the same second.
    fn event(&mut self, said: Said) -> Event {
        let Said { weight, about, reason, message, at } = said;
        self.newest = at.as_nanosecond().max(self.newest + 1);
        let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), self.newest);
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: about.namespace.clone(), ..ObjectMeta::default() },
            type_: Some(if weight == Weight::Normal { "Normal" } else { "Warning" }.to_owned()),
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

    fn said(second: i64, part: &str, message: &str) -> Said {
        Said {
            weight: Weight::Normal,
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

    /// `+` is a new event, `=` one that is known; then its message and how often it was said.
    #[track_caller]
    fn check(ledger: &mut Ledger, batch: &[(i64, &str, &str)], expected: &str) {
        let said = batch.iter().map(|(second, part, message)| said(*second, part, message));
        let shown = |write: &Write| match write {
            Write::New(event) => format!("+{} x{}", event.message.clone().unwrap(), event.count.unwrap()),
            Write::Again { count, at, .. } => format!("=x{count} at {}", at.as_second()),
        };
        assert_eq!(ledger.enter(said).iter().map(shown).collect::<Vec<_>>().join(", "), expected);
    }

    #[test]
    fn what_happens_again_is_counted_and_the_rest_is_told() {
        let mut ledger = Ledger::new("kubelet", "local");
        check(&mut ledger, &[(0, "a", "one"), (0, "a", "two"), (0, "b", "one")], "+one x1, +two x1, +one x1");
        check(&mut ledger, &[(60, "a", "one")], "=x2 at 60");
        check(&mut ledger, &[(70, "a", "one"), (71, "c", "one"), (72, "a", "one")], "=x4 at 72, +one x1");
        check(&mut ledger, &[(80, "d", "one"), (81, "d", "one")], "+one x2");
        check(&mut ledger, &[(72 + 50 * 60, "a", "one")], "+one x1");
    }

    #[test]
    fn names_are_in_the_order_of_time_also_within_a_moment() {
        let mut ledger = Ledger::new("kubelet", "local");
        let writes = ledger.enter(["one", "two"].into_iter().map(|message| said(7, "a", message)));
        let names: Vec<&str> = writes.iter().filter_map(Write::name).collect();
        assert_eq!(names, ["p.1a13b8600", "p.1a13b8601"]);
    }
}
