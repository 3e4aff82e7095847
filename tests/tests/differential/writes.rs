//! Requests that change objects, or try to.

use serde_json::{Value, json};

use crate::generate::Plan;
use crate::steps::{Body, Step, Version};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// How generated names begin.
pub const GENERATED: [&str; 2] = ["g-", "generated"];

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// More writers than are remembered one by one. Their names are in the order in which they write, so that it does not
/// matter in which second each does.
pub fn by_many(plan: &mut Plan) -> Vec<Step> {
    let name = plan.named("a");
    let path = plan.object(&name);
    let mut object = (plan.kind.piece)(&mut plan.dice);
    object["apiVersion"] = json!(plan.kind.api_version);
    object["kind"] = json!(plan.kind.name);
    object["metadata"] = json!({"name": name});
    let create = Step::new("POST", plan.collection()).about(&path).query("fieldManager=a-first").json(&object);
    let mut steps = vec![create];
    for writer in 'b'..'p' {
        let change = json!({"metadata": {"annotations": {writer.to_string(): "x"}}});
        let step = Step::new("PATCH", &path).about(&path).content_type(MERGE).json(&change);
        steps.push(step.query(format!("fieldManager=writer-{writer}")));
    }
    steps
}

pub fn create(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let mut object = plan.piece(&name, None);
    if plan.kind.namespaced && plan.dice.once_in(2) {
        drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace")));
    }
    let mut text = None;
    match plan.dice.below(100) {
        0..8 => {
            object["metadata"]["generateName"] = json!(plan.dice.pick(&GENERATED));
            drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove("name")));
        }
        8 => object["metadata"]["generateName"] = json!("g-"),
        9 => object["metadata"]["resourceVersion"] = json!("1"),
        10 => object["metadata"]["namespace"] = json!("elsewhere"),
        11 => object["kind"] = json!(plan.dice.pick(&["Elephant", "ConfigMap", "Task"])),
        12 => object["apiVersion"] = json!(plan.dice.pick(&["v1", "v2", "apps/v1", "kubeopencode.io/v2"])),
        13 => drop(object.as_object_mut().map(|fields| fields.remove("kind"))),
        14 => drop(object.as_object_mut().map(|fields| fields.remove("apiVersion"))),
        15 => {
            let chosen = plan.dice.pick(&["No_Name", "-a", "a..b", ""]);
            object["metadata"]["name"] = json!(if takes_forever(plan, chosen) { "-a" } else { chosen });
        }
        16 => object["metadata"]["uid"] = json!("u"),
        17 => object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z"),
        18 => object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z"),
        19 => object["metadata"]["generation"] = json!(5),
        20 => object["metadata"]["unknown"] = json!(1),
        21 => object["unknown"] = json!({"a": 1}),
        22 => text = Some(object.to_string().replacen('{', "{\"kind\":\"Twice\",", 1)),
        23 => {
            let chosen = plan.dice.pick(&["", "{", "[]", "7", "a: b", "null"]);
            text = Some(if takes_forever(plan, chosen) { "[]" } else { chosen }.to_owned());
        }
        24 => object["metadata"] = json!("a text"),
        25 => object["metadata"]["managedFields"] = json!([{"manager": "x"}]),
        26 => object["metadata"]["managedFields"] = json!([]),
        27 => object["metadata"]["labels"] = json!({"a": 1}),
        _ => {}
    }
    let step = Step::new("POST", plan.collection()).about(&path);
    plan.write(step).text(text.unwrap_or_else(|| object.to_string()))
}

/// A real server tries every address it has for a Service without a name, and no other Service gets one meanwhile.
fn takes_forever(plan: &Plan, given: &str) -> bool {
    plan.kind.name == "Service" && matches!(given, "" | "null")
}

pub fn update(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let part = plan.part();
    let mut change = plan.piece(&name, part);
    match plan.dice.below(30) {
        0 => change["metadata"]["managedFields"] = json!([]),
        1 => change["metadata"]["managedFields"] = json!([{}]),
        2..5 => change["metadata"]["managedFields"] = Value::Null,
        5 => change["metadata"]["name"] = json!("another"),
        6 => change["metadata"]["name"] = Value::Null,
        7 => change["metadata"]["namespace"] = json!("elsewhere"),
        8 => change["metadata"]["uid"] = json!("11111111-1111-4111-8111-111111111111"),
        9 => change["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z"),
        10 => change = json!({}),
        11 if plan.kind.name != "Service" => change["metadata"]["generation"] = json!(7),
        _ => {}
    }
    let version =
        plan.dice.pick(&[Version::Observed, Version::Observed, Version::Observed, Version::None, Version::First]);
    let step = Step::new("PUT", with_part(&path, part)).about(&path);
    let mut step = plan.write(step);
    step.body = Body::Stored { change, version };
    step
}

fn with_part(path: &str, part: Option<&str>) -> String {
    part.map_or_else(|| path.to_owned(), |part| format!("{path}/{part}"))
}

pub fn merge(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let part = plan.part();
    let mut change = plan.piece(&name, part);
    match plan.dice.below(20) {
        0 => change = json!({"metadata": {"labels": null, "annotations": {"a": null, "z": "1"}}}),
        1 => change["metadata"]["resourceVersion"] = json!("<version>"),
        2 => change["metadata"]["resourceVersion"] = json!("<first-version>"),
        3 => change["metadata"]["uid"] = json!("<uid>"),
        4 => change["metadata"]["name"] = json!("another"),
        5 => change = json!({}),
        6 => change["metadata"]["managedFields"] = json!([{}]),
        7 => change = json!([1]),
        _ => {}
    }
    let mut step = Step::new("PATCH", with_part(&path, part)).about(&path).content_type(MERGE).json(&change);
    if plan.dice.once_in(40) {
        step = step.query("force=true");
    }
    plan.write(step)
}

pub fn operations(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let mut operations = Vec::new();
    for _ in 0..=plan.dice.below(2) {
        let field = plan.dice.pick(&["/metadata/labels", "/metadata/annotations"]);
        let value = json!({"j": "k"});
        operations.push(match plan.dice.below(14) {
            0 => json!({"op": "remove", "path": field}),
            1 => json!({"op": "remove", "path": format!("{field}/a")}),
            2 => json!({"op": "test", "path": field, "value": value}),
            3 => json!({"op": "test", "path": "/metadata/resourceVersion", "value": "<version>"}),
            4 => json!({"op": "test", "path": "/metadata/uid", "value": "<uid>"}),
            5 => json!({"op": "copy", "from": field, "path": "/metadata/annotations"}),
            6 => json!({"op": "move", "from": field, "path": "/metadata/annotations"}),
            7 => json!({"op": "replace", "path": format!("{field}/j"), "value": "l"}),
            8 => json!({"op": "replace", "path": "/metadata/name", "value": "another"}),
            9 => json!({"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/d"}),
            10 => json!({"op": "add", "path": "/metadata/finalizers", "value": ["x.io/e"]}),
            11 => json!({"op": "remove", "path": "/metadata/finalizers/0"}),
            _ => json!({"op": "add", "path": field, "value": value}),
        });
    }
    let mut operations = json!(operations);
    match plan.dice.below(40) {
        0 => operations = json!({"op": "add"}),
        1 => operations = json!([{"op": "dance", "path": "/metadata/labels"}]),
        2 => operations = json!([{"op": "add", "path": "metadata", "value": 1}]),
        3 => operations = json!([]),
        _ => {}
    }
    let step = Step::new("PATCH", &path).about(&path).content_type(JSON).json(&operations);
    plan.write(step)
}

pub fn strategic(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let part = plan.part();
    let mut change = plan.piece(&name, part);
    let workload = matches!(plan.kind.name, "Deployment" | "ReplicaSet");
    let choice = plan.dice.below(8);
    if workload && part.is_none() {
        let pod = &mut change["spec"]["template"]["spec"];
        match choice {
            0 => pod["containers"] = json!([{"name": plan.dice.pick(&["side", "third"]), "$patch": "delete"}]),
            1 => {
                pod["$setElementOrder/containers"] =
                    plan.dice.pick(&[json!([{"name": "side"}, {"name": "main"}]), json!([{"name": "third"}])]);
                drop(pod.as_object_mut().map(|pod| pod.remove("containers")));
            }
            3 => change["spec"]["template"]["metadata"]["labels"] = json!({"$patch": "replace", "app": "x"}),
            _ => {}
        }
    }
    match choice {
        2 => {
            drop(change["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers")));
            change["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(["x.io/a", "x.io/b"]);
        }
        4 => change = json!({"metadata": {"labels": {"a": null, "d": "3"}, "annotations": {"$patch": "delete"}}}),
        _ => {}
    }
    let step = Step::new("PATCH", with_part(&path, part)).about(&path).content_type(STRATEGIC).json(&change);
    plan.write(step)
}

pub fn apply(plan: &mut Plan, part: Option<&'static str>) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let mut object = plan.piece(&name, part);
    if !plan.kind.is_builtin()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        // A real server stores what is empty until the next write ("Empty metadata" in docs/local-differences.md).
        let is_empty = |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
        metadata.retain(|_, value| !is_empty(value));
    }
    let mut manager = plan.manager();
    match plan.dice.below(60) {
        0 => object["metadata"]["managedFields"] = json!([{"manager": "x"}]),
        1 => object["metadata"]["resourceVersion"] = json!("<version>"),
        2 => object["metadata"]["resourceVersion"] = json!("<first-version>"),
        4 => object["metadata"]["name"] = json!("another"),
        5 => object["kind"] = json!("Elephant"),
        6 => drop(object.as_object_mut().map(|fields| fields.remove("apiVersion"))),
        7 if plan.kind.namespaced => object["metadata"]["namespace"] = json!("elsewhere"),
        8 => object["apiVersion"] = json!("v7"),
        9..14 => manager = "kubectl",
        14 => object = json!([]),
        15 => object["unknown"] = json!(1),
        _ => {}
    }
    let mut step = Step::new("PATCH", with_part(&path, part)).about(&path).content_type(APPLY).json(&object);
    if !plan.dice.once_in(40) {
        step = step.query(format!("fieldManager={manager}"));
    }
    if plan.dice.once_in(3) {
        step = step.query("force=true");
    }
    match plan.dice.below(20) {
        0 | 1 => step = step.query("dryRun=All"),
        2 | 3 => step = step.query(format!("fieldValidation={}", plan.dice.pick(&["Strict", "Warn", "Ignore"]))),
        _ => {}
    }
    step
}

/// The patches that `kubectl apply` sends.
pub fn client_side_apply(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let object = plan.piece(&name, None);
    let mut change = object.clone();
    if !change["metadata"]["annotations"].is_object() {
        change["metadata"]["annotations"] = json!({});
    }
    change["metadata"]["annotations"][LAST_APPLIED] = json!(object.to_string());
    let content_type = if plan.kind.is_builtin() { STRATEGIC } else { MERGE };
    let step = Step::new("PATCH", &path).about(&path).content_type(content_type).json(&change);
    step.query("fieldManager=kubectl-client-side-apply")
}

pub fn delete(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let mut step = Step::new("DELETE", &path).about(&path);
    if plan.dice.once_in(4) {
        return step;
    }
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if plan.dice.once_in(2) {
        options["propagationPolicy"] = json!(plan.dice.pick(&["Foreground", "Background", "Orphan"]));
    }
    if plan.dice.once_in(4) {
        options["gracePeriodSeconds"] = json!(plan.dice.pick(&[0, 1, 30]));
    }
    match plan.dice.below(24) {
        0 => options["preconditions"] = json!({"uid": "<uid>"}),
        1 => options["preconditions"] = json!({"uid": "11111111-1111-4111-8111-111111111111"}),
        2 => options["preconditions"] = json!({"resourceVersion": "<version>"}),
        3 => options["preconditions"] = json!({"resourceVersion": "<first-version>"}),
        4 => options["propagationPolicy"] = json!("Sideways"),
        5 => options["orphanDependents"] = json!(true),
        6 => options["orphanDependents"] = json!(false),
        7 | 8 => {
            options["dryRun"] = json!(["All"]);
            // A real server shows an object without anything in it if that takes off the last finalizer ("Trying to
            // delete" in docs/local-differences.md).
            if options["propagationPolicy"] == "Background" {
                drop(options.as_object_mut().map(|options| options.remove("propagationPolicy")));
            }
        }
        9 => options["dryRun"] = json!(["Some"]),
        10 => options["gracePeriodSeconds"] = json!(-1),
        11 => options["kind"] = json!("ConfigMap"),
        12 => options["unknown"] = json!(1),
        13 => options["gracePeriodSeconds"] = json!("soon"),
        14 => {
            step = step.query(plan.dice.pick(&[
                "propagationPolicy=Orphan",
                "propagationPolicy=Foreground",
                "gracePeriodSeconds=0",
                "gracePeriodSeconds=x",
                "dryRun=All",
                "orphanDependents=true",
                "propagationPolicy=Sideways",
            ]));
            return step;
        }
        _ => {}
    }
    step.json(&options)
}

/// Removes the finalizers of an object.
pub fn release(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let left = plan.dice.pick(&[Value::Null, json!([]), json!(["x.io/a"]), json!(["orphan"])]);
    let change = json!({"metadata": {"finalizers": left}});
    Step::new("PATCH", &path).about(&path).content_type(MERGE).json(&change)
}

pub fn delete_collection(plan: &mut Plan) -> Step {
    let mut step = Step::new("DELETE", plan.collection());
    match plan.dice.below(6) {
        0 => step = step.query("labelSelector=a%3D1"),
        1 => step = step.query("fieldSelector=metadata.name%3Da"),
        2 => step = step.query("labelSelector=a+in"),
        3 => step = step.query("dryRun=All"),
        _ => {}
    }
    step
}

pub fn scale(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let scale = format!("{path}/scale");
    // Never the number that is there ("Scale" in docs/local-differences.md).
    let many = 10 + plan.dice.below(10_000);
    let replicas = plan.dice.pick(&[json!(0), json!(many), json!(-1)]);
    match plan.dice.below(6) {
        0 | 1 => Step::new("GET", scale).about(&path),
        2 => {
            let step = Step::new("PATCH", scale).about(&path).content_type(JSON);
            step.json(&json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]))
        }
        3 => {
            let object = json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": name, "namespace": plan.namespace}, "spec": {"replicas": many},
            });
            Step::new("PUT", scale).about(&path).json(&object)
        }
        _ => {
            let step = Step::new("PATCH", scale).about(&path).content_type(MERGE).query("fieldManager=scaler");
            step.json(&json!({"spec": {"replicas": replicas}}))
        }
    }
}

pub fn bind_or_evict(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    if plan.dice.once_in(3) {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": plan.namespace}});
        return Step::new("POST", format!("{path}/eviction")).about(&path).json(&eviction);
    }
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": plan.dice.pick(&["node-1", "node-2"])});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
    Step::new("POST", format!("{path}/binding")).about(&path).json(&binding)
}
