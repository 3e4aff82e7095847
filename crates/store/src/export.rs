//! Copies a store into another one: to other back ends, or as a backup.
//!
//! What the other store has already stays as it is, so an export that was interrupted, or that ran while the store was in
//! use, is continued by the next one. Every blob is compared with its digest on the way.

use futures::TryStreamExt as _;

use crate::{
    Artifact, Digest, Error, Log, Owner, PutError, Run, Store, Stored, Stream,
    artifacts::{columns, in_use},
    database::{Row, Statement},
    segments::expiry_of,
};

/// Runs or caches that are read at a time.
const PAGE: i64 = 200;

/// What an export copied, and what it could not copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Runs of which something is new.
    pub runs: u64,
    pub logs: u64,
    pub artifacts: u64,
    pub caches: u64,
    /// Bytes of new blobs, without those of logs.
    pub bytes: u64,
    /// What is damaged here and was left out, a sentence each.
    pub damaged: Vec<String>,
}

/// What became of one log.
enum Copied {
    New,
    Known,
    /// It was removed since it was listed.
    Gone,
    Damaged(String),
}

impl Store {
    /// Copies everything into another store. What was exported before is not copied again; Tasks that were removed here
    /// since are not removed there.
    pub async fn export(&self, to: &Self) -> Result<Exported, Error> {
        to.claim_blobs().await?;
        // The other store may have another limit of logs. What is whole here is whole in a copy.
        let to = &to.clone().with_log_limit(u64::MAX);
        let mut exported = Exported::default();
        let mut after = (String::new(), String::new(), i64::MIN);
        loop {
            let page = self
                .read_rows(
                    "SELECT namespace, uid, epoch FROM runs WHERE (namespace, uid, epoch) > ($1, $2, $3)
                     ORDER BY namespace, uid, epoch LIMIT $4",
                    vec![after.0.as_str().into(), after.1.as_str().into(), after.2.into(), PAGE.into()],
                )
                .await?;
            if page.is_empty() {
                break;
            }
            for mut row in page {
                after = (row.text()?, row.text()?, row.int()?);
                let task = Owner::new(&after.0, &after.1);
                let task = task.ok_or_else(|| Error::Damaged("a run has no valid owner".to_owned()))?;
                self.export_run(to, &Run { task, epoch: after.2 }, &mut exported).await?;
            }
        }
        self.export_caches(to, &mut exported).await?;
        Ok(exported)
    }

    async fn export_run(&self, to: &Self, run: &Run, exported: &mut Exported) -> Result<(), Error> {
        let before = (exported.logs, exported.artifacts);
        // The record comes first: what is published after it was read does not count.
        let Some(row) = self.run_row(run).await? else { return Ok(()) };
        let new = to.mark_copied(run).await?;
        self.export_artifacts(to, run, exported).await?;
        for stream in [Stream::Text, Stream::Records] {
            let log = Log { run: run.clone(), stream };
            match self.export_log(to, &log).await? {
                Copied::New => exported.logs += 1,
                Copied::Known | Copied::Gone => {}
                Copied::Damaged(sentence) => exported.damaged.push(sentence),
            }
        }
        let answers = self.export_approvals(to, run).await?;
        let changed = row.export(to, run).await? || answers > 0;
        exported.runs += u64::from(new || changed || before != (exported.logs, exported.artifacts));
        Ok(())
    }

    async fn run_row(&self, run: &Run) -> Result<Option<RunRow>, Error> {
        let sql = "SELECT created, settings, record, outputs, expired, expiry_cause FROM runs
                   WHERE namespace = $1 AND uid = $2 AND epoch = $3";
        let Some(mut row) = self.read_rows(sql, run.key()).await?.pop() else { return Ok(None) };
        Ok(Some(RunRow {
            created: row.int()?,
            settings: row.optional_bytes()?,
            record: row.optional_bytes()?,
            outputs: row.optional_bytes()?,
            expired: row.optional_int()?,
            expiry_cause: row.optional_text()?,
        }))
    }

    async fn export_log(&self, to: &Self, log: &Log) -> Result<Copied, Error> {
        let Some(found) = self.find_log(log).await? else { return Ok(Copied::Known) };
        let there = to.find_log(log).await?;
        if found.expired.is_some() || there.is_some_and(|there| there.bytes >= found.bytes && there.end == found.end) {
            return Ok(Copied::Known);
        }
        let blobs = "SELECT DISTINCT blob, name FROM log_parts LEFT JOIN blobs ON digest = blob
                     WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND blob IS NOT NULL";
        for mut row in self.read_rows(blobs, log.key()).await? {
            let (digest, name) = (row.text()?, row.optional_text()?);
            let Some(name) = name else {
                return Ok(Copied::Damaged(format!("log {log}: blob {digest} is not recorded")));
            };
            match self.blobs.measure(&name).await {
                Ok((found, _)) if found.as_str() == digest => {}
                Ok(_) => return Ok(Copied::Damaged(format!("log {log} lost the bytes of blob {name}"))),
                Err(object_store::Error::NotFound { .. }) => {
                    // Lines in the middle may have been left out meanwhile.
                    let gone = self.is_unused(&digest).await?;
                    return Ok(if gone {
                        Copied::Gone
                    } else {
                        Copied::Damaged(format!("log {log} lost blob {name}"))
                    });
                }
                Err(error) => {
                    return Ok(Copied::Damaged(self.unreadable(&format!("log {log}: blob {name}"), error).await?));
                }
            }
        }
        to.take_over_log(self, log).await?;
        Ok(Copied::New)
    }

    async fn export_artifacts(&self, to: &Self, run: &Run, exported: &mut Exported) -> Result<(), Error> {
        const OF_RUN: &str = concat!(
            "SELECT ",
            columns!(),
            ", manifest, expiry_cause FROM artifacts WHERE namespace = $1 AND uid = $2 AND epoch = $3"
        );
        let known: Vec<Artifact> = to
            .read_rows(OF_RUN, run.key())
            .await?
            .into_iter()
            .map(|mut row| Artifact::read(&mut row))
            .collect::<Result<_, _>>()?;
        for mut row in self.read_rows(OF_RUN, run.key()).await? {
            let artifact = Artifact::read(&mut row)?;
            let (manifest, cause) = (row.optional_text()?.map(Digest::recorded), row.optional_text()?);
            let there = known.iter().find(|known| known.name == artifact.name);
            if there.is_some_and(|there| there.expired.is_some() || artifact.expired.is_none()) {
                continue;
            }
            let what = || format!("artifact {} of {}", artifact.name, run.record());
            let (mut batch, expired) = (Vec::new(), artifact.expired.map(|expiry| expiry.at.as_millisecond()));
            if expired.is_none() {
                let digests = [Some(&artifact.digest), manifest.as_ref()];
                match self.copy_blobs(to, digests.into_iter().flatten(), exported).await? {
                    Ok(copied) => batch = in_use(&copied.iter().collect::<Vec<_>>()),
                    Err(Some(sentence)) => {
                        exported.damaged.push(format!("{}: {sentence}", what()));
                        continue;
                    }
                    // It expired or was removed meanwhile: the next export sees that.
                    Err(None) => continue,
                }
            }
            let values = vec![
                artifact.name.as_str().into(),
                artifact.digest.as_str().into(),
                artifact.bytes.into(),
                artifact.files.into(),
                manifest.map(|manifest| manifest.as_str().to_owned()).into(),
                artifact.stored.as_millisecond().into(),
                artifact.expires.map(jiff::Timestamp::as_millisecond).into(),
                expired.into(),
                cause.into(),
            ];
            let copied = Statement::new(
                "INSERT INTO artifacts (namespace, uid, epoch, name, digest, bytes, files, manifest, stored, expires,
                                        expired, expiry_cause)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
                 ON CONFLICT (namespace, uid, epoch, name) DO UPDATE
                 SET expired = excluded.expired, expiry_cause = excluded.expiry_cause
                 WHERE artifacts.expired IS NULL AND excluded.expired IS NOT NULL",
                [run.key(), values].concat(),
            );
            batch.push(copied);
            if !to.write(batch).await?.is_done() {
                return Err(Error::Damaged(format!("{} lost its bytes while it was copied", what())));
            }
            exported.artifacts += 1;
        }
        Ok(())
    }

    async fn export_caches(&self, to: &Self, exported: &mut Exported) -> Result<(), Error> {
        let mut after = [const { String::new() }; 4];
        loop {
            let page = self
                .read_rows(
                    "SELECT namespace, scope, name, key, digest, bytes, files, manifest, created, used FROM caches
                     WHERE (namespace, scope, name, key) > ($1, $2, $3, $4)
                     ORDER BY namespace, scope, name, key LIMIT $5",
                    [after.each_ref().map(|text| text.as_str().into()).to_vec(), vec![PAGE.into()]].concat(),
                )
                .await?;
            if page.is_empty() {
                return Ok(());
            }
            for mut row in page {
                after = [row.text()?, row.text()?, row.text()?, row.text()?];
                self.export_cache(to, &after, row, exported).await?;
            }
        }
    }

    async fn export_cache(
        &self,
        to: &Self,
        entry: &[String; 4],
        mut row: Row,
        exported: &mut Exported,
    ) -> Result<(), Error> {
        let key = entry.each_ref().map(|text| text.as_str().into()).to_vec();
        let known = "SELECT key FROM caches WHERE namespace = $1 AND scope = $2 AND name = $3 AND key = $4";
        if !to.read_rows(known, key.clone()).await?.is_empty() {
            return Ok(());
        }
        let (digest, bytes, files) = (Digest::recorded(row.text()?), row.size()?, row.size()?);
        let (manifest, created, used) = (Digest::recorded(row.text()?), row.int()?, row.int()?);
        let copied = match self.copy_blobs(to, [&digest, &manifest], exported).await? {
            Ok(copied) => copied,
            Err(damaged) => {
                let [namespace, scope, name, _] = entry;
                let what = |sentence| format!("cache {name} of {namespace}/{scope}: {sentence}");
                exported.damaged.extend(damaged.map(what));
                return Ok(());
            }
        };
        let values = vec![
            digest.as_str().into(),
            bytes.into(),
            files.into(),
            manifest.as_str().into(),
            created.into(),
            used.into(),
        ];
        let copy = Statement::new(
            "INSERT INTO caches (namespace, scope, name, key, digest, bytes, files, manifest, created, used)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
            [key, values].concat(),
        );
        let mut batch = in_use(&copied.iter().collect::<Vec<_>>());
        batch.push(copy);
        if !to.write(batch).await?.is_done() {
            return Err(Error::Damaged(format!("cache {} lost its bytes while it was copied", entry[2])));
        }
        exported.caches += 1;
        Ok(())
    }

    /// Copies blobs. Fails with a sentence if one of them is damaged here, with none if one is not in use any more.
    async fn copy_blobs<'a>(
        &self,
        to: &Self,
        digests: impl IntoIterator<Item = &'a Digest>,
        exported: &mut Exported,
    ) -> Result<Result<Vec<Stored>, Option<String>>, Error> {
        let mut all = Vec::new();
        for digest in digests {
            let sql = "SELECT name, bytes FROM blobs WHERE digest = $1 AND stored = 1";
            if let Some(mut row) = to.read_rows(sql, vec![digest.as_str().into()]).await?.pop() {
                let (_, bytes) = (row.text()?, row.size()?);
                all.push(Stored { digest: digest.clone(), bytes });
                continue;
            }
            let object = self.read_rows(sql, vec![digest.as_str().into()]).await?.pop();
            let object = object.map(|mut row| Ok::<_, Error>((row.text()?, row.size()?))).transpose()?;
            let whole = match &object {
                Some((name, bytes)) => self.blobs.has(name, *bytes).await,
                None => Ok(false),
            };
            let whole = match whole {
                Ok(whole) => whole,
                Err(error) => return Ok(Err(Some(self.unreadable(&format!("blob {digest}"), error).await?))),
            };
            if !whole {
                let unused = self.is_unused(digest.as_str()).await?;
                return Ok(Err((!unused).then(|| format!("blob {digest} is lost"))));
            }
            let bytes = self.read_blob(digest, 0..u64::MAX).await?.map_err(std::io::Error::from);
            match to.put_stream(bytes, u64::MAX).await {
                Ok(stored) if stored.digest == *digest => {
                    exported.bytes += stored.bytes;
                    all.push(stored);
                }
                Ok(_) => return Ok(Err(Some(format!("blob {digest} does not have the bytes that were stored")))),
                Err(PutError::Store(error)) => return Err(error),
                Err(PutError::Source(error)) => {
                    return Ok(Err(Some(self.unreadable(&format!("blob {digest}"), error).await?)));
                }
                Err(other @ PutError::TooLarge { .. }) => return Err(Error::Damaged(other.to_string())),
            }
        }
        Ok(Ok(all))
    }

    /// The sentence about a blob that cannot be read. Fails if none can: then it is not the blob that is damaged.
    async fn unreadable(&self, what: &str, error: impl std::fmt::Display) -> Result<String, Error> {
        self.blobs.store().await?;
        Ok(format!("{what} cannot be read: {error}"))
    }

    async fn is_unused(&self, digest: &str) -> Result<bool, Error> {
        let sql = "SELECT blob FROM blob_uses WHERE blob = $1 LIMIT 1";
        Ok(self.read_rows(sql, vec![digest.into()]).await?.is_empty())
    }
}

/// What the records say of a run.
struct RunRow {
    created: i64,
    settings: Option<Vec<u8>>,
    record: Option<Vec<u8>>,
    outputs: Option<Vec<u8>>,
    expired: Option<i64>,
    expiry_cause: Option<String>,
}

impl RunRow {
    /// Writes what the other store lacks. Returns whether it lacked something.
    async fn export(self, to: &Store, run: &Run) -> Result<bool, Error> {
        let there = to.run_row(run).await?;
        // Artefacts and logs came first, and made the row.
        let made = Statement::new(
            "INSERT INTO runs (namespace, uid, epoch, created) VALUES ($1, $2, $3, $4)
             ON CONFLICT (namespace, uid, epoch) DO UPDATE SET created = excluded.created
             WHERE runs.created > excluded.created",
            [run.key(), vec![self.created.into()]].concat(),
        );
        let lacks = |ours: bool, theirs: fn(&Self) -> bool| ours && !there.as_ref().is_some_and(theirs);
        let changed = there.as_ref().is_none_or(|there| there.created > self.created)
            || lacks(self.settings.is_some(), |there| there.settings.is_some())
            || lacks(self.record.is_some(), |there| there.record.is_some())
            || lacks(self.outputs.is_some(), |there| there.outputs.is_some())
            || lacks(self.expired.is_some(), |there| there.expired.is_some());
        if !changed {
            return Ok(false);
        }
        let expiry = match self.expired {
            Some(at) => Some(expiry_of(at, self.expiry_cause.as_deref())?),
            None => None,
        };
        let filled = Statement::new(
            "UPDATE runs SET settings = coalesce(settings, $4), record = coalesce(record, $5),
             outputs = coalesce(outputs, $6) WHERE namespace = $1 AND uid = $2 AND epoch = $3",
            [run.key(), vec![self.settings.into(), self.record.clone().into(), self.outputs.into()]].concat(),
        );
        to.write(vec![made, filled]).await?;
        if let Some(expiry) = expiry
            && there.is_none_or(|there| there.expired.is_none())
        {
            // Its record says that the logs are gone.
            to.expire_logs(run, expiry, self.record).await?;
        }
        Ok(true)
    }
}
