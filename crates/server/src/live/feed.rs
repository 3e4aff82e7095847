//! The feed of changes: recent changes in memory, broadcast to listeners.
//!
//! Each change is serialized once, however many listen. A listener that reconnects gets the changes after the
//! last change it received; if those are no longer in memory, it must list again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast;

/// Changes in memory for listeners that reconnect.
const KEPT: usize = 2048;
/// A listener that lags by more changes must list again.
const BEHIND: usize = 1024;

/// A published change.
#[derive(Debug)]
pub struct Published {
    /// Number, starting at 1.
    pub number: u64,
    /// Kind of the object.
    pub kind: &'static str,
    /// Plural name of the kind, for rights.
    pub plural: &'static str,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The message as JSON.
    pub text: String,
}

/// Type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ChangeType {
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// A change to publish.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message<'a> {
    /// Kind of the object.
    pub kind: &'static str,
    /// Plural name of the kind.
    #[serde(skip)]
    pub plural: &'static str,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Type of the change.
    #[serde(rename = "type")]
    pub what: ChangeType,
    /// UID of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<&'a str>,
    /// Version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<&'a str>,
    /// The object as lists show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<RawValue>>,
}

/// The feed of changes.
#[derive(Debug)]
pub struct Feed {
    /// Prefix of event IDs, different in each process.
    prefix: String,
    recent: Mutex<Recent>,
    sender: broadcast::Sender<Arc<Published>>,
}

#[derive(Debug, Default)]
struct Recent {
    last: u64,
    kept: VecDeque<Arc<Published>>,
}

/// A subscription to the feed.
#[derive(Debug)]
pub struct Subscription {
    /// Changes since the listener's last ID.
    pub missed: Vec<Arc<Published>>,
    /// Changes from now on.
    pub receiver: broadcast::Receiver<Arc<Published>>,
    /// The listener missed changes that are no longer in memory.
    pub reset: bool,
    /// Id of the newest change.
    pub id: String,
}

impl Feed {
    /// An empty feed; `prefix` must differ in each process.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), recent: Mutex::default(), sender: broadcast::Sender::new(BEHIND) }
    }

    /// Publishes a change to all listeners.
    pub fn publish(&self, message: &Message<'_>) {
        let text = match serde_json::to_string(message) {
            Ok(text) => text,
            Err(error) => return tracing::error!(%error, "a change cannot be published"),
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.last += 1;
        let change = Arc::new(Published {
            number: recent.last,
            kind: message.kind,
            plural: message.plural,
            namespace: message.namespace.to_owned(),
            name: message.name.to_owned(),
            text,
        });
        if recent.kept.len() == KEPT {
            recent.kept.pop_front();
        }
        recent.kept.push_back(Arc::clone(&change));
        // An error means that there are no listeners.
        let _ = self.sender.send(change);
    }

    /// Subscribes, starting after the change `last` or now.
    pub fn listen(&self, last: Option<&str>) -> Subscription {
        // Under the lock, so that no change is published between replay and subscription.
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.sender.subscribe();
        let id = self.id(recent.last);
        let Some(last) = last else { return Subscription { missed: Vec::new(), receiver, reset: false, id } };
        let number = last.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
        let oldest = recent.kept.front().map_or(recent.last + 1, |change| change.number);
        match number {
            Some(number) if number <= recent.last && number + 1 >= oldest => {
                let missed = recent.kept.iter().filter(|change| change.number > number).cloned().collect();
                Subscription { missed, receiver, reset: false, id }
            }
            _ => Subscription { missed: Vec::new(), receiver, reset: true, id },
        }
    }

    /// The id of a change.
    pub fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(feed: &Feed, name: &str) {
        feed.publish(&Message {
            kind: "Task",
            plural: "tasks",
            namespace: "n",
            name,
            what: ChangeType::Added,
            uid: None,
            resource_version: None,
            object: None,
        });
    }

    fn names(changes: &[Arc<Published>]) -> Vec<&str> {
        changes.iter().map(|change| change.name.as_str()).collect()
    }

    #[test]
    fn a_listener_that_reconnects_gets_the_changes_in_between() {
        let feed = Feed::new("x");
        publish(&feed, "a");
        let id = feed.listen(None).id;
        publish(&feed, "b");
        publish(&feed, "c");
        let place = feed.listen(Some(&id));
        assert_eq!(names(&place.missed), ["b", "c"]);
        assert!(!place.reset);
    }

    #[test]
    fn an_id_of_another_process_or_of_long_ago_means_list_again() {
        let feed = Feed::new("x");
        publish(&feed, "a");
        for id in ["y-1", "x-99", "x-", "", "1"] {
            assert!(feed.listen(Some(id)).reset, "{id}");
        }
        for _ in 0..=KEPT {
            publish(&feed, "b");
        }
        assert!(feed.listen(Some("x-1")).reset);
        assert!(!feed.listen(Some("x-2")).reset);
    }

    #[test]
    fn a_message_says_what_happened_to_whom() {
        let feed = Feed::new("x");
        let mut place = feed.listen(None);
        publish(&feed, "a");
        let change = place.receiver.try_recv().unwrap();
        assert_eq!(change.text, r#"{"kind":"Task","namespace":"n","name":"a","type":"ADDED"}"#);
    }
}
