//! Changes of the schema.

use std::{collections::BTreeSet, time::Duration};

use kubeopencode_store::{Archive as _, Store};
use tokio_postgres::{Client, NoTls};

use crate::{
    archive::run,
    world::{Cases, World, cases},
};

/// Cases of one pair of back ends.
pub const POSTGRES: Cases = cases![a_step_waits_until_the_tables_are_free];

const LIMIT: Duration = Duration::from_mins(2);

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn a_step_waits_until_the_tables_are_free(world: World) {
    let (store, place) = world.store().await;
    store.record(&run("u", 1), b"record".to_vec()).await.unwrap();
    let (records, blobs) = place.urls().await;
    let (mut user, observer) = (connect(&records).await, connect(&records).await);
    // As the version before left it.
    let undo = "DROP TABLE properties; DROP INDEX runs_imported; ALTER TABLE runs DROP COLUMN imported;
                DELETE FROM schema_version WHERE version > 3";
    observer.batch_execute(undo).await.unwrap();
    std::fs::remove_file(std::path::Path::new(&blobs).join("store-id")).unwrap();
    let using = user.transaction().await.unwrap();
    using.batch_execute("LOCK TABLE runs IN ACCESS SHARE MODE").await.unwrap();
    let opening = tokio::spawn(async move { Store::open(&records, &blobs).await });
    let again = async {
        // Each attempt is a transaction of its own.
        let mut attempts = BTreeSet::new();
        while attempts.len() < 2 {
            let waiting = "SELECT xact_start::text FROM pg_stat_activity
                           WHERE datname = current_database() AND wait_event_type = 'Lock'";
            attempts.extend(observer.query(waiting, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, again).await.unwrap();
    assert!(!opening.is_finished());
    using.rollback().await.unwrap();
    let opened = tokio::time::timeout(LIMIT, opening).await.unwrap().unwrap().unwrap();
    assert_eq!(opened.records(&run("u", 1).task).await.unwrap()[&1], b"record");
}
