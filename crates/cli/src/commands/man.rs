//! `man`: manual pages.

use std::path::PathBuf;

use local::shell::quoted;

use super::{
    exit::Exit,
    output::{note, print},
    problem::{Answer, Problem},
};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write a page for every command to this directory.
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints the manual page of the program, or writes the pages of all commands.
pub fn run(args: &Args) -> Answer<Exit> {
    let command = crate::command();
    if let Some(directory) = &args.directory {
        clap_mangen::generate_to(command, directory).map_err(|error| {
            Problem::new(format!("manual pages cannot be written to {}: {error}", directory.display()))
        })?;
        note(&format!("read them with: man -l {}", quoted(&directory.join("kubeopencode.1"))));
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        print(&String::from_utf8_lossy(&page))?;
    }
    Ok(Exit::Success)
}
