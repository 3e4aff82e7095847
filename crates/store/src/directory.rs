//! An archive in a directory. Each run has a log file, an end file once the log is closed, a record and settings.
//!
//! Several processes may share one directory, also on a network file system that supports locks.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, FileType, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use futures::{FutureExt as _, future::BoxFuture};

use crate::{Archive, ArchivedLog, End, Error, Owner, Run};

/// The server may run as another user of the same group; other users must not read the output of agents.
const DIRECTORY_MODE: u32 = 0o770;
const FILE_MODE: u32 = 0o660;
/// Bytes per read when looking for the last line end.
const STEP: u64 = 64 << 10;

/// An archive in a directory.
#[derive(Clone, Debug)]
pub struct Directory {
    base: PathBuf,
}

impl Directory {
    /// Opens the archive in `base` and creates the directory if necessary.
    pub fn open(base: &Path) -> Result<Self, Error> {
        let base = std::path::absolute(base).map_err(failed("find", base))?;
        create_dir(&base)?;
        Ok(Self { base })
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

    fn log(&self, run: &Run) -> PathBuf {
        self.base.join(run.to_string())
    }

    fn end_file(&self, run: &Run) -> PathBuf {
        self.log(run).with_extension("end.json")
    }

    /// Opens the log file of a run and creates it if necessary.
    fn file(&self, run: &Run) -> Result<File, Error> {
        let path = self.log(run);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(FILE_MODE);
        match options.open(&path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("open", &path)(error)),
        }
        let dir = self.dir(&run.task);
        create_dir(&dir)?;
        let file = options.create(true).open(&path).map_err(failed("create", &path))?;
        sync(&dir)?;
        Ok(file)
    }

    fn append_now(&self, run: &Run, at: u64, lines: &[u8]) -> Result<(), Error> {
        let path = self.log(run);
        let file = self.file(run)?;
        // The lock is released when the file is closed, at the end of this function.
        file.lock().map_err(failed("lock", &path))?;
        if self.end(run)?.is_some() {
            return Err(Error::Closed(run.clone()));
        }
        let Sizes { whole, torn } = sizes(&file).map_err(failed("read", &path))?;
        if whole != at {
            return Err(Error::Moved { run: run.clone(), expected: at, found: whole });
        }
        let written = || {
            if torn > 0 {
                file.set_len(whole)?;
            }
            file.write_all_at(lines, at)?;
            file.sync_data()
        };
        written().map_err(failed("write", &path))
    }

    fn close_now(&self, run: &Run, end: End) -> Result<End, Error> {
        let log = self.file(run)?;
        let path = self.log(run);
        log.lock().map_err(failed("lock", &path))?;
        if let Some(earlier) = self.end(run)? {
            return Ok(earlier);
        }
        let (end_file, temporary) = (self.end_file(run), self.log(run).with_extension("end.draft"));
        let written = || {
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&temporary)?;
            finish(file, &serde_json::to_vec(&end)?, &temporary, &end_file)
        };
        written().map_err(failed("write", &end_file))?;
        sync(&self.dir(&run.task))?;
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

    fn end(&self, run: &Run) -> Result<Option<End>, Error> {
        let path = self.end_file(run);
        let end_file = read_if_exists(&path)?.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        end_file.map_err(|error| failed("read", &path)(error.into()))
    }

    fn find_now(&self, run: &Run) -> Result<Option<ArchivedLog>, Error> {
        // Before the log: a closed log has its full length.
        let end = self.end(run)?;
        let path = self.log(run);
        match File::open(&path).and_then(|file| sizes(&file)) {
            Ok(Sizes { whole, torn }) => Ok(Some(ArchivedLog { bytes: whole, torn, end })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(end.map(|end| ArchivedLog { bytes: 0, torn: 0, end: Some(end) }))
            }
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    fn read_now(&self, run: &Run, from: u64, limit: usize) -> Result<Vec<u8>, Error> {
        let path = self.log(run);
        let read = || {
            let file = File::open(&path)?;
            let left = sizes(&file)?.whole.saturating_sub(from);
            let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(limit)];
            file.read_exact_at(&mut bytes, from)?;
            io::Result::Ok(bytes)
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(failed("read", &path)),
        }
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
    fn append(&self, run: &Run, at: u64, lines: Vec<u8>) -> BoxFuture<'_, Result<(), Error>> {
        let run = run.clone();
        self.work(move |this| this.append_now(&run, at, &lines))
    }

    fn close(&self, run: &Run, end: End) -> BoxFuture<'_, Result<End, Error>> {
        let run = run.clone();
        self.work(move |this| this.close_now(&run, end))
    }

    fn find(&self, run: &Run) -> BoxFuture<'_, Result<Option<ArchivedLog>, Error>> {
        let run = run.clone();
        self.work(move |this| this.find_now(&run))
    }

    fn read(&self, run: &Run, from: u64, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        let run = run.clone();
        self.work(move |this| this.read_now(&run, from, limit))
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

    fn remove(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>> {
        let task = task.clone();
        self.work(move |this| this.remove_now(&task))
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>> {
        self.work(Self::owners_now)
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let place = path.display().to_string();
    move |source| Error::Io { what, place, source }
}

/// Creates a directory and its parents, durably.
fn create_dir(dir: &Path) -> Result<(), Error> {
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

/// Writes a temporary file and renames it, so that the target exists whole or not at all.
fn finish(mut temporary: File, text: &[u8], from: &Path, to: &Path) -> io::Result<()> {
    temporary.write_all(text)?;
    temporary.sync_all()?;
    fs::rename(from, to)
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

struct Sizes {
    whole: u64,
    torn: u64,
}

/// The length of the whole lines of a file, and of the rest.
fn sizes(file: &File) -> io::Result<Sizes> {
    let size = file.metadata()?.len();
    let mut end = size;
    while end > 0 {
        // Usually the last byte ends a line.
        let step = if end == size { 1 } else { STEP };
        let start = end.saturating_sub(step);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            let whole = start + at as u64 + 1;
            return Ok(Sizes { whole, torn: size - whole });
        }
        end = start;
    }
    Ok(Sizes { whole: 0, torn: size })
}
