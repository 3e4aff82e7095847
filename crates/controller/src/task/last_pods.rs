//! The last observed Pod of each run: its report outlives the Pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::Task;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::shared::apply::controller_uid;

/// The newest run of each Task whose Pod this process observed or created, by the Task's UID. If the Pod is missing, it
/// is lost, not late.
#[derive(Debug, Default)]
pub struct LastPods(Mutex<HashMap<String, Last>>);

#[derive(Debug)]
struct Last {
    epoch: i64,
    pod: Arc<Pod>,
}

impl LastPods {
    /// Records the Pod of a run.
    pub fn note(&self, task: &Task, epoch: i64, pod: &Arc<Pod>) {
        let mut all = self.lock();
        let uid = task.uid().unwrap_or_default();
        if all.get(&uid).is_none_or(|last| last.epoch <= epoch) {
            all.insert(uid, Last { epoch, pod: Arc::clone(pod) });
        }
    }

    /// Records a changed Pod of a followed run, also if the Pod is deleted before the next pass.
    pub fn changed(&self, pod: &Arc<Pod>) {
        let mut all = self.lock();
        let last = controller_uid(&**pod).and_then(|uid| all.get_mut(uid));
        if let Some(last) = last.filter(|last| last.pod.metadata.uid == pod.metadata.uid) {
            last.pod = Arc::clone(pod);
        }
    }

    /// The last observed Pod of a run; `None` if none was observed.
    pub fn last_seen(&self, task: &Task, epoch: i64) -> Option<Arc<Pod>> {
        let all = self.lock();
        all.get(task.metadata.uid.as_deref()?).filter(|last| last.epoch == epoch).map(|last| Arc::clone(&last.pod))
    }

    /// Forgets a run that is over.
    pub fn forget(&self, task: &Task, epoch: i64) {
        let mut all = self.lock();
        let uid = task.uid().unwrap_or_default();
        if all.get(&uid).is_some_and(|last| last.epoch <= epoch) {
            all.remove(&uid);
        }
    }

    /// Forgets a deleted Task.
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

    fn phase(last_pods: &LastPods, epoch: i64) -> Option<String> {
        last_pods.last_seen(&task(), epoch)?.status.as_ref()?.phase.clone()
    }

    #[test]
    fn the_last_state_of_a_pod_stays_until_its_run_is_over() {
        let last_pods = LastPods::default();
        last_pods.changed(&pod("a", "Pending"));
        assert_eq!(phase(&last_pods, 1), None, "a Pod of a run that is not followed is not kept");
        last_pods.note(&task(), 1, &pod("a", "Pending"));
        last_pods.changed(&pod("a", "Succeeded"));
        last_pods.changed(&pod("b", "Failed"));
        assert_eq!(phase(&last_pods, 1).as_deref(), Some("Succeeded"));
        assert_eq!(phase(&last_pods, 2), None);
        last_pods.forget(&task(), 1);
        last_pods.changed(&pod("a", "Failed"));
        assert_eq!(phase(&last_pods, 1), None);
    }

    #[test]
    fn late_events_of_an_older_run_change_nothing() {
        let last_pods = LastPods::default();
        last_pods.note(&task(), 2, &pod("b", "Running"));
        last_pods.note(&task(), 1, &pod("a", "Failed"));
        last_pods.forget(&task(), 1);
        assert_eq!(phase(&last_pods, 2).as_deref(), Some("Running"));
        last_pods.forget_task("1");
        assert_eq!(phase(&last_pods, 2), None);
    }
}
