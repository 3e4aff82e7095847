//! Removes old logs, and the oldest logs of namespaces that use too much space. Records of runs stay and say when the
//! log expired.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use api::{Task, TaskStatus};
use domain::run::retention::{Cause, LogLimits, RunLogs, expired};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use store::{Archive, Expiry, ExpiryCause, Owner, Run, Usage};
use tokio::sync::watch;

use super::owner;
use crate::shared::{Shared, now};

/// Between two passes, a run adds at most the limit of its log.
const INTERVAL: Duration = Duration::from_mins(5);

/// Applies the limits again and again until `stop`.
pub async fn work(shared: &Shared, limits: LogLimits, mut stop: watch::Receiver<bool>) {
    loop {
        if let Err(error) = pass(shared, &limits).await {
            tracing::warn!(%error, "old logs stay: the archive cannot be cleaned up");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn pass(shared: &Shared, limits: &LogLimits) -> Result<(), store::Error> {
    let logs = &shared.records.logs;
    let Some(archive) = &logs.archive else { return Ok(()) };
    // Measured before the Tasks are read: a run that has a log by now is in the cache.
    let (used, copied) = (archive.usage().await?, archive.copied().await?);
    let copied: HashSet<Owner> = copied.into_iter().collect();
    let tasks: HashMap<Owner, Arc<Task>> =
        shared.cache.tasks.all(|_| true).into_iter().filter_map(|task| Some((owner(&task)?, task))).collect();
    let over = |run: &Run| tasks.get(&run.task).map_or(copied.contains(&run.task), |task| is_over(task, run));
    let finished = |run: &Run| !logs.is_followed(run) && over(run);
    for (run, expiry) in plan(&used, limits, now(), finished) {
        tracing::info!(log = %run.log(), cause = ?expiry.cause, "a log expires");
        expire(&**archive, &run, expiry).await?;
    }
    archive.clean().await
}

/// Whether a run of the Task has its final status.
fn is_over(task: &Task, run: &Run) -> bool {
    let status = task.status.as_ref();
    let finished = status.and_then(|status| status.phase).is_some_and(api::TaskPhase::is_finished);
    let current = status.and_then(|status| status.run_epoch).unwrap_or_default();
    run.epoch < current || (run.epoch == current && finished)
}

/// The logs that expire now.
fn plan(used: &[Usage], limits: &LogLimits, now: Timestamp, finished: impl Fn(&Run) -> bool) -> Vec<(Run, Expiry)> {
    let logs = used.iter().map(|used| {
        let Usage { run, bytes, changed } = used;
        RunLogs { namespace: run.task.namespace(), bytes: *bytes, changed: *changed, finished: finished(run) }
    });
    let logs: Vec<RunLogs<'_>> = logs.collect();
    let expiry = |(index, cause): (usize, Cause)| {
        let cause = match cause {
            Cause::Age => ExpiryCause::Age,
            Cause::Space => ExpiryCause::Space,
        };
        (used[index].run.clone(), Expiry { at: now, cause })
    };
    expired(&logs, limits, now).into_iter().map(expiry).collect()
}

/// Removes the logs of a run. Its record says so.
async fn expire(archive: &dyn Archive, run: &Run, expiry: Expiry) -> Result<(), store::Error> {
    let record = archive.records(&run.task).await?.remove(&run.epoch);
    let status = record.and_then(|record| serde_json::from_slice::<TaskStatus>(&record).ok());
    let record = status.and_then(|mut status| {
        status.logs.get_or_insert_default().expired_at = Some(Time(expiry.at));
        serde_json::to_vec(&status).ok()
    });
    archive.expire(run, expiry, record).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::Directory;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a reference")]
    fn task(status: serde_json::Value) -> Task {
        serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "spec": {}, "status": status,
            "metadata": {"name": "fix", "namespace": "default", "uid": "uid-1"},
        }))
        .unwrap()
    }

    fn run(epoch: i64) -> Run {
        Run { task: Owner::new("default", "uid-1").unwrap(), epoch }
    }

    #[tokio::test]
    async fn the_log_of_a_running_task_stays_and_the_record_of_an_earlier_run_says_that_its_log_expired() {
        let dir = tempfile::tempdir().unwrap();
        let archive: Arc<dyn Archive> = Arc::new(Directory::open(dir.path()).unwrap());
        for epoch in [1, 2] {
            archive.append(&run(epoch).log(), 0, b"2026-01-01T00:00:01Z a\n".to_vec()).await.unwrap();
        }
        let ended = br#"{"runEpoch": 1, "phase": "Failed", "logs": {"bytes": 23, "complete": true}}"#;
        archive.record(&run(1), ended.to_vec()).await.unwrap();
        let running = task(json!({"runEpoch": 2, "phase": "Running"}));
        let limits = LogLimits { max_age: Some(Duration::ZERO), namespace_bytes: Some(0) };
        // A status has times in whole seconds.
        let later = Timestamp::from_second(now().as_second() + 3600).unwrap();
        for _ in 0..2 {
            let used = archive.usage().await.unwrap();
            for (run, expiry) in plan(&used, &limits, later, |run| is_over(&running, run)) {
                expire(&*archive, &run, expiry).await.unwrap();
            }
        }
        assert_eq!(archive.find(&run(2).log()).await.unwrap().unwrap().bytes, 23);
        let expired = archive.find(&run(1).log()).await.unwrap().unwrap().expired.unwrap();
        assert_eq!(expired.cause, ExpiryCause::Age);
        let record = archive.records(&run(1).task).await.unwrap().remove(&1).unwrap();
        let record: TaskStatus = serde_json::from_slice(&record).unwrap();
        let logs = record.logs.unwrap();
        assert_eq!((logs.bytes, logs.expired_at.map(|at| at.0)), (Some(23), Some(later)));
    }

    #[test]
    fn a_run_is_over_when_its_status_is_final_or_a_later_run_began() {
        let check = |status, epoch, expected| assert_eq!(is_over(&task(status), &run(epoch)), expected);
        check(json!({"runEpoch": 2, "phase": "Running"}), 2, false);
        check(json!({"runEpoch": 2, "phase": "Running"}), 1, true);
        check(json!({"runEpoch": 2, "phase": "Completed"}), 2, true);
        // A retry waits: the log is closed, and belongs to the run that may be examined now.
        check(json!({"runEpoch": 2, "phase": "Queued"}), 2, false);
        check(json!({}), 1, false);
    }
}
