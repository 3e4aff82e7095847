//! The trait of log archives, and the types that identify a run in one.

use std::{collections::BTreeMap, fmt, io, path::Path, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::Directory;

const RECORD_START: &str = "k8s-";
const RECORD_END: &str = ".run.json";

/// The logs, records and settings of runs.
///
/// A log is a sequence of whole lines, each prefixed with the time at which the node received it. It grows by
/// [`append`](Self::append) and ends with [`close`](Self::close). A record describes how a run ended; settings describe
/// what it was created with. Both are opaque bytes here.
pub trait Archive: fmt::Debug + Send + Sync {
    /// Appends whole lines to a log that is `at` bytes long. The lines are durable when the future resolves.
    ///
    /// Fails without writing if the log has another length or is closed: another process wrote to it.
    fn append(&self, run: &Run, at: u64, lines: Vec<u8>) -> BoxFuture<'_, Result<(), Error>>;

    /// Closes a log. The first close counts; its `End` is returned to every caller.
    fn close(&self, run: &Run, end: End) -> BoxFuture<'_, Result<End, Error>>;

    /// The state of a run's log; `None` if nothing was written for the run.
    fn find(&self, run: &Run) -> BoxFuture<'_, Result<Option<ArchivedLog>, Error>>;

    /// Up to `limit` bytes of whole lines, starting at byte `from`. Empty at the end of the log.
    fn read(&self, run: &Run, from: u64, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// Stores the record of a run, durable when the future resolves. The first record counts; it is returned to every
    /// caller.
    fn record(&self, run: &Run, record: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// The records of a Task's runs, by epoch.
    fn records(&self, task: &Owner) -> BoxFuture<'_, Result<BTreeMap<i64, Vec<u8>>, Error>>;

    /// Stores the settings of a run, durable when the future resolves. The first settings count.
    fn keep_settings(&self, run: &Run, settings: Vec<u8>) -> BoxFuture<'_, Result<(), Error>>;

    /// The settings of a run, if any were stored.
    fn settings(&self, run: &Run) -> BoxFuture<'_, Result<Option<Vec<u8>>, Error>>;

    /// Removes the logs, records and settings of all runs of a Task. Not an error if there are none.
    fn remove(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>>;

    /// The Tasks that have data in this archive.
    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>>;
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

/// The path of a run's log below the base of the archive: `NAMESPACE/UID/k8s-EPOCH.log`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/k8s-{}.log", self.task.namespace, self.task.uid, self.epoch)
    }
}

impl Run {
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

/// How a log ended, as its writer reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whether the writer reached the end of the log. If not, the last lines may be missing.
    pub complete: bool,
    pub lines: u64,
    pub bytes: u64,
    /// Number of places where lines are missing.
    pub gaps: u32,
}

/// The state of an archived log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedLog {
    /// Length of the whole lines.
    pub bytes: u64,
    /// Bytes after the last whole line, left by a writer that was killed. They are never returned to readers.
    pub torn: u64,
    /// Set once the log is closed.
    pub end: Option<End>,
}

impl ArchivedLog {
    /// Whether the log is archived from the first line to the last, without gaps.
    pub fn is_whole(&self) -> bool {
        self.is_complete() && self.end.is_some_and(|end| end.gaps == 0)
    }

    /// Whether the end of the log is archived.
    pub fn is_complete(&self) -> bool {
        self.torn == 0 && self.end.is_some_and(|end| end.complete && end.bytes == self.bytes)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("log {run} has {found} bytes instead of {expected}: another process writes to it")]
    Moved {
        run: Run,
        /// Length that the writer assumed, in bytes.
        expected: u64,
        /// Actual length, in bytes.
        found: u64,
    },
    #[error("log {0} is closed")]
    Closed(Run),
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
    /// The directory cannot be created.
    #[error(transparent)]
    Directory(#[from] Error),
}

/// Opens the archive at a URL: `file:///PATH`, or a path.
pub fn open(url: &str) -> Result<Arc<dyn Archive>, OpenError> {
    let path = match url.split_once("://") {
        None if !url.is_empty() => url,
        Some(("file", path)) if path.starts_with('/') => path,
        _ => return Err(OpenError::Scheme(url.to_owned())),
    };
    Ok(Arc::new(Directory::open(Path::new(path))?))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        open(path).unwrap();
        open(&format!("file://{path}/deeper/still")).unwrap();
        assert!(dir.path().join("deeper/still").is_dir());
        for url in ["", "s3://bucket/prefix", "file://host/path", "http://x"] {
            let refusal = open(url).unwrap_err().to_string();
            assert!(refusal.contains("use a directory"), "{url}: {refusal}");
        }
    }

    #[test]
    fn only_a_log_that_was_closed_and_not_touched_since_is_whole() {
        let end = End { complete: true, lines: 1, bytes: 5, gaps: 0 };
        let kept = ArchivedLog { bytes: 5, torn: 0, end: Some(end) };
        assert!(kept.is_whole() && kept.is_complete());
        assert!(!ArchivedLog { end: None, ..kept }.is_complete());
        assert!(!ArchivedLog { bytes: 4, ..kept }.is_complete());
        assert!(!ArchivedLog { torn: 1, ..kept }.is_complete());
        assert!(!ArchivedLog { end: Some(End { complete: false, ..end }), ..kept }.is_complete());
        let gappy = ArchivedLog { end: Some(End { gaps: 1, ..end }), ..kept };
        assert!(gappy.is_complete() && !gappy.is_whole());
    }
}
