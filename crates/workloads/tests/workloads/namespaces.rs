use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
};
use kube::{
    Api,
    api::{DeleteParams, PropagationPolicy},
};
use serde_json::json;

use crate::world::{AUTHORITY, World, deployment};

cases! {
    a_namespace_has_an_account_and_the_certificate_and_gets_them_back,
    a_namespace_goes_when_everything_in_it_is_gone,
}

async fn a_namespace_has_an_account_and_the_certificate_and_gets_them_back(world: World) {
    for _ in 0..2 {
        let maps = world.until::<ConfigMap>("", "with a certificate", |maps| !maps.is_empty()).await;
        assert_eq!(maps[0].data.as_ref().unwrap()["ca.crt"], AUTHORITY);
        world.until::<ServiceAccount>("", "with an account", |accounts| !accounts.is_empty()).await;
        world.delete::<ConfigMap>("kube-root-ca.crt", PropagationPolicy::Background).await;
        world.delete::<ServiceAccount>("default", PropagationPolicy::Background).await;
    }
}

async fn a_namespace_goes_when_everything_in_it_is_gone(world: World) {
    world.create::<Deployment>(deployment("web", "one", 3)).await;
    world.until::<Pod>("app=web", "three Pods", |pods| pods.len() == 3).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    world.create::<ConfigMap>(held).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
    world.until::<Pod>("", "gone", <[Pod]>::is_empty).await;
    world.until::<Deployment>("", "gone", <[Deployment]>::is_empty).await;
    world.until::<ConfigMap>("", "all gone but one", |maps| maps.len() == 1).await;
    world.another_namespace_goes().await;
    let there = namespaces.get(&world.namespace).await.unwrap();
    assert_eq!(there.status.unwrap().phase.as_deref(), Some("Terminating"));
    world.merge::<ConfigMap>("held", json!({"metadata": {"finalizers": null}})).await;
    world.until_namespace_is_gone(&world.namespace).await;
}
