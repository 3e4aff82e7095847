//! The claim that a run had to itself: what becomes of it when the run is over.

use api::run::Workspace;
use k8s_openapi::api::core::v1::Pod;

/// Name of the volume with the files of a run.
pub const VOLUME: &str = "workspace";

/// What becomes of the claim of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// There is none.
    Nothing,
    /// Nobody needs this claim any more.
    Free(String),
    /// Somebody wants to look at this claim.
    Keep(String),
}

/// What becomes of the claim of a Pod that Kubernetes made for it, and would delete with it. `settings` are those of the
/// run, if they are still known; what is not known to be rubbish is kept.
pub fn afterwards(pod: &Pod, settings: Option<&Workspace>, failed: bool) -> Afterwards {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let is_own = volumes.into_iter().any(|volume| volume.name == VOLUME && volume.ephemeral.is_some());
    let Some(pod) = pod.metadata.name.as_ref().filter(|_| is_own) else { return Afterwards::Nothing };
    let claim = format!("{pod}-{VOLUME}");
    if failed && settings.is_none_or(|settings| settings.retain_on_failure) {
        Afterwards::Keep(claim)
    } else {
        Afterwards::Free(claim)
    }
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
        let settings = |retain_on_failure| Workspace { retain_on_failure, ..Workspace::default() };
        let (free, keep) = (Afterwards::Free("t-pod-workspace".into()), Afterwards::Keep("t-pod-workspace".into()));
        assert_eq!(afterwards(&own, Some(&settings(true)), true), keep);
        assert_eq!(afterwards(&own, None, true), keep);
        assert_eq!(afterwards(&own, Some(&settings(false)), true), free);
        assert_eq!(afterwards(&own, Some(&settings(true)), false), free);
        assert_eq!(afterwards(&own, None, false), free);
        for other in [json!({"name": "workspace", "emptyDir": {}}), json!({"name": "cache", "ephemeral": {}})] {
            assert_eq!(afterwards(&pod(other), Some(&settings(false)), false), Afterwards::Nothing);
        }
    }
}
