//! Lists of runs, page by page. A page begins behind the last run of the page before: it costs the same wherever it is,
//! and a run that is created meanwhile moves no other one.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::{
    Error, Owner, Run, Store,
    artifacts::timestamp,
    database::{Row, Value},
};

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRun {
    pub run: Run,
    /// When the store first heard of the run.
    pub created: Timestamp,
    /// How the run ended; `None` while it has no final record.
    pub record: Option<Vec<u8>>,
}

impl ListedRun {
    /// Where the next page begins if this is the last run of a page.
    pub fn cursor(&self) -> RunCursor {
        RunCursor { created: self.created.as_millisecond(), run: self.run.clone() }
    }
}

/// A place in a list of runs. Its text has no meaning for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCursor {
    /// In milliseconds since 1970.
    created: i64,
    run: Run,
}

impl fmt::Display for RunCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, run: Run { task, epoch } } = self;
        // Names of owners have no slash.
        write!(f, "{created}/{}/{}/{epoch}", task.namespace(), task.uid())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a place in a list of runs")]
pub struct NotACursor;

impl FromStr for RunCursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let mut parts = text.split('/');
        let mut next = || parts.next().ok_or(NotACursor);
        let (created, namespace, uid, epoch) = (next()?, next()?, next()?, next()?);
        let task = Owner::new(namespace, uid).ok_or(NotACursor)?;
        let run = Run { task, epoch: epoch.parse().map_err(|_| NotACursor)? };
        let created = created.parse().map_err(|_| NotACursor)?;
        if parts.next().is_some() { Err(NotACursor) } else { Ok(Self { created, run }) }
    }
}

const OF_ALL: &str = "SELECT namespace, uid, epoch, created, record FROM runs
    WHERE (created, namespace, uid, epoch) < ($1, $2, $3, $4)
    ORDER BY created DESC, namespace DESC, uid DESC, epoch DESC LIMIT $5";
const OF_NAMESPACE: &str = "SELECT namespace, uid, epoch, created, record FROM runs
    WHERE namespace = $2 AND (created, uid, epoch) < ($1, $3, $4)
    ORDER BY created DESC, uid DESC, epoch DESC LIMIT $5";

impl Store {
    /// Up to `limit` runs of a namespace or of all, newest first, after a place in the list.
    pub async fn runs(
        &self,
        namespace: Option<&str>,
        after: Option<&RunCursor>,
        limit: u32,
    ) -> Result<Vec<ListedRun>, Error> {
        let (created, name, uid, epoch) = match after {
            Some(RunCursor { created, run: Run { task, epoch } }) => (*created, task.namespace(), task.uid(), *epoch),
            None => (i64::MAX, "", "", 0),
        };
        let values = |name: &str| -> Vec<Value> {
            vec![created.into(), name.into(), uid.into(), epoch.into(), i64::from(limit).into()]
        };
        let rows = match namespace {
            Some(namespace) => self.read_rows(OF_NAMESPACE, values(namespace)).await?,
            None => self.read_rows(OF_ALL, values(name)).await?,
        };
        let listed = |mut row: Row| {
            let task = Owner::new(&row.text()?, &row.text()?);
            let task = task.ok_or_else(|| Error::Damaged("a run has no valid owner".to_owned()))?;
            let run = Run { task, epoch: row.int()? };
            Ok(ListedRun { run, created: timestamp(row.int()?)?, record: row.optional_bytes()? })
        };
        rows.into_iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_list_survives_as_text() {
        let task = Owner::new("default", "7c9e6679-7425-40de-944b-e07fc1f90ae7").unwrap();
        let cursor = RunCursor { created: 1_700_000_000_123, run: Run { task, epoch: 3 } };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "1", "1/n/u", "1/n/u/1/x", "x/n/u/1", "1/../u/1", "1/n//1", "1/n/u/x"] {
            assert_eq!(text.parse::<RunCursor>(), Err(NotACursor), "{text}");
        }
    }

    /// A page costs what it contains: neither a scan of the table nor a sort.
    #[tokio::test]
    async fn pages_are_read_from_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let _store = Store::directory(directory.path()).unwrap();
        let database = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
        for (sql, index) in [(OF_ALL, "runs_newest"), (OF_NAMESPACE, "runs_created")] {
            let mut plan = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps: Vec<String> = plan
                .query_map(rusqlite::params![1, "n", "u", 1, 50], |row| row.get("detail"))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let [step] = &steps[..] else { panic!("{steps:?}") };
            assert!(step.starts_with("SEARCH") && step.contains(index), "{step}");
        }
    }

    /// Also beside an index for each user of blobs.
    #[tokio::test]
    async fn whether_a_blob_is_in_use_is_read_from_indexes() {
        let directory = tempfile::tempdir().unwrap();
        let _store = Store::directory(directory.path()).unwrap();
        let database = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
        let sql = "EXPLAIN QUERY PLAN SELECT digest FROM blobs
                   WHERE NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = digest)";
        let mut plan = database.prepare(sql).unwrap();
        let steps: Vec<String> = plan.query_map([], |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
        let scans: Vec<_> = steps.iter().filter(|step| step.starts_with("SCAN")).collect();
        assert_eq!(scans.len(), 1, "only blobs are listed: {steps:?}");
        assert_eq!(steps.iter().filter(|step| step.starts_with("SEARCH")).count(), 5, "{steps:?}");
    }
}
