//! The one binary of KubeOpenCode.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    kubeopencode::Cli::parse().run()
}
