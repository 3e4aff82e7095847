//! `watch`.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use objects::table::Columns;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Request;
use super::list::Selection;
use crate::http::{self as answers, Answer, Form};
use crate::refusal::{Cause, Refusal};
use crate::store::{Change, PastError, Watcher};

/// How often a client hears how far the server is, if it asked for that.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// How long a watch lasts if the client does not say, between this and twice this.
const DEFAULT_LIFE: Duration = Duration::from_mins(30);

/// A running watch.
struct Watch {
    request: Request,
    selection: Selection,
    columns: Columns,
    watcher: Watcher,
    /// What is ready to be sent.
    ready: VecDeque<Bytes>,
    started: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    over: bool,
}

impl Request {
    pub(super) async fn watch(self) -> Result<Answer, Refusal> {
        let initial = self.initial_events()?;
        let selection = self.selection()?;
        let asked = self.asked_revision()?;
        let prefix = self.prefix(&selection);
        let mut start = Vec::new();
        let revision = match asked {
            // From nowhere in particular: what is there comes first, as if it had just been made.
            None | Some(0) => {
                let snapshot = self.api.store.list(&self.resource.shelf, &prefix);
                if initial != Some(false) {
                    start = snapshot.items;
                }
                snapshot.revision
            }
            Some(asked) if initial == Some(true) => {
                self.wait_for(asked).await?;
                let snapshot = self.api.store.list(&self.resource.shelf, &prefix);
                start = snapshot.items;
                snapshot.revision
            }
            Some(asked) => asked,
        };
        let life = match self.query.number("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => {
                // Not all at once, if many began together.
                let [byte] = self.api.random::<1>()?;
                DEFAULT_LIFE + DEFAULT_LIFE * u32::from(byte) / 256
            }
        };
        let now = Instant::now();
        let columns = self.columns();
        let bookmarks = self.query.flag("allowWatchBookmarks");
        let opened = self.api.store.watch(&self.resource.shelf, &prefix, revision);
        let watcher = match opened {
            Ok(watcher) => watcher,
            // As Kubernetes has it: a watch may be asked for, and its first event says that it is over.
            Err(error @ PastError::TooOld { .. }) => {
                let last = event("ERROR", gone(error).to_status().to_string().as_bytes());
                return Ok(answers::stream("application/json", stream::iter([last])));
            }
            Err(error) => return Err(gone(error)),
        };
        let mut watch = Watch {
            request: self,
            selection,
            columns,
            watcher,
            ready: VecDeque::new(),
            started: false,
            bookmarks,
            next_bookmark: now + BOOKMARKS,
            end: now + life,
            over: false,
        };
        for (_, entry) in start {
            if watch.selection.matches(&watch.request, &entry.bytes) {
                watch.push("ADDED", &entry.bytes)?;
            }
        }
        if initial == Some(true) && bookmarks {
            let event = watch.bookmark(revision, true);
            watch.ready.push_back(event);
        }
        let events = stream::unfold(watch, |mut watch| async move {
            let event = watch.next().await?;
            Some((event, watch))
        });
        Ok(answers::stream("application/json", events))
    }

    /// Whether the client wants what is there already, if it says so.
    fn initial_events(&self) -> Result<Option<bool>, Refusal> {
        let match_ = self.query.get("resourceVersionMatch");
        let initial = self.query.get("sendInitialEvents").map(|text| !matches!(text, "false" | "0"));
        let mut causes = Vec::new();
        let mut forbid = |detail: &str| {
            causes.push(Cause {
                reason: "FieldValueForbidden".to_owned(),
                message: format!("Forbidden: {detail}"),
                field: "resourceVersionMatch".to_owned(),
            });
        };
        if initial.is_some() && match_ != Some("NotOlderThan") {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if initial.is_none() && match_.is_some() {
            forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if causes.is_empty() { Ok(initial) } else { Err(Refusal::invalid("ListOptions", "meta.k8s.io", "", &causes)) }
    }
}

fn gone(error: PastError) -> Refusal {
    match error {
        PastError::TooOld { .. } => Refusal::expired(error.to_string()),
        PastError::Future { asked, current } => Refusal::revision_from_the_future(asked, current),
    }
}

impl Watch {
    /// The next events, or none when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                // One frame for all that is ready: most clients read faster than they are woken.
                let size = self.ready.iter().map(Bytes::len).sum();
                if self.ready.len() == 1 {
                    return self.ready.pop_front();
                }
                let mut all = BytesMut::with_capacity(size);
                for event in self.ready.drain(..) {
                    all.put(event);
                }
                return Some(all.freeze());
            }
            if self.over {
                return None;
            }
            let bookmark_due = self.bookmarks.then_some(self.next_bookmark);
            let wake = bookmark_due.map_or(self.end, |due| due.min(self.end));
            tokio::select! {
                changes = self.watcher.next() => self.take(changes),
                () = tokio::time::sleep_until(wake) => self.tick(),
            }
        }
    }

    /// Time for a bookmark, or for the end, before which a client likes to know how far it came.
    fn tick(&mut self) {
        let now = Instant::now();
        self.over = now >= self.end;
        if self.bookmarks
            && let Some(revision) = self.watcher.progress()
        {
            let event = self.bookmark(revision, false);
            self.ready.push_back(event);
        }
        self.next_bookmark = now + BOOKMARKS;
    }

    fn take(&mut self, changes: Result<Vec<Change>, PastError>) {
        match changes {
            Ok(changes) => {
                for change in changes {
                    if let Err(refusal) = self.tell(&change) {
                        return self.fail(&refusal);
                    }
                }
            }
            // Slower than history is remembered.
            Err(error) => self.fail(&gone(error)),
        }
    }

    /// A change as those see it who only see what matches.
    fn tell(&mut self, change: &Change) -> Result<(), Refusal> {
        let before = change.before.as_ref();
        let was = before.is_some_and(|entry| self.selection.matches(&self.request, &entry.bytes));
        let is = !change.removed && self.selection.matches(&self.request, &change.object);
        match (was, is) {
            (false, false) => Ok(()),
            (false, true) => self.push("ADDED", &change.object),
            (true, true) => self.push("MODIFIED", &change.object),
            (true, false) if change.removed => self.push("DELETED", &change.object),
            // It no longer matches. What the client gets is what matched last, with the revision of the change.
            (true, false) => {
                let Some(entry) = before else { return Ok(()) };
                let mut last: Value = serde_json::from_slice(&entry.bytes).map_err(Refusal::internal)?;
                last["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                self.push("DELETED", last.to_string().as_bytes())
            }
        }
    }

    fn push(&mut self, kind: &str, stored: &[u8]) -> Result<(), Refusal> {
        let object = self.request.present_event(stored, &self.columns, !self.started)?;
        self.started = true;
        self.ready.push_back(event(kind, &object));
        Ok(())
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.ready.push_back(event("ERROR", refusal.to_status().to_string().as_bytes()));
        self.over = true;
    }

    fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let resource = &self.request.resource;
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.request.form {
            Form::Whole => json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata}),
            Form::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table(_) => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": revision.to_string()},
                "columnDefinitions": null,
                "rows": [{
                    "cells": [],
                    "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
                }],
            }),
        };
        event("BOOKMARK", object.to_string().as_bytes())
    }
}

fn event(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 32);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}
