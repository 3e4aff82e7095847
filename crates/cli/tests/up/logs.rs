//! Logs that outlive their Pods.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use store::{Archive as _, Log, Owner, Run, Store, Stream};

use crate::command::Up;

/// A machine that builds at the same time is slow.
const LIMIT: Duration = Duration::from_mins(1);

const MANIFEST: &str = "
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: many}
spec: {command: [seq, -f, 'line %.0f', '1', '10000']}
---
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: slow}
spec: {command: [sh, -c, 'i=0; while :; do i=$((i+1)); echo \"line $i\"; sleep 0.02; done']}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: many}
spec: {description: print, templateRef: {name: many}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: slow}
spec: {description: print, templateRef: {name: slow}}
";

/// A platform on which Tasks print.
struct Printing {
    up: Up,
    dir: PathBuf,
}

impl Printing {
    fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    fn start_with(dir: &Path, more: &[&str]) -> Self {
        let up = Up::start(&dir.join("state"), &[&["--host-images", "--port", "0"], more].concat());
        Self { up, dir: dir.to_owned() }
    }

    fn apply(&self) {
        let manifest = self.dir.join("print.yaml");
        fs::write(&manifest, MANIFEST).unwrap();
        self.up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    }

    fn field(&self, task: &str, path: &str) -> String {
        self.up.kubectl(&["get", "task", task, "-o", &format!("jsonpath={{{path}}}")])
    }

    fn condition(&self, task: &str, kind: &str) -> String {
        self.field(task, &format!(".status.conditions[?(@.type==\"{kind}\")].status"))
    }

    fn until(&self, task: &str, path: &str, wanted: &str) {
        self.up.until(&["get", "task", task, "-o", &format!("jsonpath={{{path}}}")], |output| output == wanted);
    }

    /// What the store holds of a Task.
    fn kept(&self, task: &str) -> Kept {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = Store::directory(&self.dir.join("state/store")).unwrap();
        Kept { runtime, store, task: Owner::new("default", &self.field(task, ".metadata.uid")).unwrap() }
    }

    /// The log as the command line shows it.
    fn command(&self, args: &[&str]) -> String {
        let kubeconfig = self.dir.join("state/kubeconfig");
        // Read while it runs: a long log does not fit into a pipe.
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubeopencode"));
        let output = command.args(args).arg("--kubeconfig").arg(kubeconfig).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn token(&self) -> String {
        self.up.kubectl(&["create", "serviceaccount", "reader"]);
        let role = ["create", "clusterrolebinding", "reader", "--clusterrole=cluster-admin"];
        self.up.kubectl(&[role.as_slice(), &["--serviceaccount=default:reader"]].concat());
        self.up.kubectl(&["create", "token", "reader"])
    }

    /// The log from the REST API: head and body.
    fn rest(&self, token: &str, path: &str) -> (String, String) {
        let address = self.up.rest_address();
        let mut connection = TcpStream::connect(&address).unwrap();
        connection.set_read_timeout(Some(LIMIT)).unwrap();
        // This version knows no chunks: the body ends with the connection.
        let request = format!(
            "GET /api/v1/namespaces/default/tasks/{path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{answer}");
        (head.to_owned(), body.to_owned())
    }

    /// The log from the event stream: ids and messages.
    fn stream(&self, token: &str, path: &str) -> Vec<(String, Value)> {
        let (_, body) = self.rest(token, path);
        let field = |message: &str, name: &str| {
            message.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned).unwrap_or_default()
        };
        let messages = body.split("\n\n").filter(|message| message.contains("data: "));
        messages
            .map(|message| (field(message, "id: "), serde_json::from_str(&field(message, "data: ")).unwrap()))
            .collect()
    }
}

/// The lines of a log that the Task itself printed.
fn printed(log: &str) -> Vec<&str> {
    log.lines().filter_map(|line| line.split_once("line ")).map(|(_, number)| number).collect()
}

/// Lines that follow each other from the first on: none is missing, none is there twice.
fn in_order(numbers: &[&str]) -> bool {
    numbers.iter().enumerate().all(|(index, number)| *number == (index + 1).to_string())
}

/// The store as another process sees it.
struct Kept {
    runtime: tokio::runtime::Runtime,
    store: Store,
    task: Owner,
}

impl Kept {
    fn run(&self, epoch: i64) -> Run {
        Run { task: self.task.clone(), epoch }
    }

    fn log(&self) -> String {
        let mut all = Vec::new();
        loop {
            let next = self.store.read(&self.run(1).log(), all.len() as u64, 8 << 20);
            match self.runtime.block_on(next).unwrap().bytes {
                bytes if bytes.is_empty() => return String::from_utf8(all).unwrap(),
                bytes => all.extend(bytes),
            }
        }
    }

    /// Bytes of all logs of the Task.
    fn size(&self) -> u64 {
        let used = self.runtime.block_on(self.store.usage()).unwrap();
        used.iter().filter(|used| used.run.task == self.task).map(|used| used.bytes).sum()
    }

    /// Whether anything is kept.
    fn exists(&self) -> bool {
        self.runtime.block_on(self.store.owners()).unwrap().contains(&self.task)
    }

    /// Whether the run has both logs, closed, its record and its settings.
    fn is_whole(&self, epoch: i64) -> bool {
        let run = self.run(epoch);
        self.runtime.block_on(async {
            let mut whole = self.store.settings(&run).await.unwrap().is_some();
            whole &= self.store.records(&run.task).await.unwrap().contains_key(&epoch);
            for stream in [Stream::Text, Stream::Records] {
                let log = self.store.find(&Log { run: run.clone(), stream }).await.unwrap();
                whole &= log.is_some_and(|log| log.is_complete());
            }
            whole
        })
    }

    /// Waits until the log has so many lines.
    fn until(&self, lines: usize) -> String {
        let started = Instant::now();
        loop {
            let text = self.log();
            if printed(&text).len() >= lines {
                return text;
            }
            assert!(started.elapsed() < LIMIT, "the log has {} lines", text.lines().count());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn logs_outlive_their_pods_and_go_with_their_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let it = Printing::start(dir.path());
    it.apply();
    let token = it.token();
    // One is stopped in the middle of its work.
    it.kept("slow").until(20);
    it.command(&["stop", "slow"]);
    it.until("slow", ".status.reason", "UserStopped");
    it.until("many", ".status.phase", "Completed");
    let mut logs = Vec::new();
    for task in ["many", "slow"] {
        assert_eq!(it.field(task, ".status.logs.complete"), "true", "{task}");
        for milestone in ["WorkspaceReady", "Prepared", "LogsCaptured"] {
            assert_eq!(it.condition(task, milestone), "True", "{milestone} of {task}");
        }
        let log = it.up.kubectl(&["logs", &format!("{task}-pod"), "-c", "agent"]);
        assert_eq!(it.field(task, ".status.logs.lines"), log.lines().count().to_string());
        let numbers = printed(&log);
        assert!(numbers.len() >= 20 && in_order(&numbers), "{log}");
        logs.push(log);
    }
    assert_eq!(printed(&logs[0]).len(), 10_000);
    it.up.kubectl(&["delete", "pods", "--all"]);
    for (task, log) in ["many", "slow"].into_iter().zip(&logs) {
        let (head, text) = it.rest(&token, &format!("{task}/logs?format=text"));
        assert!(text == *log, "{task}: {} bytes instead of {}", text.len(), log.len());
        assert!(head.to_lowercase().contains("x-kubeopencode-log-complete: true"), "{head}");
        assert!(it.command(&["logs", task]) == *log, "{task}");
        assert!(it.command(&["logs", "-f", task]) == *log, "{task}");
    }
    assert_eq!(it.command(&["logs", "many", "--tail", "2"]).lines().count(), 2);
    assert_eq!(it.rest(&token, "many/logs?format=text&tail=3").1.lines().count(), 3);

    // A stream goes on where it broke off.
    let all = it.stream(&token, "many/logs");
    let lines: Vec<_> = all.iter().filter(|(_, message)| message["type"] == "log").collect();
    assert_eq!(lines.len(), logs[0].lines().count());
    let (last, message) = all.last().unwrap();
    assert!(last.is_empty() && message["type"] == "complete" && message["complete"].is_null(), "{message}");
    let (id, _) = lines[lines.len() - 101];
    let rest = it.stream(&token, &format!("many/logs?lastEventId={}", id.replace('+', "%2B")));
    let rest: Vec<_> = rest.iter().filter(|(_, message)| message["type"] == "log").collect();
    assert!(rest == lines[lines.len() - 100..], "{} lines after {id}", rest.len());

    // Each run has its own.
    it.up.kubectl(&["annotate", "task", "many", "kubeopencode.io/rerun=again"]);
    it.until("many", ".status.runEpoch", "2");
    it.until("many", ".status.phase", "Completed");
    assert!(it.field("many", ".status.logs.ref").ends_with("/k8s-2.log"));
    assert!(it.command(&["logs", "many", "--run", "1"]) == logs[0]);
    // Text is found in the whole log of each run.
    let found = it.command(&["logs", "many", "--run", "1", "--grep", "LINE 999"]);
    assert_eq!(
        printed(&found),
        ["999", "9990", "9991", "9992", "9993", "9994", "9995", "9996", "9997", "9998", "9999"]
    );
    assert_eq!(it.command(&["logs", "many", "--grep", "LINE 999", "--match-case"]), "");
    let (_, found) = it.rest(&token, "many/logs/search?q=line%2010000");
    let found: Value = serde_json::from_str(&found).unwrap();
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["epoch"].as_i64().unwrap()).collect::<Vec<_>>(), [2, 1], "{found}");
    for (run, log) in runs.iter().zip([it.command(&["logs", "many"]), logs[0].clone()]) {
        let line = log.lines().position(|line| line.contains("line 10000")).unwrap() + 1;
        assert_eq!((&run["matchCount"], &run["matches"][0]["line"]), (&1.into(), &line.into()), "{found}");
    }
    assert!(it.rest(&token, "many/logs?format=text&run=1").1 == logs[0]);

    let kept = it.kept("many");
    assert!(kept.is_whole(1) && kept.is_whole(2));

    // How the first run ended is still known.
    assert!(it.field("many", ".status.result.ref").ends_with("/k8s-2.run.json"));
    assert_eq!(it.condition("many", "ResultRecorded"), "True");
    let (_, runs) = it.rest(&token, "many/runs");
    let runs: Value = serde_json::from_str(&runs).unwrap();
    let run = |at: usize| (runs["runs"][at]["run"].as_i64(), runs["runs"][at]["phase"].as_str());
    assert_eq!([run(0), run(1)], [(Some(2), Some("Completed")), (Some(1), Some("Completed"))], "{runs:#}");
    let listed = it.command(&["runs", "many", "-o", "json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert!(
        listed.len() == 2 && listed[1]["podName"] == "many-pod" && listed[0]["podName"] == "many-pod-2",
        "{listed:#?}"
    );
    let table = it.command(&["runs", "many"]);
    assert!(table.lines().nth(2).unwrap().starts_with("1     Completed"), "{table}");
    it.up.kubectl(&["delete", "task", "many"]);
    let started = Instant::now();
    while kept.exists() {
        assert!(started.elapsed() < LIMIT, "the logs stay");
        thread::sleep(Duration::from_millis(20));
    }
}

const ENDLESS: &str = "
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: endless}
spec: {command: [seq, -f, 'line %.0f', '1', '60000']}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: endless}
spec: {description: print, templateRef: {name: endless}}
";

#[test]
fn of_a_log_beyond_its_limit_the_first_and_the_last_lines_are_kept_until_they_expire() {
    const LIMIT: u64 = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let it = Printing::start_with(dir.path(), &["--log-limit", "64Ki"]);
    let manifest = dir.path().join("endless.yaml");
    fs::write(&manifest, ENDLESS).unwrap();
    it.up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    it.until("endless", ".status.phase", "Completed");
    assert_eq!(
        (it.field("endless", ".status.logs.complete"), it.field("endless", ".status.logs.gaps")),
        ("true".into(), "1".into())
    );
    let kept = it.kept("endless");
    let size = || kept.size();
    // The records, of which this run has one, are a log of their own.
    assert!(size() <= LIMIT + (8 << 10), "{} bytes", size());
    let shown = it.command(&["logs", "endless"]);
    let numbers = printed(&shown);
    assert_eq!((numbers[0], numbers[numbers.len() - 1]), ("1", "60000"));
    assert_eq!(shown.lines().filter(|line| line.contains(" bytes are left out here")).count(), 1);
    let token = it.token();
    let (head, text) = it.rest(&token, "endless/logs?format=text");
    assert!(text == shown && head.to_lowercase().contains("x-kubeopencode-log-complete: false"), "{head}");
    // Text and records are the logs of two containers.
    let records = it.up.kubectl(&["logs", "endless-pod", "-c", "session"]);
    let last: Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "end", "{records}");
    assert!(!it.up.kubectl(&["logs", "endless-pod"]).contains('\u{1b}'));

    // Started again with other limits: the log expires, and the record of the run says so.
    it.up.kill();
    let it = Printing::start_with(dir.path(), &["--log-namespace-limit", "1"]);
    it.up.kubectl(&["delete", "pods", "--all"]);
    let started = Instant::now();
    while size() > 0 {
        assert!(started.elapsed() < self::LIMIT, "the log stays");
        thread::sleep(Duration::from_millis(20));
    }
    let listed: Vec<Value> = serde_json::from_str(&it.command(&["runs", "endless", "-o", "json"])).unwrap();
    assert!(listed[0]["logs"]["expiredAt"].is_string(), "{listed:#?}");
    assert_eq!(it.command(&["logs", "endless"]), "");
    let events = it.stream(&token, "endless/logs");
    let expired = events.iter().filter_map(|(_, event)| event["message"].as_str()).any(|text| text.contains("expired"));
    assert!(expired, "{events:?}");
}

#[test]
fn what_was_kept_survives_kill_minus_nine_and_what_was_not_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let it = Printing::start(dir.path());
    it.apply();
    it.kept("slow").until(20);
    let reader = it.kept("slow");
    it.up.kill();
    let kept = reader.log();
    // The machine was away for long, and the node cleaned up.
    for pod in fs::read_dir(dir.path().join("state/node/pods")).unwrap().flatten() {
        let logs = pod.path().join("logs/agent");
        if logs.exists() {
            fs::remove_dir_all(logs).unwrap();
        }
    }
    // An earlier version left the log of a Task that is gone.
    let orphan = dir.path().join("state/logs/default/a-task-that-went-meanwhile");
    fs::create_dir_all(&orphan).unwrap();
    fs::write(orphan.join("k8s-1.log"), "2026-01-01T00:00:00Z lost\n").unwrap();

    let it = Printing::start(dir.path());
    it.until("slow", ".status.phase", "Failed");
    assert_eq!(it.field("slow", ".status.logs.complete"), "false");
    assert_eq!(it.condition("slow", "LogsCaptured"), "False");
    assert_eq!(it.field("slow", ".status.logs.lines"), kept.lines().count().to_string());
    let token = it.token();
    it.up.kubectl(&["delete", "pods", "--all"]);
    let shown = it.command(&["logs", "slow"]);
    assert_eq!(shown.lines().count(), kept.lines().count());
    assert!(in_order(&printed(&shown)), "{shown}");
    let (head, text) = it.rest(&token, "slow/logs?format=text");
    assert_eq!(text, shown);
    assert!(head.to_lowercase().contains("x-kubeopencode-log-complete: false"), "{head}");
    let events = it.stream(&token, "slow/logs");
    let (_, last) = events.last().unwrap();
    assert_eq!((last["type"].as_str(), last["complete"].as_bool()), (Some("complete"), Some(false)));
    assert!(!orphan.exists(), "logs of an earlier version stay where they were");
    let orphan = Kept { task: Owner::new("default", "a-task-that-went-meanwhile").unwrap(), ..reader };
    assert!(!orphan.exists(), "logs of a Task that is gone stay");
}
