//! The records and settings of runs.

use std::collections::BTreeMap;

use crate::{
    Error, Owner, Run, Store,
    database::{Outcome, Statement, Value},
    store::now,
};

impl Run {
    /// The key columns of the run.
    pub(crate) fn key(&self) -> Vec<Value> {
        vec![self.task.namespace().into(), self.task.uid().into(), self.epoch.into()]
    }

    /// Makes the row of the run, unless it exists.
    pub(crate) fn row(&self) -> Statement {
        let mut values = self.key();
        values.push(now().as_millisecond().into());
        Statement::new(
            "INSERT INTO runs (namespace, uid, epoch, created) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            values,
        )
    }
}

impl Store {
    pub(crate) async fn put_record(&self, run: &Run, record: Vec<u8>) -> Result<Vec<u8>, Error> {
        let first = "UPDATE runs SET record = coalesce(record, $1)
                     WHERE namespace = $2 AND uid = $3 AND epoch = $4 RETURNING record";
        self.put_once(run, first, record).await
    }

    pub(crate) async fn put_settings(&self, run: &Run, settings: Vec<u8>) -> Result<(), Error> {
        let first = "UPDATE runs SET settings = coalesce(settings, $1)
                     WHERE namespace = $2 AND uid = $3 AND epoch = $4 RETURNING settings";
        self.put_once(run, first, settings).await.map(drop)
    }

    /// Sets a column unless it has a value. Returns the value that it has then.
    async fn put_once(&self, run: &Run, update: &'static str, value: Vec<u8>) -> Result<Vec<u8>, Error> {
        let values = [vec![value.into()], run.key()].concat();
        let batch = vec![run.row(), Statement::new(update, values).requires(1)];
        if let Outcome::Done(mut answers) = self.write(batch).await?
            && let Some(mut row) = answers.pop().and_then(|mut rows| rows.pop())
            && let Some(value) = row.optional_bytes()?
        {
            return Ok(value);
        }
        Err(Error::Damaged(format!("{} cannot be recorded", run.record())))
    }

    pub(crate) async fn records_of(&self, task: &Owner) -> Result<BTreeMap<i64, Vec<u8>>, Error> {
        let sql = "SELECT epoch, record FROM runs WHERE namespace = $1 AND uid = $2 AND record IS NOT NULL";
        let rows = self.read_rows(sql, vec![task.namespace().into(), task.uid().into()]).await?;
        let record = |mut row: crate::database::Row| Ok((row.int()?, row.optional_bytes()?.unwrap_or_default()));
        rows.into_iter().map(record).collect()
    }

    pub(crate) async fn settings_of(&self, run: &Run) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT settings FROM runs WHERE namespace = $1 AND uid = $2 AND epoch = $3";
        let row = self.read_rows(sql, run.key()).await?.pop();
        Ok(row.map(|mut row| row.optional_bytes()).transpose()?.flatten())
    }

    pub(crate) async fn remove_task(&self, task: &Owner) -> Result<(), Error> {
        let tables = [
            // A publisher waits, and then finds no run.
            "UPDATE runs SET created = created WHERE namespace = $1 AND uid = $2",
            "DELETE FROM artifacts WHERE namespace = $1 AND uid = $2",
            "DELETE FROM approvals WHERE namespace = $1 AND uid = $2",
            "DELETE FROM log_parts WHERE namespace = $1 AND uid = $2",
            "DELETE FROM logs WHERE namespace = $1 AND uid = $2",
            "DELETE FROM runs WHERE namespace = $1 AND uid = $2",
        ];
        let remove = |sql| Statement::new(sql, vec![task.namespace().into(), task.uid().into()]);
        self.write(tables.map(remove).into()).await.map(drop)
    }

    pub(crate) async fn all_owners(&self) -> Result<Vec<Owner>, Error> {
        self.owners_by(
            "SELECT namespace, uid FROM runs UNION SELECT namespace, uid FROM artifacts
                   UNION SELECT namespace, uid FROM approvals",
            Vec::new(),
        )
        .await
    }

    pub(crate) async fn owners_by(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Owner>, Error> {
        let rows = self.read_rows(sql, values).await?;
        let mut owners = Vec::with_capacity(rows.len());
        for mut row in rows {
            owners.extend(Owner::new(&row.text()?, &row.text()?));
        }
        Ok(owners)
    }
}
