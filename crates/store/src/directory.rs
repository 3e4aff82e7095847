//! An archive in a directory: one file a run, beside it, once it is closed, a note of how it ended, and the run's record.
//!
//! Several processes may use one directory, also by a network file system that knows locks.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, FileType, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use futures::{FutureExt as _, future::BoxFuture};

use crate::{Archive, End, Error, Kept, Owner, Run};

/// The server may run as another user of the same group; nobody else reads what agents print.
const DIRECTORY_MODE: u32 = 0o770;
const FILE_MODE: u32 = 0o660;
/// How much of a torn end is looked at at once.
const STEP: u64 = 64 << 10;

/// An archive in a directory.
#[derive(Clone, Debug)]
pub struct Directory {
    base: PathBuf,
}

impl Directory {
    /// The archive in `base`, which is made if it does not exist.
    pub fn open(base: &Path) -> Result<Self, Error> {
        let base = std::path::absolute(base).map_err(failed("find", base))?;
        make(&base)?;
        Ok(Self { base })
    }

    /// Does something with the archive on a thread that may wait for a disk.
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

    fn folder(&self, task: &Owner) -> PathBuf {
        self.base.join(task.namespace()).join(task.uid())
    }

    fn log(&self, run: &Run) -> PathBuf {
        self.base.join(run.to_string())
    }

    fn note(&self, run: &Run) -> PathBuf {
        self.log(run).with_extension("end.json")
    }

    /// The file of a log, made if it does not exist.
    fn file(&self, run: &Run) -> Result<File, Error> {
        let path = self.log(run);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(FILE_MODE);
        match options.open(&path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("open", &path)(error)),
        }
        let folder = self.folder(&run.task);
        make(&folder)?;
        let file = options.create(true).open(&path).map_err(failed("make", &path))?;
        sync(&folder)?;
        Ok(file)
    }

    fn append_now(&self, run: &Run, at: u64, lines: &[u8]) -> Result<(), Error> {
        let path = self.log(run);
        let file = self.file(run)?;
        // Until the file is closed, at the end of this function.
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
        let (note, draft) = (self.note(run), self.log(run).with_extension("end.draft"));
        let written = || {
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&draft)?;
            finish(file, &serde_json::to_vec(&end)?, &draft, &note)
        };
        written().map_err(failed("write", &note))?;
        sync(&self.folder(&run.task))?;
        Ok(end)
    }

    /// Puts a text into its place, unless one is there. Answers the one that is.
    fn put_once(&self, task: &Owner, place: &str, text: &[u8]) -> Result<Vec<u8>, Error> {
        let place = self.base.join(place);
        let folder = self.folder(task);
        if let Some(earlier) = read_if_there(&place)? {
            // Whoever wrote it may have died before its name was durable.
            sync(&folder)?;
            return Ok(earlier);
        }
        make(&folder)?;
        let draft = place.with_extension("draft");
        let written = || {
            // Whoever else has this draft open waits here, and then finds it in its place.
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&draft)?;
            file.lock()?;
            if place.exists() {
                return fs::remove_file(&draft).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                });
            }
            file.set_len(0)?;
            finish(file, text, &draft, &place)
        };
        written().map_err(failed("write", &place))?;
        sync(&folder)?;
        read_if_there(&place)?.ok_or_else(|| failed("read", &place)(io::ErrorKind::NotFound.into()))
    }

    fn records_now(&self, task: &Owner) -> Result<BTreeMap<i64, Vec<u8>>, Error> {
        let folder = self.folder(task);
        let mut records = BTreeMap::new();
        for name in names(&folder, FileType::is_file)? {
            if let Some(epoch) = Run::of_record(&name)
                && let Some(record) = read_if_there(&folder.join(name))?
            {
                records.insert(epoch, record);
            }
        }
        Ok(records)
    }

    fn end(&self, run: &Run) -> Result<Option<End>, Error> {
        let path = self.note(run);
        let note = read_if_there(&path)?.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        note.map_err(|error| failed("read", &path)(error.into()))
    }

    fn find_now(&self, run: &Run) -> Result<Option<Kept>, Error> {
        // Before the log: one that is closed has its full length.
        let end = self.end(run)?;
        let path = self.log(run);
        match File::open(&path).and_then(|file| sizes(&file)) {
            Ok(Sizes { whole, torn }) => Ok(Some(Kept { bytes: whole, torn, end })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(end.map(|end| Kept { bytes: 0, torn: 0, end: Some(end) }))
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
        let folder = self.folder(task);
        match fs::remove_dir_all(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove", &folder)(error)),
        }
        // The last one of a namespace takes its folder along; it stays if it is not empty.
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

    fn find(&self, run: &Run) -> BoxFuture<'_, Result<Option<Kept>, Error>> {
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
        self.work(move |this| read_if_there(&this.base.join(run.settings())))
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

/// Makes a folder and those above it. They are there after a crash, too.
fn make(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        make(above)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(folder) {
        Ok(()) => {}
        // Somebody was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        Err(error) => return Err(failed("make", folder)(error)),
    }
    above.map_or(Ok(()), sync)
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("write", folder))
}

/// Writes a draft and puts it into its place, whole or not at all.
fn finish(mut draft: File, text: &[u8], from: &Path, to: &Path) -> io::Result<()> {
    draft.write_all(text)?;
    draft.sync_all()?;
    fs::rename(from, to)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// What a folder has of a kind.
fn names(folder: &Path, wanted: fn(&FileType) -> bool) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(folder) {
        // Somebody removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed("list", folder))?,
    };
    let fitting = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| wanted(&kind)));
    Ok(fitting.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

struct Sizes {
    whole: u64,
    torn: u64,
}

/// How much of a file is whole lines.
fn sizes(file: &File) -> io::Result<Sizes> {
    let size = file.metadata()?.len();
    let mut end = size;
    while end > 0 {
        // Nearly always the last byte ends a line.
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
