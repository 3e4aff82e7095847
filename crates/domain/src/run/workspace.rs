//! The volumes with the files of runs: the claim of a single run, and the claim that the runs of a target share.
//!
//! The claim of a single run belongs to its Pod and is deleted with it, or is kept for inspection until its Task is
//! deleted. The shared claim belongs to the Agent or template; a directory in it is removed once its Task is deleted.

use std::{borrow::Cow, collections::BTreeMap};

use api::{
    names::{GROUP, VERSION, defaults, labels},
    run::{Workspace, WorkspaceAccess, WorkspaceSharing},
};
use jiff::SignedDuration;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod, VolumeResourceRequirements},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use sha2::{Digest as _, Sha256};

use crate::{
    platform::Platform,
    run::{resolved::ResolvedTask, target::RunsOn},
    workload::{
        contexts::hex,
        pod::{TaskIdentity, attaches},
        volumes::amount,
    },
};

/// Name of the volume with the files of a run.
pub const VOLUME: &str = "workspace";
/// Value of [`labels::APP_COMPONENT`] on the claim of a single run.
pub const RUN_COMPONENT: &str = "run-workspace";
/// Value of [`labels::APP_COMPONENT`] on a claim that runs share.
pub const SHARED_COMPONENT: &str = "shared-workspace";
/// A claim whose Pod is gone is deleted after this time: usually Kubernetes deletes it first.
pub const LEAK_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// The longest name of a shared claim. Some storage drivers use the name in labels.
const LONGEST_NAME: usize = 63;

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
    let Some(claim) = own_claim(pod) else { return Afterwards::Nothing };
    if failed && retain { Afterwards::Keep(claim) } else { Afterwards::Free(claim) }
}

/// Name of the claim that Kubernetes creates for a Pod, if its run has one of its own.
pub fn own_claim(pod: &Pod) -> Option<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let is_own = volumes.into_iter().any(|volume| volume.name == VOLUME && volume.ephemeral.is_some());
    pod.metadata.name.as_deref().filter(|_| is_own).map(claim_of)
}

/// Name of the claim with the files of a run, its own or a shared one.
pub fn claim_name(pod: &Pod) -> Option<String> {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let volume = volumes.find(|volume| volume.name == VOLUME)?;
    let shared = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
    shared.or_else(|| own_claim(pod))
}

/// Name of the claim of the Pod `pod`, as Kubernetes derives it.
pub fn claim_of(pod: &str) -> String {
    format!("{pod}-{VOLUME}")
}

/// Where the files of a failed run are, for a person. The embedded node creates no claim for a run: there the volume is a
/// directory.
pub fn whereabouts(pod: &Pod, claim: &str, platform: &Platform) -> String {
    match (&platform.node_directory, &pod.metadata.uid) {
        (Some(node), Some(uid)) => format!("in the directory {node}/pods/{uid}/volumes/{VOLUME}"),
        _ => format!("in PersistentVolumeClaim '{claim}'"),
    }
}

/// The claim of a run that is kept although its Pod may go: it belongs to its Task as well. `None` if it does already.
pub fn retained(claim: &ObjectMeta, task: &str, uid: &str) -> Option<ObjectMeta> {
    let owners = claim.owner_references.clone().unwrap_or_default();
    let is_marked = claim.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::RETAINED));
    if is_marked && owners.iter().any(|owner| owner.uid == uid) {
        return None;
    }
    let owner = OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: "Task".to_owned(),
        name: task.to_owned(),
        uid: uid.to_owned(),
        controller: None,
        block_owner_deletion: None,
    };
    let others = owners.into_iter().filter(|owner| owner.uid != uid);
    Some(ObjectMeta {
        resource_version: claim.resource_version.clone(),
        labels: Some(BTreeMap::from([(labels::RETAINED.to_owned(), "true".to_owned())])),
        owner_references: Some(others.chain([owner]).collect()),
        ..ObjectMeta::default()
    })
}

/// The owners whose existence decides whether the claim of a run is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Name and UID of the Pod.
    pub pod: Option<(String, String)>,
    /// Name and UID of the Task that keeps the files of a failed run.
    pub task: Option<(String, String)>,
}

/// The owners of the claim of a run; `None` for a claim that is no concern of the sweeper, or is being deleted.
pub fn owners(claim: &PersistentVolumeClaim) -> Option<Owners> {
    let labels = claim.metadata.labels.as_ref()?;
    let is_ours = labels.get(labels::RUN_CLAIM).is_some_and(|manager| manager == labels::MANAGER)
        && labels.get(labels::APP_COMPONENT).is_some_and(|part| part == RUN_COMPONENT);
    if !is_ours || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let owner = |kind: &str| {
        let owner = claim.metadata.owner_references.iter().flatten().find(|owner| owner.kind == kind);
        owner.map(|owner| (owner.name.clone(), owner.uid.clone()))
    };
    let is_retained = labels.contains_key(labels::RETAINED);
    Some(Owners { pod: owner("Pod"), task: owner("Task").filter(|_| is_retained) })
}

/// The labels of the claim of a run. The watch of claims selects them by the first.
pub(crate) fn run_labels(task: &str, epoch: i64) -> BTreeMap<String, String> {
    labelled(RUN_COMPONENT, [(labels::TASK, task), (labels::RUN_EPOCH, &epoch.to_string())])
}

fn labelled<const N: usize>(component: &str, more: [(&str, &str); N]) -> BTreeMap<String, String> {
    let common = [
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::RUN_CLAIM, labels::MANAGER),
        (labels::APP, labels::APP_VALUE),
        (labels::APP_COMPONENT, component),
    ];
    common.into_iter().chain(more).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Whether the run works in a claim that the platform creates and keeps for its target.
pub fn shares_our_claim(task: &ResolvedTask) -> bool {
    let workspace = task.workspace.as_ref().filter(|_| !attaches(task));
    workspace.is_some_and(|workspace| {
        workspace.access_mode == Some(WorkspaceAccess::ReadWriteMany) && workspace.claim_name.is_none()
    })
}

/// Name of the claim that the runs of a target share.
pub fn shared_claim_name(runs_on: &RunsOn) -> String {
    let kind = match runs_on {
        RunsOn::Agent(_) => "agent",
        RunsOn::Template(_) => "template",
    };
    let name = format!("kubeopencode-workspace-{kind}-{}", runs_on.name());
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let hash = hex(&Sha256::digest(&name), 8);
    let head: String = name.chars().take(LONGEST_NAME - hash.len() - 1).collect();
    format!("{}-{hash}", head.trim_end_matches(['-', '.']))
}

/// The claim that the runs of a target share. It belongs to the Agent or template `runs_on` with the UID `uid`, and so
/// outlives every Task.
pub fn shared_claim(namespace: &str, runs_on: &RunsOn, uid: &str, settings: &Workspace) -> PersistentVolumeClaim {
    let label = match runs_on {
        RunsOn::Agent(_) => labels::AGENT,
        RunsOn::Template(_) => labels::AGENT_TEMPLATE,
    };
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(shared_claim_name(runs_on)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labelled(SHARED_COMPONENT, [(label, runs_on.name())])),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{GROUP}/{VERSION}"),
                kind: runs_on.kind().to_owned(),
                name: runs_on.name().to_owned(),
                uid: uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(claim_spec(settings, "ReadWriteMany")),
        status: None,
    }
}

/// The target to which a shared claim belongs; `None` for any other claim.
pub fn target_of(claim: &PersistentVolumeClaim) -> Option<RunsOn> {
    let labels = claim.metadata.labels.as_ref()?;
    let is_shared = labels.get(labels::APP_COMPONENT).is_some_and(|part| part == SHARED_COMPONENT);
    let owner = claim.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let runs_on = match owner.filter(|_| is_shared) {
        Some(owner) if owner.kind == "Agent" => RunsOn::Agent(owner.name.clone()),
        Some(owner) if owner.kind == "AgentTemplate" => RunsOn::Template(owner.name.clone()),
        _ => return None,
    };
    let is_ours = labels.get(labels::RUN_CLAIM).is_some_and(|manager| manager == labels::MANAGER)
        && claim.metadata.name.as_deref() == Some(&shared_claim_name(&runs_on));
    is_ours.then_some(runs_on)
}

/// The spec of a claim for files of runs.
pub(crate) fn claim_spec(settings: &Workspace, access: &str) -> PersistentVolumeClaimSpec {
    let size = settings.size.as_deref().unwrap_or(defaults::TASK_WORKSPACE_SIZE);
    PersistentVolumeClaimSpec {
        access_modes: Some(vec![access.to_owned()]),
        storage_class_name: settings.storage_class_name.clone(),
        resources: Some(VolumeResourceRequirements { requests: Some(amount("storage", size)), limits: None }),
        ..PersistentVolumeClaimSpec::default()
    }
}

/// The directory of a run in a shared claim, relative to the volume. With the whole volume in sight, the name of the Task
/// helps others to find it; the UID keeps a Task of the same name out.
pub fn directory(task: &TaskIdentity<'_>, sharing: WorkspaceSharing) -> String {
    let TaskIdentity { name, uid, epoch, .. } = task;
    match sharing {
        WorkspaceSharing::Run => format!("{uid}/{epoch}"),
        WorkspaceSharing::All => format!("{name}.{uid}/{epoch}"),
    }
}

/// The UID of the Task whose directory in a shared claim has this name; `None` if the directory is not one of ours.
pub fn task_of_directory(name: &str) -> Option<&str> {
    let (task, uid) = name.rsplit_once('.').unwrap_or(("-", name));
    let of_lengths = |lengths: [usize; 5]| {
        let mut parts = uid.split('-');
        let all_fit = lengths.into_iter().all(|length| {
            let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().is_some_and(|part| part.len() == length && is_hex(part))
        });
        all_fit && parts.next().is_none()
    };
    (!task.is_empty() && of_lengths([8, 4, 4, 4, 12])).then_some(uid)
}

/// Whether the run sees the whole of a shared claim.
pub fn sees_all(task: &ResolvedTask) -> bool {
    let workspace = task.workspace.as_ref().filter(|_| !attaches(task));
    workspace.is_some_and(|workspace| {
        workspace.access_mode == Some(WorkspaceAccess::ReadWriteMany)
            && workspace.sharing == Some(WorkspaceSharing::All)
    })
}

/// The settings from which the Pod of a run is built: where the whole of a shared claim is mounted at `workspaceDir`, the
/// run works in its own directory below.
pub fn placed<'a>(task: &TaskIdentity<'_>, resolved: &'a ResolvedTask) -> Cow<'a, ResolvedTask> {
    if !sees_all(resolved) {
        return Cow::Borrowed(resolved);
    }
    let mut placed = resolved.clone();
    placed.agent.workspace_dir = format!("{}/{}", resolved.agent.workspace_dir, directory(task, WorkspaceSharing::All));
    Cow::Owned(placed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sample::{self, from_json};

    const UID: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";
    const TASK: TaskIdentity<'_> = TaskIdentity { namespace: "team", name: "fix", uid: UID, epoch: 2 };

    fn pod(volume: &Value) -> Pod {
        from_json(json!({
            "metadata": {"name": "t-pod", "uid": "u"}, "spec": {"containers": [], "volumes": [volume]},
        }))
    }

    #[test]
    fn only_the_files_of_a_failed_run_are_kept_and_only_if_asked() {
        let own = pod(&json!({"name": "workspace", "ephemeral": {}}));
        let (free, keep) = (Afterwards::Free("t-pod-workspace".into()), Afterwards::Keep("t-pod-workspace".into()));
        for (retain, failed, expected) in
            [(true, true, &keep), (true, false, &free), (false, true, &free), (false, false, &free)]
        {
            assert_eq!(afterwards(&own, retain, failed), *expected, "retain {retain}, failed {failed}");
        }
        for other in [json!({"name": "workspace", "emptyDir": {}}), json!({"name": "cache", "ephemeral": {}})] {
            assert_eq!(afterwards(&pod(&other), false, false), Afterwards::Nothing);
        }
    }

    #[test]
    fn the_claim_of_a_run_is_known_from_its_pod() {
        let check = |volume: &Value, expected: Option<&str>| assert_eq!(claim_name(&pod(volume)).as_deref(), expected);
        check(&json!({"name": "workspace", "ephemeral": {}}), Some("t-pod-workspace"));
        check(&json!({"name": "workspace", "persistentVolumeClaim": {"claimName": "files"}}), Some("files"));
        check(&json!({"name": "workspace", "emptyDir": {}}), None);
        check(&json!({"name": "data", "persistentVolumeClaim": {"claimName": "files"}}), None);
    }

    #[test]
    fn a_person_learns_where_the_files_are() {
        let own = pod(&json!({"name": "workspace", "ephemeral": {}}));
        let mut platform = sample::platform();
        assert_eq!(whereabouts(&own, "c", &platform), "in PersistentVolumeClaim 'c'");
        platform.node_directory = Some("/state/node".into());
        assert_eq!(whereabouts(&own, "c", &platform), "in the directory /state/node/pods/u/volumes/workspace");
    }

    fn claim(labels: &Value, owners: &Value) -> PersistentVolumeClaim {
        from_json(json!({"metadata": {"name": "c", "labels": labels, "ownerReferences": owners}}))
    }

    fn owner(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": format!("uid-of-{name}"), "controller": kind == "Pod"})
    }

    #[test]
    fn a_retained_claim_belongs_to_its_pod_and_to_its_task() {
        let mut claim = claim(&json!({}), &json!([owner("Pod", "p")]));
        claim.metadata.resource_version = Some("7".into());
        let kept = retained(&claim.metadata, "t", "uid-of-t").unwrap();
        let kinds: Vec<&str> = kept.owner_references.iter().flatten().map(|owner| owner.kind.as_str()).collect();
        assert_eq!((kinds, kept.resource_version.as_deref()), (vec!["Pod", "Task"], Some("7")));
        let again = ObjectMeta { name: Some("c".into()), ..kept };
        assert_eq!(retained(&again, "t", "uid-of-t"), None);
    }

    #[test]
    fn the_sweeper_looks_at_claims_of_runs_alone() {
        let ours = serde_json::to_value(run_labels("t", 1)).unwrap();
        let mut retained = ours.clone();
        retained["kubeopencode.io/retained"] = json!("true");
        let both = json!([owner("Pod", "p"), owner("Task", "t")]);
        let pair = |name: &str| Some((name.to_owned(), format!("uid-of-{name}")));
        let check = |labels: &Value, owners_of: &Value, expected: Option<Owners>| {
            assert_eq!(owners(&claim(labels, owners_of)), expected, "{labels} {owners_of}");
        };
        check(&ours, &both, Some(Owners { pod: pair("p"), task: None }));
        check(&retained, &both, Some(Owners { pod: pair("p"), task: pair("t") }));
        check(&retained, &json!([owner("Task", "t")]), Some(Owners { pod: None, task: pair("t") }));
        check(&ours, &json!([]), Some(Owners::default()));
        check(&json!({"app.kubernetes.io/managed-by": "kubeopencode"}), &both, None);
        let shared = shared_claim("team", &RunsOn::Template("t".into()), "u", &Workspace::default());
        assert_eq!(owners(&shared), None);
        let mut leaving = claim(&ours, &both);
        leaving.metadata.deletion_timestamp = Some(from_json(json!("2026-01-01T00:00:00Z")));
        assert_eq!(owners(&leaving), None);
    }

    #[test]
    fn the_claim_that_runs_share_belongs_to_their_target() {
        let settings = from_json(json!({"accessMode": "ReadWriteMany", "storageClassName": "nfs", "size": "5Gi"}));
        for runs_on in [RunsOn::Template("go".into()), RunsOn::Agent("go".into())] {
            let claim = shared_claim("team", &runs_on, "uid-of-go", &settings);
            assert_eq!(target_of(&claim), Some(runs_on));
        }
        let claim = shared_claim("team", &RunsOn::Template("go".into()), "uid-of-go", &settings);
        insta::assert_yaml_snapshot!("shared_claim", claim);
        // A claim of the user with our labels is not ours.
        let mut other = claim;
        other.metadata.name = Some("files".into());
        assert_eq!(target_of(&other), None);
    }

    #[test]
    fn names_of_shared_claims_differ_and_fit() {
        let name = |runs_on| shared_claim_name(&runs_on);
        let long = "x".repeat(60);
        let names = [
            name(RunsOn::Template("a".into())),
            name(RunsOn::Agent("a".into())),
            name(RunsOn::Template(format!("{long}a"))),
            name(RunsOn::Template(format!("{long}b"))),
            name(RunsOn::Template(format!("{}.{long}", "x".repeat(21)))),
        ];
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        let is_plain = |name: &String| name.len() <= 63 && !name.contains("-.") && !name.contains(".-");
        assert!(names.iter().all(is_plain), "{names:?}");
        assert_eq!(names[0], "kubeopencode-workspace-template-a");
    }

    #[test]
    fn a_directory_says_whose_it_is() {
        for sharing in [WorkspaceSharing::Run, WorkspaceSharing::All] {
            let directory = directory(&TASK, sharing);
            let (top, epoch) = directory.split_once('/').unwrap();
            assert_eq!((task_of_directory(top), epoch), (Some(UID), "2"), "{directory}");
        }
        let upper = UID.to_uppercase();
        for other in ["", ".", "..", "lost+found", "fix", "fix.", "1a2b3c4d-1111-2222-3333", &upper, ".kubeopencode"] {
            assert_eq!(task_of_directory(other), None, "{other:?}");
        }
        assert_eq!(task_of_directory(&format!(".{UID}")), None);
        assert_eq!(task_of_directory(&format!("{UID}-0")), None);
    }

    #[test]
    fn only_a_run_that_sees_the_whole_volume_works_below_its_workspace() {
        let check = |workspace: Value, expected: &str| {
            let mut task = sample::task(sample::agent());
            task.workspace = from_json(workspace.clone());
            assert_eq!(placed(&TASK, &task).agent.workspace_dir, expected, "{workspace}");
        };
        check(Value::Null, "/workspace");
        check(json!({"accessMode": "ReadWriteMany"}), "/workspace");
        check(json!({"accessMode": "ReadWriteMany", "sharing": "Run"}), "/workspace");
        let own = format!("/workspace/fix.{UID}/2");
        check(json!({"accessMode": "ReadWriteMany", "sharing": "All"}), &own);
        check(json!({"accessMode": "ReadWriteMany", "sharing": "All", "claimName": "mine"}), &own);
        let mut attached = sample::task_on_agent(sample::agent());
        attached.workspace = from_json(json!({"accessMode": "ReadWriteMany", "sharing": "All"}));
        assert_eq!(placed(&TASK, &attached).agent.workspace_dir, "/workspace");
        assert!(!shares_our_claim(&attached));
    }
}
