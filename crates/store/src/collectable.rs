//! What a collection would remove.

use futures::TryStreamExt as _;
use jiff::SignedDuration;

use crate::{Collected, Error, Store, store::now};

impl Store {
    /// What [`collect`](Self::collect) and [`collect_unrecorded`](Self::collect_unrecorded) would remove, without removing
    /// anything. Files in which a process that was killed collected bytes are not counted.
    pub async fn collectable(&self, grace: SignedDuration) -> Result<Collected, Error> {
        let before = now() - grace;
        let unused = "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM blobs WHERE claimed < $1
                      AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = digest)";
        let uploads = "SELECT count(*) FROM uploads WHERE abandoned = 1 OR started < $1";
        let mut collectable = Collected::default();
        if let Some(mut row) = self.read_rows(unused, vec![before.as_millisecond().into()]).await?.pop() {
            (collectable.blobs, collectable.bytes) = (row.size()?, row.size()?);
        }
        if let Some(mut row) = self.read_rows(uploads, vec![before.as_millisecond().into()]).await?.pop() {
            collectable.uploads = row.size()?;
        }
        let known = "SELECT name FROM blobs WHERE name = $1 UNION ALL SELECT name FROM uploads WHERE name = $1";
        let mut objects = self.blobs.list();
        while let Some(found) = objects.try_next().await? {
            if found.changed < before && self.read_rows(known, vec![found.name.as_str().into()]).await?.is_empty() {
                collectable.blobs += 1;
                collectable.bytes += found.bytes;
            }
        }
        Ok(collectable)
    }
}
