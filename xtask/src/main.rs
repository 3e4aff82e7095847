//! Chores of this repository, as `cargo run -p xtask -- <chore>`.
#![allow(clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod api_reference;
mod cli_reference;
mod generated;

use std::path::Path;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Chores of this repository")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Write the files that are made from code: deploy/crds, docs/reference.
    Generate {
        /// Write nothing; fail if a file is not as it would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match Args::parse().chore {
        Chore::Generate { check: false } => generated::write(&root),
        Chore::Generate { check: true } => generated::check(&root),
    }
}
