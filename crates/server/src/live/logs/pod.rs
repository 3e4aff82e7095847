//! The Pod of a run: its log and the state of its containers.

use api::Task;
use domain::workload::names;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, ResourceExt as _};
use store::{Position, Positions};

use super::{Lines, epoch, query::Wanted};
use crate::{
    error::{Answer, ApiError},
    wire::ContainerState,
};

/// The Pod of a run, if it exists and belongs to the Task.
pub(super) async fn of_run(pods: &Api<Pod>, task: &Task, run: i64) -> Answer<Option<Pod>> {
    let status = task.status.as_ref();
    let name = if run == epoch(task) {
        status.and_then(|status| status.pod_name.clone())
    } else {
        task.metadata.name.as_deref().map(|name| names::task_pod(name, run))
    };
    let Some(name) = name else { return Ok(None) };
    let pod = pods.get_opt(&name).await?;
    // A Pod of that name may belong to another Task or to no Task.
    let foreign = |pod: &Pod| {
        let owners = pod.metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        owners.next().is_some_and(|owner| Some(&owner.uid) != task.metadata.uid.as_ref())
    };
    Ok(pod.filter(|pod| !foreign(pod)))
}

/// The requested lines of a Pod's log after `last`.
pub(super) async fn lines(pods: &Api<Pod>, pod: &Pod, wanted: &Wanted, last: Option<Position>) -> Answer<Lines> {
    let log = pods.log_stream(&pod.name_any(), &wanted.params(last)).await?;
    let mut places = Positions::after(last);
    let lines = store::lines(log).try_filter_map(move |line| {
        let new = match line.time {
            Some(time) => places.take(time).map(|place| (Some(place), line)),
            // Not a line of the container: the node reports a lost log.
            None => Some((None, line)),
        };
        std::future::ready(Ok(new))
    });
    Ok(lines.boxed())
}

/// The state of a Pod before the container starts.
pub(super) fn preparing(pod: &Pod, container: &str) -> String {
    let waiting = status_of(pod, container).and_then(|status| status.state.as_ref()?.waiting.clone());
    let running =
        states(pod).into_iter().find(|state| state.init && state.state == "running" && state.name != container);
    match (running, waiting) {
        (Some(init), _) => format!("{} prepares the Pod", init.name),
        (None, Some(waiting)) => {
            let reason = waiting.reason.unwrap_or_else(|| "waiting".to_owned());
            waiting.message.map_or_else(|| reason.clone(), |message| format!("{reason}: {message}"))
        }
        (None, None) => "the Pod waits for a node".to_owned(),
    }
}

fn statuses(pod: &Pod) -> impl Iterator<Item = (bool, &ContainerStatus)> {
    let status = pod.status.as_ref();
    let init = status.into_iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let main = status.into_iter().flat_map(|status| status.container_statuses.iter().flatten());
    init.map(|status| (true, status)).chain(main.map(|status| (false, status)))
}

pub(super) fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    statuses(pod).map(|(_, status)| status).find(|status| status.name == container)
}

pub(super) fn has_started(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// Refuses a container that the Pod does not have.
pub(super) fn find(pod: &Pod, container: &str) -> Answer<()> {
    let spec = pod.spec.as_ref();
    let main = spec.into_iter().flat_map(|spec| spec.containers.iter());
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let names: Vec<&str> = init.chain(main).map(|container| container.name.as_str()).collect();
    if names.contains(&container) {
        return Ok(());
    }
    Err(ApiError::not_found(format!("the Pod has no container '{container}'; it has {}", names.join(", "))))
}

pub(super) fn states(pod: &Pod) -> Vec<ContainerState> {
    let one = |(init, status): (bool, &ContainerStatus)| {
        let state = status.state.clone().unwrap_or_default();
        let state_name = match (&state.running, &state.terminated) {
            (Some(_), _) => "running",
            (None, Some(_)) => "terminated",
            (None, None) => "waiting",
        };
        ContainerState {
            name: status.name.clone(),
            init,
            state: state_name.to_owned(),
            exit_code: state.terminated.map(|ended| ended.exit_code),
        }
    };
    statuses(pod).map(one).collect()
}
