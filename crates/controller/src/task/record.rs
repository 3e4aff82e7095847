//! The record of a run: what it was made with and its final status, kept beside its log.
//!
//! It is durable before the status is written, and the first record of a run counts: whoever takes over from a process
//! that died in between writes what was recorded (I2, I5). It stays when the Task runs again, and goes with the Task.

use std::time::Duration;

use api::{
    Task, TaskStatus,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kubeopencode_core::{explain::Setting, milestones, status};
use observe::Key;
use store::{Archive, Run};

use crate::{context::Context, logs};

/// An archive that does not answer for this long does not hold up the end of a run.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps what a run is made with, and where each setting came from.
pub async fn keep_settings(ctx: &Context, task: &Task, epoch: i64, settings: &[Setting]) {
    let (Some(archive), Some(run)) = (&ctx.archive, logs::run(task, epoch)) else { return };
    let trouble = match serde_json::to_vec(settings) {
        Err(error) => error.to_string(),
        Ok(text) => match tokio::time::timeout(PATIENCE, archive.keep_settings(&run, text)).await {
            Err(_) => "the archive does not answer".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => return,
        },
    };
    tracing::warn!(settings = run.settings(), trouble, "what a run is made with is not kept");
}

/// Where the settings of a run are kept, if anything is kept.
pub fn settings_of(ctx: &Context, task: &Task, epoch: i64) -> Option<String> {
    ctx.archive.as_ref()?;
    logs::run(task, epoch).map(|run| run.settings())
}

/// Records how a run ended. Answers the status to write: that of the record, or one that says that there is none.
pub async fn keep(ctx: &Context, task: &Task, epoch: i64, ended: TaskStatus, at: Timestamp) -> TaskStatus {
    let (Some(archive), Some(run)) = (&ctx.archive, logs::run(task, epoch)) else { return ended };
    let generation = task.metadata.generation;
    let mut record = ended.clone();
    record.result.get_or_insert_default().reference = Some(run.record());
    milestones::note(&mut record, generation, at);
    write(&**archive, &run, &record).await.unwrap_or_else(|error| {
        tracing::warn!(record = run.record(), error, "how a run ended is told by its status alone");
        let mut ended = ended;
        let conditions = ended.conditions.get_or_insert_default();
        let message = format!("how it ended is told by this status alone: {error}");
        status::set(conditions, types::RESULT_RECORDED, false, reasons::NOT_RECORDED, message, generation, at);
        ended
    })
}

async fn write(archive: &dyn Archive, run: &Run, record: &TaskStatus) -> Result<TaskStatus, String> {
    let text = serde_json::to_vec(record).map_err(|error| error.to_string())?;
    let kept = match tokio::time::timeout(PATIENCE, archive.record(run, text)).await {
        Err(_) => return Err("the archive does not answer".to_owned()),
        Ok(kept) => kept.map_err(|error| error.to_string())?,
    };
    serde_json::from_slice(&kept).map_err(|error| format!("{} is damaged: {error}", run.record()))
}

/// The Task of a run that was just recorded may have gone meanwhile; then nobody else removes the record (I10).
pub fn recheck(ctx: &Context, task: &Task) {
    let known = ctx.seen.tasks.object(&Key::of(task)).and_then(|known| known.uid());
    if let Some(owner) = logs::owner(task).filter(|_| known != task.uid()) {
        ctx.work.logs.add(owner);
    }
}
