//! The record of a run: its settings and its final status, archived next to its log.
//!
//! The record is durable before the status is written, and the first record of a run counts: a new leader writes the
//! recorded status, not its own verdict (I2, I5). Records survive later runs and are deleted with the Task.

use std::time::Duration;

use api::{
    Task, TaskStatus,
    conditions::{reasons, types},
};
use domain::{explain::Setting, run::milestones, status};
use jiff::Timestamp;
use kube::ResourceExt as _;
use observe::Key;
use store::{Archive, Run};

use crate::{logs, shared::Shared};

/// The end of a run does not wait longer than this for the archive.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Archives the settings of a run, with the origin of each.
pub async fn keep_settings(shared: &Shared, task: &Task, epoch: i64, settings: &[Setting]) {
    let (Some(archive), Some(run)) = (&shared.records.archive, logs::run(task, epoch)) else { return };
    let error = match serde_json::to_vec(settings) {
        Err(error) => error.to_string(),
        Ok(text) => match tokio::time::timeout(ARCHIVE_TIMEOUT, archive.keep_settings(&run, text)).await {
            Err(_) => "the archive does not answer".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => return,
        },
    };
    tracing::warn!(settings = run.settings(), error, "the settings of a run could not be archived");
}

/// The path of a run's settings in the archive, if there is an archive.
pub fn settings_of(shared: &Shared, task: &Task, epoch: i64) -> Option<String> {
    shared.records.archive.as_ref()?;
    logs::run(task, epoch).map(|run| run.settings())
}

/// Archives the final status of a run. Returns the status to write: the archived one, or one with a condition that says
/// that archiving failed.
pub async fn keep(shared: &Shared, task: &Task, epoch: i64, ended: TaskStatus, at: Timestamp) -> TaskStatus {
    let (Some(archive), Some(run)) = (&shared.records.archive, logs::run(task, epoch)) else { return ended };
    let generation = task.metadata.generation;
    let mut record = ended.clone();
    record.result.get_or_insert_default().reference = Some(run.record());
    milestones::note(&mut record, generation, at);
    write(&**archive, &run, &record).await.unwrap_or_else(|error| {
        tracing::warn!(record = run.record(), error, "the run record could not be archived");
        let mut ended = ended;
        let conditions = ended.conditions.get_or_insert_default();
        let message = format!("the run record could not be archived: {error}");
        status::set(conditions, types::RESULT_RECORDED, false, reasons::NOT_RECORDED, message, generation, at);
        ended
    })
}

async fn write(archive: &dyn Archive, run: &Run, record: &TaskStatus) -> Result<TaskStatus, String> {
    let text = serde_json::to_vec(record).map_err(|error| error.to_string())?;
    let kept = match tokio::time::timeout(ARCHIVE_TIMEOUT, archive.record(run, text)).await {
        Err(_) => return Err("the archive does not answer".to_owned()),
        Ok(kept) => kept.map_err(|error| error.to_string())?,
    };
    serde_json::from_slice(&kept).map_err(|error| format!("{} is damaged: {error}", run.record()))
}

/// Deletes a record that was just archived if its Task was deleted in the meantime (I10).
pub fn recheck(shared: &Shared, task: &Task) {
    let known = shared.cache.tasks.object(&Key::of(task)).and_then(|known| known.uid());
    if let Some(owner) = logs::owner(task).filter(|_| known != task.uid()) {
        shared.work.logs.add(owner);
    }
}
