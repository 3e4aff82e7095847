//! `kubeopencode login`: a new login link of the platform on this machine.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail};
use local::{login_socket, state_dir::LOGIN_PAGE};
use tokio::process::Command;

/// Programs that open a file in the browser of the user: of Linux desktops, and of macOS.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Arguments of `kubeopencode login`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `up` was given [default: ~/.kubeopencode].
    #[arg(long, value_name = "DIR", env = "KUBEOPENCODE_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Open the link in a browser.
    #[arg(long)]
    open: bool,
}

/// Prints a link, and opens it if requested.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let dir = crate::up::state_dir(args.state_dir)?;
    let link = login_socket::request(&dir).await?;
    writeln!(io::stdout(), "{link}")?;
    writeln!(io::stderr(), "The link works once, within 15 minutes.")?;
    if args.open {
        open(&dir, &link).await?;
    }
    Ok(())
}

/// Opens the link by a page in the state directory: other users of the machine see the arguments of programs.
async fn open(dir: &Path, link: &str) -> anyhow::Result<()> {
    let file = std::path::absolute(dir.join(LOGIN_PAGE))?;
    let mut page = OpenOptions::new();
    let written = page.write(true).create(true).truncate(true).mode(0o600).open(&file);
    let written = written.and_then(|mut page| page.write_all(redirect(link).as_bytes()));
    written.with_context(|| format!("cannot write {}: open the link above in a browser", file.display()))?;
    for program in OPENERS {
        let mut command = Command::new(program);
        match command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).status().await {
            Ok(ended) if ended.success() => return Ok(()),
            Ok(ended) => bail!("{program} ended with {ended}: open the link above in a browser"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot run {program}: open the link above in a browser"));
            }
        }
    }
    bail!("this machine has neither xdg-open nor open: open the link above in a browser")
}

/// A page that leads to the link at once. A link consists of characters that need no escaping in HTML.
fn redirect(link: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><title>KubeOpenCode</title></head>\
         <body><a href=\"{link}\">Sign in to KubeOpenCode</a></body></html>\n"
    )
}
