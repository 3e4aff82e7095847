use serde_json::json;

use super::*;

const UID: &str = "1";

fn key() -> Key {
    Key::new("n", "t")
}

fn task(phase: &str, epoch: i64) -> Task {
    serde_json::from_value(json!({
        "metadata": { "namespace": "n", "name": "t", "uid": UID },
        "spec": { "templateRef": { "name": "x" } },
        "status": { "phase": phase, "runEpoch": epoch },
    }))
    .unwrap()
}

fn observe(queues: &Queues, task: &Task) {
    let task = Arc::new(task.clone());
    queues.observe(&key(), Duration::ZERO, |_| Some(Arc::clone(&task)), |_| false);
}

fn decide(queues: &Queues) {
    let (limits, grace) = (Limits::default(), Duration::ZERO);
    let circumstances = Circumstances { gate: Gate::Ready, limits, history: Vec::new(), grace };
    queues.decide(&Target::template(Key::new("n", "x")), circumstances, Timestamp::UNIX_EPOCH);
}

#[test]
fn a_dependency_is_needed_until_its_dependant_ends() {
    let queues = Queues::default();
    let dependency = Key::new("n", "first");
    let depends = |phase: &str, epoch: i64| {
        let mut task = task(phase, epoch);
        task.spec.depends_on = serde_json::from_value(json!([{ "task": "first" }])).unwrap();
        task
    };
    let needed = |phase: &str, epoch: i64| {
        observe(&queues, &depends(phase, epoch));
        !queues.dependants(&dependency).is_empty()
    };
    assert!(needed("Running", 1), "it ran when this process came");
    assert!(needed("Queued", 0) && needed("Running", 1));
    assert!(!needed("Completed", 1));
    assert!(needed("Queued", 1), "it is to run again");
    queues.finished(&key(), 2);
    assert!(queues.dependants(&dependency).is_empty());
    assert!(needed("Queued", 1));
    queues.observe(&key(), Duration::ZERO, |_| None, |_| false);
    assert!(queues.dependants(&dependency).is_empty());
}

#[test]
fn a_dependency_that_is_gone_is_waited_for_from_then_on() {
    let queues = Queues::default();
    let mut task = task("Queued", 0);
    task.spec.depends_on = serde_json::from_value(json!([{ "task": "first" }])).unwrap();
    let queued_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    task.status.get_or_insert_default().timings.get_or_insert_default().queued_at = queued_at;
    let task = Arc::new(task);
    let hour = Duration::from_hours(1);
    let fails = |at: Timestamp| {
        let look = |asked: &Key| (*asked == key()).then(|| Arc::clone(&task));
        queues.observe(&key(), hour, look, |_| false);
        let limits = Limits::default();
        let circumstances = Circumstances { gate: Gate::Ready, limits, history: Vec::new(), grace: hour };
        let target = Target::template(Key::new("n", "x"));
        !queues.decide(&target, circumstances, at).decisions.fail.is_empty()
    };
    let seen = now();
    assert!(!fails(seen));
    assert!(fails(later(now(), hour)), "each look counts anew");
}

#[test]
fn late_news_of_the_last_run_do_not_take_back_that_the_next_may_start() {
    let queues = Queues::default();
    observe(&queues, &task("Queued", 1));
    decide(&queues);
    queues.finished(&key(), 1);
    let verdict = queues.verdict(&key(), UID);
    assert!(matches!(verdict, Verdict::Admitted(Admission { epoch: 2, .. })), "{verdict:?}");
    observe(&queues, &task("Failed", 1));
    let verdict = queues.verdict(&key(), UID);
    assert!(matches!(verdict, Verdict::Admitted(Admission { epoch: 2, .. })), "{verdict:?}");
    let Verdict::Admitted(admission) = verdict else { unreachable!() };
    queues.claimed(&key(), &admission);
    assert!(matches!(queues.verdict(&key(), UID), Verdict::Undecided));
}

#[test]
fn who_waits_for_another_reason_than_before_is_told_soon() {
    let queues = Queues::default();
    let limits = serde_json::from_value(json!({ "maxTaskStarts": 1, "windowSeconds": 3600 })).unwrap();
    let limits = Limits { max_concurrent: Some(1), quota: Some(limits) };
    let start = now();
    let decide = |at: Timestamp| {
        let circumstances = Circumstances { gate: Gate::Ready, limits, history: Vec::new(), grace: Duration::ZERO };
        queues.decide(&Target::template(Key::new("n", "x")), circumstances, at)
    };
    observe(&queues, &task("Queued", 0));
    let first = decide(start).decisions.admit.remove(0);
    queues.claimed(&key(), &first);
    let mut other = task("Queued", 0);
    (other.metadata.name, other.metadata.uid) = (Some("other".into()), Some("2".into()));
    let (waits, other) = (Key::new("n", "other"), Arc::new(other));
    queues.observe(&waits, Duration::ZERO, |_| Some(Arc::clone(&other)), |_| false);
    assert_eq!(decide(start).concerned, std::slice::from_ref(&waits), "it is new");
    let reason = |queues: &Queues| match queues.verdict(&waits, "2") {
        Verdict::Waits(words) => words.reason,
        verdict => unreachable!("{verdict:?}"),
    };
    assert_eq!(reason(&queues), "TemplateAtCapacity");
    queues.finished(&key(), 1);
    let decided = decide(start);
    assert_eq!(reason(&queues), "QuotaExceeded");
    let soon = later(start, POSITIONS);
    assert!(decided.decisions.next_wake.is_some_and(|wake| wake <= soon), "{decided:?}");
}
