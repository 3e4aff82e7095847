use super::*;
use serde_json::{Value, json};

fn encode(n: u64) -> EncodedObject {
    EncodedObject::new(&json!({"metadata": {"name": "x"}, "n": n})).unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    serde_json::from_slice::<Value>(bytes).unwrap()["n"].as_u64().unwrap()
}

async fn put(store: &Store, key: &str, expect: Expect, n: u64) -> Entry {
    store.write("things", key, expect, Action::Put(encode(n))).await.unwrap()
}

#[tokio::test]
async fn a_write_that_expects_something_else_is_refused() {
    let store = Store::in_memory().unwrap();
    let first = put(&store, "a/x", Expect::Absent, 1).await;
    let again = store.write("things", "a/x", Expect::Absent, Action::Put(encode(2))).await;
    assert!(matches!(again, Err(WriteError::Unexpected(Some(revision))) if revision == first.revision));
    let second = put(&store, "a/x", Expect::Revision(first.revision), 2).await;
    assert!(second.revision > first.revision);
    let stale = store.write("things", "a/x", Expect::Revision(first.revision), Action::Remove(encode(2))).await;
    assert!(matches!(stale, Err(WriteError::Unexpected(_))));
    let gone = store.write("things", "a/y", Expect::Revision(1), Action::Remove(encode(2))).await;
    assert!(matches!(gone, Err(WriteError::Unexpected(None))));
}

#[tokio::test]
async fn the_past_is_the_present_with_the_changes_undone() {
    let store = Store::in_memory().unwrap();
    let x = put(&store, "a/x", Expect::Absent, 1).await;
    let y = put(&store, "a/y", Expect::Absent, 2).await;
    put(&store, "a/x", Expect::Revision(x.revision), 3).await;
    store.write("things", "a/y", Expect::Revision(y.revision), Action::Remove(encode(2))).await.unwrap();
    put(&store, "a/z", Expect::Absent, 4).await;
    let numbers = |snapshot: Snapshot| {
        snapshot.items.iter().map(|(key, entry)| (key.to_string(), number(&entry.bytes))).collect::<Vec<_>>()
    };
    assert_eq!(numbers(store.list("things", "a/")), [("a/x".to_owned(), 3), ("a/z".to_owned(), 4)]);
    let past = store.list_at("things", "a/", y.revision).unwrap();
    assert_eq!(numbers(past), [("a/x".to_owned(), 1), ("a/y".to_owned(), 2)]);
    assert!(matches!(store.list_at("things", "a/", 1_000), Err(PastError::Future { .. })));
}

#[tokio::test]
async fn a_watcher_sees_every_change_after_its_position_in_order() {
    let store = Store::in_memory().unwrap();
    let x = put(&store, "a/x", Expect::Absent, 1).await;
    let mut watcher = store.watch("things", "a/", x.revision).unwrap();
    put(&store, "b/x", Expect::Absent, 7).await;
    let second = put(&store, "a/x", Expect::Revision(x.revision), 2).await;
    let seen = watcher.next(Limit::NONE).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(number(&seen[0].object), 2);
    assert_eq!(number(&seen[0].before.as_ref().unwrap().bytes), 1);
    assert_eq!(watcher.progress(), Some(second.revision));
}

#[tokio::test]
async fn a_watcher_that_is_too_far_behind_gets_an_error() {
    let store = Store::in_memory().unwrap();
    let mut entry = put(&store, "a/x", Expect::Absent, 0).await;
    let mut slow = store.watch("things", "", entry.revision).unwrap();
    for n in 0..9_000 {
        entry = put(&store, "a/x", Expect::Revision(entry.revision), n).await;
    }
    assert!(matches!(slow.next(Limit::NONE).await, Err(PastError::TooOld { .. })));
    assert!(store.watch("things", "", 1).is_err());
    assert!(store.watch("things", "", entry.revision).is_ok());
}

#[tokio::test]
async fn acknowledged_writes_survive_a_restart_and_revisions_continue() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let x = put(&store, "a/x", Expect::Absent, 1).await;
    let y = put(&store, "a/y", Expect::Absent, 2).await;
    let removed = store.write("things", "a/y", Expect::Revision(y.revision), Action::Remove(encode(2))).await.unwrap();
    assert!(matches!(Store::open(directory.path()), Err(DiskError::Locked(_))));
    drop(store);
    let store = reopen(directory.path()).await;
    assert_eq!(store.revision(), removed.revision);
    assert_eq!(store.get("things", "a/x").unwrap().revision, x.revision);
    assert!(store.get("things", "a/y").is_none());
    assert!(store.watch("things", "", removed.revision).is_ok());
}

#[tokio::test]
async fn a_watch_resumes_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let x = put(&store, "a/x", Expect::Absent, 1).await;
    let second = put(&store, "a/x", Expect::Revision(x.revision), 2).await;
    let y = put(&store, "a/y", Expect::Absent, 3).await;
    let third = put(&store, "a/x", Expect::Revision(second.revision), 4).await;
    store.write("things", "a/y", Expect::Revision(y.revision), Action::Remove(encode(5))).await.unwrap();
    store.write("others", "a/y", Expect::Absent, Action::Put(encode(6))).await.unwrap();
    put(&store, "a/y", Expect::Absent, 7).await;
    let seen = async |store: &Store| {
        let changes = store.watch("things", "", x.revision).unwrap().next(Limit::NONE).await.unwrap();
        let before = |change: &Change| change.before.as_ref().map(|entry| (entry.revision, number(&entry.bytes)));
        let all =
            changes.iter().map(|change| (change.revision, number(&change.object), change.removed, before(change)));
        all.collect::<Vec<_>>()
    };
    let before = seen(&store).await;
    assert_eq!(before.len(), 5);
    assert_eq!(before[2], (third.revision, 4, false, Some((second.revision, 2))));
    drop(store);
    let store = reopen(directory.path()).await;
    assert_eq!(seen(&store).await, before);
    let past = store.list_at("things", "", y.revision).unwrap();
    assert_eq!(past.items.iter().map(|(_, entry)| number(&entry.bytes)).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn the_history_on_disk_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let first = put(&store, "a/x", Expect::Absent, 0).await;
    let mut newest = first.clone();
    for n in 1..=900 {
        newest = put(&store, "a/x", Expect::Revision(newest.revision), n).await;
    }
    drop(store);
    let store = reopen(directory.path()).await;
    assert!(matches!(store.watch("things", "", first.revision), Err(PastError::TooOld { .. })));
    let changes = store.watch("things", "", newest.revision - 500).unwrap().next(Limit::NONE).await.unwrap();
    assert_eq!(changes.first().map(|change| change.revision), Some(newest.revision - 499));
    // A large object is not stored twice: the history begins at its change.
    let large = EncodedObject::new(&json!({"metadata": {"name": "x"}, "n": 1, "text": "x".repeat(40_000)})).unwrap();
    let large = store.write("things", "a/x", Expect::Revision(newest.revision), Action::Put(large)).await.unwrap();
    let small = put(&store, "a/x", Expect::Revision(large.revision), 2).await;
    put(&store, "a/y", Expect::Absent, 3).await;
    drop(store);
    let store = reopen(directory.path()).await;
    assert!(matches!(store.watch("things", "", large.revision), Err(PastError::TooOld { .. })));
    assert_eq!(store.watch("things", "", small.revision).unwrap().next(Limit::NONE).await.unwrap().len(), 1);
}

/// The writer thread releases the lock a moment after the last handle is dropped.
async fn reopen(directory: &Path) -> Store {
    for _ in 0..500 {
        match Store::open(directory) {
            Err(DiskError::Locked(_)) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            other => return other.unwrap(),
        }
    }
    panic!("still locked after five seconds");
}

#[test]
fn a_file_that_is_no_database_is_reported_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("objects.db"), vec![7; 8192]).unwrap();
    let error = Store::open(directory.path()).err().unwrap().to_string();
    assert!(error.contains("objects.db"), "{error}");
    assert!(error.contains("move the file away"), "{error}");
}

#[tokio::test]
async fn pages_of_the_past_are_small_and_complete() {
    let store = Store::in_memory().unwrap();
    let mut last = None;
    for (n, key) in [(0, "a/b"), (1, "a/d"), (2, "a/f"), (3, "b/a")] {
        last = Some(put(&store, key, Expect::Absent, n).await);
    }
    let revision = last.unwrap().revision;
    let current = |key: &str| Expect::Revision(store.get("things", key).unwrap().revision);
    put(&store, "a/d", current("a/d"), 10).await;
    put(&store, "a/d", current("a/d"), 11).await;
    store.write("things", "a/f", current("a/f"), Action::Remove(encode(2))).await.unwrap();
    put(&store, "a/c", Expect::Absent, 12).await;
    let size = store.get("things", "a/b").unwrap().bytes.len();
    for limit in [Limit { count: 1, bytes: usize::MAX }, Limit { count: 9, bytes: size }, Limit { count: 9, bytes: 1 }]
    {
        let (mut found, mut after): (Vec<(String, u64)>, Option<Arc<str>>) = (Vec::new(), None);
        loop {
            let Page { items: page, more } = store.page_at("things", "a/", revision, after.as_deref(), limit).unwrap();
            assert_eq!(page.len(), 1, "{limit:?}");
            found.extend(page.iter().map(|(key, entry)| (key.to_string(), number(&entry.bytes))));
            after = page.last().map(|(key, _)| Arc::clone(key));
            if !more {
                break;
            }
        }
        assert_eq!(found, [("a/b".to_owned(), 0), ("a/d".to_owned(), 1), ("a/f".to_owned(), 2)]);
    }
    let mut watcher = store.watch("things", "a/", revision).unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let changes = watcher.next(Limit { count: 9, bytes: 1 }).await.unwrap();
        assert_eq!(changes.len(), 1);
        seen.extend(changes.iter().map(|change| number(&change.object)));
    }
    assert_eq!(seen, [10, 11, 2, 12]);
}
