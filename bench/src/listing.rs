//! Pages of a long list of runs, beside the bare query.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use store::Store;
use testenv::Postgres;
use tokio_postgres::NoTls;

use crate::results::load;

const RUNS: i64 = 100_000;
const PAGE: u32 = 50;
const PAGES: usize = 400;
const NAMESPACES: i64 = 10;

/// What an index answers: the first page of a namespace.
const BARE: &str = "SELECT namespace, uid, epoch, created, record FROM runs WHERE namespace = 'team-3'
    ORDER BY created DESC, uid DESC, epoch DESC LIMIT 50";

/// Prints the time of a page of 50 runs among 100,000, in both databases.
pub async fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let record = json!({ "phase": "Completed", "reason": "Succeeded", "message": "x".repeat(1000) }).to_string();

    let records = dir.path().join("records.db");
    let store = Store::directory(dir.path())?;
    let database = rusqlite::Connection::open(&records)?;
    let fill = "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?2)
                INSERT INTO runs (namespace, uid, epoch, created, record)
                SELECT 'team-' || (n % ?3), 'uid-' || n, 1, 1700000000000 + n, ?1 FROM numbers";
    database.execute(fill, rusqlite::params![record.as_bytes(), RUNS, NAMESPACES])?;
    let mut bare = Vec::with_capacity(PAGES);
    for _ in 0..PAGES {
        let begin = Instant::now();
        let mut query = database.prepare_cached(BARE)?;
        let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(4))?.count();
        bare.push(begin.elapsed());
        ensure!(rows == PAGE as usize, "{rows} rows");
    }
    pages("SQLite", &store, bare).await?;

    let postgres = Postgres::start().await?;
    let url = postgres.database("bench")?;
    let store = Store::open(&url, &dir.path().display().to_string()).await?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let fill = "INSERT INTO runs (namespace, uid, epoch, created, record)
                SELECT 'team-' || (n % $3::bigint), 'uid-' || n, 1, 1700000000000 + n, $1
                FROM generate_series(0::bigint, $2::bigint - 1) AS n";
    client.execute(fill, &[&record.as_bytes(), &RUNS, &NAMESPACES]).await?;
    client.batch_execute("ANALYZE runs").await?;
    let query = client.prepare(BARE).await?;
    let mut bare = Vec::with_capacity(PAGES);
    for _ in 0..PAGES {
        let begin = Instant::now();
        let rows = client.query(&query, &[]).await?.len();
        bare.push(begin.elapsed());
        ensure!(rows == PAGE as usize, "{rows} rows");
    }
    pages("Postgres", &store, bare).await?;
    connection.abort();
    Ok(())
}

/// Prints the time of pages from the store, and what it is beside `bare`.
async fn pages(name: &str, store: &Store, bare: Vec<Duration>) -> anyhow::Result<()> {
    println!("pages of {PAGE} among {RUNS} runs, {name} ({})", load());
    let mut first = Vec::with_capacity(PAGES);
    for _ in 0..PAGES {
        let begin = Instant::now();
        let page = store.runs(Some("team-3"), None, PAGE).await?;
        first.push(begin.elapsed());
        ensure!(page.len() == PAGE as usize, "{} runs", page.len());
    }
    // One after the other through the whole list.
    let (mut later, mut cursor) = (Vec::with_capacity(PAGES), None);
    for _ in 0..PAGES {
        let begin = Instant::now();
        let page = store.runs(None, cursor.as_ref(), PAGE).await?;
        later.push(begin.elapsed());
        cursor = page.last().map(store::ListedRun::cursor);
    }
    let [(first, first_worst), (later, later_worst), (bare, _)] = [first, later, bare].map(quantiles);
    println!("  first of a namespace, p50 / p99 {first:6.2} ms / {first_worst:.2} ms (limit 10)");
    println!("  any of all, p50 / p99           {later:6.2} ms / {later_worst:.2} ms (limit 10)");
    println!("  the bare query, p50             {bare:6.2} ms, {:.1} times faster", first / bare);
    Ok(())
}

fn quantiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    (at(50), at(99))
}
