//! Back ends and writers that die.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use kubeopencode_store::{Archive as _, End, Error, Log, Store};
use testenv::{Bucket, Postgres};

use crate::{
    archive::{lines, log, numbered},
    world::{Cases, World, bucket_url, cases},
};

pub const CASES: Cases = cases![a_new_store_is_opened_by_several_at_once, a_newer_schema_is_refused];

/// Cases of one pair of back ends.
pub const SQLITE: Cases = cases![a_killed_writer_loses_nothing_that_was_acknowledged];
pub const SERVERS: Cases =
    cases![while_postgres_is_down_writes_fail_and_then_continue, while_the_bucket_is_down_logs_go_on];

/// Names the store of a process that appends until it is killed.
pub const WRITER: &str = "KUBEOPENCODE_TEST_WRITER";
const LIMIT: Duration = Duration::from_mins(1);

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
