//! Budgets with a real OpenCode: a run that exceeds its budget is stopped, on a server and on its own.

use std::path::Path;
use std::time::Duration;

use demo::scripted_model::ScriptedModel;
use domain::contract::{reason::Reason, report::RunReport};
use kubeopencode_pod::attach::{self, Arguments, Settings, missed};
use kubeopencode_pod::budget::{Meter, allowance};
use kubeopencode_pod::env;
use kubeopencode_pod::redact::Redactor;
use kubeopencode_pod::run_log::{Format, Log};
use serde_json::json;

use crate::support::helper::{Helper, command, outcome};
use crate::support::opencode::{PASSWORD, Server, environment, program};
use crate::support::{LIMIT, lookup, until};

/// Two steps are enough: after the first a tool runs for longer than any test.
const LONG_WORK: &str = "[[bash cmd=true]] [[bash cmd=\"echo $$ > tool.pid; sleep 1000\"]] [[say never]]";

async fn run(server: &Server, settings: &[(&str, String)], prompt: &str) -> (RunReport, String) {
    let arguments = Arguments::parse(&["--attach", &server.url(), prompt]).unwrap();
    let settings = Settings::from_env(&lookup(settings)).unwrap();
    let mut out = Vec::new();
    let mut log = Log::new(&mut out, Format::Readable, Redactor::default());
    let password = Some(PASSWORD.to_owned());
    let run = attach::run(&arguments, &settings, password, tokio::io::empty(), &mut log, std::future::pending());
    let outcome = tokio::time::timeout(Duration::from_secs(100), run).await.expect("every wait is bounded");
    (outcome, String::from_utf8(out).unwrap())
}

fn tokens(outcome: &RunReport) -> u64 {
    let tokens = &outcome.usage.tokens;
    tokens.input + tokens.output + tokens.reasoning
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_ends_when_its_budget_is_used_up() {
    let model = ScriptedModel::start().await.unwrap();
    let mut config = model.opencode_config();
    config["permission"] = json!({"*": "allow"});
    let server = Server::start(config);

    // A single answer finishes the work: a finished run is not stopped.
    let (finished, log) = run(&server, &[(env::BUDGET_MAX_TOKENS, "1".into())], "[[say fine]]").await;
    assert_eq!(finished.reason, Reason::Succeeded, "{finished:?}\n{log}");
    let one_answer = tokens(&finished);

    let (stopped, log) = run(&server, &[(env::BUDGET_MAX_TOKENS, "100".into())], LONG_WORK).await;
    assert_eq!((stopped.reason, stopped.exit_code()), (Reason::BudgetExceeded, 15), "{stopped:?}\n{log}");
    assert!(stopped.message.contains(" of 100 tokens, which is all that its budget allows"), "{}", stopped.message);
    assert!(tokens(&stopped) >= one_answer && stopped.usage.cost > 0.0, "{:?}", stopped.usage);
    let session = stopped.session.unwrap();
    until("the session is idle", LIMIT, || async { (!server.is_busy(&session).await?).then_some(()) }).await;

    // A meter that missed the events counts the same.
    let settings = Settings::from_env(&lookup(&[])).unwrap();
    let arguments = Arguments::parse(&["--attach", &server.url(), "x"]).unwrap();
    let client = attach::connect(&arguments, &settings, Some(PASSWORD.to_owned())).unwrap();
    let mut meter = Meter::new(allowance(&lookup(&[(env::BUDGET_MAX_TOKENS, "100".into())])).unwrap());
    missed::count(&client, &session, |_| true, &mut meter).await.unwrap();
    assert!(meter.exceeded().is_some_and(|cause| cause.contains(" of 100 tokens")), "{meter:?}");

    let (costly, log) = run(&server, &[(env::BUDGET_MAX_COST, "0.000100".into())], LONG_WORK).await;
    assert_eq!(costly.reason, Reason::BudgetExceeded, "{costly:?}\n{log}");
    assert!(costly.message.contains(" of 0.0001, which"), "{}", costly.message);

    // The answer that follows ends the run, so only the steps of the subagent can be too many.
    let call = json!({"description": "look", "prompt": "look around", "subagent_type": "general"}).to_string();
    let prompt = format!("[[tool name=task args={}]] [[say never]]", json!(call));
    let limit = [(env::BUDGET_MAX_TOKENS, (one_answer + one_answer / 4).to_string())];
    let (subagent, log) = run(&server, &limit, &prompt).await;
    assert_eq!(subagent.reason, Reason::BudgetExceeded, "{subagent:?}\n{log}");
    assert!(tokens(&subagent) > one_answer + one_answer / 4, "{:?}", subagent.usage);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_run_ends_when_its_budget_is_used_up() {
    let model = ScriptedModel::start().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let (file, recorded) = (home.path().join("task.md"), home.path().join("outcome"));
    std::fs::write(&file, LONG_WORK).unwrap();
    let mut pairs = environment(home.path(), &model.opencode_config());
    for (name, value) in [
        (env::SHIM_FORMAT, "opencode-json"),
        (env::SHIM_STDIN_FILE, &file.display().to_string()),
        (env::OUTCOME_FILE, &recorded.display().to_string()),
        (env::SHIM_GRACE_SECONDS, "5"),
        (env::BUDGET_MAX_TOKENS, "100"),
        // `opencode run` trusts PWD over the real directory.
        ("PWD", &workspace.display().to_string()),
    ] {
        pairs.push((name.to_owned(), value.to_owned()));
    }
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let program = program().display().to_string();
    let mut command = command("shim", &[&program, "run", "--format", "json", "--title", "standalone"], &pairs);
    command.current_dir(&workspace);
    let helper = Helper::start(command);
    let finished = tokio::task::spawn_blocking(|| helper.finish(Duration::from_secs(90))).await.unwrap();
    let outcome = outcome(&recorded);
    let details = format!("{outcome:?}\n{}{}", finished.stdout, finished.stderr);
    assert_eq!((finished.code, outcome.reason), (Some(15), Reason::BudgetExceeded), "{details}");
    assert!(outcome.message.contains(" of 100 tokens, which is all that its budget allows"), "{details}");
    assert!(tokens(&outcome) >= 100 && outcome.session.is_some(), "{details}");
    // If the second tool had begun, it is gone with the rest.
    let pid = std::fs::read_to_string(workspace.join("tool.pid")).unwrap_or_default();
    assert!(pid.is_empty() || !Path::new(&format!("/proc/{}", pid.trim())).exists(), "the tool still runs");
}
