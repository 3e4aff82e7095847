//! What the archive has of a log.

use std::sync::Arc;

use api::Task;
use futures::{StreamExt as _, TryStreamExt as _};
use store::{Archive, Kept, Owner, Place, Run};

use super::{
    Lines,
    query::{AGENT, Wanted},
};
use crate::{
    error::{Answer, ApiError},
    state::Server,
};

/// The Task as the archive knows it.
pub(crate) fn owner(task: &Task) -> Option<Owner> {
    Owner::new(task.metadata.namespace.as_deref()?, task.metadata.uid.as_deref()?)
}

/// A log in the archive.
pub(super) struct KeptLog {
    archive: Arc<dyn Archive>,
    run: Run,
    kept: Kept,
}

impl KeptLog {
    /// What is kept of a run; nothing if nothing is, or nobody keeps logs.
    pub(super) async fn find(server: &Server, task: &Task, run: i64, container: &str) -> Answer<Option<Self>> {
        let Some(archive) = server.options.log_archive.as_ref().filter(|_| container == AGENT) else { return Ok(None) };
        let Some(task) = owner(task) else { return Ok(None) };
        let run = Run { task, epoch: run };
        let kept = archive.find(&run).await;
        let kept = kept.map_err(|error| ApiError::internal("the log archive cannot be read", &error))?;
        Ok(kept.map(|kept| Self { archive: Arc::clone(archive), run, kept }))
    }

    /// Whether nothing of it is missing, so that there is no reason to ask a node.
    pub(super) fn is_whole(&self) -> bool {
        self.kept.is_whole()
    }

    /// Whether its end is there.
    pub(super) fn is_complete(&self) -> bool {
        self.kept.is_complete()
    }

    /// What of it is missing, as a sentence.
    pub(super) fn missing(&self) -> Option<String> {
        let gaps = self.kept.end.map_or(0, |end| end.gaps);
        if !self.is_complete() {
            return Some("the end of this log is lost: its Pod went before all of it was kept".to_owned());
        }
        (gaps > 0).then(|| format!("lines are missing in this log, at {gaps} place(s): the node had thrown them away"))
    }

    /// The lines that are wanted, for whoever has those up to `last`.
    pub(super) fn lines(&self, wanted: &Wanted, last: Option<Place>) -> Lines {
        let lines = store::read(Arc::clone(&self.archive), self.run.clone(), wanted.selection(last));
        lines.map_ok(|(place, line)| (Some(place), line)).boxed()
    }
}
