//! Copies of whole stores.

use std::sync::Arc;

use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use kubeopencode_store::{
    Archive, CacheScope, End, Expiry, ExpiryCause, Exported, Log, NewArtifact, NewCache, Published, Run, Selection,
    Store, Stream, read,
};

use crate::{
    archive::{lines, log, numbered, run},
    results::{artifact, publish},
    streams::{content, get, put},
    world::{Cases, World, cases},
};

pub const CASES: Cases = cases![
    everything_is_exported_and_a_second_export_changes_nothing,
    a_store_in_use_is_exported_bit_by_bit,
    what_is_damaged_is_named_and_left_out,
    a_log_that_is_longer_than_the_limit_of_the_other_store_is_copied_whole,
];

/// Cases in which a file cannot be read.
pub const DIRECTORIES: Cases = cases![a_blob_that_cannot_be_read_does_not_stop_the_others];

const LIMIT: u64 = 8_000;

/// Runs with everything that a store keeps.
async fn filled(store: &Store) {
    let long = log("long", 1);
    for batch in 0..20 {
        store.append(&long, u64::from(batch) * 1_300, numbered(batch * 13..(batch + 1) * 13)).await.unwrap();
    }
    store.close(&long, End { complete: true, lines: 1, bytes: 26_000, gaps: 1 }).await.unwrap();
    store.append(&log("open", 2), 0, lines(0..3)).await.unwrap();
    let records = Log { run: run("open", 2), stream: Stream::Records };
    store.append(&records, 0, lines(3..5)).await.unwrap();
    store.keep_settings(&run("open", 2), b"settings".to_vec()).await.unwrap();
    let gone = run("gone", 1);
    store.append(&gone.log(), 0, lines(0..3)).await.unwrap();
    store.record(&gone, b"before".to_vec()).await.unwrap();
    let expiry = Expiry { at: "2026-02-01T00:00:00Z".parse().unwrap(), cause: ExpiryCause::Space };
    store.expire(&gone, expiry, Some(b"after".to_vec())).await.unwrap();

    let full = run("full", 3);
    assert_eq!(publish(store, &full, "dist", content(9 << 20, 1)).await, Published::New);
    let stored = put(store, content(50, 2)).await;
    let old = NewArtifact { expires: Some(Timestamp::UNIX_EPOCH), ..artifact("old", &stored) };
    assert_eq!(store.publish(&full, old).await.unwrap(), Published::New);
    assert_eq!(store.expire_artifacts(Timestamp::now()).await.unwrap().len(), 1);
    let patch = put(store, content(60, 3)).await;
    store.publish_patch(&full, patch.digest, 60).await.unwrap();
    store.put_outputs(&full, b"{\"a\":\"b\"}".to_vec()).await.unwrap();
    store.record(&full, b"record".to_vec()).await.unwrap();
    store.record_approval(&full, "a", b"answer".to_vec()).await.unwrap();
    store.record_approval(&full, "b", b"another".to_vec()).await.unwrap();
    store.confirm_approval(&full, "a").await.unwrap();
    let stored = put(store, content(70, 4)).await;
    let cache = NewCache { key: "k1".to_owned(), digest: stored.digest, bytes: 70, files: 1, manifest: b"{}".to_vec() };
    assert_eq!(store.put_cache(&cache_scope(), "npm", cache).await.unwrap(), Published::New);
}

fn cache_scope() -> CacheScope {
    CacheScope { namespace: "default".to_owned(), scope: "agent/a".to_owned() }
}

async fn texts(store: &Store, log: &Log) -> Vec<String> {
    let archive: Arc<dyn Archive> = Arc::new(store.clone());
    let lines: Vec<_> = read(archive, log.clone(), Selection::default()).try_collect().await.unwrap();
    lines.into_iter().map(|(_, line)| String::from_utf8(line.text).unwrap()).collect()
}

/// Asserts that two stores hold the same.
async fn same(one: &Store, other: &Store) {
    let runs = one.runs(None, None, 1000).await.unwrap();
    assert_eq!(other.runs(None, None, 1000).await.unwrap(), runs);
    assert!(!runs.is_empty());
    for listed in runs {
        let run = listed.run;
        assert_eq!(other.settings(&run).await.unwrap(), one.settings(&run).await.unwrap());
        assert_eq!(other.approvals(&run.task).await.unwrap(), one.approvals(&run.task).await.unwrap());
        let results = one.results(&run).await.unwrap();
        assert_eq!(other.results(&run).await.unwrap(), results);
        for artifact in results.artifacts {
            let name = &artifact.name;
            assert_eq!(other.manifest(&run, name).await.unwrap(), one.manifest(&run, name).await.unwrap());
            if artifact.expired.is_none() {
                assert!(get(other, &artifact.digest).await == get(one, &artifact.digest).await, "{name}");
            }
        }
        if let Some(patch) = results.patch {
            assert_eq!(get(other, &patch.digest).await, get(one, &patch.digest).await);
        }
        for stream in [Stream::Text, Stream::Records] {
            let log = Log { run: run.clone(), stream };
            assert_eq!(other.find(&log).await.unwrap(), one.find(&log).await.unwrap(), "{log}");
            assert_eq!(texts(other, &log).await, texts(one, &log).await, "{log}");
        }
    }
    assert_eq!(other.cache_scopes().await.unwrap(), one.cache_scopes().await.unwrap());
    assert_eq!(other.check().await.unwrap(), Vec::<String>::new());
}

async fn everything_is_exported_and_a_second_export_changes_nothing(world: World) {
    let (store, _place) = world.store().await;
    let store = store.with_log_limit(LIMIT);
    filled(&store).await;
    let backup = tempfile::tempdir().unwrap();
    let backup = Store::directory(backup.path()).unwrap().with_log_limit(LIMIT);
    let exported = store.export(&backup).await.unwrap();
    let bytes = exported.bytes;
    let expected = Exported { runs: 4, logs: 3, artifacts: 3, caches: 1, bytes, damaged: Vec::new() };
    assert_eq!(exported, expected);
    assert!(bytes > 9 << 20, "{bytes}");
    same(&store, &backup).await;
    assert_eq!(store.export(&backup).await.unwrap(), Exported::default());

    // And back, into an empty store of the same kind.
    let (restored, _place) = world.store().await;
    let restored = restored.with_log_limit(LIMIT);
    assert_eq!(backup.export(&restored).await.unwrap(), expected);
    same(&store, &restored).await;
    let hit = restored.find_cache(&cache_scope(), "npm", "k2", &["k".to_owned()]).await.unwrap().unwrap();
    assert_eq!(get(&restored, &hit.digest).await, content(70, 4));
    assert_eq!(restored.export(&store).await.unwrap(), Exported::default());

    // What happens later is exported later: lines, an end, a record, an expiry.
    let open = log("open", 2);
    store.append(&open, lines(0..3).len() as u64, lines(3..9)).await.unwrap();
    store.close(&open, End { complete: true, lines: 9, bytes: lines(0..9).len() as u64, gaps: 0 }).await.unwrap();
    store.record(&open.run, b"late".to_vec()).await.unwrap();
    let limits = kubeopencode_store::Limits { age: Some(SignedDuration::ZERO), ..Default::default() };
    let expired = store.limit_artifacts("default", limits, Timestamp::now() + SignedDuration::from_secs(1)).await;
    assert_eq!(expired.unwrap().len(), 2);
    let expiry = Expiry { at: "2026-03-01T00:00:00Z".parse().unwrap(), cause: ExpiryCause::Age };
    store.expire(&run("long", 1), expiry, Some(b"expired".to_vec())).await.unwrap();
    let later = store.export(&backup).await.unwrap();
    assert_eq!((later.runs, later.logs, later.artifacts, later.bytes), (3, 1, 2, 0));
    same(&store, &backup).await;
    assert_eq!(store.export(&backup).await.unwrap(), Exported::default());
}

async fn a_store_in_use_is_exported_bit_by_bit(world: World) {
    let (store, _place) = world.store().await;
    let backup = tempfile::tempdir().unwrap();
    let backup = Store::directory(backup.path()).unwrap();
    let writer = |number: u32| {
        let store = store.clone();
        async move {
            let run = run(&format!("w{number}"), 1);
            let mut at = 0;
            for round in 0..10 {
                let next = numbered(round * 10..round * 10 + 10);
                store.append(&run.log(), at, next.clone()).await.unwrap();
                at += next.len() as u64;
                let name = format!("a{round}");
                assert_eq!(publish(&store, &run, &name, content(100, round + number)).await, Published::New);
            }
            store.close(&run.log(), End { complete: true, lines: 100, bytes: at, gaps: 0 }).await.unwrap();
            store.record(&run, b"record".to_vec()).await.unwrap();
            if number == 0 {
                store.remove(&run.task).await.unwrap();
            }
        }
    };
    let exporter = async {
        for _ in 0..5 {
            let exported = store.export(&backup).await.unwrap();
            assert_eq!(exported.damaged, Vec::<String>::new());
            assert_eq!(backup.check().await.unwrap(), Vec::<String>::new());
        }
    };
    futures::join!(futures::future::join_all((0..4).map(writer)), exporter);
    store.export(&backup).await.unwrap();
    // What was removed here is not removed there.
    backup.remove(&run("w0", 1).task).await.unwrap();
    same(&store, &backup).await;
    assert_eq!(store.export(&backup).await.unwrap(), Exported::default());
}

async fn what_is_damaged_is_named_and_left_out(world: World) {
    let (store, place) = world.store().await;
    let runs: Vec<Run> = ["a", "b", "c"].map(|uid| run(uid, 1)).into();
    let mut published = Vec::new();
    for (run, seed) in runs.iter().zip(1..) {
        assert_eq!(publish(&store, run, "dist", content(9_000, seed)).await, Published::New);
        published.push(store.artifact(run, "dist").await.unwrap().unwrap().digest);
    }
    store.append(&log("d", 1), 0, lines(0..3)).await.unwrap();
    store.close(&log("d", 1), End { complete: true, lines: 3, bytes: 9, gaps: 0 }).await.unwrap();
    let files = place.blobs().await;
    let of = |bytes: &[u8]| files.iter().find(|file| std::fs::read(file).unwrap() == bytes).unwrap();
    let (changed, lost, of_log) = (of(&content(9_000, 1)), of(&content(9_000, 2)), of(&lines(0..3)));
    std::fs::write(changed, content(9_000, 9)).unwrap();
    std::fs::remove_file(lost).unwrap();
    std::fs::write(of_log, lines(0..3).to_ascii_uppercase()).unwrap();
    let backup = tempfile::tempdir().unwrap();
    let backup = Store::directory(backup.path()).unwrap();
    let exported = store.export(&backup).await.unwrap();
    assert_eq!(exported.damaged.len(), 3, "{exported:?}");
    for what in ["artifact dist of default/a/", "artifact dist of default/b/", "log default/d/"] {
        assert!(exported.damaged.iter().any(|sentence| sentence.contains(what)), "{what}: {exported:?}");
    }
    assert_eq!((exported.artifacts, exported.logs), (1, 0));
    assert_eq!(get(&backup, &published[2]).await, content(9_000, 3));
    assert_eq!(backup.check().await.unwrap(), Vec::<String>::new());
    // Once the bytes are back, the rest follows.
    std::fs::write(changed, content(9_000, 1)).unwrap();
    std::fs::write(lost, content(9_000, 2)).unwrap();
    std::fs::write(of_log, lines(0..3)).unwrap();
    let rest = store.export(&backup).await.unwrap();
    assert_eq!((rest.artifacts, rest.logs, rest.damaged), (2, 1, Vec::new()));
    same(&store, &backup).await;
}

async fn a_log_that_is_longer_than_the_limit_of_the_other_store_is_copied_whole(world: World) {
    let (store, _place) = world.store().await;
    let store = store.with_log_limit(u64::MAX);
    for batch in 0..20 {
        store.append(&log("long", 1), u64::from(batch) * 1_300, numbered(batch * 13..(batch + 1) * 13)).await.unwrap();
    }
    let (other, _place) = world.store().await;
    let other = other.with_log_limit(LIMIT);
    store.export(&other).await.unwrap();
    let found = other.find(&log("long", 1)).await.unwrap().unwrap();
    assert_eq!((found.bytes, found.left_out), (26_000, 0));
    same(&store, &other).await;
}

async fn a_blob_that_cannot_be_read_does_not_stop_the_others(world: World) {
    let (store, place) = world.store().await;
    for (uid, seed) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(publish(&store, &run(uid, 1), "dist", content(9_000, seed)).await, Published::New);
    }
    store.append(&log("b", 1), 0, lines(0..3)).await.unwrap();
    store.close(&log("b", 1), End { complete: true, lines: 3, bytes: 9, gaps: 0 }).await.unwrap();
    // The operating system opens no link to itself.
    for file in place.blobs().await {
        let bytes = std::fs::read(&file).unwrap();
        if bytes == content(9_000, 1) || bytes == lines(0..3) {
            std::fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink(&file, &file).unwrap();
        }
    }
    let backup = tempfile::tempdir().unwrap();
    let backup = Store::directory(backup.path()).unwrap();
    let exported = store.export(&backup).await.unwrap();
    assert_eq!((exported.artifacts, exported.logs, exported.damaged.len()), (2, 0, 2), "{exported:?}");
    assert!(exported.damaged.iter().all(|sentence| sentence.contains("cannot be read")), "{exported:?}");
    assert_eq!(backup.check().await.unwrap(), Vec::<String>::new());
}
