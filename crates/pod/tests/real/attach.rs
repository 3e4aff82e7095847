//! attach against a real OpenCode server: every ending of the exit table in the reference.
//!
//! A few tests, each with one server: most endings do not disturb each other and run at the same time on the first one;
//! another one is killed, frozen and restarted. A model that always answers 500
//! is retried by OpenCode for 71 s; with a short stall timeout it ends as NoProgress at once, which is the rule that is
//! under test here.

use std::path::Path;
use std::time::Duration;

use demo::scripted_model::ScriptedModel;
use domain::contract::{
    reason::Reason,
    record,
    report::{ReportedUsage, RunReport},
};
use futures::{StreamExt as _, future::join_all, stream};
use kubeopencode_pod::attach::{self, Arguments, Settings};
use kubeopencode_pod::env;
use kubeopencode_pod::redact::Redactor;
use kubeopencode_pod::run_log::{Format, Log};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::attach_person::{check_always, check_person};
use crate::support::helper::{Helper, command, outcome};
use crate::support::opencode::{PASSWORD, Port, Server, closed_port, with_dead_model};
use crate::support::{LIMIT, lookup, until};

/// OpenCode runs sessions on one thread: with more of them at once, a request waits longer than its limit on a busy
/// machine.
const SESSIONS_AT_ONCE: usize = 8;

/// Commands that begin with `ask-me` need a permission; everything else is allowed.
fn config(model: &ScriptedModel) -> Value {
    let mut config = with_dead_model(model.opencode_config());
    config["permission"] = json!({"*": "allow", "bash": {"*": "allow", "ask-me*": "ask", "deny-me*": "deny"}});
    config
}

/// One run of the client, inside of this process.
pub struct Client<'a> {
    url: String,
    password: &'a str,
    args: Vec<&'a str>,
    environment: Vec<(&'a str, String)>,
}

impl<'a> Client<'a> {
    pub fn new(url: String) -> Self {
        Self { url, password: PASSWORD, args: Vec::new(), environment: Vec::new() }
    }

    pub fn arg(mut self, arg: &'a str) -> Self {
        self.args.push(arg);
        self
    }

    pub fn set(mut self, name: &'a str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    pub async fn run(self) -> (RunReport, String) {
        self.run_until(std::future::pending()).await
    }

    async fn run_until(self, stop: impl Future<Output = ()>) -> (RunReport, String) {
        let mut args = vec!["--attach", self.url.as_str()];
        args.extend(self.args);
        let arguments = Arguments::parse(&args).unwrap();
        let settings = Settings::from_env(&lookup(&self.environment)).unwrap();
        let password = Some(self.password.to_owned());
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, Format::Readable, Redactor::default());
        let run = attach::run(&arguments, &settings, password, tokio::io::empty(), &mut log, stop);
        let outcome = tokio::time::timeout(Duration::from_secs(100), run).await.expect("every wait is bounded");
        (outcome, String::from_utf8(out).unwrap())
    }
}

/// An ending: a prompt, settings, and the expected outcome.
struct Ending {
    prompt: &'static str,
    args: &'static [&'static str],
    setting: Option<(&'static str, &'static str)>,
    reason: Reason,
    message: &'static str,
}

const fn ending(prompt: &'static str, reason: Reason, message: &'static str) -> Ending {
    Ending { prompt, args: &[], setting: None, reason, message }
}

const fn ending_with(
    prompt: &'static str,
    setting: (&'static str, &'static str),
    reason: Reason,
    message: &'static str,
) -> Ending {
    Ending { prompt, args: &[], setting: Some(setting), reason, message }
}

const ENDINGS: &[Ending] = &[
    ending("[[say fine]]", Reason::Succeeded, "finished"),
    ending("[[bash cmd=\"exit 3\"]] [[say the tool failed, I did not]]", Reason::Succeeded, "finished"),
    ending("[[status 400]]", Reason::ModelError, "HTTP 400: scripted refusal"),
    ending("[[status 401]]", Reason::ModelError, "HTTP 401: scripted refusal"),
    ending("[[status 404]]", Reason::ModelError, "HTTP 404: scripted refusal"),
    ending("[[status 429 times=1]] [[say after 429]]", Reason::Succeeded, "finished"),
    ending("[[status 500 times=1]] [[say after 500]]", Reason::Succeeded, "finished"),
    ending_with("[[status 500]]", (env::STALL_TIMEOUT_SECONDS, "15"), Reason::NoProgress, "asked again"),
    ending("[[html]]", Reason::NoProgress, "baseURL"),
    ending_with("[[hang]] silence", (env::STALL_TIMEOUT_SECONDS, "3"), Reason::NoProgress, "nothing happened for 3 s"),
    ending("[[cut]] [[say a text that is long enough to be cut in two]]", Reason::Succeeded, "finished"),
    ending("[[length]] [[say half of]]", Reason::LengthLimit, "output limit"),
    ending("[[content-filter]] [[say no]]", Reason::ContentFiltered, "content filter"),
    ending("[[bash cmd=\"ask-me please\"]] [[say no]]", Reason::PermissionRejected, "permission"),
    ending_with(
        "[[bash cmd=\"ask-me again\"]] [[say allowed]]",
        (env::APPROVAL_MODE, "Approve"),
        Reason::Succeeded,
        "finished",
    ),
    Ending {
        prompt: "[[bash cmd=\"ask-me by flag\"]] [[say allowed]]",
        args: &["--auto"],
        setting: None,
        reason: Reason::Succeeded,
        message: "finished",
    },
    Ending {
        prompt: "[[say nobody hears it]]",
        args: &["--model", "dead/gone"],
        setting: Some((env::STALL_TIMEOUT_SECONDS, "15")),
        reason: Reason::NoProgress,
        message: "asked again",
    },
    Ending {
        prompt: "[[say x]]",
        args: &["--model", "nope/x"],
        setting: None,
        reason: Reason::SessionError,
        message: "Model not found: nope/x",
    },
    Ending {
        prompt: "[[say x]]",
        args: &["--agent", "nope"],
        setting: None,
        reason: Reason::SessionError,
        message: "Agent not found",
    },
    Ending {
        prompt: "[[say x]]",
        args: &["--session", "ses_0000000000000000000000000000"],
        setting: None,
        reason: Reason::SessionGone,
        message: "not found",
    },
];

async fn check_ending(server: &Server, number: usize, ending: &Ending) -> Result<(), String> {
    let title = format!("ending {number}");
    let mut client = Client::new(server.url()).arg("--title").arg(&title);
    client.args.extend(ending.args);
    if let Some((name, value)) = ending.setting {
        client = client.set(name, value);
    }
    let (outcome, log) = client.arg(ending.prompt).run().await;
    if outcome.reason == ending.reason && outcome.message.contains(ending.message) {
        return Ok(());
    }
    Err(format!("{}\n  expected {:?} ({})\n  got {outcome:?}\n{log}", ending.prompt, ending.reason, ending.message))
}

async fn check_tool_call(server: &Server) {
    let client =
        Client::new(server.url()).set(env::TASK_NAME, "hello").set(env::TASK_UID, "uid-1").set(env::TASK_EPOCH, "2");
    let system = server.home.path().join("context.md");
    std::fs::write(&system, "The colour is heliotrope.").unwrap();
    let client = client.set(env::KUBEOPENCODE_SYSTEM_FILE, &system.display().to_string());
    let (outcome, log) = client.arg("[[write path=hello.txt text=\"hi there\"]] [[say All is written]]").run().await;
    assert_eq!(outcome.reason, Reason::Succeeded, "{outcome:?}\n{log}");
    assert_eq!(std::fs::read_to_string(server.workspace.join("hello.txt")).unwrap(), "hi there");
    assert_eq!(
        (outcome.summary.as_str(), outcome.usage.messages, outcome.usage.files_changed, outcome.usage.additions),
        ("All is written", 2, 1, Some(1))
    );
    assert!(outcome.usage.tokens.input > 1000 && outcome.usage.cost > 0.0, "{:?}", outcome.usage);
    assert!(log.contains("[tool] write hello.txt\n") && log.contains("All is written\n"), "{log}");
    let session = outcome.session.unwrap();
    let stored = server.call("GET", &format!("/session/{session}"), &Value::Null).await.unwrap();
    let task = json!({"namespace": null, "name": "hello", "uid": "uid-1", "epoch": "2"});
    assert_eq!((&stored["title"], &stored["metadata"]["task"]), (&json!("hello"), &task));

    let (again, _) = Client::new(server.url()).arg("--session").arg(&session).arg("[[say Second answer]]").run().await;
    assert_eq!((again.summary.as_str(), again.usage.messages), ("Second answer", 1), "only the new answer counts");
    assert_eq!(again.session, Some(session));
}

/// The prompt and the contexts reach the model as they were written.
async fn check_bytes(server: &Server, model: &ScriptedModel) {
    let prompt = "  [[say ok]] \"quoted\"\r\n\tsecond 'line' $(cat) é \n\n";
    let file = server.home.path().join("prompt");
    std::fs::write(&file, prompt).unwrap();
    let file = file.display().to_string();
    let (outcome, log) = Client::new(server.url()).set(env::PROMPT_FILE, &file).run().await;
    assert_eq!(outcome.reason, Reason::Succeeded, "{outcome:?}\n{log}");
    let (outcome, log) = Client::new(server.url()).arg("--prompt-file").arg(&file).run().await;
    assert_eq!((outcome.reason, log.contains("ok")), (Reason::Succeeded, true), "{outcome:?}\n{log}");
    let requests: Vec<String> = model.requests().iter().map(Value::to_string).collect();
    let sent = Value::from(prompt).to_string();
    assert!(requests.iter().any(|request| request.contains(&sent)), "the prompt was changed");
    assert!(requests.iter().any(|request| request.contains("The colour is heliotrope.")), "the context is missing");
}

async fn check_abort(server: &Server, title: &str, method: &str, path: &str, expected: Reason) {
    let run = Client::new(server.url()).arg("--title").arg(title).arg("[[hang]] until it is disturbed").run();
    let disturb = async {
        let session = until("the session is busy", LIMIT, || async {
            let session = server.session(title).await?;
            server.is_busy(&session).await?.then_some(session)
        })
        .await;
        server.call(method, &path.replace("ID", &session), &json!({})).await;
    };
    let ((outcome, log), ()) = tokio::join!(run, disturb);
    assert_eq!(outcome.reason, expected, "{outcome:?}\n{log}");
}

async fn check_stop_inside(server: &Server) {
    let stop = async {
        until("the tool runs", LIMIT, || async { server.workspace.join("stopped.mark").exists().then_some(()) }).await;
    };
    let prompt = "[[write path=stopped.txt text=x]] [[bash cmd=\"echo > stopped.mark; sleep 1000\"]]";
    let client = Client::new(server.url()).arg("--title").arg("stop inside").arg(prompt);
    let (outcome, log) = client.run_until(stop).await;
    assert_eq!((outcome.reason, outcome.exit_code()), (Reason::Stopped, 143));
    let ReportedUsage { tokens, messages, files_changed, .. } = &outcome.usage;
    assert!(tokens.input > 1000 && *messages > 0 && *files_changed == 1, "{outcome:?}\n{log}");
    let session = outcome.session.unwrap();
    let busy = until("the status", LIMIT, || server.is_busy(&session)).await;
    assert!(!busy, "the session still works");
}

async fn check_five_at_once(server: &Server) {
    let prompts: Vec<String> =
        (0..5).map(|number| format!("[[write path=five-{number}.txt text={number}]] [[say done {number}]]")).collect();
    let runs = prompts.iter().map(|prompt| Client::new(server.url()).arg(prompt).run());
    for (number, (outcome, log)) in join_all(runs).await.into_iter().enumerate() {
        assert_eq!((outcome.reason, outcome.summary), (Reason::Succeeded, format!("done {number}")), "{log}");
        let file = server.workspace.join(format!("five-{number}.txt"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), number.to_string());
    }
}

/// As a process: a signal aborts the session on the server, the tool it runs is gone, exit code 143, record written.
async fn check_signal(server: &Server, signal: Signal, name: &str) {
    let record = server.home.path().join(format!("outcome-{name}"));
    let prompt = format!("[[bash cmd=\"echo $$ > {name}.pid; sleep 1000\"]] [[say never]]");
    let url = server.url();
    let args = ["run", "--attach", &url, "--title", name, "--format", "json", &prompt];
    let record_path = record.display().to_string();
    let environment = [(env::OUTCOME_FILE, record_path.as_str()), (env::OPENCODE_SERVER_PASSWORD, PASSWORD)];
    let helper = Helper::start(command("attach", &args, &environment));
    let pid = until("the tool runs", LIMIT, || async {
        let text = std::fs::read_to_string(server.workspace.join(format!("{name}.pid"))).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
    .await;
    helper.signal(signal);
    let finished = tokio::task::spawn_blocking(|| helper.finish(LIMIT)).await.unwrap();
    assert_eq!(finished.code, Some(143), "{}{}", finished.stdout, finished.stderr);
    assert!(!finished.stdout.contains(PASSWORD) && !finished.stderr.contains(PASSWORD));
    // Before the first line stands the output of the test harness.
    let last = finished.stdout.lines().rev().find_map(|line| line.get(line.find('{')?..));
    let last = last.unwrap_or_else(|| panic!("{}{}", finished.stdout, finished.stderr));
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["outcome"]["reason"], "Stopped");
    assert_eq!(last["sessionID"], last["outcome"]["sessionID"], "{last}");
    let outcome = outcome(&record);
    assert_eq!((outcome.reason, outcome.message.contains("session aborted")), (Reason::Stopped, true), "{outcome:?}");
    let session = outcome.session.unwrap();
    until("the session is idle", LIMIT, || async { (!server.is_busy(&session).await?).then_some(()) }).await;
    until("the tool is gone", LIMIT, || async { (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()) }).await;
}

/// As a process: the log has all of the conversation, also the usage of its last step.
async fn check_record(server: &Server) {
    let record = server.home.path().join("recorded").display().to_string();
    let environment = [(env::OUTCOME_FILE, record.as_str()), (env::OPENCODE_SERVER_PASSWORD, PASSWORD)];
    let helper = Helper::start(command("attach", &["--attach", &server.url(), "[[say all of it]]"], &environment));
    let finished = tokio::task::spawn_blocking(|| helper.finish(LIMIT)).await.unwrap();
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    let [.., step, end] = finished.records.as_slice() else { panic!("{}", finished.stdout) };
    assert_eq!((&step["type"], &step["part"]["reason"]), (&json!("step_finish"), &json!("stop")), "{step}");
    assert_eq!(end["type"], record::LAST, "{end}");
}

/// Subagents of subagents are found, and asked for their tokens.
async fn check_descendants(server: &Server) {
    let args = ["--attach", &server.url()];
    let arguments = Arguments::parse(&args).unwrap();
    let settings = Settings::from_env(&lookup(&[])).unwrap();
    let client = attach::connect(&arguments, &settings, Some(PASSWORD.to_owned())).unwrap();
    let mut line: Vec<String> = Vec::new();
    for _ in 0..3 {
        let mut body = json!({"title": "family"});
        if let Some(parent) = line.last() {
            body["parentID"] = json!(parent);
        }
        line.push(client.create(&body).await.unwrap().id);
    }
    let found = client.descendants(&line[0]).await.unwrap();
    assert_eq!(found.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), line[1..]);
}

async fn check_refusals(server: &Server) {
    let mut wrong = Client::new(server.url()).arg("[[say x]]");
    wrong.password = "wrong";
    let (outcome, _) = wrong.run().await;
    assert_eq!((outcome.reason, outcome.exit_code()), (Reason::Unauthorized, 13), "{outcome:?}");
    let (outcome, _) = Client::new(server.url()).run().await;
    assert_eq!(outcome.reason, Reason::BadInvocation, "an empty prompt: {outcome:?}");
    let nobody = format!("http://127.0.0.1:{}", closed_port());
    let (outcome, _) = Client::new(nobody).set(env::START_TIMEOUT_SECONDS, "1").arg("x").run().await;
    assert_eq!(outcome.reason, Reason::ServerLost, "{outcome:?}");
}

async fn check_broken_config() {
    let server = Server::start(json!({"model": 42}));
    let (outcome, log) = Client::new(server.url()).arg("[[say x]]").run().await;
    assert_eq!(outcome.reason, Reason::ServerMisconfigured, "{outcome:?}\n{log}");
    assert!(outcome.message.contains("ConfigInvalidError"), "{}", outcome.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn attach_judges_every_ending_rightly() {
    let model = ScriptedModel::start().await.unwrap();
    let server = Server::start(config(&model));
    // The first run starts together with the server: the start-up race is part of the test.
    check_tool_call(&server).await;
    check_bytes(&server, &model).await;
    check_descendants(&server).await;
    let endings = ENDINGS.iter().enumerate().map(|(number, ending)| check_ending(&server, number, ending));
    let (results, ..) = tokio::join!(
        stream::iter(endings).buffer_unordered(SESSIONS_AT_ONCE).collect::<Vec<_>>(),
        check_abort(&server, "aborted", "POST", "/session/ID/abort", Reason::SessionAborted),
        check_abort(&server, "deleted", "DELETE", "/session/ID", Reason::SessionGone),
        check_person(&server),
        check_stop_inside(&server),
        check_always(&server),
        check_record(&server),
        check_refusals(&server),
    );
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{} endings are judged wrongly:\n{}", failures.len(), failures.join("\n"));
    check_five_at_once(&server).await;
    tokio::join!(check_signal(&server, Signal::TERM, "term"), check_signal(&server, Signal::INT, "int"));
}

/// Accepts one connection and resets it, so that the client has tried and the port is free again at once.
async fn refuse_one(port: u16) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let (connection, _) = listener.accept().await.unwrap();
    connection.set_zero_linger().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn attach_survives_what_happens_to_a_server() {
    let model = ScriptedModel::start().await.unwrap();
    let port = Port::reserve();
    let url = format!("http://127.0.0.1:{}", port.number());

    // The client is there before the server.
    let early = Client::new(url.clone()).arg("[[say here I am]]").run();
    let config = config(&model);
    let start = async {
        refuse_one(port.number()).await;
        Server::start_on(port, config)
    };
    let ((outcome, log), mut server) = tokio::join!(early, start);
    assert_eq!(outcome.reason, Reason::Succeeded, "{outcome:?}\n{log}");
    assert!(log.contains("[info] waiting for"), "{log}");

    let busy = async |server: &Server, title: &str| {
        until("the session is busy", LIMIT, || async {
            let session = server.session(title).await?;
            server.is_busy(&session).await?.then_some(())
        })
        .await;
    };
    let hanging = |title: &'static str, lost: &'static str| {
        Client::new(url.clone()).set(env::SERVER_LOST_SECONDS, lost).arg("--title").arg(title).arg("[[hang]] here")
    };

    // Frozen: nothing answers, nothing closes the connection. The limit of `run` is the check that this is noticed.
    let freeze = async {
        busy(&server, "frozen").await;
        server.signal(Signal::STOP);
    };
    let ((outcome, log), ()) = tokio::join!(hanging("frozen", "10").run(), freeze);
    assert_eq!(outcome.reason, Reason::ServerLost, "{outcome:?}\n{log}");
    server.signal(Signal::CONT);

    // Killed and back within the limit: the session is there, but its answer was never finished.
    let run = hanging("restarted", "60").run();
    let restart = async {
        busy(&server, "restarted").await;
        server.restart();
    };
    let ((outcome, log), ()) = tokio::join!(run, restart);
    assert_eq!(outcome.reason, Reason::ServerLost, "{outcome:?}\n{log}");
    assert!(outcome.message.contains("never completed"), "{}", outcome.message);

    // Killed for good.
    let run = hanging("killed", "10").run();
    let kill = async {
        busy(&server, "killed").await;
        server.kill();
    };
    let ((outcome, log), ()) = tokio::join!(run, kill);
    assert_eq!(outcome.reason, Reason::ServerLost, "{outcome:?}\n{log}");
    assert!(outcome.message.contains("out of reach for 10 s"), "{}", outcome.message);

    check_broken_config().await;
}

/// A log that can be read while it is written.
#[derive(Clone, Default)]
struct SharedLog(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl SharedLog {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for SharedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_on_the_server_prints_is_in_the_log_before_the_command_ends() {
    let model = ScriptedModel::start().await.unwrap();
    let server = Server::start(model.opencode_config());
    let url = server.url();
    let prompt = "[[bash cmd=\"echo first; until test -e go; do sleep 0.1; done; echo second\"]] [[say All done]]";
    let arguments = Arguments::parse(&["--attach", &url, prompt]).unwrap();
    let settings = Settings::from_env(&lookup(&[])).unwrap();
    let log = SharedLog::default();
    let mut out = log.clone();
    let mut written = Log::new(&mut out, Format::Readable, Redactor::default());
    let password = Some(PASSWORD.to_owned());
    let stop = std::future::pending();
    let run = attach::run(&arguments, &settings, password, tokio::io::empty(), &mut written, stop);
    let first_line_seen = async {
        while !log.text().contains("\n    first\n") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::fs::write(server.workspace.join("go"), "").unwrap();
    };
    let both = async { tokio::join!(run, first_line_seen).0 };
    let outcome = tokio::time::timeout(Duration::from_secs(100), both).await;
    let outcome = outcome.unwrap_or_else(|_| panic!("{}", log.text()));
    assert_eq!(outcome.reason, Reason::Succeeded, "{outcome:?}\n{}", log.text());
    let text = log.text();
    assert!(text.contains("echo second\n    first\n    second\n"), "{text}");
    assert_eq!(text.matches("[tool] bash").count(), 1, "{text}");
}
