//! The feed of changes: what happened lately, and who listens.
//!
//! Each change is turned into text once, however many listen. A listener that was away asks for what came after the
//! last change it knows; if that is no longer kept, it has to list again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast;

/// So many changes are kept for listeners that come back.
const KEPT: usize = 2048;
/// A listener that is so far behind has to list again.
const BEHIND: usize = 1024;

/// A change that listeners are told of.
#[derive(Debug)]
pub struct Told {
    /// Its number.
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

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum What {
    /// It is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change to be told.
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
    /// What happened.
    #[serde(rename = "type")]
    pub what: What,
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

/// The feed.
#[derive(Debug)]
pub struct Feed {
    /// Tells the numbers of this process from those of the one before.
    born: String,
    recent: Mutex<Recent>,
    sender: broadcast::Sender<Arc<Told>>,
}

#[derive(Debug, Default)]
struct Recent {
    last: u64,
    kept: VecDeque<Arc<Told>>,
}

/// A place in the feed.
#[derive(Debug)]
pub struct Place {
    /// What the listener missed.
    pub missed: Vec<Arc<Told>>,
    /// What comes.
    pub receiver: broadcast::Receiver<Arc<Told>>,
    /// It missed more than is kept.
    pub reset: bool,
    /// Id of the newest change.
    pub id: String,
}

impl Feed {
    /// An empty feed; `born` is different in each process.
    pub fn new(born: impl Into<String>) -> Self {
        Self { born: born.into(), recent: Mutex::default(), sender: broadcast::Sender::new(BEHIND) }
    }

    /// Tells everybody.
    pub fn tell(&self, message: &Message<'_>) {
        let text = match serde_json::to_string(message) {
            Ok(text) => text,
            Err(error) => return tracing::error!(%error, "a change cannot be told"),
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.last += 1;
        let told = Arc::new(Told {
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
        recent.kept.push_back(Arc::clone(&told));
        // Nobody may be listening.
        let _ = self.sender.send(told);
    }

    /// Listens from now on, or from the change after `last` on.
    pub fn listen(&self, last: Option<&str>) -> Place {
        // Under the lock: nothing is told between looking back and listening.
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.sender.subscribe();
        let id = self.id(recent.last);
        let Some(last) = last else { return Place { missed: Vec::new(), receiver, reset: false, id } };
        let number = last.strip_prefix(&self.born).and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
        let oldest = recent.kept.front().map_or(recent.last + 1, |told| told.number);
        match number {
            Some(number) if number <= recent.last && number + 1 >= oldest => {
                let missed = recent.kept.iter().filter(|told| told.number > number).cloned().collect();
                Place { missed, receiver, reset: false, id }
            }
            _ => Place { missed: Vec::new(), receiver, reset: true, id },
        }
    }

    /// The id of a change.
    pub fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.born)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(feed: &Feed, name: &str) {
        feed.tell(&Message {
            kind: "Task",
            plural: "tasks",
            namespace: "n",
            name,
            what: What::Added,
            uid: None,
            resource_version: None,
            object: None,
        });
    }

    fn names(told: &[Arc<Told>]) -> Vec<&str> {
        told.iter().map(|told| told.name.as_str()).collect()
    }

    #[test]
    fn whoever_comes_back_gets_what_came_in_between() {
        let feed = Feed::new("x");
        tell(&feed, "a");
        let id = feed.listen(None).id;
        tell(&feed, "b");
        tell(&feed, "c");
        let place = feed.listen(Some(&id));
        assert_eq!(names(&place.missed), ["b", "c"]);
        assert!(!place.reset);
    }

    #[test]
    fn an_id_of_another_process_or_of_long_ago_means_list_again() {
        let feed = Feed::new("x");
        tell(&feed, "a");
        for id in ["y-1", "x-99", "x-", "", "1"] {
            assert!(feed.listen(Some(id)).reset, "{id}");
        }
        for _ in 0..=KEPT {
            tell(&feed, "b");
        }
        assert!(feed.listen(Some("x-1")).reset);
        assert!(!feed.listen(Some("x-2")).reset);
    }

    #[test]
    fn a_message_says_what_happened_to_whom() {
        let feed = Feed::new("x");
        let mut place = feed.listen(None);
        tell(&feed, "a");
        let told = place.receiver.try_recv().unwrap();
        assert_eq!(told.text, r#"{"kind":"Task","namespace":"n","name":"a","type":"ADDED"}"#);
    }
}
