//! # What outlives Pods: logs, records and settings of runs
//!
//! | item | purpose |
//! | --- | --- |
//! | [`Archive`] | stores the log of a run while it runs, its settings and its record; readable after the Pod is gone |
//! | [`Store`] | an archive with records in a database and lines as blobs, for one machine or several replicas |
//! | [`Directory`] | an archive of files; a store takes over what earlier versions of the platform wrote |
//! | [`open`] | opens the archive of files at a URL |
//! | [`lines`] | splits a log from a node or an archive into lines |
//! | [`Positions`] | assigns each line a position, so that a reader can resume |
//!
//! Invariants, each a case of the conformance suite (`tests/conformance`) that every archive must pass:
//! - lines acknowledged by [`Archive::append`] survive a crash of the process and of the machine (I4);
//! - a line is stored whole or not at all: a torn end is counted, and never returned as a line;
//! - two writers never duplicate or mix lines: an append names the length of the log, and fails if it differs;
//! - a log that was not closed is never reported as complete; lines that were lost since make it incomplete (files) or
//!   fail to be read (blobs);
//! - a log stays below its limit: the first and the last part are kept, and readers see a line in place of the rest;
//! - logs expire only by [`Archive::expire`], which keeps settings and records;
//! - a run has one record: the first one counts (I2, I5).

mod archive;
mod blobs;
mod database;
mod directory;
mod log;
mod parts;
mod runs;
mod segments;
mod store;
mod takeover;

pub use archive::{
    Archive, ArchivedLog, Chunk, End, Error, Expiry, ExpiryCause, Log, OpenError, Owner, Run, Stream, Usage, open,
};
pub use database::DatabaseError;
pub use directory::{Directory, LOG_LIMIT};
pub use log::{Line, MAX_LINE, Position, Positions, Selection, lines, read};
pub use store::{Collected, GRACE, Store};
