//! Caches: files that a run leaves for later runs of the same Agent or template.
//!
//! An entry never changes: the first writer of a key counts. So whoever restores an entry gets what its key stands for,
//! and a new state needs a new key, as keys with hashes have.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use sha2::{Digest as _, Sha256};

use crate::{
    Digest, Error, Published, Store, Stored,
    artifacts::in_use,
    database::{Row, Statement, Value},
    store::now,
};

/// Bytes of the name or the key of a cache.
const MOST_TEXT_BYTES: usize = 1024;
/// Attempts to record or find an entry beside collections and evictions.
const ATTEMPTS: usize = 10;

/// Runs that share caches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheScope {
    pub namespace: String,
    /// Such as `template/NAME` or `agent/NAME`.
    pub scope: String,
}

/// An entry to store. Its bytes are stored already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCache {
    pub key: String,
    pub digest: Digest,
    pub bytes: u64,
    pub files: u64,
    /// JSON that lists the files.
    pub manifest: Vec<u8>,
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheHit {
    pub key: String,
    /// Whether it is the entry of the wanted key, not one that begins with a prefix.
    pub exact: bool,
    pub digest: Digest,
    pub bytes: u64,
    pub files: u64,
    /// The blob that lists the files.
    pub manifest: Digest,
}

impl CacheScope {
    fn entry(&self, name: &str, key: &str) -> Vec<Value> {
        [self.key(), vec![name.into(), key.into()]].concat()
    }

    fn key(&self) -> Vec<Value> {
        vec![self.namespace.as_str().into(), self.scope.as_str().into()]
    }
}

fn check(text: &str, what: &'static str) -> Result<(), Error> {
    let fits = !text.is_empty() && text.len() <= MOST_TEXT_BYTES && !text.contains('\0');
    if fits { Ok(()) } else { Err(Error::Name(text.chars().take(MOST_TEXT_BYTES).collect(), what)) }
}

impl Store {
    /// Finds the entry of a key, or else the newest one whose key starts with the first of the prefixes that any key
    /// starts with. The entry counts as used, and its bytes stay for [`GRACE`](crate::GRACE). One whose bytes are lost is
    /// removed, so that the next run saves it anew.
    pub async fn find_cache(
        &self,
        scope: &CacheScope,
        name: &str,
        key: &str,
        prefixes: &[String],
    ) -> Result<Option<CacheHit>, Error> {
        for _ in 0..ATTEMPTS {
            let Some(hit) = self.look_for_cache(scope, name, key, prefixes).await? else { return Ok(None) };
            if !(self.is_there(&hit.digest).await? && self.is_there(&hit.manifest).await?) {
                self.remove_damaged(scope, name, &hit.key, None).await?;
                continue;
            }
            let time = now().as_millisecond();
            let used = "UPDATE caches SET used = $5 WHERE namespace = $1 AND scope = $2 AND name = $3 AND key = $4";
            let used = Statement::new(used, [scope.entry(name, &hit.key), vec![time.into()]].concat());
            // In the order in which writers lock them, and before the entry, as writers do.
            let mut digests = [&hit.digest, &hit.manifest];
            digests.sort();
            let kept = "UPDATE blobs SET claimed = $1 WHERE digest = $2";
            let kept = |digest: &Digest| Statement::new(kept, vec![time.into(), digest.as_str().into()]);
            let mut batch: Vec<_> = digests.into_iter().map(kept).collect();
            // Refused if the entry was evicted meanwhile.
            batch.push(used.requires(1));
            if self.write(batch).await?.is_done() {
                return Ok(Some(hit));
            }
        }
        Ok(None)
    }

    async fn look_for_cache(
        &self,
        scope: &CacheScope,
        name: &str,
        key: &str,
        prefixes: &[String],
    ) -> Result<Option<CacheHit>, Error> {
        let exact = "SELECT key, digest, bytes, files, manifest FROM caches
                     WHERE namespace = $1 AND scope = $2 AND name = $3 AND key = $4";
        if let Some(mut row) = self.read_rows(exact, scope.entry(name, key)).await?.pop() {
            return hit(&mut row, true).map(Some);
        }
        // Not by LIKE, for which characters of a key have a meaning.
        let newest = "SELECT key, digest, bytes, files, manifest FROM caches
                      WHERE namespace = $1 AND scope = $2 AND name = $3 AND substr(key, 1, length($4)) = $4
                      ORDER BY created DESC, key DESC LIMIT 1";
        for prefix in prefixes {
            if let Some(mut row) = self.read_rows(newest, scope.entry(name, prefix)).await?.pop() {
                return hit(&mut row, false).map(Some);
            }
        }
        Ok(None)
    }

    /// Stores an entry unless one with its key exists. Never answers [`Published::Closed`].
    pub async fn put_cache(&self, scope: &CacheScope, name: &str, cache: NewCache) -> Result<Published, Error> {
        let NewCache { key, digest, bytes, files, manifest } = cache;
        for (text, what) in [(&*scope.scope, "scope"), (name, "name of a cache"), (&key, "key of a cache")] {
            check(text, what)?;
        }
        let blob = Stored { digest, bytes };
        let manifest = Bytes::from(manifest);
        for _ in 0..ATTEMPTS {
            let list = self.put_manifest(manifest.clone()).await?;
            let time = now().as_millisecond();
            let values =
                vec![blob.digest.as_str().into(), bytes.into(), files.into(), list.digest.as_str().into(), time.into()];
            let row = Statement::new(
                "INSERT INTO caches (namespace, scope, name, key, digest, bytes, files, manifest, created, used)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) ON CONFLICT DO NOTHING",
                [scope.entry(name, &key), values].concat(),
            );
            let mut batch = in_use(&[&blob, &list]);
            batch.push(row.requires(1));
            if self.write(batch).await?.is_done() {
                return Ok(Published::New);
            }
            let earlier = "SELECT digest, manifest FROM caches
                           WHERE namespace = $1 AND scope = $2 AND name = $3 AND key = $4";
            if let Some(mut row) = self.read_rows(earlier, scope.entry(name, &key)).await?.pop() {
                let same = row.text()? == blob.digest.as_str() && row.text()? == list.digest.as_str();
                return Ok(if same { Published::Same } else { Published::Other });
            }
            if !self.is_stored(&blob).await? {
                return Ok(Published::Missing);
            }
        }
        Err(Error::Damaged(format!("cache {name} of {} cannot be recorded", scope.scope)))
    }

    /// All bytes of one of the two blobs of an entry. If they turn out to be others than were stored, the entry is
    /// removed, so that the next run saves it anew.
    pub async fn read_cache(
        &self,
        scope: &CacheScope,
        name: &str,
        key: &str,
        digest: &Digest,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let bytes = self.read_blob(digest, 0..u64::MAX).await?;
        let (this, scope, digest) = (self.clone(), scope.clone(), digest.clone());
        let (name, key) = (name.to_owned(), key.to_owned());
        // The last chunk is held back until the digest is known: who has all bytes asks for no end.
        let start = Some((bytes, Sha256::new(), None::<Bytes>));
        let checked = stream::try_unfold(start, move |reading| {
            let (this, scope, digest) = (this.clone(), scope.clone(), digest.clone());
            let (name, key) = (name.clone(), key.clone());
            async move {
                let Some((mut bytes, mut hasher, mut held)) = reading else { return Ok(None) };
                while let Some(chunk) = bytes.try_next().await? {
                    hasher.update(&chunk);
                    if let Some(before) = held.replace(chunk) {
                        return Ok(Some((before, Some((bytes, hasher, held)))));
                    }
                }
                if Digest::finished(hasher) == digest {
                    return Ok(held.map(|last| (last, None)));
                }
                this.remove_damaged(&scope, &name, &key, Some(&digest)).await?;
                Err(Error::Damaged(format!("the blob {digest} has other bytes")))
            }
        });
        Ok(checked.boxed())
    }

    /// Removes one entry. Not an error if there is none.
    pub async fn remove_cache(&self, scope: &CacheScope, name: &str, key: &str) -> Result<(), Error> {
        let sql = "DELETE FROM caches WHERE namespace = $1 AND scope = $2 AND name = $3 AND key = $4";
        self.write(vec![Statement::new(sql, scope.entry(name, key))]).await.map(drop)
    }

    /// Removes an entry whose bytes are of no use. If nothing else names the damaged blob, its object is replaced by the
    /// next writer of the same bytes.
    async fn remove_damaged(
        &self,
        scope: &CacheScope,
        name: &str,
        key: &str,
        damaged: Option<&Digest>,
    ) -> Result<(), Error> {
        tracing::warn!(namespace = scope.namespace, scope = scope.scope, name, key, "a damaged cache was removed");
        self.remove_cache(scope, name, key).await?;
        let Some(digest) = damaged else { return Ok(()) };
        let unusable = "UPDATE blobs SET stored = 0 WHERE digest = $1
                        AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = digest)";
        self.write(vec![Statement::new(unusable, vec![digest.as_str().into()])]).await.map(drop)
    }

    pub(crate) async fn remove_cache_scope(&self, scope: &CacheScope) -> Result<(), Error> {
        let sql = "DELETE FROM caches WHERE namespace = $1 AND scope = $2";
        self.write(vec![Statement::new(sql, scope.key())]).await.map(drop)
    }

    pub(crate) async fn all_cache_scopes(&self) -> Result<Vec<CacheScope>, Error> {
        let rows = self.read_rows("SELECT DISTINCT namespace, scope FROM caches", Vec::new()).await?;
        let scope = |mut row: Row| Ok(CacheScope { namespace: row.text()?, scope: row.text()? });
        let mut scopes = rows.into_iter().map(scope).collect::<Result<Vec<_>, Error>>()?;
        scopes.sort();
        Ok(scopes)
    }
}

fn hit(row: &mut Row, exact: bool) -> Result<CacheHit, Error> {
    Ok(CacheHit {
        key: row.text()?,
        exact,
        digest: Digest::recorded(row.text()?),
        bytes: row.size()?,
        files: row.size()?,
        manifest: Digest::recorded(row.text()?),
    })
}
