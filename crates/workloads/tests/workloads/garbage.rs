use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{ConfigMap, Pod},
};
use kube::{
    ResourceExt,
    api::{PostParams, PropagationPolicy},
};
use serde_json::{Value, json};

use crate::world::{World, deployment, owner};

cases! {
    what_a_deployment_owns_goes_with_it,
    dependants_that_are_to_stay_stay_and_are_taken_in_again,
    an_owner_in_the_foreground_goes_after_those_that_block_it,
    an_object_whose_owner_never_was_goes_and_the_uid_must_be_exact,
    kinds_that_are_defined_later_are_followed_too,
}

async fn map(world: &World, name: &str, owners: Vec<Value>, finalizers: &[&str]) -> ConfigMap {
    let meta = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers, "labels": {"case": "map"}});
    world.create(json!({ "metadata": meta })).await
}

async fn what_a_deployment_owns_goes_with_it(world: World) {
    for (name, how) in [("back", PropagationPolicy::Background), ("fore", PropagationPolicy::Foreground)] {
        world.create::<Deployment>(deployment(name, "one", 2)).await;
        let labels = format!("app={name}");
        world.until::<Pod>(&labels, "two Pods", |pods| pods.len() == 2).await;
        world.delete::<Deployment>(name, how).await;
        world.until_gone::<Deployment>(name).await;
        world.until::<ReplicaSet>(&labels, "gone", <[ReplicaSet]>::is_empty).await;
        world.until::<Pod>(&labels, "gone", <[Pod]>::is_empty).await;
    }
}

async fn dependants_that_are_to_stay_stay_and_are_taken_in_again(world: World) {
    world.create::<Deployment>(deployment("web", "one", 2)).await;
    let pods = world.until::<Pod>("app=web", "two Pods", |pods| pods.len() == 2).await;
    world.delete::<Deployment>("web", PropagationPolicy::Orphan).await;
    world.until_gone::<Deployment>("web").await;
    let sets = world.until::<ReplicaSet>("app=web", "free", |sets| sets[0].owner_references().is_empty()).await;
    let web = world.create::<Deployment>(deployment("web", "one", 2)).await;
    let owned = |sets: &[ReplicaSet]| {
        sets.len() == 1 && sets[0].owner_references().iter().any(|o| Some(&o.uid) == web.uid().as_ref())
    };
    let again = world.until::<ReplicaSet>("app=web", "owned again", owned).await;
    assert_eq!(again[0].uid(), sets[0].uid());
    let names = |pods: &[Pod]| pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!(names(&world.list::<Pod>("app=web").await), names(&pods));
}

async fn an_owner_in_the_foreground_goes_after_those_that_block_it(world: World) {
    let parent = map(&world, "parent", vec![], &[]).await;
    map(&world, "blocks", vec![owner(&parent, true)], &["example.com/hold"]).await;
    map(&world, "free", vec![owner(&parent, false)], &["example.com/hold"]).await;
    world.delete::<ConfigMap>("parent", PropagationPolicy::Foreground).await;
    for name in ["blocks", "free"] {
        world.until_one::<ConfigMap>(name, "going", |map| map.metadata.deletion_timestamp.is_some()).await;
    }
    world.garbage_is_collected().await;
    assert!(world.get::<ConfigMap>("parent").await.is_some());
    world.merge::<ConfigMap>("blocks", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone::<ConfigMap>("parent").await;
    assert!(world.get::<ConfigMap>("free").await.is_some());
    world.merge::<ConfigMap>("free", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone::<ConfigMap>("free").await;
}

async fn an_object_whose_owner_never_was_goes_and_the_uid_must_be_exact(world: World) {
    let parent = map(&world, "parent", vec![], &[]).await;
    let mut other = owner(&parent, false);
    other["uid"] = json!("00000000-0000-4000-8000-000000000000");
    let mut absent = other.clone();
    absent["name"] = json!("nobody");
    map(&world, "wrong-uid", vec![other.clone()], &[]).await;
    map(&world, "absent", vec![absent.clone()], &[]).await;
    map(&world, "one-of-two", vec![absent, owner(&parent, false)], &[]).await;
    map(&world, "right", vec![owner(&parent, false)], &[]).await;
    world.until_gone::<ConfigMap>("wrong-uid").await;
    world.until_gone::<ConfigMap>("absent").await;
    world.until_one::<ConfigMap>("one-of-two", "with one owner", |map| map.owner_references().len() == 1).await;
    world.garbage_is_collected().await;
    assert!(world.get::<ConfigMap>("right").await.is_some() && world.get::<ConfigMap>("parent").await.is_some());
}

async fn kinds_that_are_defined_later_are_followed_too(world: World) {
    let group = format!("{}.example.com", world.namespace);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), definition.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    world.kubectl(&["apply", "-f", path]).await;
    world.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", path]).await;
    let widgets = world.dynamic(&group, "v1", "Widget");
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}});
    let widget = widgets.create(&PostParams::default(), &serde_json::from_value(widget).unwrap()).await.unwrap();
    let reference = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "name": "w", "uid": widget.uid()});
    map(&world, "of-a-widget", vec![reference], &[]).await;
    world.garbage_is_collected().await;
    assert!(world.get::<ConfigMap>("of-a-widget").await.is_some());
    world.kubectl(&["delete", "-f", path, "--wait=false"]).await;
    world.until_gone::<ConfigMap>("of-a-widget").await;
}
