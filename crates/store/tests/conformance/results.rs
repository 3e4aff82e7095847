//! Artefacts, outputs and patches: published once, by the run that is not over, and there as long as they should be.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kubeopencode_store::{
    Archive as _, ArtifactExpiryCause, Collected, Digest, Error, Limits, MOST_APPROVAL_BYTES, MOST_OUTPUT_BYTES,
    NewArtifact, Owner, Published, Run, RunCursor, RunResults, Store, Stored,
};

use crate::{
    archive::run,
    streams::{AT_ONCE, content, get, put},
    world::{Cases, World, cases},
};

pub const CASES: Cases = cases![
    an_artefact_is_published_once,
    of_many_publishers_one_is_first,
    a_run_that_is_over_publishes_nothing,
    a_record_and_a_publication_at_once_leave_no_doubt,
    what_is_not_stored_is_not_published,
    outputs_are_kept_once,
    a_patch_is_kept_beside_artefacts,
    results_go_with_their_task,
    a_blob_stays_while_any_run_names_it,
    an_artefact_expires_when_it_is_due,
    the_oldest_artefacts_of_a_namespace_expire_first,
    a_check_names_the_artefact_whose_bytes_are_gone,
    a_killed_publisher_loses_nothing_that_was_acknowledged_and_leaves_nothing_else,
    a_collection_beside_publishers_removes_nothing_that_was_published,
    runs_are_listed_page_by_page_with_the_newest_first,
    answers_of_people_are_recorded_and_confirmed,
];

/// Names the store of a process that publishes until it is killed.
pub const PUBLISHER: &str = "KUBEOPENCODE_TEST_PUBLISHER";
const LIMIT: Duration = Duration::from_mins(2);

pub fn artifact(name: &str, stored: &Stored) -> NewArtifact {
    NewArtifact {
        name: name.to_owned(),
        digest: stored.digest.clone(),
        bytes: stored.bytes,
        files: 1,
        manifest: format!(r#"{{"of":"{}"}}"#, stored.digest.as_str()).into_bytes(),
        expires: None,
    }
}

pub async fn publish(store: &Store, run: &Run, name: &str, bytes: Vec<u8>) -> Published {
    let stored = put(store, bytes).await;
    store.publish(run, artifact(name, &stored)).await.unwrap()
}

/// Lets the clock of the records go on.
pub async fn tick() {
    let before = Timestamp::now().as_millisecond();
    while Timestamp::now().as_millisecond() == before {
        tokio::task::yield_now().await;
    }
}

async fn an_artefact_is_published_once(world: World) {
    let (store, place) = world.store().await;
    let run = run("u", 1);
    assert_eq!(publish(&store, &run, "dist", content(100, 1)).await, Published::New);
    assert_eq!(publish(&store, &run, "dist", content(100, 1)).await, Published::Same);
    assert_eq!(publish(&store, &run, "dist", content(100, 2)).await, Published::Other);
    assert_eq!(publish(&store, &run, "coverage", content(200, 3)).await, Published::New);
    // With another manifest it is another artefact.
    let stored = put(&store, content(100, 1)).await;
    let other = NewArtifact { manifest: b"{}".to_vec(), ..artifact("dist", &stored) };
    assert_eq!(store.publish(&run, other).await.unwrap(), Published::Other);
    let later = Run { epoch: 2, ..run.clone() };
    assert_eq!(publish(&store, &later, "dist", content(100, 1)).await, Published::New);

    let store = {
        drop(store);
        place.store().await.unwrap()
    };
    let found = store.artifacts(&run.task).await.unwrap();
    let names: Vec<_> = found.iter().map(|found| (found.epoch, &*found.name, found.bytes)).collect();
    assert_eq!(names, [(1, "coverage", 200), (1, "dist", 100), (2, "dist", 100)]);
    let dist = store.artifact(&run, "dist").await.unwrap().unwrap();
    assert_eq!(dist, found[1]);
    assert_eq!((dist.files, dist.expires, dist.expired), (1, None, None));
    assert_eq!(get(&store, &dist.digest).await, content(100, 1));
    let manifest = artifact("dist", &stored).manifest;
    assert_eq!(store.manifest(&run, "dist").await.unwrap(), Some(manifest));
    assert_eq!(store.manifest(&run, "none").await.unwrap(), None);
    assert_eq!(store.artifact(&run, "none").await.unwrap(), None);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

async fn answers_of_people_are_recorded_and_confirmed(world: World) {
    let (store, place) = world.store().await;
    let (first, second) = (run("u", 1), run("u", 2));
    store.record_approval(&first, "a", b"one".to_vec()).await.unwrap();
    store.confirm_approval(&first, "a").await.unwrap();
    tick().await;
    store.record_approval(&second, "b", b"two".to_vec()).await.unwrap();
    tick().await;
    store.record_approval(&second, "c", b"three".to_vec()).await.unwrap();
    // Refused by the agent; a confirmed answer stays.
    store.withdraw_approval(&second, "c").await.unwrap();
    store.withdraw_approval(&first, "a").await.unwrap();
    // An identifier belongs to one run, and is used once.
    store.confirm_approval(&second, "a").await.unwrap();
    store.record_approval(&first, "a", b"again".to_vec()).await.unwrap_err();
    store.record_approval(&run("other", 1), "a", b"other".to_vec()).await.unwrap();

    let store = {
        drop(store);
        place.store().await.unwrap()
    };
    let found = store.approvals(&first.task).await.unwrap();
    let entries: Vec<_> = found.iter().map(|found| (found.epoch, &*found.id, &*found.entry)).collect();
    assert_eq!(entries, [(2, "b", b"two".as_slice()), (1, "a", b"one")]);
    assert_eq!(found[0].accepted, None);
    assert!(found[1].accepted.is_some_and(|accepted| accepted >= found[1].answered));
    let entry = vec![0; MOST_APPROVAL_BYTES + 1];
    let refusal = store.record_approval(&first, "d", entry).await.unwrap_err();
    assert!(matches!(refusal, Error::TooLarge { .. }), "{refusal}");
    let refusal = store.record_approval(&first, "", Vec::new()).await.unwrap_err();
    assert!(matches!(refusal, Error::Name(..)), "{refusal}");
    store.remove(&first.task).await.unwrap();
    assert_eq!(store.approvals(&first.task).await.unwrap(), []);
    assert_eq!(store.approvals(&run("other", 1).task).await.unwrap().len(), 1);
}

async fn of_many_publishers_one_is_first(world: World) {
    let (store, _place) = world.store().await;
    for (epoch, same) in [(1, false), (2, true), (3, false), (4, true)] {
        let (run, store) = (&run("u", epoch), &store);
        let publishers = (0..8).map(|number| publish(store, run, "dist", content(50, if same { 0 } else { number })));
        let answers = futures::future::join_all(publishers).await;
        let count = |wanted| answers.iter().filter(|answer| **answer == wanted).count();
        let late = if same { Published::Same } else { Published::Other };
        assert_eq!((count(Published::New), count(late)), (1, 7), "{answers:?}");
        let first = u32::try_from(answers.iter().position(|answer| *answer == Published::New).unwrap()).unwrap();
        let kept = store.artifact(run, "dist").await.unwrap().unwrap();
        assert_eq!(get(store, &kept.digest).await, content(50, if same { 0 } else { first }));
    }
}

async fn a_run_that_is_over_publishes_nothing(world: World) {
    let (store, _place) = world.store().await;
    let first = run("u", 1);
    assert_eq!(publish(&store, &first, "before", content(10, 1)).await, Published::New);
    store.record(&first, b"record".to_vec()).await.unwrap();
    assert_eq!(publish(&store, &first, "after", content(10, 2)).await, Published::Closed);
    assert_eq!(store.put_outputs(&first, b"{}".to_vec()).await.unwrap(), Published::Closed);
    let stored = put(&store, content(10, 3)).await;
    assert_eq!(store.publish_patch(&first, stored.digest, stored.bytes).await.unwrap(), Published::Closed);
    // A housekeeper whose first answer was lost.
    assert_eq!(publish(&store, &first, "before", content(10, 1)).await, Published::Same);

    // Before the record of the second run is written, the third begins.
    let (second, third) = (run("u", 2), run("u", 3));
    assert_eq!(store.put_outputs(&second, b"{}".to_vec()).await.unwrap(), Published::New);
    store.keep_settings(&third, b"settings".to_vec()).await.unwrap();
    assert_eq!(publish(&store, &second, "late", content(10, 2)).await, Published::Closed);
    assert_eq!(publish(&store, &run("u", 0), "never", content(10, 2)).await, Published::Closed);
    assert_eq!(store.put_outputs(&second, b"{}".to_vec()).await.unwrap(), Published::Same);
    assert_eq!(publish(&store, &third, "dist", content(10, 2)).await, Published::New);
    assert_eq!(publish(&store, &run("other", 1), "dist", content(10, 2)).await, Published::New);
    let names: Vec<_> = store.artifacts(&first.task).await.unwrap().into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["before", "dist"]);
}

async fn a_record_and_a_publication_at_once_leave_no_doubt(world: World) {
    let (store, _place) = world.store().await;
    let stored = put(&store, content(10, 1)).await;
    for number in 0..10 {
        let run = run(&format!("u{number}"), 1);
        // What the record of a run says is what is there for good.
        let ending = async {
            if number % 2 == 0 {
                tokio::task::yield_now().await;
            }
            store.record(&run, b"record".to_vec()).await.unwrap();
            store.results(&run).await.unwrap()
        };
        let publishing = store.publish(&run, artifact("dist", &stored));
        let outputs = store.put_outputs(&run, b"{}".to_vec());
        let (told, published, put) = futures::join!(ending, publishing, outputs);
        let expected = |there| if there { Published::New } else { Published::Closed };
        assert_eq!(published.unwrap(), expected(!told.artifacts.is_empty()));
        assert_eq!(put.unwrap(), expected(told.outputs.is_some()));
        assert_eq!(store.results(&run).await.unwrap(), told);
    }
}

async fn what_is_not_stored_is_not_published(world: World) {
    let (store, _place) = world.store().await;
    let run = run("u", 1);
    let unknown = Stored { digest: Digest::of(b"unknown"), bytes: 7 };
    assert_eq!(store.publish(&run, artifact("dist", &unknown)).await.unwrap(), Published::Missing);
    let stored = put(&store, content(10, 1)).await;
    let longer = Stored { bytes: 11, ..stored.clone() };
    assert_eq!(store.publish(&run, artifact("dist", &longer)).await.unwrap(), Published::Missing);
    store.collect(AT_ONCE).await.unwrap();
    assert_eq!(store.publish(&run, artifact("dist", &stored)).await.unwrap(), Published::Missing);
    assert_eq!(store.publish_patch(&run, stored.digest.clone(), 10).await.unwrap(), Published::Missing);
    assert_eq!(store.results(&run).await.unwrap(), RunResults::default());
    for name in ["", ".patch", "../x", "A"] {
        let refused = store.publish(&run, artifact(name, &stored)).await;
        assert!(matches!(&refused, Err(Error::Name(found, _)) if found == name), "{refused:?}");
    }
}

async fn outputs_are_kept_once(world: World) {
    let (store, place) = world.store().await;
    let run = run("u", 1);
    assert_eq!(store.outputs(&run).await.unwrap(), None);
    let writers = (0..8).map(|number| store.put_outputs(&run, format!(r#"{{"by":"{number}"}}"#).into_bytes()));
    let answers: Vec<_> = futures::future::try_join_all(writers).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| **answer == Published::New).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == Published::Other).count(), 7, "{answers:?}");
    let first = answers.iter().position(|answer| *answer == Published::New).unwrap();
    let kept = place.store().await.unwrap().outputs(&run).await.unwrap().unwrap();
    assert_eq!(kept, format!(r#"{{"by":"{first}"}}"#).into_bytes());
    let other = crate::archive::run("other", 1);
    let long = store.put_outputs(&other, vec![b' '; MOST_OUTPUT_BYTES + 1]).await;
    assert!(matches!(long, Err(Error::TooLarge { .. })), "{long:?}");
    assert_eq!(store.put_outputs(&other, vec![b' '; MOST_OUTPUT_BYTES]).await.unwrap(), Published::New);
    // A record does not change them.
    store.record(&run, b"record".to_vec()).await.unwrap();
    assert_eq!(store.outputs(&run).await.unwrap(), Some(kept));
}

async fn a_patch_is_kept_beside_artefacts(world: World) {
    let (store, _place) = world.store().await;
    let run = run("u", 1);
    assert_eq!(store.patch(&run).await.unwrap(), None);
    let (one, other) = (put(&store, content(30, 1)).await, put(&store, content(40, 2)).await);
    assert_eq!(store.publish_patch(&run, one.digest.clone(), 30).await.unwrap(), Published::New);
    assert_eq!(store.publish_patch(&run, one.digest.clone(), 30).await.unwrap(), Published::Same);
    assert_eq!(store.publish_patch(&run, other.digest, 40).await.unwrap(), Published::Other);
    assert_eq!(publish(&store, &run, "patch", content(5, 3)).await, Published::New);
    let patch = store.patch(&run).await.unwrap().unwrap();
    assert_eq!((&patch.digest, patch.bytes, patch.expired), (&one.digest, 30, None));
    assert_eq!(get(&store, &patch.digest).await, content(30, 1));
    // It is no artefact.
    assert_eq!(store.artifacts(&run.task).await.unwrap().len(), 1);
    assert_eq!(store.artifact(&run, ".patch").await.unwrap(), None);
    assert_eq!(store.manifest(&run, ".patch").await.unwrap(), None);
    let results = store.results(&run).await.unwrap();
    assert_eq!((results.artifacts.len(), results.patch), (1, Some(patch)));
    let removed = store.collect(AT_ONCE).await.unwrap();
    assert_eq!(removed, Collected { blobs: 1, bytes: 40, uploads: 0 });
}

async fn results_go_with_their_task(world: World) {
    let (store, place) = world.store().await;
    let run = run("u", 1);
    assert_eq!(publish(&store, &run, "dist", content(10, 1)).await, Published::New);
    // The Task has neither a log nor a record.
    assert_eq!(store.owners().await.unwrap(), std::slice::from_ref(&run.task));
    let stored = put(&store, content(20, 2)).await;
    store.publish_patch(&run, stored.digest, 20).await.unwrap();
    store.put_outputs(&run, b"{}".to_vec()).await.unwrap();
    store.remove(&run.task).await.unwrap();
    assert!(store.owners().await.unwrap().is_empty());
    assert_eq!(store.results(&run).await.unwrap(), RunResults::default());
    assert_eq!(store.collect(AT_ONCE).await.unwrap().blobs, 3);
    assert!(place.blobs().await.is_empty());
}

async fn a_blob_stays_while_any_run_names_it(world: World) {
    let (store, _place) = world.store().await;
    let stored = put(&store, content(10, 1)).await;
    for uid in ["a", "b"] {
        // The second names what the first stored.
        assert_eq!(store.publish(&run(uid, 1), artifact("dist", &stored)).await.unwrap(), Published::New);
    }
    store.remove(&run("a", 1).task).await.unwrap();
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), Collected::default());
    assert_eq!(get(&store, &stored.digest).await, content(10, 1));
    store.remove(&run("b", 1).task).await.unwrap();
    assert_eq!(store.collect(AT_ONCE).await.unwrap().blobs, 2);
}

async fn an_artefact_expires_when_it_is_due(world: World) {
    let (store, _place) = world.store().await;
    let run = run("u", 1);
    let due: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let later = due + SignedDuration::from_hours(1);
    for (seed, (name, expires)) in (1..).zip([("short", Some(due)), ("long", Some(later)), ("ever", None)]) {
        let stored = put(&store, content(10, seed)).await;
        let new = NewArtifact { expires, ..artifact(name, &stored) };
        assert_eq!(store.publish(&run, new).await.unwrap(), Published::New);
    }
    assert_eq!(store.expire_artifacts(due - SignedDuration::from_secs(1)).await.unwrap(), []);
    let expired = store.expire_artifacts(due).await.unwrap();
    assert_eq!(store.expire_artifacts(due).await.unwrap(), []);
    assert_eq!(expired.len(), 1, "{expired:?}");
    let one = &expired[0];
    assert_eq!((&one.run, one.name.as_deref(), one.bytes), (&run, Some("short"), 10));
    assert_eq!((one.expiry.at, one.expiry.cause), (due, ArtifactExpiryCause::Due));
    assert!(one.expiry.to_string().starts_with("expired at 2030-01-01T00:00:00Z: "), "{}", one.expiry);
    // The run says what became of it.
    let found = store.artifact(&run, "short").await.unwrap().unwrap();
    assert_eq!((found.expired, found.expires), (Some(one.expiry), Some(due)));
    assert_eq!(store.manifest(&run, "short").await.unwrap(), None);
    assert_eq!(store.collect(AT_ONCE).await.unwrap(), {
        let manifest = artifact("short", &Stored { digest: found.digest.clone(), bytes: 10 }).manifest;
        Collected { blobs: 2, bytes: 10 + manifest.len() as u64, uploads: 0 }
    });
    assert!(matches!(store.read_blob(&found.digest, 0..1).await, Err(Error::NoBlob(_))));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let rest = store.artifacts(&run.task).await.unwrap();
    assert_eq!(rest.iter().filter(|found| found.expired.is_none()).count(), 2);
}

async fn the_oldest_artefacts_of_a_namespace_expire_first(world: World) {
    let (store, _place) = world.store().await;
    let elsewhere = Run { task: Owner::new("elsewhere", "u").unwrap(), epoch: 1 };
    assert_eq!(publish(&store, &elsewhere, "dist", content(900, 0)).await, Published::New);
    for number in 0..6 {
        tick().await;
        let run = run(&format!("u{}", 6 - number), 1);
        assert_eq!(publish(&store, &run, "dist", content(100, number)).await, Published::New);
    }
    let now = Timestamp::now();
    let limit = async |limits| store.limit_artifacts("default", limits, now).await.unwrap();
    let names = |expired: Vec<kubeopencode_store::ExpiredArtifact>| -> Vec<_> {
        let mut names: Vec<_> =
            expired.into_iter().map(|one| (one.run.task.uid().to_owned(), one.expiry.cause)).collect();
        names.sort_by(|one, other| other.0.cmp(&one.0));
        names
    };
    let caused = |uids: &[&str], cause| uids.iter().map(|uid| ((*uid).to_owned(), cause)).collect::<Vec<_>>();
    assert_eq!(limit(Limits::default()).await, []);
    assert_eq!(limit(Limits { bytes: Some(600), count: Some(6), age: None }).await, []);
    let count = limit(Limits { count: Some(5), ..Limits::default() }).await;
    assert_eq!(names(count), caused(&["u6"], ArtifactExpiryCause::Count));
    let space = limit(Limits { bytes: Some(399), ..Limits::default() }).await;
    assert_eq!(names(space), caused(&["u5", "u4"], ArtifactExpiryCause::Space));
    assert_eq!(limit(Limits { bytes: Some(300), count: Some(3), age: None }).await, []);
    // The newest one stays, although it alone is too large.
    let space = limit(Limits { bytes: Some(50), ..Limits::default() }).await;
    assert_eq!(names(space), caused(&["u3", "u2"], ArtifactExpiryCause::Space));
    let old = Limits { age: Some(SignedDuration::from_hours(1)), ..Limits::default() };
    assert_eq!(limit(old).await, []);
    let later = now + SignedDuration::from_hours(2);
    let aged = store.limit_artifacts("default", old, later).await.unwrap();
    assert_eq!(names(aged), caused(&["u1"], ArtifactExpiryCause::Age));
    assert_eq!(store.artifact(&elsewhere, "dist").await.unwrap().unwrap().expired, None);
}

async fn a_check_names_the_artefact_whose_bytes_are_gone(world: World) {
    let (store, place) = world.store().await;
    let run = run("u", 1);
    assert_eq!(publish(&store, &run, "dist", content(2_000, 1)).await, Published::New);
    for file in place.blobs().await {
        std::fs::remove_file(file).unwrap();
    }
    let wrong = store.check().await.unwrap();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    for what in [" of artifact dist of run default/u/1 ", " of the manifest of artifact dist of run default/u/1 "] {
        assert!(wrong.iter().any(|sentence| sentence.contains(what)), "{wrong:?}");
    }
    assert!(store.manifest(&run, "dist").await.is_err());
}

/// What the publisher of the next case publishes as number `number`: small and large.
fn numbered_content(number: u32) -> Vec<u8> {
    content(if number.is_multiple_of(3) { (8 << 20) + 1 } else { 300 }, number)
}

async fn a_killed_publisher_loses_nothing_that_was_acknowledged_and_leaves_nothing_else(world: World) {
    let (store, place) = world.store().await;
    let (records, blobs) = place.urls().await;
    let run = run("u", 1);
    for round in 0..6 {
        let mut publisher = Command::new(std::env::current_exe().unwrap());
        publisher.env(PUBLISHER, format!("{records} {blobs}")).stdout(Stdio::piped());
        let acknowledged = tokio::task::spawn_blocking(move || {
            let mut publisher = publisher.spawn().unwrap();
            let mut lines = BufReader::new(publisher.stdout.take().unwrap()).lines();
            let mut all: Vec<String> = lines.by_ref().take(2 + round).map(Result::unwrap).collect();
            // It stores the next one by now: a large one in some rounds.
            publisher.kill().unwrap();
            // What it printed before it died counts too.
            all.extend(lines.map_while(Result::ok));
            publisher.wait().unwrap();
            all
        });
        for name in acknowledged.await.unwrap() {
            let found = store.artifact(&run, &name).await.unwrap().unwrap();
            let number = name.trim_start_matches('a').parse().unwrap();
            assert!(get(&store, &found.digest).await == numbered_content(number), "{name}");
            assert!(store.manifest(&run, &name).await.unwrap().is_some());
        }
    }
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let all = store.artifacts(&run.task).await.unwrap();
    let mut used = BTreeSet::new();
    for artifact in all {
        used.insert(Digest::of(&store.manifest(&run, &artifact.name).await.unwrap().unwrap()));
        used.insert(artifact.digest);
    }
    // A server may still be busy with the last request of a process that is dead.
    let cleaned = async {
        while place.blobs().await.len() != used.len() || place.uploads().await > 0 {
            store.collect(AT_ONCE).await.unwrap();
            store.collect_unrecorded(AT_ONCE).await.unwrap();
        }
    };
    tokio::time::timeout(LIMIT, cleaned).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// The process of the case above: publishes what comes next, and prints its name when it is acknowledged.
#[expect(clippy::print_stdout, reason = "read by the case")]
pub async fn publish_until_killed(urls: &str) {
    let (records, blobs) = urls.split_once(' ').unwrap();
    let store = Store::open(records, blobs).await.unwrap();
    let run = run("u", 1);
    let known = u32::try_from(store.artifacts(&run.task).await.unwrap().len()).unwrap();
    for number in known..known + 100 {
        let name = format!("a{number}");
        assert_eq!(publish(&store, &run, &name, numbered_content(number)).await, Published::New);
        println!("{name}");
    }
}

/// Publishers store and name the same few blobs again and again, while all that are not in use are removed at once.
async fn a_collection_beside_publishers_removes_nothing_that_was_published(world: World) {
    let (store, _place) = world.store().await;
    let publisher = |number: u32| {
        let store = store.clone();
        async move {
            for round in 0..6 {
                let run = run(&format!("p{number}-{round}"), 1);
                // What was stored may be collected before it is named; then the publisher is told.
                while publish(&store, &run, "dist", content(100, round)).await == Published::Missing {}
                let found = store.artifact(&run, "dist").await.unwrap().unwrap();
                assert_eq!(get(&store, &found.digest).await, content(100, round));
                if round % 2 == 0 {
                    store.remove(&run.task).await.unwrap();
                }
            }
        }
    };
    let collector = async {
        for _ in 0..20 {
            store.collect(AT_ONCE).await.unwrap();
            store.collect_unrecorded(SignedDuration::from_secs(60)).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    futures::join!(futures::future::join_all((0..4).map(publisher)), collector);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    for number in 0..4 {
        for round in [1, 3, 5] {
            let run = run(&format!("p{number}-{round}"), 1);
            let found = store.artifact(&run, "dist").await.unwrap().unwrap();
            assert_eq!(get(&store, &found.digest).await, content(100, round));
            assert!(store.manifest(&run, "dist").await.unwrap().is_some());
        }
    }
}

async fn runs_are_listed_page_by_page_with_the_newest_first(world: World) {
    let (store, _place) = world.store().await;
    let mut writes = Vec::new();
    for number in 0..30 {
        let namespace = if number % 3 == 0 { "one" } else { "two" };
        let run = Run { task: Owner::new(namespace, &format!("u{}", number / 4)).unwrap(), epoch: number };
        let store = &store;
        // Several at the same millisecond.
        writes.push(async move { store.keep_settings(&run, b"settings".to_vec()).await.unwrap() });
    }
    futures::future::join_all(writes).await;
    let last = Run { task: Owner::new("one", "last").unwrap(), epoch: 1 };
    tick().await;
    store.record(&last, b"record".to_vec()).await.unwrap();

    let all = store.runs(None, None, 100).await.unwrap();
    assert_eq!(all.len(), 31);
    assert_eq!((&all[0].run, all[0].record.as_deref()), (&last, Some(&b"record"[..])));
    assert!(all.iter().skip(1).all(|listed| listed.record.is_none()));
    assert!(all.is_sorted_by(|one, other| one.created >= other.created));
    for namespace in [None, Some("one"), Some("two"), Some("none")] {
        let of_namespace = |run: &Run| namespace.is_none_or(|namespace| run.task.namespace() == namespace);
        let mut expected: Vec<_> = all.iter().filter(|listed| of_namespace(&listed.run)).cloned().collect();
        let (mut found, mut cursor) = (Vec::new(), None::<RunCursor>);
        loop {
            let page = store.runs(namespace, cursor.as_ref(), 7).await.unwrap();
            let Some(last) = page.last() else { break };
            cursor = Some(last.cursor().to_string().parse().unwrap());
            assert!(page.len() <= 7);
            found.extend(page);
        }
        if namespace.is_some() {
            // The order within a millisecond is another one.
            let key = |listed: &kubeopencode_store::ListedRun| (listed.created, listed.run.clone());
            expected.sort_by_key(key);
            found.sort_by_key(key);
        }
        assert_eq!(found, expected, "{namespace:?}");
    }
}
