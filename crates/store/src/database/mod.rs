//! The database behind a store: SQLite for one machine, Postgres for several replicas.
//!
//! Both read the same SQL. A write is a batch of statements that succeeds as a whole; a statement may require a number of
//! affected rows, and a batch whose requirement fails changes nothing. So a precondition is part of the write itself, and
//! no transaction stays open while this program waits for something else.

mod migrations;
mod postgres;
mod sqlite;

use std::fmt;

use futures::future::BoxFuture;

pub(crate) use postgres::Postgres;
pub(crate) use sqlite::Sqlite;

/// A value of a parameter or a column. The variant is the type also where the value is NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

/// Sizes and offsets: nothing that is stored reaches the half of the range that is lost.
impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(Some(value))
    }
}

impl From<Option<Vec<u8>>> for Value {
    fn from(value: Option<Vec<u8>>) -> Self {
        Self::Bytes(value)
    }
}

/// One row of an answer. Columns are taken in order.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    pub(crate) fn int(&mut self) -> Result<i64, DatabaseError> {
        self.optional_int()?.ok_or(DatabaseError::Column("a number"))
    }

    pub(crate) fn optional_int(&mut self) -> Result<Option<i64>, DatabaseError> {
        match self.0.next() {
            Some(Value::Int(value)) => Ok(value),
            Some(Value::Text(None) | Value::Bytes(None)) => Ok(None),
            _ => Err(DatabaseError::Column("a number")),
        }
    }

    /// A size or an offset.
    pub(crate) fn size(&mut self) -> Result<u64, DatabaseError> {
        u64::try_from(self.int()?).map_err(|_| DatabaseError::Column("a size"))
    }

    pub(crate) fn text(&mut self) -> Result<String, DatabaseError> {
        self.optional_text()?.ok_or(DatabaseError::Column("a text"))
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, DatabaseError> {
        match self.0.next() {
            Some(Value::Text(value)) => Ok(value),
            Some(Value::Int(None) | Value::Bytes(None)) => Ok(None),
            _ => Err(DatabaseError::Column("a text")),
        }
    }

    pub(crate) fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, DatabaseError> {
        match self.0.next() {
            Some(Value::Bytes(value)) => Ok(value),
            Some(Value::Int(None) | Value::Text(None)) => Ok(None),
            _ => Err(DatabaseError::Column("bytes")),
        }
    }
}

/// A statement with its parameters `$1`, `$2`, …
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
    /// The number of affected or returned rows without which the batch changes nothing.
    pub(crate) rows: Option<usize>,
}

impl Statement {
    pub(crate) fn new(sql: &'static str, values: Vec<Value>) -> Self {
        Self { sql, values, rows: None }
    }

    /// The batch is refused unless the statement affects this number of rows.
    #[must_use]
    pub(crate) fn requires(self, rows: usize) -> Self {
        Self { rows: Some(rows), ..self }
    }
}

/// What happened to a batch.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is durable. The rows that each statement returned.
    Done(Vec<Vec<Row>>),
    /// A requirement failed; nothing changed.
    Refused,
}

impl Outcome {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

pub(crate) trait Database: fmt::Debug + Send + Sync {
    /// Runs the statements in one transaction. They are durable when the future resolves.
    fn write(&self, batch: Vec<Statement>) -> BoxFuture<'_, Result<Outcome, DatabaseError>>;

    fn read(&self, sql: &'static str, values: Vec<Value>) -> BoxFuture<'_, Result<Vec<Row>, DatabaseError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The text of the server, without parameters.
    #[error("{0}")]
    Postgres(String),
    /// A commit of several batches failed, none of which is at fault.
    #[error("{0}")]
    Failed(String),
    #[error("the database does not answer: {0}")]
    Unreachable(String),
    #[error("step {number} of the schema cannot be taken: {source}")]
    Step { number: i64, source: Box<DatabaseError> },
    #[error("a column of the database does not hold {0}")]
    Column(&'static str),
    #[error(
        "the records have version {found}, which this program does not know (it knows versions up to {known}): use the program that wrote them, or a newer one"
    )]
    Newer { found: i64, known: i64 },
    #[error("cannot use {place}: {source}")]
    File { place: String, source: std::io::Error },
    #[error("the writer of the database ended")]
    Stopped,
}
