//! shim: the parent process of the task command of a standalone Pod.
//!
//! `opencode` as PID 1 ignores SIGTERM and leaves its tools running; its exit code does not show how the run ended. The
//! shim forwards signals to the command's process group, reaps orphans, ends leftover processes, and with
//! `SHIM_FORMAT=opencode-json` reads the events of `opencode run --format json` and decides the outcome.

pub mod live;
pub mod lock;
pub mod processes;
pub mod transcript;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::contract::collect::COMPARE_AFTER_STOP;
use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use domain::run::budget::Allowance;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::budget::{self, Meter};
use crate::changes;
use crate::env::{self, Lookup, SettingError};
use crate::outcome::{self, ReportFile};
use crate::recorder::Recorder;
use crate::redact;
use crate::run_log::{Format, Log, Note};
use processes::{Group, end_the_rest};
use transcript::{Transcript, command_failed};

/// How long leftover processes have to end after the command.
const LEFTOVERS: Duration = Duration::from_secs(1);
/// How long output in the pipes is read after the last process has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// Characters of standard error to keep for the message of a failure.
const STDERR_TAIL: usize = 600;

/// Format of the command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// Any output; it is passed through unchanged.
    #[default]
    Plain,
    /// Any output, of a client of an Agent's server. Our client writes the report itself; others do not.
    Client,
    /// The events of `opencode run --format json`; they are logged as readable lines.
    OpencodeJson,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub output: Output,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// A run without an event for this long is stopped; only with [`Output::OpencodeJson`].
    pub stall: Duration,
    /// Tokens and cost that the run may use; only with [`Output::OpencodeJson`].
    pub allowance: Allowance,
    /// Directories to prepend to the command's `PATH`.
    pub path_prepend: Option<String>,
    /// Configuration of OpenCode in the environment; only with [`Output::OpencodeJson`].
    pub config: Option<String>,
    /// File that becomes the command's standard input.
    pub stdin: Option<PathBuf>,
    /// The directory whose changes are reported; none for a client, which has the Agent's.
    pub workspace: Option<PathBuf>,
    /// File that receives the patch of the whole change.
    pub patch: Option<PathBuf>,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let output = match env::text(env, env::SHIM_FORMAT).as_deref() {
            None | Some("plain") => Output::Plain,
            Some("client") => Output::Client,
            Some("opencode-json") => Output::OpencodeJson,
            Some(other) => {
                return Err(SettingError::Invalid {
                    name: env::SHIM_FORMAT,
                    problem: format!("`{other}` is not a format"),
                    expected: "plain, client or opencode-json",
                });
            }
        };
        Ok(Self {
            output,
            grace: env::duration(env, env::SHIM_GRACE_SECONDS, Duration::from_secs(25))?,
            stall: env::duration(env, env::STALL_TIMEOUT_SECONDS, Duration::from_mins(15))?,
            allowance: budget::allowance(env)?,
            path_prepend: env::text(env, env::SHIM_PATH_PREPEND),
            config: env::text(env, env::OPENCODE_CONFIG_CONTENT),
            stdin: env::text(env, env::SHIM_STDIN_FILE).map(PathBuf::from),
            workspace: env::text(env, env::WORKSPACE_DIR).map(PathBuf::from).filter(|_| output != Output::Client),
            patch: env::text(env, env::SHIM_PATCH_FILE).map(PathBuf::from),
        })
    }
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub outcome: RunReport,
    /// Exit code of the outcome, or of the command.
    pub exit: u8,
    /// The shim was asked to stop, or processes are left: there is little time, or the workspace still changes.
    pub hasty: bool,
}

impl From<RunReport> for Ended {
    fn from(outcome: RunReport) -> Self {
        let exit = outcome.exit_code();
        Self { outcome, exit, hasty: false }
    }
}

/// Runs the shim as a program, with the command and its arguments. Returns the exit code.
pub async fn execute(command: &[String], env: Lookup<'_>) -> u8 {
    let redactor = redact::from_process([]);
    let mut out = std::io::stdout();
    let settings = Settings::from_env(env);
    let file = ReportFile::from_env(env);
    let report_copy = env::text(env, env::SHIM_REPORT_FILE).map(PathBuf::from);
    if let Some(path) = env::text(env, env::SHIM_LOCK_FILE).map(PathBuf::from)
        && let Err(error) = lock::hold(&path)
    {
        let _ = writeln!(std::io::stderr(), "{} cannot be locked: {error}; results may not be kept", path.display());
    }
    let judges_itself = settings.as_ref().is_ok_and(|settings| settings.output == Output::Client);
    // One connection is accepted; a client of ours makes it.
    let mut recorder = if judges_itself { Ok(None) } else { Recorder::connect(env).await };
    let mut log = Log::new(&mut out, Format::Readable, redactor.clone()).recorded(&mut recorder);
    let workspace = settings.as_ref().ok().and_then(|settings| settings.workspace.clone());
    let patch = settings.as_ref().ok().and_then(|settings| settings.patch.clone());
    let before = match &workspace {
        Some(root) => Compared::begin(root).await,
        None => None,
    };
    let ended = match settings {
        Ok(settings) => run(command, &settings, &mut log).await,
        Err(error) => RunReport::new(Reason::BadInvocation, error.to_string()).into(),
    };
    let copy = |report: &RunReport| {
        if let Some(path) = &report_copy
            && let Err(error) = outcome::copy(report, path, &redactor)
        {
            let _ = writeln!(std::io::stderr(), "the report cannot be copied: {error}");
        }
    };
    if judges_itself && let Some(report) = outcome::read(&file.path) {
        copy(&report);
        return ended.exit;
    }
    let write = |report: &RunReport| {
        if let Err(error) = file.write(report, &redactor) {
            let _ = writeln!(std::io::stderr(), "the report cannot be written to {}: {error}", file.path.display());
        }
        copy(report);
    };
    let Ended { mut outcome, exit, hasty } = ended;
    if let Some(before) = before {
        // The outcome is on record even if this process is killed while it compares.
        write(&outcome);
        let changes = before.end(hasty, patch.as_deref()).await;
        outcome = changes::conclude(&changes, outcome, &mut log);
    }
    log.note(&Note::End(&outcome));
    write(&outcome);
    exit
}

/// The workspace before the command, and the private directory with it.
struct Compared(changes::Before, tempfile::TempDir);

impl Compared {
    async fn begin(root: &Path) -> Option<Self> {
        let state = tempfile::Builder::new().prefix("kubeopencode-changes-").tempdir().ok()?;
        Some(Self(changes::Before::read(root, state.path(), changes::BEFORE).await, state))
    }

    async fn end(self, hasty: bool, patch: Option<&Path>) -> domain::run::changes::Changes {
        let state = self.1.path();
        match patch {
            Some(patch) => {
                self.0.compare_into(state, if hasty { COMPARE_AFTER_STOP } else { changes::AFTER }, patch).await
            }
            None => self.0.compare(state, if hasty { changes::AFTER_STOP } else { changes::AFTER }).await,
        }
    }
}

/// Runs a command to its end. Reaps every child of this process, so no other code may start children meanwhile.
pub async fn run(command: &[String], settings: &Settings, log: &mut Log<'_>) -> Ended {
    let Some((program, arguments)) = command.split_first() else {
        return RunReport::new(Reason::BadInvocation, "no command is given; write: kubeopencode shim -- COMMAND …")
            .into();
    };
    let mut starting = Command::new(program);
    starting.args(arguments);
    if let Some(first) = &settings.path_prepend {
        starting.env("PATH", path_after(first, std::env::var("PATH").ok()));
    }
    match &settings.stdin {
        Some(path) => match File::open(path) {
            Ok(file) => {
                starting.stdin(file);
            }
            Err(error) => {
                let message = format!("{} {}: {error}", env::SHIM_STDIN_FILE, path.display());
                return RunReport::new(Reason::BadInvocation, message).into();
            }
        },
        None => {
            starting.stdin(Stdio::inherit());
        }
    }
    // OpenCode reads the plugin when it starts.
    let plugin = (settings.output == Output::OpencodeJson).then(live::plugin).and_then(Result::ok);
    if let Some(plugin) = &plugin
        && let Some(config) = live::with_plugin(settings.config.as_deref(), plugin.path())
    {
        starting.env(env::OPENCODE_CONFIG_CONTENT, config);
    }
    if settings.output == Output::OpencodeJson {
        starting.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    // Handlers before the start: an early signal must not kill the shim and leave the command running.
    let signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => return RunReport::new(Reason::BadInvocation, format!("signals: {error}")).into(),
    };
    let (group, child) = match Group::start(starting) {
        Ok(started) => started,
        Err(error) => {
            let exit = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
            let message = format!("the command {program} cannot be started: {error}");
            return Ended { outcome: RunReport::new(Reason::CommandNotStarted, message), exit, hasty: false };
        }
    };
    let mut transcript = Transcript::new(Instant::now());
    transcript.meter = Meter::new(settings.allowance);
    Run { settings, group, transcript, stderr_tail: String::new(), log }.follow(child, signals).await
}

/// Signals to forward.
struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    fn install() -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        for (kind, forward) in [
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
        ] {
            let mut stream = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(forward).is_ok() {} });
        }
        Ok(Self(receiver))
    }
}

/// A piece of the command's output.
enum Piece {
    Line(String),
    ErrorLine(String),
}

struct Run<'a, 'b> {
    settings: &'a Settings,
    group: Group,
    transcript: Transcript,
    stderr_tail: String,
    log: &'a mut Log<'b>,
}

/// Why the shim ends the command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Stopped,
    Stalled(String),
    Exceeded(String),
}

impl Run<'_, '_> {
    async fn follow(mut self, child: Child, mut signals: Signals) -> Ended {
        let mut output = read_output(child);
        let mut exits = self.group.reap();
        let mut ending: Option<(Ending, Instant)> = None;
        let mut killed = false;
        let mut reading = true;
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let exit = loop {
            tokio::select! {
                exit = exits.recv() => break exit.unwrap_or(u8::MAX),
                piece = output.recv(), if reading => match piece {
                    Some(piece) => self.take(piece),
                    None => reading = false,
                },
                Some(signal) = signals.0.recv() => {
                    self.group.signal(signal);
                    if matches!(signal, Signal::TERM | Signal::INT | Signal::QUIT) && ending.is_none() {
                        ending = Some((Ending::Stopped, Instant::now()));
                    }
                }
                _ = tick.tick() => {}
            }
            let now = Instant::now();
            if ending.is_none()
                && self.settings.output == Output::OpencodeJson
                && let Some(cause) = self.transcript.stalled(now, self.settings.stall)
            {
                self.group.signal(Signal::TERM);
                ending = Some((Ending::Stalled(cause), now));
            }
            if ending.is_none()
                && let Some(cause) = self.transcript.meter.exceeded()
            {
                self.group.signal(Signal::TERM);
                ending = Some((Ending::Exceeded(cause), now));
            }
            if let Some((_, since)) = &ending
                && !killed
                && now.saturating_duration_since(*since) >= self.settings.grace
            {
                killed = true;
                self.group.signal(Signal::KILL);
            }
        };
        let left = end_the_rest(self.group, LEFTOVERS).await;
        if left > 0 {
            self.log.note(&Note::Info(&format!("{left} processes were still running and were ended")));
        }
        let deadline = tokio::time::Instant::now() + LAST_OUTPUT;
        while reading {
            match tokio::time::timeout_at(deadline, output.recv()).await {
                Ok(Some(piece)) => self.take(piece),
                Ok(None) | Err(_) => reading = false,
            }
        }
        // The thread that reaps children ends with the last of them. Until then it would also reap those that compare the
        // workspace.
        let reaped = async { while exits.recv().await.is_some() {} };
        let alone = tokio::time::timeout(LEFTOVERS, reaped).await.is_ok();
        let hasty = matches!(ending, Some((Ending::Stopped, _))) || !alone;
        Ended { hasty, ..self.judge(exit, ending.map(|(ending, _)| ending)) }
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Line(line) => self.transcript.read(&line, Instant::now(), self.log),
            Piece::ErrorLine(line) => {
                self.transcript.read_error(&line);
                if !line.trim().is_empty() {
                    self.stderr_tail.push_str(line.trim());
                    self.stderr_tail.push(' ');
                    let start = self.stderr_tail.char_indices().rev().nth(STDERR_TAIL - 1).map_or(0, |(at, _)| at);
                    self.stderr_tail.drain(..start);
                }
            }
        }
    }

    fn judge(self, exit: u8, ending: Option<Ending>) -> Ended {
        let outcome = match (ending, self.settings.output) {
            (Some(Ending::Stopped), _) => {
                self.transcript.complete(RunReport::new(Reason::Stopped, "the Task was stopped"))
            }
            (Some(Ending::Stalled(cause)), _) => self.transcript.complete(RunReport::new(Reason::NoProgress, cause)),
            (Some(Ending::Exceeded(cause)), _) => {
                self.transcript.complete(RunReport::new(Reason::BudgetExceeded, cause))
            }
            (None, Output::OpencodeJson) => self.transcript.judge(exit, &plain_text(&self.stderr_tail)),
            (None, Output::Plain | Output::Client) if exit == 0 => {
                RunReport::new(Reason::Succeeded, "the command ended with exit code 0")
            }
            (None, Output::Plain | Output::Client) => command_failed(exit, ""),
        };
        match outcome.reason {
            Reason::CommandFailed => Ended { outcome, exit, hasty: false },
            _ => outcome.into(),
        }
    }
}

/// Reads the command's pipes in threads: standard output by lines, standard error passed through and by lines.
fn read_output(mut child: Child) -> mpsc::Receiver<Piece> {
    let (sender, receiver) = mpsc::channel(256);
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                if sender.blocking_send(Piece::Line(text)).is_err() {
                    return;
                }
            }
        });
    }
    if let Some(mut stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            let mut line = Vec::new();
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                let piece = &buffer[..read];
                let _ = std::io::stderr().write_all(piece);
                for byte in piece {
                    if *byte == b'\n' || line.len() > 64 << 10 {
                        let text = String::from_utf8_lossy(&line).into_owned();
                        line.clear();
                        if sender.blocking_send(Piece::ErrorLine(text)).is_err() {
                            return;
                        }
                    } else {
                        line.push(*byte);
                    }
                }
            }
            let _ = sender.blocking_send(Piece::ErrorLine(String::from_utf8_lossy(&line).into_owned()));
        });
    }
    receiver
}

/// The image's `PATH` comes last; an image without one gets a default.
fn path_after(first: &str, image: Option<String>) -> String {
    let rest = image.filter(|path| !path.is_empty());
    format!("{first}:{}", rest.as_deref().unwrap_or("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
}

/// Text without colour codes.
fn plain_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(char);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;
    use egress::Redactor;

    #[test]
    fn settings_have_defaults_and_refuse_nonsense() {
        let settings = Settings::from_env(&of(&[])).unwrap();
        assert_eq!((settings.output, settings.grace.as_secs(), settings.stall.as_secs()), (Output::Plain, 25, 900));
        assert!(Settings::from_env(&of(&[(env::SHIM_FORMAT, "xml")])).is_err());
    }

    #[test]
    fn our_tools_come_first_and_the_images_stay() {
        assert_eq!(path_after("/tools", Some("/opt/go/bin:/bin".to_owned())), "/tools:/opt/go/bin:/bin");
        assert!(path_after("/tools", None).ends_with(":/bin"));
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(plain_text("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mno"), "Error: no");
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_is_named() {
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, Format::Readable, Redactor::default());
        let settings = Settings::from_env(&of(&[])).unwrap();
        let ended = run(&["/no/such/command".to_owned()], &settings, &mut log).await;
        assert_eq!((ended.exit, ended.outcome.reason), (127, Reason::CommandNotStarted));
        let ended = run(&["/etc/hostname".to_owned()], &settings, &mut log).await;
        assert_eq!(ended.exit, 126);
        assert_eq!(run(&[], &settings, &mut log).await.exit, 2);
    }
}
