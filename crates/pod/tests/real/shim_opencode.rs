//! shim around a real `opencode run --format json`: the exit table of the reference for standalone Pods.

use std::path::Path;
use std::time::Duration;

use demo::scripted_model::ScriptedModel;
use domain::contract::record;
use domain::contract::{
    reason::Reason,
    report::{ReportedUsage, RunReport},
};
use futures::StreamExt as _;
use kubeopencode_pod::env;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::helper::{Finished, Helper, command, outcome};
use crate::support::opencode::{environment, program, with_dead_model};
use crate::support::{LIMIT, until};

/// A standalone Pod: its own home, a workspace, a prompt file.
struct Pod {
    home: tempfile::TempDir,
}

impl Pod {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("workspace")).unwrap();
        Self { home }
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.home.path().join("workspace")
    }

    fn record(&self) -> std::path::PathBuf {
        self.home.path().join("outcome")
    }

    fn start(&self, config: &Value, more: &[&str], prompt: &str, stall: &str, grace: &str) -> Helper {
        let file = self.home.path().join("task.md");
        std::fs::write(&file, prompt).unwrap();
        let (file, record) = (file.display().to_string(), self.record().display().to_string());
        let program = program().display().to_string();
        let args = [&[program.as_str(), "run", "--format", "json", "--title", "standalone"], more].concat();
        let mut pairs = environment(self.home.path(), config);
        let workspace = self.workspace().display().to_string();
        for (name, value) in [
            (env::SHIM_FORMAT, "opencode-json"),
            (env::SHIM_STDIN_FILE, &file),
            (env::OUTCOME_FILE, &record),
            (env::STALL_TIMEOUT_SECONDS, stall),
            (env::SHIM_GRACE_SECONDS, grace),
            // `opencode run` trusts PWD over the real directory.
            ("PWD", &workspace),
        ] {
            pairs.push((name.to_owned(), value.to_owned()));
        }
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut command = command("shim", &args, &pairs);
        command.current_dir(self.workspace());
        Helper::start(command)
    }
}

async fn finish(pod: &Pod, helper: Helper) -> (Finished, RunReport) {
    let finished = tokio::task::spawn_blocking(|| helper.finish(Duration::from_secs(90))).await.unwrap();
    let outcome = outcome(&pod.record());
    (finished, outcome)
}

async fn run(config: &Value, more: &[&str], prompt: &str, stall: &str) -> (Pod, Finished, RunReport) {
    let pod = Pod::new();
    let helper = pod.start(config, more, prompt, stall, "5");
    let (finished, outcome) = finish(&pod, helper).await;
    (pod, finished, outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shim_judges_every_ending_rightly() {
    let model = ScriptedModel::start().await.unwrap();
    let mut config = with_dead_model(model.opencode_config());
    config["permission"] = json!({"*": "allow", "bash": {"*": "allow", "ask-me*": "ask"}});

    let prompt = "[[write path=hello.txt text=\"hi there\"]] [[say All is \"written\"]]\n";
    let (pod, finished, outcome) = run(&config, &[], prompt, "60").await;
    assert_eq!((finished.code, outcome.reason), (Some(0), Reason::Succeeded), "{}{}", finished.stdout, finished.stderr);
    assert_eq!(std::fs::read_to_string(pod.workspace().join("hello.txt")).unwrap(), "hi there");
    let ReportedUsage { files_changed, additions, .. } = outcome.usage;
    assert_eq!((outcome.summary.as_str(), files_changed, additions), ("All is \"written\"", 1, Some(1)));
    assert!(outcome.usage.cost > 0.0 && outcome.session.is_some(), "{outcome:?}");
    assert!(
        finished.stdout.contains("[tool] write") && finished.stdout.contains("\nAll is \"written\"\n"),
        "{}",
        finished.stdout
    );
    let messages = record::messages(prompt, finished.records);
    let part = |kind: &str| {
        messages.iter().flat_map(|message| message["parts"].as_array().unwrap()).find(|part| part["type"] == *kind)
    };
    assert_eq!(part("tool").unwrap()["state"]["input"]["content"], "hi there", "{messages:#?}");
    assert!(messages.last().unwrap()["info"]["cost"].as_f64() > Some(0.0), "{messages:#?}");
    let sent = Value::from(prompt).to_string();
    assert!(model.requests().iter().any(|request| request.to_string().contains(&sent)), "the prompt was changed");

    let none: &[&str] = &[];
    let endings = [
        (none, "[[hang]]", "8", 8, Reason::NoProgress, "no event for 8 s"),
        (none, "[[status 400]]", "60", 1, Reason::ModelError, "HTTP 400: scripted refusal"),
        (none, "[[status 401]]", "60", 1, Reason::ModelError, "HTTP 401: scripted refusal"),
        (none, "[[status 404]]", "60", 1, Reason::ModelError, "HTTP 404: scripted refusal"),
        (none, "[[status 500]]", "8", 8, Reason::NoProgress, "no event for 8 s"),
        (&["-m", "dead/gone"], "[[say x]]", "8", 8, Reason::NoProgress, "no event for 8 s"),
        (&["-m", "nope/x"], "[[say x]]", "60", 10, Reason::SessionError, ""),
        (&["--agent", "nope"], "[[say by the default agent]]", "60", 0, Reason::Succeeded, "finished"),
        (none, "[[cut]] [[say a text that is long enough to be cut in two]]", "60", 0, Reason::Succeeded, "finished"),
        (none, "[[length]] [[say half]]", "60", 4, Reason::LengthLimit, "output limit"),
        (none, "[[content-filter]] [[say no]]", "60", 5, Reason::ContentFiltered, "content filter"),
        (
            none,
            "[[bash cmd=\"ask-me please\"]] [[say no]]",
            "60",
            3,
            Reason::PermissionRejected,
            "bash (ask-me please)",
        ),
        (none, "[[html]]", "60", 8, Reason::NoProgress, "baseURL"),
    ];
    // Two at a time: each takes a whole core for five seconds.
    let runs = endings.map(|(more, prompt, stall, code, reason, message)| {
        let config = &config;
        async move {
            let (_pod, finished, outcome) = run(config, more, prompt, stall).await;
            assert_eq!(
                (finished.code, outcome.reason, outcome.message.contains(message)),
                (Some(code), reason, true),
                "{more:?} {prompt}: {outcome:?}\n{}{}",
                finished.stdout,
                finished.stderr
            );
        }
    });
    futures::stream::iter(runs).buffer_unordered(2).collect::<Vec<()>>().await;

    let (_pod, finished, outcome) = run(&json!({"model": 42}), &[], "x", "60").await;
    assert_eq!((finished.code, outcome.reason), (Some(1), Reason::CommandFailed), "{outcome:?}");
    assert!(outcome.message.contains("model"), "{}", outcome.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_standalone_task_leaves_no_tool_behind() {
    let model = ScriptedModel::start().await.unwrap();
    tokio::join!(check_stop(&model, Signal::TERM), check_stop(&model, Signal::INT));
}

async fn check_stop(model: &ScriptedModel, signal: Signal) {
    let pod = Pod::new();
    let prompt = "[[bash cmd=\"echo $$ > tool.pid; sleep 1000\"]] [[say never]]";
    // The grace period is far above the limit: a command that only SIGKILL ends does not end in time.
    let helper = pod.start(&model.opencode_config(), &[], prompt, "60", "3600");
    let pid = until("the tool runs", LIMIT, || async {
        let text = std::fs::read_to_string(pod.workspace().join("tool.pid")).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
    .await;
    helper.signal(signal);
    let (finished, outcome) = finish(&pod, helper).await;
    assert_eq!((finished.code, outcome.reason), (Some(143), Reason::Stopped), "{}", finished.stdout);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the tool still runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_prints_is_in_the_log_before_the_command_ends() {
    let model = ScriptedModel::start().await.unwrap();
    let config = model.opencode_config();
    let pod = Pod::new();
    let prompt = "[[bash cmd=\"echo first; until test -e go; do sleep 0.1; done; echo second\"]] [[say All done]]";
    let helper = pod.start(&config, &[], prompt, "60", "5");
    let start = std::time::Instant::now();
    while !helper.stdout().contains("\n    first\n") {
        assert!(start.elapsed() < Duration::from_secs(90), "{}", helper.stdout());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let output = |messages: &[Value]| {
        let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap().clone());
        let call = parts.into_iter().find(|part| part["type"] == "tool").unwrap();
        (call["state"]["status"].clone(), call["state"]["metadata"]["output"].clone())
    };
    let running = output(&record::messages(prompt, helper.records()));
    assert_eq!(running, (json!("running"), json!("first\n")));
    std::fs::write(pod.workspace().join("go"), "").unwrap();
    let (finished, outcome) = finish(&pod, helper).await;
    assert_eq!(outcome.reason, Reason::Succeeded, "{}{}", finished.stdout, finished.stderr);
    let expected = "[tool] bash echo first; until test -e go; do sleep 0.1; done; echo second\n    first\n    second\n";
    assert!(finished.stdout.contains(expected), "{}", finished.stdout);
    assert!(!finished.stdout.contains('\u{1b}'), "{}", finished.stdout);
    let ended = output(&record::messages(prompt, finished.records));
    assert_eq!(ended, (json!("completed"), json!("first\nsecond\n")));
}
