//! The contract of archives.

use std::sync::Arc;

use futures::TryStreamExt as _;
use kubeopencode_store::{ArchivedLog, End, Error, Expiry, ExpiryCause, Log, Owner, Run, Selection, Stream, read};

use crate::world::{Cases, World, cases};

pub const CASES: Cases = cases![
    what_was_acknowledged_is_there_for_the_next_process,
    of_two_writers_one_is_told_that_it_is_not_alone,
    a_closed_log_says_how_it_ended_and_does_not_grow,
    a_run_that_printed_nothing_has_a_whole_log,
    each_run_has_its_own_log_and_they_go_with_their_task,
    the_first_record_of_a_run_counts,
    the_first_settings_of_a_run_count_and_are_no_record,
    of_many_that_record_a_run_at_once_all_are_told_the_same,
    a_reader_gets_the_lines_that_it_wants,
    of_a_long_log_the_first_and_the_last_part_are_kept,
    a_line_longer_than_the_limit_is_kept_whole,
    an_expired_log_is_gone_and_its_record_stays,
];

pub fn run(uid: &str, epoch: i64) -> Run {
    Run { task: Owner::new("default", uid).unwrap(), epoch }
}

pub fn log(uid: &str, epoch: i64) -> Log {
    run(uid, epoch).log()
}

pub fn lines(seconds: std::ops::Range<u32>) -> Vec<u8> {
    seconds.flat_map(|second| format!("2026-01-01T00:00:{second:02}Z line {second}\n").into_bytes()).collect()
}

fn open(bytes: u64, torn: u64) -> ArchivedLog {
    ArchivedLog { bytes, left_out: 0, torn, end: None, expired: None }
}

fn end(lines: u64, bytes: u64) -> End {
    End { complete: true, lines, bytes, gaps: 0 }
}

async fn what_was_acknowledged_is_there_for_the_next_process(world: World) {
    let mut case = world.case().await;
    let log = log("u", 1);
    assert_eq!(case.archive.find(&log).await.unwrap(), None);
    assert!(case.archive.read(&log, 0, 100).await.unwrap().bytes.is_empty());
    let (first, second) = (lines(0..2), lines(2..5));
    case.archive.append(&log, 0, first.clone()).await.unwrap();
    case.archive.append(&log, first.len() as u64, second.clone()).await.unwrap();
    case.reopen().await;
    let all = [first, second].concat();
    let bytes = all.len() as u64;
    assert_eq!(case.archive.find(&log).await.unwrap(), Some(open(bytes, 0)));
    assert_eq!(case.archive.read(&log, 0, 1 << 20).await.unwrap().bytes, all);
    assert_eq!(case.archive.read(&log, 7, 9).await.unwrap().bytes, all[7..16]);
    assert!(case.archive.read(&log, bytes, 9).await.unwrap().bytes.is_empty());
    assert!(case.archive.read(&log, bytes + 9, 9).await.unwrap().bytes.is_empty());
}

async fn of_two_writers_one_is_told_that_it_is_not_alone(world: World) {
    let case = world.case().await;
    let log = log("u", 1);
    let attempts = (0..8).map(|_| case.archive.append(&log, 0, lines(0..3)));
    let outcomes = futures::future::join_all(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    let refused = |outcome: &Result<(), Error>| matches!(outcome, Err(Error::Moved { expected: 0, .. }));
    assert_eq!(outcomes.iter().filter(|outcome| refused(outcome)).count(), 7, "{outcomes:?}");
    assert_eq!(case.texts(&log, Selection::default()).await.len(), 3);
}

async fn a_closed_log_says_how_it_ended_and_does_not_grow(world: World) {
    let mut case = world.case().await;
    let log = log("u", 1);
    let kept = lines(0..2);
    let whole = end(2, kept.len() as u64);
    case.archive.append(&log, 0, kept).await.unwrap();
    assert_eq!(case.archive.close(&log, whole).await.unwrap(), whole);
    case.reopen().await;
    assert!(case.archive.find(&log).await.unwrap().unwrap().is_whole());
    let late = case.archive.append(&log, whole.bytes, lines(2..3)).await;
    assert!(matches!(late, Err(Error::Closed(_))), "{late:?}");
    // The first write wins.
    let other = End { complete: false, ..whole };
    assert_eq!(case.archive.close(&log, other).await.unwrap(), whole);
}

async fn a_run_that_printed_nothing_has_a_whole_log(world: World) {
    let case = world.case().await;
    case.archive.close(&log("u", 3), end(0, 0)).await.unwrap();
    assert!(case.archive.find(&log("u", 3)).await.unwrap().unwrap().is_whole());
}

async fn each_run_has_its_own_log_and_they_go_with_their_task(world: World) {
    let case = world.case().await;
    for (uid, epoch) in [("a", 1), ("a", 2), ("b", 1)] {
        case.archive.append(&log(uid, epoch), 0, lines(0..1)).await.unwrap();
    }
    let mut owners = case.archive.owners().await.unwrap();
    owners.sort();
    assert_eq!(owners, [run("a", 1).task, run("b", 1).task]);
    case.archive.remove(&run("a", 1).task).await.unwrap();
    case.archive.remove(&run("a", 1).task).await.unwrap();
    assert_eq!(case.archive.owners().await.unwrap(), [run("b", 1).task]);
    assert_eq!(case.archive.find(&log("a", 2)).await.unwrap(), None);
    case.archive.remove(&run("b", 1).task).await.unwrap();
    assert!(case.archive.owners().await.unwrap().is_empty());
}

async fn the_first_record_of_a_run_counts(world: World) {
    let mut case = world.case().await;
    let run = run("u", 2);
    assert!(case.archive.records(&run.task).await.unwrap().is_empty());
    assert_eq!(case.archive.record(&run, b"first".to_vec()).await.unwrap(), b"first");
    assert_eq!(case.archive.record(&run, b"second".to_vec()).await.unwrap(), b"first");
    case.reopen().await;
    let older = Run { epoch: 1, ..run.clone() };
    assert_eq!(case.archive.record(&older, b"older".to_vec()).await.unwrap(), b"older");
    let kept: Vec<_> = case.archive.records(&run.task).await.unwrap().into_iter().collect();
    assert_eq!(kept, [(1, b"older".to_vec()), (2, b"first".to_vec())]);
    // A record makes no log, and is removed with its Task although there is none.
    assert_eq!(case.archive.find(&run.log()).await.unwrap(), None);
    assert_eq!(case.archive.owners().await.unwrap(), std::slice::from_ref(&run.task));
    case.archive.remove(&run.task).await.unwrap();
    assert!(case.archive.owners().await.unwrap().is_empty());
}

async fn the_first_settings_of_a_run_count_and_are_no_record(world: World) {
    let case = world.case().await;
    let run = run("u", 2);
    assert_eq!(case.archive.settings(&run).await.unwrap(), None);
    case.archive.keep_settings(&run, b"first".to_vec()).await.unwrap();
    case.archive.keep_settings(&run, b"second".to_vec()).await.unwrap();
    assert_eq!(case.archive.settings(&run).await.unwrap().as_deref(), Some(&b"first"[..]));
    assert!(case.archive.records(&run.task).await.unwrap().is_empty());
    assert_eq!(case.archive.find(&run.log()).await.unwrap(), None);
    case.archive.remove(&run.task).await.unwrap();
    assert_eq!(case.archive.settings(&run).await.unwrap(), None);
}

async fn of_many_that_record_a_run_at_once_all_are_told_the_same(world: World) {
    let case = world.case().await;
    for epoch in 0..20 {
        let writers = (0..8).map(|writer| {
            let (archive, run) = (Arc::clone(&case.archive), run("u", epoch));
            tokio::spawn(async move { archive.record(&run, format!("by {writer}").into_bytes()).await.unwrap() })
        });
        let answers = futures::future::try_join_all(writers).await.unwrap();
        let kept = case.archive.records(&run("u", epoch).task).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == kept[&epoch]), "{answers:?}");
    }
}

async fn a_reader_gets_the_lines_that_it_wants(world: World) {
    let case = world.case().await;
    let log = log("u", 1);
    case.archive.append(&log, 0, lines(0..9)).await.unwrap();
    let all: Vec<_> = read(Arc::clone(&case.archive), log.clone(), Selection::default()).try_collect().await.unwrap();
    let since = Some("2026-01-01T00:00:04Z".parse().unwrap());
    for (wanted, expected) in [
        (Selection::default(), 0..9),
        (Selection { tail: Some(2), ..Selection::default() }, 7..9),
        (Selection { tail: Some(0), ..Selection::default() }, 9..9),
        (Selection { tail: Some(99), ..Selection::default() }, 0..9),
        (Selection { since, ..Selection::default() }, 4..9),
        (Selection { since, tail: Some(8), ..Selection::default() }, 4..9),
        (Selection { after: all[5].0, ..Selection::default() }, 6..9),
        (Selection { after: all[8].0, ..Selection::default() }, 9..9),
    ] {
        let expected: Vec<_> = expected.map(|number| format!("line {number}")).collect();
        assert_eq!(case.texts(&log, wanted).await, expected, "{wanted:?}");
    }
}

/// Lines of 100 bytes with their number.
pub fn numbered(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let time: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let line = |number: u32| {
        let time = time + jiff::SignedDuration::from_millis(number.into());
        format!("{:<99}\n", format!("{time} line {number}")).into_bytes()
    };
    numbers.flat_map(line).collect()
}

async fn of_a_long_log_the_first_and_the_last_part_are_kept(world: World) {
    const LIMIT: u64 = 8_000;
    let mut case = world.limited(LIMIT).await;
    let log = log("u", 1);
    let mut at = 0;
    for batch in 0..100 {
        // Another process continues in the middle.
        if batch % 7 == 3 {
            case.reopen().await;
        }
        let lines = numbered(batch * 13..(batch + 1) * 13);
        case.archive.append(&log, at, lines.clone()).await.unwrap();
        at += lines.len() as u64;
        let found = case.archive.find(&log).await.unwrap().unwrap();
        assert_eq!(found.bytes, at);
        assert!(found.bytes - found.left_out <= LIMIT, "{found:?}");
        let used = case.archive.usage().await.unwrap();
        assert_eq!((used.len(), used[0].bytes), (1, found.bytes - found.left_out));
    }
    let found = case.archive.find(&log).await.unwrap().unwrap();
    assert!(found.left_out > 0 && found.bytes - found.left_out > LIMIT / 2, "{found:?}");
    let texts: Vec<String> = case.texts(&log, Selection::default()).await;
    let texts: Vec<&str> = texts.iter().map(|text| text.trim_end()).collect();
    let gap = format!(
        "[log] {} bytes are left out here: of a long log, the first and the last part are kept",
        found.left_out
    );
    let gap_at = texts.iter().position(|text| *text == gap).unwrap();
    let numbers = |range: std::ops::Range<usize>| range.map(|number| format!("line {number}")).collect::<Vec<_>>();
    assert_eq!(texts[..gap_at], numbers(0..40));
    let last = texts.len() - gap_at - 1;
    assert_eq!(texts[gap_at + 1..], numbers(1300 - last..1300));
    // A reader that resumes is not stopped by the gap.
    let all: Vec<_> = read(Arc::clone(&case.archive), log.clone(), Selection::default()).try_collect().await.unwrap();
    let rest = case.texts(&log, Selection { after: all[38].0, ..Selection::default() }).await;
    assert_eq!(rest.len(), last + 2);
    let tail = case.texts(&log, Selection { tail: Some(3), ..Selection::default() }).await;
    assert_eq!(tail.iter().map(|text| text.trim_end()).collect::<Vec<_>>(), ["line 1297", "line 1298", "line 1299"]);
    let end = End { complete: true, lines: 40 + last as u64, bytes: at, gaps: 1 };
    case.archive.close(&log, end).await.unwrap();
    let closed = case.archive.find(&log).await.unwrap().unwrap();
    assert!(closed.is_complete() && !closed.is_whole());
    case.archive.remove(&log.run.task).await.unwrap();
}

async fn a_line_longer_than_the_limit_is_kept_whole(world: World) {
    let case = world.limited(100).await;
    let log = log("u", 1);
    let text = format!("2026-01-01T00:00:00Z {}\n2026-01-01T00:00:01Z end\n", "x".repeat(1000));
    case.archive.append(&log, 0, text.into_bytes()).await.unwrap();
    assert_eq!(case.texts(&log, Selection::default()).await, ["x".repeat(1000), "end".to_owned()]);
}

async fn an_expired_log_is_gone_and_its_record_stays(world: World) {
    let mut case = world.case().await;
    let (run, other) = (run("u", 1), run("u", 2));
    let (log, records) = (run.log(), Log { run: run.clone(), stream: Stream::Records });
    case.archive.append(&log, 0, lines(0..3)).await.unwrap();
    case.archive.append(&records, 0, lines(0..2)).await.unwrap();
    case.archive.append(&other.log(), 0, lines(0..1)).await.unwrap();
    case.archive.close(&log, end(3, lines(0..3).len() as u64)).await.unwrap();
    case.archive.record(&run, b"before".to_vec()).await.unwrap();
    let used = case.archive.usage().await.unwrap();
    assert_eq!(used.iter().find(|used| used.run == run).unwrap().bytes, lines(0..5).len() as u64);
    let expiry = Expiry { at: "2026-02-01T00:00:00Z".parse().unwrap(), cause: ExpiryCause::Age };
    for _ in 0..2 {
        case.archive.expire(&run, expiry, Some(b"after".to_vec())).await.unwrap();
    }
    case.reopen().await;
    let found = case.archive.find(&log).await.unwrap().unwrap();
    assert_eq!((found.expired, found.is_complete()), (Some(expiry), false));
    assert!(case.texts(&log, Selection::default()).await.is_empty());
    assert!(case.texts(&records, Selection::default()).await.is_empty());
    assert_eq!(case.archive.records(&run.task).await.unwrap()[&1], b"after");
    let late = case.archive.append(&log, 0, lines(0..1)).await;
    assert!(matches!(late, Err(Error::Closed(_))), "{late:?}");
    assert_eq!(case.texts(&other.log(), Selection::default()).await.len(), 1);
    let used = case.archive.usage().await.unwrap();
    assert_eq!(used.iter().map(|used| &used.run).collect::<Vec<_>>(), [&other]);
}
