//! Blobs: which are removed, which never, and how damage is found.

use jiff::SignedDuration;
use kubeopencode_store::{Archive as _, Collected, End, Owner, Run, Store};

use crate::{
    archive::{lines, log, numbered, run},
    world::{Cases, World, cases},
};

pub const CASES: Cases = cases![
    the_lines_of_a_closed_log_are_a_blob,
    only_what_nothing_names_is_removed,
    objects_without_a_record_are_removed_when_they_are_old,
    a_check_finds_blobs_that_are_gone_or_changed,
    logs_with_the_same_lines_share_a_blob,
    a_collection_beside_writers_removes_nothing_that_they_use,
];

/// Cases in which files cannot be written.
pub const DIRECTORIES: Cases = cases![lines_that_could_not_be_moved_are_moved_by_a_cleaning];

async fn closed(store: &Store, uid: &str, bytes: Vec<u8>) {
    let end = End { complete: true, lines: 1, bytes: bytes.len() as u64, gaps: 0 };
    store.append(&log(uid, 1), 0, bytes).await.unwrap();
    store.close(&log(uid, 1), end).await.unwrap();
}

async fn the_lines_of_a_closed_log_are_a_blob(world: World) {
    let (store, place) = world.store().await;
    store.append(&log("u", 1), 0, lines(0..3)).await.unwrap();
    assert!(place.blobs().await.is_empty());
    store.close(&log("u", 1), End { complete: true, lines: 3, bytes: 0, gaps: 0 }).await.unwrap();
    let files = place.blobs().await;
    assert_eq!(files.len(), 1);
    assert_eq!(std::fs::read(&files[0]).unwrap(), lines(0..3));
    assert_eq!(store.read(&log("u", 1), 0, 1 << 20).await.unwrap().bytes, lines(0..3));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

async fn only_what_nothing_names_is_removed(world: World) {
    let (store, place) = world.store().await;
    for (uid, seconds) in [("a", 0..1), ("b", 1..3), ("c", 3..6)] {
        closed(&store, uid, lines(seconds)).await;
    }
    assert_eq!(store.collect(SignedDuration::ZERO).await.unwrap(), Collected::default());
    store.remove(&run("b", 1).task).await.unwrap();
    // A writer that names it again has this long.
    assert_eq!(store.collect(kubeopencode_store::GRACE).await.unwrap(), Collected::default());
    // In the future the claim is old.
    let removed = Collected { blobs: 1, bytes: lines(1..3).len() as u64, uploads: 0 };
    assert_eq!(store.collect(SignedDuration::from_secs(-60)).await.unwrap(), removed);
    assert_eq!(store.collect(SignedDuration::from_secs(-60)).await.unwrap(), Collected::default());
    assert_eq!(place.blobs().await.len(), 2);
    assert_eq!(store.read(&log("c", 1), 0, 1 << 20).await.unwrap().bytes, lines(3..6));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

async fn objects_without_a_record_are_removed_when_they_are_old(world: World) {
    let (store, place) = world.store().await;
    closed(&store, "a", lines(0..1)).await;
    let kept = place.blobs().await.remove(0);
    // As a writer leaves it that died before its blob was recorded.
    std::fs::copy(&kept, kept.with_file_name(format!("{}-0000000000000000", "0".repeat(64)))).unwrap();
    assert_eq!(store.collect_unrecorded(kubeopencode_store::GRACE).await.unwrap(), Collected::default());
    let removed = store.collect_unrecorded(SignedDuration::from_secs(-60)).await.unwrap();
    assert_eq!(removed, Collected { blobs: 1, bytes: lines(0..1).len() as u64, uploads: 0 });
    assert_eq!(place.blobs().await, std::slice::from_ref(&kept));

    // The first cleaning of a process removes what is older than a day.
    for (number, age) in [(1, 0), (2, 48)] {
        let left = kept.with_file_name(format!("{}-{number:016}", "0".repeat(64)));
        std::fs::copy(&kept, &left).unwrap();
        let changed = std::time::SystemTime::now() - std::time::Duration::from_hours(age);
        std::fs::File::options().append(true).open(&left).unwrap().set_modified(changed).unwrap();
    }
    place.store().await.unwrap().clean().await.unwrap();
    assert_eq!(place.blobs().await.len(), 2);
}

async fn a_check_finds_blobs_that_are_gone_or_changed(world: World) {
    let (store, place) = world.store().await;
    for (uid, seconds) in [("a", 0..1), ("b", 1..3), ("c", 3..6)] {
        closed(&store, uid, lines(seconds)).await;
    }
    let files = place.blobs().await;
    let damaged = |file: &std::path::PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read(&files[0]).unwrap();
    std::fs::write(&files[0], text.to_ascii_uppercase()).unwrap();
    std::fs::write(&files[1], b"short").unwrap();
    std::fs::remove_file(&files[2]).unwrap();
    let wrong = store.check().await.unwrap();
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    for (file, expected) in files.iter().zip(["does not have the bytes", "has 5 bytes", "cannot be read"]) {
        let sentence = wrong.iter().find(|sentence| sentence.contains(&damaged(file))).unwrap();
        assert!(sentence.contains(expected), "{sentence}");
    }
    // A reader gets an error instead of fewer lines.
    let mut failures = 0;
    for uid in ["a", "b", "c"] {
        failures += u32::from(store.read(&log(uid, 1), 0, 1 << 20).await.is_err());
    }
    assert!(failures >= 1);
}

async fn logs_with_the_same_lines_share_a_blob(world: World) {
    let (store, place) = world.store().await;
    closed(&store, "a", lines(0..2)).await;
    closed(&store, "b", lines(0..2)).await;
    assert_eq!(place.blobs().await.len(), 1);
    store.remove(&run("a", 1).task).await.unwrap();
    store.collect(SignedDuration::from_secs(-60)).await.unwrap();
    assert_eq!(store.read(&log("b", 1), 0, 1 << 20).await.unwrap().bytes, lines(0..2));
}

/// Writers claim the same few blobs again and again, while all that are not in use are removed at once.
async fn a_collection_beside_writers_removes_nothing_that_they_use(world: World) {
    let (store, _place) = world.store().await;
    let writer = |number: u32| {
        let store = store.clone();
        async move {
            for round in 0..6 {
                let uid = format!("w{number}-{round}");
                closed(&store, &uid, numbered(round..round + 1)).await;
                if round % 2 == 0 {
                    store.remove(&Owner::new("default", &uid).unwrap()).await.unwrap();
                }
            }
        }
    };
    let collector = async {
        for _ in 0..20 {
            store.collect(SignedDuration::from_secs(-60)).await.unwrap();
            store.collect_unrecorded(SignedDuration::from_secs(60)).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    futures::join!(futures::future::join_all((0..4).map(writer)), collector);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    for number in 0..4 {
        for round in [1, 3, 5] {
            let task = Owner::new("default", &format!("w{number}-{round}")).unwrap();
            let found = store.read(&Run { task, epoch: 1 }.log(), 0, 1 << 20).await.unwrap().bytes;
            assert_eq!(found, numbered(round..round + 1));
        }
    }
}

async fn lines_that_could_not_be_moved_are_moved_by_a_cleaning(world: World) {
    let (store, place) = world.store().await;
    let (_, url) = place.urls().await;
    let in_the_way = std::path::Path::new(url.trim_start_matches("file://")).join("sha256");
    std::fs::write(&in_the_way, "").unwrap();
    closed(&store, "a", lines(0..3)).await;
    closed(&store, "b", lines(3..6)).await;
    assert_eq!(store.read(&log("a", 1), 0, 1 << 20).await.unwrap().bytes, lines(0..3));
    std::fs::remove_file(&in_the_way).unwrap();
    assert!(place.blobs().await.is_empty());
    store.clean().await.unwrap();
    assert_eq!(place.blobs().await.len(), 2);
    assert_eq!(store.read(&log("a", 1), 0, 1 << 20).await.unwrap().bytes, lines(0..3));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
