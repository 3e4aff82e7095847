//! The audit of approvals: who answered which permission request of a run.
//!
//! An answer is recorded before it is sent to the agent and confirmed afterwards, so none takes effect without a record. One
//! that was refused is removed; one that is neither confirmed nor removed may have reached the agent.

use jiff::Timestamp;

use crate::{
    Error, Owner, Run, Store,
    artifacts::timestamp,
    database::{Outcome, Row, Statement},
    store::now,
};

/// Bytes of the longest entry.
pub const MOST_APPROVAL_BYTES: usize = 64 << 10;
/// Answers of a run that are recorded at most.
const MOST: u64 = 10_000;
/// Answers that are read at a time.
const PAGE: i64 = 1000;

/// A recorded answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub epoch: i64,
    /// Identifies the answer within its run.
    pub id: String,
    pub answered: Timestamp,
    /// Who answered what, and how. Opaque here.
    pub entry: Vec<u8>,
    /// When the agent accepted the answer; `None` if it is not known whether it did.
    pub accepted: Option<Timestamp>,
}

impl Approval {
    fn read(row: &mut Row) -> Result<Self, Error> {
        Ok(Self {
            epoch: row.int()?,
            id: row.text()?,
            answered: timestamp(row.int()?)?,
            entry: row.optional_bytes()?.unwrap_or_default(),
            accepted: row.optional_int()?.map(timestamp).transpose()?,
        })
    }
}

impl Store {
    /// Records an answer that is about to be sent. Durable when the future resolves.
    pub async fn record_approval(&self, run: &Run, id: &str, entry: Vec<u8>) -> Result<(), Error> {
        if id.is_empty() || id.len() > 128 {
            return Err(Error::Name(id.to_owned(), "identifier of an answer"));
        }
        if entry.len() > MOST_APPROVAL_BYTES {
            let (bytes, limit) = (entry.len() as u64, MOST_APPROVAL_BYTES as u64);
            return Err(Error::TooLarge { what: "an answer", bytes, limit });
        }
        let recorded = Statement::new(
            "INSERT INTO approvals (namespace, uid, epoch, id, answered, entry)
             SELECT $1, $2, $3, $4, $5, $6
             WHERE (SELECT count(*) FROM approvals WHERE namespace = $1 AND uid = $2 AND epoch = $3) < $7",
            [run.key(), vec![id.into(), now().as_millisecond().into(), entry.into(), MOST.into()]].concat(),
        );
        match self.write(vec![run.row(), recorded.requires(1)]).await? {
            Outcome::Done(_) => Ok(()),
            Outcome::Refused => Err(Error::TooLarge { what: "answers of one run", bytes: MOST + 1, limit: MOST }),
        }
    }

    /// Notes that the agent accepted an answer.
    pub async fn confirm_approval(&self, run: &Run, id: &str) -> Result<(), Error> {
        let sql = "UPDATE approvals SET accepted = coalesce(accepted, $1)
                   WHERE namespace = $2 AND uid = $3 AND epoch = $4 AND id = $5";
        let values = [vec![now().as_millisecond().into()], run.key(), vec![id.into()]].concat();
        self.write(vec![Statement::new(sql, values)]).await.map(drop)
    }

    /// Removes an answer that did not take effect.
    pub async fn withdraw_approval(&self, run: &Run, id: &str) -> Result<(), Error> {
        let sql = "DELETE FROM approvals
                   WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND id = $4 AND accepted IS NULL";
        self.write(vec![Statement::new(sql, [run.key(), vec![id.into()]].concat())]).await.map(drop)
    }

    /// The answers in all runs of a Task, the newest first; at most 1,000.
    pub async fn approvals(&self, task: &Owner) -> Result<Vec<Approval>, Error> {
        let sql = "SELECT epoch, id, answered, entry, accepted FROM approvals WHERE namespace = $1 AND uid = $2
                   ORDER BY answered DESC, id LIMIT $3";
        let rows = self.read_rows(sql, vec![task.namespace().into(), task.uid().into(), PAGE.into()]).await?;
        rows.into_iter().map(|mut row| Approval::read(&mut row)).collect()
    }

    /// Copies the answers of a run into another store. Returns how many it lacked.
    pub(crate) async fn export_approvals(&self, to: &Self, run: &Run) -> Result<u64, Error> {
        const OF_RUN: &str = "SELECT epoch, id, answered, entry, accepted FROM approvals
                              WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND id > $4 ORDER BY id LIMIT $5";
        let (mut after, mut copied) = (String::new(), 0);
        loop {
            let page = |id: &str| [run.key(), vec![id.into(), PAGE.into()]].concat();
            let known: Vec<Approval> = read(to.read_rows(OF_RUN, page(&after)).await?)?;
            let ours = read(self.read_rows(OF_RUN, page(&after)).await?)?;
            let Some(last) = ours.last() else { return Ok(copied) };
            let last = last.id.clone();
            let lacking = |ours: &Approval| {
                known.iter().find(|there| there.id == ours.id).is_none_or(|there| there.accepted < ours.accepted)
            };
            let batch: Vec<Statement> = ours.iter().filter(|ours| lacking(ours)).map(|ours| ours.copy(run)).collect();
            copied += batch.len() as u64;
            if !batch.is_empty() {
                to.write([vec![run.row()], batch].concat()).await?;
            }
            after = last;
        }
    }
}

fn read(rows: Vec<Row>) -> Result<Vec<Approval>, Error> {
    rows.into_iter().map(|mut row| Approval::read(&mut row)).collect()
}

impl Approval {
    fn copy(&self, run: &Run) -> Statement {
        let values = vec![
            self.id.as_str().into(),
            self.answered.as_millisecond().into(),
            self.entry.clone().into(),
            self.accepted.map(Timestamp::as_millisecond).into(),
        ];
        Statement::new(
            "INSERT INTO approvals (namespace, uid, epoch, id, answered, entry, accepted)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (namespace, uid, epoch, id)
             DO UPDATE SET accepted = coalesce(approvals.accepted, excluded.accepted)",
            [run.key(), values].concat(),
        )
    }
}
