//! The kinds that Kubernetes defines: schemas, defaults and validation.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kubeopencode_objects::schema::{
    builtin::{self, DOCUMENTS, generate},
    decode_error, field_warnings, fill_builtin_defaults, validate_builtin,
};
use serde_json::{Value, json};
use testenv::json::merge;

use crate::definitions::CONCURRENCY;
use crate::oracle::{Oracle, Verdict, without_bookkeeping};

const TRY: &str = "dryRun=All&fieldValidation=Strict";

/// Kinds that are tried, with the path of their objects below `/api` or `/apis`, and whether a namespace is in it.
const PATHS: [(&str, &str, &str); 11] = [
    ("v1", "Pod", "pods"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("v1", "Service", "services"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schemas_are_those_of_a_real_api_server() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let documents = stream::iter(DOCUMENTS)
        .map(async |path| oracle.ask(Method::GET, &format!("/openapi/v3/{path}"), &Value::Null).await?.granted())
        .buffered(4)
        .try_collect::<Vec<_>>()
        .await?;
    let generated = generate(&documents)?;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/builtin.json");
    if std::env::var_os("UPDATE_BUILTIN_SCHEMAS").is_some() {
        std::fs::write(file, &generated)?;
    }
    let same = std::fs::read_to_string(file)? == generated;
    assert!(same, "builtin.json is not what the server says: set UPDATE_BUILTIN_SCHEMAS and run this test again");
    Ok(())
}

/// The path of an object's kind, below the namespace of the oracle.
fn path(oracle: &Oracle, object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let plural = PATHS.iter().find(|(v, k, _)| *v == version && *k == kind).map_or("", |(_, _, plural)| plural);
    let root = if version == "v1" { "/api" } else { "/apis" };
    format!("{root}/{version}/namespaces/{}/{plural}", oracle.namespace)
}

/// The answer of a server made of this crate.
fn judge(object: &Value, old: Option<&Value>) -> Verdict {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(schema) = builtin::schema(version, kind) else {
        return Verdict::Unreadable(format!("{kind} is not built in"));
    };
    let mut object = object.clone();
    let short = version.rsplit('/').next().unwrap_or_default();
    let unreadable = |why: &str| {
        Verdict::Unreadable(format!("400 {kind} in version \"{short}\" cannot be handled as a {kind}: {why}"))
    };
    if let Some(error) = decode_error(schema, &object) {
        return unreadable(&error);
    }
    let unknown = schema.prune_typed(&mut object);
    if !unknown.is_empty() {
        return unreadable(&format!("strict decoding error: {}", field_warnings(&[], &unknown).join(", ")));
    }
    schema.normalize(&mut object);
    fill_builtin_defaults(version, kind, &mut object);
    schema.normalize(&mut object);
    let found = validate_builtin(version, kind, &object, old);
    if found.is_empty() { Verdict::Accepted(without_bookkeeping(&object)) } else { Verdict::refused(&found) }
}

/// The object as written with its defaults, without the fields that a server assigns.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else { return object };
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("finalizers");
    }
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        for assigned in
            ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "tolerations", "preemptionPolicy", "priority"]
        {
            spec.remove(assigned);
        }
    }
    object
}

fn same(ours: &Verdict, theirs: &Verdict) -> bool {
    match (ours, theirs) {
        (Verdict::Accepted(ours), Verdict::Accepted(theirs)) => comparable(ours) == comparable(theirs),
        // Kubernetes shows a difference after the sentence.
        (Verdict::Refused(ours), Verdict::Refused(theirs)) => {
            let first_lines = |list: &[(String, String, String)]| {
                list.iter()
                    .map(|(reason, field, message)| {
                        (reason.clone(), field.clone(), message.lines().next().unwrap_or_default().to_owned())
                    })
                    .collect::<Vec<_>>()
            };
            first_lines(ours) == first_lines(theirs)
        }
        _ => ours == theirs,
    }
}

fn named(version: &str, kind: &str, rest: &Value) -> Value {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "a" } });
    merge(&mut object, rest);
    object
}

fn pod() -> Value {
    named("v1", "Pod", &json!({ "spec": { "containers": [{ "name": "c", "image": "example/c:1" }] } }))
}

fn deployment() -> Value {
    let template =
        json!({ "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "c", "image": "c" }] } });
    let selector = json!({ "matchLabels": { "app": "a" } });
    named("apps/v1", "Deployment", &json!({ "spec": { "selector": selector, "template": template } }))
}

/// Objects that are created, good and bad.
fn creations() -> anyhow::Result<Vec<Value>> {
    let mut objects = serde_json::from_str::<Vec<Value>>(include_str!("creations.json"))?;
    objects.push(named("v1", "ConfigMap", &json!({ "data": { "c": "x".repeat(1024 * 1024 + 1) } })));
    Ok(objects)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_objects_are_filled_in_and_refused_as_kubernetes_does() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let mut differences = Vec::new();
    let creations = creations()?;
    let count = creations.len();
    let asked = stream::iter(creations)
        .map(async |object| {
            let url = format!("{}?{TRY}", path(&oracle, &object));
            let theirs = Verdict::of(&oracle.ask(Method::POST, &url, &object).await?);
            anyhow::Ok((object, theirs))
        })
        .buffered(CONCURRENCY);
    for (object, theirs) in asked.try_collect::<Vec<_>>().await? {
        let ours = judge(&object, None);
        if !same(&ours, &theirs) {
            let (ours, theirs) = match (&ours, &theirs) {
                (Verdict::Accepted(ours), Verdict::Accepted(theirs)) => {
                    (comparable(ours).to_string(), comparable(theirs).to_string())
                }
                _ => (format!("{ours:?}"), format!("{theirs:?}")),
            };
            differences.push(format!("{:.600}\n  ours:   {ours:.4000}\n  theirs: {theirs:.4000}", object.to_string()));
        }
    }
    assert!(differences.is_empty(), "{} of {count}:\n{}", differences.len(), differences.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_refused_as_kubernetes_refuses_them() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let role = json!({ "roleRef": { "kind": "ClusterRole", "name": "view" } });
    let claim =
        json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let cases = [
        (pod(), json!({ "spec": { "restartPolicy": "Never" } })),
        (pod(), json!({ "spec": { "containers": [{ "name": "c", "image": "example/c:2" }] } })),
        (pod(), json!({ "spec": { "activeDeadlineSeconds": 5 } })),
        (pod(), json!({ "spec": { "containers": [{ "name": "c", "image": "c" }, { "name": "d", "image": "c" }] } })),
        (deployment(), json!({ "spec": { "replicas": 3 } })),
        (
            deployment(),
            json!({ "spec": { "selector": { "matchLabels": { "b": "c" } }, "template": { "metadata": { "labels": { "b": "c" } } } } }),
        ),
        (named("v1", "Secret", &json!({ "data": { "a": "YQ==" } })), json!({ "type": "x" })),
        (
            named("v1", "Secret", &json!({ "data": { "a": "YQ==" }, "immutable": true })),
            json!({ "immutable": null, "data": { "a": "Yg==" } }),
        ),
        (
            named("v1", "ConfigMap", &json!({ "data": { "a": "b" }, "immutable": true })),
            json!({ "data": { "a": "c" } }),
        ),
        (named("v1", "ConfigMap", &json!({ "data": { "a": "b" } })), json!({ "data": { "a": "c" } })),
        (named("rbac.authorization.k8s.io/v1", "RoleBinding", &role), json!({ "roleRef": { "name": "edit" } })),
        (named("v1", "PersistentVolumeClaim", &claim), json!({ "spec": { "accessModes": ["ReadWriteMany"] } })),
        (named("v1", "PersistentVolumeClaim", &claim), json!({ "metadata": { "labels": { "a": "b" } } })),
    ];
    let mut differences = Vec::new();
    for (index, (mut object, change)) in cases.into_iter().enumerate() {
        let name = format!("change-{index}");
        object["metadata"]["name"] = name.clone().into();
        let url = path(&oracle, &object);
        let stored = oracle.ask(Method::POST, &url, &object).await?.granted()?;
        let mut changed = stored.clone();
        let assigned = stored["spec"].get("containers").cloned();
        merge(&mut changed, &change);
        // A merge replaces lists: defaults set before stay in the first container.
        if let (Some(before), Some(now)) = (assigned, changed.pointer_mut("/spec/containers/0")) {
            let mut first = before[0].clone();
            merge(&mut first, now);
            *now = first;
        }
        let theirs = oracle.ask(Method::PUT, &format!("{url}/{name}?{TRY}"), &changed).await?;
        let theirs = Verdict::of(&theirs);
        let ours = judge(&changed, Some(&stored));
        if !same(&ours, &theirs) {
            differences.push(format!("{change}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
