//! Events: what `kubectl describe` shows about an object.
//!
//! They are written in the background, one after the other, and give way: to the API server an event is as much work as the status
//! it speaks of, and a Task that waits for its slot comes first. While there is other work, events are written later. A
//! reconciler never waits for an event, a flood of them is cut rather than kept in memory, and what was just said about
//! an object is not said again.

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

/// Events that wait to be written; more are dropped.
const BACKLOG: usize = 1024;
/// An event is not written before nothing else was for this long: what follows from a change, such as the next start, is
/// done first.
const CALM: Duration = Duration::from_millis(250);
/// But an event that is this old is written, whatever else there is to do.
const LATEST: Duration = Duration::from_secs(10);
/// After each write comes a pause of as often its time. An API server that is quick has time for them all, and one that
/// is not has less of them to do.
const PAUSE: u32 = 2;
/// But an API server that did not answer is asked again soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The same words about the same object within this time are said once: a pass that fails is tried again and again.
const SAME_WORDS: Duration = Duration::from_mins(5);
/// What was said lately is forgotten when it is more than this.
const MOST_SAID: usize = 4096;

/// Writes events. Clones share the queue.
#[derive(Clone)]
pub struct Events(mpsc::Sender<(Instant, Event, ObjectReference)>);

impl Events {
    /// Starts to write events in the name of `instance`.
    pub fn start(client: Client, fence: Fence, instance: String) -> (Self, Background) {
        let (sender, queue) = mpsc::channel(BACKLOG);
        let reporter = Reporter { controller: "kubeopencode".into(), instance: Some(instance) };
        let recorder = Recorder::new(client, reporter);
        (Self(sender), Background::start("events", |ending| write(recorder, fence, queue, ending)))
    }

    /// Something went as it should.
    pub fn normal(&self, about: &impl Resource<DynamicType = ()>, reason: &str, note: impl Into<String>) {
        self.send(EventType::Normal, about, reason, note.into());
    }

    /// Something a person should look at.
    pub fn warning(&self, about: &impl Resource<DynamicType = ()>, reason: &str, note: impl Into<String>) {
        self.send(EventType::Warning, about, reason, note.into());
    }

    fn send(&self, type_: EventType, about: &impl Resource<DynamicType = ()>, reason: &str, note: String) {
        let event = Event { type_, reason: reason.into(), note: Some(note), action: reason.into(), secondary: None };
        let mut reference = about.object_ref(&());
        // Without the version, repetitions of an event are recognised as such.
        reference.resource_version = None;
        if self.0.try_send((Instant::now(), event, reference)).is_err() {
            tracing::debug!(object = %about.name_any(), reason, "too many events: one was dropped");
        }
    }
}

/// Writes events until it is time to end, and then what is left, without giving way any more.
async fn write(
    recorder: Recorder,
    fence: Fence,
    mut queue: mpsc::Receiver<(Instant, Event, ObjectReference)>,
    mut ending: watch::Receiver<bool>,
) {
    let mut said = Said::default();
    loop {
        let next = tokio::select! {
            next = queue.recv() => next,
            () = ended(&mut ending), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        let Some((at, event, about)) = next else { return };
        if !said.is_news(&event, &about, at) {
            continue;
        }
        unless_ended(&mut ending, calm(&fence, at)).await;
        let begin = Instant::now();
        if let Err(error) = recorder.publish(&event, &about).await {
            tracing::debug!(%error, reason = %event.reason, "an event was not written");
        }
        let pause = (begin.elapsed() * PAUSE).min(LONGEST_PAUSE);
        unless_ended(&mut ending, tokio::time::sleep(pause)).await;
    }
}

/// Returns when an event of the moment `at` may be written.
async fn calm(fence: &Fence, at: Instant) {
    loop {
        let due = due(at, fence.last_write());
        if due <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(due.into()).await;
    }
}

/// When an event of the moment `at` may be written if nothing else is until then.
fn due(at: Instant, last_write: Option<Instant>) -> Instant {
    let calm = last_write.map_or(at, |last| last.max(at)) + CALM;
    calm.min(at + LATEST)
}

/// What was said lately: the last words about an object, by reason.
#[derive(Default)]
struct Said(HashMap<(Option<String>, String), (Option<String>, Instant)>);

impl Said {
    fn is_news(&mut self, event: &Event, about: &ObjectReference, now: Instant) -> bool {
        let lately = |at: &Instant| now.saturating_duration_since(*at) < SAME_WORDS;
        if self.0.len() >= MOST_SAID {
            self.0.retain(|_, (_, at)| lately(at));
        }
        if self.0.len() >= MOST_SAID {
            self.0.clear();
        }
        let last = self.0.entry((about.uid.clone(), event.reason.clone()));
        let same = |(note, at): &(Option<String>, Instant)| *note == event.note && lately(at);
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
    fn the_same_words_are_said_once_in_a_while() {
        let event = |reason: &str, note: &str| Event {
            type_: EventType::Normal,
            reason: reason.into(),
            note: Some(note.into()),
            action: reason.into(),
            secondary: None,
        };
        let about = |uid: &str| ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() };
        let start = Instant::now();
        let mut said = Said::default();
        let mut check = |second: u64, uid: &str, reason: &str, note: &str, news: bool| {
            let at = start + Duration::from_secs(second);
            assert_eq!(said.is_news(&event(reason, note), &about(uid), at), news, "{second} {uid} {reason} {note}");
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
    fn an_event_gives_way_to_other_writes_but_not_for_ever() {
        let write = Instant::now();
        let event = write + Duration::from_secs(1);
        assert_eq!(due(event, None), event + CALM);
        assert_eq!(due(event, Some(write)), event + CALM, "what follows from it may still come");
        let later = event + Duration::from_secs(2);
        assert_eq!(due(event, Some(later)), later + CALM);
        assert_eq!(due(event, Some(event + LATEST)), event + LATEST);
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let mut said = Said::default();
        let event =
            Event { type_: EventType::Normal, reason: "R".into(), note: None, action: "R".into(), secondary: None };
        for number in 0..=MOST_SAID {
            let about = ObjectReference { uid: Some(number.to_string()), ..ObjectReference::default() };
            assert!(said.is_news(&event, &about, Instant::now()));
        }
        assert!(said.0.len() <= MOST_SAID);
    }
}
