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
use crate::http::{self as responses, ApiResponse, Representation};
use crate::status_error::{Cause, StatusError};
use crate::store::{Change, PastError, Watcher};

/// Interval of bookmarks, if requested.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// Default lifetime of a watch: between this and twice this.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(30);

struct Watch {
    request: Request,
    selection: Selection,
    columns: Columns,
    watcher: Watcher,
    /// Encoded events to be sent.
    ready: VecDeque<Bytes>,
    started: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    over: bool,
}

impl Request {
    pub(super) async fn watch(self) -> Result<ApiResponse, StatusError> {
        let initial = self.initial_events()?;
        let selection = self.selection()?;
        let asked = self.asked_revision()?;
        let prefix = self.prefix(&selection);
        let mut start = Vec::new();
        let revision = match asked {
            // Without a revision the watch begins with synthetic events for existing objects.
            None | Some(0) => {
                let snapshot = self.api.store.list(&self.resource.storage_key, &prefix);
                if initial != Some(false) {
                    start = snapshot.items;
                }
                snapshot.revision
            }
            Some(asked) if initial == Some(true) => {
                self.wait_for(asked).await?;
                let snapshot = self.api.store.list(&self.resource.storage_key, &prefix);
                start = snapshot.items;
                snapshot.revision
            }
            Some(asked) => asked,
        };
        let life = match self.query.number("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => {
                // Random jitter, so that watches that began together do not end together.
                let [byte] = self.api.random::<1>()?;
                DEFAULT_LIFETIME + DEFAULT_LIFETIME * u32::from(byte) / 256
            }
        };
        let now = Instant::now();
        let columns = self.columns();
        let bookmarks = self.query.flag("allowWatchBookmarks");
        let opened = self.api.store.watch(&self.resource.storage_key, &prefix, revision);
        let watcher = match opened {
            Ok(watcher) => watcher,
            // As in Kubernetes, an expired revision is reported as the first event.
            Err(error @ PastError::TooOld { .. }) => {
                let last = event("ERROR", gone(error).to_status().to_string().as_bytes());
                return Ok(responses::stream("application/json", stream::iter([last])));
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
            next_bookmark: now + BOOKMARK_INTERVAL,
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
        Ok(responses::stream("application/json", events))
    }

    /// Whether the client requests initial events.
    fn initial_events(&self) -> Result<Option<bool>, StatusError> {
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
        if causes.is_empty() {
            Ok(initial)
        } else {
            Err(StatusError::invalid("ListOptions", "meta.k8s.io", "", &causes))
        }
    }
}

fn gone(error: PastError) -> StatusError {
    match error {
        PastError::TooOld { .. } => StatusError::expired(error.to_string()),
        PastError::Future { asked, current } => StatusError::future_revision(asked, current),
    }
}

impl Watch {
    /// The next events; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                // One chunk for all ready events: fewer wakeups of the client.
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

    /// Sends a bookmark when it is due, and before the watch ends.
    fn tick(&mut self) {
        let now = Instant::now();
        self.over = now >= self.end;
        if self.bookmarks
            && let Some(revision) = self.watcher.progress()
        {
            let event = self.bookmark(revision, false);
            self.ready.push_back(event);
        }
        self.next_bookmark = now + BOOKMARK_INTERVAL;
    }

    fn take(&mut self, changes: Result<Vec<Change>, PastError>) {
        match changes {
            Ok(changes) => {
                for change in changes {
                    if let Err(error) = self.push_change(&change) {
                        return self.fail(&error);
                    }
                }
            }
            // Slower than the history is kept.
            Err(error) => self.fail(&gone(error)),
        }
    }

    /// Converts a change to an event of the filtered view.
    fn push_change(&mut self, change: &Change) -> Result<(), StatusError> {
        let before = change.before.as_ref();
        let was = before.is_some_and(|entry| self.selection.matches(&self.request, &entry.bytes));
        let is = !change.removed && self.selection.matches(&self.request, &change.object);
        match (was, is) {
            (false, false) => Ok(()),
            (false, true) => self.push("ADDED", &change.object),
            (true, true) => self.push("MODIFIED", &change.object),
            (true, false) if change.removed => self.push("DELETED", &change.object),
            // The object no longer matches: the event has its last matching state with the revision of the change.
            (true, false) => {
                let Some(entry) = before else { return Ok(()) };
                let mut last: Value = serde_json::from_slice(&entry.bytes).map_err(StatusError::internal)?;
                last["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                self.push("DELETED", last.to_string().as_bytes())
            }
        }
    }

    fn push(&mut self, kind: &str, stored: &[u8]) -> Result<(), StatusError> {
        let object = self.request.present_event(stored, &self.columns, !self.started)?;
        self.started = true;
        self.ready.push_back(event(kind, &object));
        Ok(())
    }

    fn fail(&mut self, error: &StatusError) {
        self.ready.push_back(event("ERROR", error.to_status().to_string().as_bytes()));
        self.over = true;
    }

    fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let resource = &self.request.resource;
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.request.form {
            Representation::Whole => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
            Representation::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Representation::Table(_) => json!({
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
