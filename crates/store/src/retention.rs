//! What is removed because of its age or for space. An artefact that expired stays in the records, so that its run can say
//! what became of it; a cache is forgotten.

use jiff::{SignedDuration, Timestamp};

use crate::{
    Artifact, ArtifactExpiry, CacheScope, Error, GRACE, Owner, Run, Store,
    artifacts::columns,
    database::{Outcome, Row, Statement, Value},
};

/// The bytes of what expired are collected after this long.
const RELEASED: SignedDuration = SignedDuration::from_hours(1);
/// Artefacts that one transaction marks.
const MARKED: i64 = 1000;

/// How much of something a namespace may keep. What is unset is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Total size. Bytes that several artefacts share count for each.
    pub bytes: Option<u64>,
    pub count: Option<u64>,
    pub age: Option<SignedDuration>,
}

impl Limits {
    /// What is older than this, in milliseconds since 1970, is too old.
    fn oldest(&self, now: Timestamp) -> Option<i64> {
        self.age.map(|age| now.checked_sub(age).unwrap_or(Timestamp::MIN).as_millisecond())
    }
}

/// An artefact or a patch that just expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredArtifact {
    pub run: Run,
    /// `None` for a patch.
    pub name: Option<String>,
    pub bytes: u64,
    pub expiry: ArtifactExpiry,
}

/// An entry of a cache that was just removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedCache {
    pub scope: CacheScope,
    pub name: String,
    pub key: String,
    pub bytes: u64,
}

/// What a namespace may keep of what its runs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub artifacts: Limits,
    pub caches: Limits,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            artifacts: Limits { bytes: Some(50 << 30), ..Limits::default() },
            caches: Limits { bytes: Some(10 << 30), age: Some(SignedDuration::from_hours(30 * 24)), count: None },
        }
    }
}

impl Store {
    /// Removes what is due, and what is beyond the limits of its namespace.
    pub async fn retain(&self, now: Timestamp) -> Result<(), Error> {
        let mut expired = self.expire_artifacts(now).await?;
        for namespace in self.namespaces("SELECT DISTINCT namespace FROM artifacts WHERE expired IS NULL").await? {
            expired.extend(self.limit_artifacts(&namespace, self.retention.artifacts, now).await?);
        }
        for ExpiredArtifact { run, name, bytes, expiry } in expired {
            let name = name.as_deref().unwrap_or("the patch");
            tracing::info!(run = run.record(), name, bytes, cause = ?expiry.cause, "an artifact expired");
        }
        for namespace in self.namespaces("SELECT DISTINCT namespace FROM caches").await? {
            for EvictedCache { scope, name, key, bytes } in
                self.evict_caches(&namespace, self.retention.caches, now).await?
            {
                tracing::info!(namespace, scope = scope.scope, name, key, bytes, "a cache was removed");
            }
        }
        self.forget_copied(now).await
    }

    async fn namespaces(&self, sql: &'static str) -> Result<Vec<String>, Error> {
        self.read_rows(sql, Vec::new()).await?.into_iter().map(|mut row| Ok(row.text()?)).collect()
    }

    /// Removes the bytes of artefacts whose time is over. The rows say so from then on; a collection frees the space.
    pub async fn expire_artifacts(&self, now: Timestamp) -> Result<Vec<ExpiredArtifact>, Error> {
        let mut all = Vec::new();
        loop {
            let due = Statement::new(
                concat!(
                    "UPDATE artifacts SET expired = $1, expiry_cause = 'due'
                     WHERE expired IS NULL AND (namespace, uid, epoch, name) IN (
                         SELECT namespace, uid, epoch, name FROM artifacts
                         WHERE expired IS NULL AND expires <= $1 LIMIT $2)
                     RETURNING namespace, uid, ",
                    columns!(),
                    ", manifest"
                ),
                vec![now.as_millisecond().into(), MARKED.into()],
            );
            let Outcome::Done(mut answers) = self.write(vec![due]).await? else { return Ok(all) };
            let rows = answers.pop().unwrap_or_default();
            if rows.is_empty() {
                return Ok(all);
            }
            all.extend(self.expired(rows, now).await?);
        }
    }

    /// Removes the bytes of the oldest artefacts of a namespace until the others are within the limits; patches count too.
    /// The newest one is removed for its age only, so that what a run just left can be seen.
    pub async fn limit_artifacts(
        &self,
        namespace: &str,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Vec<ExpiredArtifact>, Error> {
        let sql = concat!(
            "UPDATE artifacts SET expired = $2,
             expiry_cause = CASE WHEN stored < $3 THEN 'age' WHEN total > $4 THEN 'space' ELSE 'count' END
             FROM (SELECT uid AS of_uid, epoch AS of_epoch, name AS of_name,
                          sum(bytes) OVER newest AS total, row_number() OVER newest AS number
                   FROM artifacts WHERE namespace = $1 AND expired IS NULL
                   WINDOW newest AS (ORDER BY stored DESC, uid DESC, epoch DESC, name DESC ROWS UNBOUNDED PRECEDING)
                  ) AS ranked
             WHERE namespace = $1 AND uid = of_uid AND epoch = of_epoch AND name = of_name AND expired IS NULL
             AND (stored < $3 OR (number > 1 AND (total > $4 OR number > $5)))
             RETURNING namespace, uid, ",
            columns!(),
            ", manifest"
        );
        let limit = |limit: Option<u64>| limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)).into();
        let values: Vec<Value> = vec![
            namespace.into(),
            now.as_millisecond().into(),
            limits.oldest(now).into(),
            limit(limits.bytes),
            limit(limits.count),
        ];
        match self.write(vec![Statement::new(sql, values)]).await? {
            Outcome::Done(mut answers) => self.expired(answers.pop().unwrap_or_default(), now).await,
            Outcome::Refused => Ok(Vec::new()),
        }
    }

    /// Removes the entries of a namespace's caches that were not used for the longest time until the others are within the
    /// limits.
    pub async fn evict_caches(
        &self,
        namespace: &str,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Vec<EvictedCache>, Error> {
        let sql = "DELETE FROM caches WHERE namespace = $1 AND (scope, name, key) IN (
                       SELECT scope, name, key FROM (
                           SELECT scope, name, key, used, sum(bytes) OVER latest AS total, row_number() OVER latest AS number
                           FROM caches WHERE namespace = $1
                           WINDOW latest AS (ORDER BY used DESC, scope, name, key ROWS UNBOUNDED PRECEDING)) AS ranked
                       WHERE used < $2 OR total > $3 OR number > $4)
                   RETURNING scope, name, key, bytes, digest, manifest";
        let limit = |limit: Option<u64>| limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)).into();
        let values = vec![namespace.into(), limits.oldest(now).into(), limit(limits.bytes), limit(limits.count)];
        let Outcome::Done(mut answers) = self.write(vec![Statement::new(sql, values)]).await? else {
            return Ok(Vec::new());
        };
        let mut evicted = Vec::new();
        for mut row in answers.pop().unwrap_or_default() {
            let scope = CacheScope { namespace: namespace.to_owned(), scope: row.text()? };
            evicted.push(EvictedCache { scope, name: row.text()?, key: row.text()?, bytes: row.size()? });
            self.release([row.text()?, row.text()?], now).await?;
        }
        Ok(evicted)
    }

    async fn expired(&self, rows: Vec<Row>, now: Timestamp) -> Result<Vec<ExpiredArtifact>, Error> {
        let mut all = Vec::with_capacity(rows.len());
        for mut row in rows {
            let task = Owner::new(&row.text()?, &row.text()?);
            let task = task.ok_or_else(|| Error::Damaged("an artifact has no valid owner".to_owned()))?;
            let Artifact { epoch, name, digest, bytes, expired, .. } = Artifact::read(&mut row)?;
            let expiry = expired.ok_or_else(|| Error::Damaged("an artifact did not expire".to_owned()))?;
            let digests = [Some(digest.as_str().to_owned()), row.optional_text()?];
            self.release(digests.into_iter().flatten(), now).await?;
            all.push(ExpiredArtifact {
                run: Run { task, epoch },
                name: (!name.starts_with('.')).then_some(name),
                bytes,
                expiry,
            });
        }
        Ok(all)
    }

    /// Lets blobs go soon, unless something else names them: a limit of space is to free space. Who reads one has this
    /// long.
    async fn release(&self, digests: impl IntoIterator<Item = String>, now: Timestamp) -> Result<(), Error> {
        let claimed = (now - (GRACE - RELEASED)).as_millisecond();
        for digest in digests {
            let sql = "UPDATE blobs SET claimed = $1 WHERE digest = $2 AND claimed > $1";
            self.write(vec![Statement::new(sql, vec![claimed.into(), digest.as_str().into()])]).await?;
        }
        Ok(())
    }
}
