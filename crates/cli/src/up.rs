//! `kubeopencode up`: the platform on this machine.

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use demo::{Demo, scripted_model::ScriptedModel, template};
use local::{
    login_socket::LoginSocket,
    opencode::SearchPaths,
    page::{PORT, Page},
    platform::{API_PORT, Options, Platform},
    shell::quoted,
    state_dir::StateDir,
};
use node::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{log_archive::LogLimitArgs, process, retention_args::RetentionArgs};

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
    #[command(flatten)]
    log_limits: LogLimitArgs,
    #[command(flatten)]
    retention: RetentionArgs,
    /// What to log to standard error, such as `info` or `kubeopencode_node=debug`.
    #[arg(long, default_value = "warn", env = "KUBEOPENCODE_LOG")]
    log: String,
}

/// The namespace in which the template of the scripted model is offered: that of commands without `--namespace`.
const DEFAULT_NAMESPACE: &str = "default";

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
        log_limit: args.log_limits.of_run(),
        log_limits: args.log_limits.of_archive(),
        retention: args.retention.retention(),
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
    // A user's first Task and the demo need no key with it. The platform starts without it too.
    let model = match scripted_model(&platform).await {
        Ok(model) => Some(model),
        Err(error) => {
            writeln!(io::stderr(), "The template '{}' cannot be offered: {error:#}", template::NAME)?;
            None
        }
    };
    let greeting = Greeting {
        platform: &platform,
        page: &page,
        state: &state,
        opencode: opencode.as_deref(),
        in_memory: args.in_memory,
        scripted: model.is_some(),
    };
    write!(io::stdout(), "{}", greeting.text()?)?;

    let outcome = tokio::select! {
        outcome = work(&args, &platform, &page, model.as_ref()) => outcome,
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

/// Starts the scripted model and offers a template for it.
async fn scripted_model(platform: &Platform) -> anyhow::Result<ScriptedModel> {
    let model = ScriptedModel::serve().await.context("the scripted model cannot listen on 127.0.0.1")?;
    template::offer(&platform.client(), DEFAULT_NAMESPACE, &model.base_url()).await?;
    Ok(model)
}

/// Runs the demo if requested; then waits for ever unless `--exit` is set.
async fn work(args: &Args, platform: &Platform, page: &Page, model: Option<&ScriptedModel>) -> anyhow::Result<()> {
    if args.demo {
        let model = model.context("the demo needs the scripted model")?;
        let demo = Demo::start(platform.client(), &model.base_url()).await?;
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

/// What the platform prints when it is ready: addresses and next steps for the user.
struct Greeting<'a> {
    platform: &'a Platform,
    page: &'a Page,
    state: &'a StateDir,
    opencode: Option<&'a Path>,
    in_memory: bool,
    /// Whether the template of the scripted model is offered.
    scripted: bool,
}

impl Greeting<'_> {
    fn text(&self) -> anyhow::Result<String> {
        let Self { platform, page, state, opencode, in_memory, scripted } = self;
        let mut text = String::new();
        let version = env!("CARGO_PKG_VERSION");
        writeln!(text, "KubeOpenCode {version} runs on this machine. Ctrl-C stops it, Pods included.")?;
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
        let program = env::current_exe().context("this program cannot be found")?;
        if !is_on_path(&program, &env::var_os("PATH").unwrap_or_default()) {
            writeln!(text, "  Commands     alias kubeopencode={}", quoted(&program))?;
        }
        if *scripted && opencode.is_some() {
            writeln!(text, "  Try it       kubeopencode run \"Say hello\" (a scripted model answers, without a key)")?;
        }
        let kept = if *in_memory {
            "objects are in memory and go at the end".to_owned()
        } else {
            format!("`{}` removes it", purge_command(state.path(), &state_dir(None)?))
        };
        writeln!(text, "  State        {} ({kept})", state.path().display())?;
        if let Some(free) = state.full() {
            let free = free >> 20;
            writeln!(text, "  Disk         almost full ({free} MiB free): delete finished Tasks, or free space")?;
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
}

/// The command that removes the state directory `state`.
fn purge_command(state: &Path, default: &Path) -> String {
    let command = "kubeopencode down --purge";
    if state == default { command.to_owned() } else { format!("{command} --state-dir {}", quoted(state)) }
}

/// Whether a shell that is given `kubeopencode` starts this program.
fn is_on_path(program: &Path, path: &OsStr) -> bool {
    let first = env::split_paths(path).map(|dir| dir.join("kubeopencode")).find(|candidate| candidate.is_file());
    first.and_then(|found| found.canonicalize().ok()).is_some_and(|found| program.canonicalize().ok() == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_removes_the_state_removes_this_one() {
        let usual = Path::new("/home/me/.kubeopencode");
        assert_eq!(purge_command(usual, usual), "kubeopencode down --purge");
        let command = purge_command(Path::new("/my data"), usual);
        assert_eq!(command, "kubeopencode down --purge --state-dir '/my data'");
    }

    #[test]
    fn a_program_that_a_shell_finds_needs_no_alias() {
        let dir = tempfile::tempdir().unwrap();
        let (installed, built) = (dir.path().join("bin"), dir.path().join("target"));
        for place in [&installed, &built] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("kubeopencode"), "").unwrap();
        }
        let path = env::join_paths([dir.path().join("none"), installed.clone(), built.clone()]).unwrap();
        assert!(is_on_path(&installed.join("kubeopencode"), &path));
        assert!(!is_on_path(&built.join("kubeopencode"), &path));
        assert!(!is_on_path(&built.join("kubeopencode"), OsStr::new("")));
    }
}
