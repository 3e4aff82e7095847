//! The PersistentVolumeClaim of a single run: whether it is deleted or kept after the run.

use k8s_openapi::api::core::v1::Pod;

/// Name of the volume with the files of a run.
pub const VOLUME: &str = "workspace";

/// What to do with the claim after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// The run has no claim of its own.
    Nothing,
    /// Delete this claim.
    Free(String),
    /// Keep this claim for inspection.
    Keep(String),
}

/// What to do with the claim that Kubernetes created for a Pod, and would delete with it. `retain` is the run's term
/// for a failed run.
pub fn afterwards(pod: &Pod, retain: bool, failed: bool) -> Afterwards {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let is_own = volumes.into_iter().any(|volume| volume.name == VOLUME && volume.ephemeral.is_some());
    let Some(pod) = pod.metadata.name.as_ref().filter(|_| is_own) else { return Afterwards::Nothing };
    let claim = format!("{pod}-{VOLUME}");
    if failed && retain { Afterwards::Keep(claim) } else { Afterwards::Free(claim) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_files_of_a_failed_run_are_kept_and_only_if_asked() {
        let pod = |volume| -> Pod {
            serde_json::from_value(
                json!({"metadata": {"name": "t-pod"}, "spec": {"containers": [], "volumes": [volume]}}),
            )
            .unwrap()
        };
        let own = pod(json!({"name": "workspace", "ephemeral": {}}));
        let (free, keep) = (Afterwards::Free("t-pod-workspace".into()), Afterwards::Keep("t-pod-workspace".into()));
        for (retain, failed, expected) in
            [(true, true, &keep), (true, false, &free), (false, true, &free), (false, false, &free)]
        {
            assert_eq!(afterwards(&own, retain, failed), *expected, "retain {retain}, failed {failed}");
        }
        for other in [json!({"name": "workspace", "emptyDir": {}}), json!({"name": "cache", "ephemeral": {}})] {
            assert_eq!(afterwards(&pod(other), false, false), Afterwards::Nothing);
        }
    }
}
