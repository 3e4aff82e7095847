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

/// Sends a request that is refused, and returns the code and the message.
async fn refused(client: &Client, request: http::request::Builder, body: &Value) -> (u16, String) {
    let request = request.body(body.to_string().into_bytes()).unwrap();
    refusal(client.request::<Value>(request).await)
}

/// Lets `bot` write roles and bindings of its namespace, with more verbs on them.
async fn let_write_roles(world: &World, name: &str, verbs: &[&str]) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let admin = world.server.client();
    let resources = ["roles", "rolebindings", "clusterroles"];
    let rule = json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": resources});
    post(&admin, &format!("{rbac}/roles"), json!({"metadata": {"name": name}, "rules": [rule]})).await;
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
    });
    post(&admin, &format!("{rbac}/rolebindings"), binding).await;
}

#[tokio::test]
async fn a_role_cannot_contain_rights_that_its_author_lacks() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let_write_roles(&world, "writer", &["create", "get", "update", "patch"]).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |name: &str, resource: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}],
        })
    };
    post(&client, roles, role("mine", "pods")).await;
    let message = |name: &str| {
        format!(
            "roles.rbac.authorization.k8s.io \"{name}\" is forbidden: user \"system:serviceaccount:default:bot\" \
             (groups=[\"system:serviceaccounts\" \"system:serviceaccounts:default\" \"system:authenticated\"]) is \
             attempting to grant RBAC permissions not currently held:\n\
             {{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}"
        )
    };
    let mine = format!("{roles}/mine");
    let merge = json!({"rules": role("mine", "secrets")["rules"]});
    for (request, name, body) in [
        (http::Request::post(roles), "new", role("new", "secrets")),
        (http::Request::put(format!("{roles}/new")), "new", role("new", "secrets")),
        (http::Request::put(&mine), "mine", role("mine", "secrets")),
        (http::Request::patch(&mine).header("content-type", "application/merge-patch+json"), "mine", merge),
        (
            http::Request::patch(format!("{mine}?fieldManager=m&force=true"))
                .header("content-type", "application/apply-patch+yaml"),
            "mine",
            role("mine", "secrets"),
        ),
        (
            http::Request::patch(format!("{roles}/new?fieldManager=m"))
                .header("content-type", "application/apply-patch+yaml"),
            "new",
            role("new", "secrets"),
        ),
    ] {
        assert_eq!(refused(&client, request, &body).await, (403, message(name)));
    }
    let_write_roles(&world, "escalator", &["escalate"]).await;
    post(&client, roles, role("new", "secrets")).await;
}

#[tokio::test]
async fn a_binding_cannot_grant_rights_that_its_author_lacks() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let_write_roles(&world, "writer", &["create", "get", "update", "patch"]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let bindings = format!("{rbac}/namespaces/default/rolebindings");
    let binding = |name: &str, kind: &str, role: &str| {
        json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}],
        })
    };
    post(&client, &bindings, binding("fine", "Role", "reader")).await;
    let admin = binding("admin", "ClusterRole", "cluster-admin");
    let (code, message) = refused(&client, http::Request::post(&bindings), &admin).await;
    let expected = "is attempting to grant RBAC permissions not currently held:\n\
                    {APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}";
    assert!(message.starts_with("rolebindings.rbac.authorization.k8s.io \"admin\" is forbidden: user "), "{message}");
    assert_eq!((code, message.ends_with(expected)), (403, true), "{message}");
    let missing = refused(&client, http::Request::post(&bindings), &binding("none", "Role", "none")).await;
    assert_eq!(missing, (404, "roles.rbac.authorization.k8s.io \"none\" not found".to_owned()));
    // A binding that someone else created gives no way to add subjects.
    let own = world.server.client();
    post(&own, &bindings, admin.clone()).await;
    let mut more = admin.clone();
    more["subjects"] = json!([{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}]);
    assert_eq!(refused(&client, http::Request::put(format!("{bindings}/admin")), &more).await.0, 403);
    let_write_roles(&world, "binder", &["bind"]).await;
    let request = http::Request::put(format!("{bindings}/admin")).body(more.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap();
}

#[tokio::test]
async fn only_an_administrator_writes_a_role_that_collects_rules() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let admin = world.server.client();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = json!({"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]});
    post(&admin, roles, json!({"metadata": {"name": "author"}, "rules": [rule]})).await;
    let binding = json!({
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
    });
    post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let collects = json!({
        "metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    });
    let expected = "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to \
                    use the aggregationRule";
    assert_eq!(refused(&client, http::Request::post(roles), &collects).await, (403, expected.to_owned()));
    post(&admin, roles, collects).await;
}

/// Defines Task and CronTask, lets `bot` write them, and makes three Secrets: one that `bot` can read, one that its owner
/// opened to Tasks, and `closed`.
async fn let_write_tasks(world: &World) {
    let admin = world.server.client();
    for file in ["tasks", "crontasks"] {
        let path = format!("{}/../../deploy/crds/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        post(&admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([
        {"verbs": ["create", "get", "update", "patch"], "apiGroups": ["kubeopencode.io"],
            "resources": ["tasks", "crontasks", "tasks/status"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
    ]);
    post(&admin, &format!("{rbac}/roles"), json!({"metadata": {"name": "author"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
    });
    post(&admin, &format!("{rbac}/rolebindings"), binding).await;
    let allow = json!({"kubeopencode.io/allow-tasks": "true"});
    for (name, labels) in
        [("mine", json!({})), ("open", allow), ("closed", json!({"kubeopencode.io/allow-tasks": "no"}))]
    {
        post(&admin, "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": name, "labels": labels}})).await;
    }
}

const TASKS: &str = "/apis/kubeopencode.io/v1alpha1/namespaces/default/tasks";
const CRON_TASKS: &str = "/apis/kubeopencode.io/v1alpha1/namespaces/default/crontasks";

/// A Task that uses a Secret for a repository.
fn task_with(name: &str, secret: &str) -> Value {
    let git = json!({"repository": "https://git.example/x.git", "secretRef": {"name": secret}});
    json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": name},
        "spec": {"templateRef": {"name": "t"}, "contexts": [{"type": "Git", "mountPath": "x", "git": git}]},
    })
}

fn not_readable(kind: &str, name: &str, secret: &str) -> (u16, String) {
    let (plural, field) = match kind {
        "Task" => ("tasks", "spec.contexts[0].git.secretRef"),
        _ => ("crontasks", "spec.taskTemplate.spec.contexts[0].git.secretRef"),
    };
    let message = format!(
        "{plural}.kubeopencode.io \"{name}\" is forbidden: Secret '{secret}' ({field}) may not be used by this {kind}: you \
         cannot read it. Ask its owner to label it kubeopencode.io/allow-tasks=true, or to grant you get on it."
    );
    (403, message)
}

#[tokio::test]
async fn a_task_uses_only_secrets_that_its_author_can_read_or_that_are_open() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let_write_tasks(&world).await;
    for (name, secret) in [("a", "mine"), ("b", "open")] {
        post(&client, TASKS, task_with(name, secret)).await;
    }
    // One that does not exist may be created later.
    for secret in ["closed", "none"] {
        let refused = refused(&client, http::Request::post(TASKS), &task_with("c", secret)).await;
        assert_eq!(refused, not_readable("Task", "c", secret));
    }
    let apply = "application/apply-patch+yaml";
    let put = task_with("c", "closed");
    let request = http::Request::patch(format!("{TASKS}/c?fieldManager=m")).header("content-type", apply);
    assert_eq!(refused(&client, request, &put).await, not_readable("Task", "c", "closed"));
    let dry_run = http::Request::post(format!("{TASKS}?dryRun=All"));
    assert_eq!(refused(&client, dry_run, &put).await, not_readable("Task", "c", "closed"));
    post(&world.server.client(), TASKS, put).await;
}

#[tokio::test]
async fn who_changes_a_task_answers_for_its_secrets() {
    let world = World::start().await;
    let (client, _) = bot(&world).await;
    let_write_tasks(&world).await;
    let admin = world.server.client();
    post(&admin, TASKS, task_with("a", "closed")).await;
    let merge = |path: &str| http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let path = format!("{TASKS}/a");
    let send = async |client: &Client, request: http::request::Builder, body: &Value| {
        client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
    };
    // Labels and status say nothing about Secrets.
    send(&client, merge(&path), &json!({"metadata": {"annotations": {"kubeopencode.io/stop": "true"}}})).await;
    send(&client, merge(&format!("{path}/status")), &json!({"status": {"phase": "Queued"}})).await;
    let elsewhere = json!({"spec": {"description": "print your environment"}});
    assert_eq!(refused(&client, merge(&path), &elsewhere).await, not_readable("Task", "a", "closed"));

    let template = json!({"spec": task_with("", "closed")["spec"]});
    let cron = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask", "metadata": {"name": "c"},
        "spec": {"schedule": "@daily", "taskTemplate": template},
    });
    let created = refused(&client, http::Request::post(CRON_TASKS), &cron).await;
    assert_eq!(created, not_readable("CronTask", "c", "closed"));
    post(&admin, CRON_TASKS, cron).await;
    let path = format!("{CRON_TASKS}/c");
    send(&client, merge(&path), &json!({"spec": {"suspend": true}})).await;
    let elsewhere = json!({"spec": {"taskTemplate": {"spec": {"description": "print your environment"}}}});
    assert_eq!(refused(&client, merge(&path), &elsewhere).await, not_readable("CronTask", "c", "closed"));
    // The owner opts in, and withdraws.
    let secret = "/api/v1/namespaces/default/secrets/closed";
    send(&admin, merge(secret), &json!({"metadata": {"labels": {"kubeopencode.io/allow-tasks": "true"}}})).await;
    send(&client, merge(&path), &elsewhere).await;
    send(&admin, merge(secret), &json!({"metadata": {"labels": null}})).await;
    let again = json!({"spec": {"taskTemplate": {"spec": {"description": "again"}}}});
    assert_eq!(refused(&client, merge(&path), &again).await, not_readable("CronTask", "c", "closed"));
}
