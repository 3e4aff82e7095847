//! What an archive is.

use std::{collections::BTreeMap, fmt, io, path::Path, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::Directory;

const RECORD_START: &str = "k8s-";
const RECORD_END: &str = ".run.json";

/// The logs and records of runs.
///
/// A log is a sequence of whole lines, each with the moment at which the node got it in front. It grows by
/// [`append`](Self::append) and ends with [`close`](Self::close). A record is a text that says how a run ended, settings
/// are one that says what it was made with.
pub trait Archive: fmt::Debug + Send + Sync {
    /// Adds whole lines to a log that is `at` bytes long. They are durable when it answers.
    ///
    /// A log of another length, or one that was closed, is left alone: somebody else wrote to it.
    fn append(&self, run: &Run, at: u64, lines: Vec<u8>) -> BoxFuture<'_, Result<(), Error>>;

    /// Says how a log ended. The first word counts; it is answered.
    fn close(&self, run: &Run, end: End) -> BoxFuture<'_, Result<End, Error>>;

    /// What is kept of a run; nothing if nothing was ever written.
    fn find(&self, run: &Run) -> BoxFuture<'_, Result<Option<Kept>, Error>>;

    /// Up to `limit` bytes of whole lines from byte `from` on. Nothing means that no more are there.
    fn read(&self, run: &Run, from: u64, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// Keeps the record of a run. It is durable when it answers. The first record of a run counts; it is answered.
    fn record(&self, run: &Run, record: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// The records of a Task's runs, by the number of the run.
    fn records(&self, task: &Owner) -> BoxFuture<'_, Result<BTreeMap<i64, Vec<u8>>, Error>>;

    /// Keeps the settings of a run. They are durable when it answers. The first word counts.
    fn keep_settings(&self, run: &Run, settings: Vec<u8>) -> BoxFuture<'_, Result<(), Error>>;

    /// The settings of a run; nothing if none were kept.
    fn settings(&self, run: &Run) -> BoxFuture<'_, Result<Option<Vec<u8>>, Error>>;

    /// Removes the logs, records and settings of all runs of a Task. It is no error if there are none.
    fn remove(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>>;

    /// The Tasks of which something is kept here.
    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>>;
}

/// A Task, as the archive knows it: another one of the same name has a UID of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    namespace: String,
    uid: String,
}

impl Owner {
    /// The Task with this UID. Both words become parts of paths, so not every text will do.
    pub fn new(namespace: &str, uid: &str) -> Option<Self> {
        let fits = |word: &str| {
            let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            plain && !word.is_empty() && !word.starts_with('.') && word.len() <= 253
        };
        (fits(namespace) && fits(uid)).then(|| Self { namespace: namespace.to_owned(), uid: uid.to_owned() })
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }
}

/// One run of a Task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    /// The Task.
    pub task: Owner,
    /// The number of the run.
    pub epoch: i64,
}

/// Where the log of a run is, from the base of its archive on: `NAMESPACE/UID/k8s-EPOCH.log`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/k8s-{}.log", self.task.namespace, self.task.uid, self.epoch)
    }
}

impl Run {
    /// Where the record of the run is, from the base of its archive on: `NAMESPACE/UID/k8s-EPOCH.run.json`.
    pub fn record(&self) -> String {
        format!("{}/{}/{RECORD_START}{}{RECORD_END}", self.task.namespace, self.task.uid, self.epoch)
    }

    /// Where the settings of the run are, from the base of its archive on: `NAMESPACE/UID/k8s-EPOCH.settings.json`.
    pub fn settings(&self) -> String {
        format!("{}/{}/{RECORD_START}{}.settings.json", self.task.namespace, self.task.uid, self.epoch)
    }

    /// The number of the run whose record has this name.
    pub(crate) fn of_record(name: &str) -> Option<i64> {
        name.strip_prefix(RECORD_START)?.strip_suffix(RECORD_END)?.parse().ok()
    }
}

/// How a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whether its end was seen. If not, what came last may be missing.
    pub complete: bool,
    /// Lines kept.
    pub lines: u64,
    /// Bytes kept.
    pub bytes: u64,
    /// How often lines are missing in between.
    pub gaps: u32,
}

/// What is kept of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of whole lines.
    pub bytes: u64,
    /// Bytes after the last whole line, which a writer left that died while it wrote. Nobody gets to see them.
    pub torn: u64,
    /// How it ended, if it was closed.
    pub end: Option<End>,
}

impl Kept {
    /// Whether all of the log is here, from the first line to the last.
    pub fn is_whole(&self) -> bool {
        self.is_complete() && self.end.is_some_and(|end| end.gaps == 0)
    }

    /// Whether the end of the log is here.
    pub fn is_complete(&self) -> bool {
        self.torn == 0 && self.end.is_some_and(|end| end.complete && end.bytes == self.bytes)
    }
}

/// Why an archive did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else wrote to the log.
    #[error("the log {run} is {found} bytes long and not {expected}: another process writes to it")]
    Moved {
        /// Which log.
        run: Run,
        /// How long the writer thought it was.
        expected: u64,
        /// How long it is.
        found: u64,
    },
    /// The log was closed.
    #[error("the log {0} is closed")]
    Closed(Run),
    /// The file system refused.
    #[error("cannot {what} {place}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        place: String,
        /// What the system said.
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

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// We know no archive of that kind.
    #[error("the log archive '{0}' cannot be used: name a directory, as a path or as file:///PATH")]
    Scheme(String),
    /// The directory cannot be made.
    #[error(transparent)]
    Directory(#[from] Error),
}

/// The archive at a URL: `file:///PATH`, or a path.
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
            assert!(refusal.contains("name a directory"), "{url}: {refusal}");
        }
    }

    #[test]
    fn only_a_log_that_was_closed_and_not_touched_since_is_whole() {
        let end = End { complete: true, lines: 1, bytes: 5, gaps: 0 };
        let kept = Kept { bytes: 5, torn: 0, end: Some(end) };
        assert!(kept.is_whole() && kept.is_complete());
        assert!(!Kept { end: None, ..kept }.is_complete());
        assert!(!Kept { bytes: 4, ..kept }.is_complete());
        assert!(!Kept { torn: 1, ..kept }.is_complete());
        assert!(!Kept { end: Some(End { complete: false, ..end }), ..kept }.is_complete());
        let gappy = Kept { end: Some(End { gaps: 1, ..end }), ..kept };
        assert!(gappy.is_complete() && !gappy.is_whole());
    }
}
