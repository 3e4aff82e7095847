//! Back ends and writers that die.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use kubeopencode_store::{Archive as _, Collected, End, Error, Log, NewArtifact, Published, PutError, Store};
use testenv::{Bucket, Postgres};

use crate::{
    archive::{lines, log, numbered, run},
    proxy::{Manner, Proxy},
    streams::{AT_ONCE, content, get, put},
    world::{Cases, World, bucket_url, cases},
};

pub const CASES: Cases = cases![a_new_store_is_opened_by_several_at_once, a_newer_schema_is_refused];

/// Cases of one pair of back ends.
pub const SQLITE: Cases =
    cases![a_killed_writer_loses_nothing_that_was_acknowledged, a_full_disk_loses_nothing_that_was_acknowledged];
pub const SERVERS: Cases = cases![
    while_postgres_is_down_writes_fail_and_then_continue,
    while_the_bucket_is_down_logs_go_on,
    slow_back_ends_take_time_and_nothing_else,
    a_bucket_that_is_in_trouble_is_asked_again,
    what_a_full_bucket_refuses_is_not_there,
];

/// Names the store of a process that appends until it is killed.
pub const WRITER: &str = "KUBEOPENCODE_TEST_WRITER";
/// Names the full disk of a process that fills it.
pub const FULL: &str = "KUBEOPENCODE_TEST_FULL_DISK";
const LIMIT: Duration = Duration::from_mins(1);
/// Bytes of the disk that is filled.
const DISK: usize = 24 << 20;

async fn a_new_store_is_opened_by_several_at_once(world: World) {
    let (_, place) = world.store().await;
    let opened = futures::future::join_all((0..6).map(|_| place.store())).await;
    for (epoch, store) in (0..).zip(opened) {
        store.unwrap().append(&log("u", epoch), 0, lines(0..1)).await.unwrap();
    }
}

async fn a_newer_schema_is_refused(world: World) {
    let (_store, place) = world.store().await;
    place.pretend_newer_schema().await;
    let refusal = place.try_store().await.unwrap_err().to_string();
    assert!(refusal.contains("version 1000") && refusal.contains("a newer one"), "{refusal}");
}

async fn a_killed_writer_loses_nothing_that_was_acknowledged(_: World) {
    let base = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let mut writer = Command::new(std::env::current_exe().unwrap());
        let mut writer = writer.env(WRITER, base.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut acknowledged = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut last = 0;
        for _ in 0..(10 + round * 7) {
            last = acknowledged.next().unwrap().unwrap().parse().unwrap();
        }
        writer.kill().unwrap();
        // What it printed before it died counts too.
        last = acknowledged.map_while(Result::ok).filter_map(|line| line.parse().ok()).last().unwrap_or(last);
        writer.wait().unwrap();
        let store = Store::directory(base.path()).unwrap();
        let found = store.find(&log("u", 1)).await.unwrap().unwrap().bytes;
        assert!(found >= last, "{found} of {last} bytes");
        assert_eq!(found % 100, 0, "lines are whole");
        assert_eq!(whole(&store, &log("u", 1)).await, numbered(0..u32::try_from(found / 100).unwrap()));
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    }
}

/// The process of the case above: appends to the log where it ends, and prints the length that is acknowledged.
#[expect(clippy::print_stdout, reason = "read by the case")]
pub async fn write_until_killed(base: &Path) {
    // Small segments, so that lines move to blobs all the time.
    let store = Store::directory(base).unwrap().with_log_limit(1 << 20);
    let log = log("u", 1);
    let mut at = store.find(&log).await.unwrap().map_or(0, |found| found.bytes);
    while at < 900_000 {
        let first = u32::try_from(at / 100).unwrap();
        store.append(&log, at, numbered(first..first + 30)).await.unwrap();
        at += 3_000;
        println!("{at}");
    }
    std::future::pending::<()>().await;
}

async fn whole(store: &Store, log: &Log) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let chunk = store.read(log, all.len() as u64, 1 << 20).await.unwrap();
        if chunk.bytes.is_empty() {
            return all;
        }
        all.extend(chunk.bytes);
    }
}

async fn while_postgres_is_down_writes_fail_and_then_continue(_: World) {
    let mut server = Postgres::start().await.unwrap();
    let blobs = tempfile::tempdir().unwrap();
    let url = server.database("case").unwrap();
    let store = Store::open(&url, blobs.path().to_str().unwrap()).await.unwrap();
    let log = log("u", 1);
    let mut at = 0;
    for round in 0..3 {
        let next = numbered(round * 10..round * 10 + 10);
        store.append(&log, at, next.clone()).await.unwrap();
        at += next.len() as u64;
        server.kill();
        let refused = store.append(&log, at, next).await;
        assert!(matches!(refused, Err(Error::Database(_))), "{refused:?}");
        assert!(store.find(&log).await.is_err());
        server.start_again().await.unwrap();
        assert_eq!(store.find(&log).await.unwrap().unwrap().bytes, at);
    }
    assert_eq!(whole(&store, &log).await, numbered(0..30));
}

async fn while_the_bucket_is_down_logs_go_on(_: World) {
    let (database, mut bucket) = (Postgres::start().await.unwrap(), Bucket::start().await.unwrap());
    let url = database.database("case").unwrap();
    let store = Store::open(&url, &bucket_url(&bucket, "case")).await.unwrap().with_log_limit(80_000);
    let log = log("u", 1);
    store.append(&log, 0, numbered(0..150)).await.unwrap();
    bucket.kill();
    // More than a segment: it stays in the database.
    let appended = tokio::time::timeout(LIMIT, store.append(&log, 15_000, numbered(150..300))).await;
    appended.unwrap().unwrap();
    let end = End { complete: true, lines: 300, bytes: 30_000, gaps: 0 };
    tokio::time::timeout(LIMIT, store.close(&log, end)).await.unwrap().unwrap();
    bucket.start_again().await.unwrap();
    assert_eq!(whole(&store, &log).await, numbered(0..300));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// On a file system of its own, in a mount namespace of its own.
async fn a_full_disk_loses_nothing_that_was_acknowledged(_: World) {
    let disk = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size={DISK} none '{}' && exec \"$0\"", disk.path().display());
    let mut writer = Command::new("unshare");
    writer.args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount]).arg(std::env::current_exe().unwrap());
    let output = tokio::task::spawn_blocking(move || writer.env(FULL, disk.path()).output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The process of the case above.
pub async fn fill_disk(disk: &Path) {
    let store = Store::directory(&disk.join("store")).unwrap().with_log_limit(1 << 20);
    let log = log("u", 1);
    store.append(&log, 0, numbered(0..50)).await.unwrap();
    let kept = content(1 << 20, 1);
    let stored = put(&store, kept.clone()).await;
    let artifact = |digest, bytes| NewArtifact {
        name: "dist".into(),
        digest,
        bytes,
        files: 1,
        manifest: b"{}".to_vec(),
        expires: None,
    };
    let published = store.publish(&run("u", 1), artifact(stored.digest.clone(), stored.bytes)).await;
    assert_eq!(published.unwrap(), Published::New);

    // More than there is room for, as a file of several parts and then as many files of one part.
    let large = stream::iter((0..8).map(|seed| Ok(Bytes::from(content(4 << 20, seed)))));
    let failed = store.put_stream(large, u64::MAX).await.unwrap_err();
    assert!(matches!(failed, PutError::Store(Error::Blobs(_))), "{failed:?}");
    let filler = disk.join("filler");
    let full = std::fs::write(&filler, vec![1; DISK]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let refused = store.append(&log, 5_000, numbered(50..3_000)).await;
    assert!(matches!(refused, Err(Error::Database(_))), "{refused:?}");
    let failed = store.put_stream(stream::iter([Ok(Bytes::from(content(1 << 20, 9)))]), u64::MAX).await;
    assert!(matches!(failed, Err(PutError::Store(_))), "{failed:?}");
    assert_eq!(whole(&store, &log).await, numbered(0..50));
    assert!(get(&store, &stored.digest).await == kept);

    std::fs::remove_file(filler).unwrap();
    store.append(&log, 5_000, numbered(50..3_000)).await.unwrap();
    assert_eq!(whole(&store, &log).await, numbered(0..3_000));
    assert!(get(&store, &stored.digest).await == kept);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    put(&store, content(12 << 20, 9)).await;
    // What the failures left is gone, or goes now.
    store.collect(AT_ONCE).await.unwrap();
    store.collect_unrecorded(AT_ONCE).await.unwrap();
    let left = std::fs::read_dir(disk.join("store/blobs/streams")).unwrap().flatten();
    assert_eq!(left.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).count(), 0);
    assert!(get(&store, &stored.digest).await == kept);
}

/// Both back ends behind proxies.
struct Behind {
    store: Store,
    database: Proxy,
    bucket: Proxy,
    _servers: (Postgres, Bucket),
}

impl Behind {
    async fn start() -> Self {
        let (postgres, server) = (Postgres::start().await.unwrap(), Bucket::start().await.unwrap());
        let url = postgres.database("case").unwrap();
        let address = |url: &str| url.rsplit(['/', '@']).find_map(|part| part.parse().ok()).unwrap();
        let (database, bucket) = (Proxy::start(address(&url)).await, Proxy::start(address(&server.endpoint())).await);
        let records = url.replace(&address(&url).to_string(), &database.address.to_string());
        let blobs = bucket_url(&server, "case").replace(&server.endpoint(), &format!("http://{}", bucket.address));
        let store = Store::open(&records, &blobs).await.unwrap().with_log_limit(80_000);
        Self { store, database, bucket, _servers: (postgres, server) }
    }
}

async fn slow_back_ends_take_time_and_nothing_else(_: World) {
    let Behind { store, database, bucket, _servers } = Behind::start().await;
    database.set(Manner::Slow);
    bucket.set(Manner::Slow);
    let log = log("u", 1);
    for at in 0..30 {
        store.append(&log, u64::from(at) * 1_000, numbered(at * 10..at * 10 + 10)).await.unwrap();
    }
    store.close(&log, End { complete: true, lines: 300, bytes: 30_000, gaps: 0 }).await.unwrap();
    assert_eq!(whole(&store, &log).await, numbered(0..300));
    let bytes = content((8 << 20) + 3, 3);
    let stored = put(&store, bytes.clone()).await;
    assert!(get(&store, &stored.digest).await == bytes);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.collect(AT_ONCE).await.unwrap().blobs, 1);
}

async fn a_bucket_that_is_in_trouble_is_asked_again(_: World) {
    let Behind { store, bucket, database: _database, _servers } = Behind::start().await;
    for (answer, length) in [("500 Internal Server Error", 1000), ("503 Slow Down", (8 << 20) + 3)] {
        let before = bucket.answered();
        bucket.set(Manner::Answer(answer));
        let bytes = content(length, 4);
        let recovered = async {
            while bucket.answered() < before + 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            bucket.set(Manner::Through);
        };
        let (stored, ()) = futures::join!(put(&store, bytes.clone()), recovered);
        assert!(get(&store, &stored.digest).await == bytes, "{answer}");
    }
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

async fn what_a_full_bucket_refuses_is_not_there(_: World) {
    let Behind { store, bucket, database: _database, _servers } = Behind::start().await;
    let log = log("u", 1);
    store.append(&log, 0, numbered(0..50)).await.unwrap();
    let before = put(&store, content(1000, 5)).await;
    // As a bucket with a quota does it.
    bucket.set(Manner::Answer("403 Forbidden"));
    for length in [1000, (8 << 20) + 3] {
        let bytes = content(length, 6);
        let source = stream::iter([Ok(Bytes::from(bytes.clone()))]);
        let failed = tokio::time::timeout(LIMIT, store.put_stream(source, u64::MAX)).await.unwrap();
        assert!(matches!(failed, Err(PutError::Store(Error::Blobs(_)))), "{failed:?}");
        let missing = store.read_blob(&kubeopencode_store::Digest::of(&bytes), 0..1).await.err();
        assert!(matches!(missing, Some(Error::NoBlob(_))), "{missing:?}");
    }
    // More than a segment: it stays in the database.
    store.append(&log, 5_000, numbered(50..300)).await.unwrap();
    bucket.set(Manner::Through);
    assert_eq!(whole(&store, &log).await, numbered(0..300));
    assert!(get(&store, &before.digest).await == content(1000, 5));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.collect(AT_ONCE).await.unwrap();
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected::default());
    put(&store, content((8 << 20) + 3, 6)).await;
}
