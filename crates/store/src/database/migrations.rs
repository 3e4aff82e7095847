//! The schema, as numbered steps. A database remembers the number of its last step; a step is never changed once it was
//! released.

use super::DatabaseError;

/// Step `n` is at index `n - 1`. The statements are valid for SQLite and Postgres: SQLite stores any type as it comes.
pub(super) const STEPS: &[&str] = &[
    "
CREATE TABLE runs (
    namespace TEXT NOT NULL, uid TEXT NOT NULL, epoch BIGINT NOT NULL,
    -- Milliseconds since 1970, as all times here.
    created BIGINT NOT NULL,
    settings BYTEA, record BYTEA,
    -- When and why the logs were removed.
    expired BIGINT, expiry_cause TEXT,
    PRIMARY KEY (namespace, uid, epoch));
CREATE INDEX runs_created ON runs (namespace, created, uid, epoch);
CREATE TABLE logs (
    namespace TEXT NOT NULL, uid TEXT NOT NULL, epoch BIGINT NOT NULL, stream TEXT NOT NULL,
    -- Length of the log, of its parts, and of the parts whose lines are in this database.
    bytes BIGINT NOT NULL, kept BIGINT NOT NULL, tail BIGINT NOT NULL,
    changed BIGINT NOT NULL, ending BYTEA,
    PRIMARY KEY (namespace, uid, epoch, stream));
CREATE TABLE log_parts (
    namespace TEXT NOT NULL, uid TEXT NOT NULL, epoch BIGINT NOT NULL, stream TEXT NOT NULL,
    -- Offset of the first line.
    start BIGINT NOT NULL, bytes BIGINT NOT NULL,
    -- One of the two: the lines, or the blob that they were moved to.
    lines BYTEA, blob TEXT,
    PRIMARY KEY (namespace, uid, epoch, stream, start));
CREATE INDEX log_parts_blob ON log_parts (blob);
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    -- The object that holds the bytes. Unique, so that removing one cannot hit its successor.
    name TEXT NOT NULL, bytes BIGINT NOT NULL,
    -- When a writer last announced that it uses the blob, and whether its bytes were stored.
    claimed BIGINT NOT NULL, stored BIGINT NOT NULL);
",
    "
-- A JSON object.
ALTER TABLE runs ADD COLUMN outputs BYTEA;
CREATE INDEX runs_newest ON runs (created, namespace, uid, epoch);
CREATE TABLE artifacts (
    namespace TEXT NOT NULL, uid TEXT NOT NULL, epoch BIGINT NOT NULL,
    -- '.patch' is the change that the run made.
    name TEXT NOT NULL,
    -- Two blobs: the files, and the list of them. A patch has no list.
    digest TEXT NOT NULL, bytes BIGINT NOT NULL, files BIGINT NOT NULL, manifest TEXT,
    stored BIGINT NOT NULL, expires BIGINT,
    -- When and why it was removed. Its blobs are not in use since then.
    expired BIGINT, expiry_cause TEXT,
    PRIMARY KEY (namespace, uid, epoch, name));
CREATE INDEX artifacts_digest ON artifacts (digest) WHERE expired IS NULL;
CREATE INDEX artifacts_manifest ON artifacts (manifest) WHERE expired IS NULL;
CREATE INDEX artifacts_stored ON artifacts (namespace, stored) WHERE expired IS NULL;
CREATE INDEX artifacts_expires ON artifacts (expires) WHERE expired IS NULL;
CREATE TABLE caches (
    -- Entries of one scope are never read in another.
    namespace TEXT NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
    digest TEXT NOT NULL, bytes BIGINT NOT NULL, files BIGINT NOT NULL, manifest TEXT NOT NULL,
    created BIGINT NOT NULL, used BIGINT NOT NULL,
    PRIMARY KEY (namespace, scope, name, key));
CREATE INDEX caches_digest ON caches (digest);
CREATE INDEX caches_manifest ON caches (manifest);
CREATE INDEX caches_used ON caches (namespace, used);
-- Objects that are being written and have no digest yet.
CREATE TABLE uploads (
    name TEXT NOT NULL PRIMARY KEY,
    -- The identifier of an upload to a bucket.
    id TEXT,
    started BIGINT NOT NULL, abandoned BIGINT NOT NULL);
CREATE INDEX blobs_name ON blobs (name);
-- Namespaces from which Pods sent the bytes of a blob.
CREATE TABLE senders (
    namespace TEXT NOT NULL, digest TEXT NOT NULL, sent BIGINT NOT NULL,
    PRIMARY KEY (namespace, digest));
CREATE INDEX senders_sent ON senders (sent);
-- Everything that keeps a blob. A view, so that a program that still runs when a later step adds a user counts it too.
CREATE VIEW blob_uses (blob, what) AS
    SELECT blob, 'a log of run ' || namespace || '/' || uid || '/' || epoch FROM log_parts WHERE blob IS NOT NULL
    UNION ALL
    SELECT digest, 'artifact ' || name || ' of run ' || namespace || '/' || uid || '/' || epoch
        FROM artifacts WHERE expired IS NULL
    UNION ALL
    SELECT manifest, 'the manifest of artifact ' || name || ' of run ' || namespace || '/' || uid || '/' || epoch
        FROM artifacts WHERE expired IS NULL AND manifest IS NOT NULL
    UNION ALL
    SELECT digest, 'cache ' || name || ' of ' || namespace || '/' || scope FROM caches
    UNION ALL
    SELECT manifest, 'the manifest of cache ' || name || ' of ' || namespace || '/' || scope FROM caches;
",
    "
-- Answers of people to permission requests of an agent.
CREATE TABLE approvals (
    namespace TEXT NOT NULL, uid TEXT NOT NULL, epoch BIGINT NOT NULL,
    -- Two people may answer one request at the same time, so an answer has an identifier of its own.
    id TEXT NOT NULL,
    answered BIGINT NOT NULL, entry BYTEA NOT NULL,
    -- When the agent accepted the answer.
    accepted BIGINT,
    PRIMARY KEY (namespace, uid, epoch, id));
CREATE INDEX approvals_answered ON approvals (namespace, uid, answered);
",
    "
-- 'cluster' is the UID of the Namespace kube-system of the cluster whose Tasks are here, 'store' a name of this store.
CREATE TABLE properties (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
-- When the run was copied from another store. Its Task need not exist.
ALTER TABLE runs ADD COLUMN imported BIGINT;
CREATE INDEX runs_imported ON runs (namespace, uid) WHERE imported IS NOT NULL;
",
];

/// The steps that a database lacks, each with its number.
pub(super) fn missing(found: i64) -> Result<impl Iterator<Item = (i64, &'static str)>, DatabaseError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(DatabaseError::Newer { found, known });
    }
    Ok((1..).zip(STEPS.iter().copied()).filter(move |(number, _)| *number > found))
}

#[cfg(test)]
mod tests {
    use super::STEPS;
    use crate::{Archive as _, Owner, Run, Store};

    #[tokio::test]
    async fn records_of_the_first_version_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
        database.execute_batch(STEPS[0]).unwrap();
        database.pragma_update(None, "user_version", 1).unwrap();
        let run = "INSERT INTO runs (namespace, uid, epoch, created, record) VALUES ('default', 'u', 1, 5, x'7b7d')";
        database.execute(run, []).unwrap();
        drop(database);
        for _ in 0..2 {
            let store = Store::directory(directory.path()).unwrap();
            let run = Run { task: Owner::new("default", "u").unwrap(), epoch: 1 };
            assert_eq!(store.records(&run.task).await.unwrap()[&1], b"{}");
            assert_eq!(store.outputs(&run).await.unwrap(), None);
            assert_eq!(store.runs(None, None, 10).await.unwrap()[0].run, run);
        }
    }
}
