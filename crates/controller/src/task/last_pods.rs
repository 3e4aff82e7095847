//! The last observed Pod of each run: its report outlives the Pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::Task;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::shared::apply::controller_uid;

/// The newest run of each Task whose Pod this process observed or created, by the Task's UID: if the Pod is not there,
/// it is lost, not late.
#[derive(Debug, Default)]
pub struct LastPods(Mutex<HashMap<String, Last>>);

#[derive(Debug)]
struct Last {
    epoch: i64,
    pod: Arc<Pod>,
}

impl LastPods {
    /// The Pod of this run is there.
    pub fn note(&self, task: &Task, epoch: i64, pod: &Arc<Pod>) {
        let mut all = self.lock();
        let uid = task.uid().unwrap_or_default();
        if all.get(&uid).is_none_or(|last| last.epoch <= epoch) {
            all.insert(uid, Last { epoch, pod: Arc::clone(pod) });
        }
    }

    /// A Pod changed. Of a run that is followed the newest state counts, also if the Pod was gone before the next pass.
    pub fn changed(&self, pod: &Arc<Pod>) {
        let mut all = self.lock();
        let last = controller_uid(&**pod).and_then(|uid| all.get_mut(uid));
        if let Some(last) = last.filter(|last| last.pod.metadata.uid == pod.metadata.uid) {
            last.pod = Arc::clone(pod);
        }
    }

    /// The last observed Pod of this run, if there was one.
    pub fn last_seen(&self, task: &Task, epoch: i64) -> Option<Arc<Pod>> {
        let all = self.lock();
        all.get(task.metadata.uid.as_deref()?).filter(|last| last.epoch == epoch).map(|last| Arc::clone(&last.pod))
    }

    /// The run is over.
    pub fn forget(&self, task: &Task, epoch: i64) {
        let mut all = self.lock();
        let uid = task.uid().unwrap_or_default();
        if all.get(&uid).is_some_and(|last| last.epoch <= epoch) {
            all.remove(&uid);
        }
    }

    /// The Task is gone.
    pub fn forget_task(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task() -> Task {
        serde_json::from_value(json!({"metadata": {"name": "t", "uid": "1"}, "spec": {}})).unwrap()
    }

    fn pod(uid: &str, phase: &str) -> Arc<Pod> {
        let owner = json!({"apiVersion": "v1", "kind": "Task", "name": "t", "uid": "1", "controller": true});
        let metadata = json!({"uid": uid, "ownerReferences": [owner]});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap())
    }

    fn phase(made: &LastPods, epoch: i64) -> Option<String> {
        made.last_seen(&task(), epoch)?.status.as_ref()?.phase.clone()
    }

    #[test]
    fn what_a_pod_told_last_stays_until_its_run_is_over() {
        let made = LastPods::default();
        made.changed(&pod("a", "Pending"));
        assert_eq!(phase(&made, 1), None, "a Pod of a run that is not followed is not kept");
        made.note(&task(), 1, &pod("a", "Pending"));
        made.changed(&pod("a", "Succeeded"));
        made.changed(&pod("b", "Failed"));
        assert_eq!(phase(&made, 1).as_deref(), Some("Succeeded"));
        assert_eq!(phase(&made, 2), None);
        made.forget(&task(), 1);
        made.changed(&pod("a", "Failed"));
        assert_eq!(phase(&made, 1), None);
    }

    #[test]
    fn late_news_of_an_older_run_change_nothing() {
        let made = LastPods::default();
        made.note(&task(), 2, &pod("b", "Running"));
        made.note(&task(), 1, &pod("a", "Failed"));
        made.forget(&task(), 1);
        assert_eq!(phase(&made, 2).as_deref(), Some("Running"));
        made.forget_task("1");
        assert_eq!(phase(&made, 2), None);
    }
}
