//! Every test of the workspace, a few programs at a time: most suites wait for a cluster rather than compute, so that
//! running them one after another leaves the machine idle for half of the time.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// How long a client or a terminal waits for a real OpenCode server (`real`, `up`), or a Pod for its processes (`pods`),
/// cannot be told on a machine that is busy with something else: beside these run only the calm ones, then short ones.
const DELICATE: [&str; 3] = ["real", "up", "pods"];

/// These wait more than they compute, and there can be one node at a time.
const CALM: [&str; 2] = ["node", "node_killed"];

/// These begin first, in this order, so that none of them is still running alone at the end.
const LONGEST: [&str; 5] = ["controllers", "api", "schema", "kubectl", "kubernetes"];

/// The Kubernetes of a suite lives for minutes: its memory may grow, the processors have better to do than to tidy up.
const GO_GARBAGE: (&str, &str) = ("GOGC", "400");

/// A suite that takes longer has lost its way.
const PATIENCE: Duration = Duration::from_mins(10);

/// A program full of tests.
struct Suite {
    name: String,
    package: PathBuf,
    program: PathBuf,
}

/// How a suite ended.
struct Report {
    passed: bool,
    output: String,
}

/// Builds and runs all tests, two programs at a time.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let mut suites = build(root, &["--workspace"])?;
    // A node needs root, so cargo knows these only by name.
    suites.extend(build(root, &["--workspace", "--test", "node", "--test", "node_killed"])?);
    suites.sort_by(|a, b| a.program.cmp(&b.program));
    suites.dedup_by(|a, b| a.program == b.program);
    suites.sort_by_key(|suite| LONGEST.iter().position(|name| suite.name == *name).unwrap_or(LONGEST.len()));
    let all = suites.len();

    let named = |names: &'static [&str]| move |suite: &Suite| names.contains(&suite.name.as_str());
    let (delicate, others): (Vec<_>, Vec<_>) = suites.into_iter().partition(named(&DELICATE));
    let (calm, others): (Vec<_>, Vec<_>) = others.into_iter().partition(named(&CALM));
    let failed = run_all(delicate, calm, others);
    ensure!(failed.is_empty(), "{} of {all} suites failed: {}", failed.len(), failed.join(", "));
    let mut examples = testenv::cargo();
    examples.args(["test", "--quiet", "--locked", "--workspace", "--doc"]).current_dir(root).stdout(Stdio::null());
    ensure!(examples.status()?.success(), "an example in the documentation failed");
    Ok(())
}

/// Runs the delicate suites beside the calm ones, and whoever is done goes on with the others, of which the longest come
/// first. Answers which failed.
fn run_all(delicate: Vec<Suite>, calm: Vec<Suite>, others: Vec<Suite>) -> Vec<String> {
    let (others, failed) = (Mutex::new(VecDeque::from(others)), Mutex::new(Vec::new()));
    let is_delicate = AtomicBool::new(true);
    let run = |suite: Suite| {
        if !suite.run_and_tell() {
            lock(&failed).push(suite.name);
        }
    };
    let run_others = || {
        // As a call, so that the lock is not held while the suite runs.
        let next = || {
            let mut others = lock(&others);
            if is_delicate.load(Ordering::Relaxed) { others.pop_back() } else { others.pop_front() }
        };
        while let Some(suite) = next() {
            run(suite);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            delicate.into_iter().for_each(run);
            is_delicate.store(false, Ordering::Relaxed);
            run_others();
        });
        scope.spawn(|| {
            calm.into_iter().for_each(run);
            run_others();
        });
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Suite {
    /// Runs it and says how it ended. Answers whether it passed.
    fn run_and_tell(&self) -> bool {
        let start = Instant::now();
        let report = self.run().unwrap_or_else(|error| Report { passed: false, output: format!("{error:#}") });
        let seconds = start.elapsed().as_secs();
        if report.passed {
            eprintln!("    {:<32} {seconds:>4} s  {}", self.name, counts(&report.output));
        } else {
            eprintln!("{}\n    {:<32} {seconds:>4} s  FAILED", report.output, self.name);
        }
        report.passed
    }

    fn run(&self) -> anyhow::Result<Report> {
        let mut output = tempfile::tempfile()?;
        let mut child = Command::new(&self.program)
            .current_dir(&self.package)
            .envs([GO_GARBAGE])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let mut text = read_all(&mut output)?;
        if status.is_none() {
            text.push_str("\nkilled: it ran longer than ten minutes\n");
        }
        Ok(Report { passed: status.is_some_and(|status| status.success()), output: text })
    }
}

/// Builds the test programs that cargo selects by these arguments.
fn build(root: &Path, selection: &[&str]) -> anyhow::Result<Vec<Suite>> {
    let mut child = testenv::cargo()
        .args(["test", "--quiet", "--locked", "--no-run", "--message-format", "json-render-diagnostics"])
        .args(selection)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().context("cargo has no output")?).lines();
    let mut suites = Vec::new();
    for line in lines {
        let message: Value = serde_json::from_str(&line?)?;
        suites.extend(suite(&message));
    }
    if !child.wait()?.success() {
        bail!("the tests do not build");
    }
    Ok(suites)
}

fn suite(message: &Value) -> Option<Suite> {
    let program = PathBuf::from(message["executable"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    message["profile"]["test"].as_bool()?.then_some(())?;
    let is_suite = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "test");
    let name = message["target"]["name"].as_str()?;
    let name = if is_suite { name.to_owned() } else { format!("unit tests of {name}") };
    Some(Suite { name, package, program })
}

/// What the suite says of itself: `83 passed`, with ignored ones if there are any.
fn counts(output: &str) -> String {
    let Some(result) = output.lines().rev().find_map(|line| line.strip_prefix("test result: ok. ")) else {
        return String::new();
    };
    let told = |count: &&str| !count.starts_with("0 ") && (count.ends_with(" passed") || count.ends_with(" ignored"));
    result.split("; ").filter(told).collect::<Vec<_>>().join(", ")
}

fn read_all(file: &mut File) -> anyhow::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
