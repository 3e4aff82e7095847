//! From a number to a sequence, always the same one.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::kinds::Kind;
use crate::pieces;
use crate::steps::{Sequence, Step};
use crate::{reads, writes};

/// State of the generator.
pub struct Plan {
    pub dice: Dice,
    pub kind: Kind,
    pub namespace: String,
}

/// The sequence with this number.
pub fn sequence(number: u64) -> Sequence {
    let namespace = format!("d{number}");
    let mut plan = Plan { dice: Dice::new(number), kind: Kind::of_sequence(number), namespace };
    let steps = if number % 100 == 7 { writes::by_many(&mut plan) } else { steps(&mut plan) };
    Sequence { number, namespace: plan.namespace, steps }
}

fn steps(plan: &mut Plan) -> Vec<Step> {
    let first = if plan.dice.once_in(4) { writes::apply(plan, None) } else { writes::create(plan) };
    let mut steps = vec![first];
    for _ in 0..3 + plan.dice.below(4) {
        match plan.dice.below(100) {
            0..10 => steps.push(writes::create(plan)),
            10..22 => steps.push(writes::update(plan)),
            22..32 => steps.push(writes::merge(plan)),
            32..40 => steps.push(writes::operations(plan)),
            40..47 => steps.push(writes::strategic(plan)),
            47..65 => {
                let part = plan.part();
                steps.push(writes::apply(plan, part));
            }
            65..76 => steps.push(writes::delete(plan)),
            76..81 => steps.push(writes::release(plan)),
            81..84 => steps.push(reads::get(plan)),
            84..92 => reads::list(plan, &mut steps),
            92..94 if plan.kind.namespaced => steps.push(writes::delete_collection(plan)),
            94..97 if plan.kind.scales => steps.push(writes::scale(plan)),
            94..97 if plan.kind.name == "Pod" => steps.push(writes::bind_or_evict(plan)),
            _ => steps.push(writes::client_side_apply(plan)),
        }
    }
    // A real server marks a Pod before it removes it, even if nothing keeps it ("Pods that no node has" in
    // docs/local-differences.md).
    if plan.kind.namespaced && plan.kind.name != "Pod" && plan.dice.once_in(3) {
        steps.push(reads::watch(plan));
    }
    steps
}

impl Plan {
    /// Where objects of the kind are.
    pub fn collection(&self) -> String {
        self.kind.collection(&self.namespace)
    }

    /// One of two names; most requests are about the first.
    pub fn name(&mut self) -> String {
        let letter = if self.dice.once_in(5) { "b" } else { "a" };
        self.named(letter)
    }

    /// A name that no other sequence uses where the whole cluster shares them.
    pub fn named(&self, letter: &str) -> String {
        if self.kind.namespaced { letter.to_owned() } else { format!("{}-{letter}", self.namespace) }
    }

    /// Where an object is.
    pub fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }

    /// Sometimes the status instead of the whole.
    pub fn part(&mut self) -> Option<&'static str> {
        (self.kind.status.is_some() && self.dice.once_in(4)).then_some("status")
    }

    /// Who writes.
    pub fn manager(&mut self) -> &'static str {
        self.dice.pick(&["alice", "bob", "carol"])
    }

    /// A random object of the kind, or a piece of it.
    pub fn piece(&mut self, name: &str, part: Option<&str>) -> Value {
        let mut object = match part {
            None => (self.kind.piece)(&mut self.dice),
            Some(_) => json!({}),
        };
        if part.is_none() || self.dice.once_in(4) {
            object["metadata"] = pieces::metadata(&mut self.dice);
        }
        if let Some(status) = self.kind.status
            && (part.is_some() || self.dice.once_in(10))
        {
            object["status"] = status(&mut self.dice);
        }
        object["apiVersion"] = json!(self.kind.api_version);
        object["kind"] = json!(self.kind.name);
        object["metadata"]["name"] = json!(name);
        if self.kind.namespaced {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        object
    }

    /// What every write can be asked to do besides.
    pub fn write(&mut self, step: Step) -> Step {
        let mut step = step;
        if !self.dice.once_in(4) {
            step = step.query(format!("fieldManager={}", self.manager()));
        }
        match self.dice.below(40) {
            0..4 => step = step.query("dryRun=All"),
            4 => step = step.query("dryRun=Some"),
            5..12 => {
                step = step.query(format!("fieldValidation={}", self.dice.pick(&["Strict", "Warn", "Ignore"])));
            }
            12 => step = step.query("fieldValidation=Never"),
            _ => {}
        }
        step
    }
}
