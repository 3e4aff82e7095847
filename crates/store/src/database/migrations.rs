//! The schema, as numbered steps. A database remembers the number of its last step; a step is never changed once it was
//! released.

use super::DatabaseError;

/// Step `n` is at index `n - 1`. The statements are valid for SQLite and Postgres: SQLite stores any type as it comes.
pub(super) const STEPS: &[&str] = &["
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
"];

/// The steps that a database lacks, each with its number.
pub(super) fn missing(found: i64) -> Result<impl Iterator<Item = (i64, &'static str)>, DatabaseError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(DatabaseError::Newer { found, known });
    }
    Ok((1..).zip(STEPS.iter().copied()).filter(move |(number, _)| *number > found))
}
