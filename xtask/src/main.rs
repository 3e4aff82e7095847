//! Chores of this repository, as `cargo run -p xtask -- <chore>`.
#![allow(clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod api_reference;
mod cli_reference;
mod generated;
mod images;
mod suites;

use std::path::{Path, PathBuf};

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
    /// Build and run every test, a few suites at a time.
    Test,
    /// Write the container images as docker archives, without Docker.
    Images {
        /// Where to.
        #[arg(long, default_value = "target/images")]
        out: PathBuf,
        /// The tag of every image. A node pulls `latest` before every start; any other tag it takes as it was loaded.
        #[arg(long, default_value = "latest")]
        tag: String,
        /// With a program of the release profile: much smaller, and minutes to build.
        #[arg(long)]
        release: bool,
    },
}

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match Args::parse().chore {
        Chore::Generate { check: false } => generated::write(&root),
        Chore::Generate { check: true } => generated::check(&root),
        Chore::Test => suites::run(&root),
        Chore::Images { out, tag, release } => images::write(&root, &out, &tag, release),
    }
}
