//! What runs leave besides logs: artefacts, outputs, and the change of the workspace as a patch.
//!
//! The first publication of a name counts. A run publishes until its record is written or a newer run of its Task begins
//! (I2): both are part of the transaction that publishes, as is the check that the bytes are stored.

use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;

use crate::{
    Digest, Error, Owner, Run, RunResults, Store, Stored,
    database::{Row, Statement, Value},
    store::now,
};

/// Bytes of the outputs of a run.
pub const MOST_OUTPUT_BYTES: usize = 64 << 10;
/// Bytes of the manifest of an artefact or a cache.
pub const MOST_MANIFEST_BYTES: usize = 64 << 20;
/// The name of the patch among the artefacts of a run, which no artefact can have.
const PATCH: &str = ".patch";
/// Attempts to publish beside collections and other publishers.
const ATTEMPTS: usize = 10;
/// The columns of an artefact, in the order in which [`Artifact::read`] takes them.
macro_rules! columns {
    () => {
        "epoch, name, digest, bytes, files, stored, expires, expired, expiry_cause"
    };
}
pub(crate) use columns;

/// What happened to a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    New,
    /// The same was published before.
    Same,
    /// Something else was published before, and stays.
    Other,
    /// The run has a record, or a newer run of the Task exists.
    Closed,
    /// The bytes are not stored, or not any more: store them again.
    Missing,
}

/// An artefact to publish. Its bytes are stored already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    /// Lowercase letters, digits and hyphens.
    pub name: String,
    pub digest: Digest,
    pub bytes: u64,
    pub files: u64,
    /// JSON that lists the files.
    pub manifest: Vec<u8>,
    pub expires: Option<Timestamp>,
}

/// A published artefact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The run that left it.
    pub epoch: i64,
    pub name: String,
    pub digest: Digest,
    pub bytes: u64,
    pub files: u64,
    pub stored: Timestamp,
    pub expires: Option<Timestamp>,
    /// Set once its bytes are gone.
    pub expired: Option<ArtifactExpiry>,
}

/// The whole change of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub digest: Digest,
    pub bytes: u64,
    pub stored: Timestamp,
    pub expired: Option<ArtifactExpiry>,
}

/// When and why the bytes of an artefact or a patch were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactExpiry {
    pub at: Timestamp,
    pub cause: ArtifactExpiryCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactExpiryCause {
    /// The time that the artefact was to be kept is over.
    Due,
    /// It was older than the maximum age.
    Age,
    /// The artefacts of the namespace needed too much space.
    Space,
    /// The namespace had too many artefacts.
    Count,
}

impl ArtifactExpiryCause {
    fn recorded(text: &str) -> Self {
        match text {
            "due" => Self::Due,
            "space" => Self::Space,
            "count" => Self::Count,
            _ => Self::Age,
        }
    }
}

/// A sentence for people.
impl fmt::Display for ArtifactExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            ArtifactExpiryCause::Due => "it was to be kept until then",
            ArtifactExpiryCause::Age => "it reached the maximum age of artifacts",
            ArtifactExpiryCause::Space => "the artifacts of its namespace needed more space than allowed",
            ArtifactExpiryCause::Count => "its namespace had more artifacts than allowed",
        };
        write!(f, "expired at {}: {cause}", self.at)
    }
}

impl Artifact {
    pub(crate) fn read(row: &mut Row) -> Result<Self, Error> {
        Ok(Self {
            epoch: row.int()?,
            name: row.text()?,
            digest: Digest::recorded(row.text()?),
            bytes: row.size()?,
            files: row.size()?,
            stored: timestamp(row.int()?)?,
            expires: row.optional_int()?.map(timestamp).transpose()?,
            expired: match (row.optional_int()?, row.optional_text()?) {
                (Some(at), cause) => {
                    let cause = ArtifactExpiryCause::recorded(&cause.unwrap_or_default());
                    Some(ArtifactExpiry { at: timestamp(at)?, cause })
                }
                (None, _) => None,
            },
        })
    }
}

pub(crate) fn timestamp(milliseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_millisecond(milliseconds).map_err(|error| Error::Damaged(error.to_string()))
}

/// Whether a text is the name of an artefact, as the schema of Tasks defines it.
fn is_name(text: &str) -> bool {
    let plain = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    plain && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

/// Stops the batch if the run has a record or a newer one exists. Locks the run, so that its record comes before or after
/// the batch.
fn open(run: &Run) -> Statement {
    let sql = "UPDATE runs SET created = created WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND record IS NULL
               AND NOT EXISTS (SELECT 1 FROM runs AS newer WHERE newer.namespace = $1 AND newer.uid = $2
                               AND newer.epoch > $3)";
    Statement::new(sql, run.key()).requires(1)
}

/// Statements that make the batch that names the blobs keep them, in an order in which batches cannot block each other.
pub(crate) fn in_use(blobs: &[&Stored]) -> Vec<Statement> {
    let mut blobs = blobs.to_vec();
    blobs.sort_by(|one, other| one.digest.cmp(&other.digest));
    blobs.into_iter().map(Stored::in_use).collect()
}

impl Store {
    /// Publishes an artefact of a run. Once this answered, its bytes stay until it expires or the Task is removed.
    pub async fn publish(&self, run: &Run, artifact: NewArtifact) -> Result<Published, Error> {
        let NewArtifact { name, digest, bytes, files, manifest, expires } = artifact;
        if !is_name(&name) {
            return Err(Error::Name(name, "name of an artifact"));
        }
        self.publish_files(run, &name, Stored { digest, bytes }, files, Some(manifest), expires).await
    }

    /// Publishes the change that a run made, likewise. It expires as artefacts do.
    pub async fn publish_patch(&self, run: &Run, digest: Digest, bytes: u64) -> Result<Published, Error> {
        self.publish_files(run, PATCH, Stored { digest, bytes }, 1, None, None).await
    }

    async fn publish_files(
        &self,
        run: &Run,
        name: &str,
        blob: Stored,
        files: u64,
        manifest: Option<Vec<u8>>,
        expires: Option<Timestamp>,
    ) -> Result<Published, Error> {
        let manifest = manifest.map(Bytes::from);
        for _ in 0..ATTEMPTS {
            let manifest = match &manifest {
                Some(manifest) => Some(self.put_manifest(manifest.clone()).await?),
                None => None,
            };
            let listed = manifest.as_ref().map(|manifest| manifest.digest.as_str().to_owned());
            let row = Statement::new(
                "INSERT INTO artifacts (namespace, uid, epoch, name, digest, bytes, files, manifest, stored, expires)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
                [
                    run.key(),
                    vec![
                        name.into(),
                        blob.digest.as_str().into(),
                        blob.bytes.into(),
                        files.into(),
                        listed.clone().into(),
                        now().as_millisecond().into(),
                        expires.map(Timestamp::as_millisecond).into(),
                    ],
                ]
                .concat(),
            );
            let mut batch = vec![run.row(), open(run)];
            batch.extend(in_use(&[Some(&blob), manifest.as_ref()].into_iter().flatten().collect::<Vec<_>>()));
            batch.push(row.requires(1));
            if self.write(batch).await?.is_done() {
                return Ok(Published::New);
            }
            let earlier = "SELECT digest, bytes, files, manifest FROM artifacts
                           WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND name = $4";
            if let Some(mut row) = self.read_rows(earlier, [run.key(), vec![name.into()]].concat()).await?.pop() {
                let same = row.text()? == blob.digest.as_str()
                    && row.size()? == blob.bytes
                    && row.size()? == files
                    && row.optional_text()? == listed;
                return Ok(if same { Published::Same } else { Published::Other });
            }
            if self.is_closed(run).await? {
                return Ok(Published::Closed);
            }
            if !self.is_stored(&blob).await? {
                return Ok(Published::Missing);
            }
        }
        Err(Error::Damaged(format!("artifact {name} of {} cannot be recorded", run.record())))
    }

    pub(crate) async fn put_manifest(&self, manifest: Bytes) -> Result<Stored, Error> {
        if manifest.len() > MOST_MANIFEST_BYTES {
            let (bytes, limit) = (manifest.len() as u64, MOST_MANIFEST_BYTES as u64);
            return Err(Error::TooLarge { what: "a manifest", bytes, limit });
        }
        self.put_bytes(manifest).await
    }

    /// Whether the run can publish no more.
    async fn is_closed(&self, run: &Run) -> Result<bool, Error> {
        let sql = "SELECT epoch FROM runs WHERE namespace = $1 AND uid = $2
                   AND (epoch > $3 OR (epoch = $3 AND record IS NOT NULL)) LIMIT 1";
        Ok(!self.read_rows(sql, run.key()).await?.is_empty())
    }

    pub(crate) async fn is_stored(&self, blob: &Stored) -> Result<bool, Error> {
        let sql = "SELECT digest FROM blobs WHERE digest = $1 AND bytes = $2 AND stored = 1";
        let values = vec![blob.digest.as_str().into(), blob.bytes.into()];
        Ok(!self.read_rows(sql, values).await?.is_empty())
    }

    /// The artefacts of a Task's runs, by epoch and name.
    pub async fn artifacts(&self, task: &Owner) -> Result<Vec<Artifact>, Error> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM artifacts WHERE namespace = $1 AND uid = $2 AND name <> '.patch' ORDER BY epoch, name"
        );
        let rows = self.read_rows(sql, vec![task.namespace().into(), task.uid().into()]).await?;
        sorted(rows)
    }

    async fn artifacts_of(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let sql = concat!("SELECT ", columns!(), " FROM artifacts WHERE namespace = $1 AND uid = $2 AND epoch = $3");
        sorted(self.read_rows(sql, run.key()).await?)
    }

    pub async fn artifact(&self, run: &Run, name: &str) -> Result<Option<Artifact>, Error> {
        Ok(self.artifacts_of(run).await?.into_iter().find(|artifact| artifact.name == name && name != PATCH))
    }

    /// The manifest of an artefact; `None` if there is no such artefact or it expired.
    pub async fn manifest(&self, run: &Run, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT manifest FROM artifacts
                   WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND name = $4 AND expired IS NULL";
        let row = self.read_rows(sql, [run.key(), vec![name.into()]].concat()).await?.pop();
        match row.map(|mut row| row.optional_text()).transpose()?.flatten() {
            Some(digest) => self.whole_blob(&Digest::recorded(digest)).await.map(Some),
            None => Ok(None),
        }
    }

    /// The blob that lists the files of an artefact; `None` if there is no such artefact or it expired.
    pub async fn manifest_blob(&self, run: &Run, name: &str) -> Result<Option<Stored>, Error> {
        let sql = "SELECT manifest, blobs.bytes FROM artifacts JOIN blobs ON blobs.digest = manifest
                   WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND artifacts.name = $4 AND expired IS NULL";
        let row = self.read_rows(sql, [run.key(), vec![name.into()]].concat()).await?.pop();
        row.map(|mut row| Ok(Stored { digest: Digest::recorded(row.text()?), bytes: row.size()? })).transpose()
    }

    /// The change that a run made.
    pub async fn patch(&self, run: &Run) -> Result<Option<Patch>, Error> {
        let mut found = self.artifacts_of(run).await?.into_iter();
        Ok(found.find(|artifact| artifact.name == PATCH).map(Patch::from))
    }

    /// Stores the outputs of a run, a JSON object of at most [`MOST_OUTPUT_BYTES`].
    pub async fn put_outputs(&self, run: &Run, json: Vec<u8>) -> Result<Published, Error> {
        if json.len() > MOST_OUTPUT_BYTES {
            let (bytes, limit) = (json.len() as u64, MOST_OUTPUT_BYTES as u64);
            return Err(Error::TooLarge { what: "outputs", bytes, limit });
        }
        for _ in 0..ATTEMPTS {
            let first = "UPDATE runs SET outputs = $1
                         WHERE namespace = $2 AND uid = $3 AND epoch = $4 AND outputs IS NULL";
            let values: Vec<Value> = [vec![json.clone().into()], run.key()].concat();
            let batch = vec![run.row(), open(run), Statement::new(first, values).requires(1)];
            if self.write(batch).await?.is_done() {
                return Ok(Published::New);
            }
            if let Some(earlier) = self.outputs(run).await? {
                return Ok(if earlier == json { Published::Same } else { Published::Other });
            }
            if self.is_closed(run).await? {
                return Ok(Published::Closed);
            }
        }
        Err(Error::Damaged(format!("the outputs of {} cannot be recorded", run.record())))
    }

    pub async fn outputs(&self, run: &Run) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT outputs FROM runs WHERE namespace = $1 AND uid = $2 AND epoch = $3";
        let row = self.read_rows(sql, run.key()).await?.pop();
        Ok(row.map(|mut row| row.optional_bytes()).transpose()?.flatten())
    }

    pub(crate) async fn results_of(&self, run: &Run) -> Result<RunResults, Error> {
        let (mut artifacts, outputs) = (self.artifacts_of(run).await?, self.outputs(run).await?);
        let patch = artifacts.iter().position(|artifact| artifact.name == PATCH);
        let patch = patch.map(|at| artifacts.remove(at).into());
        Ok(RunResults { artifacts, outputs, patch })
    }
}

impl From<Artifact> for Patch {
    fn from(artifact: Artifact) -> Self {
        let Artifact { epoch: _, name: _, digest, bytes, files: _, stored, expires: _, expired } = artifact;
        Self { digest, bytes, stored, expired }
    }
}

/// Databases order names by different languages.
fn sorted(rows: Vec<Row>) -> Result<Vec<Artifact>, Error> {
    let mut artifacts = rows.into_iter().map(|mut row| Artifact::read(&mut row)).collect::<Result<Vec<_>, _>>()?;
    artifacts.sort_by(|one, other| (one.epoch, &one.name).cmp(&(other.epoch, &other.name)));
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_artefact_is_that_of_the_schema() {
        for (text, expected) in [
            ("dist", true),
            ("a", true),
            ("test-results-2", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
            ("a/b", false),
            (PATCH, false),
            ("ä", false),
        ] {
            assert_eq!(is_name(text), expected, "{text}");
        }
    }
}
