//! Which Tasks belong to a CronTask.

use std::borrow::Borrow;

use api::{
    CronTask, Task,
    conditions::types,
    names::{annotations, labels},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::status::holds;

/// A Task of a CronTask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildTask {
    pub name: String,
    pub uid: String,
    pub created: Timestamp,
    /// The Task is not finished.
    pub active: bool,
    /// `None` while it is active.
    pub ended_at: Option<Timestamp>,
    /// It completed and was not stopped.
    pub succeeded: bool,
    /// A stop was requested, by a user or by a concurrency policy.
    pub stop_requested: bool,
}

impl ChildTask {
    /// Reads `task`.
    pub fn of(task: &Task) -> Self {
        let metadata = &task.metadata;
        let status = task.status.clone().unwrap_or_default();
        let phase = status.phase.unwrap_or_default();
        let stopped = holds(status.conditions.as_deref(), types::STOPPED);
        let stop = metadata.annotations.as_ref().and_then(|all| all.get(annotations::STOP));
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            active: !phase.is_finished(),
            ended_at: status.completion_time.map(|time| time.0).filter(|_| phase.is_finished()),
            succeeded: phase == api::TaskPhase::Completed && !stopped,
            stop_requested: stop.is_some_and(|value| value == "true"),
        }
    }

    /// Reads `task` if it belongs to `cron`. A Task that an earlier CronTask of the same name created does not: it is
    /// about to be deleted.
    pub fn of_cron(cron: &CronTask, task: &Task) -> Option<Self> {
        let ours = match owner(task) {
            Some(owner) => Some(&owner.uid) == cron.metadata.uid.as_ref(),
            None => parent(task) == cron.metadata.name.as_deref(),
        };
        (ours && task.metadata.namespace == cron.metadata.namespace).then(|| Self::of(task))
    }
}

/// The Tasks of `cron` among `tasks`.
pub fn children<T: Borrow<Task>>(cron: &CronTask, tasks: impl IntoIterator<Item = T>) -> Vec<ChildTask> {
    tasks.into_iter().filter_map(|task| ChildTask::of_cron(cron, task.borrow())).collect()
}

/// The name of the CronTask that `task` belongs to: the one that created it, or the one that its label names. People
/// create Tasks with the label by hand, and these count like the others.
pub fn parent(task: &Task) -> Option<&str> {
    let named = || task.metadata.labels.as_ref()?.get(labels::CRON_TASK).map(String::as_str);
    owner(task).map(|owner| owner.name.as_str()).or_else(named)
}

fn owner(task: &Task) -> Option<&OwnerReference> {
    let mut owners = task.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.kind == "CronTask" && owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sample::from_json;

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a reference")]
    fn task(metadata: Value) -> Task {
        let mut task: Task = from_json(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": metadata, "spec": {}}));
        task.metadata.namespace = Some("ns".into());
        task
    }

    fn owned(uid: &str) -> Value {
        json!([{"apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask", "name": "nightly", "uid": uid, "controller": true}])
    }

    #[test]
    fn a_task_belongs_to_the_cron_task_that_created_it_or_that_its_label_names() {
        let cron: CronTask = from_json(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask",
            "metadata": {"name": "nightly", "namespace": "ns", "uid": "now"},
            "spec": {"schedule": "@daily", "taskTemplate": {"spec": {}}}}));
        let label = json!({"kubeopencode.io/crontask": "nightly"});
        for (metadata, belongs) in [
            (json!({"ownerReferences": owned("now")}), true),
            (json!({"labels": label}), true),
            (json!({"labels": label, "ownerReferences": owned("now")}), true),
            // Of a deleted CronTask of the same name.
            (json!({"labels": label, "ownerReferences": owned("before")}), false),
            (json!({"labels": {"kubeopencode.io/crontask": "other"}}), false),
            (json!({}), false),
        ] {
            let task = task(metadata.clone());
            assert_eq!(children(&cron, [&task]).len(), usize::from(belongs), "{metadata}");
        }
        let mut elsewhere = task(json!({"labels": label}));
        elsewhere.metadata.namespace = Some("other".into());
        assert!(children(&cron, [&elsewhere]).is_empty());
    }
}
