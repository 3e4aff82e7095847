//! A ServiceAccount gets exactly what its roles allow: verbs, names, subresources, namespaces, paths.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use blackbox::{ApiServer as _, Request, server::Remote};
use http::Method;
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::world::World;
use Verdict::{Granted, Refused};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Granted,
    Refused,
}

/// The rights of `bot`; `HOME` is its namespace, `AWAY` another one.
const ROLES: &str = r#"[
  {"path": "HOME/roles", "body": {"metadata": {"name": "bot"}, "rules": [
    {"verbs": ["get", "list", "watch"], "apiGroups": ["kubeopencode.io"], "resources": ["tasks"]},
    {"verbs": ["update", "patch"], "apiGroups": ["kubeopencode.io"], "resources": ["tasks/status"]},
    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
    {"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
    {"verbs": ["create", "deletecollection"], "apiGroups": [""], "resources": ["configmaps"]},
    {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]}
  ]}},
  {"path": "HOME/rolebindings", "body": {"metadata": {"name": "bot"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bot"},
    "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "HOME"}]}},
  {"path": "clusterroles", "body": {"metadata": {"name": "HOME-maps"}, "rules": [
    {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
    {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["nodes"]},
    {"verbs": ["get"], "nonResourceURLs": ["/never"]}
  ]}},
  {"path": "AWAY/rolebindings", "body": {"metadata": {"name": "bot"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "HOME-maps"},
    "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "HOME"}]}},
  {"path": "clusterroles", "body": {"metadata": {"name": "HOME-paths"}, "rules": [
    {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]},
    {"verbs": ["get"], "apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["HOME"]}
  ]}},
  {"path": "clusterrolebindings", "body": {"metadata": {"name": "HOME-paths"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "HOME-paths"},
    "subjects": [{"kind": "Group", "name": "system:serviceaccounts:HOME"}]}}
]"#;

/// A request, and whether it is granted. Granted does not mean that it succeeds: most of the objects do not exist.
const TABLE: &[(&str, &str, Verdict)] = &[
    // Verbs.
    ("GET", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks", Granted),
    ("GET", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks/t", Granted),
    ("GET", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks?watch=1&timeoutSeconds=1", Granted),
    ("POST", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks", Refused),
    ("PUT", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks/t", Refused),
    ("PATCH", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks/t", Refused),
    ("DELETE", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks/t", Refused),
    ("DELETE", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks", Refused),
    ("POST", "/api/v1/namespaces/HOME/configmaps", Granted),
    ("DELETE", "/api/v1/namespaces/HOME/configmaps", Granted),
    ("DELETE", "/api/v1/namespaces/HOME/configmaps/m", Refused),
    ("GET", "/api/v1/namespaces/HOME/configmaps/m", Refused),
    // Other resources of the group, and the same of another.
    ("GET", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/agents", Refused),
    ("GET", "/apis/apps/v1/namespaces/HOME/deployments", Granted),
    ("PATCH", "/apis/apps/v1/namespaces/HOME/deployments/d/scale", Granted),
    ("GET", "/api/v1/namespaces/HOME/services", Refused),
    // Subresources.
    ("PATCH", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks/t/status", Granted),
    ("GET", "/apis/kubeopencode.io/v1alpha1/namespaces/HOME/tasks/t/status", Refused),
    ("GET", "/api/v1/namespaces/HOME/pods/p/log", Granted),
    ("GET", "/api/v1/namespaces/HOME/pods/p", Refused),
    ("GET", "/api/v1/namespaces/HOME/pods/p/exec?command=true", Refused),
    ("POST", "/api/v1/namespaces/HOME/pods/p/portforward", Refused),
    ("POST", "/api/v1/namespaces/HOME/serviceaccounts/bot/token", Refused),
    // Names.
    ("GET", "/api/v1/namespaces/HOME/secrets/mine", Granted),
    ("DELETE", "/api/v1/namespaces/HOME/secrets/mine", Granted),
    ("PATCH", "/api/v1/namespaces/HOME/secrets/mine", Refused),
    ("GET", "/api/v1/namespaces/HOME/secrets/yours", Refused),
    ("GET", "/api/v1/namespaces/HOME/secrets", Refused),
    ("GET", "/api/v1/namespaces/HOME", Granted),
    ("GET", "/api/v1/namespaces/AWAY", Refused),
    ("GET", "/api/v1/namespaces", Refused),
    // Other namespaces, and all of them.
    ("GET", "/apis/kubeopencode.io/v1alpha1/namespaces/AWAY/tasks", Refused),
    ("GET", "/apis/kubeopencode.io/v1alpha1/tasks", Refused),
    ("GET", "/api/v1/namespaces/AWAY/configmaps", Granted),
    ("GET", "/api/v1/namespaces/AWAY/configmaps/m", Granted),
    ("POST", "/api/v1/namespaces/AWAY/configmaps", Refused),
    ("GET", "/api/v1/configmaps", Refused),
    // A binding in a namespace grants nothing outside, even if the role covers more.
    ("GET", "/api/v1/nodes", Refused),
    ("GET", "/never", Refused),
    // Paths.
    ("GET", "/metrics", Granted),
    ("GET", "/debug/anything/below", Granted),
    ("GET", "/debug", Refused),
    ("POST", "/metrics", Refused),
    ("GET", "/healthz", Granted),
    ("GET", "/version", Granted),
    ("GET", "/apis", Granted),
    ("GET", "/openapi/v3", Granted),
    ("GET", "/logs/x", Refused),
    // About oneself, and about others.
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Granted),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", Refused),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", Refused),
    // Who may not grant cannot grant oneself more.
    ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/HOME/rolebindings", Refused),
    ("PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/HOME/roles/bot", Refused),
    ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Refused),
    // Kinds that do not exist.
    ("GET", "/apis/example.com/v1/namespaces/HOME/unheard", Refused),
];

/// Sends every request of the table with the token of `bot`.
pub async fn hold(world: &World) -> anyhow::Result<()> {
    let home = world.namespace.as_str();
    let away = format!("{home}-away");
    let filled = |text: &str| text.replace("HOME", home).replace("AWAY", &away);
    let admin = Remote::new(world.client().await?);
    make(&admin, "/api/v1/namespaces", &json!({"metadata": {"name": away}})).await?;
    make(&admin, &format!("/api/v1/namespaces/{home}/serviceaccounts"), &json!({"metadata": {"name": "bot"}})).await?;
    for role in serde_json::from_str::<Vec<Value>>(&filled(ROLES))? {
        let path = role["path"].as_str().unwrap_or_default();
        let place = if path.contains('/') { format!("namespaces/{path}") } else { path.to_owned() };
        make(&admin, &format!("/apis/rbac.authorization.k8s.io/v1/{place}"), &role["body"]).await?;
    }
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let granted = make(&admin, &format!("/api/v1/namespaces/{home}/serviceaccounts/bot/token"), &asked).await?;
    let token = granted["status"]["token"].as_str().context("no token")?;
    let bot = Remote::new(with_token(world, Some(token)).await?);

    let mut wrong = String::new();
    let mut refusals = String::new();
    for (method, path, expected) in TABLE {
        let answer = bot.send(request(method, &filled(path))?).await?;
        ensure!(answer.code != 401, "{method} {path}: the token is not accepted");
        let verdict = if answer.code == 403 { Refused } else { Granted };
        if verdict != *expected {
            writeln!(wrong, "{method} {path}: {verdict:?}, {} {}", answer.code, answer.message())?;
        }
        if verdict == Refused {
            let reason = answer.body["reason"].as_str().unwrap_or_default();
            writeln!(refusals, "{method} {path}\n  {reason}: {}", answer.message())?;
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    let refusals = refusals.replace(&away, "AWAY").replace(home, "HOME");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("refusals", refusals);
    });

    // An altered token is refused, and without a token hardly any request is granted.
    let forged = Remote::new(with_token(world, Some(&format!("{}AAAA", &token[..token.len() - 4]))).await?);
    ensure!(forged.send(Request::get("/version")).await?.code == 401);
    let nobody = Remote::new(with_token(world, None).await?);
    ensure!(nobody.send(Request::get("/version")).await?.code == 200);
    ensure!(nobody.send(Request::get("/apis")).await?.code == 403);
    Ok(())
}

async fn make(server: &Remote, path: &str, body: &Value) -> anyhow::Result<Value> {
    server.send(Request::create_at(path, body)).await?.granted().with_context(|| path.to_owned())
}

/// A client with nothing but a token.
async fn with_token(world: &World, token: Option<&str>) -> anyhow::Result<Client> {
    let mut kubeconfig = Kubeconfig::read_from(world.directory().join("kubeconfig"))?;
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() });
    }
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

/// A request with the smallest possible body.
fn request(method: &str, path: &str) -> anyhow::Result<Request> {
    let method: Method = method.parse()?;
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if matches!(method, Method::GET | Method::DELETE) { Vec::new() } else { b"{}".to_vec() };
    Ok(Request { method, path: path.to_owned(), content_type, body })
}
