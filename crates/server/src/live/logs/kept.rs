//! Logs in the archive.

use std::sync::Arc;

use api::Task;
use domain::run::progress::SESSION_CONTAINER;
use futures::StreamExt as _;
use store::{Archive, ArchivedLog, Log, Owner, Position, Run, Stream};

use super::{
    Lines,
    query::{AGENT, Wanted},
};
use crate::{
    error::{Answer, ApiError},
    state::Server,
};

/// The Task as owner of archived data.
pub(crate) fn owner(task: &Task) -> Option<Owner> {
    Owner::new(task.metadata.namespace.as_deref()?, task.metadata.uid.as_deref()?)
}

/// A log in the archive.
pub(super) struct KeptLog {
    archive: Arc<dyn Archive>,
    log: Log,
    kept: ArchivedLog,
}

impl KeptLog {
    /// The archived log of a run, if there is an archive and a log in it.
    pub(super) async fn find(server: &Server, task: &Task, run: i64, container: &str) -> Answer<Option<Self>> {
        let stream = match container {
            AGENT => Stream::Text,
            SESSION_CONTAINER => Stream::Records,
            _ => return Ok(None),
        };
        let Some(archive) = server.options.log_archive.as_ref() else { return Ok(None) };
        let Some(task) = owner(task) else { return Ok(None) };
        let log = Log { run: Run { task, epoch: run }, stream };
        let kept = archive.find(&log).await;
        let kept = kept.map_err(|error| ApiError::internal("the log archive cannot be read", &error))?;
        Ok(kept.map(|kept| Self { archive: Arc::clone(archive), log, kept }))
    }

    /// Whether the log is complete and without gaps.
    pub(super) fn is_whole(&self) -> bool {
        self.kept.is_whole()
    }

    /// Whether the end of the log is archived. Then the node need not be asked: it does not have more lines.
    pub(super) fn is_complete(&self) -> bool {
        self.kept.is_complete()
    }

    /// Why the log was removed, if it was.
    pub(super) fn expired(&self) -> Option<String> {
        self.kept.expired.map(|expiry| expiry.to_string())
    }

    /// A sentence about the missing lines, except those that the log itself reports.
    pub(super) fn missing(&self) -> Option<String> {
        if let Some(expiry) = self.expired() {
            return Some(expiry);
        }
        let gaps = self.kept.end.map_or(0, |end| end.gaps).saturating_sub(u32::from(self.kept.left_out > 0));
        if !self.is_complete() {
            return Some("the end of this log is lost: its Pod went before all of it was kept".to_owned());
        }
        (gaps > 0).then(|| format!("lines are missing in this log, at {gaps} place(s): the node had thrown them away"))
    }

    /// A sentence about all lines that are not there: those that are missing, and those beyond the limit of the log.
    pub(super) fn lacks(&self) -> Option<String> {
        let left_out = self.kept.left_out;
        let beyond = (left_out > 0 && self.kept.expired.is_none())
            .then(|| format!("{left_out} bytes in the middle of this log are left out: it is longer than its limit"));
        let all: Vec<String> = self.missing().into_iter().chain(beyond).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The requested lines after `last`.
    pub(super) fn lines(&self, wanted: &Wanted, last: Option<Position>) -> Lines {
        store::read(Arc::clone(&self.archive), self.log.clone(), wanted.selection(last)).boxed()
    }
}
