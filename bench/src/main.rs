//! Numbers of the product, as ratios within one run on one machine.
//!
//! `make bench` builds the release binary and runs all of it. Nothing here passes or fails: it prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints")]

mod bare;
mod controller;
mod depot;
mod embedded;
mod listing;
mod load;
mod logs;
mod memory;
mod node;
mod program;
mod rest;
mod results;
mod slots;
mod tasks;
mod world;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Numbers of the product, as ratios within one run")]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Everything.
    All,
    /// Many Tasks on a template at once, against a bare client that makes the same writes.
    Tasks {
        /// How many.
        #[arg(default_value_t = 500)]
        count: usize,
    },
    /// How well an Agent's slots are used.
    Slots,
    /// Memory when idle and with many finished Tasks.
    Memory {
        /// How many.
        #[arg(default_value_t = 10_000)]
        count: usize,
    },
    /// The platform on one machine: start, a short Task, durable writes beside a real API server, many Tasks.
    Up {
        /// How many.
        #[arg(default_value_t = 10_000)]
        count: usize,
    },
    /// The REST server with many Tasks and streams.
    Rest,
    /// What runs leave: artefacts into the store and out of it, lists of runs, logs.
    Results {
        /// Only one of them.
        which: Option<Which>,
    },
}

/// A part of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Artifact,
    Restore,
    List,
    Logs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Args::parse().what {
        What::All => {
            tasks::run(500).await?;
            slots::run().await?;
            memory::run(10_000).await?;
            embedded::run(10_000).await?;
            rest::run().await?;
            all_results(None).await
        }
        What::Tasks { count } => tasks::run(count).await,
        What::Slots => slots::run().await,
        What::Memory { count } => memory::run(count).await,
        What::Up { count } => embedded::run(count).await,
        What::Rest => rest::run().await,
        What::Results { which } => all_results(which).await,
    }
}

async fn all_results(which: Option<Which>) -> anyhow::Result<()> {
    let wanted = |one| which.is_none_or(|which| which == one);
    if wanted(Which::Artifact) {
        results::artifact().await?;
    }
    if wanted(Which::Restore) {
        results::restore().await?;
    }
    if wanted(Which::List) {
        listing::run().await?;
    }
    if wanted(Which::Logs) {
        logs::run().await?;
    }
    Ok(())
}
