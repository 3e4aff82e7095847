//! `watch`.

use std::collections::VecDeque;
use std::sync::Arc;
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
use crate::store::{Change, Limit, PastError, Watcher};

/// Interval of bookmarks, if requested.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// Default lifetime of a watch: between this and twice this.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(30);

/// How much is read from the store at once, and so how many bytes a watch holds that its client does not read. The rest
/// stays in the history of the store; a client that is slower than that lists again.
const BATCH: Limit = Limit { count: 256, bytes: 256 * 1024 };

struct Watch {
    request: Request,
    selection: Selection,
    columns: Columns,
    /// The objects that are still to be sent as they were when the watch began.
    initial: Option<Initial>,
    watcher: Watcher,
    /// Encoded events to be sent.
    ready: VecDeque<Bytes>,
    started: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    over: bool,
}

struct Initial {
    prefix: String,
    revision: u64,
    /// The key of the last object that was read.
    after: Option<Arc<str>>,
    /// Whether a bookmark follows.
    bookmark: bool,
}

impl Request {
    pub(super) async fn watch(self) -> Result<ApiResponse, StatusError> {
        let initial = self.initial_events()?;
        let selection = self.selection()?;
        let asked = self.asked_revision()?;
        let prefix = self.prefix(&selection);
        let (revision, shows_present) = match asked {
            // Without a revision the watch begins with synthetic events for existing objects.
            None | Some(0) => (self.api.store.revision(), initial != Some(false)),
            Some(asked) if initial == Some(true) => {
                self.wait_for(asked).await?;
                (self.api.store.revision(), true)
            }
            Some(asked) => (asked, false),
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
        let bookmark = initial == Some(true) && bookmarks;
        let watch = Watch {
            request: self,
            selection,
            columns,
            initial: shows_present.then_some(Initial { prefix, revision, after: None, bookmark }),
            watcher,
            ready: VecDeque::new(),
            started: false,
            bookmarks,
            next_bookmark: now + BOOKMARK_INTERVAL,
            end: now + life,
            over: false,
        };
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
            if let Some(initial) = self.initial.take() {
                self.take_initial(initial);
                // A selector may match none of many objects.
                tokio::task::yield_now().await;
                continue;
            }
            let bookmark_due = self.bookmarks.then_some(self.next_bookmark);
            let wake = bookmark_due.map_or(self.end, |due| due.min(self.end));
            tokio::select! {
                changes = self.watcher.next(BATCH) => self.take(changes),
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

    /// Reads the next objects of the initial state, as they were at its revision.
    fn take_initial(&mut self, initial: Initial) {
        let Initial { prefix, revision, after, bookmark } = initial;
        let (store, kind) = (&self.request.api.store, &self.request.resource.storage_key);
        let page = match store.page_at(kind, &prefix, revision, after.as_deref(), BATCH) {
            Ok(page) => page,
            Err(error) => return self.fail(&gone(error)),
        };
        for (_, entry) in &page.items {
            if self.selection.matches(&self.request, &entry.bytes)
                && let Err(error) = self.push("ADDED", &entry.bytes)
            {
                return self.fail(&error);
            }
        }
        if page.more {
            let after = page.items.into_iter().last().map(|(key, _)| key);
            self.initial = Some(Initial { prefix, revision, after, bookmark });
        } else if bookmark {
            let event = self.bookmark(revision, true);
            self.ready.push_back(event);
        }
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::Options;
    use crate::api::Api;
    use crate::http::ResponseBody;
    use crate::request::Query;

    /// Size of the data of an object.
    const DATA: usize = 100 * 1024;
    /// Most that a watch hands over at once: a batch, of which the last object may be as large as the whole, and metadata.
    const MOST: usize = BATCH.bytes + 20 * 1024;

    async fn request() -> Request {
        let api = Api::open(Options::default()).await.unwrap();
        let registry = api.registry();
        let resource = Arc::clone(registry.of_kind("v1", "ConfigMap").unwrap());
        let mut request = Request::internal(&api, &registry, resource);
        request.namespace = "default".to_owned();
        request
    }

    fn map(name: &str, letter: &str) -> String {
        json!({"metadata": {"name": name}, "data": {"a": letter.repeat(DATA)}}).to_string()
    }

    async fn create(request: &Request, names: impl IntoIterator<Item = String>) {
        for name in names {
            request.create(map(&name, "x").as_bytes()).await.unwrap();
        }
    }

    async fn change(request: &Request, name: &str, letter: &str) {
        let request = Request { name: name.to_owned(), ..request.clone() };
        request.update(map(name, letter).as_bytes()).await.unwrap();
    }

    async fn watch(request: &Request, query: &str) -> ResponseBody {
        let request = Request { query: Query::parse(Some(query)), ..request.clone() };
        request.watch().await.unwrap().into_body()
    }

    /// The next piece of the stream.
    async fn piece(body: &mut ResponseBody) -> Option<Bytes> {
        let frame = tokio::time::timeout(Duration::from_mins(1), body.frame()).await.expect("no event");
        frame.map(|frame| frame.unwrap().into_data().unwrap())
    }

    /// Reads `count` events in pieces of bounded size, and returns them as `TYPE name letter`.
    async fn events(body: &mut ResponseBody, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        while events.len() < count {
            let piece = piece(body).await.expect("the watch ended");
            assert!(piece.len() <= MOST, "{} bytes at once", piece.len());
            for event in serde_json::Deserializer::from_slice(&piece).into_iter::<Value>() {
                let event = event.unwrap();
                let object = &event["object"];
                let letter = object["data"]["a"].as_str().and_then(|data| data.get(..1)).unwrap_or_default();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                events.push(format!("{} {} {letter}", text(&event["type"]), text(&object["metadata"]["name"])));
            }
        }
        events
    }

    #[tokio::test]
    async fn a_watch_holds_only_the_events_that_its_client_reads_next() {
        let request = request().await;
        create(&request, (10..50).map(|n| format!("m{n}"))).await;
        let mut body = watch(&request, "watch=true").await;
        let expected: Vec<String> = (10..50).map(|n| format!("ADDED m{n} x")).collect();
        assert_eq!(events(&mut body, 40).await, expected);
        for n in 10..40 {
            change(&request, &format!("m{n}"), "y").await;
        }
        let expected: Vec<String> = (10..40).map(|n| format!("MODIFIED m{n} y")).collect();
        assert_eq!(events(&mut body, 30).await, expected);
    }

    #[tokio::test]
    async fn initial_events_show_one_moment_and_changes_follow() {
        let request = request().await;
        create(&request, (0..9).map(|n| format!("m{n}"))).await;
        let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut body = watch(&request, query).await;
        let mut seen = events(&mut body, 1).await;
        assert!(seen.len() < 8, "{seen:?}");
        change(&request, "m8", "y").await;
        create(&request, ["m80".to_owned()]).await;
        seen.extend(events(&mut body, 12 - seen.len()).await);
        let mut expected: Vec<String> = (0..9).map(|n| format!("ADDED m{n} x")).collect();
        expected.extend(["BOOKMARK  ", "MODIFIED m8 y", "ADDED m80 x"].map(str::to_owned));
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn a_watch_that_is_read_too_slowly_ends_and_its_client_lists_again() {
        let request = request().await;
        create(&request, (0..9).map(|n| format!("m{n}"))).await;
        let mut body = watch(&request, "watch=true").await;
        assert!(!events(&mut body, 1).await.is_empty());
        for n in 0..130 {
            change(&request, "m0", if n % 2 == 0 { "y" } else { "z" }).await;
        }
        let last: Value = serde_json::from_slice(&piece(&mut body).await.unwrap()).unwrap();
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert!(piece(&mut body).await.is_none());
    }
}
