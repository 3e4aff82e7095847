//! Caches: found by key and prefix in their own scope, never changed, evicted when they were not used.

use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use kubeopencode_store::{
    Archive as _, CacheScope, Collected, Digest, Error, Limits, NewCache, Published, Store, Stored,
};

use crate::{
    results::tick,
    streams::{AT_ONCE, content, get, put},
    world::{Cases, World, cases},
};

pub const CASES: Cases = cases![
    an_entry_is_found_by_its_key_or_a_prefix,
    the_first_entry_of_a_key_stays,
    a_scope_never_sees_the_entries_of_another,
    what_was_not_used_for_the_longest_time_is_evicted,
    the_blobs_of_caches_are_in_use,
    an_entry_whose_bytes_are_lost_makes_room_for_a_new_one,
    an_entry_with_other_bytes_makes_room_for_a_new_one,
];

fn scope(scope: &str) -> CacheScope {
    CacheScope { namespace: "default".to_owned(), scope: scope.to_owned() }
}

fn entry(key: &str, stored: &Stored) -> NewCache {
    let (digest, bytes) = (stored.digest.clone(), stored.bytes);
    NewCache { key: key.to_owned(), digest, bytes, files: 2, manifest: b"{}".to_vec() }
}

async fn save(store: &Store, of: &CacheScope, key: &str, bytes: Vec<u8>) -> Published {
    tick().await;
    let stored = put(store, bytes).await;
    store.put_cache(of, "npm", entry(key, &stored)).await.unwrap()
}

/// The key of the entry that is found, and whether it is the wanted one.
async fn find(store: &Store, of: &CacheScope, key: &str, prefixes: &[&str]) -> Option<(String, bool)> {
    let prefixes: Vec<_> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
    store.find_cache(of, "npm", key, &prefixes).await.unwrap().map(|hit| (hit.key, hit.exact))
}

async fn an_entry_is_found_by_its_key_or_a_prefix(world: World) {
    let (store, place) = world.store().await;
    let of = scope("template/build");
    assert_eq!(find(&store, &of, "npm-1", &["npm-", ""]).await, None);
    for (number, key) in (1..).zip(["npm-linux-1", "npm-linux-2", "npm-mac-3", "100%-a", "100_-b"]) {
        assert_eq!(save(&store, &of, key, content(10, number)).await, Published::New);
    }
    let store = {
        drop(store);
        place.store().await.unwrap()
    };
    let inexact = |key: &str| Some((key.to_owned(), false));
    assert_eq!(find(&store, &of, "npm-linux-1", &["npm-"]).await, Some(("npm-linux-1".to_owned(), true)));
    assert_eq!(find(&store, &of, "npm-linux-9", &[]).await, None);
    assert_eq!(find(&store, &of, "npm-linux-9", &["npm-linux-", "npm-"]).await, inexact("npm-linux-2"));
    assert_eq!(find(&store, &of, "npm-linux-9", &["yarn-", "npm-"]).await, inexact("npm-mac-3"));
    assert_eq!(find(&store, &of, "npm-linux", &["npm-linux-2"]).await, inexact("npm-linux-2"));
    // Characters have no other meaning, and case counts.
    assert_eq!(find(&store, &of, "x", &["100%"]).await, inexact("100%-a"));
    assert_eq!(find(&store, &of, "x", &["100_"]).await, inexact("100_-b"));
    assert_eq!(find(&store, &of, "x", &["NPM-", "%"]).await, None);
    let hit = store.find_cache(&of, "npm", "npm-mac-3", &[]).await.unwrap().unwrap();
    assert_eq!((hit.bytes, hit.files, &hit.manifest), (10, 2, &Digest::of(b"{}")));
    assert_eq!(get(&store, &hit.digest).await, content(10, 3));
    assert_eq!(get(&store, &hit.manifest).await, b"{}");
    store.remove_cache(&of, "npm", "npm-mac-3").await.unwrap();
    assert_eq!(find(&store, &of, "npm-mac-3", &["npm-"]).await, inexact("npm-linux-2"));
}

async fn the_first_entry_of_a_key_stays(world: World) {
    let (store, _place) = world.store().await;
    let of = scope("agent/coder");
    let mut all = Vec::new();
    for number in 0..8 {
        all.push(put(&store, content(20, number)).await);
    }
    let writers = all.iter().map(|stored| store.put_cache(&of, "npm", entry("key", stored)));
    let answers = futures::future::try_join_all(writers).await.unwrap();
    let first = answers.iter().position(|answer| *answer == Published::New).unwrap();
    assert_eq!(answers.iter().filter(|answer| **answer == Published::Other).count(), 7, "{answers:?}");
    let again = store.put_cache(&of, "npm", entry("key", &all[first])).await.unwrap();
    assert_eq!(again, Published::Same);
    let hit = store.find_cache(&of, "npm", "key", &[]).await.unwrap().unwrap();
    assert_eq!((hit.digest, hit.exact), (all[first].digest.clone(), true));
    let unknown = Stored { digest: Digest::of(b"unknown"), bytes: 7 };
    assert_eq!(store.put_cache(&of, "npm", entry("new", &unknown)).await.unwrap(), Published::Missing);
    for key in ["", "a\0b", &"k".repeat(1025)] {
        let refused = store.put_cache(&of, "npm", entry(key, &all[0])).await;
        assert!(matches!(refused, Err(Error::Name(..))), "{refused:?}");
    }
}

async fn a_scope_never_sees_the_entries_of_another(world: World) {
    let (store, _place) = world.store().await;
    let (one, other) = (scope("template/one"), scope("agent/one"));
    let elsewhere = CacheScope { namespace: "elsewhere".to_owned(), ..one.clone() };
    assert_eq!(save(&store, &one, "key", content(10, 1)).await, Published::New);
    for stranger in [&other, &elsewhere] {
        assert_eq!(find(&store, stranger, "key", &["key", "k"]).await, None);
    }
    assert_eq!(store.find_cache(&one, "cargo", "key", &["k".to_owned()]).await.unwrap(), None);
    assert_eq!(save(&store, &elsewhere, "key", content(10, 2)).await, Published::New);
    assert_eq!(store.cache_scopes().await.unwrap(), [one.clone(), elsewhere.clone()]);
    store.remove_caches(&one).await.unwrap();
    assert_eq!(find(&store, &one, "key", &[]).await, None);
    assert_eq!(find(&store, &elsewhere, "key", &[]).await, Some(("key".to_owned(), true)));
    assert_eq!(store.cache_scopes().await.unwrap(), [elsewhere]);
}

async fn what_was_not_used_for_the_longest_time_is_evicted(world: World) {
    let (store, _place) = world.store().await;
    let of = scope("template/build");
    let elsewhere = CacheScope { namespace: "elsewhere".to_owned(), ..of.clone() };
    assert_eq!(save(&store, &elsewhere, "a", content(100, 0)).await, Published::New);
    for (number, key) in (1..).zip(["a", "b", "c", "d"]) {
        assert_eq!(save(&store, &of, key, content(100, number)).await, Published::New);
    }
    tick().await;
    find(&store, &of, "a", &[]).await.unwrap();
    let now = Timestamp::now();
    let evict = async |limits, now| {
        let evicted = store.evict_caches("default", limits, now).await.unwrap();
        assert!(evicted.iter().all(|one| one.scope == of && one.name == "npm" && one.bytes == 100));
        let mut keys: Vec<_> = evicted.into_iter().map(|one| one.key).collect();
        keys.sort();
        keys
    };
    let none = Vec::<String>::new();
    assert_eq!(evict(Limits::default(), now).await, none);
    assert_eq!(evict(Limits { bytes: Some(400), ..Limits::default() }, now).await, none);
    assert_eq!(evict(Limits { bytes: Some(250), ..Limits::default() }, now).await, ["b", "c"]);
    assert_eq!(evict(Limits { count: Some(1), ..Limits::default() }, now).await, ["d"]);
    let old = Limits { age: Some(SignedDuration::from_hours(1)), ..Limits::default() };
    assert_eq!(evict(old, now).await, none);
    assert_eq!(evict(old, now + SignedDuration::from_hours(2)).await, ["a"]);
    assert_eq!(find(&store, &elsewhere, "a", &[]).await, Some(("a".to_owned(), true)));
}

async fn the_blobs_of_caches_are_in_use(world: World) {
    let (store, place) = world.store().await;
    let of = scope("template/build");
    for (number, key) in (1..).zip(["a", "b"]) {
        assert_eq!(save(&store, &of, key, content(100, number)).await, Published::New);
    }
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected::default());
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.remove_cache(&of, "npm", "a").await.unwrap();
    // They share their manifest.
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected { blobs: 1, bytes: 100, uploads: 0 });
    for file in place.blobs().await {
        std::fs::remove_file(file).unwrap();
    }
    let wrong = store.check().await.unwrap();
    assert!(wrong.iter().any(|sentence| sentence.contains(" of cache npm of default/template/build ")), "{wrong:?}");
}

async fn an_entry_whose_bytes_are_lost_makes_room_for_a_new_one(world: World) {
    let (store, place) = world.store().await;
    let of = scope("template/build");
    for (number, key) in (1..).zip(["npm-1", "npm-2"]) {
        assert_eq!(save(&store, &of, key, content(100, number)).await, Published::New);
    }
    for file in place.blobs().await {
        if std::fs::read(&file).unwrap() == content(100, 2) {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(find(&store, &of, "npm-2", &["npm-"]).await, Some(("npm-1".to_owned(), false)), "the next best");
    assert_eq!(find(&store, &of, "npm-2", &[]).await, None);
    assert_eq!(save(&store, &of, "npm-2", content(100, 2)).await, Published::New);
    let hit = store.find_cache(&of, "npm", "npm-2", &[]).await.unwrap().unwrap();
    assert_eq!(get(&store, &hit.digest).await, content(100, 2));
}

async fn an_entry_with_other_bytes_makes_room_for_a_new_one(world: World) {
    let (store, place) = world.store().await;
    let of = scope("template/build");
    assert_eq!(save(&store, &of, "npm-1", content(100, 1)).await, Published::New);
    let hit = store.find_cache(&of, "npm", "npm-1", &[]).await.unwrap().unwrap();
    let read = async || -> Result<Vec<u8>, Error> {
        let bytes = store.read_cache(&of, "npm", "npm-1", &hit.digest).await?;
        Ok(bytes.try_collect::<Vec<_>>().await?.concat())
    };
    assert_eq!(read().await.unwrap(), content(100, 1));
    assert!(find(&store, &of, "npm-1", &[]).await.is_some());
    for file in place.blobs().await {
        if std::fs::read(&file).unwrap() == content(100, 1) {
            std::fs::write(file, content(100, 9)).unwrap();
        }
    }
    let damaged = read().await.unwrap_err();
    assert!(matches!(damaged, Error::Damaged(_)), "{damaged}");
    assert_eq!(find(&store, &of, "npm-1", &[]).await, None);
    // The same bytes again: they do not go into the damaged object.
    assert_eq!(save(&store, &of, "npm-1", content(100, 1)).await, Published::New);
    assert_eq!(read().await.unwrap(), content(100, 1));
}
