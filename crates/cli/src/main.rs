//! The one binary of KubeOpenCode.

use std::process::ExitCode;

use clap::Parser as _;
use kubeopencode::{Cli, helpers, up};

fn main() -> ExitCode {
    // The node starts containers through this program.
    if let Some(code) = up::as_container() {
        return code;
    }
    // The attach image holds this binary under the name of the program that it stands in for.
    helpers::as_opencode().unwrap_or_else(|| Cli::parse().run())
}
