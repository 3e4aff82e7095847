//! The trait of archives, and the types that identify a run in one.

use std::{collections::BTreeMap, fmt, io, path::Path, sync::Arc};

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Artifact, CacheScope, DatabaseError, Digest, Directory, Patch};

const RECORD_START: &str = "k8s-";
const RECORD_END: &str = ".run.json";

/// The logs, records and settings of runs.
///
/// A log is a sequence of whole lines, each prefixed with the time at which the node received it. It grows by
/// [`append`](Self::append) and ends with [`close`](Self::close). Of a log that is longer than the limit of the
/// archive, only the first and the last part are kept; offsets count the bytes that were left out. A record describes
/// how a run ended; settings describe what it was created with. Both are opaque bytes here.
pub trait Archive: fmt::Debug + Send + Sync {
    /// Appends whole lines to a log that is `at` bytes long. The lines are durable when the future resolves.
    ///
    /// Fails without writing if the log has another length or is closed: another process wrote to it.
    fn append(&self, log: &Log, at: u64, lines: Vec<u8>) -> BoxFuture<'_, Result<(), Error>>;

    /// Closes a log. The first close counts; its `End` is returned to every caller.
    fn close(&self, log: &Log, end: End) -> BoxFuture<'_, Result<End, Error>>;

    /// The state of a log; `None` if nothing was written to it.
    fn find(&self, log: &Log) -> BoxFuture<'_, Result<Option<ArchivedLog>, Error>>;

    /// Up to `limit` bytes of whole lines, starting at byte `from` or, if that was left out, at the next kept line.
    /// Empty at the end of the log.
    fn read(&self, log: &Log, from: u64, limit: usize) -> BoxFuture<'_, Result<Chunk, Error>>;

    /// The space that the logs of each run use. Runs without logs are not listed.
    fn usage(&self) -> BoxFuture<'_, Result<Vec<Usage>, Error>>;

    /// Removes the logs of a run and notes that they expired. `record` replaces the record of the run.
    fn expire(&self, run: &Run, expiry: Expiry, record: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>>;

    /// Stores the record of a run, durable when the future resolves. The first record counts; it is returned to every
    /// caller.
    fn record(&self, run: &Run, record: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// The records of a Task's runs, by epoch.
    fn records(&self, task: &Owner) -> BoxFuture<'_, Result<BTreeMap<i64, Vec<u8>>, Error>>;

    /// Stores the settings of a run, durable when the future resolves. The first settings count.
    fn keep_settings(&self, run: &Run, settings: Vec<u8>) -> BoxFuture<'_, Result<(), Error>>;

    /// The settings of a run, if any were stored.
    fn settings(&self, run: &Run) -> BoxFuture<'_, Result<Option<Vec<u8>>, Error>>;

    /// What a run left besides its log. An archive of files has no results.
    fn results(&self, run: &Run) -> BoxFuture<'_, Result<RunResults, Error>>;

    /// Removes everything that the runs of a Task left. Not an error if there is nothing.
    fn remove(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>>;

    /// The Tasks that have data in this archive.
    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>>;

    /// The Tasks whose data was copied here from another store. They need not exist in the cluster, so their data is not
    /// removed for that reason.
    fn copied(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>>;

    /// The Task exists: its data counts as its own, and is removed with it.
    fn adopt(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>>;

    /// The scopes that have caches. An archive of files has none.
    fn cache_scopes(&self) -> BoxFuture<'_, Result<Vec<CacheScope>, Error>>;

    /// Removes all caches of a scope: its Agent or template is gone.
    fn remove_caches(&self, scope: &CacheScope) -> BoxFuture<'_, Result<(), Error>>;

    /// Frees the space of what was removed.
    fn clean(&self) -> BoxFuture<'_, Result<(), Error>>;
}

/// A Task, identified by UID: a recreated Task of the same name is another owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    namespace: String,
    uid: String,
}

impl Owner {
    /// `None` if either argument is not safe as a path component.
    pub fn new(namespace: &str, uid: &str) -> Option<Self> {
        let fits = |name: &str| {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            plain && !name.is_empty() && !name.starts_with('.') && name.len() <= 253
        };
        (fits(namespace) && fits(uid)).then(|| Self { namespace: namespace.to_owned(), uid: uid.to_owned() })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn uid(&self) -> &str {
        &self.uid
    }
}

/// One run of a Task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    pub task: Owner,
    /// The number of the run, starting at 1.
    pub epoch: i64,
}

impl Run {
    /// The log of what the run printed.
    pub fn log(&self) -> Log {
        Log { run: self.clone(), stream: Stream::Text }
    }

    /// The path of the record below the base of the archive: `NAMESPACE/UID/k8s-EPOCH.run.json`.
    pub fn record(&self) -> String {
        format!("{}/{}/{RECORD_START}{}{RECORD_END}", self.task.namespace, self.task.uid, self.epoch)
    }

    /// The path of the settings below the base of the archive: `NAMESPACE/UID/k8s-EPOCH.settings.json`.
    pub fn settings(&self) -> String {
        format!("{}/{}/{RECORD_START}{}.settings.json", self.task.namespace, self.task.uid, self.epoch)
    }

    /// The epoch of the run whose record has this file name.
    pub(crate) fn of_record(name: &str) -> Option<i64> {
        name.strip_prefix(RECORD_START)?.strip_suffix(RECORD_END)?.parse().ok()
    }
}

/// What a log contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// The lines that people read.
    Text,
    /// The records of the conversation, one JSON object a line.
    Records,
}

/// One log of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Log {
    pub run: Run,
    pub stream: Stream,
}

/// The path below the base of the archive: `NAMESPACE/UID/k8s-EPOCH.log` or `NAMESPACE/UID/k8s-EPOCH.records.log`.
impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { task, epoch } = &self.run;
        let stream = match self.stream {
            Stream::Text => "",
            Stream::Records => ".records",
        };
        write!(f, "{}/{}/{RECORD_START}{epoch}{stream}.log", task.namespace, task.uid)
    }
}

/// A piece of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Offset of the first byte.
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// The space that the logs of a run use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub run: Run,
    pub bytes: u64,
    /// When a log of the run was last written.
    pub changed: Timestamp,
}

/// What a run left besides its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunResults {
    /// By name.
    pub artifacts: Vec<Artifact>,
    /// A JSON object.
    pub outputs: Option<Vec<u8>>,
    pub patch: Option<Patch>,
}

/// When and why the logs of a run were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    pub at: Timestamp,
    pub cause: ExpiryCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExpiryCause {
    /// The logs were older than the maximum age.
    Age,
    /// The logs of the namespace needed too much space.
    Space,
}

/// A sentence for people.
impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            ExpiryCause::Age => "it reached the maximum age of logs",
            ExpiryCause::Space => "the logs of its namespace needed more space than allowed",
        };
        write!(f, "the log of this run expired at {}: {cause}", self.at)
    }
}

/// How a log ended, as its writer reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whether the writer reached the end of the log. If not, the last lines may be missing.
    pub complete: bool,
    /// Kept lines.
    pub lines: u64,
    /// Length, including bytes that were left out.
    pub bytes: u64,
    /// Number of places where lines are missing.
    pub gaps: u32,
}

/// The state of an archived log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedLog {
    /// Length of the whole lines, including bytes that were left out.
    pub bytes: u64,
    /// Bytes between the first and the last part that were left out, because the log is longer than the limit.
    pub left_out: u64,
    /// Bytes after the last whole line, left by a writer that was killed. They are never returned to readers.
    pub torn: u64,
    /// Set once the log is closed.
    pub end: Option<End>,
    /// Set once the log is removed because of its age or for space.
    pub expired: Option<Expiry>,
}

impl ArchivedLog {
    /// Whether the log is archived from the first line to the last, without gaps.
    pub fn is_whole(&self) -> bool {
        self.is_complete() && self.left_out == 0 && self.end.is_some_and(|end| end.gaps == 0)
    }

    /// Whether the end of the log is archived.
    pub fn is_complete(&self) -> bool {
        self.torn == 0 && self.expired.is_none() && self.end.is_some_and(|end| end.complete && end.bytes == self.bytes)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("log {log} has {found} bytes instead of {expected}: another process writes to it")]
    Moved {
        log: Log,
        /// Length that the writer assumed, in bytes.
        expected: u64,
        /// Actual length, in bytes.
        found: u64,
    },
    #[error("log {0} is closed")]
    Closed(Log),
    #[error("the records cannot be used: {0}")]
    Database(#[from] DatabaseError),
    #[error("the blobs cannot be used: {0}")]
    Blobs(#[from] object_store::Error),
    /// Nothing keeps the bytes, or they were never stored.
    #[error("the blob {0} is not stored")]
    NoBlob(Digest),
    /// A name or key that cannot be recorded.
    #[error("'{0}' is not a valid {1}")]
    Name(String, &'static str),
    #[error("{what} of {bytes} bytes: at most {limit} are stored")]
    TooLarge { what: &'static str, bytes: u64, limit: u64 },
    #[error(
        "the store belongs to the cluster whose Namespace kube-system has the UID {recorded}, and this cluster's has {cluster}: give each cluster a store of its own, or copy this one into a new one with `kubeopencode store export`"
    )]
    OtherCluster { recorded: String, cluster: String },
    #[error("the blobs belong to another store: give each store a directory or a prefix of a bucket of its own")]
    OtherStore,
    /// The store contradicts itself.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("cannot {what} {place}: {source}")]
    Io {
        /// The operation, as a verb: "read", "lock".
        what: &'static str,
        place: String,
        source: io::Error,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { ref source, .. } => Self::new(source.kind(), error),
            other => Self::other(other),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The scheme of the URL is not supported.
    #[error("unsupported log archive '{0}': use a directory, as a path or as file:///PATH")]
    Scheme(String),
    /// The scheme alone: the rest may contain a password.
    #[error("unsupported scheme '{0}' of records: use postgres://…, or a file, as a path or as sqlite:///PATH")]
    Records(String),
    #[error("unsupported scheme '{0}' of blobs: use s3://…, or a directory, as a path or as file:///PATH")]
    BlobScheme(String),
    #[error("unknown option '{0}' of a bucket: use endpoint or region")]
    Option(String),
    /// The directory cannot be created.
    #[error(transparent)]
    Directory(#[from] Error),
    #[error("the records cannot be opened: {0}")]
    Database(#[from] DatabaseError),
    #[error("the blobs cannot be opened: {0}")]
    Blobs(#[source] object_store::Error),
    /// The blobs are those of another store.
    #[error(transparent)]
    Store(Error),
}

/// Opens the archive at a URL: `file:///PATH`, or a path. Logs that are written through it are limited to `log_limit`
/// bytes each.
pub fn open(url: &str, log_limit: u64) -> Result<Arc<dyn Archive>, OpenError> {
    let path = path_of(url).ok_or_else(|| OpenError::Scheme(url.to_owned()))?;
    Ok(Arc::new(Directory::open(path)?.with_log_limit(log_limit)))
}

/// The directory that a path or `file:///PATH` names.
pub(crate) fn path_of(url: &str) -> Option<&Path> {
    let path = match url.split_once("://") {
        None if !url.is_empty() => url,
        Some(("file", path)) if path.starts_with('/') => path,
        _ => return None,
    };
    Some(Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LOG_LIMIT;

    #[test]
    fn a_name_that_leads_elsewhere_is_no_owner() {
        assert!(Owner::new("default", "7c9e6679-7425-40de-944b-e07fc1f90ae7").is_some());
        for (namespace, uid) in
            [("", "u"), ("n", ""), ("..", "u"), ("n", "../x"), ("n", "a/b"), (".n", "u"), ("n", "\0")]
        {
            assert_eq!(Owner::new(namespace, uid), None, "{namespace} {uid}");
        }
    }

    #[test]
    fn a_url_names_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        open(path, LOG_LIMIT).unwrap();
        open(&format!("file://{path}/deeper/still"), LOG_LIMIT).unwrap();
        assert!(dir.path().join("deeper/still").is_dir());
        for url in ["", "s3://bucket/prefix", "file://host/path", "http://x"] {
            let refusal = open(url, LOG_LIMIT).unwrap_err().to_string();
            assert!(refusal.contains("use a directory"), "{url}: {refusal}");
        }
    }

    #[test]
    fn only_a_log_that_was_closed_and_not_touched_since_is_whole() {
        let end = End { complete: true, lines: 1, bytes: 5, gaps: 0 };
        let kept = ArchivedLog { bytes: 5, left_out: 0, torn: 0, end: Some(end), expired: None };
        assert!(kept.is_whole() && kept.is_complete());
        assert!(!ArchivedLog { end: None, ..kept }.is_complete());
        assert!(!ArchivedLog { bytes: 4, ..kept }.is_complete());
        assert!(!ArchivedLog { torn: 1, ..kept }.is_complete());
        assert!(!ArchivedLog { end: Some(End { complete: false, ..end }), ..kept }.is_complete());
        let gappy = ArchivedLog { end: Some(End { gaps: 1, ..end }), ..kept };
        assert!(gappy.is_complete() && !gappy.is_whole());
        let cut = ArchivedLog { left_out: 1, ..kept };
        assert!(cut.is_complete() && !cut.is_whole());
    }
}
