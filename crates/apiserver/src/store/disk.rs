//! The file under the store: SQLite with a write-ahead log, synchronised at every commit.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, params};
use rustix::fs::FlockOperation;

use super::Entry;

/// The layout of the tables. A directory with another layout was written by another version of this program.
const LAYOUT: i64 = 1;

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// The directory cannot be made or read.
    #[error("the state directory {directory} cannot be used: {source}")]
    Directory {
        /// Which one.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error("the state directory {0} is in use by another process; stop it first or choose another directory")]
    Locked(PathBuf),
    /// The database is damaged or is no database.
    #[error("the state in {file} cannot be read ({source}); move the file away to start with an empty state")]
    Corrupt {
        /// The database.
        file: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// Written by another version.
    #[error("the state in {file} has layout {found}, and this version reads layout {LAYOUT}")]
    Layout {
        /// The database.
        file: PathBuf,
        /// Its layout.
        found: i64,
    },
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] rusqlite::Error),
    /// No thread could be started.
    #[error("the writer could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// Everything that is stored.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) objects: Vec<(Arc<str>, Arc<str>, Entry)>,
    /// When each kind was last changed. Without it the revision of a removal would be given out twice.
    pub(super) changed: Vec<(Arc<str>, u64)>,
}

/// One write of a commit.
pub(super) struct Row<'a> {
    pub(super) shelf: &'a str,
    pub(super) key: &'a str,
    pub(super) object: Option<&'a Bytes>,
    pub(super) revision: u64,
}

pub(super) struct Disk {
    connection: Connection,
    /// The lock is held as long as this is open, and released by the kernel however the process ends.
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
        let corrupt = |source| DiskError::Corrupt { file: file.clone(), source };
        let connection = Connection::open(&file).map_err(corrupt)?;
        prepare(&connection).map_err(corrupt)?;
        let layout: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(corrupt)?;
        if layout != LAYOUT {
            return Err(DiskError::Layout { file, found: layout });
        }
        let contents = read(&connection).map_err(corrupt)?;
        Ok((Self { connection, _lock: lock }, contents))
    }

    /// Writes all rows or none, and returns when they are on disk.
    pub(super) fn commit<'a>(&mut self, rows: impl Iterator<Item = Row<'a>>) -> Result<(), DiskError> {
        let transaction = self.connection.transaction()?;
        {
            let mut put = transaction.prepare_cached(
                "INSERT OR REPLACE INTO objects (kind, key, revision, object) VALUES (?1, ?2, ?3, ?4)",
            )?;
            let mut remove = transaction.prepare_cached("DELETE FROM objects WHERE kind = ?1 AND key = ?2")?;
            let mut touch =
                transaction.prepare_cached("INSERT OR REPLACE INTO kinds (kind, changed) VALUES (?1, ?2)")?;
            let mut touched: Vec<(&str, u64)> = Vec::new();
            for Row { shelf, key, object, revision } in rows {
                match object {
                    Some(object) => put.execute(params![shelf, key, signed(revision), object.as_ref()])?,
                    None => remove.execute(params![shelf, key])?,
                };
                match touched.iter_mut().find(|(kind, _)| *kind == shelf) {
                    Some(entry) => entry.1 = revision,
                    None => touched.push((shelf, revision)),
                }
            }
            for (kind, changed) in touched {
                touch.execute(params![kind, signed(changed)])?;
            }
        }
        Ok(transaction.commit()?)
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
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
    Ok(())
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
    Ok(contents)
}

// SQLite's integers are signed; revisions count writes and never come near the limit.
fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or_default()
}
