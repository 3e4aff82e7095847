//! Which namespaces sent a blob. Equal bytes are stored once, so knowing a digest must not be enough to use them.

use jiff::Timestamp;

use crate::{Digest, Error, Store, database::Statement, store::now};

impl Store {
    /// Notes that a namespace sent the bytes of a blob.
    pub async fn note_sender(&self, namespace: &str, digest: &Digest) -> Result<(), Error> {
        let sql = "INSERT INTO senders (namespace, digest, sent) VALUES ($1, $2, $3)
                   ON CONFLICT (namespace, digest) DO UPDATE SET sent = excluded.sent";
        let values = vec![namespace.into(), digest.as_str().into(), now().as_millisecond().into()];
        self.write(vec![Statement::new(sql, values)]).await.map(drop)
    }

    /// Whether a namespace sent the bytes of a blob.
    pub async fn was_sent_by(&self, namespace: &str, digest: &Digest) -> Result<bool, Error> {
        let sql = "SELECT sent FROM senders WHERE namespace = $1 AND digest = $2";
        Ok(!self.read_rows(sql, vec![namespace.into(), digest.as_str().into()]).await?.is_empty())
    }

    /// Forgets the senders of blobs that do not exist any more.
    pub(crate) async fn forget_senders(&self, before: Timestamp) -> Result<(), Error> {
        let sql = "DELETE FROM senders WHERE sent < $1
                   AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.digest = senders.digest)";
        self.write(vec![Statement::new(sql, vec![before.as_millisecond().into()])]).await.map(drop)
    }
}
