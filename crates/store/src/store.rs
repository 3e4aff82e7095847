//! The store: records in a database, bytes as blobs.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, TryStreamExt as _, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};

use crate::{
    Archive, ArchivedLog, CacheScope, Chunk, End, Error, Expiry, LOG_LIMIT, Log, OpenError, Owner, Retention, Run,
    RunResults, Usage, archive,
    blobs::{Blobs, Digest},
    database::{Database, Outcome, Postgres, Row, Sqlite, Statement, Value},
    directory,
    segments::Moving,
};

/// The file of the records in the directory of a store.
const RECORDS: &str = "records.db";
/// The directory of the blobs there.
const BLOBS: &str = "blobs";
/// Objects without a record are younger than this while their writer works.
pub const GRACE: SignedDuration = SignedDuration::from_hours(24);
/// Time between two lists of all objects. What a crash left before the first one is younger than [`GRACE`] then.
const LISTING: SignedDuration = GRACE;
/// Opening a store waits this long for its blobs.
const CLAIM: Duration = Duration::from_secs(5);
/// Blobs that one collection removes from the records at a time.
const COLLECTED: i64 = 1000;

/// Records in a database, bytes as blobs.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) blobs: Blobs,
    pub(crate) log_limit: u64,
    pub(crate) retention: Retention,
    /// When this process looked for objects without a record, in seconds since 1970.
    listed: Arc<AtomicI64>,
    pub(crate) moving: Moving,
}

impl Store {
    /// The store in a directory of this machine: SQLite and files. The directory is created if necessary.
    pub fn directory(path: &Path) -> Result<Self, OpenError> {
        let blobs = path.join(BLOBS);
        directory::create_dir(&blobs)?;
        let database = Arc::new(Sqlite::open(&path.join(RECORDS))?);
        Ok(Self {
            database,
            blobs: Blobs::directory(&blobs)?,
            log_limit: LOG_LIMIT,
            retention: Retention::default(),
            listed: Arc::default(),
            moving: Moving::default(),
        })
    }

    /// A store of any back ends. `records` is `postgres://…`, or a file of SQLite as a path or as `sqlite:///PATH`; `blobs` is
    /// `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`, or a directory as a path or as `file:///PATH`. A file and a directory
    /// are created if necessary. The credentials of a bucket are those of the environment (`AWS_…`).
    pub async fn open(records: &str, blobs: &str) -> Result<Self, OpenError> {
        let scheme = |url: &str| url.split_once("://").map(|(scheme, _)| scheme.to_owned()).unwrap_or_default();
        let blobs = if blobs.starts_with("s3://") {
            Blobs::bucket(blobs)?
        } else {
            let path = archive::path_of(blobs).ok_or_else(|| OpenError::BlobScheme(scheme(blobs)))?;
            directory::create_dir(path)?;
            Blobs::directory(path)?
        };
        let database: Arc<dyn Database> = match &*scheme(records) {
            "postgres" | "postgresql" => Arc::new(Postgres::open(records).await?),
            "" | "sqlite" if !records.is_empty() => {
                let file = Path::new(records.strip_prefix("sqlite://").unwrap_or(records));
                if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    directory::create_dir(parent)?;
                }
                Arc::new(Sqlite::open(file)?)
            }
            other => return Err(OpenError::Records(other.to_owned())),
        };
        let store = Self {
            database,
            blobs,
            log_limit: LOG_LIMIT,
            retention: Retention::default(),
            listed: Arc::default(),
            moving: Moving::default(),
        };
        match tokio::time::timeout(CLAIM, store.claim_blobs()).await {
            Ok(Err(other @ Error::OtherStore)) => return Err(OpenError::Store(other)),
            Ok(Ok(())) => {}
            // Records and logs go on without blobs. Nothing is collected before it is known whose they are.
            Ok(Err(error)) => tracing::warn!(%error, "it is not known yet whether the blobs are those of this store"),
            Err(_) => tracing::warn!("the blobs cannot be reached now"),
        }
        Ok(store)
    }

    /// Limits each log to this many bytes. Half of them hold the beginning, the others the end.
    #[must_use]
    pub fn with_log_limit(self, log_limit: u64) -> Self {
        Self { log_limit, ..self }
    }

    /// How much of artefacts and caches each namespace may keep.
    #[must_use]
    pub fn with_retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    pub(crate) async fn write(&self, batch: Vec<Statement>) -> Result<Outcome, Error> {
        Ok(self.database.write(batch).await?)
    }

    pub(crate) async fn read_rows(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        Ok(self.database.read(sql, values).await?)
    }

    /// Stores bytes as a blob. It stays for [`GRACE`]; [`StoredBlob::in_use`] in the batch that names it makes it stay
    /// for as long as it is named.
    pub(crate) async fn put_blob(&self, bytes: Bytes) -> Result<StoredBlob, Error> {
        self.put_named(Digest::of(&bytes), bytes).await
    }

    /// Stores bytes whose digest is known.
    pub(crate) async fn put_named(&self, digest: Digest, bytes: Bytes) -> Result<StoredBlob, Error> {
        let claim = Statement::new(
            "INSERT INTO blobs (digest, name, bytes, claimed, stored) VALUES ($1, $2, $3, $4, 0)
             ON CONFLICT (digest) DO UPDATE SET claimed = excluded.claimed RETURNING name, stored",
            vec![
                digest.as_str().into(),
                Blobs::new_name(&digest).as_str().into(),
                (bytes.len() as u64).into(),
                now().as_millisecond().into(),
            ],
        );
        let Outcome::Done(mut answers) = self.write(vec![claim.requires(1)]).await? else {
            return Err(Error::Damaged(format!("the blob {digest} cannot be recorded")));
        };
        let mut row = answers.pop().and_then(|mut rows| rows.pop()).ok_or(Error::Damaged("no answer".to_owned()))?;
        let (name, stored) = (row.text()?, row.int()?);
        // An object that is lost comes back with the next writer of the same bytes.
        if stored == 0 || !self.blobs.has(&name, bytes.len() as u64).await? {
            self.blobs.put(&name, bytes).await?;
        }
        Ok(StoredBlob { digest, name })
    }

    /// Removes blobs that nothing names: those that a writer left unused, and those whose user is gone. Removes uploads
    /// that did not end.
    pub async fn collect(&self, grace: SignedDuration) -> Result<Collected, Error> {
        let before = now() - grace;
        let mut collected = Collected { uploads: self.collect_uploads(before).await?, ..Collected::default() };
        loop {
            let unused = self
                .read_rows(
                    "SELECT digest, name, bytes FROM blobs WHERE claimed < $1
                     AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = digest) LIMIT $2",
                    vec![before.as_millisecond().into(), COLLECTED.into()],
                )
                .await?;
            let all = i64::try_from(unused.len()).unwrap_or(COLLECTED) < COLLECTED;
            for mut row in unused {
                let (digest, name, bytes) = (row.text()?, row.text()?, row.size()?);
                let values = || vec![digest.as_str().into(), name.as_str().into(), before.as_millisecond().into()];
                // Waits for a writer that is about to name the blob: the next statement sees what it wrote.
                let locked = "UPDATE blobs SET stored = stored WHERE digest = $1 AND name = $2 AND claimed < $3";
                let still_unused = "DELETE FROM blobs WHERE digest = $1 AND name = $2 AND claimed < $3
                                    AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = digest)";
                let batch = [locked, still_unused].map(|sql| Statement::new(sql, values()).requires(1));
                if self.write(batch.into()).await?.is_done() {
                    // If this fails, the object has no record and is found below, by this or a later collection.
                    self.blobs.remove(&name).await?;
                    collected.count(bytes);
                }
            }
            if all {
                self.forget_senders(before).await?;
                return Ok(collected);
            }
        }
    }

    /// Removes objects without a record: those of a writer or a collection that died. Lists all objects.
    pub async fn collect_unrecorded(&self, grace: SignedDuration) -> Result<Collected, Error> {
        // The objects of another store have no record here.
        self.claim_blobs().await?;
        let before = now() - grace;
        let mut collected = Collected::default();
        let mut objects = self.blobs.list();
        let known = "SELECT name FROM blobs WHERE name = $1 UNION ALL SELECT name FROM uploads WHERE name = $1";
        while let Some(found) = objects.try_next().await? {
            if found.changed < before && self.read_rows(known, vec![found.name.as_str().into()]).await?.is_empty() {
                self.blobs.remove(&found.name).await?;
                collected.count(found.bytes);
            }
        }
        let (files, bytes) = self.blobs.remove_staged(before).await?;
        Ok(Collected { blobs: collected.blobs + files, bytes: collected.bytes + bytes, ..collected })
    }

    /// Reads every blob that is in use and compares it with its digest. Returns what is wrong, a sentence each.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        let mut wrong = Vec::new();
        let mut after = String::new();
        loop {
            let page = self
                .read_rows(
                    "SELECT digest, name, bytes, (SELECT min(what) FROM blob_uses WHERE blob = digest) FROM blobs
                     WHERE digest > $1 AND EXISTS (SELECT 1 FROM blob_uses WHERE blob = digest) ORDER BY digest LIMIT $2",
                    vec![after.as_str().into(), COLLECTED.into()],
                )
                .await?;
            if page.is_empty() {
                break;
            }
            for mut row in page {
                let (digest, name, bytes) = (row.text()?, row.text()?, row.size()?);
                let used_by = row.optional_text()?.unwrap_or_default();
                match self.blobs.measure(&name).await {
                    Ok(found) if found == (Digest::recorded(digest.clone()), bytes) => {}
                    Ok((_, length)) if length != bytes => {
                        wrong.push(format!("blob {name} of {used_by} has {length} bytes instead of {bytes}"));
                    }
                    Ok(_) => {
                        wrong.push(format!("blob {name} of {used_by} does not have the bytes that were stored"));
                    }
                    Err(error) => wrong.push(format!("blob {name} of {used_by} cannot be read: {error}")),
                }
                after = digest;
            }
        }
        let unnamed = "SELECT blob, what FROM blob_uses WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = blob)";
        for mut row in self.read_rows(unnamed, Vec::new()).await? {
            wrong.push(format!("blob {} of {} is not recorded", row.text()?, row.text()?));
        }
        Ok(wrong)
    }
}

/// A blob whose bytes are stored, not named by anything yet.
#[derive(Debug)]
pub(crate) struct StoredBlob {
    pub(crate) digest: Digest,
    name: String,
}

impl StoredBlob {
    /// Refuses the batch if the blob was collected in the meantime.
    pub(crate) fn in_use(&self) -> Statement {
        let claim = "UPDATE blobs SET claimed = $1, stored = 1 WHERE digest = $2 AND name = $3";
        let values = vec![now().as_millisecond().into(), self.digest.as_str().into(), self.name.as_str().into()];
        Statement::new(claim, values).requires(1)
    }
}

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub blobs: u64,
    pub bytes: u64,
    /// Uploads that did not end. Their length is not known.
    pub uploads: u64,
}

impl Collected {
    fn count(&mut self, bytes: u64) {
        self.blobs += 1;
        self.bytes += bytes;
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

impl Archive for Store {
    fn append(&self, log: &Log, at: u64, lines: Vec<u8>) -> BoxFuture<'_, Result<(), Error>> {
        let log = log.clone();
        async move { self.append_lines(&log, at, &lines).await }.boxed()
    }

    fn close(&self, log: &Log, end: End) -> BoxFuture<'_, Result<End, Error>> {
        let log = log.clone();
        async move { self.close_log(&log, end).await }.boxed()
    }

    fn find(&self, log: &Log) -> BoxFuture<'_, Result<Option<ArchivedLog>, Error>> {
        let log = log.clone();
        async move { self.find_log(&log).await }.boxed()
    }

    fn read(&self, log: &Log, from: u64, limit: usize) -> BoxFuture<'_, Result<Chunk, Error>> {
        let log = log.clone();
        async move { self.read_log(&log, from, limit).await }.boxed()
    }

    fn usage(&self) -> BoxFuture<'_, Result<Vec<Usage>, Error>> {
        self.log_usage().boxed()
    }

    fn expire(&self, run: &Run, expiry: Expiry, record: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>> {
        let run = run.clone();
        async move { self.expire_logs(&run, expiry, record).await }.boxed()
    }

    fn record(&self, run: &Run, record: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        let run = run.clone();
        async move { self.put_record(&run, record).await }.boxed()
    }

    fn records(&self, task: &Owner) -> BoxFuture<'_, Result<BTreeMap<i64, Vec<u8>>, Error>> {
        let task = task.clone();
        async move { self.records_of(&task).await }.boxed()
    }

    fn keep_settings(&self, run: &Run, settings: Vec<u8>) -> BoxFuture<'_, Result<(), Error>> {
        let run = run.clone();
        async move { self.put_settings(&run, settings).await }.boxed()
    }

    fn settings(&self, run: &Run) -> BoxFuture<'_, Result<Option<Vec<u8>>, Error>> {
        let run = run.clone();
        async move { self.settings_of(&run).await }.boxed()
    }

    fn results(&self, run: &Run) -> BoxFuture<'_, Result<RunResults, Error>> {
        let run = run.clone();
        async move { self.results_of(&run).await }.boxed()
    }

    fn remove(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>> {
        let task = task.clone();
        async move { self.remove_task(&task).await }.boxed()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>> {
        self.all_owners().boxed()
    }

    fn copied(&self) -> BoxFuture<'_, Result<Vec<Owner>, Error>> {
        self.copied_owners().boxed()
    }

    fn adopt(&self, task: &Owner) -> BoxFuture<'_, Result<(), Error>> {
        let task = task.clone();
        async move { self.adopt_task(&task).await }.boxed()
    }

    fn cache_scopes(&self) -> BoxFuture<'_, Result<Vec<CacheScope>, Error>> {
        self.all_cache_scopes().boxed()
    }

    fn remove_caches(&self, scope: &CacheScope) -> BoxFuture<'_, Result<(), Error>> {
        let scope = scope.clone();
        async move { self.remove_cache_scope(&scope).await }.boxed()
    }

    fn clean(&self) -> BoxFuture<'_, Result<(), Error>> {
        async {
            self.retain(now()).await?;
            if let Err(error) = self.move_rest().await {
                tracing::warn!(%error, "the lines of closed logs stay in the database");
            }
            self.collect(GRACE).await?;
            // Only a crash leaves such objects, and a list of a bucket is expensive.
            let time = now().as_second();
            if self.listed.load(Ordering::Relaxed) < time - LISTING.as_secs() {
                self.collect_unrecorded(GRACE).await?;
                self.listed.store(time, Ordering::Relaxed);
            }
            Ok(())
        }
        .boxed()
    }
}
