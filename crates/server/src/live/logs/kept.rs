//! Logs in the archive.

use std::sync::Arc;

use api::Task;
use futures::{StreamExt as _, TryStreamExt as _};
use store::{Archive, ArchivedLog, Owner, Position, Run};

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
    run: Run,
    kept: ArchivedLog,
}

impl KeptLog {
    /// The archived log of a run, if there is an archive and a log in it.
    pub(super) async fn find(server: &Server, task: &Task, run: i64, container: &str) -> Answer<Option<Self>> {
        let Some(archive) = server.options.log_archive.as_ref().filter(|_| container == AGENT) else { return Ok(None) };
        let Some(task) = owner(task) else { return Ok(None) };
        let run = Run { task, epoch: run };
        let kept = archive.find(&run).await;
        let kept = kept.map_err(|error| ApiError::internal("the log archive cannot be read", &error))?;
        Ok(kept.map(|kept| Self { archive: Arc::clone(archive), run, kept }))
    }

    /// Whether the log is complete and without gaps, so that the node need not be asked.
    pub(super) fn is_whole(&self) -> bool {
        self.kept.is_whole()
    }

    /// Whether the end of the log is archived.
    pub(super) fn is_complete(&self) -> bool {
        self.kept.is_complete()
    }

    /// A sentence about the missing lines.
    pub(super) fn missing(&self) -> Option<String> {
        let gaps = self.kept.end.map_or(0, |end| end.gaps);
        if !self.is_complete() {
            return Some("the end of this log is lost: its Pod went before all of it was kept".to_owned());
        }
        (gaps > 0).then(|| format!("lines are missing in this log, at {gaps} place(s): the node had thrown them away"))
    }

    /// The requested lines after `last`.
    pub(super) fn lines(&self, wanted: &Wanted, last: Option<Position>) -> Lines {
        let lines = store::read(Arc::clone(&self.archive), self.run.clone(), wanted.selection(last));
        lines.map_ok(|(place, line)| (Some(place), line)).boxed()
    }
}
