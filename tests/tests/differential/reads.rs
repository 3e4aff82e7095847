//! Requests that only look.

use serde_json::json;

use crate::generate::Plan;
use crate::steps::{Step, Until};

/// Selectors of labels, and labels that they select.
const SELECTORS: [(&str, &str, &str); 5] =
    [("a%3D1", "a", "1"), ("a+in+(1,2)", "a", "2"), ("a!%3D1", "a", "3"), ("!b", "a", "1"), ("c", "c", "x")];

pub fn get(plan: &mut Plan) -> Step {
    let name = plan.name();
    let path = plan.object(&name);
    let mut step = Step::new("GET", &path).about(&path);
    match plan.dice.below(8) {
        0 => step.path = format!("{path}/status"),
        1 => step.path = format!("{path}/nonsense"),
        2 => step.accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        _ => {}
    }
    step
}

/// One list, or the pages of one with a write between them.
pub fn list(plan: &mut Plan, steps: &mut Vec<Step>) {
    let path = plan.collection();
    if !plan.kind.namespaced {
        // Objects of other sequences are in the list: only what cannot be answered is asked.
        let query = plan.dice.pick(&["labelSelector=a+in", "fieldSelector=x%3Dy", "limit=x", "resourceVersion=x"]);
        return steps.push(Step::new("GET", path).query(query));
    }
    if plan.dice.once_in(3) {
        let limit = format!("limit={}", 1 + plan.dice.below(2));
        steps.push(Step::new("GET", &path).query(&limit));
        let letter = plan.dice.pick(&["b", "c"]);
        let name = plan.named(letter);
        let object = plan.piece(&name, None);
        steps.push(Step::new("POST", &path).about(&plan.object(&name)).json(&object));
        steps.push(Step::new("GET", &path).query(&limit).query("continue=<continue>"));
        return steps.push(Step::new("GET", &path).query(limit));
    }
    let step = Step::new("GET", path);
    steps.push(match plan.dice.below(24) {
        0..6 => {
            let (selector, _, _) = plan.dice.pick(&SELECTORS);
            step.query(format!("labelSelector={selector}"))
        }
        6 => step.query("labelSelector=a+in"),
        7 => step.query("fieldSelector=metadata.name%3Da"),
        8 => step.query("fieldSelector=metadata.name!%3Da"),
        9 => step.query(format!("fieldSelector=metadata.namespace%3D{}", plan.namespace)),
        10 => step.query(plan.dice.pick(&["fieldSelector=status.phase%3DRunning", "fieldSelector=spec.nodeName%3D"])),
        11 => step.query("fieldSelector=spec.nonsense%3D1"),
        12 => step.query("resourceVersion=<latest>").query("resourceVersionMatch=NotOlderThan"),
        13 => step.query("resourceVersion=<latest>").query("resourceVersionMatch=Exact"),
        14 => step.query("resourceVersion=<start>").query("resourceVersionMatch=Exact"),
        15 => step.query("resourceVersionMatch=Exact"),
        16 => step.query("resourceVersion=<latest>").query("resourceVersionMatch=Sometimes"),
        17 => step.query("resourceVersion=0").query("resourceVersionMatch=Exact"),
        18 => step.query("resourceVersion=soon"),
        19 => step.query("limit=x"),
        20 | 21 => Step { accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ..step },
        _ => step,
    });
}

/// A watch over everything that the sequence did.
pub fn watch(plan: &mut Plan) -> Step {
    let mut end = (plan.kind.piece)(&mut plan.dice);
    end["apiVersion"] = json!(plan.kind.api_version);
    end["kind"] = json!(plan.kind.name);
    end["metadata"] = json!({"name": "zz-end"});
    let mut step = Step::new("GET", plan.collection()).query("watch=1").query("timeoutSeconds=10");
    match plan.dice.below(10) {
        0..4 => {
            let (selector, key, value) = plan.dice.pick(&SELECTORS);
            end["metadata"]["labels"] = json!({key: value});
            step = step.query(format!("labelSelector={selector}"));
        }
        4 => step = step.query("fieldSelector=metadata.name!%3Db"),
        5 => step.accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        _ => {}
    }
    step = match plan.dice.below(10) {
        0 => step,
        1 => step.query("resourceVersion=<latest>"),
        _ => step.query("resourceVersion=<start>"),
    };
    Step { until: Some(Until { collection: plan.collection(), object: end }), ..step }
}
