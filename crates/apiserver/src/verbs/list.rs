//! `list`: selectors, revisions, pagination.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::StatusCode;
use objects::selector::{FieldSelector, LabelSelector};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Request;
use crate::http::{self as responses, ApiResponse, Representation};
use crate::status_error::{Cause, StatusError};
use crate::store::{Entry, PastError, Snapshot};

/// How long a request waits for a future revision.
const REVISION_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.terms().is_empty()
    }

    /// Whether an object matches. An unreadable object does not.
    pub(super) fn matches(&self, request: &Request, stored: &[u8]) -> bool {
        if self.is_everything() {
            return true;
        }
        request.resource.read(stored).is_ok_and(|object| self.labels.matches(&object) && self.fields.matches(&object))
    }

    /// The name in a field selector on metadata.name.
    pub(super) fn name(&self) -> Option<&str> {
        self.fields.name()
    }
}

/// A continue token; opaque for clients.
#[derive(Serialize, Deserialize)]
struct Continue {
    /// The revision of the first page; 0 continues with the present state.
    #[serde(rename = "rv")]
    revision: u64,
    /// The last key of the previous page.
    start: String,
}

impl Continue {
    fn token(&self) -> Result<String, StatusError> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).map_err(StatusError::internal)?))
    }

    fn read(token: &str) -> Result<Self, StatusError> {
        let problem = || {
            StatusError::bad_request(
                "invalid continue token: continue key is not valid: it was not created by this server",
            )
        };
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| problem())?;
        serde_json::from_slice(&bytes).map_err(|_| problem())
    }
}

struct Page {
    revision: u64,
    items: Vec<Bytes>,
    next: Option<String>,
    remaining: Option<usize>,
}

impl Request {
    /// Parses the selectors of the request.
    pub(super) fn selection(&self) -> Result<Selection, StatusError> {
        let refused = |error: objects::selector::SelectorError| StatusError::bad_request(error.to_string());
        let labels = LabelSelector::parse(self.query.get("labelSelector").unwrap_or_default()).map_err(refused)?;
        let fields = FieldSelector::parse(self.query.get("fieldSelector").unwrap_or_default()).map_err(refused)?;
        let custom = self.resource.custom.as_ref();
        let selectable: Option<Vec<&str>> =
            custom.map(|version| version.selectable.iter().map(String::as_str).collect());
        fields.check(&self.resource.api_version(), &self.resource.kind, selectable.as_deref()).map_err(refused)?;
        Ok(Selection { labels, fields })
    }

    fn scope(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }

    /// The key prefix of possible matches.
    pub(super) fn prefix(&self, selection: &Selection) -> String {
        let prefix = self.resource.prefix(self.scope());
        match selection.name() {
            // A prefix of the whole key: other names with the same beginning are filtered later.
            Some(name) if !self.resource.namespaced || !self.namespace.is_empty() => format!("{prefix}{name}"),
            _ => prefix,
        }
    }

    pub(super) async fn list(&self) -> Result<ApiResponse, StatusError> {
        self.check_list_options()?;
        let selection = self.selection()?;
        let page = self.page(&selection).await?;
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if self.resource.custom.is_some() && self.form == Representation::Whole {
            metadata["continue"] = json!("");
        }
        if let Some(next) = page.next {
            metadata["continue"] = json!(next);
            if let Some(remaining) = page.remaining {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        Ok(responses::json(StatusCode::OK, self.present_items(&metadata, &page.items)?))
    }

    fn check_list_options(&self) -> Result<(), StatusError> {
        let Some(match_) = self.query.get("resourceVersionMatch") else { return Ok(()) };
        let version = self.query.get("resourceVersion");
        let mut causes = Vec::new();
        let mut forbid = |detail: &str| {
            causes.push(Cause {
                reason: "FieldValueForbidden".to_owned(),
                message: format!("Forbidden: {detail}"),
                field: "resourceVersionMatch".to_owned(),
            });
        };
        if version.is_none() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if self.query.get("continue").is_some() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if match_ == "Exact" && version == Some("0") {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if !matches!(match_, "Exact" | "NotOlderThan") {
            causes.push(Cause {
                reason: "FieldValueNotSupported".to_owned(),
                message: format!("Unsupported value: {match_:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
                field: "resourceVersionMatch".to_owned(),
            });
        }
        if causes.is_empty() {
            return Ok(());
        }
        Err(StatusError::invalid("ListOptions", "meta.k8s.io", "", &causes))
    }

    pub(super) fn asked_revision(&self) -> Result<Option<u64>, StatusError> {
        let Some(text) = self.query.get("resourceVersion") else { return Ok(None) };
        let problem = || {
            let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            StatusError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: {detail}"
            ))
        };
        text.parse().map(Some).map_err(|_| problem())
    }

    async fn page(&self, selection: &Selection) -> Result<Page, StatusError> {
        let limit = self.query.number("limit")?.filter(|limit| *limit > 0);
        let (snapshot, start) = match self.query.get("continue") {
            Some(token) => {
                if !matches!(self.query.get("resourceVersion"), None | Some("0")) {
                    return Err(StatusError::bad_request(
                        "specifying resource version is not allowed when using continue",
                    ));
                }
                let position = Continue::read(token)?;
                (self.snapshot_of_page(selection, &position)?, Some(position.start))
            }
            None => (self.snapshot(selection, limit.is_some()).await?, None),
        };
        let after = |key: &Arc<str>| start.as_deref().is_none_or(|start| &**key > start);
        let rest: Vec<(Arc<str>, Entry)> = snapshot.items.into_iter().filter(|(key, _)| after(key)).collect();
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let total = rest.len();
        let mut items = Vec::with_capacity(rest.len().min(limit));
        let mut last: Option<Arc<str>> = None;
        let mut seen = 0;
        let mut more = false;
        for (key, entry) in rest {
            if !selection.matches(self, &entry.bytes) {
                seen += 1;
                continue;
            }
            if items.len() == limit {
                more = true;
                break;
            }
            seen += 1;
            last = Some(key);
            items.push(entry.bytes);
        }
        let next = match last {
            Some(start) if more => Some(Continue { revision: snapshot.revision, start: start.to_string() }.token()?),
            _ => None,
        };
        // With a selector the remaining matches are not counted.
        let remaining = selection.is_everything().then_some(total - seen);
        Ok(Page { revision: snapshot.revision, items, next, remaining })
    }

    fn snapshot_of_page(&self, selection: &Selection, position: &Continue) -> Result<Snapshot, StatusError> {
        let prefix = self.prefix(selection);
        if position.revision == 0 {
            return Ok(self.api.store.list(&self.resource.storage_key, &prefix));
        }
        match self.api.store.list_at(&self.resource.storage_key, &prefix, position.revision) {
            Ok(snapshot) => Ok(snapshot),
            Err(PastError::Future { .. }) => Err(StatusError::bad_request(
                "invalid continue token: continue key is not valid: it is from the future",
            )),
            Err(PastError::TooOld { .. }) => {
                let inconsistent = Continue { revision: 0, start: position.start.clone() }.token()?;
                let message = "The provided continue parameter is too old to display a consistent list result. You can \
                               start a new list without the continue parameter, or use the continue token in this \
                               response to retrieve the remainder of the results. Continuing with the provided token \
                               results in an inconsistent list - objects that were created, modified, or deleted \
                               between the time the first chunk was returned and now may show up in the list.";
                Err(StatusError::expired(message).with_continue(inconsistent))
            }
        }
    }

    async fn snapshot(&self, selection: &Selection, paged: bool) -> Result<Snapshot, StatusError> {
        let prefix = self.prefix(selection);
        let exact = match (self.query.get("resourceVersionMatch"), self.asked_revision()?) {
            (_, None | Some(0)) => None,
            (Some("NotOlderThan"), Some(asked)) => {
                self.wait_for(asked).await?;
                None
            }
            (Some(_), Some(asked)) => Some(asked),
            (None, Some(asked)) if paged => Some(asked),
            (None, Some(asked)) => {
                self.wait_for(asked).await?;
                None
            }
        };
        match exact {
            None => Ok(self.api.store.list(&self.resource.storage_key, &prefix)),
            Some(revision) => {
                self.api.store.list_at(&self.resource.storage_key, &prefix, revision).map_err(|error| match error {
                    PastError::Future { asked, current } => StatusError::future_revision(asked, current),
                    PastError::TooOld { .. } => StatusError::expired(
                        "The provided resource version is too old to display a consistent list result. You must \
                         start a new list without the resourceVersion.",
                    ),
                })
            }
        }
    }

    /// Waits until the store has reached a revision that the client has seen.
    pub(super) async fn wait_for(&self, revision: u64) -> Result<(), StatusError> {
        let deadline = tokio::time::Instant::now() + REVISION_TIMEOUT;
        loop {
            let current = self.api.store.revision();
            if current >= revision {
                return Ok(());
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(StatusError::future_revision(revision, current));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Every stored object that matches.
    pub(super) fn selected(&self, selection: &Selection) -> Result<Vec<(Value, Entry)>, StatusError> {
        let snapshot = self.api.store.list(&self.resource.storage_key, &self.prefix(selection));
        snapshot
            .items
            .into_iter()
            .filter(|(_, entry)| selection.matches(self, &entry.bytes))
            .map(|(_, entry)| Ok((self.resource.read(&entry.bytes)?, entry)))
            .collect()
    }
}
