//! Blobs that come as streams: whole or not at all, whatever happens in the middle.

use std::{
    fs, io,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use jiff::SignedDuration;
use kubeopencode_store::{Collected, Digest, Error, GRACE, PutError, Store, Stored};
use testenv::{Bucket, Postgres};
use tokio::sync::oneshot;

use crate::world::{Cases, World, bucket_url, cases};

pub const CASES: Cases = cases![
    a_stream_of_any_length_is_stored_and_read_again,
    any_part_of_a_blob_can_be_read,
    the_same_bytes_are_stored_once,
    a_stream_that_fails_or_is_too_long_leaves_nothing,
    a_stream_that_is_given_up_leaves_nothing,
    what_a_killed_writer_left_is_collected,
    an_object_that_was_lost_comes_back_with_its_bytes,
    a_store_is_opened_by_its_addresses,
];
/// Cases of blobs in a directory.
pub const DIRECTORIES: Cases = cases![files_of_killed_writers_are_removed_when_they_are_old];
pub const SERVERS: Cases = cases![
    when_postgres_dies_in_the_middle_of_a_stream_nothing_stays,
    when_the_bucket_dies_in_the_middle_of_a_stream_nothing_stays,
];

/// Names the store of a process that writes a stream until it is killed.
pub const WRITER: &str = "KUBEOPENCODE_TEST_STREAM";
const LIMIT: Duration = Duration::from_mins(3);
const PART: usize = 5 << 20;
/// Five parts.
const LARGE: usize = (20 << 20) + 3;
/// In the future everything is old.
pub const AT_ONCE: SignedDuration = SignedDuration::from_secs(-60);

/// Bytes that do not repeat.
pub fn content(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(4)).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}

fn pieces(bytes: Vec<u8>, size: usize) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let bytes = Bytes::from(bytes);
    stream::iter((0..bytes.len()).step_by(size)).map(move |at| Ok(bytes.slice(at..bytes.len().min(at + size))))
}

pub async fn put(store: &Store, bytes: Vec<u8>) -> Stored {
    store.put_stream(pieces(bytes, 1_000_003), u64::MAX).await.unwrap()
}

pub async fn get(store: &Store, digest: &Digest) -> Vec<u8> {
    let chunks: Vec<Bytes> = store.read_blob(digest, 0..u64::MAX).await.unwrap().try_collect().await.unwrap();
    chunks.concat()
}

/// Streams several parts, of which the first ones are sent when it tells and goes on with `then`.
fn large_then(
    told: oneshot::Sender<()>,
    then: impl Stream<Item = io::Result<Bytes>> + Send,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let tell = stream::once(async move {
        told.send(()).unwrap();
        Ok(Bytes::new())
    });
    pieces(content(4 * PART + 100, 7), 300_000).chain(tell).chain(then)
}

async fn a_stream_of_any_length_is_stored_and_read_again(world: World) {
    let (store, place) = world.store().await;
    let lengths = [0, 1, PART - 1, PART, PART + 1, LARGE];
    for (length, size) in lengths.into_iter().zip([1, 1, 70_000, 1 << 20, 9_000_000, 333_333]) {
        let bytes = content(length, 1);
        let stored = store.put_stream(pieces(bytes.clone(), size), length as u64).await.unwrap();
        assert_eq!(stored, Stored { digest: Digest::of(&bytes), bytes: length as u64 });
        assert!(get(&store, &stored.digest).await == bytes, "{length} bytes");
    }
    let files = place.blobs().await;
    assert_eq!(files.len(), lengths.len(), "{files:?}");
    assert_eq!(store.collect(GRACE).await.unwrap(), Collected::default());
    assert_eq!(store.collect_unrecorded(AT_ONCE).await.unwrap(), Collected::default());
    let all = Collected { blobs: 6, bytes: lengths.iter().sum::<usize>() as u64, uploads: 0 };
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), all);
    assert_eq!(place.blobs().await, Vec::<PathBuf>::new());
    let gone = store.read_blob(&Digest::of(b""), 0..1).await.err().unwrap();
    assert!(matches!(gone, Error::NoBlob(_)), "{gone}");
}

async fn any_part_of_a_blob_can_be_read(world: World) {
    let (store, _place) = world.store().await;
    let bytes = content(5_000_000, 2);
    let digest = put(&store, bytes.clone()).await.digest;
    for (from, to) in [(0, 0), (0, 1), (4_999_999, 5_000_000), (1_000_000, 4_700_000), (2 << 20, 4 << 20)] {
        let read: Vec<Bytes> = store.read_blob(&digest, from..to).await.unwrap().try_collect().await.unwrap();
        assert!(read.iter().all(|chunk| chunk.len() <= 2 << 20), "chunks are bounded");
        let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
        assert!(read.concat() == bytes[from..to], "{from}..{to}");
    }
    for range in [4_999_990..u64::MAX, 5_000_000..5_000_001, 9_000_000..9_000_001] {
        let read: Vec<Bytes> = store.read_blob(&digest, range.clone()).await.unwrap().try_collect().await.unwrap();
        let start = usize::try_from(range.start).unwrap().min(bytes.len());
        assert_eq!(read.concat(), bytes[start..], "{range:?}");
    }
}

async fn the_same_bytes_are_stored_once(world: World) {
    let (store, place) = world.store().await;
    for bytes in [content(100, 3), content(LARGE, 3)] {
        let writers = (0..3).map(|_| put(&store, bytes.clone()));
        let stored = futures::future::join_all(writers).await;
        assert!(stored.iter().all(|one| one.digest == Digest::of(&bytes)));
        assert!(get(&store, &stored[0].digest).await == bytes);
        put(&store, bytes).await;
    }
    let files = place.blobs().await;
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(store.collect(AT_ONCE).await.unwrap().uploads, 0);
}

async fn a_stream_that_fails_or_is_too_long_leaves_nothing(world: World) {
    let (store, place) = world.store().await;
    for length in [100, LARGE] {
        let torn = pieces(content(length, 4), 500_000).chain(stream::iter([Err(io::Error::other("torn"))]));
        let failed = store.put_stream(torn, u64::MAX).await.unwrap_err();
        assert!(matches!(&failed, PutError::Source(error) if error.to_string() == "torn"), "{failed}");
        let long = store.put_stream(pieces(content(length, 4), 500_000), length as u64 - 1).await.unwrap_err();
        assert!(matches!(long, PutError::TooLarge { limit } if limit == length as u64 - 1), "{long}");
    }
    assert_eq!(place.blobs().await, Vec::<PathBuf>::new());
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected::default());
}

async fn a_stream_that_is_given_up_leaves_nothing(world: World) {
    let (store, place) = world.store().await;
    let (told, sent) = oneshot::channel();
    let writing = store.put_stream(large_then(told, stream::pending()), u64::MAX);
    tokio::select! {
        stored = writing => panic!("{stored:?}"),
        told = sent => told.unwrap(),
    }
    // It is removed in the background.
    let removed = async {
        while !place.blobs().await.is_empty() || place.uploads().await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, removed).await.unwrap();
}

async fn what_a_killed_writer_left_is_collected(world: World) {
    let (store, place) = world.store().await;
    let (records, blobs) = place.urls().await;
    let mut writer = Command::new(std::env::current_exe().unwrap());
    let mut writer = writer.env(WRITER, format!("{records} {blobs}")).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let line = tokio::task::spawn_blocking(|| output.lines().next()).await.unwrap();
    assert_eq!(line.unwrap().unwrap(), "sent");
    writer.kill().unwrap();
    writer.wait().unwrap();
    // It may still be alive as far as others know.
    assert_eq!(store.collect(GRACE).await.unwrap(), Collected::default());
    assert_eq!(place.uploads().await, 1);
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected { uploads: 1, ..Collected::default() });
    assert_eq!((place.uploads().await, place.blobs().await), (0, Vec::new()));
    assert_eq!(store.collect_unrecorded(AT_ONCE).await.unwrap(), Collected::default());
}

/// The process of the case above.
#[expect(clippy::print_stdout, reason = "read by the case")]
pub async fn write_until_killed(urls: &str) {
    let (records, blobs) = urls.split_once(' ').unwrap();
    let store = Store::open(records, blobs).await.unwrap();
    let (told, sent) = oneshot::channel();
    let writing = store.put_stream(large_then(told, stream::pending()), u64::MAX);
    let telling = async {
        sent.await.unwrap();
        println!("sent");
        std::future::pending::<()>().await;
    };
    let _ = futures::join!(writing, telling);
}

async fn files_of_killed_writers_are_removed_when_they_are_old(world: World) {
    let (store, place) = world.store().await;
    put(&store, content(100, 5)).await;
    let kept = place.blobs().await.remove(0);
    let staged = kept.with_file_name("0123#1");
    fs::write(&staged, b"the beginning").unwrap();
    assert_eq!(store.collect_unrecorded(GRACE).await.unwrap(), Collected::default());
    let removed = store.collect_unrecorded(AT_ONCE).await.unwrap();
    assert_eq!(removed, Collected { blobs: 1, bytes: 13, uploads: 0 });
    assert_eq!(place.blobs().await, [kept]);
}

async fn an_object_that_was_lost_comes_back_with_its_bytes(world: World) {
    let (store, place) = world.store().await;
    for bytes in [content(100, 6), content(LARGE, 6)] {
        let digest = put(&store, bytes.clone()).await.digest;
        for file in place.blobs().await {
            fs::remove_file(file).unwrap();
        }
        let lost: Result<Vec<Bytes>, _> = store.read_blob(&digest, 0..u64::MAX).await.unwrap().try_collect().await;
        assert!(matches!(lost, Err(Error::Blobs(_))), "{lost:?}");
        put(&store, bytes.clone()).await;
        assert!(get(&store, &digest).await == bytes);
    }
    assert_eq!(store.collect(AT_ONCE).await.unwrap().uploads, 0);
}

async fn a_store_is_opened_by_its_addresses(world: World) {
    let (store, place) = world.store().await;
    let stored = put(&store, content(100, 8)).await;
    let (records, blobs) = place.urls().await;
    let again = Store::open(&records, &blobs).await.unwrap();
    assert_eq!(get(&again, &stored.digest).await, content(100, 8));
    for (records, blobs, expected) in [
        ("mysql://user:secret@host/db", &*blobs, "unsupported scheme 'mysql' of records"),
        ("", &*blobs, "unsupported scheme '' of records"),
        (&*records, "gs://secret", "unsupported scheme 'gs' of blobs"),
        (&*records, "", "unsupported scheme '' of blobs"),
    ] {
        let refusal = Store::open(records, blobs).await.unwrap_err().to_string();
        assert!(refusal.contains(expected) && !refusal.contains("secret"), "{refusal}");
    }
}

async fn when_postgres_dies_in_the_middle_of_a_stream_nothing_stays(_: World) {
    let (mut server, blobs) = (Postgres::start().await.unwrap(), tempfile::tempdir().unwrap());
    let url = server.database("case").unwrap();
    let store = Store::open(&url, blobs.path().to_str().unwrap()).await.unwrap();
    let (told, sent) = oneshot::channel();
    let (go_on, killed) = oneshot::channel();
    let rest = stream::once(async { killed.await.map(|()| Bytes::from_static(b"end")).map_err(io::Error::other) });
    let kill = async {
        sent.await.unwrap();
        server.kill();
        go_on.send(()).unwrap();
    };
    let (failed, ()) = futures::join!(store.put_stream(large_then(told, rest), u64::MAX), kill);
    assert!(matches!(failed, Err(PutError::Store(Error::Database(_)))), "{failed:?}");
    server.start_again().await.unwrap();
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected { uploads: 1, ..Collected::default() });
    assert_eq!(files(blobs.path()), Vec::<PathBuf>::new());
    put(&store, content(LARGE, 7)).await;
}

async fn when_the_bucket_dies_in_the_middle_of_a_stream_nothing_stays(_: World) {
    let (database, mut bucket) = (Postgres::start().await.unwrap(), Bucket::start().await.unwrap());
    let url = database.database("case").unwrap();
    let store = Store::open(&url, &bucket_url(&bucket, "case")).await.unwrap();
    let (told, sent) = oneshot::channel();
    let (go_on, killed) = oneshot::channel();
    let rest = stream::once(async { killed.await.map(|()| content(PART, 9).into()).map_err(io::Error::other) });
    let kill = async {
        sent.await.unwrap();
        bucket.kill();
        go_on.send(()).unwrap();
    };
    let writing = tokio::time::timeout(LIMIT, store.put_stream(large_then(told, rest), u64::MAX));
    let (failed, ()) = futures::join!(writing, kill);
    assert!(matches!(failed.unwrap(), Err(PutError::Store(Error::Blobs(_)))));
    bucket.start_again().await.unwrap();
    // The parts that were sent, which no list of objects shows.
    assert!(!files(&bucket.directory()).is_empty());
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected { uploads: 1, ..Collected::default() });
    assert_eq!(files(&bucket.directory()), Vec::<PathBuf>::new());
    let bytes = content(LARGE, 7);
    let stored = put(&store, bytes.clone()).await;
    assert!(get(&store, &stored.digest).await == bytes);
}

/// All files but the one that names the store.
fn files(base: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![base.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "store-id" {
                files.push(entry.path());
            }
        }
    }
    files
}
