//! The real kubectl.

use serde_json::json;

use crate::world::{World, things_definition};

/// Runs kubectl and expects `text` in its output.
async fn check(world: &World, arguments: &[&str], text: &str) {
    let output = world.kubectl(arguments).await.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    assert!(output.contains(text), "{arguments:?}: {output}");
}

fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn our_own_kinds_are_applied_shown_explained_and_changed() {
    let world = World::with_definitions().await;
    let task = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "hello"},
        "spec": {"description": "Say hello", "agentRef": {"name": "first"}},
    });
    assert_eq!(world.apply(&task, &[]).await.unwrap(), "task.kubeopencode.io/hello created");
    assert_eq!(world.apply(&task, &[]).await.unwrap(), "task.kubeopencode.io/hello unchanged");
    assert_eq!(world.apply(&task, &["--server-side"]).await.unwrap(), "task.kubeopencode.io/hello serverside-applied");
    let shown = world.kubectl(&["get", "tasks"]).await.unwrap();
    assert_eq!(columns(shown.lines().next().unwrap()), ["NAME", "PHASE", "AGENT", "POD", "REASON", "AGE"]);
    check(&world, &["get", "task", "hello", "-o", "jsonpath={.spec.description}"], "Say hello").await;
    check(&world, &["get", "task", "hello", "-o", "name"], "task.kubeopencode.io/hello").await;
    check(&world, &["describe", "task", "hello"], "Say hello").await;
    check(&world, &["explain", "task.spec.description"], "FIELD: description <string>").await;
    check(&world, &["label", "task", "hello", "a=b"], "labeled").await;
    check(&world, &["annotate", "task", "hello", "a=b"], "annotated").await;
    let merge = r#"{"spec":{"description":"Say bye"}}"#;
    check(&world, &["patch", "task", "hello", "--type", "merge", "-p", merge], "patched").await;
    let json_patch = r#"[{"op":"test","path":"/spec/description","value":"Say bye"}]"#;
    check(&world, &["patch", "task", "hello", "--type", "json", "-p", json_patch], "no change").await;
    check(&world, &["get", "tasks", "-l", "a=b", "--no-headers"], "hello").await;
    check(&world, &["delete", "task", "hello"], "deleted").await;
    let gone = world.kubectl(&["get", "task", "hello"]).await.unwrap_err();
    assert_eq!(gone, r#"Error from server (NotFound): tasks.kubeopencode.io "hello" not found"#);
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_apply_and_a_broken_rule_is_explained() {
    let world = World::start().await;
    world.apply(&things_definition(), &[]).await.unwrap();
    check(&world, &["wait", "--for=condition=Established", "crd/things.example.com"], "condition met").await;
    let thing =
        |spec| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
    let refused = world.apply(&thing(json!({"colour": "red"})), &[]).await.unwrap_err();
    assert!(refused.contains(r#"strict decoding error: unknown field "spec.colour""#), "{refused}");
    let refused = world.apply(&thing(json!({"color": "plaid"})), &[]).await.unwrap_err();
    assert!(refused.contains(r#"The Thing "a" is invalid"#) && refused.contains("plaid is no color"), "{refused}");
    world.apply(&thing(json!({"color": "red"})), &[]).await.unwrap();
    let shown = world.kubectl(&["get", "tg"]).await.unwrap();
    assert_eq!(columns(shown.lines().nth(1).unwrap())[..2], ["a", "1"]);
    let conflict = world
        .apply(&thing(json!({"color": "blue"})), &["--server-side", "--field-manager", "other"])
        .await
        .unwrap_err();
    assert!(conflict.contains("Apply failed with 1 conflict"), "{conflict}");
    check(&world, &["delete", "crd", "things.example.com"], "deleted").await;
}

#[tokio::test]
async fn commands_that_send_protobuf_are_understood() {
    let world = World::start().await;
    check(&world, &["create", "namespace", "team"], "namespace/team created").await;
    check(&world, &["create", "secret", "generic", "s", "--from-literal=key=value"], "secret/s created").await;
    check(&world, &["get", "secret", "s", "-o", "jsonpath={.data.key} {.type}"], "dmFsdWU= Opaque").await;
    check(&world, &["create", "configmap", "c", "--from-literal=a=b", "-n", "team"], "configmap/c created").await;
    check(&world, &["create", "serviceaccount", "bot"], "serviceaccount/bot created").await;
    check(&world, &["create", "deployment", "d", "--image=i", "--replicas=2"], "deployment.apps/d created").await;
    check(&world, &["get", "deployment", "d", "-o", "jsonpath={.spec.replicas}"], "2").await;
    check(
        &world,
        &["create", "role", "r", "--verb=get", "--resource=pods"],
        "role.rbac.authorization.k8s.io/r created",
    )
    .await;
    check(&world, &["create", "rolebinding", "b", "--role=r", "--serviceaccount=default:bot"], "created").await;
    check(&world, &["auth", "can-i", "get", "pods", "--as", "system:serviceaccount:default:bot"], "yes").await;
    let no = world.kubectl(&["auth", "can-i", "get", "secrets", "--as", "system:serviceaccount:default:bot"]).await;
    assert!(no.is_err(), "{no:?}");
    check(&world, &["create", "token", "bot"], "ey").await;
    check(&world, &["create", "service", "clusterip", "web", "--tcp=80:8080"], "service/web created").await;
    check(&world, &["auth", "whoami"], "kubernetes-admin").await;
}

#[tokio::test]
async fn everyday_commands_work_on_built_in_kinds() {
    let world = World::start().await;
    let resources = world.kubectl(&["api-resources", "--no-headers"]).await.unwrap();
    assert!(resources.lines().any(|line| columns(line) == ["pods", "po", "v1", "true", "Pod"]), "{resources}");
    check(&world, &["version", "-o", "json"], "v1.34").await;
    check(&world, &["run", "p", "--image=busybox"], "pod/p created").await;
    let shown = world.kubectl(&["get", "pods", "--no-headers"]).await.unwrap();
    assert_eq!(columns(&shown)[..3], ["p", "0/1", "Pending"]);
    check(&world, &["describe", "pod", "p"], "Status:           Pending").await;
    let strategic = r#"{"spec":{"containers":[{"name":"p","image":"other"}]}}"#;
    check(&world, &["patch", "pod", "p", "-p", strategic], "patched").await;
    check(&world, &["get", "pod", "p", "-o", "jsonpath={.spec.containers[*].image}"], "other").await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Testing", "message": "seen",
        "type": "Normal", "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "apiVersion": "v1"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        "source": {"component": "test"},
    });
    world.apply(&event, &[]).await.unwrap();
    check(&world, &["events"], "Testing").await;
    check(&world, &["get", "events", "--field-selector", "involvedObject.name=p", "--no-headers"], "seen").await;
    check(&world, &["create", "deployment", "d", "--image=i"], "created").await;
    check(&world, &["scale", "deployment", "d", "--replicas=4"], "scaled").await;
    let deployments = world.kubectl(&["get", "deployments", "--no-headers"]).await.unwrap();
    assert_eq!(columns(&deployments)[1], "0/4");
    check(&world, &["expose", "deployment", "d", "--port=80"], "exposed").await;
    check(&world, &["get", "all"], "service/d").await;
    check(&world, &["delete", "pod", "p", "--grace-period=0", "--force"], "deleted").await;
    check(&world, &["delete", "deployments", "--all"], "deleted").await;
    let unknown = world.kubectl(&["get", "nonsense"]).await.unwrap_err();
    assert_eq!(unknown, r#"error: the server doesn't have a resource type "nonsense""#);
}

#[tokio::test]
async fn diff_replace_and_edit_by_patch_see_what_is_stored() {
    let world = World::start().await;
    let map =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": value}});
    world.apply(&map("1"), &[]).await.unwrap();
    let file = world.directory.path().join("changed.json");
    std::fs::write(&file, map("2").to_string()).unwrap();
    let file = file.to_str().unwrap();
    // kubectl diff ends with 1 if there is a difference.
    assert!(world.kubectl(&["diff", "-f", file]).await.is_err());
    check(&world, &["get", "cm", "m", "-o", "jsonpath={.data.a}"], "1").await;
    check(&world, &["replace", "-f", file], "replaced").await;
    check(&world, &["diff", "-f", file], "").await;
    check(&world, &["apply", "view-last-applied", "cm", "m"], "").await;
    check(&world, &["get", "cm", "m", "-o", "yaml", "--show-managed-fields"], "manager: kubectl").await;
}
