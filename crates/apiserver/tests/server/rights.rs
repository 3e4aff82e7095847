//! Authorization.

use http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::world::{World, refusal};

async fn post(client: &Client, path: &str, body: Value) -> Value {
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
}

/// A ServiceAccount `bot` that may read Pods, and a client with its token.
async fn bot(world: &World) -> (Client, String) {
    let admin = world.server.client();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "bot"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
    });
    post(&admin, &format!("{rbac}/roles"), role).await;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
    });
    post(&admin, &format!("{rbac}/rolebindings"), binding).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = post(&admin, path, request).await["status"]["token"].as_str().unwrap().to_owned();
    (with_token(world, &token).await, token)
}

async fn with_token(world: &World, token: &str) -> Client {
    let mut kubeconfig = kube::config::Kubeconfig::read_from(&world.kubeconfig).unwrap();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(serde_json::from_value(json!({"token": token})).unwrap());
    }
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_token_gets_exactly_what_its_role_allows() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let message = "secrets is forbidden: User \"system:serviceaccount:default:bot\" cannot list resource \"secrets\" in \
                   API group \"\" in the namespace \"default\"";
    assert_eq!(refusal(secrets.list(&ListParams::default()).await), (403, message.to_owned()));
    let elsewhere: Api<Pod> = Api::all(client);
    let refused = refusal(elsewhere.list(&ListParams::default()).await);
    assert!(refused.1.ends_with("at the cluster scope"), "{}", refused.1);
}

#[tokio::test]
async fn a_token_ends_with_its_account() {
    let world = World::start().await;
    let (client, token) = bot(&world).await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let admin = world.server.client();
    let answer = post(&admin, path, review.clone()).await;
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:bot");
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    accounts.delete("bot", &DeleteParams::default()).await.unwrap();
    assert_eq!(post(&admin, path, review).await["status"].get("authenticated"), None);
    let pods: Api<Pod> = Api::namespaced(client, "default");
    assert_eq!(refusal(pods.list(&ListParams::default()).await).0, 401);
}

#[tokio::test]
async fn nobody_in_particular_may_only_ask_how_the_server_is() {
    let world = World::start().await;
    let mut kubeconfig = kube::config::Kubeconfig::read_from(&world.kubeconfig).unwrap();
    kubeconfig.auth_infos.iter_mut().for_each(|user| user.auth_info = None);
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let nobody = Client::try_from(config).unwrap();
    let get = |path: &str| http::Request::get(path).body(Vec::new()).unwrap();
    assert_eq!(nobody.request_text(get("/healthz")).await.unwrap(), "ok");
    let refused = nobody.request_text(get("/api/v1/namespaces/default/pods")).await;
    assert!(refusal(refused).1.contains("User \"system:anonymous\" cannot list resource \"pods\""));
}

#[tokio::test]
async fn whoever_may_impersonate_is_judged_as_the_other() {
    let world = World::start().await;
    let admin = world.remote().await;
    let get =
        |path: &str| http::Request::get(path).header("impersonate-user", "alice").header("impersonate-group", "devs");
    let path = "/api/v1/namespaces/default/configmaps";
    let refused = refusal(admin.request::<Value>(get(path).body(Vec::new()).unwrap()).await);
    assert!(refused.1.contains("User \"alice\" cannot list resource \"configmaps\""), "{}", refused.1);
    let (bot, _) = bot(&world).await;
    let refused = refusal(bot.request::<Value>(get(path).body(Vec::new()).unwrap()).await);
    assert!(refused.1.contains("cannot impersonate resource \"users\""), "{}", refused.1);
    assert_eq!(refused.0, StatusCode::FORBIDDEN.as_u16());
}

#[tokio::test]
async fn reviews_answer_for_oneself_and_for_others() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let ask = |resource: &str| {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "list", "resource": resource, "namespace": "default"}},
        })
    };
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(post(&client, path, ask("pods")).await["status"]["allowed"], true);
    assert_eq!(post(&client, path, ask("secrets")).await["status"]["allowed"], false);
    let mut other = ask("pods");
    other["kind"] = json!("SubjectAccessReview");
    other["spec"]["user"] = json!("system:serviceaccount:default:bot");
    let admin = world.server.client();
    let answer = post(&admin, "/apis/authorization.k8s.io/v1/subjectaccessreviews", other).await;
    assert_eq!(answer["status"]["allowed"], true);
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}
