//! Verbs as kube's client uses them, in process and over TLS.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::world::{World, in_process, refusal, thing, things, with_things};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

#[tokio::test]
async fn an_object_is_created_once_and_conflicts_are_reported_as_kubernetes_does() {
    let (_server, client) = in_process().await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let created = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(created.uid().is_some());
    let again = refusal(maps.create(&PostParams::default(), &config_map("a")).await);
    assert_eq!(again, (409, r#"configmaps "a" already exists"#.to_owned()));
    assert_eq!(refusal(maps.get("b").await), (404, r#"configmaps "b" not found"#.to_owned()));

    let mut changed = created.clone();
    changed.data = Some([("a".to_owned(), "c".to_owned())].into());
    let updated = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(updated.resource_version(), created.resource_version());
    let stale = refusal(maps.replace("a", &PostParams::default(), &changed).await);
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
                   changes to the latest version and try again";
    assert_eq!(stale, (409, message.to_owned()));
    let same = maps.replace("a", &PostParams::default(), &updated).await.unwrap();
    assert_eq!(same.resource_version(), updated.resource_version(), "a write that changes nothing is no write");
}

#[tokio::test]
async fn names_are_generated_and_namespaces_must_exist() {
    let (_server, client) = in_process().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let template: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "run-"}})).unwrap();
    let one = maps.create(&PostParams::default(), &template).await.unwrap().name_any();
    let two = maps.create(&PostParams::default(), &template).await.unwrap().name_any();
    assert_ne!(one, two);
    assert!(one.starts_with("run-") && one.len() == 9, "{one}");
    let nowhere: Api<ConfigMap> = Api::namespaced(client, "nowhere");
    let lost = refusal(nowhere.create(&PostParams::default(), &config_map("a")).await);
    assert_eq!(lost, (404, r#"namespaces "nowhere" not found"#.to_owned()));
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_takes_nothing_new_and_goes_when_it_is_finalized() {
    let (_server, client) = in_process().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let team: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    namespaces.create(&PostParams::default(), &team).await.unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let marked = namespaces.get("team").await.unwrap();
    assert_eq!(marked.status.as_ref().unwrap().phase.as_deref(), Some("Terminating"));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    let late = refusal(maps.create(&PostParams::default(), &config_map("a")).await);
    let message = "configmaps \"a\" is forbidden: unable to create new content in namespace team because it is being \
                   terminated";
    assert_eq!(late, (403, message.to_owned()));
    let mut body = serde_json::to_value(&marked).unwrap();
    body["spec"] = json!({"finalizers": []});
    let request = http::Request::put("/api/v1/namespaces/team/finalize").body(body.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap();
    assert_eq!(refusal(namespaces.get("team").await).0, 404);
}

#[tokio::test]
async fn custom_objects_get_defaults_and_rules_and_keep_their_status_apart() {
    let (_server, client) = with_things().await;
    let things = things(&client);
    let created = things.create(&PostParams::default(), &thing("a", json!({"color": "red"}))).await.unwrap();
    assert_eq!(created.data["spec"], json!({"color": "red", "size": 1}));
    assert_eq!(created.metadata.generation, Some(1));
    let plaid = refusal(things.create(&PostParams::default(), &thing("b", json!({"color": "plaid"}))).await);
    assert_eq!(plaid.0, 422);
    assert!(plaid.1.contains("plaid is no color"), "{}", plaid.1);

    // The status is not written with the object, nor the object with the status.
    let merge = |change: Value| Patch::Merge(change);
    let params = PatchParams::default();
    let both = json!({"spec": {"size": 2}, "status": {"seen": 7}});
    let changed = things.patch("a", &params, &merge(both.clone())).await.unwrap();
    assert_eq!(changed.data.get("status"), None);
    assert_eq!(changed.metadata.generation, Some(2));
    let changed = things.patch_status("a", &params, &merge(json!({"spec": {"size": 3}, "status": {"seen": 7}}))).await;
    let changed = changed.unwrap();
    assert_eq!(changed.data["spec"]["size"], 2);
    assert_eq!(changed.data["status"]["seen"], 7);
    assert_eq!(changed.metadata.generation, Some(2), "a status is no reason for a new generation");
    let negative = refusal(things.patch("a", &params, &merge(json!({"spec": {"size": -1}}))).await);
    assert!(negative.1.contains("spec.size in body should be greater than or equal to 0"), "{}", negative.1);
}

#[tokio::test]
async fn finalizers_keep_an_object_until_the_last_is_gone() {
    let (_server, client) = with_things().await;
    let things = things(&client);
    let mut held = thing("a", json!({}));
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    things.create(&PostParams::default(), &held).await.unwrap();
    let marked = things.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let refused = refusal(things.patch("a", &PatchParams::default(), &Patch::Merge(more)).await);
    assert!(refused.1.contains("no new finalizers can be added if the object is being deleted"), "{}", refused.1);
    let none = json!({"metadata": {"finalizers": null}});
    things.patch("a", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    assert_eq!(refusal(things.get("a").await).0, 404);
}

#[tokio::test]
async fn what_shall_happen_to_dependents_is_recorded() {
    let (_server, client) = with_things().await;
    let things = things(&client);
    for (name, policy, finalizer) in
        [("a", PropagationPolicy::Foreground, "foregroundDeletion"), ("b", PropagationPolicy::Orphan, "orphan")]
    {
        things.create(&PostParams::default(), &thing(name, json!({}))).await.unwrap();
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        let marked = things.delete(name, &params).await.unwrap().left().unwrap();
        assert_eq!(marked.finalizers(), [finalizer]);
    }
}

#[tokio::test]
async fn a_pod_on_a_node_gets_time_to_end_and_others_go_at_once() {
    let (_server, client) = in_process().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = |name: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 7},
        }))
        .unwrap()
    };
    pods.create(&PostParams::default(), &pod("free")).await.unwrap();
    pods.delete("free", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(pods.get("free").await).0, 404);

    pods.create(&PostParams::default(), &pod("bound")).await.unwrap();
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}).to_string();
    let request = http::Request::post("/api/v1/namespaces/default/pods/bound/binding");
    client.request::<Value>(request.body(binding.into_bytes()).unwrap()).await.unwrap();
    let marked = pods.delete("bound", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(7));
    assert!(pods.get("bound").await.is_ok());
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("bound", &now).await.unwrap();
    assert_eq!(refusal(pods.get("bound").await).0, 404);
}

#[tokio::test]
async fn server_side_apply_creates_shares_and_refuses() {
    let (_server, client) = with_things().await;
    let things = things(&client);
    let apply = |color: &str| Patch::Apply(thing("a", json!({"color": color})));
    let one = PatchParams::apply("one");
    let created = things.patch("a", &one, &apply("red")).await.unwrap();
    assert_eq!(created.data["spec"]["size"], 1);
    let same = things.patch("a", &one, &apply("red")).await.unwrap();
    assert_eq!(same.resource_version(), created.resource_version());
    let conflict = refusal(things.patch("a", &PatchParams::apply("two"), &apply("blue")).await);
    let expected = "Apply failed with 1 conflict: conflict with \"one\": .spec.color";
    assert_eq!(conflict, (409, expected.to_owned()));
    let forced = things.patch("a", &PatchParams::apply("two").force(), &apply("blue")).await.unwrap();
    assert_eq!(forced.data["spec"]["color"], "blue");
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let (_server, client) = with_things().await;
    let things = things(&client);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    things.create(&dry, &thing("a", json!({}))).await.unwrap();
    assert_eq!(refusal(things.get("a").await).0, 404);
    things.create(&PostParams::default(), &thing("a", json!({}))).await.unwrap();
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    things.patch("a", &params, &Patch::Merge(json!({"spec": {"size": 5}}))).await.unwrap();
    things.delete("a", &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.unwrap();
    assert_eq!(things.get("a").await.unwrap().data["spec"]["size"], 1);
}

#[tokio::test]
async fn pages_show_one_moment_and_selectors_choose() {
    let (_server, client) = in_process().await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for index in 0..7 {
        let mut map = config_map(&format!("m{index}"));
        map.metadata.labels = Some([("even".to_owned(), (index % 2 == 0).to_string())].into());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(4));
    maps.delete("m3", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("m31")).await.unwrap();
    let mut names = first.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let mut token = first.metadata.continue_.clone();
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        let page = maps.list(&ListParams::default().limit(3).continue_token(&next)).await.unwrap();
        assert_eq!(page.metadata.resource_version, first.metadata.resource_version);
        names.extend(page.items.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_.clone();
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    let even = maps.list(&ListParams::default().labels("even=true")).await.unwrap();
    assert_eq!(even.items.len(), 4);
    let one = maps.list(&ListParams::default().fields("metadata.name=m1")).await.unwrap();
    assert_eq!(one.items.len(), 1);
}

#[tokio::test]
async fn services_get_addresses_of_their_own() {
    let (_server, client) = in_process().await;
    let services: Api<Service> = Api::namespaced(client, "default");
    let service = |name: &str, spec: Value| -> Service {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    };
    let ports = json!([{"port": 80}]);
    let address = |service: Service| service.spec.unwrap().cluster_ip.unwrap();
    let one = services.create(&PostParams::default(), &service("a", json!({"ports": ports}))).await.unwrap();
    let two = services.create(&PostParams::default(), &service("b", json!({"ports": ports}))).await.unwrap();
    let (one, two) = (address(one), address(two));
    assert!(one.starts_with("127.") && two.starts_with("127.") && one != two, "{one} {two}");
    let headless = service("c", json!({"clusterIP": "None", "ports": ports}));
    assert_eq!(address(services.create(&PostParams::default(), &headless).await.unwrap()), "None");
    let taken = service("d", json!({"clusterIP": one, "ports": ports}));
    let refused = refusal(services.create(&PostParams::default(), &taken).await);
    assert!(refused.1.contains("provided IP is already allocated"), "{}", refused.1);
    for shown in ["127.0.0.1", "0.0.0.0", "10.96.0.1"] {
        let outside = service("e", json!({"clusterIP": shown, "ports": ports}));
        let refused = refusal(services.create(&PostParams::default(), &outside).await);
        let expected = format!(
            "Service \"e\" is invalid: spec.clusterIPs: Invalid value: [\"{shown}\"]: failed to allocate IP {shown}: \
             provided IP is not in the valid range. The range of valid IPs is 127.96.0.0/20"
        );
        assert_eq!(refused, (422, expected));
    }
    // No detour through a type without an address.
    let named = |address: &str| json!({"type": "ExternalName", "externalName": "a.example", "clusterIP": address});
    let refused = refusal(services.create(&PostParams::default(), &service("f", named("127.0.0.1"))).await);
    assert_eq!((refused.0, refused.1.contains("may not be set for ExternalName services")), (422, true));
    services.create(&PostParams::default(), &service("f", named(""))).await.unwrap();
    let patch = json!({"spec": {"type": "ClusterIP", "clusterIP": "127.0.0.1", "ports": ports}});
    let refused = refusal(services.patch("f", &PatchParams::default(), &Patch::Merge(patch)).await);
    assert_eq!((refused.0, refused.1.contains("not in the valid range")), (422, true), "{}", refused.1);
    let patch = Patch::Merge(json!({"spec": {"type": "ExternalName", "externalName": "a.example"}}));
    let changed = services.patch("b", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(changed.spec.unwrap().cluster_ip, None);
}

#[tokio::test]
async fn a_deployment_is_scaled_through_its_subresource() {
    let world = World::start().await;
    let client = world.remote().await;
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let scale = deployments.patch_scale("d", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=d"));
    let after = deployments.get("d").await.unwrap();
    assert_eq!(after.spec.unwrap().replicas, Some(3));
    assert_eq!(after.metadata.generation, Some(2));
}

#[tokio::test]
async fn a_definition_serves_at_once_and_takes_its_objects_with_it() {
    let (_server, client) = with_things().await;
    let things = things(&client);
    things.create(&PostParams::default(), &thing("a", json!({}))).await.unwrap();
    let request = http::Request::delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com");
    client.request::<Value>(request.body(Vec::new()).unwrap()).await.unwrap();
    for _ in 0..500 {
        if refusal_code(things.list(&ListParams::default()).await) == Some(404) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the kind is still served");
}

fn refusal_code<T>(result: Result<T, kube::Error>) -> Option<u16> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

#[tokio::test]
async fn the_same_verbs_work_over_tls_and_large_bodies_are_refused() {
    let world = World::start().await;
    let secrets: Api<Secret> = Api::namespaced(world.remote().await, "default");
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}})).unwrap();
    let stored = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(stored.data.unwrap()["a"].0, b"b");
    let huge: Secret =
        serde_json::from_value(json!({"metadata": {"name": "t"}, "stringData": {"a": "b".repeat(3 * 1024 * 1024)}}))
            .unwrap();
    let refused = refusal(secrets.create(&PostParams::default(), &huge).await);
    assert_eq!(refused, (413, "Request entity too large: limit is 3145728".to_owned()));
}
