//! An archive in a directory. Each run has the files of its logs (see `parts`), an end file once a log is closed, a
//! record, settings, and a note once its logs expired.
//!
//! Several processes may share one directory, also on a network file system that supports locks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, FileType, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use futures::{FutureExt as _, future::BoxFuture};

use jiff::Timestamp;

use crate::{
    Archive, ArchivedLog, CacheScope, Chunk, End, Error, Expiry, Log, Owner, Run, RunResults, Usage,
    parts::{self, Part, Sizes},
};

/// Default limit of a log, in bytes: the log of days of work, and a small part of a disk.
pub const LOG_LIMIT: u64 = 64 << 20;

/// The server may run as another user of the same group; other users must not read the output of agents.
const DIRECTORY_MODE: u32 = 0o770;
const FILE_MODE: u32 = 0o660;
/// A reader lists the parts of a log again if the writer removed one meanwhile.
const LISTINGS: usize = 5;

/// An archive in a directory.
#[derive(Clone, Debug)]
pub struct Directory {
    base: PathBuf,
    log_limit: u64,
}

impl Directory {
    /// Opens the archive in `base` and creates the directory if necessary.
    pub fn open(base: &Path) -> Result<Self, Error> {
        let base = std::path::absolute(base).map_err(failed("find", base))?;
        create_dir(&base)?;
        Ok(Self { base, log_limit: LOG_LIMIT })
    }

    /// Limits each log to this many bytes. Half of them hold the beginning, the others the end.
    #[must_use]
    pub fn with_log_limit(self, log_limit: u64) -> Self {
        Self { log_limit, ..self }
    }

    /// Runs a blocking operation on the blocking thread pool.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, Error>> {
        let this = self.clone();
        async move {
            let base = this.base.clone();
            let done = tokio::task::spawn_blocking(move || work(&this)).await;
            done.unwrap_or_else(|error| Err(failed("use", &base)(io::Error::other(error))))
        }
        .boxed()
    }

    fn dir(&self, task: &Owner) -> PathBuf {
        self.base.join(task.namespace()).join(task.uid())
    }

    fn log(&self, log: &Log) -> PathBuf {
        self.base.join(log.to_string())
    }

    fn end_file(&self, log: &Log) -> PathBuf {
        self.log(log).with_extension("end.json")
    }

    fn expiry_file(&self, run: &Run) -> PathBuf {
        self.log(&run.log()).with_extension("expired.json")
    }

    /// Opens the first file of a log and creates it if necessary. Writers lock this file.
    fn file(&self, log: &Log) -> Result<File, Error> {
        let path = self.log(log);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(FILE_MODE);
        match options.open(&path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("open", &path)(error)),
        }
        let dir = self.dir(&log.run.task);
        create_dir(&dir)?;
        let file = options.create(true).open(&path).map_err(failed("create", &path))?;
        sync(&dir)?;
        Ok(file)
    }

    fn append_now(&self, log: &Log, at: u64, lines: &[u8]) -> Result<(), Error> {
        let path = self.log(log);
        if self.expiry(&log.run)?.is_some() {
            return Err(Error::Closed(log.clone()));
        }
        let first = self.file(log)?;
        // The lock is released when the file is closed, at the end of this function.
        first.lock().map_err(failed("lock", &path))?;
        if self.end(log)?.is_some() {
            return Err(Error::Closed(log.clone()));
        }
        let mut parts = Part::list(&path).map_err(failed("list", &path))?;
        let Some(last) = parts.last() else { return Err(failed("find", &path)(io::ErrorKind::NotFound.into())) };
        let file = OpenOptions::new().read(true).write(true).open(&last.path).map_err(failed("open", &last.path))?;
        let Sizes { whole, torn } = parts::sizes(&file).map_err(failed("read", &last.path))?;
        let found = last.start + whole;
        if found != at {
            return Err(Error::Moved { log: log.clone(), expected: at, found });
        }
        if torn > 0 {
            file.set_len(whole).map_err(failed("write", &last.path))?;
        }
        let create =
            |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path);
        parts::write(&mut parts, file, whole, lines, self.log_limit, create).map_err(failed("write", &path))?;
        if parts.len() > 1 {
            sync(&self.dir(&log.run.task))?;
            parts::drop_middle(&parts).map_err(failed("shorten", &path))?;
        }
        Ok(())
    }

    fn close_now(&self, log: &Log, end: End) -> Result<End, Error> {
        let file = self.file(log)?;
        let path = self.log(log);
        file.lock().map_err(failed("lock", &path))?;
        if let Some(earlier) = self.end(log)? {
            return Ok(earlier);
        }
        let end_file = self.end_file(log);
        let written = || replace(&end_file, &serde_json::to_vec(&end)?);
        written().map_err(failed("write", &end_file))?;
        sync(&self.dir(&log.run.task))?;
        Ok(end)
    }

    /// Writes a file unless it exists. Returns the content of the file that exists afterwards.
    fn put_once(&self, task: &Owner, place: &str, text: &[u8]) -> Result<Vec<u8>, Error> {
        let place = self.base.join(place);
        let dir = self.dir(task);
        if let Some(earlier) = read_if_exists(&place)? {
            // The writer may have died before the directory entry was durable.
            sync(&dir)?;
            return Ok(earlier);
        }
        create_dir(&dir)?;
        let temporary = place.with_extension("draft");
        let written = || {
            // A concurrent writer waits for the lock, and then finds the finished file.
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&temporary)?;
            file.lock()?;
            if place.exists() {
                return fs::remove_file(&temporary).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                });
            }
            file.set_len(0)?;
            finish(file, text, &temporary, &place)
        };
        written().map_err(failed("write", &place))?;
        sync(&dir)?;
        read_if_exists(&place)?.ok_or_else(|| failed("read", &place)(io::ErrorKind::NotFound.into()))
    }

    fn records_now(&self, task: &Owner) -> Result<BTreeMap<i64, Vec<u8>>, Error> {
        let dir = self.dir(task);
        let mut records = BTreeMap::new();
        for name in names(&dir, FileType::is_file)? {
            if let Some(epoch) = Run::of_record(&name)
                && let Some(record) = read_if_exists(&dir.join(name))?
            {
                records.insert(epoch, record);
            }
        }
        Ok(records)
    }

    /// The runs of a Task of which something is kept.
    pub(crate) async fn epochs(&self, task: &Owner) -> Result<BTreeSet<i64>, Error> {
        let dir = self.dir(task);
        self.work(move |_| {
            let of_run = |name: &String| name.strip_prefix("k8s-")?.split_once('.')?.0.parse().ok();
            Ok(names(&dir, FileType::is_file)?.iter().filter_map(of_run).collect())
        })
        .await
    }

    fn end(&self, log: &Log) -> Result<Option<End>, Error> {
        read_json(&self.end_file(log))
    }

    fn expiry(&self, run: &Run) -> Result<Option<Expiry>, Error> {
        read_json(&self.expiry_file(run))
    }

    fn find_now(&self, log: &Log) -> Result<Option<ArchivedLog>, Error> {
        // Before the log: a closed log has its full length.
        let (end, expired) = (self.end(log)?, self.expiry(&log.run)?);
        if expired.is_some() {
            return Ok(Some(ArchivedLog { bytes: 0, left_out: 0, torn: 0, end, expired }));
        }
        let measured = self.parts(log, parts::measure)?;
        Ok(match measured {
            Some(parts::Measured { bytes, left_out, torn }) => {
                Some(ArchivedLog { bytes, left_out, torn, end, expired })
            }
            None => end.map(|end| ArchivedLog { bytes: 0, left_out: 0, torn: 0, end: Some(end), expired }),
        })
    }

    fn read_now(&self, log: &Log, from: u64, limit: usize) -> Result<Chunk, Error> {
        self.parts(log, |parts| parts::read(parts, from, limit)).map(Option::unwrap_or_default)
    }

    /// Reads the parts of a log. The writer may remove a part after it was listed.
    fn parts<T>(&self, log: &Log, read: impl Fn(&[Part]) -> io::Result<Option<T>>) -> Result<Option<T>, Error> {
        let path = self.log(log);
        let attempt = || read(&Part::list(&path)?);
        let mut outcome = attempt();
        for _ in 1..LISTINGS {
            match &outcome {
                Err(error) if error.kind() == io::ErrorKind::NotFound => outcome = attempt(),
                _ => break,
            }
        }
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map_err(failed("read", &path)),
        }
    }

    fn usage_now(&self) -> Result<Vec<Usage>, Error> {
        let mut all = Vec::new();
        for task in self.owners_now()? {
            let dir = self.dir(&task);
            let mut runs: BTreeMap<i64, (u64, Timestamp)> = BTreeMap::new();
            for name in names(&dir, FileType::is_file)? {
                let Some(epoch) = Part::epoch_of(&name) else { continue };
                // Removed concurrently.
                let Ok(found) = fs::metadata(dir.join(&name)) else { continue };
                let changed = found.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
                let (bytes, latest) = runs.entry(epoch).or_insert((0, Timestamp::MIN));
                *bytes += found.len();
                *latest = changed.unwrap_or(Timestamp::MIN).max(*latest);
            }
            let of_task = |(epoch, (bytes, changed))| Usage { run: Run { task: task.clone(), epoch }, bytes, changed };
            all.extend(runs.into_iter().map(of_task));
        }
        Ok(all)
    }

    fn expire_now(&self, run: &Run, expiry: Expiry, record: Option<&[u8]>) -> Result<(), Error> {
        let dir = self.dir(&run.task);
        // The notes are durable before the first line is removed.
        let mut notes = Vec::new();
        if self.expiry(run)?.is_none() {
            let expiry = serde_json::to_vec(&expiry).map_err(|error| failed("write", &dir)(error.into()))?;
            notes.push((self.expiry_file(run), expiry));
        }
        notes.extend(record.map(|record| (self.base.join(run.record()), record.to_vec())));
        for (path, text) in notes {
            replace(&path, &text).map_err(failed("write", &path))?;
        }
        sync(&dir)?;
        for name in names(&dir, FileType::is_file)?.into_iter().filter(|name| Part::epoch_of(name) == Some(run.epoch)) {
            let path = dir.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove_now(&self, task: &Owner) -> Result<(), Error> {
        let dir = self.dir(task);
        match fs::remove_dir_all(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove", &dir)(error)),
        }
        // Remove the directory of the namespace with its last Task. Fails, as intended, if it is not empty.
        let _ = fs::remove_dir(self.base.join(task.namespace()));
        Ok(())
    }

    fn owners_now(&self) -> Result<Vec<Owner>, Error> {
        let mut owners = Vec::new();
        for namespace in names(&self.base, FileType::is_dir)? {
            for uid in names(&self.base.join(&namespace), FileType::is_dir)? {
                owners.extend(Owner::new(&namespace, &uid));
            }
        }
        Ok(owners)
    }
}

impl Archive for Directory {
    fn append(&self, log: &Log, at: u64, lines: Vec<u8>) -> BoxFuture<'_, Result<(), Error>> {
        let log = log.clone();
        self.work(move |this| this.append_now(&log, at, &lines))
    }

    fn close(&self, log: &Log, end: End) -> BoxFuture<'_, Result<End, Error>> {
        let log = log.clone();
        self.work(move |this| this.close_now(&log, end))
    }

    fn find(&self, log: &Log) -> BoxFuture<'_, Result<Option<ArchivedLog>, Error>> {
        let log = log.clone();
        self.work(move |this| this.find_now(&log))
    }

    fn read(&self, log: &Log, from: u64, limit: usize) -> BoxFuture<'_, Result<Chunk, Error>> {
        let log = log.clone();
        self.work(move |this| this.read_now(&log, from, limit))
    }

    fn usage(&self) -> BoxFuture<'_, Result<Vec<Usage>, Error>> {
        self.work(Self::usage_now)
    }

    fn expire(&self, run: &Run, expiry: Expiry, record: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>> {
        let run = run.clone();
        self.work(move |this| this.expire_now(&run, expiry, record.as_deref()))
    }

    fn record(&self, run: &Run, record: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        let run = run.clone();
        self.work(move |this| this.put_once(&run.task, &run.record(), &record))
    }

    fn keep_settings(&self, run: &Run, settings: Vec<u8>) -> BoxFuture<'_, Result<(), Error>> {
        let run = run.clone();
        self.work(move |this| this.put_once(&run.task, &run.settings(), &settings).map(drop))
    }

    fn settings(&self, run: &Run) -> BoxFuture<'_, Result<Option<Vec<u8>>, Error>> {
        let run = run.clone();
        self.work(move |this| read_if_exists(&this.base.join(run.settings())))
    }

    fn records(&self, task: &Owner) -> BoxFuture<'_, Result<BTreeMap<i64, Vec<u8>>, Error>> {
        let task = task.clone();
        self.work(move |this| this.records_now(&task))
    }

    fn results(&self, _: &Run) -> BoxFuture<'_, Result<RunResults, Error>> {
        async { Ok(RunResults::default()) }.boxed()
    }

    fn remove(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>> {
        let task = task.clone();
        self.work(move |this| this.remove_now(&task))
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>> {
        self.work(Self::owners_now)
    }

    fn copied(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn adopt(&self, _: &Owner) -> BoxFuture<'_, Result<(), Error>> {
        async { Ok(()) }.boxed()
    }

    fn cache_scopes(&self) -> BoxFuture<'_, Result<Vec<CacheScope>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn remove_caches(&self, _: &CacheScope) -> BoxFuture<'_, Result<(), Error>> {
        async { Ok(()) }.boxed()
    }

    fn clean(&self) -> BoxFuture<'_, Result<(), Error>> {
        // The space of a file is free as soon as the file is removed.
        async { Ok(()) }.boxed()
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let place = path.display().to_string();
    move |source| Error::Io { what, place, source }
}

/// Creates a directory and its parents, durably.
pub(crate) fn create_dir(dir: &Path) -> Result<(), Error> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_dir(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(dir) {
        Ok(()) => {}
        // Another process created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(error) => return Err(failed("create", dir)(error)),
    }
    parent.map_or(Ok(()), sync)
}

/// Makes the entries of a directory durable.
fn sync(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("write", dir))
}

/// Writes a file that replaces an earlier one. The caller makes the entry of the directory durable.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("draft");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&temporary)?;
    finish(file, text, &temporary, path)
}

/// Writes a temporary file and renames it, so that the target exists whole or not at all.
fn finish(mut temporary: File, text: &[u8], from: &Path, to: &Path) -> io::Result<()> {
    temporary.write_all(text)?;
    temporary.sync_all()?;
    fs::rename(from, to)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let read = read_if_exists(path)?.map(|bytes| serde_json::from_slice(&bytes)).transpose();
    read.map_err(|error| failed("read", path)(error.into()))
}

fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// The names of the entries of one file type.
fn names(dir: &Path, wanted: fn(&FileType) -> bool) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(dir) {
        // Removed concurrently.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed("list", dir))?,
    };
    let fitting = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| wanted(&kind)));
    Ok(fitting.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}
