//! The database of the store: SQLite with a write-ahead log, synchronized at every commit.
//!
//! Beside the objects it stores the previous versions of the latest changes of each kind, so that watches resume after
//! a restart.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, params};
use rustix::fs::FlockOperation;

use super::Entry;
use super::collection::{Before, Past};

/// Changes that are kept per kind: at least this number, at most half as many more. Enough for a watch to resume, few
/// enough to be read at every start.
const KEPT_CHANGES: u32 = 512;
/// Larger previous versions are not stored; watches cannot resume across such a change.
const MAX_KEPT_BYTES: usize = 32 << 10;

/// The schema version. A directory with another version was written by another version of this program.
const LAYOUT: i64 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("cannot use the state directory {directory}: {source}")]
    Directory { directory: PathBuf, source: io::Error },
    #[error("the state directory {0} is in use by another process; stop it first or choose another directory")]
    Locked(PathBuf),
    /// The database is corrupt or not a database.
    #[error("cannot read the state in {file} ({source}): move the file away to start with an empty state")]
    Corrupt { file: PathBuf, source: rusqlite::Error },
    #[error("the disk is full: free some space, for example by deleting finished Tasks, and try again")]
    Full,
    #[error("cannot use the state in {file}: {source}")]
    Unusable { file: PathBuf, source: rusqlite::Error },
    #[error("the state in {file} has layout {found}, but this version reads layout {LAYOUT}")]
    Layout { file: PathBuf, found: i64 },
    #[error(transparent)]
    Commit(rusqlite::Error),
    #[error("cannot start the writer thread: {0}")]
    Thread(#[source] io::Error),
}

/// The content of the database.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) objects: Vec<(Arc<str>, Arc<str>, Entry)>,
    /// The last revision of each kind. Without it the revision of a deletion could be assigned twice.
    pub(super) changed: Vec<(Arc<str>, u64)>,
    /// The latest changes of each kind, newest first.
    pub(super) past: Vec<(Arc<str>, Vec<Past>)>,
}

/// One write of a commit.
pub(super) struct Row<'a> {
    pub(super) storage_key: &'a str,
    pub(super) key: &'a str,
    /// The object, or its last state if it is deleted.
    pub(super) object: &'a Bytes,
    pub(super) removed: bool,
    pub(super) before: Option<&'a Entry>,
    pub(super) revision: u64,
}

pub(super) struct Disk {
    connection: Connection,
    /// By kind, the changes written since the last pruning.
    unpruned: HashMap<String, u32>,
    /// The lock is held while the file is open, and released by the kernel however the process ends.
    _lock: File,
}

impl Disk {
    pub(super) fn open(directory: &Path) -> Result<(Self, Contents), DiskError> {
        let unusable = |source| DiskError::Directory { directory: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(unusable)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(directory.join("lock")).map_err(unusable)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(DiskError::Locked(directory.to_owned())),
            Err(error) => return Err(unusable(error.into())),
        }
        let file = directory.join("objects.db");
        let unreadable = |source: rusqlite::Error| match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => DiskError::Full,
            // Not the fault of the file: it must not be moved away.
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure) => {
                DiskError::Unusable { file: file.clone(), source }
            }
            _ => DiskError::Corrupt { file: file.clone(), source },
        };
        let connection = Connection::open(&file).map_err(unreadable)?;
        prepare(&connection).map_err(unreadable)?;
        let layout: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unreadable)?;
        if layout != LAYOUT {
            return Err(DiskError::Layout { file, found: layout });
        }
        let contents = read(&connection).map_err(unreadable)?;
        Ok((Self { connection, unpruned: HashMap::new(), _lock: lock }, contents))
    }

    /// Writes all rows or none, and returns when they are on disk.
    pub(super) fn commit<'a>(&mut self, rows: impl Iterator<Item = Row<'a>>) -> Result<(), DiskError> {
        self.write(rows).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => DiskError::Full,
            _ => DiskError::Commit(error),
        })
    }

    fn write<'a>(&mut self, rows: impl Iterator<Item = Row<'a>>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut put = transaction.prepare_cached(
                "INSERT OR REPLACE INTO objects (kind, key, revision, object) VALUES (?1, ?2, ?3, ?4)",
            )?;
            let mut remove = transaction.prepare_cached("DELETE FROM objects WHERE kind = ?1 AND key = ?2")?;
            let mut touch =
                transaction.prepare_cached("INSERT OR REPLACE INTO kinds (kind, changed) VALUES (?1, ?2)")?;
            let mut note = transaction.prepare_cached(
                "INSERT INTO changes (kind, revision, key, before, old, removed, last) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let mut forget = transaction.prepare_cached(
                "DELETE FROM changes WHERE kind = ?1 AND revision <=
                     (SELECT revision FROM changes WHERE kind = ?1 ORDER BY revision DESC LIMIT 1 OFFSET ?2)",
            )?;
            let mut touched: Vec<(&str, u64)> = Vec::new();
            for Row { storage_key, key, object, removed, before, revision } in rows {
                if removed {
                    remove.execute(params![storage_key, key])?;
                } else {
                    put.execute(params![storage_key, key, signed(revision), object.as_ref()])?;
                }
                let old = before.and_then(|before| kept(&before.bytes));
                let last = if removed { kept(object) } else { None };
                let before = before.map(|before| signed(before.revision));
                note.execute(params![storage_key, signed(revision), key, before, old, removed, last])?;
                match touched.iter_mut().find(|(kind, _)| *kind == storage_key) {
                    Some(entry) => entry.1 = revision,
                    None => touched.push((storage_key, revision)),
                }
                match self.unpruned.get_mut(storage_key) {
                    Some(count) => *count += 1,
                    // Changes from before this start are not counted.
                    None => {
                        self.unpruned.insert(storage_key.to_owned(), KEPT_CHANGES / 2);
                    }
                }
            }
            for (kind, changed) in touched {
                touch.execute(params![kind, signed(changed)])?;
                if let Some(count) = self.unpruned.get_mut(kind).filter(|count| **count >= KEPT_CHANGES / 2) {
                    forget.execute(params![kind, KEPT_CHANGES])?;
                    *count = 0;
                }
            }
        }
        transaction.commit()
    }
}

/// A previous version, unless it is too large.
fn kept(bytes: &Bytes) -> Option<&[u8]> {
    (bytes.len() <= MAX_KEPT_BYTES).then_some(bytes)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // The directory is locked, so no other process needs the shared memory of the journal, which takes space on the disk.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let layout: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if layout == 0 {
        connection.execute_batch(&format!(
            "BEGIN;
             CREATE TABLE objects (kind TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, object BLOB NOT NULL,
                                   PRIMARY KEY (kind, key)) WITHOUT ROWID;
             CREATE TABLE kinds (kind TEXT PRIMARY KEY, changed INTEGER NOT NULL) WITHOUT ROWID;
             PRAGMA user_version = {LAYOUT};
             COMMIT;"
        ))?;
    }
    // Not part of the layout: without this table, watches start with a list.
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS changes (kind TEXT NOT NULL, revision INTEGER NOT NULL, key TEXT NOT NULL,
                                             before INTEGER, old BLOB, removed INTEGER NOT NULL, last BLOB,
                                             PRIMARY KEY (kind, revision)) WITHOUT ROWID;",
    )
}

fn read(connection: &Connection) -> rusqlite::Result<Contents> {
    let mut contents = Contents::default();
    let mut kinds = connection.prepare("SELECT kind, changed FROM kinds")?;
    let mut rows = kinds.query([])?;
    while let Some(row) = rows.next()? {
        contents.changed.push((Arc::from(row.get_ref(0)?.as_str()?), unsigned(row.get(1)?)));
    }
    let mut objects = connection.prepare("SELECT kind, key, revision, object FROM objects ORDER BY kind, key")?;
    let mut rows = objects.query([])?;
    let mut kind: Arc<str> = Arc::from("");
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str()?;
        if name != &*kind {
            kind = Arc::from(name);
        }
        let bytes = Bytes::copy_from_slice(row.get_ref(3)?.as_blob()?);
        let entry = Entry { bytes, revision: unsigned(row.get(2)?) };
        contents.objects.push((Arc::clone(&kind), Arc::from(row.get_ref(1)?.as_str()?), entry));
    }
    contents.past = read_past(connection)?;
    Ok(contents)
}

fn read_past(connection: &Connection) -> rusqlite::Result<Vec<(Arc<str>, Vec<Past>)>> {
    let mut past: Vec<(Arc<str>, Vec<Past>)> = Vec::new();
    let mut changes = connection.prepare(
        "SELECT kind, revision, key, before, old, removed, last FROM changes ORDER BY kind DESC, revision DESC",
    )?;
    let mut rows = changes.query([])?;
    while let Some(row) = rows.next()? {
        let bytes = |column: usize| -> rusqlite::Result<Option<Bytes>> {
            Ok(row.get_ref(column)?.as_blob_or_null()?.map(Bytes::copy_from_slice))
        };
        let before = match (row.get::<_, Option<i64>>(3)?, bytes(4)?) {
            (None, _) => Before::Nothing,
            (Some(revision), Some(bytes)) => Before::Entry(Entry { bytes, revision: unsigned(revision) }),
            (Some(_), None) => Before::Unknown,
        };
        let change = Past {
            revision: unsigned(row.get(1)?),
            key: Arc::from(row.get_ref(2)?.as_str()?),
            before,
            removed: row.get(5)?,
            last: bytes(6)?,
        };
        let kind = row.get_ref(0)?.as_str()?;
        match past.last_mut().filter(|(name, _)| **name == *kind) {
            Some((_, changes)) => changes.push(change),
            None => past.push((Arc::from(kind), vec![change])),
        }
    }
    Ok(past)
}

// SQLite's integers are signed; revisions count writes and never reach the limit.
fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or_default()
}
