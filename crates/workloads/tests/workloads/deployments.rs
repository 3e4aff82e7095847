use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::{Value, json};

use crate::world::{NODE, World, deployment, is_observed};

cases! {
    a_deployment_rolls_out_and_kubectl_sees_it,
    scaling_follows_in_both_directions,
    a_rollout_that_fails_keeps_the_old_pods,
    recreate_has_no_two_generations_at_once,
    lost_pods_are_replaced_and_others_adopted,
    a_paused_deployment_waits_and_an_unchanged_one_writes_nothing,
    only_so_many_old_templates_are_kept,
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

fn all_ready(count: usize, of: &'static str) -> impl Fn(&[Pod]) -> bool {
    move |pods| {
        let ready = |pod: &Pod| image(pod) == of && pod.status.as_ref().unwrap().pod_ip.is_some();
        pods.len() == count && pods.iter().all(ready)
    }
}

fn condition(deployment: &Deployment, kind: &str) -> Option<(String, String)> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()?))
}

async fn a_deployment_rolls_out_and_kubectl_sees_it(world: World) {
    world.create::<Deployment>(deployment("web", "one", 3)).await;
    let output = world.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    assert!(output.contains("successfully rolled out"), "{output}");
    let pods = world.until::<Pod>("app=web", "three Pods", all_ready(3, "one")).await;
    assert!(pods.iter().all(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(NODE)));
    let hash = pods[0].labels().get("pod-template-hash").unwrap();
    let set = world.get::<ReplicaSet>(&format!("web-{hash}")).await.unwrap();
    assert!(pods.iter().all(|pod| pod.owner_references()[0].uid == set.uid().unwrap()));

    world.kubectl(&["set", "image", "deployment/web", "c=two"]).await;
    let output = world.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    assert!(output.contains("successfully rolled out"), "{output}");
    world.until::<Pod>("app=web", "three new Pods", all_ready(3, "two")).await;
    let web = world.get::<Deployment>("web").await.unwrap();
    assert_eq!(condition(&web, "Available"), Some(("True".into(), "MinimumReplicasAvailable".into())));
    assert_eq!(condition(&web, "Progressing"), Some(("True".into(), "NewReplicaSetAvailable".into())));
    assert_eq!(web.status.as_ref().unwrap().observed_generation, web.metadata.generation);

    let output = world.kubectl(&["rollout", "history", "deployment/web"]).await;
    assert!(output.contains("\n1 ") && output.contains("\n2 "), "{output}");
    world.kubectl(&["rollout", "undo", "deployment/web"]).await;
    world.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    world.until::<Pod>("app=web", "the first Pods again", all_ready(3, "one")).await;
    let set = world.get::<ReplicaSet>(&set.name_any()).await.unwrap();
    assert_eq!(set.annotations().get("deployment.kubernetes.io/revision").map(String::as_str), Some("3"));
}

async fn scaling_follows_in_both_directions(world: World) {
    world.create::<Deployment>(deployment("web", "one", 1)).await;
    world.until::<Pod>("app=web", "one Pod", all_ready(1, "one")).await;
    world.kubectl(&["scale", "deployment/web", "--replicas=4"]).await;
    world.until::<Pod>("app=web", "four Pods", all_ready(4, "one")).await;
    world.kubectl(&["scale", "deployment/web", "--replicas=0"]).await;
    world.until::<Pod>("app=web", "no Pod", <[Pod]>::is_empty).await;
    world.until_one::<Deployment>("web", "empty", |web| web.status.as_ref().unwrap().replicas.unwrap_or(0) == 0).await;
}

async fn a_rollout_that_fails_keeps_the_old_pods(world: World) {
    let mut object = deployment("web", "one", 2);
    object["spec"]["progressDeadlineSeconds"] = json!(2);
    object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    world.create::<Deployment>(object).await;
    world.until::<Pod>("app=web", "two Pods", all_ready(2, "one")).await;
    world.kubectl(&["set", "image", "deployment/web", "c=broken"]).await;
    // Not the condition of the first rollout, which may be late too on a loaded machine.
    let late = |web: &Deployment| {
        is_observed(web) && condition(web, "Progressing") == Some(("False".into(), "ProgressDeadlineExceeded".into()))
    };
    let web = world.until_one::<Deployment>("web", "late", late).await;
    assert_eq!(condition(&web, "Available").unwrap().0, "True");
    let pods = world.list::<Pod>("app=web").await;
    assert_eq!(pods.iter().filter(|pod| image(pod) == "one").count(), 2, "{pods:#?}");
    assert_eq!(pods.iter().filter(|pod| image(pod) == "broken").count(), 1, "{pods:#?}");
}

async fn recreate_has_no_two_generations_at_once(world: World) {
    let mut object = deployment("web", "one", 2);
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create::<Deployment>(object).await;
    world.until::<Pod>("app=web", "two Pods", all_ready(2, "one")).await;
    world.kubectl(&["set", "image", "deployment/web", "c=two"]).await;
    let unmixed = |pods: &[Pod]| {
        let old = pods.iter().filter(|pod| image(pod) == "one").count();
        assert!(old == 0 || old == pods.len(), "{pods:#?}");
        all_ready(2, "two")(pods)
    };
    world.until::<Pod>("app=web", "two new Pods", unmixed).await;
}

async fn lost_pods_are_replaced_and_others_adopted(world: World) {
    world.create::<Deployment>(deployment("web", "one", 2)).await;
    let pods = world.until::<Pod>("app=web", "two Pods", all_ready(2, "one")).await;
    let lost = pods[0].name_any();
    world.delete::<Pod>(&lost, PropagationPolicy::Background).await;
    let replaced = |pods: &[Pod]| pods.iter().all(|pod| pod.name_any() != lost) && all_ready(2, "one")(pods);
    world.until::<Pod>("app=web", "two Pods, one of them new", replaced).await;
    // A Pod that no longer matches is let go, and replaced.
    let strayed = pods[1].name_any();
    world.merge::<Pod>(&strayed, json!({"metadata": {"labels": {"app": "elsewhere"}}})).await;
    world.until_one::<Pod>(&strayed, "free", |pod| pod.owner_references().is_empty()).await;
    world.until::<Pod>("app=web", "two Pods", all_ready(2, "one")).await;
}

async fn a_paused_deployment_waits_and_an_unchanged_one_writes_nothing(world: World) {
    world.create::<Deployment>(deployment("web", "one", 1)).await;
    world.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    world.kubectl(&["rollout", "pause", "deployment/web"]).await;
    world.kubectl(&["set", "image", "deployment/web", "c=two"]).await;
    let paused = |web: &Deployment| {
        is_observed(web) && condition(web, "Progressing").is_some_and(|(_, reason)| reason == "DeploymentPaused")
    };
    world.until_one::<Deployment>("web", "paused", paused).await;
    world.deployments_are_handled("first-marker").await;
    let versions = async || {
        let web = world.get::<Deployment>("web").await.unwrap().resource_version().unwrap();
        let sets = world.list::<ReplicaSet>("app=web").await;
        let pods = world.list::<Pod>("app=web").await;
        assert_eq!((sets.len(), image(&pods[0])), (1, "one"));
        (web, sets[0].resource_version().unwrap(), pods[0].resource_version().unwrap())
    };
    let before = versions().await;
    world.deployments_are_handled("second-marker").await;
    assert_eq!(versions().await, before);
    world.kubectl(&["rollout", "resume", "deployment/web"]).await;
    world.until::<Pod>("app=web", "a new Pod", all_ready(1, "two")).await;
}

async fn only_so_many_old_templates_are_kept(world: World) {
    let mut object = deployment("web", "one", 1);
    object["spec"]["revisionHistoryLimit"] = json!(1);
    world.create::<Deployment>(object).await;
    for image in ["two", "three", "four"] {
        world.kubectl(&["set", "image", "deployment/web", &format!("c={image}")]).await;
        world.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    }
    let sets = world.until::<ReplicaSet>("app=web", "two ReplicaSets", |sets| sets.len() == 2).await;
    let mut revisions: Vec<Value> =
        sets.iter().map(|set| json!(set.annotations().get("deployment.kubernetes.io/revision"))).collect();
    revisions.sort_by_key(ToString::to_string);
    assert_eq!(revisions, ["3", "4"]);
}
