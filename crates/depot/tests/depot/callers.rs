//! Who may do what.

use axum::{Json, Router, routing::post};
use domain::contract::{
    collect::{Fetch, Keep},
    depot::{AUDIENCE, RefusalReason},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client,
    api::{DeleteParams, PostParams},
};
use kubeopencode_depot::Options;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::world::{NAMESPACE, RunOf, Spec, World, keeps, options, publication, read, refusal, takes, unique_bytes};

/// What the depot says to an upload with this token.
async fn refused(world: &World, token: &str) -> Option<RefusalReason> {
    let answer = world.request(Method::PUT, "/v1/blobs", token).body("bytes").send().await.unwrap();
    if answer.status() == StatusCode::OK {
        return None;
    }
    let status = answer.status().as_u16();
    let refusal = refusal(answer).await;
    assert_eq!(refusal.reason.status(), status);
    assert!(token.len() < 10 || !refusal.message.contains(token), "{refusal:?}");
    Some(refusal.reason)
}

#[tokio::test]
async fn only_the_token_of_a_pod_for_the_depot_opens_it() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    assert_eq!(refused(&world, &run.token).await, None);

    let unauthenticated = Some(RefusalReason::Unauthenticated);
    assert_eq!(refused(&world, "").await, unauthenticated);
    assert_eq!(refused(&world, "garbage").await, unauthenticated);
    assert_eq!(refused(&world, "a.b.c").await, unauthenticated);
    let (message, _) = run.token.rsplit_once('.').unwrap();
    assert_eq!(refused(&world, &format!("{message}.AAAA")).await, unauthenticated);
    let other_audience = world.token(&run, "https://kubernetes.default.svc.cluster.local").await;
    assert_eq!(refused(&world, &other_audience).await, unauthenticated);
    let of_no_pod = world.token_of(NAMESPACE, "default", AUDIENCE, None).await;
    assert_eq!(refused(&world, &of_no_pod).await, unauthenticated);

    let without = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = without.get(format!("http://{}/v1/inputs/a/b", world.address)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    let answer = without.get(format!("http://{}/healthz", world.address)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

/// As other API servers answer: tokens of the embedded one live for ten minutes at least.
#[tokio::test]
async fn what_the_api_server_does_not_confirm_for_the_depot_is_no_token() {
    let user = json!({"username": "system:serviceaccount:team:default"});
    for status in [
        json!({"authenticated": false, "error": "[invalid bearer token, service account token has expired]"}),
        json!({"error": "service account token has expired", "user": user, "audiences": [AUDIENCE]}),
        // One that knows nothing of audiences reports none.
        json!({"authenticated": true, "user": user}),
        json!({"authenticated": true, "user": user, "audiences": []}),
        json!({"authenticated": true, "user": user, "audiences": ["https://kubernetes.default.svc"]}),
        // The token of a person, and that of a ServiceAccount without a Pod.
        json!({"authenticated": true, "user": {"username": "alice"}, "audiences": [AUDIENCE]}),
        json!({"authenticated": true, "user": user, "audiences": [AUDIENCE]}),
    ] {
        let review =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}, "status": status});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let api = Router::new().route(path, post(async move || Json(review)));
        let world = World::of(Client::new(api, NAMESPACE)).await;
        let answer = world.request(Method::PUT, "/v1/blobs", "a.b.c").body("bytes").send().await.unwrap();
        assert_eq!(refusal(answer).await.reason, RefusalReason::Unauthenticated, "{status}");
    }
}

#[tokio::test]
async fn only_a_pod_of_the_current_run_is_let_in() {
    let world = World::new().await;
    let keep = keeps(&["dist"]);
    let (not_allowed, conflict) = (Some(RefusalReason::NotAllowed), Some(RefusalReason::Conflict));

    let run = world.run("fix", &keep, &Fetch::default()).await;
    // A Pod that claims to belong to the Task.
    let pretender = RunOf { pod: "pretender".into(), ..run.clone() };
    world.pod(&pretender, &keep, &Fetch::default()).await;
    assert_eq!(refused(&world, &world.token(&pretender, AUDIENCE).await).await, not_allowed);
    // A Pod of nothing.
    let pod: Pod = read(json!({"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}));
    world.api::<Pod>(NAMESPACE).create(&PostParams::default(), &pod).await.unwrap();
    let plain = world.token(&RunOf { pod: "plain".into(), ..run.clone() }, AUDIENCE).await;
    assert_eq!(refused(&world, &plain).await, not_allowed);

    // A newer run.
    let next = world.again(&run, &keep, &Fetch::default()).await;
    assert_eq!((refused(&world, &run.token).await, refused(&world, &next.token).await), (conflict, None));
    // The end of the Pod, and of the run.
    world.pod_phase(&next, "Succeeded").await;
    assert_eq!(refused(&world, &next.token).await, conflict);
    world.pod_phase(&next, "Running").await;
    assert_eq!(refused(&world, &next.token).await, None);
    world.status(&next, json!({"phase": "Failed"})).await;
    assert_eq!(refused(&world, &next.token).await, conflict);
    // The end of the Task: its Pods wait for the garbage collection.
    world.api::<api::Task>(NAMESPACE).delete("fix", &DeleteParams::default()).await.unwrap();
    assert_eq!(refused(&world, &next.token).await, not_allowed);
    // Another Task of the same name.
    let recreated = world.run_of(Spec { task: "fix", ..Spec::default() });
    // It wants the name of the first Pod, which is still there.
    world.api::<Pod>(NAMESPACE).delete("fix-pod", &DeleteParams::default()).await.unwrap();
    let recreated = recreated.await;
    assert_ne!(recreated.uid, run.uid);
    assert_eq!(refused(&world, &next.token).await, not_allowed);
}

#[tokio::test]
async fn a_token_dies_with_its_pod_and_is_remembered_no_longer_than_allowed() {
    let forgetful = World::new().await;
    let mindful = World::with(Options { review_lifetime: std::time::Duration::from_hours(1), ..options() }).await;
    for (world, expected) in [(&forgetful, Some(RefusalReason::Unauthenticated)), (&mindful, None)] {
        let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
        assert_eq!(refused(world, &run.token).await, None);
        world.api::<Pod>(NAMESPACE).delete(&run.pod, &DeleteParams::default()).await.unwrap();
        assert_eq!(refused(world, &run.token).await, expected);
    }
}

#[tokio::test]
async fn a_run_may_do_what_it_declared_and_nothing_else() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &takes(&[("build", "dist")])).await;
    let stored = world.upload(&run, b"bytes").await;
    let publication = publication(b"bytes");
    let post = async |path: &str| refusal(world.post(path, &run, &publication).await).await.reason;
    assert_eq!(post("/v1/artifacts/other").await, RefusalReason::NotAllowed);
    assert_eq!(post("/v1/artifacts/dist%2fother").await, RefusalReason::NotAllowed);
    assert_eq!(post("/v1/caches/deps?key=k").await, RefusalReason::NotAllowed);
    let refused = refusal(world.post("/v1/changes", &run, &stored).await).await;
    assert_eq!(refused.message, "run 1 of Task 'fix' did not declare its changes");
    let outputs = world.request(Method::PUT, "/v1/outputs", &run.token).json(&json!({"url": "x"}));
    assert_eq!(refusal(outputs.send().await.unwrap()).await.reason, RefusalReason::NotAllowed);
    let get = async |path: &str| refusal(world.get(path, &run).await).await.reason;
    for path in ["/v1/inputs/build/other", "/v1/inputs/other/dist", "/v1/inputs/other/dist/content"] {
        assert_eq!(get(path).await, RefusalReason::NotAllowed, "{path}");
    }
    assert_eq!(get("/v1/caches/deps?key=k").await, RefusalReason::NotAllowed);
    assert_eq!(get("/v1/caches/deps/content?key=k").await, RefusalReason::NotAllowed);

    // One that keeps no files sends none.
    let silent: Keep = read(json!({"outputs": ["url"]}));
    let silent = world.run("silent", &silent, &Fetch::default()).await;
    assert_eq!(refused_upload(&world, &silent).await, Some(RefusalReason::NotAllowed));
    // What one run declared is of no use to another.
    let other = world.run("other", &keeps(&["report"]), &Fetch::default()).await;
    let answer = world.post("/v1/artifacts/dist", &other, &publication).await;
    assert_eq!(refusal(answer).await.reason, RefusalReason::NotAllowed);
}

async fn refused_upload(world: &World, run: &RunOf) -> Option<RefusalReason> {
    refused(world, &run.token).await
}

#[tokio::test]
async fn other_paths_and_methods_are_refusals_too() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let check = async |method: Method, path: &str, status: StatusCode| {
        let answer = world.request(method, path, &run.token).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        refusal(answer).await;
    };
    check(Method::GET, "/", StatusCode::NOT_FOUND).await;
    check(Method::GET, "/v1/artifacts", StatusCode::NOT_FOUND).await;
    check(Method::GET, "/v1/artifacts/dist", StatusCode::METHOD_NOT_ALLOWED).await;
    check(Method::DELETE, "/v1/blobs", StatusCode::METHOD_NOT_ALLOWED).await;
    check(Method::GET, "/v1/inputs/%ff/a", StatusCode::BAD_REQUEST).await;
    let body = unique_bytes(10);
    let answer = world.request(Method::POST, "/v1/artifacts/dist", &run.token).body(body).send().await.unwrap();
    assert_eq!(refusal(answer).await.reason, RefusalReason::Malformed);
}
