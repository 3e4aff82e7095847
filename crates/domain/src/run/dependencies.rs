//! Whether the dependencies of a Task are met: other Tasks have ended as required, and referenced objects exist.

use std::collections::BTreeSet;

use api::{
    Task, TaskPhase, TaskSpec,
    conditions::{reasons, types},
    run::{Dependency, DependencyCondition, Input},
};
use jiff::Timestamp;

use crate::status::holds;

/// State of the dependencies of a Task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dependencies {
    #[default]
    Met,
    /// The Task waits for other Tasks.
    Waiting {
        /// Their names, in the order of `dependsOn`.
        on: Vec<String>,
        /// One of them that does not exist.
        absent: Option<Absent>,
    },
    /// A referenced object, such as a ConfigMap, does not exist or cannot be used yet.
    Missing(Missing),
    /// The Task can never run.
    Failed { reason: &'static str, message: String },
}

/// A Task that another depends on, and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    pub task: String,
    /// The dependent Task fails if it still does not exist at this time.
    pub until: Timestamp,
}

/// An object that a Task refers to and that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub reason: &'static str,
    pub message: String,
    /// The Task fails if the object is still missing at this time.
    pub until: Timestamp,
}

/// The state of another Task, as its dependents need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// `None` until it is finished.
    pub end: Option<End>,
    /// Names of the Tasks that it depends on.
    pub depends_on: Vec<String>,
}

/// How a Task ended, as its dependents see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It completed and was not stopped.
    Succeeded,
    /// It failed or was stopped.
    Failed,
}

impl Other {
    pub fn of(task: &Task) -> Self {
        let status = task.status.as_ref();
        let stopped = holds(status.and_then(|status| status.conditions.as_deref()), types::STOPPED);
        let end = match status.and_then(|status| status.phase) {
            Some(TaskPhase::Completed) if !stopped => Some(End::Succeeded),
            Some(TaskPhase::Completed | TaskPhase::Failed) => Some(End::Failed),
            _ => None,
        };
        Self { end, depends_on: names(task) }
    }
}

/// Checks the dependencies of `task`. `find` looks up a Task of the same namespace; `until` returns how long to wait
/// for one that does not exist. Costs nothing for a Task without dependencies, else one walk over the reachable Tasks.
pub fn judge(task: &Task, find: &dyn Fn(&str) -> Option<Other>, until: &dyn Fn(&str) -> Timestamp) -> Dependencies {
    let mut on = Vec::new();
    let mut absent: Option<Absent> = None;
    for Wanted { dependency, optional } in wanted(&task.spec) {
        let other = find(&dependency.task);
        if other.is_none() && optional {
            continue;
        }
        if other.is_none() {
            let this = Absent { task: dependency.task.clone(), until: until(&dependency.task) };
            absent = Some(absent.filter(|other| other.until <= this.until).unwrap_or(this));
        }
        match other.and_then(|other| other.end) {
            None => on.push(dependency.task.clone()),
            Some(end) if good_enough(dependency.condition, end) => {}
            Some(end) => {
                let message = format!(
                    "Task '{}' {}, but this Task runs only after it {}",
                    dependency.task,
                    if end == End::Succeeded { "succeeded" } else { "failed or was stopped" },
                    if dependency.condition == DependencyCondition::Failed { "failed" } else { "succeeded" },
                );
                return Dependencies::Failed { reason: reasons::DEPENDENCY_FAILED, message };
            }
        }
    }
    if on.is_empty() {
        return Dependencies::Met;
    }
    let name = task.metadata.name.as_deref().unwrap_or_default();
    if let Some(cycle) = find_cycle(name, &on, find) {
        let message = format!("the Tasks wait for each other: {}; remove one dependsOn", cycle.join(" -> "));
        return Dependencies::Failed { reason: reasons::INVALID, message };
    }
    Dependencies::Waiting { on, absent }
}

/// Whether a dependent may start after this end.
pub(crate) fn good_enough(wanted: DependencyCondition, end: End) -> bool {
    match wanted {
        DependencyCondition::Finished => true,
        DependencyCondition::Succeeded => end == End::Succeeded,
        DependencyCondition::Failed => end == End::Failed,
    }
}

/// A path from `start` back to itself over unfinished Tasks. Only members of a cycle have one: a Task that merely waits
/// for them fails when they do.
fn find_cycle(start: &str, first: &[String], find: &dyn Fn(&str) -> Option<Other>) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    // The current path, and for each of its members the Tasks that are still to be visited.
    let mut path = vec![start.to_owned()];
    let mut to_visit = vec![first.to_vec()];
    while let Some(next) = to_visit.last_mut() {
        let Some(name) = next.pop() else {
            to_visit.pop();
            path.pop();
            continue;
        };
        if name == start {
            path.push(name);
            return Some(path);
        }
        if !seen.insert(name.clone()) {
            continue;
        }
        if let Some(other) = find(&name).filter(|other| other.end.is_none()) {
            path.push(name);
            to_visit.push(other.depends_on);
        }
    }
    None
}

fn names(task: &Task) -> Vec<String> {
    wanted(&task.spec).into_iter().map(|wanted| wanted.dependency.task).collect()
}

/// A Task that another waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub dependency: Dependency,
    /// A Task that does not exist is not waited for.
    pub optional: bool,
}

/// The Tasks that a Task waits for: those of `dependsOn`, and those whose artefacts are its inputs. An artefact may be
/// that of an earlier, successful run, so any end of the latter is good enough.
pub fn wanted(spec: &TaskSpec) -> Vec<Wanted> {
    let given = spec.depends_on.iter().flatten();
    let mut all: Vec<Wanted> =
        given.map(|dependency| Wanted { dependency: dependency.clone(), optional: false }).collect();
    for Input { from_task, optional, .. } in spec.inputs.iter().flatten() {
        match all.iter_mut().find(|wanted| wanted.dependency.task == *from_task) {
            Some(known) => known.optional &= optional,
            None => all.push(Wanted {
                dependency: Dependency { task: from_task.clone(), condition: DependencyCondition::Finished },
                optional: *optional,
            }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Timestamp = Timestamp::UNIX_EPOCH;
    const SOON: Timestamp = Timestamp::MIN;

    /// Each line of `others` is `name end: dependencies`, with `-` for an unfinished Task.
    #[track_caller]
    fn check(depends_on: &[(&str, DependencyCondition)], others: &[&str], expected: &Dependencies) {
        let depends_on = depends_on
            .iter()
            .map(|(task, condition)| Dependency { task: (*task).to_owned(), condition: *condition })
            .collect();
        let task = Task::new("me", TaskSpec { depends_on: Some(depends_on), ..TaskSpec::default() });
        let find = |name: &str| {
            let line = others.iter().find(|line| line.split(' ').next() == Some(name))?;
            let (head, depends_on) = line.split_once(':')?;
            let end = match head.split(' ').nth(1) {
                Some("ok") => Some(End::Succeeded),
                Some("bad") => Some(End::Failed),
                _ => None,
            };
            Some(Other { end, depends_on: depends_on.split_whitespace().map(ToOwned::to_owned).collect() })
        };
        let until = |name: &str| if name == "soon" { SOON } else { UNTIL };
        assert_eq!(&judge(&task, &find, &until), expected);
    }

    fn waiting(on: &[&str], absent: Option<(&str, Timestamp)>) -> Dependencies {
        let on = on.iter().map(|name| (*name).to_owned()).collect();
        Dependencies::Waiting { on, absent: absent.map(|(task, until)| Absent { task: task.to_owned(), until }) }
    }

    fn failed(reason: &'static str, message: &str) -> Dependencies {
        Dependencies::Failed { reason, message: message.to_owned() }
    }

    #[test]
    fn a_task_waits_until_all_have_ended_well_enough() {
        use DependencyCondition::{Failed, Finished, Succeeded};
        check(&[], &[], &Dependencies::Met);
        check(&[("a", Succeeded)], &["a ok:"], &Dependencies::Met);
        check(&[("a", Succeeded)], &["a -:"], &waiting(&["a"], None));
        check(&[("a", Succeeded), ("b", Succeeded)], &["a ok:", "b -:"], &waiting(&["b"], None));
        check(&[("a", Failed)], &["a bad:"], &Dependencies::Met);
        check(&[("a", Finished), ("b", Finished)], &["a bad:", "b ok:"], &Dependencies::Met);
        check(&[("a", Succeeded)], &[], &waiting(&["a"], Some(("a", UNTIL))));
        let three = [("a", Succeeded), ("b", Succeeded), ("soon", Succeeded)];
        check(&three, &["a -:"], &waiting(&["a", "b", "soon"], Some(("soon", SOON))));
    }

    #[test]
    fn the_wrong_end_of_a_dependency_fails_the_task_at_once() {
        use DependencyCondition::{Failed, Succeeded};
        let sentence = "Task 'a' failed or was stopped, but this Task runs only after it succeeded";
        check(
            &[("b", Succeeded), ("a", Succeeded)],
            &["a bad:", "b -:"],
            &failed(reasons::DEPENDENCY_FAILED, sentence),
        );
        let sentence = "Task 'a' succeeded, but this Task runs only after it failed";
        check(&[("a", Failed)], &["a ok:"], &failed(reasons::DEPENDENCY_FAILED, sentence));
    }

    #[test]
    fn tasks_that_wait_for_each_other_fail_naming_the_circle() {
        use DependencyCondition::Succeeded;
        let circle =
            |path| failed(reasons::INVALID, &format!("the Tasks wait for each other: {path}; remove one dependsOn"));
        check(&[("me", Succeeded)], &["me -: me"], &circle("me -> me"));
        check(&[("x", Succeeded), ("a", Succeeded)], &["a -: b", "b -: me", "x -:"], &circle("me -> a -> b -> me"));
        // A Task that waits for a cycle is not in it.
        check(&[("a", Succeeded)], &["a -: b", "b -: a"], &waiting(&["a"], None));
        // A finished member waits for no other.
        check(&[("a", Succeeded)], &["a -: b", "b ok: me"], &waiting(&["a"], None));
    }
}
