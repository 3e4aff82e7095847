//! Kubernetes events, as `kubectl describe` shows them.
//!
//! Events are written in the background, one at a time and with low priority: an event costs the API server as much as
//! the status that it describes, and the start of a waiting Task is more important. A reconciler never waits for an
//! event. When the backlog is full, new events are dropped. A repeated event about the same object is written once.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource, ResourceExt as _,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::{mpsc, watch};

use crate::{
    leadership::fence::Fence,
    shared::background::{Background, ended, unless_ended},
};

/// Events in the queue. More are dropped.
const BACKLOG: usize = 1024;
/// An event is written after this long without other writes, so that the work that follows from a change, such as the
/// next start, goes first.
const QUIET: Duration = Duration::from_millis(250);
/// Longest delay of an event, however busy the process is.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// After each write the writer pauses for this many times the duration of the write, so that a slow API server gets
/// fewer events.
const PAUSE_FACTOR: u32 = 2;
/// Upper bound of that pause, also after a request that timed out.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// An equal event about the same object is not repeated within this time: a failing pass is retried many times.
const REPEAT_AFTER: Duration = Duration::from_mins(5);
/// Entries in the record of recent events. Past this number the record is cleared.
const MAX_RECENT: usize = 4096;

/// Writes events. Clones share the queue.
#[derive(Clone)]
pub struct Events(mpsc::Sender<(Instant, Event, ObjectReference)>);

impl Events {
    /// Starts the writer. `instance` becomes the reporting instance of the events.
    pub fn start(client: Client, fence: Fence, instance: String) -> (Self, Background) {
        let (sender, queue) = mpsc::channel(BACKLOG);
        let reporter = Reporter { controller: "kubeopencode".into(), instance: Some(instance) };
        let recorder = Recorder::new(client, reporter);
        (Self(sender), Background::start("events", |ending| write(recorder, fence, queue, ending)))
    }

    /// Emits an event of type Normal.
    pub fn normal(&self, about: &impl Resource<DynamicType = ()>, reason: &str, note: impl Into<String>) {
        self.send(EventType::Normal, about, reason, note.into());
    }

    /// Emits an event of type Warning: a person should look at it.
    pub fn warning(&self, about: &impl Resource<DynamicType = ()>, reason: &str, note: impl Into<String>) {
        self.send(EventType::Warning, about, reason, note.into());
    }

    fn send(&self, type_: EventType, about: &impl Resource<DynamicType = ()>, reason: &str, note: String) {
        let event = Event { type_, reason: reason.into(), note: Some(note), action: reason.into(), secondary: None };
        let mut reference = about.object_ref(&());
        // Without the version, Kubernetes recognises repetitions of an event.
        reference.resource_version = None;
        if self.0.try_send((Instant::now(), event, reference)).is_err() {
            tracing::debug!(object = %about.name_any(), reason, "too many events: one was dropped");
        }
    }
}

/// Writes events until shutdown, and then flushes the queue without delays.
async fn write(
    recorder: Recorder,
    fence: Fence,
    mut queue: mpsc::Receiver<(Instant, Event, ObjectReference)>,
    mut ending: watch::Receiver<bool>,
) {
    let mut recent = Recent::default();
    loop {
        let next = tokio::select! {
            next = queue.recv() => next,
            () = ended(&mut ending), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        let Some((at, event, about)) = next else { return };
        if !recent.is_new(&event, &about, at) {
            continue;
        }
        unless_ended(&mut ending, wait_for_quiet(&fence, at)).await;
        let begin = Instant::now();
        if let Err(error) = recorder.publish(&event, &about).await {
            tracing::debug!(%error, reason = %event.reason, "an event was not written");
        }
        let pause = (begin.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE);
        unless_ended(&mut ending, tokio::time::sleep(pause)).await;
    }
}

/// Returns when an event of the moment `at` may be written.
async fn wait_for_quiet(fence: &Fence, at: Instant) {
    loop {
        let due = due(at, fence.last_write());
        if due <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(due.into()).await;
    }
}

/// When an event of the moment `at` may be written if there are no other writes until then.
fn due(at: Instant, last_write: Option<Instant>) -> Instant {
    let quiet = last_write.map_or(at, |last| last.max(at)) + QUIET;
    quiet.min(at + MAX_DELAY)
}

/// The last note about an object and its time, by UID and reason.
#[derive(Default)]
struct Recent(HashMap<(Option<String>, String), (Option<String>, Instant)>);

impl Recent {
    fn is_new(&mut self, event: &Event, about: &ObjectReference, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < REPEAT_AFTER;
        if self.0.len() >= MAX_RECENT {
            self.0.retain(|_, (_, at)| is_recent(at));
        }
        if self.0.len() >= MAX_RECENT {
            self.0.clear();
        }
        let last = self.0.entry((about.uid.clone(), event.reason.clone()));
        let same = |(note, at): &(Option<String>, Instant)| *note == event.note && is_recent(at);
        match last {
            std::collections::hash_map::Entry::Occupied(last) if same(last.get()) => false,
            last => {
                last.insert_entry((event.note.clone(), now));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_event_is_repeated_only_after_a_while() {
        let event = |reason: &str, note: &str| Event {
            type_: EventType::Normal,
            reason: reason.into(),
            note: Some(note.into()),
            action: reason.into(),
            secondary: None,
        };
        let about = |uid: &str| ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() };
        let start = Instant::now();
        let mut recent = Recent::default();
        let mut check = |second: u64, uid: &str, reason: &str, note: &str, news: bool| {
            let at = start + Duration::from_secs(second);
            assert_eq!(recent.is_new(&event(reason, note), &about(uid), at), news, "{second} {uid} {reason} {note}");
        };
        check(0, "a", "Failed", "no Secret", true);
        check(1, "a", "Failed", "no Secret", false);
        check(2, "b", "Failed", "no Secret", true);
        check(3, "a", "Ready", "no Secret", true);
        check(4, "a", "Failed", "no key", true);
        check(5, "a", "Failed", "no Secret", true);
        check(299, "a", "Failed", "no Secret", false);
        check(306, "a", "Failed", "no Secret", true);
    }

    #[test]
    fn an_event_waits_for_other_writes_but_not_for_ever() {
        let write = Instant::now();
        let event = write + Duration::from_secs(1);
        assert_eq!(due(event, None), event + QUIET);
        assert_eq!(due(event, Some(write)), event + QUIET, "what follows from it may still come");
        let later = event + Duration::from_secs(2);
        assert_eq!(due(event, Some(later)), later + QUIET);
        assert_eq!(due(event, Some(event + MAX_DELAY)), event + MAX_DELAY);
    }

    #[test]
    fn the_record_of_recent_events_is_bounded() {
        let mut recent = Recent::default();
        let event =
            Event { type_: EventType::Normal, reason: "R".into(), note: None, action: "R".into(), secondary: None };
        for number in 0..=MAX_RECENT {
            let about = ObjectReference { uid: Some(number.to_string()), ..ObjectReference::default() };
            assert!(recent.is_new(&event, &about, Instant::now()));
        }
        assert!(recent.0.len() <= MAX_RECENT);
    }
}
