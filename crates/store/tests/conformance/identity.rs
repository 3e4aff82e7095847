//! Whose data a store holds.

use jiff::{SignedDuration, Timestamp};
use kubeopencode_store::{Archive as _, Error, OpenError, Store};

use crate::{
    archive::{lines, log, run},
    results::publish,
    streams::content,
    world::{Cases, World, cases},
};

pub const CASES: Cases = cases![
    a_store_is_that_of_one_cluster,
    what_was_copied_is_told_from_what_was_made_here,
    records_that_were_copied_go_when_nothing_else_is_left,
    blobs_of_another_store_are_not_used,
];

async fn a_store_is_that_of_one_cluster(world: World) {
    let (store, place) = world.store().await;
    store.append(&log("u", 1), 0, lines(0..1)).await.unwrap();
    store.belong_to("one").await.unwrap();
    let again = place.store().await.unwrap();
    again.belong_to("one").await.unwrap();
    let refused = again.belong_to("other").await.unwrap_err();
    assert!(matches!(refused, Error::OtherCluster { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("UID one") && text.contains("this cluster's has other"), "{text}");
    assert!(store.copied().await.unwrap().is_empty());

    // The store of one machine moves with its files.
    assert!(!store.move_to("one").await.unwrap());
    assert!(store.move_to("other").await.unwrap());
    again.belong_to("other").await.unwrap();
    assert_eq!(store.copied().await.unwrap(), [run("u", 1).task]);
}

async fn what_was_copied_is_told_from_what_was_made_here(world: World) {
    let (store, _place) = world.store().await;
    let (target, _place) = world.store().await;
    for uid in ["a", "b"] {
        store.append(&log(uid, 1), 0, lines(0..2)).await.unwrap();
        assert_eq!(publish(&store, &run(uid, 1), "dist", content(100, 1)).await, kubeopencode_store::Published::New);
        store.record(&run(uid, 1), b"record".to_vec()).await.unwrap();
    }
    // This one runs here too.
    target.append(&log("b", 1), 0, lines(0..1)).await.unwrap();
    target.append(&log("own", 1), 0, lines(0..1)).await.unwrap();
    store.export(&target).await.unwrap();
    store.export(&target).await.unwrap();
    assert_eq!(target.copied().await.unwrap(), [run("a", 1).task]);
    target.adopt(&run("a", 1).task).await.unwrap();
    assert!(target.copied().await.unwrap().is_empty());
    assert_eq!(target.owners().await.unwrap().len(), 3);
}

async fn records_that_were_copied_go_when_nothing_else_is_left(world: World) {
    let (store, _place) = world.store().await;
    let artifact = publish(&store, &run("artifact", 1), "dist", content(100, 1)).await;
    assert_eq!(artifact, kubeopencode_store::Published::New);
    for uid in ["log", "artifact", "record", "own"] {
        store.record(&run(uid, 1), b"record".to_vec()).await.unwrap();
    }
    store.append(&log("log", 1), 0, lines(0..2)).await.unwrap();
    store.belong_to("one").await.unwrap();
    store.move_to("other").await.unwrap();
    store.adopt(&run("own", 1).task).await.unwrap();
    let left = async || {
        let mut left: Vec<String> = store.owners().await.unwrap().iter().map(|owner| owner.uid().to_owned()).collect();
        left.sort();
        left
    };
    let days = |days: i64| Timestamp::now() + SignedDuration::from_hours(24 * days);
    store.retain(days(89)).await.unwrap();
    assert_eq!(left().await, ["artifact", "log", "own", "record"]);
    store.retain(days(91)).await.unwrap();
    assert_eq!(left().await, ["artifact", "log", "own"]);
}

async fn blobs_of_another_store_are_not_used(world: World) {
    let (store, place) = world.store().await;
    store.append(&log("u", 1), 0, lines(0..2)).await.unwrap();
    store.collect_unrecorded(kubeopencode_store::GRACE).await.unwrap();
    let records = tempfile::tempdir().unwrap();
    let (_, blobs) = place.urls().await;
    let other = records.path().join("records.db").display().to_string();
    let refused = Store::open(&other, &blobs).await.unwrap_err();
    assert!(matches!(refused, OpenError::Store(Error::OtherStore)), "{refused}");
    assert!(refused.to_string().contains("belong to another store"), "{refused}");
    // The store itself opens them again.
    place.store().await.unwrap().collect_unrecorded(kubeopencode_store::GRACE).await.unwrap();
}
