//! SQLite: one file with a write-ahead log. One thread writes; what arrives while it commits is committed together next.

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use rusqlite::{
    Connection, ErrorCode, TransactionBehavior,
    types::{ToSqlOutput, ValueRef},
};
use tokio::sync::{mpsc, oneshot};

use super::{Database, DatabaseError, Outcome, Row, Statement, Value, migrations};

/// Maximum number of batches per commit, to bound the latency of the first.
const MAX_COMMIT: usize = 256;
/// Batches that wait for the writer; more callers wait for room.
const WAITING: usize = 1024;
/// Another process may be writing.
const BUSY: Duration = Duration::from_secs(20);
/// Connections that are kept for later reads.
const READERS: usize = 4;
/// The server may run as another user of the same group.
const FILE_MODE: u32 = 0o660;

type Answer = oneshot::Sender<Result<Outcome, DatabaseError>>;

#[derive(Clone, Debug)]
pub(crate) struct Sqlite {
    file: PathBuf,
    writer: mpsc::Sender<(Vec<Statement>, Answer)>,
    readers: Arc<Mutex<Vec<Connection>>>,
}

impl Sqlite {
    pub(crate) fn open(file: &Path) -> Result<Self, DatabaseError> {
        let unusable = |source| DatabaseError::File { place: file.display().to_string(), source };
        let writer = match Writer::connect(file) {
            // A disk that is full or failing is no reason to refuse work that does not need it. Each write tries again.
            Err(DatabaseError::Sqlite(error)) if is_of_disk(&error) => {
                tracing::warn!(file = %file.display(), %error, "the records cannot be used now");
                Writer { file: file.to_owned(), connection: None }
            }
            other => other?,
        };
        let (sender, batches) = mpsc::channel(WAITING);
        let thread = thread::Builder::new().name("records".to_owned());
        thread.spawn(move || writer.run(batches)).map_err(unusable)?;
        Ok(Self { file: file.to_owned(), writer: sender, readers: Arc::default() })
    }

    fn read_now(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        let lock = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let connection = idle.map_or_else(|| connect(&self.file), Ok)?;
        let rows =
            connection.prepare_cached(sql).map_err(DatabaseError::from).and_then(|mut it| rows_of(&mut it, values))?;
        let mut readers = lock();
        if readers.len() < READERS {
            readers.push(connection);
        }
        Ok(rows)
    }
}

impl Database for Sqlite {
    fn write(&self, batch: Vec<Statement>) -> BoxFuture<'_, Result<Outcome, DatabaseError>> {
        async move {
            let (answer, outcome) = oneshot::channel();
            self.writer.send((batch, answer)).await.map_err(|_| DatabaseError::Stopped)?;
            outcome.await.map_err(|_| DatabaseError::Stopped)?
        }
        .boxed()
    }

    fn read(&self, sql: &'static str, values: Vec<Value>) -> BoxFuture<'_, Result<Vec<Row>, DatabaseError>> {
        let this = self.clone();
        async move {
            let read = tokio::task::spawn_blocking(move || this.read_now(sql, &values)).await;
            read.unwrap_or(Err(DatabaseError::Stopped))
        }
        .boxed()
    }
}

fn is_of_disk(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
}

fn connect(file: &Path) -> Result<Connection, DatabaseError> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit is on the disk before it is acknowledged.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), DatabaseError> {
    // Two processes may start at once.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for (number, step) in migrations::missing(found)? {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", number)?;
    }
    Ok(transaction.commit()?)
}

/// The thread that writes.
struct Writer {
    file: PathBuf,
    /// `None` while the file cannot be used.
    connection: Option<Connection>,
}

impl Writer {
    fn connect(file: &Path) -> Result<Self, DatabaseError> {
        let unusable = |source| DatabaseError::File { place: file.display().to_string(), source };
        // SQLite gives its other files the mode of this one.
        OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(file).map_err(unusable)?;
        let mut connection = connect(file)?;
        migrate(&mut connection)?;
        Ok(Self { file: file.to_owned(), connection: Some(connection) })
    }

    /// Writes until all senders are gone.
    fn run(mut self, mut batches: mpsc::Receiver<(Vec<Statement>, Answer)>) {
        while let Some(first) = batches.blocking_recv() {
            let mut together = vec![first];
            while together.len() < MAX_COMMIT
                && let Ok(next) = batches.try_recv()
            {
                together.push(next);
            }
            let (work, answers): (Vec<_>, Vec<_>) = together.into_iter().unzip();
            // The caller may be gone; its write stays.
            match self.commit(&work) {
                Ok(outcomes) => {
                    answers.into_iter().zip(outcomes).for_each(|(answer, outcome)| drop(answer.send(outcome)));
                }
                Err(error) => {
                    let text = error.to_string();
                    let failed = |answer: Answer| drop(answer.send(Err(DatabaseError::Failed(text.clone()))));
                    answers.into_iter().for_each(failed);
                }
            }
        }
    }

    fn commit(&mut self, batches: &[Vec<Statement>]) -> Result<Vec<Result<Outcome, DatabaseError>>, DatabaseError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Self::connect(&self.file)?.connection.ok_or(DatabaseError::Stopped)?),
        };
        Ok(commit(connection, batches)?)
    }
}

/// Commits the batches together. One that fails or is refused leaves the others as they are.
fn commit(
    connection: &mut Connection,
    batches: &[Vec<Statement>],
) -> rusqlite::Result<Vec<Result<Outcome, DatabaseError>>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut outcomes = Vec::with_capacity(batches.len());
    for batch in batches {
        let savepoint = transaction.savepoint()?;
        let outcome = run(&savepoint, batch);
        if outcome.as_ref().is_ok_and(Outcome::is_done) {
            savepoint.commit()?;
        } else {
            savepoint.finish()?;
        }
        outcomes.push(outcome);
    }
    transaction.commit()?;
    Ok(outcomes)
}

fn run(connection: &Connection, batch: &[Statement]) -> Result<Outcome, DatabaseError> {
    let mut answers = Vec::with_capacity(batch.len());
    for Statement { sql, values, rows } in batch {
        let mut prepared = connection.prepare_cached(sql)?;
        let (affected, returned) = if prepared.column_count() == 0 {
            bind(&mut prepared, values)?;
            (prepared.raw_execute()?, Vec::new())
        } else {
            let returned = rows_of(&mut prepared, values)?;
            (returned.len(), returned)
        };
        if rows.is_some_and(|rows| rows != affected) {
            return Ok(Outcome::Refused);
        }
        answers.push(returned);
    }
    Ok(Outcome::Done(answers))
}

/// Binds by name: SQLite numbers `$1`, `$2`, … in the order in which they appear.
fn bind(prepared: &mut rusqlite::Statement<'_>, values: &[Value]) -> rusqlite::Result<()> {
    for (number, value) in (1..).zip(values) {
        if let Some(index) = prepared.parameter_index(&format!("${number}"))? {
            prepared.raw_bind_parameter(index, value)?;
        }
    }
    Ok(())
}

fn rows_of(prepared: &mut rusqlite::Statement<'_>, values: &[Value]) -> Result<Vec<Row>, DatabaseError> {
    let columns = prepared.column_count();
    bind(prepared, values)?;
    let mut rows = prepared.raw_query();
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |index| {
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Value::Int(None),
                ValueRef::Integer(value) => Value::from(value),
                ValueRef::Text(text) => Value::Text(Some(String::from_utf8_lossy(text).into_owned())),
                ValueRef::Blob(bytes) => Value::from(bytes.to_vec()),
                ValueRef::Real(_) => return Err(DatabaseError::Column("a whole number")),
            })
        };
        all.push(Row::new((0..columns).map(column).collect::<Result<_, DatabaseError>>()?));
    }
    Ok(all)
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Int(value) => value.map_or(ValueRef::Null, ValueRef::Integer),
            Self::Text(value) => value.as_deref().map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())),
            Self::Bytes(value) => value.as_deref().map_or(ValueRef::Null, ValueRef::Blob),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}
