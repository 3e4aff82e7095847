//! Archived logs of deleted Pods, from the archive of the platform on this machine or from a named one.

use std::{path::Path, sync::Arc};

use api::Task;
use domain::contract::record;
use futures::StreamExt as _;
use jiff::Timestamp;
use store::{Archive, ArchivedLog, Log, Owner, Run, Selection, Store};

use super::{Filter, LogArgs, write};
use crate::{
    commands::{
        connect::{Cluster, Source},
        output::note,
        problem::{Answer, Problem},
        size::size,
    },
    log_archive::LogArchiveArg,
};

/// The container whose log is kept.
const AGENT: &str = "agent";

/// A log in an archive.
pub struct KeptLog {
    archive: Arc<dyn Archive>,
    log: Log,
    kept: ArchivedLog,
}

impl KeptLog {
    /// The archived log of a run; `None` without one or without an archive.
    pub async fn find(
        cluster: &Cluster,
        named: &LogArchiveArg,
        task: &Task,
        epoch: i64,
        container: Option<&str>,
    ) -> Answer<Option<Self>> {
        if container.is_some_and(|container| container != AGENT) {
            return Ok(None);
        }
        let Some((archive, task)) = archive_of(cluster, named, task)? else { return Ok(None) };
        let log = Run { task, epoch }.log();
        let kept = archive.find(&log).await.map_err(|error| Problem::new(error.to_string()))?;
        Ok(kept.map(|kept| Self { archive, log, kept }))
    }

    /// Whether the end of the log is archived, so that the cluster need not be asked.
    pub fn is_complete(&self) -> bool {
        self.kept.is_complete()
    }

    /// Prints the selected lines and reports gaps.
    pub async fn show(&self, args: &LogArgs) -> Answer<()> {
        let since = args.since.and_then(|span| Timestamp::now().checked_sub(span).ok());
        let wanted = Selection { after: None, since, tail: args.tail.map(u64::from) };
        let mut lines = Box::pin(store::read(Arc::clone(&self.archive), self.log.clone(), wanted));
        let mut filter = Filter::of(args);
        while let Some(line) = lines.next().await {
            let (place, line) = line?;
            if !filter.shows(&line.text) {
                continue;
            }
            let stamp = place.filter(|_| args.timestamps).map(|place| format!("{} ", place.time)).unwrap_or_default();
            write(&[stamp.as_bytes(), &record::visible(&line.text), b"\n"].concat())?;
        }
        let node_gaps = self.kept.end.is_some_and(|end| end.gaps > u32::from(self.kept.left_out > 0));
        if let Some(expiry) = &self.kept.expired {
            note(&expiry.to_string());
        } else if !self.kept.is_complete() {
            note("the end of this log is lost: its Pod went before all of it was kept");
        } else if node_gaps {
            note("lines are missing in this log: the node had thrown them away before they were kept");
        }
        if self.kept.expired.is_none() {
            filter.report(args);
            if self.kept.left_out > 0 && filter.wanted.is_some() {
                note(&format!(
                    "{} in the middle of this log are left out, and were not searched: it is longer than its limit",
                    size(self.kept.left_out)
                ));
            }
        }
        Ok(())
    }
}

/// The archive and the owner key of a Task; `None` if no archive is known.
pub fn archive_of(cluster: &Cluster, named: &LogArchiveArg, task: &Task) -> Answer<Option<(Arc<dyn Archive>, Owner)>> {
    let named = named.open().map_err(|error| Problem::new(error.to_string()))?;
    let meta = &task.metadata;
    let owner = meta.namespace.as_deref().zip(meta.uid.as_deref());
    let owner = owner.and_then(|(namespace, uid)| Owner::new(namespace, uid));
    Ok(named.or_else(|| of_this_machine(&cluster.source)).zip(owner))
}

/// The archive of the platform whose kubeconfig is used, if it is one on this machine.
fn of_this_machine(source: &Source) -> Option<Arc<dyn Archive>> {
    let Source::Files(files) = source else { return None };
    let [kubeconfig] = files.as_slice() else { return None };
    let state = kubeconfig.canonicalize().ok()?.parent().map(Path::to_owned)?;
    // Do not create an archive where none exists.
    if !local::state_dir::is_state_dir(&state) {
        return None;
    }
    let (store, files) = (state.join(local::platform::STORE), state.join(local::platform::LOGS));
    if store.is_dir() {
        return Some(Arc::new(Store::directory(&store).ok()?));
    }
    // The platform runs in an earlier version.
    files
        .is_dir()
        .then(|| store::Directory::open(&files).ok())
        .flatten()
        .map(|files| Arc::new(files) as Arc<dyn Archive>)
}
