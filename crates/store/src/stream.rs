//! Blobs that come and go as streams, of which little is in memory at a time.
//!
//! The digest of a stream is known at its end. So its object has a name of its own and a row in `uploads` while it grows:
//! a collection finds what a writer left that died, also parts in a bucket, which do not appear in a list of objects. At
//! the end one transaction replaces that row by the record of the blob.

use std::{
    io,
    ops::Range,
    pin::{Pin, pin},
};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use crate::{
    Error, GRACE, Store,
    blobs::{Blobs, Digest},
    database::{Outcome, Statement},
    store::now,
    upload::{PART, Upload},
};

/// Bytes that are hashed before other tasks get their turn.
const TURN: usize = 256 << 10;
/// Attempts to record a blob beside collections.
const ATTEMPTS: usize = 10;

/// Bytes that are stored, for [`GRACE`] or as long as something names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub digest: Digest,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the bytes cannot be read: {0}")]
    Source(#[source] io::Error),
    #[error("more than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: u64,
    },
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<object_store::Error> for PutError {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// Stores up to `limit` bytes. They stay for [`GRACE`], and for as long as something names their digest.
    ///
    /// If the stream fails, is too long, or the future is dropped, what was written is removed.
    pub async fn put_stream(
        &self,
        bytes: impl Stream<Item = io::Result<Bytes>> + Send,
        limit: u64,
    ) -> Result<Stored, PutError> {
        let mut source = Source { bytes: pin!(bytes), rest: Bytes::new(), hasher: Sha256::new(), length: 0, limit };
        let first = source.part(PART).await?;
        if first.len() < PART {
            return Ok(self.put_whole(Digest::finished(source.hasher), first).await?);
        }
        let mut writing = self.begin_stream().await?;
        match writing.write(source, first).await {
            Ok(stored) => Ok(stored),
            Err(error) => {
                writing.abandon().await;
                Err(error)
            }
        }
    }

    /// Whether uploads should wait: the disk of the blobs has little space left.
    pub async fn is_almost_full(&self) -> Result<bool, Error> {
        Ok(self.blobs.is_almost_full().await?)
    }

    /// Stores bytes like [`put_stream`](Self::put_stream).
    pub(crate) async fn put_bytes(&self, bytes: Bytes) -> Result<Stored, Error> {
        match self.put_stream(stream::iter([Ok(bytes)]), u64::MAX).await {
            Ok(stored) => Ok(stored),
            Err(PutError::Store(error)) => Err(error),
            Err(other) => Err(Error::Damaged(other.to_string())),
        }
    }

    async fn put_whole(&self, digest: Digest, bytes: Bytes) -> Result<Stored, Error> {
        for _ in 0..ATTEMPTS {
            let blob = self.put_named(digest.clone(), bytes.clone()).await?;
            // Refused if the record was collected or replaced meanwhile.
            if self.write(vec![blob.in_use()]).await?.is_done() {
                return Ok(Stored { digest, bytes: bytes.len() as u64 });
            }
        }
        Err(Error::Damaged(format!("the blob {digest} cannot be recorded")))
    }

    async fn begin_stream(&self) -> Result<Writing, Error> {
        let name = Blobs::new_stream_name();
        let upload = self.blobs.begin(&name).await?;
        let values = vec![name.as_str().into(), upload.id().map(str::to_owned).into(), now().as_millisecond().into()];
        let mut writing = Writing { store: self.clone(), name, upload: Some(upload) };
        let noted = "INSERT INTO uploads (name, id, started, abandoned) VALUES ($1, $2, $3, 0)";
        match self.write(vec![Statement::new(noted, values)]).await {
            Ok(_) => Ok(writing),
            Err(error) => {
                // Nothing was sent yet, so a failure leaves nothing that needs space.
                if let Some(upload) = writing.upload.take() {
                    let _ = self.blobs.discard(&writing.name, upload.id()).await;
                }
                Err(error)
            }
        }
    }

    /// Removes what an upload left, unless it is the object of a blob by now.
    async fn abandon_upload(&self, name: &str, id: Option<&str>) -> Result<(), Error> {
        // Waits for a write of the record whose caller is gone.
        let marked = Statement::new("UPDATE uploads SET abandoned = 1 WHERE name = $1", vec![name.into()]);
        if self.write(vec![marked.requires(1)]).await?.is_done() {
            self.discard_upload(name, id).await?;
        }
        Ok(())
    }

    /// Removes what an abandoned upload left, and then its row.
    async fn discard_upload(&self, name: &str, id: Option<&str>) -> Result<(), Error> {
        self.blobs.discard(name, id).await?;
        let forgotten = Statement::new("DELETE FROM uploads WHERE name = $1 AND abandoned = 1", vec![name.into()]);
        self.write(vec![forgotten]).await.map(drop)
    }

    /// Removes what uploads left that were begun before a time. Returns their number.
    pub(crate) async fn collect_uploads(&self, before: Timestamp) -> Result<u64, Error> {
        let abandoned = "UPDATE uploads SET abandoned = 1 WHERE started < $1";
        self.write(vec![Statement::new(abandoned, vec![before.as_millisecond().into()])]).await?;
        let mut removed = 0;
        for mut row in self.read_rows("SELECT name, id FROM uploads WHERE abandoned = 1", Vec::new()).await? {
            let (name, id) = (row.text()?, row.optional_text()?);
            if let Err(error) = self.discard_upload(&name, id.as_deref()).await {
                // Blobs that are not in use are removed all the same.
                tracing::warn!(name, %error, "what unfinished uploads left stays until the next collection");
                break;
            }
            removed += 1;
        }
        Ok(removed)
    }

    /// The bytes of a blob, or a part of them; bytes behind its end are left out. A chunk has a few MiB at most.
    ///
    /// From now on the blob stays for at least half of [`GRACE`], so that it does not vanish while it is read; if what
    /// names it expires meanwhile, for an hour.
    pub async fn read_blob(
        &self,
        digest: &Digest,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let sql = "SELECT name, bytes, claimed FROM blobs WHERE digest = $1 AND stored = 1";
        let Some(mut row) = self.read_rows(sql, vec![digest.as_str().into()]).await?.pop() else {
            return Err(Error::NoBlob(digest.clone()));
        };
        let (name, bytes, claimed) = (row.text()?, row.size()?, row.int()?);
        let old = (now() - GRACE / 2).as_millisecond();
        if claimed < old {
            let claim = "UPDATE blobs SET claimed = $1 WHERE digest = $2 AND claimed < $3";
            let values = vec![now().as_millisecond().into(), digest.as_str().into(), old.into()];
            self.write(vec![Statement::new(claim, values)]).await?;
        }
        let end = range.end.min(bytes);
        Ok(self.blobs.stream(&name, range.start.min(end)..end).map_err(Error::from).boxed())
    }

    /// Whether the object of a blob is there, with its length.
    pub(crate) async fn is_there(&self, digest: &Digest) -> Result<bool, Error> {
        let sql = "SELECT name, bytes FROM blobs WHERE digest = $1 AND stored = 1";
        match self.read_rows(sql, vec![digest.as_str().into()]).await?.pop() {
            Some(mut row) => Ok(self.blobs.has(&row.text()?, row.size()?).await?),
            None => Ok(false),
        }
    }

    /// All bytes of a small blob, compared with its digest.
    pub(crate) async fn whole_blob(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let (mut all, mut hasher) = (Vec::new(), Sha256::new());
        let mut chunks = self.read_blob(digest, 0..u64::MAX).await?;
        while let Some(chunk) = chunks.try_next().await? {
            hasher.update(&chunk);
            all.extend_from_slice(&chunk);
        }
        if Digest::finished(hasher) == *digest {
            return Ok(all);
        }
        Err(Error::Damaged(format!("the blob {digest} has other bytes")))
    }
}

impl Stored {
    /// Makes the batch that names the blob keep it. The batch is refused unless the bytes are stored.
    pub(crate) fn in_use(&self) -> Statement {
        let claim = "UPDATE blobs SET claimed = $1 WHERE digest = $2 AND bytes = $3 AND stored = 1";
        let values = vec![now().as_millisecond().into(), self.digest.as_str().into(), self.bytes.into()];
        Statement::new(claim, values).requires(1)
    }
}

/// A stream that is hashed, counted and cut into parts.
struct Source<'a, S> {
    bytes: Pin<&'a mut S>,
    /// What did not fit into the last part.
    rest: Bytes,
    hasher: Sha256,
    length: u64,
    limit: u64,
}

impl<S: Stream<Item = io::Result<Bytes>>> Source<'_, S> {
    /// The next part. Only the last one is shorter than `size`.
    async fn part(&mut self, size: usize) -> Result<Bytes, PutError> {
        // Copied, because a stream of tiny chunks would need far more memory than it has bytes.
        let mut part = BytesMut::with_capacity(size);
        while part.len() < size {
            if self.rest.is_empty() {
                match self.bytes.next().await {
                    Some(chunk) => self.rest = chunk.map_err(PutError::Source)?,
                    None => break,
                }
            }
            let piece = self.rest.split_to(self.rest.len().min(TURN).min(size - part.len()));
            self.length += piece.len() as u64;
            if self.length > self.limit {
                return Err(PutError::TooLarge { limit: self.limit });
            }
            self.hasher.update(&piece);
            part.extend_from_slice(&piece);
            if !self.rest.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        Ok(part.freeze())
    }
}

/// An object that is being written. Dropped before its end, it is removed in the background.
struct Writing {
    store: Store,
    name: String,
    /// `None` once nothing is left to remove.
    upload: Option<Upload>,
}

impl Writing {
    async fn write<S>(&mut self, mut source: Source<'_, S>, first: Bytes) -> Result<Stored, PutError>
    where
        S: Stream<Item = io::Result<Bytes>>,
    {
        let Some(upload) = &mut self.upload else { return Err(Error::Damaged("no upload".to_owned()).into()) };
        let mut part = first;
        while !part.is_empty() {
            upload.send(part).await?;
            part = source.part(upload.part()).await?;
        }
        upload.complete().await?;
        let stored = Stored { digest: Digest::finished(source.hasher), bytes: source.length };
        self.record(&stored).await?;
        Ok(stored)
    }

    /// Replaces the row of the upload by the record of its blob. If the same bytes are stored already, the new object is
    /// removed.
    async fn record(&mut self, stored: &Stored) -> Result<(), Error> {
        let Stored { digest, bytes } = stored;
        let name = || self.name.as_str().into();
        // Refused if a collection took the upload for abandoned.
        let alive =
            Statement::new("UPDATE uploads SET started = started WHERE name = $1 AND abandoned = 0", vec![name()]);
        // A record whose bytes are not stored yet is that of a writer that notices when it names the blob.
        let recorded = Statement::new(
            "INSERT INTO blobs (digest, name, bytes, claimed, stored) VALUES ($1, $2, $3, $4, 1)
             ON CONFLICT (digest) DO UPDATE SET claimed = excluded.claimed, stored = 1,
             name = CASE WHEN blobs.stored = 0 THEN excluded.name ELSE blobs.name END RETURNING name",
            vec![digest.as_str().into(), name(), (*bytes).into(), now().as_millisecond().into()],
        );
        let done = Statement::new(
            "DELETE FROM uploads WHERE name = $1 AND EXISTS (SELECT 1 FROM blobs WHERE digest = $2 AND blobs.name = $1)",
            vec![name(), digest.as_str().into()],
        );
        let batch = vec![alive.requires(1), recorded.requires(1), done];
        let Outcome::Done(mut answers) = self.store.write(batch).await? else {
            return Err(Error::Damaged(format!("the upload of {digest} took longer than {GRACE:#}")));
        };
        let row = answers.get_mut(1).and_then(Vec::pop);
        let used = row.ok_or_else(|| Error::Damaged(format!("the blob {digest} is not recorded")))?.text()?;
        if used != self.name && !self.store.blobs.has(&used, *bytes).await? {
            // The known object is lost: this one takes its place.
            let replaced = Statement::new(
                "UPDATE blobs SET name = $1 WHERE digest = $2 AND name = $3",
                vec![name(), digest.as_str().into(), used.as_str().into()],
            );
            let done = Statement::new("DELETE FROM uploads WHERE name = $1 AND abandoned = 0", vec![name()]);
            if self.store.write(vec![done.requires(1), replaced.requires(1)]).await?.is_done() {
                self.upload = None;
                return Ok(());
            }
        }
        if used == self.name {
            self.upload = None;
        } else {
            self.remove().await;
        }
        Ok(())
    }

    async fn abandon(mut self) {
        self.remove().await;
    }

    async fn remove(&mut self) {
        if let Some(upload) = self.upload.take() {
            remove(self.store.clone(), self.name.clone(), upload).await;
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Without a runtime it stays for a collection.
        if let Some(upload) = self.upload.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(remove(self.store.clone(), std::mem::take(&mut self.name), upload));
        }
    }
}

async fn remove(store: Store, name: String, upload: Upload) {
    let id = upload.id().map(str::to_owned);
    upload.stop().await;
    if let Err(error) = store.abandon_upload(&name, id.as_deref()).await {
        tracing::warn!(name, %error, "a part of an upload stays until a collection removes it");
    }
}
