use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(name: &str) -> TaskKey {
    TaskKey { namespace: "ns".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn task(name: &str, priority: i32, created: i64) -> Waiting {
    let (created, since) = (at(created), at(created));
    let own_limit = Allowance::default();
    Waiting { key: key(name), epoch: 1, priority, created, since, own_limit, dependencies: Dependencies::Met }
}

fn blocked(name: &str, on: &str) -> Waiting {
    let dependencies = Dependencies::Waiting { on: vec![on.into()], absent: None };
    Waiting { dependencies, ..task(name, 0, 0) }
}

fn queue(max: Option<u32>, quota: Option<(i32, i32)>) -> Queue {
    let mut queue = Queue::new(RunsOn::Agent("a".into()), Duration::from_mins(1));
    let quota = quota.map(|(max_task_starts, window_seconds)| Quota { max_task_starts, window_seconds });
    queue.set_limits(Limits { max_concurrent: max, quota });
    queue.set_gate(Gate::Ready);
    queue
}

/// Decides and compares the names of those admitted.
#[track_caller]
fn check(queue: &mut Queue, now: i64, admitted: &[&str]) -> Decisions {
    let decisions = queue.decide(at(now));
    let names: Vec<&str> = decisions.admit.iter().map(|admission| admission.key.name.as_str()).collect();
    assert_eq!(names, admitted);
    decisions
}

/// Claims the admitted Tasks, and writes the history.
fn take_over(queue: &mut Queue, decisions: &Decisions) {
    for admission in &decisions.admit {
        queue.claimed(admission);
    }
    if let Some(history) = &decisions.history {
        queue.recorded(history);
    }
}

#[track_caller]
fn check_why(queue: &Queue, name: &str, reason: &str, message: &str) {
    let wait = queue.why(&key(name)).unwrap();
    assert_eq!((wait.reason(queue.runs_on()), wait.message(queue.runs_on()).as_str()), (reason, message));
}

#[test]
fn order_is_priority_then_age_then_name() {
    let mut queue = queue(None, None);
    for task in [task("d", 0, 5), task("c", 0, 5), task("b", 0, 1), task("a", -1, 0), task("e", 7, 9)] {
        queue.upsert(task);
    }
    assert_eq!(queue.position(&key("c")), Some(3));
    assert_eq!(queue.positions().map(|(_, key)| key.name.as_str()).collect::<Vec<_>>(), ["e", "b", "c", "d", "a"]);
    check(&mut queue, 10, &["e", "b", "c", "d", "a"]);
    assert!(queue.is_empty());
}

#[test]
fn a_slot_that_becomes_free_is_taken_by_the_next() {
    let mut queue = queue(Some(1), None);
    queue.upsert(task("a", 0, 1));
    queue.upsert(task("b", 0, 2));
    check(&mut queue, 10, &["a"]);
    check_why(&queue, "b", reasons::AGENT_AT_CAPACITY, "Agent 'a' runs one Task at a time and is busy");
    // The watch still shows the Task as waiting: it is not admitted twice.
    queue.upsert(task("a", 0, 1));
    check(&mut queue, 11, &[]);
    queue.finished(&key("a"), 1);
    check(&mut queue, 12, &["b"]);
}

#[test]
fn news_of_an_older_run_free_nothing() {
    let mut queue = queue(Some(1), None);
    queue.running(key("a"), 2, None);
    queue.upsert(task("b", 0, 1));
    queue.finished(&key("a"), 1);
    check(&mut queue, 1, &[]);
    // The next run waits until this one ends.
    queue.upsert(Waiting { epoch: 3, ..task("a", 9, 0) });
    queue.finished(&key("a"), 2);
    let decisions = check(&mut queue, 2, &["a"]);
    assert_eq!(decisions.admit[0].epoch, 3);
}

#[test]
fn a_recreated_task_is_another_one() {
    let mut queue = queue(Some(1), None);
    queue.running(key("a"), 1, None);
    let again = TaskKey { uid: "other".into(), ..key("a") };
    queue.upsert(Waiting { key: again.clone(), ..task("a", 0, 0) });
    check(&mut queue, 1, &[]);
    queue.remove(&key("a"));
    assert_eq!(check(&mut queue, 2, &["a"]).admit[0].key, again);
}

#[test]
fn a_lost_claim_gives_slot_and_quota_back() {
    let mut queue = queue(Some(1), Some((1, 60)));
    queue.upsert(task("a", 0, 1));
    let decisions = check(&mut queue, 10, &["a"]);
    queue.withdraw(&decisions.admit[0]);
    assert_eq!((queue.running_count(), queue.history().len()), (0, 0));
    check(&mut queue, 10, &["a"]);
    // After the watch has shown the run, nothing is taken back.
    queue.running(key("a"), 1, Some(at(10)));
    queue.withdraw(&decisions.admit[0]);
    assert_eq!((queue.running_count(), queue.history().len()), (1, 1));
}

#[test]
fn a_run_that_is_refused_before_its_claim_gives_its_start_back() {
    for gone in [false, true] {
        let mut queue = queue(None, Some((1, 60)));
        queue.upsert(task("a", 0, 1));
        queue.upsert(task("b", 0, 2));
        let decisions = check(&mut queue, 10, &["a"]);
        queue.recorded(&decisions.history.unwrap());
        if gone {
            queue.remove(&key("a"));
        } else {
            queue.finished(&key("a"), 1);
        }
        let decisions = check(&mut queue, 11, &["b"]);
        take_over(&mut queue, &decisions);
        queue.upsert(task("c", 0, 3));
        // A claimed run has started, however it ends.
        queue.finished(&key("b"), 1);
        check(&mut queue, 12, &[]);
    }
}

#[test]
fn what_is_on_record_follows_what_happened() {
    let names = |decisions: &Decisions| {
        let history = decisions.history.as_ref()?;
        Some(history.iter().map(|start| start.task_name.clone()).collect::<Vec<_>>().join(" "))
    };
    let mut queue = queue(None, Some((5, 60)));
    queue.upsert(task("a", 0, 1));
    let first = check(&mut queue, 10, &["a"]);
    assert_eq!(names(&first).as_deref(), Some("a"));
    // The write failed: it is repeated.
    assert_eq!(names(&check(&mut queue, 11, &[])).as_deref(), Some("a"));
    queue.recorded(&first.history.unwrap());
    assert!(!queue.has_unrecorded());
    assert_eq!(names(&check(&mut queue, 12, &[])), None);
    // A lost claim is removed from the history, too.
    queue.set_gate(Gate::ServerNotReady);
    queue.withdraw(&first.admit[0]);
    let decisions = check(&mut queue, 13, &[]);
    assert_eq!(names(&decisions).as_deref(), Some(""));
    take_over(&mut queue, &decisions);
    // Recorded starts and starts from Tasks may arrive in any order, without a write.
    queue.set_gate(Gate::Ready);
    queue.upsert(task("c", 0, 1));
    let decisions = check(&mut queue, 20, &["a", "c"]);
    let mut next = self::queue(None, Some((5, 60)));
    next.running(key("c"), 1, Some(at(20)));
    next.running(key("a"), 1, Some(at(20)));
    next.restore(&decisions.history.unwrap());
    assert_eq!(names(&check(&mut next, 21, &[])), None);
    // A start that left the window needs no write either.
    assert_eq!(names(&check(&mut next, 90, &[])), None);
}

#[test]
fn nobody_starts_while_the_shared_budget_is_used_up() {
    let mut queue = queue(Some(1), Some((5, 60)));
    let used_up = |until: Option<i64>| {
        let used = "used 130 of 100 tokens".to_owned();
        let used_up = Some(UsedUp { used, window: SignedDuration::from_hours(24), until: until.map(at) });
        let left = Allowance { tokens: Some(0), cost: None };
        BudgetState { left, used_up, frees: Some(at(50)), ..BudgetState::default() }
    };
    queue.upsert(task("a", 0, 1));
    queue.upsert(task("b", 0, 2));
    assert!(queue.set_budget(used_up(Some(90))) && !queue.set_budget(used_up(Some(90))));
    assert_eq!(check(&mut queue, 10, &[]).next_wake, Some(at(90)));
    let message = "the Tasks of Agent 'a' used 130 of 100 tokens in 24h; there is room again at 1970-01-01T00:01:30Z";
    check_why(&queue, "a", reasons::BUDGET_EXCEEDED, message);
    assert!(queue.set_budget(BudgetState::default()));
    assert_eq!(check(&mut queue, 90, &["a"]).next_wake, None);
    // A Task that also waits for a slot reports that, and is decided again when the slot is free.
    queue.set_budget(used_up(Some(200)));
    assert_eq!(check(&mut queue, 100, &[]).next_wake, None);
    check_why(&queue, "b", reasons::AGENT_AT_CAPACITY, "Agent 'a' runs one Task at a time and is busy");
    queue.finished(&key("a"), 1);
    assert_eq!(check(&mut queue, 110, &[]).next_wake, Some(at(200)));
    queue.set_budget(used_up(None));
    assert_eq!(check(&mut queue, 120, &[]).next_wake, None, "a budget of nothing frees nothing");
    check_why(&queue, "b", reasons::BUDGET_EXCEEDED, "the Tasks of Agent 'a' used 130 of 100 tokens in 24h");
}

#[test]
fn running_tasks_never_get_more_than_is_left_of_the_shared_budget() {
    let tokens = |tokens| Allowance { tokens: Some(tokens), cost: None };
    let left = |of| BudgetState { left: tokens(of), frees: Some(at(60)), ..BudgetState::default() };
    let limited = |name: &str, created, limit| Waiting { own_limit: tokens(limit), ..task(name, 0, created) };
    let mut queue = queue(None, None);
    queue.upsert(limited("a", 1, 30));
    queue.upsert(limited("b", 2, 30));
    queue.upsert(task("c", 0, 3));
    queue.upsert(task("d", 0, 4));
    assert!(!queue.set_budget(left(100)));
    // The third one takes the rest, so nothing is left for the fourth.
    assert_eq!(check(&mut queue, 10, &["a", "b", "c"]).next_wake, Some(at(60)));
    let shares = ["a", "b", "c"].map(|name| queue.share(&key(name)).unwrap());
    assert_eq!(shares, [tokens(30), tokens(30), tokens(40)]);
    let message = "the Tasks that run on Agent 'a' may use all that is left of its budget; this Task starts when one of \
                   them ends and leaves some, or set budget in each Task";
    check_why(&queue, "d", reasons::BUDGET_RESERVED, message);
    // The shares stay as they were given. One ended and used 10 of its 30.
    queue.finished(&key("a"), 1);
    queue.set_budget(left(90));
    check(&mut queue, 20, &["d"]);
    assert_eq!(queue.share(&key("d")), Some(tokens(20)));
    // Another controller knows who runs, not their shares: none gets more than its own limit.
    let mut next = Queue::new(RunsOn::Agent("a".into()), Duration::from_mins(1));
    next.set_gate(Gate::Ready);
    next.running(key("b"), 1, None);
    next.set_own_limit(&key("b"), tokens(30));
    next.upsert(task("e", 0, 5));
    next.set_budget(left(90));
    check(&mut next, 30, &["e"]);
    assert_eq!((next.share(&key("b")), next.share(&key("e"))), (Some(tokens(30)), Some(tokens(60))));
    // A claim that was lost gives its share back.
    let admission = next.admission(&key("e")).unwrap();
    next.withdraw(&admission);
    assert_eq!(next.share(&key("e")), None);
    next.set_budget(left(90));
    check(&mut next, 31, &["e"]);
}

#[test]
fn a_task_that_runs_twice_in_one_second_starts_twice() {
    let mut queue = queue(None, Some((2, 60)));
    queue.upsert(task("a", 0, 1));
    let decisions = check(&mut queue, 10, &["a"]);
    take_over(&mut queue, &decisions);
    queue.finished(&key("a"), 1);
    queue.upsert(Waiting { epoch: 2, ..task("a", 0, 1) });
    queue.upsert(task("b", 0, 2));
    let record = check(&mut queue, 10, &["a"]).history.unwrap();
    assert_eq!(record.len(), 2);
    // The next controller counts the same, also when it sees the second run.
    let mut next = self::queue(None, Some((2, 60)));
    next.restore(&record);
    next.restore(&record);
    next.running(key("a"), 2, Some(at(10)));
    next.upsert(task("b", 0, 2));
    check(&mut next, 11, &[]);
    assert_eq!(next.history().len(), 2);
}

#[test]
fn the_quota_frees_when_its_oldest_record_leaves_the_window() {
    let mut queue = queue(None, Some((2, 60)));
    for name in ["a", "b", "c", "d"] {
        queue.upsert(task(name, 0, 1));
    }
    let decisions = check(&mut queue, 100, &["a", "b"]);
    take_over(&mut queue, &decisions);
    assert_eq!(decisions.history.unwrap().len(), 2);
    assert_eq!(decisions.next_wake, Some(at(160)));
    check_why(&queue, "c", reasons::QUOTA_EXCEEDED, "Agent 'a' may start 2 Tasks in 1m and has done so");
    // The end of a Task does not give its start back.
    queue.finished(&key("a"), 1);
    assert_eq!(check(&mut queue, 159, &[]).history, None);
    let decisions = check(&mut queue, 160, &["c", "d"]);
    let history = decisions.history.unwrap();
    let names: Vec<&str> = history.iter().map(|start| start.task_name.as_str()).collect();
    assert_eq!(names, ["c", "d"], "what left the window is pruned");
    assert_eq!(decisions.next_wake, None);
}

#[test]
fn a_start_is_recorded_in_whole_seconds_never_too_early() {
    let mut queue = queue(None, Some((1, 60)));
    queue.upsert(task("a", 0, 1));
    let now = Timestamp::new(100, 1).unwrap();
    assert_eq!(queue.decide(now).admit[0].at, at(101));
}

#[test]
fn a_lowered_quota_waits_for_enough_records_to_leave() {
    let mut queue = queue(None, Some((3, 60)));
    for (name, now) in [("a", 0), ("b", 10), ("c", 20)] {
        queue.upsert(task(name, 0, 1));
        check(&mut queue, now, &[name]);
    }
    queue.set_limits(Limits { quota: Some(Quota { max_task_starts: 1, window_seconds: 60 }), max_concurrent: None });
    queue.upsert(task("d", 0, 1));
    assert_eq!(check(&mut queue, 30, &[]).next_wake, Some(at(80)));
    check(&mut queue, 70, &[]);
    check(&mut queue, 80, &["d"]);
}

#[test]
fn a_start_that_the_history_misses_is_counted_from_the_tasks_own_status() {
    let mut queue = queue(None, Some((1, 60)));
    queue.restore(&[]);
    queue.running(key("a"), 1, Some(at(100)));
    queue.running(key("a"), 1, Some(at(100)));
    queue.upsert(task("b", 0, 1));
    assert_eq!(check(&mut queue, 120, &[]).next_wake, Some(at(160)));
    // Also when the quota is set later.
    let mut later = Queue::new(RunsOn::Agent("a".into()), Duration::ZERO);
    later.running(key("a"), 1, Some(at(100)));
    later.set_limits(Limits { quota: Some(Quota { max_task_starts: 1, window_seconds: 60 }), max_concurrent: None });
    assert_eq!(later.history().len(), 1);
}

#[test]
fn a_task_that_waits_for_another_holds_nobody_back() {
    let mut queue = queue(Some(1), None);
    queue.upsert(Waiting { priority: 9, ..blocked("a", "x") });
    queue.upsert(task("b", 0, 1));
    assert_eq!((queue.position(&key("a")), queue.position(&key("b"))), (None, Some(1)));
    check(&mut queue, 1, &["b"]);
    check_why(&queue, "a", reasons::WAITING_FOR_DEPENDENCY, "Task 'x' must end first");
    queue.upsert(task("a", 9, 0));
    queue.finished(&key("b"), 1);
    check(&mut queue, 2, &["a"]);
}

#[test]
fn a_task_whose_dependency_failed_is_refused_until_it_is_gone() {
    let mut queue = queue(None, None);
    let dependencies = Dependencies::Failed { reason: reasons::DEPENDENCY_FAILED, message: "no".into() };
    queue.upsert(Waiting { dependencies, ..task("a", 0, 0) });
    for now in [1, 2] {
        let decisions = check(&mut queue, now, &[]);
        assert_eq!(
            decisions.fail,
            [Refusal { key: key("a"), reason: reasons::DEPENDENCY_FAILED, message: "no".into() }]
        );
    }
    queue.finished(&key("a"), 1);
    assert_eq!(check(&mut queue, 3, &[]).fail, []);
}

#[test]
fn a_dependency_that_never_appears_fails_the_task() {
    let mut queue = queue(None, None);
    let absent = Some(Absent { task: "x".into(), until: at(60) });
    let dependencies = Dependencies::Waiting { on: vec!["x".into()], absent };
    queue.upsert(Waiting { dependencies, ..task("a", 0, 0) });
    assert_eq!(check(&mut queue, 1, &[]).next_wake, Some(at(60)));
    let sentence =
        "Task 'x' must end first and does not exist; this Task fails at 1970-01-01T00:01:00Z if it is not created";
    check_why(&queue, "a", reasons::WAITING_FOR_DEPENDENCY, sentence);
    let sentence = "Task 'x', which this one depends on, does not exist; create it first, or remove it from dependsOn";
    let fail = check(&mut queue, 60, &[]).fail;
    assert_eq!((fail[0].reason, fail[0].message.as_str()), (reasons::DEPENDENCY_FAILED, sentence));
}

#[test]
fn a_closed_gate_says_why() {
    let mut queue = queue(None, None);
    queue.upsert(task("t", 0, 0));
    for (gate, reason, message, resume) in [
        (
            Gate::SuspendedByUser,
            reasons::AGENT_SUSPENDED,
            "Agent 'a' is suspended; set spec.suspend to false to resume it",
            false,
        ),
        (Gate::Standby, reasons::AGENT_SUSPENDED, "Agent 'a' was idle and is waking up", true),
        (Gate::ServerNotReady, reasons::AGENT_SERVER_NOT_READY, "the server of Agent 'a' is not ready", false),
        (
            Gate::ServerReplaced,
            reasons::AGENT_SERVER_NOT_READY,
            "the server of Agent 'a' is being replaced, because the Agent changed",
            false,
        ),
        (
            Gate::Unusable { reason: reasons::CONFIG_INVALID, message: "config of Agent 'a' is not valid".into() },
            reasons::CONFIG_INVALID,
            "config of Agent 'a' is not valid",
            false,
        ),
        (
            Gate::Missing { since: at(5) },
            reasons::AGENT_NOT_FOUND,
            "Agent 'a' does not exist; the Task fails at 1970-01-01T00:01:05Z if it is not created",
            false,
        ),
    ] {
        queue.set_gate(gate.clone());
        assert_eq!(check(&mut queue, 10, &[]).resume, resume, "{gate:?}");
        check_why(&queue, "t", reason, message);
    }
    queue.set_gate(Gate::Ready);
    check(&mut queue, 11, &["t"]);
}

#[test]
fn nobody_wakes_a_sleeping_agent_for_a_task_that_cannot_run_yet() {
    let mut queue = queue(None, None);
    queue.upsert(blocked("t", "x"));
    queue.set_gate(Gate::Standby);
    assert!(!check(&mut queue, 1, &[]).resume);
}

#[test]
fn a_missing_agent_is_waited_for_and_then_the_tasks_fail() {
    let mut queue = queue(None, None);
    queue.upsert(task("old", 0, 0));
    queue.upsert(task("new", 0, 100));
    queue.set_gate(Gate::Missing { since: at(90) });
    queue.set_gate(Gate::Missing { since: at(140) });
    let decisions = check(&mut queue, 149, &[]);
    assert_eq!((decisions.fail.len(), decisions.next_wake), (0, Some(at(150))));
    let decisions = check(&mut queue, 150, &[]);
    assert_eq!(decisions.fail.len(), 1);
    assert_eq!(decisions.fail[0].reason, reasons::AGENT_NOT_FOUND);
    assert_eq!(decisions.fail[0].message, "Agent 'a' does not exist in this namespace and was not created within 1m");
    queue.remove(&key("old"));
    assert_eq!(check(&mut queue, 151, &[]).next_wake, Some(at(160)));
    // The Agent appears in time for the other Task.
    queue.set_gate(Gate::Ready);
    check(&mut queue, 159, &["new"]);
}

#[test]
fn a_template_has_its_own_reasons() {
    let mut queue = Queue::new(RunsOn::Template("t".into()), Duration::ZERO);
    queue.set_limits(Limits { max_concurrent: Some(2), quota: None });
    queue.set_gate(Gate::Ready);
    for name in ["a", "b", "c"] {
        queue.upsert(task(name, 0, 0));
    }
    check(&mut queue, 1, &["a", "b"]);
    let sentence = "AgentTemplate 't' runs at most 2 Tasks at a time and is busy";
    check_why(&queue, "c", reasons::TEMPLATE_AT_CAPACITY, sentence);
}

#[test]
fn ten_thousand_waiting_tasks_are_admitted_one_by_one_quickly() {
    let mut queue = queue(Some(1), None);
    for number in 0..10_000 {
        queue.upsert(task(&format!("t{number:05}"), 0, number));
    }
    for number in 0..10_000 {
        let name = format!("t{number:05}");
        check(&mut queue, 20_000, &[&name]);
        queue.finished(&key(&name), 1);
    }
    assert!(queue.is_empty());
}

#[test]
fn a_task_with_a_missing_reference_gives_its_slot_back_and_waits_until_the_deadline() {
    let mut queue = queue(Some(1), Some((2, 600)));
    queue.upsert(task("a", 9, 0));
    queue.upsert(task("b", 0, 0));
    let decisions = check(&mut queue, 10, &["a"]);
    let missing =
        Missing { reason: reasons::CONTEXT_ERROR, message: "ConfigMap x does not exist".into(), until: at(70) };
    assert!(queue.wait_for_reference(&decisions.admit[0].key, missing.clone()));
    check_why(
        &queue,
        "a",
        reasons::CONTEXT_ERROR,
        "ConfigMap x does not exist; the Task fails at 1970-01-01T00:01:10Z if that is still so",
    );
    assert_eq!(queue.position(&key("a")), None);
    let decisions = check(&mut queue, 11, &["b"]);
    assert_eq!(decisions.next_wake, Some(at(70)));
    // The run never started, so it does not count for the quota either.
    assert_eq!(queue.history().len(), 1);

    let refused = |name| {
        vec![Refusal { key: key(name), reason: reasons::CONTEXT_ERROR, message: "ConfigMap x does not exist".into() }]
    };
    let mut late = queue.clone();
    assert_eq!(late.decide(at(70)).fail, refused("a"));
    queue.finished(&key("b"), 1);
    queue.upsert(task("a", 9, 0));
    let decisions = check(&mut queue, 12, &["a"]);
    assert_eq!(decisions.next_wake, None);
    // Reported late: only a valid admission can be given back.
    queue.running(key("a"), 1, None);
    assert!(!queue.wait_for_reference(&decisions.admit[0].key, missing));
    assert!(queue.is_running(&key("a")));
}
