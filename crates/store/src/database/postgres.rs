//! Postgres, for several replicas of the controller and the server.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use rustls::{ClientConfig, RootCertStore};
use tokio::{sync::Semaphore, time::timeout};
use tokio_postgres::{
    Client, Config,
    config::SslMode,
    error::SqlState,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Database, DatabaseError, Outcome, Row, Statement, Value, migrations};

/// Connections of this process at most.
const CONNECTIONS: usize = 8;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that hangs must not stop the reconcilers for ever.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts to take a step while others hold a lock that it needs, such as a program that takes a long step.
const LOCK_ATTEMPTS: u32 = 600;
const LOCK_PAUSE: Duration = Duration::from_secs(1);
/// The key of the lock under which the schema is changed.
const MIGRATION_LOCK: i64 = 0x6b6f_7374;

#[derive(Clone)]
pub(crate) struct Postgres {
    config: Arc<Config>,
    tls: MakeRustlsConnect,
    idle: Arc<Mutex<Vec<Client>>>,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration contains a password.
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Postgres {
    /// `url` as libpq reads it: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require`.
    pub(crate) async fn open(url: &str) -> Result<Self, DatabaseError> {
        // The error of the parser may quote the URL.
        let mut config: Config = url.parse().map_err(|_| DatabaseError::Postgres("the URL is not valid".to_owned()))?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("kubeopencode");
        let tls = MakeRustlsConnect::new(tls(config.get_ssl_mode())?);
        let this = Self {
            config: Arc::new(config),
            tls,
            idle: Arc::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
        };
        this.migrate().await?;
        Ok(this)
    }

    async fn connect(&self) -> Result<Client, DatabaseError> {
        let connecting = timeout(CONNECT_TIMEOUT, self.config.connect(self.tls.clone())).await;
        let (client, connection) = connecting
            .map_err(|_| DatabaseError::Unreachable("timeout".to_owned()))?
            .map_err(|error| failed(&error))?;
        // Ends with the client.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = failed(&error).to_string(), "a connection to Postgres ended");
            }
        });
        Ok(client)
    }

    /// Runs `work` with a connection. It is used again unless the work failed.
    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, DatabaseError> {
        let _permit = self.permits.acquire().await.map_err(|_| DatabaseError::Stopped)?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = {
            let mut idle = idle();
            idle.retain(|client| !client.is_closed());
            idle.pop()
        };
        let mut client = match usable {
            Some(client) => client,
            None => self.connect().await?,
        };
        let done = timeout(STATEMENT_TIMEOUT, work(&mut client)).await;
        let done = done.map_err(|_| DatabaseError::Unreachable("timeout".to_owned()))?;
        let done = done.map_err(|error| failed(&error))?;
        idle().push(client);
        Ok(done)
    }

    /// Takes the steps that the schema lacks, one at a time. A step over much data takes as long as it needs.
    async fn migrate(&self) -> Result<(), DatabaseError> {
        let mut client = self.connect().await?;
        let mut attempts = 1;
        loop {
            let mut number = 0;
            match step(&mut client, &mut number).await {
                Ok(Step::Taken) => attempts = 1,
                Ok(Step::None { found }) => {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
                    return migrations::missing(found).map(drop);
                }
                Err(error) if is_of_lock(&error) && attempts < LOCK_ATTEMPTS => {
                    tracing::info!(step = number, "the schema is in use; the step is tried again");
                    attempts += 1;
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                // The server failed before it was known what is missing.
                Err(error) if number == 0 => return Err(failed(&error)),
                Err(error) => {
                    return Err(DatabaseError::Step { number, source: Box::new(failed(&error)) });
                }
            }
        }
    }
}

enum Step {
    Taken,
    /// Nothing is missing.
    None {
        found: i64,
    },
}

/// Takes the next step in a transaction of its own. `number` becomes that of the step.
async fn step(client: &mut Client, number: &mut i64) -> Result<Step, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    // Programs that use a table wait behind whoever waits for its lock. A timeout of the server is for its usual work.
    transaction.batch_execute("SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = 0").await?;
    // Released at the end of the transaction.
    transaction.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&MIGRATION_LOCK, Type::INT8)]).await?;
    transaction.batch_execute("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)").await?;
    let row = transaction.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[]).await?;
    let found: i64 = row.get(0);
    *number = found + 1;
    let missing = migrations::missing(found).ok().and_then(|mut steps| steps.next());
    let Some((_, sql)) = missing else {
        transaction.commit().await?;
        return Ok(Step::None { found });
    };
    transaction.batch_execute(sql).await?;
    let note = "INSERT INTO schema_version (version) VALUES ($1)";
    transaction.query_typed(note, &[(&*number, Type::INT8)]).await?;
    transaction.commit().await?;
    Ok(Step::Taken)
}

fn is_of_lock(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

impl Database for Postgres {
    fn write(&self, batch: Vec<Statement>) -> BoxFuture<'_, Result<Outcome, DatabaseError>> {
        async move {
            self.with(async |client| {
                let transaction = client.transaction().await?;
                let mut answers = Vec::with_capacity(batch.len());
                for Statement { sql, values, rows } in &batch {
                    let mut returned = std::pin::pin!(transaction.query_typed_raw(sql, parameters(values)).await?);
                    let mut all = Vec::new();
                    while let Some(row) = futures::TryStreamExt::try_next(&mut returned).await? {
                        all.push(columns(&row)?);
                    }
                    let affected = returned.rows_affected().and_then(|rows| usize::try_from(rows).ok());
                    if rows.is_some_and(|rows| affected != Some(rows)) {
                        transaction.rollback().await?;
                        return Ok(Outcome::Refused);
                    }
                    answers.push(all);
                }
                transaction.commit().await?;
                Ok(Outcome::Done(answers))
            })
            .await
        }
        .boxed()
    }

    fn read(&self, sql: &'static str, values: Vec<Value>) -> BoxFuture<'_, Result<Vec<Row>, DatabaseError>> {
        async move {
            self.with(async |client| {
                let rows = client.query_typed_raw(sql, parameters(&values)).await?;
                futures::TryStreamExt::try_collect::<Vec<_>>(rows).await?.iter().map(columns).collect()
            })
            .await
        }
        .boxed()
    }
}

fn parameters(values: &[Value]) -> impl ExactSizeIterator<Item = (&(dyn ToSql + Sync), Type)> {
    values.iter().map(|value| match value {
        Value::Int(value) => (value as &(dyn ToSql + Sync), Type::INT8),
        Value::Text(value) => (value as &(dyn ToSql + Sync), Type::TEXT),
        Value::Bytes(value) => (value as &(dyn ToSql + Sync), Type::BYTEA),
    })
}

fn columns(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let column = |(index, column): (usize, &tokio_postgres::Column)| {
        Ok(match *column.type_() {
            Type::TEXT => Value::Text(row.try_get(index)?),
            Type::BYTEA => Value::Bytes(row.try_get(index)?),
            _ => Value::Int(row.try_get(index)?),
        })
    };
    Ok(Row::new(row.columns().iter().enumerate().map(column).collect::<Result<_, _>>()?))
}

/// Servers of the operating system's certificate authorities. libpq's `require` does not check certificates; this does,
/// because a password is sent.
fn tls(mode: SslMode) -> Result<ClientConfig, DatabaseError> {
    let mut roots = RootCertStore::empty();
    if mode != SslMode::Disable {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| DatabaseError::Postgres(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn failed(error: &tokio_postgres::Error) -> DatabaseError {
    if let Some(answer) = error.as_db_error() {
        return DatabaseError::Postgres(format!("{} ({})", answer.message(), answer.code().code()));
    }
    // The cause says more than "error connecting to server".
    let source = std::error::Error::source(error).map(ToString::to_string);
    DatabaseError::Unreachable(source.unwrap_or_else(|| error.to_string()))
}
