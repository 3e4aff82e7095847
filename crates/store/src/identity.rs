//! Whose data is here: the cluster whose Tasks a store knows, and the store that a place of blobs belongs to.
//!
//! A controller removes what belongs to no Task of its cluster, and a collection removes objects that no record names.
//! With the data of others both would remove everything. So the records name their cluster, and a place of blobs names
//! its store. What was copied from another store is marked: its Tasks need not exist here.

use jiff::{SignedDuration, Timestamp};

use crate::{
    Error, Owner, Store,
    database::{Outcome, Statement, Value},
    store::now,
};

/// Records of runs that were copied here stay this long without logs and artefacts, if there is no Task of theirs.
const COPIED_RECORDS: SignedDuration = SignedDuration::from_hours(90 * 24);

impl Store {
    /// Binds the store to a cluster, by the UID of its Namespace `kube-system`. Fails if it is bound to another one.
    pub async fn belong_to(&self, cluster: &str) -> Result<(), Error> {
        let recorded = self.property("cluster", cluster).await?;
        if recorded == cluster { Ok(()) } else { Err(Error::OtherCluster { recorded, cluster: cluster.to_owned() }) }
    }

    /// Binds the store to a cluster, also if it was bound to another one. What is in it counts as copied then. Returns
    /// whether it was.
    pub async fn move_to(&self, cluster: &str) -> Result<bool, Error> {
        if self.property("cluster", cluster).await? == cluster {
            return Ok(false);
        }
        let moved = "UPDATE properties SET value = $1 WHERE name = 'cluster'";
        let copied = "UPDATE runs SET imported = coalesce(imported, $1)";
        let batch = vec![
            Statement::new(copied, vec![now().as_millisecond().into()]),
            Statement::new(moved, vec![cluster.into()]),
        ];
        self.write(batch).await?;
        Ok(true)
    }

    /// The value of a property, which is `first` if it had none.
    async fn property(&self, name: &'static str, first: &str) -> Result<String, Error> {
        let sql = "INSERT INTO properties (name, value) VALUES ($1, $2)
                   ON CONFLICT (name) DO UPDATE SET value = properties.value RETURNING value";
        let Outcome::Done(mut answers) = self.write(vec![Statement::new(sql, vec![name.into(), first.into()])]).await?
        else {
            return Err(Error::Damaged(format!("the property {name} cannot be recorded")));
        };
        let row = answers.pop().and_then(|mut rows| rows.pop());
        Ok(row.ok_or_else(|| Error::Damaged(format!("there is no property {name}")))?.text()?)
    }

    /// Notes in the place of the blobs that they are those of this store. Fails if they are those of another one.
    pub(crate) async fn claim_blobs(&self) -> Result<(), Error> {
        let store = self.property("store", &format!("{:032x}", rand::random::<u128>())).await?;
        if self.blobs.store().await?.is_none() {
            self.blobs.set_store(&store).await?;
        }
        // Read again: another store may have come first.
        if self.blobs.store().await?.is_some_and(|found| found == store) { Ok(()) } else { Err(Error::OtherStore) }
    }

    /// Notes that a run is being copied here, if nothing of it is here. Returns whether that is so.
    pub(crate) async fn mark_copied(&self, run: &crate::Run) -> Result<bool, Error> {
        let sql = "INSERT INTO runs (namespace, uid, epoch, created, imported) VALUES ($1, $2, $3, $4, $4)
                   ON CONFLICT DO NOTHING";
        let values: Vec<Value> = [run.key(), vec![now().as_millisecond().into()]].concat();
        Ok(self.write(vec![Statement::new(sql, values).requires(1)]).await?.is_done())
    }

    pub(crate) async fn copied_owners(&self) -> Result<Vec<Owner>, Error> {
        self.owners_by("SELECT DISTINCT namespace, uid FROM runs WHERE imported IS NOT NULL", Vec::new()).await
    }

    pub(crate) async fn adopt_task(&self, task: &Owner) -> Result<(), Error> {
        let sql = "UPDATE runs SET imported = NULL WHERE namespace = $1 AND uid = $2 AND imported IS NOT NULL";
        self.write(vec![Statement::new(sql, vec![task.namespace().into(), task.uid().into()])]).await.map(drop)
    }

    /// Removes the records of runs that were copied here long ago, if nothing else of their Tasks is left.
    pub(crate) async fn forget_copied(&self, now: Timestamp) -> Result<(), Error> {
        let sql = "SELECT namespace, uid FROM runs AS copied WHERE imported IS NOT NULL
                   AND NOT EXISTS (SELECT 1 FROM runs AS own WHERE own.namespace = copied.namespace
                                   AND own.uid = copied.uid AND (own.imported IS NULL OR own.imported > $1))
                   AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.namespace = copied.namespace
                                   AND artifacts.uid = copied.uid AND expired IS NULL)
                   AND NOT EXISTS (SELECT 1 FROM logs WHERE logs.namespace = copied.namespace
                                   AND logs.uid = copied.uid AND kept > 0)
                   GROUP BY namespace, uid";
        let before = now.checked_sub(COPIED_RECORDS).unwrap_or(Timestamp::MIN).as_millisecond();
        for task in self.owners_by(sql, vec![before.into()]).await? {
            tracing::info!(namespace = task.namespace(), uid = task.uid(), "the records of a copied Task were removed");
            self.remove_task(&task).await?;
        }
        Ok(())
    }
}
