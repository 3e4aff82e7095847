//! `kubeopencode up`: the platform on this machine.

use std::{
    env,
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use demo::Demo;
use local::{
    login_socket::LoginSocket,
    opencode::SearchPaths,
    page::{PORT, Page},
    platform::{API_PORT, Options, Platform},
    state_dir::StateDir,
};
use node::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::process;

/// Arguments of `kubeopencode up`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// State directory [default: ~/.kubeopencode].
    #[arg(long, value_name = "DIR", env = "KUBEOPENCODE_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Port of the API server on 127.0.0.1; 0 is any free one [default: 7443, or any free one if that is taken].
    #[arg(long, value_name = "PORT")]
    api_port: Option<u16>,
    /// Port of the page on 127.0.0.1; 0 is any free one [default: 2746, or any free one if that is taken].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Write the kubeconfig to this file too.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run a demo: an Agent, a CronTask and Tasks that need neither a key nor the internet.
    #[arg(long)]
    demo: bool,
    /// Exit after the demo: 0 if every Task ended as expected.
    #[arg(long, requires = "demo")]
    exit: bool,
    /// Map unknown images to programs on this machine.
    #[arg(long)]
    host_images: bool,
    /// Container runtime.
    #[arg(long, value_enum, default_value_t = Runtime::Process)]
    runtime: Runtime,
    /// Keep objects in memory only: nothing is left at the end.
    #[arg(long)]
    in_memory: bool,
    /// What to log to standard error, such as `info` or `kubeopencode_node=debug`.
    #[arg(long, default_value = "warn", env = "KUBEOPENCODE_LOG")]
    log: String,
}

/// Container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Runtime {
    /// Processes of this machine, in namespaces of their own.
    Process,
    /// Real images, by Podman.
    Podman,
    /// Real images, by Docker.
    Docker,
}

/// The given state directory, or the default one.
pub(crate) fn state_dir(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let usual = || env::home_dir().map(|home| home.join(".kubeopencode"));
    named.or_else(usual).context("there is no home directory: name a directory with --state-dir")
}

/// Runs a container's helper process if the node started this program.
pub fn as_container() -> Option<ExitCode> {
    let started_by_node = env::args().nth(1).as_deref() == Some(node::CONTAINER_ARGUMENT);
    started_by_node.then(|| ExitCode::from(node::container_main()))
}

/// Runs the platform until SIGINT or SIGTERM, or until the demo has ended.
pub async fn run(args: Args) -> anyhow::Result<()> {
    process::log(&args.log, false)?;
    let engine = engine(args.runtime).await?;
    // Before anything starts, so that no signal is missed.
    let mut signals =
        Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
    // An unnamed in-memory platform uses a temporary directory.
    let temporary = match (&args.state_dir, args.in_memory) {
        (None, true) => {
            Some(tempfile::Builder::new().prefix("kubeopencode-").tempdir().context("no temporary directory")?)
        }
        _ => None,
    };
    let dir = match &temporary {
        Some(temporary) => temporary.path().to_owned(),
        None => state_dir(args.state_dir.clone())?,
    };
    let state = StateDir::open(&dir)?;
    let opencode = SearchPaths::of_process(state.path()).find();
    if args.demo && opencode.is_none() {
        bail!(
            "the demo runs OpenCode, which is not on this machine: install it with `npm install --global opencode-ai`"
        );
    }
    let options = Options {
        in_memory: args.in_memory,
        api_port: args.api_port,
        kubeconfig: args.kubeconfig.clone().map(std::path::absolute).transpose().context("--kubeconfig")?,
        host_images: args.host_images,
        engine,
        program: env::current_exe().context("this program cannot be found")?,
        opencode: opencode.clone(),
    };
    let platform = tokio::select! {
        started = Platform::start(&state, options) => started?,
        () = signals.next() => return Ok(()),
    };
    let page = match Page::start(&platform, args.port).await {
        Ok(page) => page,
        Err(error) => {
            platform.stop().await;
            return Err(error.into());
        }
    };
    let _login = LoginSocket::serve(state.path(), page.login_links());
    write!(io::stdout(), "{}", greeting(&platform, &page, &state, opencode.as_deref(), args.in_memory)?)?;

    let outcome = tokio::select! {
        outcome = work(&args, &platform, &page) => outcome,
        () = signals.next() => Ok(()),
    };
    writeln!(io::stderr(), "Stopping ...")?;
    let stop = async {
        page.stop().await;
        platform.stop().await;
    };
    tokio::select! {
        () = stop => {}
        () = signals.next() => bail!("stopped before everything had ended"),
    }
    outcome
}

/// Runs the demo if requested; then waits for ever unless `--exit` is set.
async fn work(args: &Args, platform: &Platform, page: &Page) -> anyhow::Result<()> {
    let mut _model = None;
    if args.demo {
        let demo = Demo::start(platform.client()).await?;
        let report = demo.follow(&mut io::stdout()).await?;
        writeln!(io::stdout(), "\n{report}")?;
        let mismatches = report.mismatches();
        if args.exit && !mismatches.is_empty() {
            bail!("the demo did not end as it should: {}", mismatches.join("; "));
        }
        if args.exit {
            return Ok(());
        }
        for mismatch in mismatches {
            writeln!(io::stderr(), "{mismatch}")?;
        }
        writeln!(io::stdout(), "Look at it: {}", page.login_link()?)?;
        // The Agent of the demo still uses its scripted model.
        _model = Some(demo);
    }
    std::future::pending().await
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The container engine, if one was chosen. It is checked before anything starts.
async fn engine(runtime: Runtime) -> anyhow::Result<Option<Engine>> {
    let program = match runtime {
        Runtime::Process => return Ok(None),
        Runtime::Podman => "podman",
        Runtime::Docker => "docker",
    };
    Ok(Some(Engine::find(Path::new(program)).await?))
}

/// Addresses and next steps for the user.
fn greeting(
    platform: &Platform,
    page: &Page,
    state: &StateDir,
    opencode: Option<&Path>,
    in_memory: bool,
) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "KubeOpenCode {} runs on this machine. Ctrl-C stops it, Pods included.", env!("CARGO_PKG_VERSION"))?;
    writeln!(text)?;
    for (moved, port) in [(page.moved(), PORT), (platform.moved(), API_PORT)] {
        if moved {
            writeln!(text, "  Port {port} is taken, so another one is used.")?;
        }
    }
    writeln!(text, "  Page         {} (this link works once)", page.login_link()?)?;
    writeln!(text, "               `kubeopencode login --open` opens another one in a browser")?;
    writeln!(text, "  API server   https://{}", platform.address())?;
    writeln!(text, "  kubectl      export KUBECONFIG={}", quoted(platform.kubeconfig()))?;
    let kept =
        if in_memory { "objects are in memory and go at the end" } else { "`kubeopencode down --purge` removes it" };
    writeln!(text, "  State        {} ({kept})", state.path().display())?;
    if let Some(free) = state.full() {
        let free = free >> 20;
        writeln!(text, "  Disk         full ({free} MiB free): delete finished Tasks, or free space, before new work starts")?;
    }
    match opencode {
        Some(path) => writeln!(text, "  OpenCode     {}", path.display())?,
        None => writeln!(
            text,
            "  OpenCode     not found; `npm install --global opencode-ai` installs it, then start again"
        )?,
    }
    writeln!(text, "  Isolation    {}", platform.isolation())?;
    writeln!(text)?;
    Ok(text)
}

/// A path, quoted for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(Path::new("/home/me/.kubeopencode/kubeconfig")), "/home/me/.kubeopencode/kubeconfig");
        assert_eq!(quoted(Path::new("/home/o'neil a/x")), r"'/home/o'\''neil a/x'");
    }
}
