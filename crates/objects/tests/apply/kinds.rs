//! The kinds that are compared, and random pieces of their objects.

use std::sync::Arc;

use kubeopencode_objects::apply::Origin;
use kubeopencode_objects::schema::{Schema, builtin};
use serde_json::{Value, json};

use crate::dice::Dice;

#[derive(Clone)]
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub origin: Origin,
    pub has_status: bool,
    pub schema: Arc<Schema>,
}

impl Kind {
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural)
    }
}

pub fn all() -> Vec<Kind> {
    let native = |api_version, kind, plural, has_status| Kind {
        api_version,
        kind,
        plural,
        has_status,
        origin: Origin::BuiltIn,
        schema: Arc::clone(builtin::schema(api_version, kind).unwrap()),
    };
    let custom = |kind, plural: &'static str| Kind {
        api_version: "kubeopencode.io/v1alpha1",
        kind,
        plural,
        has_status: true,
        origin: Origin::Custom,
        schema: Arc::new(custom_schema(plural)),
    };
    vec![
        native("v1", "ConfigMap", "configmaps", false),
        native("v1", "Service", "services", true),
        native("apps/v1", "Deployment", "deployments", true),
        custom("Task", "tasks"),
        custom("Agent", "agents"),
    ]
}

fn custom_schema(plural: &str) -> Schema {
    let path = format!("{}/../../deploy/crds/{plural}.yaml", env!("CARGO_MANIFEST_DIR"));
    let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Schema::from_json(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap()
}

/// A random part of an object, valid or nearly so.
pub fn fragment(kind: &Kind, dice: &mut Dice) -> Value {
    let mut object = match kind.kind {
        "ConfigMap" => config_map(dice),
        "Service" => json!({"spec": service(dice)}),
        "Deployment" => json!({"spec": deployment(dice)}),
        "Task" => json!({"spec": task(dice)}),
        _ => json!({"spec": agent(dice)}),
    };
    object["metadata"] = metadata(dice);
    object
}

/// A random status, valid or nearly so.
pub fn status_fragment(kind: &Kind, dice: &mut Dice) -> Value {
    let mut status = json!({});
    if dice.once_in(2) {
        let types = dice.some(&["Ready", "Accepted", "Done"]);
        let condition = |kind: &&str, dice: &mut Dice| {
            json!({
                "type": kind,
                "status": dice.pick(&["True", "False"]),
                "reason": dice.pick(&["R1", "R2"]),
                "message": dice.pick(&["m1", "m2"]),
                "lastTransitionTime": dice.pick(&["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]),
            })
        };
        status["conditions"] = types.iter().map(|kind| condition(kind, dice)).collect();
    }
    match kind.kind {
        "Deployment" => {
            if dice.once_in(2) {
                status["replicas"] = json!(dice.below(3));
            }
            if dice.once_in(3) {
                status["observedGeneration"] = json!(dice.below(3));
            }
        }
        "Task" => {
            if dice.once_in(2) {
                status["phase"] = json!(dice.pick(&["Pending", "Running", "Completed"]));
            }
            if dice.once_in(3) {
                status["result"] = json!({"outputs": map(dice), "summary": dice.pick(&["s", "t"])});
            }
            if dice.once_in(3) {
                status["usage"] = json!({"tokens": {"input": dice.below(3)}});
            }
        }
        _ => {}
    }
    let mut object = json!({"status": status});
    if dice.once_in(4) {
        object["metadata"] = metadata(dice);
    }
    object
}

fn map(dice: &mut Dice) -> Value {
    let mut map = serde_json::Map::new();
    for key in dice.some(&["a", "b", "c"]) {
        map.insert(key.to_owned(), json!(dice.pick(&["1", "2"])));
    }
    map.into()
}

fn metadata(dice: &mut Dice) -> Value {
    let mut metadata = json!({});
    if dice.once_in(2) {
        metadata["labels"] = map(dice);
    }
    if dice.once_in(3) {
        metadata["annotations"] = map(dice);
    }
    if dice.once_in(3) {
        metadata["finalizers"] = json!(dice.some(&["x.io/a", "x.io/b", "x.io/c"]));
    }
    if dice.once_in(4) {
        let owners = dice.some(&["u1", "u2"]);
        let owner = |uid: &&str, dice: &mut Dice| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": dice.pick(&["o", "p"]), "uid": uid});
        metadata["ownerReferences"] = owners.iter().map(|uid| owner(uid, dice)).collect();
    }
    if dice.once_in(12) {
        metadata["labels"] = Value::Null;
    }
    metadata
}

fn config_map(dice: &mut Dice) -> Value {
    let mut object = json!({});
    if !dice.once_in(4) {
        object["data"] = map(dice);
    }
    if dice.once_in(4) {
        object["binaryData"] = json!({dice.pick(&["x", "y"]): dice.pick(&["AA==", "AQ=="])});
    }
    if dice.once_in(10) {
        object["data"] = Value::Null;
    }
    // Only one at a time: which of several errors are reported is left to chance.
    match dice.below(30) {
        0 => object["data"] = json!({"a": 1}),
        1 => object["unknown"] = json!("x"),
        _ => {}
    }
    object
}

fn service(dice: &mut Dice) -> Value {
    let mut spec = json!({"clusterIP": "None"});
    if !dice.once_in(4) {
        let ports = dice.some(&[(80, "TCP"), (80, "UDP"), (81, ""), (82, "TCP")]);
        let port = |(number, protocol): &(i32, &str), dice: &mut Dice| {
            let mut port = json!({"port": number, "name": format!("p{number}{}", protocol.to_lowercase())});
            if !protocol.is_empty() {
                port["protocol"] = json!(protocol);
            }
            if dice.once_in(2) {
                port["targetPort"] = dice.pick(&[json!(8080), json!("http"), json!(9090)]);
            }
            port
        };
        spec["ports"] = ports.iter().map(|port_of| port(port_of, dice)).collect();
    }
    if dice.once_in(2) {
        spec["selector"] = map(dice);
    }
    if dice.once_in(3) {
        spec["publishNotReadyAddresses"] = json!(dice.once_in(2));
    }
    if dice.once_in(4) {
        spec["sessionAffinity"] = json!(dice.pick(&["None", "ClientIP"]));
    }
    spec
}

fn deployment(dice: &mut Dice) -> Value {
    let names = ["main", "side", "third"];
    let mut containers: Vec<&str> = dice.some(&names[1..]);
    containers.insert(dice.below(containers.len() + 1), "main");
    let containers: Vec<Value> = containers.into_iter().map(|name| container(name, dice)).collect();
    let mut labels = map(dice);
    labels["app"] = json!("x");
    let mut template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let pod = &mut template["spec"];
    if dice.once_in(3) {
        let volumes = dice.some(&["v", "w"]);
        let volume = |name: &&str, dice: &mut Dice| match dice.below(3) {
            0 => json!({"name": name, "emptyDir": {}}),
            1 => json!({"name": name, "configMap": {"name": dice.pick(&["c", "d"])}}),
            _ => json!({"name": name, "emptyDir": {"medium": "Memory"}}),
        };
        pod["volumes"] = volumes.iter().map(|name| volume(name, dice)).collect();
    }
    if dice.once_in(3) {
        pod["nodeSelector"] = map(dice);
    }
    if dice.once_in(4) {
        pod["tolerations"] = json!([{"key": dice.pick(&["k", "l"]), "operator": "Exists"}]);
    }
    if dice.once_in(4) {
        pod["imagePullSecrets"] = dice.some(&["s", "t"]).iter().map(|name| json!({"name": name})).collect();
    }
    let mut spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
    if dice.once_in(2) {
        spec["replicas"] = json!(dice.below(3));
    }
    if dice.once_in(4) {
        spec["strategy"] = dice.pick(&[json!({"type": "Recreate"}), json!({"rollingUpdate": {"maxSurge": 2}})]);
    }
    spec
}

fn container(name: &str, dice: &mut Dice) -> Value {
    let mut container = json!({"name": name, "image": dice.pick(&["i:1", "i:2"])});
    if dice.once_in(2) {
        let names = dice.some(&["A", "B", "C"]);
        let variable = |name: &&str, dice: &mut Dice| json!({"name": name, "value": dice.pick(&["1", "2"])});
        container["env"] = names.iter().map(|name| variable(name, dice)).collect();
    }
    if dice.once_in(3) {
        let ports = dice.some(&[(80, "TCP"), (80, "UDP"), (81, "")]);
        let port = |(number, protocol): &(i32, &str)| {
            let mut port = json!({"containerPort": number});
            if !protocol.is_empty() {
                port["protocol"] = json!(protocol);
            }
            port
        };
        container["ports"] = ports.iter().map(port).collect();
    }
    if dice.once_in(4) {
        container["args"] = json!(dice.some(&["x", "y", "z"]));
    }
    if dice.once_in(4) {
        container["resources"] = json!({"limits": {"cpu": dice.pick(&["1", "500m"])}});
    }
    container
}

fn task(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if !dice.once_in(6) {
        spec["agentRef"] = json!({"name": dice.pick(&["a", "b"])});
    }
    if dice.once_in(2) {
        spec["description"] = json!(dice.pick(&["d1", "d2"]));
    }
    if dice.once_in(3) {
        let text = |text: &&str| json!({"type": "Text", "text": text, "name": "n"});
        spec["contexts"] = dice.some(&["t1", "t2"]).iter().map(text).collect();
    }
    if dice.once_in(2) {
        spec["outputs"] = json!(dice.some(&["o1", "o2", "o3"]));
    }
    if dice.once_in(2) {
        let tasks = dice.some(&["x", "y", "z"]);
        let dependency = |task: &&str, dice: &mut Dice| {
            let mut dependency = json!({"task": task});
            if dice.once_in(2) {
                dependency["condition"] = json!(dice.pick(&["Failed", "Finished"]));
            }
            dependency
        };
        spec["dependsOn"] = tasks.iter().map(|task| dependency(task, dice)).collect();
    }
    if dice.once_in(3) {
        spec["priority"] = json!(dice.below(3));
    }
    if dice.once_in(4) {
        spec["budget"] = json!({"maxTokens": 1 + dice.below(3)});
    }
    if dice.once_in(12) {
        spec["retry"] = json!({});
    }
    if dice.once_in(20) {
        spec["nonsense"] = json!(1);
    }
    spec
}

fn agent(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if dice.once_in(2) {
        spec["config"] = match dice.below(4) {
            0 => json!("{\"text\": 1}"),
            1 => json!({"list": dice.some(&[1, 2, 3]), "deep": {"map": map(dice), "null": null}}),
            2 => json!({"deep": {"map": map(dice)}, "empty": {}}),
            _ => json!({"deep": "scalar", "list": [{"a": 1}]}),
        };
    }
    if dice.once_in(2) {
        spec["workspaceDir"] = json!(dice.pick(&["/w", "/x"]));
    }
    if dice.once_in(3) {
        spec["suspend"] = json!(dice.once_in(2));
    }
    if dice.once_in(3) {
        spec["command"] = json!(dice.some(&["x", "y", "z"]));
    }
    if dice.once_in(3) {
        spec["imagePullSecrets"] = dice.some(&["s", "t"]).iter().map(|name| json!({"name": name})).collect();
    }
    if dice.once_in(4) {
        spec["podSpec"] = json!({"labels": map(dice)});
    }
    spec
}
