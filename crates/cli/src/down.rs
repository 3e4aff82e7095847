//! `kubeopencode down`: stop the platform on this machine.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use local::state_dir;

/// Pods have ten seconds to terminate, the controllers twenty; a longer shutdown is an error.
const LIMIT: Duration = Duration::from_secs(45);

/// Arguments of `kubeopencode down`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `up` was given [default: ~/.kubeopencode].
    #[arg(long, value_name = "DIR", env = "KUBEOPENCODE_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Remove the directory with everything in it.
    #[arg(long)]
    purge: bool,
}

/// Stops the platform that runs on the state directory, if one does.
pub fn run(args: Args) -> anyhow::Result<()> {
    let dir = crate::up::state_dir(args.state_dir)?;
    match state_dir::stop(&dir, LIMIT)? {
        Some(pid) => writeln!(io::stdout(), "Stopped process {pid}.")?,
        None => writeln!(io::stdout(), "Nothing runs on {}.", dir.display())?,
    }
    if args.purge {
        state_dir::purge(&dir)?;
        writeln!(io::stdout(), "Removed {}.", dir.display())?;
    }
    Ok(())
}
