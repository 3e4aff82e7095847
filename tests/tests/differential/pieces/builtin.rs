//! Pieces of Kubernetes' own kinds.

use serde_json::{Value, json};

use super::{TIMES, map};
use crate::dice::Dice;

pub fn config_map(dice: &mut Dice) -> Value {
    let mut object = json!({});
    if !dice.once_in(4) {
        object["data"] = map(dice);
    }
    if dice.once_in(4) {
        object["binaryData"] = json!({dice.pick(&["x", "y"]): dice.pick(&["AA==", "AQ=="])});
    }
    match dice.below(30) {
        0 | 1 => object["unknown"] = json!("x"),
        2 => object["data"] = Value::Null,
        3 => object["immutable"] = json!(true),
        4 => object["data"] = json!({"not a key": "1"}),
        _ => {}
    }
    object
}

pub fn secret(dice: &mut Dice) -> Value {
    let mut object = json!({});
    if dice.once_in(2) {
        object["data"] = json!({dice.pick(&["a", "b"]): dice.pick(&["MQ==", "Mg=="])});
    }
    if dice.once_in(2) {
        object["stringData"] = map(dice);
    }
    match dice.below(20) {
        0 | 1 => object["immutable"] = json!(true),
        2 => object["type"] = json!("kubernetes.io/basic-auth"),
        3 => object["type"] = json!("kubernetes.io/dockerconfigjson"),
        4 => object["type"] = json!("example.com/mine"),
        5 => object["data"] = json!({"a": dice.pick(&["not base64", "MQ"])}),
        _ => {}
    }
    object
}

pub fn service_account(dice: &mut Dice) -> Value {
    let mut object = json!({});
    if dice.once_in(2) {
        object["automountServiceAccountToken"] = json!(dice.once_in(2));
    }
    if dice.once_in(3) {
        object["imagePullSecrets"] = dice.some(&["s", "t"]).iter().map(|name| json!({"name": name})).collect();
    }
    object
}

pub fn service(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    let mut ports = dice.some(&[(80, "TCP"), (81, ""), (83, "UDP")]);
    if ports.is_empty() && !dice.once_in(6) {
        ports.push((82, "TCP"));
    }
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
    spec["ports"] = ports.iter().map(|of| port(of, dice)).collect();
    if dice.once_in(2) {
        spec["selector"] = map(dice);
    }
    if dice.once_in(3) {
        spec["publishNotReadyAddresses"] = json!(dice.once_in(2));
    }
    json!({"spec": spec})
}

pub fn headless_service(dice: &mut Dice) -> Value {
    let mut object = service(dice);
    object["spec"]["clusterIP"] = json!("None");
    // Without one it would have other families, which cannot change ("Headless Services" in docs/local-differences.md).
    object["spec"]["selector"] = json!({"a": "1"});
    object
}

/// The account is named, because the plugin that would name one is off where no controllers are.
pub fn pod(dice: &mut Dice) -> Value {
    let mut object = json!({"spec": pod_spec(dice)});
    object["spec"]["serviceAccountName"] = json!("robot");
    if dice.once_in(3) {
        object["spec"]["restartPolicy"] = json!(dice.pick(&["Never", "OnFailure", "Always"]));
    }
    if dice.once_in(6) {
        object["spec"]["terminationGracePeriodSeconds"] = json!(dice.pick(&[0, 5, 30]));
    }
    if dice.once_in(4) {
        object["spec"]["tolerations"] = (0..dice.below(3)).map(|_| toleration(dice)).collect();
    }
    object
}

fn toleration(dice: &mut Dice) -> Value {
    let key = dice.pick(&["k", "l", "node.kubernetes.io/not-ready"]);
    let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    match dice.below(12) {
        0 => toleration["operator"] = json!("Sometimes"),
        1 => toleration["effect"] = json!("NoRest"),
        2 => toleration["value"] = json!("v"),
        3 => toleration = json!({"key": "k", "value": "v"}),
        4 => toleration = json!({"operator": "Exists"}),
        5 => toleration = json!({"value": "v"}),
        6 => toleration["effect"] = json!("NoSchedule"),
        _ => {}
    }
    if dice.once_in(3) {
        toleration["tolerationSeconds"] = json!(dice.pick(&[1, 60]));
    }
    toleration
}

pub fn pod_status(dice: &mut Dice) -> Value {
    let mut status = json!({"phase": dice.pick(&["Pending", "Running", "Succeeded", "Failed"])});
    if dice.once_in(3) {
        status["startTime"] = json!(dice.pick(&TIMES));
    }
    status
}

fn pod_spec(dice: &mut Dice) -> Value {
    let names = ["main", "side", "third"];
    let mut containers: Vec<&str> = dice.some(&names[1..]);
    containers.insert(dice.below(containers.len() + 1), "main");
    let containers: Vec<Value> = containers.into_iter().map(|name| container(name, dice)).collect();
    let mut spec = json!({"containers": containers});
    if dice.once_in(3) {
        let volumes = dice.some(&["v", "w"]);
        let volume = |name: &&str, dice: &mut Dice| match dice.below(3) {
            0 => json!({"name": name, "emptyDir": {}}),
            1 => json!({"name": name, "configMap": {"name": dice.pick(&["c", "d"])}}),
            _ => json!({"name": name, "emptyDir": {"medium": "Memory"}}),
        };
        spec["volumes"] = volumes.iter().map(|name| volume(name, dice)).collect();
    }
    if dice.once_in(4) {
        spec["nodeSelector"] = map(dice);
    }
    if dice.once_in(5) {
        spec["imagePullSecrets"] = dice.some(&["s", "t"]).iter().map(|name| json!({"name": name})).collect();
    }
    spec
}

fn container(name: &str, dice: &mut Dice) -> Value {
    let mut container = json!({"name": name, "image": dice.pick(&["i:1", "i:2", "i"])});
    if dice.once_in(2) {
        let names = dice.some(&["A", "B", "C"]);
        let variable = |name: &&str, dice: &mut Dice| json!({"name": name, "value": dice.pick(&["1", "2"])});
        container["env"] = names.iter().map(|name| variable(name, dice)).collect();
    }
    // One container: a real server warns of ports that several have.
    if name == "main" && dice.once_in(2) {
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
    match dice.below(40) {
        0 => container["image"] = json!(""),
        1 => container["nonsense"] = json!(1),
        2 => container["imagePullPolicy"] = json!("Sometimes"),
        _ => {}
    }
    container
}

pub fn deployment(dice: &mut Dice) -> Value {
    let mut object = replica_set(dice);
    if dice.once_in(4) {
        object["spec"]["strategy"] =
            dice.pick(&[json!({"type": "Recreate"}), json!({"rollingUpdate": {"maxSurge": 2}})]);
    }
    object
}

pub fn replica_set(dice: &mut Dice) -> Value {
    let mut labels = map(dice);
    labels["app"] = json!("x");
    let mut template = json!({"metadata": {"labels": labels}, "spec": pod_spec(dice)});
    if dice.once_in(4) {
        template["spec"]["tolerations"] = json!([{"key": dice.pick(&["k", "l"]), "operator": "Exists"}]);
    }
    let mut spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
    if dice.once_in(2) {
        spec["replicas"] = json!(dice.below(3));
    }
    if dice.once_in(25) {
        spec["selector"] = json!({"matchLabels": {"app": "y"}});
    }
    json!({"spec": spec})
}

pub fn workload_status(dice: &mut Dice) -> Value {
    let mut status = json!({});
    if dice.once_in(2) {
        status["replicas"] = json!(1 + dice.below(3));
    }
    if dice.once_in(3) {
        status["observedGeneration"] = json!(1 + dice.below(3));
    }
    status
}

pub fn lease(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if dice.once_in(2) {
        spec["holderIdentity"] = json!(dice.pick(&["me", "you", ""]));
    }
    if dice.once_in(2) {
        spec["leaseDurationSeconds"] = json!(dice.pick(&[15, 0, -1]));
    }
    if dice.once_in(4) {
        spec["leaseTransitions"] = json!(dice.pick(&[0, 1, -1]));
    }
    if dice.once_in(2) {
        spec["renewTime"] = json!(dice.pick(&["2020-01-01T00:00:00.000000Z", "2020-01-01T00:00:00.120000Z"]));
    }
    json!({"spec": spec})
}

pub fn role(dice: &mut Dice) -> Value {
    let rule = |dice: &mut Dice| {
        let mut rule = json!({"apiGroups": [""], "resources": dice.some(&["pods", "secrets"]), "verbs": ["get"]});
        match dice.below(10) {
            0 => rule["verbs"] = json!([]),
            1 => rule["resources"] = json!(["*"]),
            _ => {}
        }
        rule
    };
    let rules: Vec<Value> = (0..=dice.below(2)).map(|_| rule(dice)).collect();
    json!({"rules": rules})
}

pub fn namespace(dice: &mut Dice) -> Value {
    if dice.once_in(4) { json!({"spec": {"finalizers": ["x.io/n"]}}) } else { json!({}) }
}
