use api::run::Budget;
use serde_json::json;

use super::*;
use crate::{run::queue::Budgets, sample::from_json};

const UID: &str = "1";

/// Tasks by name; none of them has a Pod.
#[derive(Default)]
struct Tasks(HashMap<String, Arc<Task>>);

impl Cluster for Tasks {
    fn task(&self, key: &Key) -> Option<Arc<Task>> {
        self.0.get(&key.name).cloned()
    }

    fn has_pod(&self, _task: &TaskKey) -> bool {
        false
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("n", name)
}

fn target() -> Target {
    Target::template(key("x"))
}

fn named(name: &str, phase: &str, epoch: i64) -> Task {
    from_json(json!({
        "metadata": { "namespace": "n", "name": name, "uid": UID },
        "spec": { "templateRef": { "name": "x" } },
        "status": { "phase": phase, "runEpoch": epoch },
    }))
}

fn task(phase: &str, epoch: i64) -> Task {
    named("t", phase, epoch)
}

fn observe(index: &mut Index, task: &Task, now: i64) -> Vec<Target> {
    let key = Key::of(task);
    let tasks = Tasks(HashMap::from([(key.name.clone(), Arc::new(task.clone()))]));
    index.observe(&key, &tasks, at(now))
}

fn ready(limits: Limits) -> Circumstances {
    Circumstances { gate: Gate::Ready, limits, history: Vec::new() }
}

fn decide(index: &mut Index, now: i64) -> Decided {
    index.decide(&target(), ready(Limits::default()), at(now))
}

fn with_grace(grace: Duration) -> Index {
    let mut index = Index::default();
    index.set_grace(grace);
    index
}

fn waits_for(index: &mut Index, name: &str) -> &'static str {
    match index.decision(&key(name), UID) {
        Some(Decision::Wait(queued) | Decision::WaitForReference(queued)) => queued.reason,
        Some(Decision::Start(_)) => "start",
        Some(Decision::Fail(_)) => "fail",
        None => "undecided",
    }
}

#[test]
fn a_dependency_has_dependents_until_they_finish() {
    let mut index = Index::default();
    let depends = |phase: &str, epoch: i64| {
        let mut task = task(phase, epoch);
        task.spec.depends_on = from_json(json!([{ "task": "first" }]));
        task
    };
    let needed = |index: &mut Index, phase: &str, epoch: i64| {
        observe(index, &depends(phase, epoch), 0);
        !index.dependents(&key("first")).is_empty()
    };
    assert!(needed(&mut index, "Running", 1), "it ran when this process started");
    assert!(needed(&mut index, "Queued", 0) && needed(&mut index, "Running", 1));
    assert!(!needed(&mut index, "Completed", 1));
    assert!(needed(&mut index, "Queued", 1), "it is to run again");
    index.finished(&key("t"), 2);
    assert!(index.dependents(&key("first")).is_empty());
    assert!(needed(&mut index, "Queued", 1));
    index.observe(&key("t"), &Tasks::default(), at(0));
    assert!(index.dependents(&key("first")).is_empty());
}

#[test]
fn dependents_are_observed_with_their_dependency() {
    let mut index = Index::default();
    let mut second = named("second", "Queued", 0);
    second.spec.depends_on = from_json(json!([{ "task": "first" }]));
    second.spec.template_ref = from_json(json!({ "name": "other" }));
    let mut tasks = Tasks::default();
    tasks.0.insert("first".into(), Arc::new(named("first", "Running", 1)));
    tasks.0.insert("second".into(), Arc::new(second));
    index.observe(&key("second"), &tasks, at(0));
    let other = Target::template(key("other"));
    assert!(index.decide(&other, ready(Limits::default()), at(1)).decisions.admit.is_empty());
    tasks.0.insert("first".into(), Arc::new(named("first", "Completed", 1)));
    assert_eq!(index.observe(&key("first"), &tasks, at(2)), [target(), other.clone()]);
    assert_eq!(index.decide(&other, ready(Limits::default()), at(3)).decisions.admit.len(), 1);
}

#[test]
fn the_grace_for_a_dependency_counts_from_when_it_was_first_absent() {
    let mut index = with_grace(Duration::from_hours(1));
    let mut task = task("Queued", 0);
    task.spec.depends_on = from_json(json!([{ "task": "first" }]));
    task.status.get_or_insert_default().timings = from_json(json!({ "queuedAt": "1970-01-01T00:00:00Z" }));
    let mut fails = |now: i64| {
        observe(&mut index, &task, now);
        !decide(&mut index, now).decisions.fail.is_empty()
    };
    assert!(!fails(10_000));
    assert!(!fails(13_599));
    assert!(fails(13_600), "each observation restarts the grace");
}

#[test]
fn late_news_of_the_last_run_do_not_take_back_that_the_next_may_start() {
    let mut index = Index::default();
    observe(&mut index, &task("Queued", 1), 0);
    decide(&mut index, 0);
    index.finished(&key("t"), 1);
    assert_eq!(waits_for(&mut index, "t"), "start");
    observe(&mut index, &task("Failed", 1), 0);
    let decision = index.decision(&key("t"), UID);
    let Some(Decision::Start(admission)) = decision else { panic!("{decision:?}") };
    assert_eq!(admission.epoch, 2);
    index.claimed(&admission);
    assert_eq!(waits_for(&mut index, "t"), "undecided");
}

#[test]
fn a_retry_joins_when_its_backoff_is_over_without_another_observation() {
    let mut index = Index::default();
    let mut retry = task("Queued", 1);
    retry.status.get_or_insert_default().timings = from_json(json!({ "queuedAt": "1970-01-01T00:01:00Z" }));
    observe(&mut index, &retry, 10);
    let decided = decide(&mut index, 10);
    assert_eq!((decided.decisions.next_wake, decided.look_at), (Some(at(60)), Vec::new()));
    observe(&mut index, &task("Failed", 1), 20);
    assert_eq!(waits_for(&mut index, "t"), "undecided");
    let decided = decide(&mut index, 60);
    assert_eq!(decided.decisions.admit[0].epoch, 2, "late news of the last run changed nothing");
    assert!(decided.look_at.contains(&key("t")));
}

#[test]
fn a_task_that_was_asked_for_while_a_decision_was_due_is_reported_by_it() {
    let mut index = Index::default();
    let limits = Limits { max_concurrent: Some(1), quota: None };
    observe(&mut index, &named("a", "Running", 1), 0);
    for name in ["b", "c"] {
        observe(&mut index, &named(name, "Queued", 0), 0);
    }
    let decided = index.decide(&target(), ready(limits), at(1));
    assert_eq!((decided.look_at.len(), waits_for(&mut index, "c")), (2, "TemplateAtCapacity"));
    index.finished(&key("a"), 1);
    assert_eq!(waits_for(&mut index, "c"), "undecided");
    let decided = index.decide(&target(), ready(limits), at(2));
    assert_eq!(decided.look_at, [key("c"), key("b")], "one to report, one to start");
}

#[test]
fn a_task_with_a_missing_reference_gives_its_slot_back_and_reports_at_once() {
    let mut index = Index::default();
    observe(&mut index, &task("Queued", 0), 0);
    decide(&mut index, 0);
    let missing =
        |message: &str, until: i64| Missing { reason: "ConfigMapNotFound", message: message.into(), until: at(until) };
    let (decide_again, queued) = index.missing(&key("t"), UID, missing("no map", 60));
    assert_eq!((decide_again, queued.map(|queued| queued.reason)), (Some(target()), Some("ConfigMapNotFound")));
    assert_eq!(index.running(&target()), 0);
    let (decide_again, queued) = index.missing(&key("t"), UID, missing("no map", 90));
    assert!(decide_again.is_none() && queued.is_some(), "nothing changed: the first deadline holds");
    assert_eq!(index.missing_on(&target()), [key("t")]);
    assert_eq!(waits_for(&mut index, "t"), "ConfigMapNotFound");
    assert_eq!(decide(&mut index, 60).decisions.fail.len(), 1);
    assert_eq!(waits_for(&mut index, "t"), "fail");
    index.found(&key("t"));
    observe(&mut index, &task("Queued", 0), 61);
    decide(&mut index, 61);
    assert_eq!(waits_for(&mut index, "t"), "start");
}

#[test]
fn a_new_reason_to_wait_is_reported_within_the_period() {
    let mut index = Index::default();
    let quota = from_json(json!({ "maxTaskStarts": 1, "windowSeconds": 3600 }));
    let limits = Limits { max_concurrent: Some(1), quota: Some(quota) };
    observe(&mut index, &task("Queued", 0), 100);
    let first = index.decide(&target(), ready(limits), at(100)).decisions.admit.remove(0);
    index.claimed(&first);
    observe(&mut index, &named("other", "Queued", 0), 100);
    assert_eq!(index.decide(&target(), ready(limits), at(100)).look_at, [key("other")], "it is new");
    assert_eq!(waits_for(&mut index, "other"), "TemplateAtCapacity");
    index.finished(&key("t"), 1);
    let decided = index.decide(&target(), ready(limits), at(100));
    assert_eq!(waits_for(&mut index, "other"), "QuotaExceeded");
    assert_eq!(decided.decisions.next_wake, Some(later(at(100), POSITIONS_PERIOD)));
    assert_eq!(index.decide(&target(), ready(limits), at(130)).look_at, [key("other")]);
}

/// A finished Task that used 50 tokens and ended at second 10.
fn spender(name: &str) -> Task {
    let mut task = named(name, "Completed", 1);
    task.metadata.uid = Some(format!("uid-{name}"));
    let status = task.status.get_or_insert_default();
    status.completion_time = from_json(json!("1970-01-01T00:00:10Z"));
    status.usage = from_json(json!({ "tokens": { "input": 40, "output": 10 }, "cost": "0.25" }));
    task
}

/// Decides under a budget of 100 tokens a minute.
fn decide_under_budget(index: &mut Index, now: i64, finished: &[Task]) -> Vec<Key> {
    let budget: Budget = from_json(json!({ "maxTokens": 100, "window": "1m" }));
    let finished = || finished.iter().cloned().map(Arc::new).collect();
    index.set_budget(&target(), &Budgets::of(Some(&budget), None), finished);
    decide(index, now).look_at
}

fn spend(index: &mut Index, name: &str, ended: i64) {
    let task = spender(name);
    let usage = task.status.as_ref().and_then(|status| status.usage.clone());
    index.spent(&task, 1, at(ended), usage.as_ref());
}

#[test]
fn tasks_wait_while_others_used_the_budget_of_the_window_up() {
    let mut index = Index::default();
    observe(&mut index, &named("w", "Queued", 0), 20);
    // One finished before this process started to count, one after; both were deleted since.
    decide_under_budget(&mut index, 20, &[spender("x")]);
    assert_eq!(waits_for(&mut index, "w"), "start");
    let share = index.budget_share(&target(), &TaskKey::of(&named("w", "Queued", 0)), at(20));
    assert_eq!(share.tokens, Some(50), "all that is left");
    spend(&mut index, "y", 30);
    observe(&mut index, &spender("y"), 30);
    index.observe(&key("y"), &Tasks::default(), at(30));

    observe(&mut index, &named("v", "Queued", 0), 40);
    assert_eq!(decide_under_budget(&mut index, 40, &[]), [key("v")]);
    assert_eq!(waits_for(&mut index, "v"), "BudgetExceeded");
    assert!(decide_under_budget(&mut index, 60, &[]).is_empty(), "nothing changed, nothing to report");
    decide_under_budget(&mut index, 69, &[]);
    assert_eq!(waits_for(&mut index, "v"), "BudgetExceeded", "the window ends at 70");
    decide_under_budget(&mut index, 70, &[]);
    assert_eq!(waits_for(&mut index, "v"), "BudgetReserved", "the first one may use the rest");
    index.finished(&key("w"), 1);
    decide_under_budget(&mut index, 70, &[]);
    assert_eq!(waits_for(&mut index, "v"), "start");
}

#[test]
fn the_first_task_of_a_target_waits_for_a_budget_that_was_set_before_it_came() {
    let mut index = Index::default();
    decide_under_budget(&mut index, 20, &[spender("x"), spender("y")]);
    observe(&mut index, &named("w", "Queued", 0), 21);
    decide(&mut index, 21);
    assert_eq!(waits_for(&mut index, "w"), "BudgetExceeded");
}

#[test]
fn waiting_tasks_report_when_the_budget_is_used_up_and_when_it_is_not() {
    let mut index = Index::default();
    for name in ["v", "w"] {
        observe(&mut index, &named(name, "Queued", 0), 20);
    }
    let both = [key("v"), key("w")];
    assert_eq!(decide_under_budget(&mut index, 20, &[spender("x"), spender("y")]), both);
    spend(&mut index, "z", 30);
    assert_eq!(decide_under_budget(&mut index, 31, &[]), both, "more was used");
    index.set_budget(&target(), &Budgets::default(), Vec::new);
    assert_eq!(decide(&mut index, 32).decisions.admit.len(), 2);
}
