//! `completion`: prints completion scripts for shells.

use clap_complete::Shell;

use super::{
    exit::Exit,
    output::{print, program},
    problem::{Answer, Problem},
};

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script of a shell.
pub fn run(args: &Args) -> Answer<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), program(), &mut script);
    print(&String::from_utf8(script).map_err(|error| Problem::new(error.to_string()))?)?;
    Ok(Exit::Success)
}
