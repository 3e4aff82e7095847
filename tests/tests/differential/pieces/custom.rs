//! Pieces of our kinds.

use serde_json::{Value, json};

use super::{conditions, map};
use crate::dice::Dice;

pub fn task(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if !dice.once_in(12) {
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
    match dice.below(60) {
        0..5 => spec["retry"] = json!({}),
        5..8 => spec["nonsense"] = json!(1),
        8 => spec["priority"] = json!("high"),
        9 => spec["timeout"] = json!("soon"),
        10 => spec["description"] = json!(null),
        _ => {}
    }
    json!({"spec": spec})
}

pub fn task_status(dice: &mut Dice) -> Value {
    let mut status = json!({});
    if dice.once_in(2) {
        status["conditions"] = conditions(dice);
    }
    if dice.once_in(2) {
        status["phase"] = json!(dice.pick(&["Pending", "Running", "Completed"]));
    }
    if dice.once_in(3) {
        status["result"] = json!({"outputs": map(dice), "summary": dice.pick(&["s", "t"])});
    }
    if dice.once_in(3) {
        status["usage"] = json!({"tokens": {"input": dice.below(3)}});
    }
    status
}

pub fn agent(dice: &mut Dice) -> Value {
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
    json!({"spec": spec})
}

pub fn agent_status(dice: &mut Dice) -> Value {
    json!({"conditions": conditions(dice)})
}

pub fn instruction(dice: &mut Dice) -> Value {
    let mut spec = json!({"text": dice.pick(&["one", "two"])});
    match dice.below(12) {
        0 => spec["text"] = json!(7),
        1 => spec["other"] = json!({"deep": 1}),
        2 => spec = json!({}),
        _ => {}
    }
    json!({"spec": spec})
}

pub fn mcp_server(dice: &mut Dice) -> Value {
    let mut spec = json!({"image": dice.pick(&["i:1", "i:2"])});
    if dice.once_in(2) {
        spec["replicas"] = json!(dice.below(3));
    }
    if dice.once_in(3) {
        spec["port"] = json!(8080);
    }
    json!({"spec": spec})
}
