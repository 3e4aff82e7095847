//! Who calls: from the token of a Pod to the run that the Pod belongs to, and what that run declared.

use std::{fmt::Display, sync::Arc, time::Duration};

use api::{
    Task, TaskPhase,
    names::{GROUP, labels},
    run::{Artifact, Cache, CachePolicy},
};
use axum::extract::FromRequestParts;
use domain::{
    contract::{
        collect::{Fetch, Keep},
        depot::AUDIENCE,
        environment,
    },
    run::progress::{HOUSEKEEPER_CONTAINER, PREP_CONTAINER},
};
use http::{HeaderMap, header, request::Parts};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    core::v1::Pod,
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use ring::hmac;
use serde::de::DeserializeOwned;
use store::{Owner, Run};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    recent::Recent,
    refused::{Answer, Refused},
    state::Shared,
};

/// Kubernetes' own tokens have less than 2 KiB.
const LONGEST_TOKEN: usize = 16 << 10;
/// Reviews at a time: a sender of worthless tokens must not keep the API server busy.
const REVIEWS: usize = 16;
/// The API server answers within this time, or the request is refused.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// A Pod of a current run.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) run: Run,
    /// Name of the Task, for people.
    pub(crate) task: String,
    /// What the caches of the run are shared with: `template/NAME` or `agent/NAME`, with `/tasks` if the Task itself
    /// declares them.
    pub(crate) scope: String,
    keep: Keep,
    fetch: Fetch,
}

impl Caller {
    pub(crate) fn namespace(&self) -> &str {
        self.run.task.namespace()
    }

    /// The artefact of this name, if the run declared it.
    pub(crate) fn artifact(&self, name: &str) -> Answer<&Artifact> {
        let declared = self.keep.artifacts.iter().find(|artifact| artifact.name == name);
        declared.ok_or_else(|| self.undeclared(&format!("the artifact '{name}'")))
    }

    pub(crate) fn may_upload(&self) -> Answer<()> {
        if self.keep.has_files() { Ok(()) } else { Err(self.undeclared("files to keep")) }
    }

    pub(crate) fn may_keep_changes(&self) -> Answer<()> {
        if self.keep.changes { Ok(()) } else { Err(self.undeclared("its changes")) }
    }

    /// Names of the outputs that the run declared; not empty.
    pub(crate) fn outputs(&self) -> Answer<&[String]> {
        if self.keep.outputs.is_empty() { Err(self.undeclared("outputs")) } else { Ok(&self.keep.outputs) }
    }

    pub(crate) fn may_save(&self, cache: &str) -> Answer<()> {
        let saves = |known: &Cache| known.name == cache && known.policy != CachePolicy::Pull;
        if self.keep.caches.iter().any(saves) {
            return Ok(());
        }
        Err(self.undeclared(&format!("the cache '{cache}' to be saved")))
    }

    pub(crate) fn may_restore(&self, cache: &str) -> Answer<()> {
        let restores = |known: &Cache| known.name == cache && known.policy != CachePolicy::Push;
        if self.fetch.caches.iter().any(restores) {
            return Ok(());
        }
        Err(self.undeclared(&format!("the cache '{cache}' to be restored")))
    }

    pub(crate) fn may_take(&self, task: &str, artifact: &str) -> Answer<()> {
        if self.fetch.inputs.iter().any(|input| input.from_task == task && input.artifact == artifact) {
            return Ok(());
        }
        Err(self.undeclared(&format!("the artifact '{artifact}' of Task '{task}' as input")))
    }

    pub(crate) fn undeclared(&self, what: &str) -> Refused {
        Refused::not_allowed(format!("run {} of Task '{}' did not declare {what}", self.run.epoch, self.task))
    }
}

/// The Pod that a token was issued for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bearer {
    namespace: String,
    service_account: String,
    pod: String,
    pod_uid: String,
}

impl Bearer {
    fn of(user: &UserInfo) -> Option<Self> {
        let account = user.username.as_deref()?.strip_prefix("system:serviceaccount:")?;
        let (namespace, service_account) = account.split_once(':')?;
        let extra = |key: &str| {
            let values = user.extra.as_ref()?.get(&format!("authentication.kubernetes.io/{key}"))?;
            values.first().filter(|value| !value.is_empty()).cloned()
        };
        Some(Self {
            namespace: namespace.to_owned(),
            service_account: service_account.to_owned(),
            pod: extra("pod-name")?,
            pod_uid: extra("pod-uid")?,
        })
    }
}

/// Finds out who calls, and remembers it for a moment.
pub(crate) struct Callers {
    client: Client,
    recent: Recent<[u8; 32], Arc<Caller>>,
    /// Tokens are remembered by a digest that is worthless outside of this process.
    key: hmac::Key,
    reviews: Semaphore,
}

impl Callers {
    pub(crate) fn new(client: Client, lifetime: Duration) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        Self { client, recent: Recent::new(lifetime), key, reviews: Semaphore::new(REVIEWS) }
    }

    async fn of(&self, headers: &HeaderMap) -> Answer<Arc<Caller>> {
        let token = token(headers)?;
        let mut key = [0; 32];
        key.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        if let Some(caller) = self.recent.get(&key) {
            return Ok(caller);
        }
        let _turn = self.reviews.acquire().await.map_err(|_| unavailable(&"shutting down"))?;
        let began = Instant::now();
        let found = tokio::time::timeout(REVIEW_TIMEOUT, self.review(token)).await;
        let caller = Arc::new(found.map_err(|_| unavailable(&"no answer in time"))??);
        self.recent.put(key, Arc::clone(&caller), began);
        Ok(caller)
    }

    async fn review(&self, token: &str) -> Answer<Caller> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await.map_err(|error| unavailable(&error))?;
        let status = reviewed.status.filter(|status| status.authenticated == Some(true));
        // An API server that knows nothing of audiences accepts any token, and reports none.
        let status = status.filter(|status| status.audiences.iter().flatten().any(|audience| audience == AUDIENCE));
        let user = status.ok_or_else(not_valid)?.user.unwrap_or_default();
        let bearer = Bearer::of(&user).ok_or_else(|| Refused::unauthenticated("the token is not that of a Pod"))?;

        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &bearer.namespace);
        let pod = pods.get_opt(&bearer.pod).await.map_err(|error| unavailable(&error))?;
        let pod = pod.ok_or_else(|| no_run(&bearer))?;
        let owner = owner(&pod).ok_or_else(|| no_run(&bearer))?;
        let task = self.task(&bearer.namespace, owner).await?;
        admit(&bearer, &pod, &task.ok_or_else(|| no_run(&bearer))?)
    }

    /// The Task of this name, if there is one.
    pub(crate) async fn task(&self, namespace: &str, name: &str) -> Answer<Option<Task>> {
        let tasks: Api<Task> = Api::namespaced(self.client.clone(), namespace);
        let task = tokio::time::timeout(REVIEW_TIMEOUT, tasks.get_opt(name)).await;
        task.map_err(|_| unavailable(&"no answer in time"))?.map_err(|error| unavailable(&error))
    }
}

impl FromRequestParts<Arc<Shared>> for CallerOf {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        shared.callers.of(&parts.headers).await.map(Self)
    }
}

/// The caller of a request.
pub(crate) struct CallerOf(pub(crate) Arc<Caller>);

/// The bearer token of a request, if it can be one.
fn token(headers: &HeaderMap) -> Answer<&str> {
    let missing = || Refused::unauthenticated("send the token of the Pod as bearer token");
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?.to_str().map_err(|_| not_valid())?;
    let (scheme, token) = value.split_once(' ').ok_or_else(missing)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(missing());
    }
    // The API server is not asked about what is no JSON Web Token.
    let plain =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if token.len() > LONGEST_TOKEN || token.split('.').count() != 3 || !token.split('.').all(plain) {
        return Err(not_valid());
    }
    Ok(token)
}

fn not_valid() -> Refused {
    Refused::unauthenticated(format!("the token is not valid, or not for the audience {AUDIENCE}"))
}

fn no_run(bearer: &Bearer) -> Refused {
    Refused::not_allowed(format!("Pod '{}' belongs to no current run of a Task", bearer.pod))
}

fn unavailable(error: &dyn Display) -> Refused {
    tracing::error!(%error, "a caller could not be reviewed");
    Refused::unavailable("the Kubernetes API cannot be used now; try again")
}

/// The name of the Task that controls a Pod.
fn owner(pod: &Pod) -> Option<&str> {
    let controller = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let group = controller.api_version.split_once('/').map(|(group, _)| group);
    (controller.kind == "Task" && group == Some(GROUP)).then_some(controller.name.as_str())
}

/// The run that a Pod belongs to, if it is the current one of its Task and not over.
fn admit(bearer: &Bearer, pod: &Pod, task: &Task) -> Answer<Caller> {
    let none = || no_run(bearer);
    let spec = pod.spec.as_ref().ok_or_else(none)?;
    let of_bearer = pod.metadata.uid.as_deref() == Some(&bearer.pod_uid)
        && spec.service_account_name.as_ref().is_none_or(|account| *account == bearer.service_account);
    let controller = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let of_task = controller.is_some_and(|owner| Some(&owner.uid) == task.metadata.uid.as_ref());
    let epoch = pod.labels().get(labels::RUN_EPOCH).and_then(|epoch| epoch.parse::<i64>().ok()).ok_or_else(none)?;
    if !of_bearer || !of_task {
        return Err(none());
    }
    let name = task.name_any();
    let status = task.status.as_ref().ok_or_else(none)?;
    let current = status.run_epoch.unwrap_or(0);
    if epoch < current {
        return Err(Refused::conflict(format!("run {epoch} of Task '{name}' is over: run {current} was started")));
    }
    let is_pod = status.pod_name.as_deref() == Some(&bearer.pod)
        && status.pod_uid.as_ref().is_none_or(|uid| *uid == bearer.pod_uid);
    if epoch != current || !is_pod {
        return Err(none());
    }
    let pod_ended =
        matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
    if status.phase != Some(TaskPhase::Running) || pod_ended {
        return Err(Refused::conflict(format!("run {epoch} of Task '{name}' is over")));
    }
    let owner = Owner::new(&bearer.namespace, task.metadata.uid.as_deref().unwrap_or_default()).ok_or_else(none)?;
    Ok(Caller {
        run: Run { task: owner, epoch },
        scope: scope(task).ok_or_else(none)?,
        keep: declared(pod, HOUSEKEEPER_CONTAINER, environment::KEEP)?,
        fetch: declared(pod, PREP_CONTAINER, environment::FETCH)?,
        task: name,
    })
}

/// From the Task: a writer to a Pod must not choose whose caches it uses. A Task with caches of its own chooses
/// what is saved, so it does not share those of its template, which may be for reading only.
fn scope(task: &Task) -> Option<String> {
    let shared = match (&task.spec.agent_ref, &task.spec.template_ref) {
        (Some(agent), None) => format!("agent/{}", agent.name),
        (None, Some(template)) => format!("template/{}", template.name),
        _ => return None,
    };
    Some(if task.spec.run.caches.is_some() { format!("{shared}/tasks") } else { shared })
}

/// What a container is told, read from the specification of the Pod, which cannot be changed.
fn declared<T: DeserializeOwned + Default>(pod: &Pod, container: &str, variable: &str) -> Answer<T> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let mut variables = containers.filter(|known| known.name == container).flat_map(|known| known.env.iter().flatten());
    let value = variables.find(|known| known.name == variable).and_then(|known| known.value.as_deref());
    let Some(value) = value else { return Ok(T::default()) };
    // Kubernetes expands variables in values, so a dollar sign is written twice there.
    serde_json::from_str(&value.replace("$$", "$")).map_err(|error| {
        tracing::error!(%error, variable, pod = pod.name_any(), "a Pod declares what cannot be read");
        Refused::not_allowed(format!("{variable} of the Pod cannot be read: the depot is older than the controller"))
    })
}

#[cfg(test)]
mod tests {
    use domain::contract::depot::RefusalReason;
    use serde_json::{Value, json};

    use super::*;

    fn bearer() -> Bearer {
        Bearer {
            namespace: "team".into(),
            service_account: "default".into(),
            pod: "fix-pod-2".into(),
            pod_uid: "pod-uid".into(),
        }
    }

    fn pod() -> Value {
        let keep = json!({"artifacts": [{"name": "dist", "paths": ["$$(x)/**"]}], "outputs": ["a$$b"]});
        let fetch = json!({"inputs": [{"fromTask": "build", "artifact": "dist", "mountPath": "/in"}]});
        let owner = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": "fix", "uid": "task-uid",
            "controller": true});
        json!({
            "metadata": {"name": "fix-pod-2", "uid": "pod-uid", "labels": {"kubeopencode.io/run-epoch": "2"},
                "ownerReferences": [owner]},
            "spec": {
                "serviceAccountName": "default",
                "initContainers": [
                    {"name": "prep", "env": [{"name": "KUBEOPENCODE_FETCH", "value": fetch.to_string()}]},
                ],
                "containers": [
                    {"name": "agent", "env": [{"name": "KUBEOPENCODE_KEEP", "value": "{\"changes\":true}"}]},
                    {"name": "housekeeper", "env": [{"name": "KUBEOPENCODE_KEEP", "value": keep.to_string()}]},
                ],
            },
            "status": {"phase": "Running"},
        })
    }

    fn task() -> Value {
        json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": {"name": "fix", "namespace": "team", "uid": "task-uid"},
            "spec": {"description": "d", "templateRef": {"name": "go"}},
            "status": {"phase": "Running", "runEpoch": 2, "podName": "fix-pod-2"},
        })
    }

    fn read(pod: Value, task: Value) -> Answer<Caller> {
        admit(&bearer(), &serde_json::from_value(pod).unwrap(), &serde_json::from_value(task).unwrap())
    }

    fn changed(object: &Value, pointer: &str, value: Value) -> Value {
        let mut object = object.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[name.replace("~1", "/")] = value;
        object
    }

    #[test]
    fn a_pod_of_the_current_run_may_do_what_the_run_declared() {
        let caller = read(pod(), task()).unwrap();
        assert_eq!((caller.namespace(), caller.run.task.uid(), caller.run.epoch), ("team", "task-uid", 2));
        assert_eq!(caller.scope, "template/go");
        let own = changed(&task(), "/spec/caches", json!([{"name": "npm", "key": "k", "paths": ["node_modules"]}]));
        assert_eq!(read(pod(), own).unwrap().scope, "template/go/tasks");
        assert_eq!(caller.artifact("dist").unwrap().paths, ["$(x)/**"]);
        assert_eq!(caller.outputs().unwrap(), ["a$b"]);
        caller.may_upload().unwrap();
        caller.may_take("build", "dist").unwrap();
        let refused = [
            caller.artifact("other").map(drop),
            caller.may_keep_changes(),
            caller.may_save("deps"),
            caller.may_restore("deps"),
            caller.may_take("build", "other"),
            caller.may_take("other", "dist"),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().reason(), RefusalReason::NotAllowed);
        }
    }

    #[test]
    fn a_cache_is_saved_and_restored_as_its_policy_says() {
        let check = |policy: CachePolicy, saves: bool, restores: bool| {
            let caches = vec![Cache { name: "deps".into(), policy, ..Cache::default() }];
            let caller = Caller {
                keep: Keep { caches: caches.clone(), ..Keep::default() },
                fetch: Fetch { caches, ..Fetch::default() },
                ..read(pod(), task()).unwrap()
            };
            assert_eq!((caller.may_save("deps").is_ok(), caller.may_restore("deps").is_ok()), (saves, restores));
            assert!(caller.may_save("other").is_err() && caller.may_restore("other").is_err());
        };
        check(CachePolicy::PullPush, true, true);
        check(CachePolicy::Pull, false, true);
        check(CachePolicy::Push, true, false);
    }

    #[test]
    fn a_pod_that_declares_nothing_may_do_nothing() {
        let caller = read(changed(&pod(), "/spec/containers", json!([{"name": "agent"}])), task()).unwrap();
        assert!(caller.may_upload().is_err() && caller.outputs().is_err() && caller.artifact("dist").is_err());
    }

    #[test]
    fn every_other_pod_is_refused() {
        let check = |pod: Value, task: Value, expected: RefusalReason| {
            let refused = read(pod.clone(), task.clone()).unwrap_err();
            assert_eq!(refused.reason(), expected, "{refused:?}\n{pod}\n{task}");
        };
        let of_pod = |pointer: &str, value: Value, expected| check(changed(&pod(), pointer, value), task(), expected);
        let of_task = |pointer: &str, value: Value, expected| check(pod(), changed(&task(), pointer, value), expected);
        let (not_allowed, conflict) = (RefusalReason::NotAllowed, RefusalReason::Conflict);

        of_pod("/metadata/uid", json!("another"), not_allowed);
        of_pod("/spec/serviceAccountName", json!("other"), not_allowed);
        of_pod("/metadata/labels", json!({}), not_allowed);
        of_pod("/metadata/labels/kubeopencode.io~1run-epoch", json!("x"), not_allowed);
        of_pod("/metadata/ownerReferences", json!([]), not_allowed);
        of_pod("/metadata/ownerReferences/0/controller", json!(false), not_allowed);
        of_pod("/metadata/ownerReferences/0/uid", json!("deleted"), not_allowed);
        of_pod("/status/phase", json!("Succeeded"), conflict);
        of_pod("/status/phase", json!("Failed"), conflict);
        of_pod("/spec/containers/1/env/0/value", json!("{"), not_allowed);

        of_task("/metadata/uid", json!("recreated"), not_allowed);
        of_task("/status", json!({}), not_allowed);
        of_task("/status/runEpoch", json!(3), conflict);
        of_task("/status/runEpoch", json!(1), not_allowed);
        of_task("/status/podName", json!("fix-pod"), not_allowed);
        of_task("/status/podUID", json!("another"), not_allowed);
        of_task("/status/phase", json!("Completed"), conflict);
        of_task("/status/phase", json!("Failed"), conflict);
        of_task("/status/phase", json!("Queued"), conflict);
    }

    #[test]
    fn only_a_task_is_asked_for() {
        let check = |version: &str, kind: &str, expected: Option<&str>| {
            let pod = changed(&pod(), "/metadata/ownerReferences/0/apiVersion", json!(version));
            let pod = changed(&pod, "/metadata/ownerReferences/0/kind", json!(kind));
            assert_eq!(owner(&serde_json::from_value(pod).unwrap()), expected, "{version} {kind}");
        };
        check("kubeopencode.io/v1alpha1", "Task", Some("fix"));
        check("kubeopencode.io/v1alpha1", "Agent", None);
        check("tekton.dev/v1", "Task", None);
        check("v1", "Task", None);
        assert_eq!(owner(&Pod::default()), None);
    }

    #[test]
    fn a_token_names_its_pod() {
        let user = |name: &str, extra: Value| -> UserInfo {
            serde_json::from_value(json!({"username": name, "extra": extra})).unwrap()
        };
        let extra = json!({"authentication.kubernetes.io/pod-name": ["fix-pod-2"],
            "authentication.kubernetes.io/pod-uid": ["pod-uid"]});
        assert_eq!(Bearer::of(&user("system:serviceaccount:team:default", extra.clone())), Some(bearer()));
        assert_eq!(Bearer::of(&user("system:serviceaccount:team:default", json!({}))), None);
        assert_eq!(Bearer::of(&user("system:node:team:default", extra.clone())), None);
        assert_eq!(Bearer::of(&user("alice", extra)), None);
    }

    #[test]
    fn what_is_no_token_is_not_reviewed() {
        let check = |value: &str, expected: Option<&str>| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(token(&headers).ok(), expected, "{value}");
        };
        check("Bearer a-1.b_2.C", Some("a-1.b_2.C"));
        check("bearer  a.b.c", Some("a.b.c"));
        for value in
            ["Bearer", "Bearer ", "Basic a.b.c", "a.b.c", "Bearer a.b", "Bearer a.b.", "Bearer a.b.c d", "Bearer é.b.c"]
        {
            check(value, None);
        }
        check(&format!("Bearer a.b.{}", "c".repeat(LONGEST_TOKEN)), None);
        assert!(token(&HeaderMap::new()).is_err());
    }
}
