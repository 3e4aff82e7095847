//! `kubectl exec -it` in a terminal: input, size, Ctrl-C, and exit code.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::OwnedFd,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use blackbox::{cases, runner::Case};
use rustix::{
    pty::OpenptFlags,
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Child,
    time::timeout,
};

use crate::world::World;

pub const CASES: &[Case] = cases![a_terminal_is_as_large_as_ones_own_and_ctrl_c_goes_to_the_command];

/// Everything happens at once; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

pub const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: busybox, command: [sleep, '1000']}]
";

/// A terminal with a program in it.
struct Terminal {
    ours: tokio::fs::File,
    raw: OwnedFd,
    child: Child,
    output: String,
}

impl Terminal {
    /// Starts kubectl in a terminal of this size.
    fn start(
        world: &World,
        columns: u16,
        rows: u16,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        rustix::pty::grantpt(&ours)?;
        rustix::pty::unlockpt(&ours)?;
        let name = rustix::pty::ptsname(&ours, Vec::new())?.into_string()?;
        let theirs = || OpenOptions::new().read(true).write(true).open(&name);
        resize(&ours, columns, rows)?;
        // A session of its own, so that kubectl is notified of new sizes.
        let mut command = world.program(Path::new("setsid"));
        let kubectl = world.kubectl(&[]).as_std().get_program().to_owned();
        command.args(["--ctty", "--wait"]).arg(kubectl).args(args).envs(environment.iter().copied());
        let child = command.stdin(theirs()?).stdout(theirs()?).stderr(theirs()?).spawn()?;
        let raw = ours.try_clone()?;
        Ok(Self { ours: tokio::fs::File::from_std(File::from(ours)), raw, child, output: String::new() })
    }

    /// Types keys.
    async fn type_in(&mut self, keys: &str) -> anyhow::Result<()> {
        self.ours.write_all(keys.as_bytes()).await?;
        Ok(self.ours.flush().await?)
    }

    /// Waits until new output contains `text`.
    async fn shows(&mut self, text: &str) -> anyhow::Result<()> {
        let reading = async {
            let mut buffer = vec![0; 4096];
            while !self.output.contains(text) {
                match self.ours.read(&mut buffer).await {
                    Ok(0) => bail!("the terminal is closed"),
                    Ok(count) => self.output += &String::from_utf8_lossy(&buffer[..count]),
                    Err(error) => bail!("the terminal is closed: {error}"),
                }
            }
            Ok(())
        };
        let outcome = timeout(LIMIT, reading).await.unwrap_or_else(|_| Err(anyhow::anyhow!("it takes too long")));
        outcome.with_context(|| format!("waiting for {text:?}; so far: {:?}", self.output))?;
        self.output = self.output.split_once(text).map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        Ok(())
    }

    /// How kubectl ended.
    async fn ended(mut self) -> anyhow::Result<Option<i32>> {
        Ok(timeout(LIMIT, self.child.wait()).await.context("kubectl does not end")??.code())
    }
}

fn resize(terminal: &OwnedFd, columns: u16, rows: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

async fn a_terminal_is_as_large_as_ones_own_and_ctrl_c_goes_to_the_command() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    world.create(POD).await?;
    world.kubectl_output(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"]).await?;
    try_terminal(&world, &[]).await?;
    // As kubectl spoke before 1.31.
    try_terminal(&world, &[("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")]).await.context("over SPDY")
}

async fn try_terminal(world: &World, environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut terminal = Terminal::start(world, 97, 31, &["exec", "-it", "p", "--", "sh"], environment)?;
    // Marks are put together by the shell, so that the echoed input is not taken for the output.
    terminal.type_in("test -t 0 && test -t 1 && echo ter''minal\n").await?;
    terminal.shows("terminal").await?;
    terminal.type_in("until [ \"$(stty size)\" = '31 97' ]; do sleep 0.1; done; echo as lar''ge\n").await?;
    terminal.shows("as large").await?;
    resize(&terminal.raw, 120, 40)?;
    terminal.type_in("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo lar''ger\n").await?;
    terminal.shows("larger").await?;
    // A command that prints this is in the foreground: before, Ctrl-C would reach the shell.
    terminal.type_in("sh -c 'echo be\"\"gun; exec sleep 1000'; echo inter''rupted $?\n").await?;
    terminal.shows("begun").await?;
    terminal.type_in("\u{3}").await?;
    // The shell goes on: it was the command that was meant.
    terminal.type_in("echo still he''re\n").await?;
    terminal.shows("still here").await?;
    terminal.type_in("exit 42\n").await?;
    terminal.shows("exit code 42").await?;
    let code = terminal.ended().await?;
    ensure!(code == Some(42), "kubectl ended with {code:?}");
    Ok(())
}
