//! Development commands of this repository: `cargo run -p xtask -- <command>`.
#![allow(clippy::print_stderr, reason = "a command line tool")]

mod api_reference;
mod cli_reference;
mod environment_reference;
mod generated;
mod images;
mod suites;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Development commands of this repository")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Write the generated files: deploy/crds, docs/reference.
    Generate {
        /// Write nothing; fail if a file is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Build and run every test, a few suites at a time.
    Test,
    /// Write the container images as docker archives, without Docker.
    Images {
        /// Output directory.
        #[arg(long, default_value = "target/images")]
        out: PathBuf,
        /// The tag of every image. A node pulls `latest` before every start; any other tag it takes as it was loaded.
        #[arg(long, default_value = "latest")]
        tag: String,
        /// Build the program with the release profile: smaller, and minutes to build.
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
