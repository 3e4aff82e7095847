//! What only the files of earlier versions can suffer.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::TryStreamExt as _;
use kubeopencode_store::{
    Archive, ArchivedLog, Directory, End, Expiry, ExpiryCause, Log, Selection, Store, Stream, read,
};

use crate::{
    archive::{lines, log, numbered, run},
    world::{Cases, World, cases},
};

pub const CASES: Cases = cases![
    a_torn_end_is_counted_never_shown_and_written_over,
    a_log_that_is_only_a_torn_line_is_empty,
    a_log_that_lost_lines_is_not_complete,
    an_unfinished_record_is_none,
    the_names_of_the_files_stay,
    a_store_takes_over_what_the_files_hold,
    a_store_imports_files_that_stay,
];

fn file(base: &Path, log: &Log) -> PathBuf {
    base.join(log.to_string())
}

/// Leaves the beginning of a write behind, as a process does that dies in the middle of it.
fn tear(base: &Path, log: &Log, bytes: &[u8]) {
    OpenOptions::new().append(true).open(file(base, log)).unwrap().write_all(bytes).unwrap();
}

fn open(bytes: u64, torn: u64) -> ArchivedLog {
    ArchivedLog { bytes, left_out: 0, torn, end: None, expired: None }
}

async fn texts(archive: &Directory, log: &Log) -> Vec<String> {
    let archive: Arc<dyn Archive> = Arc::new(archive.clone());
    let lines: Vec<_> = read(archive, log.clone(), Selection::default()).try_collect().await.unwrap();
    lines.into_iter().map(|(_, line)| String::from_utf8(line.text).unwrap()).collect()
}

async fn a_torn_end_is_counted_never_shown_and_written_over(_: World) {
    let base = tempfile::tempdir().unwrap();
    let archive = Directory::open(base.path()).unwrap();
    let log = log("u", 1);
    let kept = lines(0..2);
    let bytes = kept.len() as u64;
    archive.append(&log, 0, kept.clone()).await.unwrap();
    // Longer than one read.
    let torn = [b"2026-01-01T00:00:02Z ".to_vec(), vec![b'x'; 200_000]].concat();
    tear(base.path(), &log, &torn);
    let found = archive.find(&log).await.unwrap().unwrap();
    assert_eq!(found, open(bytes, torn.len() as u64));
    assert!(!found.is_complete());
    assert_eq!(archive.read(&log, 0, 1 << 20).await.unwrap().bytes, kept);
    assert_eq!(texts(&archive, &log).await, ["line 0", "line 1"]);
    archive.append(&log, bytes, lines(2..3)).await.unwrap();
    assert_eq!(texts(&archive, &log).await, ["line 0", "line 1", "line 2"]);
    assert_eq!(archive.find(&log).await.unwrap().unwrap().torn, 0);
}

async fn a_log_that_is_only_a_torn_line_is_empty(_: World) {
    let base = tempfile::tempdir().unwrap();
    let archive = Directory::open(base.path()).unwrap();
    let log = log("u", 1);
    archive.append(&log, 0, Vec::new()).await.unwrap();
    tear(base.path(), &log, b"2026-01-01T00:");
    assert_eq!(archive.find(&log).await.unwrap(), Some(open(0, 14)));
    assert!(texts(&archive, &log).await.is_empty());
}

async fn a_log_that_lost_lines_is_not_complete(_: World) {
    let base = tempfile::tempdir().unwrap();
    let archive = Directory::open(base.path()).unwrap();
    let log = log("u", 1);
    let end = End { complete: true, lines: 2, bytes: lines(0..2).len() as u64, gaps: 0 };
    archive.append(&log, 0, lines(0..2)).await.unwrap();
    archive.close(&log, end).await.unwrap();
    assert!(archive.find(&log).await.unwrap().unwrap().is_complete());
    OpenOptions::new().write(true).open(file(base.path(), &log)).unwrap().set_len(end.bytes - 3).unwrap();
    assert!(!archive.find(&log).await.unwrap().unwrap().is_complete());
    fs::remove_file(file(base.path(), &log)).unwrap();
    assert!(!archive.find(&log).await.unwrap().unwrap().is_complete());
}

async fn an_unfinished_record_is_none(_: World) {
    let base = tempfile::tempdir().unwrap();
    let archive = Directory::open(base.path()).unwrap();
    let run = run("u", 2);
    let draft = base.path().join(run.record()).with_extension("draft");
    fs::create_dir_all(draft.parent().unwrap()).unwrap();
    fs::write(&draft, b"a much longer text than that which is kept").unwrap();
    assert!(archive.records(&run.task).await.unwrap().is_empty());
    assert_eq!(archive.record(&run, b"first".to_vec()).await.unwrap(), b"first");
    assert_eq!(fs::read_dir(draft.parent().unwrap()).unwrap().count(), 1, "no draft is left");
}

async fn the_names_of_the_files_stay(_: World) {
    let base = tempfile::tempdir().unwrap();
    let archive = Directory::open(base.path()).unwrap();
    archive.append(&log("a", 2), 0, lines(0..1)).await.unwrap();
    assert_eq!(fs::read(base.path().join("default/a/k8s-2.log")).unwrap(), lines(0..1));
    archive.remove(&run("a", 1).task).await.unwrap();
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}

async fn a_store_takes_over_what_the_files_hold(_: World) {
    const LIMIT: u64 = 8_000;
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = Directory::open(old.path()).unwrap().with_log_limit(LIMIT);
    // A log whose middle is left out, one that is still written and has records, one that expired.
    let (long, open, expired) = (log("long", 1), log("open", 2), log("expired", 1));
    for batch in 0..20 {
        files.append(&long, u64::from(batch) * 1_300, numbered(batch * 13..(batch + 1) * 13)).await.unwrap();
    }
    let before = texts(&files, &long).await;
    let end = End { complete: true, lines: 1, bytes: 26_000, gaps: 1 };
    files.close(&long, end).await.unwrap();
    files.append(&open, 0, lines(0..3)).await.unwrap();
    tear(old.path(), &open, b"2026-01-01T00:00:03Z torn");
    let records = Log { run: open.run.clone(), stream: Stream::Records };
    files.append(&records, 0, lines(3..5)).await.unwrap();
    files.keep_settings(&open.run, b"settings".to_vec()).await.unwrap();
    files.append(&expired, 0, lines(0..3)).await.unwrap();
    files.record(&expired.run, b"record".to_vec()).await.unwrap();
    let expiry = Expiry { at: "2026-02-01T00:00:00Z".parse().unwrap(), cause: ExpiryCause::Space };
    files.expire(&expired.run, expiry, None).await.unwrap();
    let found = files.find(&long).await.unwrap();

    let store = Store::directory(new.path()).unwrap().with_log_limit(LIMIT);
    // An earlier attempt was interrupted.
    store.append(&open, 0, lines(0..1)).await.unwrap();
    assert_eq!(store.take_over(&files).await.unwrap(), 3);
    assert_eq!(store.take_over(&files).await.unwrap(), 0);
    assert_eq!(fs::read_dir(old.path()).unwrap().count(), 0);
    assert_eq!(store.find(&long).await.unwrap(), found);
    let archive: Arc<dyn Archive> = Arc::new(store.clone());
    let after: Vec<_> = read(archive, long, Selection::default()).try_collect().await.unwrap();
    let after: Vec<_> = after.into_iter().map(|(_, line)| String::from_utf8(line.text).unwrap()).collect();
    assert_eq!(after, before);
    let rest = store.read(&open, 0, 1 << 20).await.unwrap().bytes;
    assert_eq!(rest, lines(0..3), "without the torn line");
    store.append(&open, rest.len() as u64, lines(3..4)).await.unwrap();
    assert_eq!(store.read(&records, 0, 1 << 20).await.unwrap().bytes, lines(3..5));
    assert_eq!(store.settings(&open.run).await.unwrap().as_deref(), Some(&b"settings"[..]));
    assert_eq!(store.find(&expired).await.unwrap().unwrap().expired, Some(expiry));
    assert_eq!(store.records(&expired.run.task).await.unwrap()[&1], b"record");
}

async fn a_store_imports_files_that_stay(_: World) {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = Directory::open(old.path()).unwrap();
    for batch in 0..20 {
        files.append(&log("long", 1), u64::from(batch) * 1_300, numbered(batch * 13..(batch + 1) * 13)).await.unwrap();
    }
    files.record(&run("record", 3), b"record".to_vec()).await.unwrap();
    let store = Store::directory(new.path()).unwrap().with_log_limit(8_000);
    store.append(&log("own", 1), 0, lines(0..1)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.import_files(&files).await.unwrap(), 2);
        assert_eq!(texts(&files, &log("long", 1)).await.len(), 260);
        let found = store.find(&log("long", 1)).await.unwrap().unwrap();
        assert_eq!((found.bytes, found.left_out), (26_000, 0));
        assert_eq!(store.records(&run("record", 3).task).await.unwrap()[&3], b"record");
        let mut copied = store.copied().await.unwrap();
        copied.sort();
        assert_eq!(copied, [run("long", 1).task, run("record", 3).task]);
    }
}
