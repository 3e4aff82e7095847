//! # What outlives Pods: logs, records, settings and results of runs
//!
//! | item | purpose |
//! | --- | --- |
//! | [`Archive`] | stores the log of a run while it runs, its settings and its record; readable after the Pod is gone |
//! | [`Store`] | an archive with records in a database and bytes as blobs, for one machine or several replicas |
//! | [`Store::put_stream`], [`Store::read_blob`] | bytes of any length by their digest; little of them is in memory |
//! | [`Store::publish`], [`Store::put_outputs`], [`Store::publish_patch`] | what a run leaves: artefacts, outputs, its change |
//! | [`Store::find_cache`], [`Store::put_cache`] | files for later runs of the same Agent or template |
//! | [`Store::expire_artifacts`], [`Store::limit_artifacts`], [`Store::evict_caches`] | removal by age, size and count |
//! | [`Store::runs`] | lists runs, page by page |
//! | [`Store::record_approval`], [`Store::approvals`] | who answered which permission request of a run |
//! | [`Store::belong_to`], [`Store::move_to`] | bind a store to a cluster, which removes what its Tasks leave |
//! | [`Store::check`], [`Store::collect`], [`Store::collect_unrecorded`], [`Store::export`] | administration |
//! | [`Directory`] | an archive of files; [`Store::take_over`] moves one into a store, [`Store::import_files`] copies it |
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
//!
//! Of a store also:
//! - a blob appears whole or not at all; a writer that fails, is dropped or is killed leaves nothing that
//!   [`Store::collect`] does not remove once it is older than [`GRACE`];
//! - once a publication is acknowledged, its bytes are there until it expires or its Task is removed, whatever is
//!   collected at the same time;
//! - an artefact, the outputs and the patch of a run are published once, and never after its record was written or a newer
//!   run began (I2): what the record of a run says is what is there;
//! - an entry of a cache never changes, and is never found in another scope;
//! - an artefact that expired stays listed with the time and the cause;
//! - what another cluster or another store owns is neither written nor removed.

mod approvals;
mod archive;
mod artifacts;
mod blobs;
mod caches;
mod collectable;
mod database;
mod directory;
mod export;
mod identity;
mod listing;
mod log;
mod parts;
mod retention;
mod runs;
mod segments;
mod senders;
mod store;
mod stream;
mod takeover;
mod upload;

pub use approvals::{Approval, MOST_APPROVAL_BYTES};
pub use archive::{
    Archive, ArchivedLog, Chunk, End, Error, Expiry, ExpiryCause, Log, OpenError, Owner, Run, RunResults, Stream,
    Usage, open,
};
pub use artifacts::{
    Artifact, ArtifactExpiry, ArtifactExpiryCause, MOST_MANIFEST_BYTES, MOST_OUTPUT_BYTES, NewArtifact, Patch,
    Published,
};
pub use blobs::Digest;
pub use caches::{CacheHit, CacheScope, NewCache};
pub use database::DatabaseError;
pub use directory::{Directory, LOG_LIMIT};
pub use export::Exported;
pub use listing::{ListedRun, NotACursor, RunCursor};
pub use log::{Line, MAX_LINE, Position, Positions, Selection, lines, read};
pub use retention::{EvictedCache, ExpiredArtifact, Limits, Retention};
pub use store::{Collected, GRACE, Store};
pub use stream::{PutError, Stored};
