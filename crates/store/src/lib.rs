//! # What outlives Pods
//!
//! | item | what it is |
//! |---|---|
//! | [`Archive`] | the logs of runs, written while they run, what each run was made with, and how it ended; readable when their Pods are gone |
//! | [`open`] | the archive at a URL |
//! | [`lines`] | a log line by line, from a node or from an archive |
//! | [`Places`] | gives each line of a log a place, so that a reader can go on where it broke off |
//!
//! Invariants, each a case of the conformance suite (`tests/conformance.rs`), which every archive has to pass:
//! - what [`Archive::append`] acknowledged survives the death of the process and of the machine (I4);
//! - a line is there whole or not at all: a torn end is counted, and never shown as a line;
//! - two writers never double or mix lines: an append says how long the log is, and fails if that is not so;
//! - a log that nobody closed, or that was shortened since, is never called complete;
//! - a run has one record: the first, whoever comes later (I2, I5).

mod archive;
mod directory;
mod lines;

pub use archive::{Archive, End, Error, Kept, OpenError, Owner, Run, open};
pub use directory::Directory;
pub use lines::{LONGEST_LINE, Line, Place, Places, Selection, lines, read};
