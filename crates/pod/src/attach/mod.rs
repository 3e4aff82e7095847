//! attach: the OpenCode client of a Task that runs on an Agent.
//!
//! Invariants: the prompt arrives byte for byte, at most once; the outcome is judged by the session's messages; every
//! wait has a limit; a stopped Task leaves no working session behind.

pub mod arguments;
pub mod follow;
pub mod missed;
pub mod settings;
pub mod watch;

use std::collections::HashSet;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use domain::run::approval;
use domain::run::changes::Changes;
use opencode::{Client, Credentials, Error, Server};
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::changes::{self, agent::Begun};
use crate::env::{self, Lookup};
use crate::outcome::{self, ReportFile};
use crate::recorder::Recorder;
use crate::redact;
use crate::run_log::{Format, Log, Note};
use crate::shim::lock;
use egress::percent_decode;

pub use arguments::Arguments;
pub use settings::{Approval, Settings};

use follow::{Course, Follow, abort, signals, unauthorized};

/// Maximum size of a prompt in bytes. No model reads a longer one.
const MAX_PROMPT: u64 = 16 << 20;
/// Timeout of reading standard input: an open pipe would block for ever.
const STDIN: Duration = Duration::from_mins(1);
/// How long the abort of an interrupted session is retried. A Pod that is stopped has 30 s for everything.
const ABORT: Duration = Duration::from_secs(10);
/// Timeout of reading the usage afterwards.
const AFTER_ABORT: Duration = Duration::from_secs(5);
/// Timeout of comparing the workspace.
const COMPARE: Duration = Duration::from_mins(1);
/// The same after an abort, or if the server does not answer.
const COMPARE_AFTER_ABORT: Duration = Duration::from_secs(5);

/// Runs the client as a program, with the arguments after the program's name. Returns the exit code. End the process
/// with it: a read of standard input may still block.
pub async fn execute(words: &[String], env: Lookup<'_>) -> u8 {
    let parsed = Arguments::parse(words).map_err(|error| error.to_string());
    let redactor = redact::from_process(parsed.as_ref().ok().and_then(|arguments| arguments.password.clone()));
    let settings = Settings::from_env(env).map_err(|error| error.to_string());
    let format = parsed.as_ref().map_or(Format::Readable, |arguments| arguments.format);
    let file = ReportFile::from_env(env);
    let report_copy = env::text(env, env::SHIM_REPORT_FILE).map(PathBuf::from);
    if let Some(path) = env::text(env, env::SHIM_LOCK_FILE).map(PathBuf::from)
        && let Err(error) = lock::hold(&path)
    {
        let _ = writeln!(std::io::stderr(), "{} cannot be locked: {error}; results may not be kept", path.display());
    }
    let mut out = std::io::stdout();
    let mut recorder = Recorder::connect(env).await;
    let mut log = Log::new(&mut out, format, redactor.clone()).recorded(&mut recorder);
    let report = match (parsed, settings) {
        (Ok(arguments), Ok(settings)) => {
            let password = arguments.password.clone().or_else(|| env::text(env, env::OPENCODE_SERVER_PASSWORD));
            let stop = async {
                if crate::stop::requested().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            run(&arguments, &settings, password, tokio::io::stdin(), &mut log, stop).await
        }
        (Err(problem), _) | (_, Err(problem)) => RunReport::new(Reason::BadInvocation, problem),
    };
    log.note(&Note::End(&report));
    if let Err(error) = file.write(&report, &redactor) {
        let _ = writeln!(std::io::stderr(), "the report cannot be written to {}: {error}", file.path.display());
    }
    if let Some(path) = &report_copy
        && let Err(error) = outcome::copy(&report, path, &redactor)
    {
        let _ = writeln!(std::io::stderr(), "the report cannot be copied: {error}");
    }
    report.exit_code()
}

/// Runs one Task on a server until it ends or `stop` is ready.
pub async fn run(
    arguments: &Arguments,
    settings: &Settings,
    password: Option<String>,
    stdin: impl AsyncRead + Unpin,
    log: &mut Log<'_>,
    stop: impl Future<Output = ()>,
) -> RunReport {
    let client = match connect(arguments, settings, password) {
        Ok(client) => client,
        Err(outcome) => return *outcome,
    };
    let settings = &settings.clone().under(arguments);
    let mut course = None;
    let mut begun = None;
    let ended = tokio::select! {
        ended = work(arguments, settings, &client, stdin, log, &mut course, &mut begun) => ended,
        () = stop => Err(Box::new(RunReport::new(Reason::Stopped, "the Task was stopped"))),
    };
    let (outcome, limit) = match ended {
        Ok(outcome) if outcome.reason == Reason::ServerLost => (outcome, COMPARE_AFTER_ABORT),
        Ok(outcome) => (outcome, COMPARE),
        Err(outcome) => (interrupted(*outcome, settings, &client, log, course).await, COMPARE_AFTER_ABORT),
    };
    match begun {
        Some(begun) => compared(begun, outcome, settings, &client, log, limit).await,
        None => outcome,
    }
}

/// Adds the changes of the Agent's workspace to an outcome.
async fn compared(
    begun: Result<Begun, String>,
    outcome: RunReport,
    settings: &Settings,
    client: &Client,
    log: &mut Log<'_>,
    limit: Duration,
) -> RunReport {
    let Some(workspace) = &settings.workspace else { return outcome };
    let compared = match &begun {
        Ok(begun) => tokio::time::timeout(limit, workspace.end(client, begun))
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs()))),
        Err(problem) => Err(problem.clone()),
    };
    let compared = compared.unwrap_or_else(|problem| {
        let problem = problem.trim_end_matches('.');
        Changes::unknown(format!(
            "The Agent's workspace was not compared ({problem}): files changed by shell commands are not listed."
        ))
    });
    changes::conclude(&compared, outcome, log)
}

/// Aborts the session of a run that cannot continue, and completes its report.
async fn interrupted(
    interrupted: RunReport,
    settings: &Settings,
    client: &Client,
    log: &mut Log<'_>,
    course: Option<Course>,
) -> RunReport {
    let Some(mut course) = course else { return interrupted };
    // This process stops following the session, so the session must not continue.
    let aborted = abort(client, &course.session, ABORT).await;
    let message = match (interrupted.reason, aborted) {
        (Reason::Stopped, true) => "the Task was stopped and its session aborted".to_owned(),
        (Reason::Stopped, false) => {
            "the Task was stopped, but the server did not confirm that its session was aborted".to_owned()
        }
        _ => interrupted.message.clone(),
    };
    let outcome = RunReport { message, ..interrupted };
    Follow::new(client, settings, &mut course, log).conclude(outcome, AFTER_ABORT).await
}

/// A step either continues with a value or ends the run with a report.
pub type Step<T> = Result<T, Box<RunReport>>;

/// A client of the server that the arguments name.
pub fn connect(arguments: &Arguments, settings: &Settings, password: Option<String>) -> Step<Client> {
    let bad = |problem: String| Box::new(RunReport::new(Reason::BadInvocation, problem));
    let mut url = Url::parse(&arguments.server)
        .map_err(|error| bad(format!("--attach {} is not a URL: {error}", arguments.server)))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(format!("--attach {url} must start with http:// or https://")));
    }
    let mut username = arguments.username.clone().unwrap_or_else(|| settings.username.clone());
    let mut password = password;
    if let Some(given) = url.password().map(percent_decode) {
        username = percent_decode(url.username());
        password = Some(given);
    }
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let credentials = password.map(|password| Credentials { username, password });
    let server = Server { url, credentials, directory: arguments.directory.clone() };
    let http =
        settings.authorities.http_client().map(|builder| builder.connect_timeout(opencode::server::CONNECT).build());
    match http {
        Ok(Ok(http)) => Ok(Client::new(http, server)),
        Ok(Err(error)) => Err(bad(format!("the HTTP client cannot be created: {error}"))),
        Err(error) => Err(bad(error.to_string())),
    }
}

async fn work(
    arguments: &Arguments,
    settings: &Settings,
    client: &Client,
    stdin: impl AsyncRead + Unpin,
    log: &mut Log<'_>,
    known: &mut Option<Course>,
    begun: &mut Option<Result<Begun, String>>,
) -> Step<RunReport> {
    let prompt = read_prompt(arguments, settings, stdin).await?;
    let system = match &settings.system_file {
        Some(path) => Some(read_text(path, env::KUBEOPENCODE_SYSTEM_FILE)?).filter(|text| !text.is_empty()),
        None => None,
    };
    wait_until_ready(client, settings, log).await?;
    if let Some(workspace) = &settings.workspace {
        *begun = Some(workspace.begin(client).await);
    }
    let course = known.insert(open_session(arguments, settings, client).await?);
    log.note(&Note::Session { id: &course.session, server: client.url() });

    let (mut events, reader) = signals(client);
    let reader = AbortOnDrop(reader);
    let mut follow = Follow::new(client, settings, course, log);
    follow.connect(&mut events).await;
    let body = settings::prompt_body(arguments, &prompt, system.as_deref());
    send_prompt(client, follow.course(), &body, settings).await?;
    let outcome = follow.run(events).await;
    drop(reader);
    Ok(outcome)
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read_prompt(arguments: &Arguments, settings: &Settings, stdin: impl AsyncRead + Unpin) -> Step<String> {
    let bad = |problem: String| Box::new(RunReport::new(Reason::BadInvocation, problem));
    let prompt = match (&arguments.message, &arguments.prompt_file, &settings.prompt_file) {
        (Some(message), _, _) => message.clone(),
        (None, Some(path), _) => read_text(Path::new(path), "--prompt-file")?,
        (None, None, Some(path)) => read_text(path, env::PROMPT_FILE)?,
        (None, None, None) => {
            let mut bytes = Vec::new();
            let mut limited = stdin.take(MAX_PROMPT + 1);
            match tokio::time::timeout(STDIN, limited.read_to_end(&mut bytes)).await {
                Err(_) => {
                    return Err(bad("standard input stays open; close it or give the message as argument".into()));
                }
                Ok(Err(error)) => return Err(bad(format!("standard input cannot be read: {error}"))),
                Ok(Ok(_)) => {}
            }
            String::from_utf8(bytes).map_err(|_| bad("the message on standard input is not UTF-8 text".into()))?
        }
    };
    if prompt.trim().is_empty() {
        return Err(bad("the message is empty; give it as argument, with --prompt-file or on standard input".into()));
    }
    if prompt.len() as u64 > MAX_PROMPT {
        return Err(bad(format!("the message is longer than {MAX_PROMPT} bytes")));
    }
    Ok(prompt)
}

fn read_text(path: &Path, name: &str) -> Step<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let problem = format!("{name} {}: {error}", path.display());
        Box::new(RunReport::new(Reason::BadInvocation, problem))
    })
}

/// Waits for a server that answers with a valid configuration. Timeouts grow: a request between bind and ready is never
/// answered, and a server under load may need seconds.
async fn wait_until_ready(client: &Client, settings: &Settings, log: &mut Log<'_>) -> Step<()> {
    let deadline = Instant::now() + settings.start;
    let mut limit = Duration::from_secs(2);
    let mut logged = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
        let error = match client.ready(limit.min(left)).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match &error {
            Error::Unauthorized => return Err(Box::new(unauthorized())),
            Error::Status { status: 400..=499, message } if !error.is_transient() => {
                let message = format!("the Agent's OpenCode configuration is refused: {message}");
                return Err(Box::new(RunReport::new(Reason::ServerMisconfigured, message)));
            }
            _ => {}
        }
        if Instant::now() >= deadline {
            let seconds = settings.start.as_secs();
            let message = format!("the OpenCode server at {} was not ready within {seconds} s: {error}", client.url());
            return Err(Box::new(RunReport::new(Reason::ServerLost, message)));
        }
        if !std::mem::replace(&mut logged, true) {
            log.note(&Note::Info(&format!("waiting for {}: {error}", client.url())));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        limit = (limit * 2).min(opencode::client::REQUEST);
    }
}

/// Creates the session, or finds the one to continue with the ids of its messages.
async fn open_session(arguments: &Arguments, settings: &Settings, client: &Client) -> Step<Course> {
    let deadline = Instant::now() + settings.start;
    loop {
        match find_session(arguments, settings, client).await {
            Ok(course) => return Ok(course),
            Err(error) if error.is_transient() && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Err(error) => return Err(refused("the session cannot be opened", &error)),
        }
    }
}

async fn find_session(arguments: &Arguments, settings: &Settings, client: &Client) -> Result<Course, Error> {
    if let Some(id) = &arguments.session {
        let session = client.session(id).await?;
        let before = client.messages(id).await?.into_iter().map(|message| message.info.id);
        return Ok(Course::new(session.id, before.collect()));
    }
    let rules = if settings.ask_for_everything {
        approval::ask_for_everything(&client.rules(arguments.agent.as_deref()).await?)
    } else {
        None
    };
    // A request without an answer may leave an empty session behind, which is harmless.
    let session = client.create(&settings::session_body(arguments, settings, rules.as_deref())).await?;
    Ok(Course::new(session.id, HashSet::new()))
}

/// Sends the prompt, at most once: a request that may have arrived is not repeated; the session is checked instead.
async fn send_prompt(client: &Client, course: &Course, body: &serde_json::Value, settings: &Settings) -> Step<()> {
    let deadline = Instant::now() + settings.start;
    loop {
        let error = match client.prompt(&course.session, body).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match error {
            Error::Unreachable(_) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Error::NoAnswer(_) | Error::Status { status: 500.., .. } => {
                while Instant::now() < deadline {
                    if client
                        .messages(&course.session)
                        .await
                        .is_ok_and(|messages| messages.iter().any(|message| !course.before.contains(&message.info.id)))
                    {
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                return Err(refused("the prompt got no answer", &error));
            }
            error => return Err(refused("the prompt was not accepted", &error)),
        }
    }
}

fn refused(what: &str, error: &Error) -> Box<RunReport> {
    let reason = match error {
        Error::Unauthorized => Reason::Unauthorized,
        Error::NotFound(_) => Reason::SessionGone,
        Error::Status { status: 400..=499, .. } => Reason::SessionError,
        Error::NotOpenCode(_) => Reason::ServerMisconfigured,
        _ => Reason::ServerLost,
    };
    Box::new(RunReport::new(reason, format!("{what}: {error}")))
}
