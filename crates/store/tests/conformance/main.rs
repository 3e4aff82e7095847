//! The contract of the store, checked on every pair of back ends: SQLite and a directory, Postgres and a directory,
//! Postgres and S3. Cases of logs and records run on the files of earlier versions too.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archive;
mod blobs;
mod caches;
mod export;
mod faults;
mod files;
mod identity;
mod migrations;
mod proxy;
mod results;
mod streams;
mod world;

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use testenv::{Bucket, runner};
use world::{Cases, World};

/// The cases wait for the back ends most of the time.
const AT_ONCE: usize = 8;
/// The credentials of the bucket come from the environment, as in production.
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";

fn main() -> ExitCode {
    if let Some(base) = std::env::var_os(faults::WRITER) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(faults::write_until_killed(Path::new(&base)));
    }
    if let Some(disk) = std::env::var_os(faults::FULL) {
        tokio::runtime::Runtime::new().unwrap().block_on(faults::fill_disk(Path::new(&disk)));
        return ExitCode::SUCCESS;
    }
    if let Ok(urls) = std::env::var(streams::WRITER) {
        tokio::runtime::Runtime::new().unwrap().block_on(streams::write_until_killed(&urls));
    }
    if let Ok(urls) = std::env::var(results::PUBLISHER) {
        tokio::runtime::Runtime::new().unwrap().block_on(results::publish_until_killed(&urls));
    }
    if std::env::var_os(ACCESS_KEY).is_none_or(|key| key != Bucket::ACCESS_KEY) {
        let program = std::env::current_exe().unwrap();
        let mut again = Command::new(program);
        again.args(std::env::args_os().skip(1)).env(ACCESS_KEY, Bucket::ACCESS_KEY);
        let status = again.env("AWS_SECRET_ACCESS_KEY", Bucket::SECRET_KEY).status().unwrap();
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let on = |worlds: &'static [World], cases: Cases| {
        worlds.iter().flat_map(move |world| {
            cases.iter().map(move |(name, case)| (format!("{}::{name}", world.name()), case(*world)))
        })
    };
    let cases = on(&World::ALL, archive::CASES)
        .chain(on(&World::STORES, blobs::CASES))
        .chain(on(&World::STORES, streams::CASES))
        .chain(on(&World::STORES, results::CASES))
        .chain(on(&World::STORES, caches::CASES))
        .chain(on(&World::STORES, export::CASES))
        .chain(on(&[World::Sqlite, World::Postgres], blobs::DIRECTORIES))
        .chain(on(&[World::Sqlite, World::Postgres], export::DIRECTORIES))
        .chain(on(&World::STORES, identity::CASES))
        .chain(on(&World::STORES, faults::CASES))
        .chain(on(&[World::Postgres], migrations::POSTGRES))
        .chain(on(&[World::Sqlite], faults::SQLITE))
        .chain(on(&[World::PostgresAndBucket], faults::SERVERS))
        .chain(on(&[World::Sqlite, World::Postgres], streams::DIRECTORIES))
        .chain(on(&[World::PostgresAndBucket], streams::SERVERS))
        .chain(on(&[World::Files], files::CASES));
    runner::run_ready(cases.collect(), AT_ONCE)
}
