//! Runs every test of the workspace, two programs at a time: most suites wait for a cluster rather than compute, and
//! would leave the machine idle for half of the time if they ran in sequence.

use std::{
    cmp::Reverse,
    fmt::Write as _,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// Number of concurrent suites. More would compete for the memory that their clusters need.
const AT_ONCE: usize = 2;

/// Suites that need the same resource and never run concurrently.
const EXCLUSIVE: [&[&str]; 3] = [
    // Nodes use fixed names of network interfaces: one at a time on a machine.
    &["node", "node_killed"],
    // Each start of OpenCode takes five seconds of a core, and these suites start many at once.
    &["node", "real", "up"],
    // Each of these uses every core.
    &["controllers", "real"],
];

/// These suites start first, in this order, so that none of them runs alone at the end.
const LONGEST: [&str; 8] = ["controllers", "real", "api", "up", "schema", "node", "kubectl", "kubernetes"];

/// The Kubernetes of a suite runs for minutes: less frequent garbage collection saves processor time at the cost of
/// memory.
const GO_GARBAGE: (&str, &str) = ("GOGC", "400");

/// A suite that runs longer is killed.
const LIMIT: Duration = Duration::from_mins(20);

/// Number of slowest cases that are printed.
const SLOWEST: usize = 20;

/// A test program.
struct Suite {
    name: String,
    package: PathBuf,
    program: PathBuf,
}

/// The outcome of a suite.
struct Report {
    passed: bool,
    output: String,
}

/// The time that a case took.
#[derive(Debug, PartialEq)]
struct CaseTime {
    suite: String,
    case: String,
    seconds: f64,
}

/// Suites that have not started yet, and the names of those that run.
struct Schedule {
    waiting: Vec<Suite>,
    running: Vec<String>,
}

/// Results of the suites that ended.
#[derive(Default)]
struct Results {
    failed: Vec<String>,
    times: Vec<CaseTime>,
}

/// Builds and runs all tests, then prints the slowest cases.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let mut suites = build(root, &["--workspace"])?;
    // A node needs root, so cargo builds these only by name.
    suites.extend(build(root, &["--workspace", "--test", "node", "--test", "node_killed"])?);
    suites.sort_by(|a, b| a.program.cmp(&b.program));
    suites.dedup_by(|a, b| a.program == b.program);
    suites.sort_by_key(|suite| LONGEST.iter().position(|name| suite.name == *name).unwrap_or(LONGEST.len()));
    let all = suites.len();
    let Results { failed, times } = run_all(suites);
    print_slowest(times);
    ensure!(failed.is_empty(), "{} of {all} suites failed: {}", failed.len(), failed.join(", "));
    let mut examples = testenv::cargo();
    examples.args(["test", "--quiet", "--locked", "--workspace", "--doc"]).current_dir(root).stdout(Stdio::null());
    ensure!(examples.status()?.success(), "an example in the documentation failed");
    Ok(())
}

/// Runs the suites in this order, except that a suite waits for its resources.
fn run_all(suites: Vec<Suite>) -> Results {
    let schedule = Mutex::new(Schedule { waiting: suites, running: Vec::new() });
    let (suite_ended, results) = (Condvar::new(), Mutex::new(Results::default()));
    let next = || {
        let idle = |schedule: &mut Schedule| !schedule.waiting.is_empty() && schedule.startable().is_none();
        let mut schedule = suite_ended.wait_while(lock(&schedule), idle).unwrap_or_else(PoisonError::into_inner);
        let suite = schedule.startable().map(|index| schedule.waiting.remove(index))?;
        schedule.running.push(suite.name.clone());
        Some(suite)
    };
    let work = || {
        while let Some(suite) = next() {
            let report = suite.run_and_print();
            lock(&schedule).end(&suite.name);
            suite_ended.notify_all();
            let mut results = lock(&results);
            results.times.extend(case_times(&suite.name, &report.output));
            if !report.passed {
                results.failed.push(suite.name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Schedule {
    /// The first waiting suite whose resources no running suite uses.
    fn startable(&self) -> Option<usize> {
        let is_free = |suite: &Suite| !self.running.iter().any(|running| conflict(running, &suite.name));
        self.waiting.iter().position(is_free)
    }

    fn end(&mut self, name: &str) {
        if let Some(index) = self.running.iter().position(|running| running == name) {
            self.running.swap_remove(index);
        }
    }
}

/// Whether two suites use the same exclusive resource.
fn conflict(one: &str, other: &str) -> bool {
    EXCLUSIVE.iter().any(|users| users.contains(&one) && users.contains(&other))
}

impl Suite {
    /// Runs the suite and prints its outcome, with its whole output if it failed.
    fn run_and_print(&self) -> Report {
        let start = Instant::now();
        let report = self.run().unwrap_or_else(|error| Report { passed: false, output: format!("{error:#}") });
        let seconds = start.elapsed().as_secs();
        if report.passed {
            eprintln!("    {:<32} {seconds:>4} s  {}", self.name, counts(&report.output));
        } else {
            eprintln!("{}\n    {:<32} {seconds:>4} s  FAILED", report.output, self.name);
        }
        report
    }

    fn run(&self) -> anyhow::Result<Report> {
        let mut output = tempfile::tempfile()?;
        let mut child = Command::new(&self.program)
            // libtest prints times only where unstable features are allowed, which it checks at its start.
            .args(["-Z", "unstable-options", "--report-time"])
            .envs([("RUSTC_BOOTSTRAP", "1"), GO_GARBAGE])
            .current_dir(&self.package)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let deadline = Instant::now() + LIMIT;
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
            write!(text, "\nkilled after {LIMIT:?}\n")?;
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

/// Prints the slowest cases. Tests of one process run concurrently, so their times do not add up to that of the suite.
fn print_slowest(mut times: Vec<CaseTime>) {
    times.sort_by_key(|time| Reverse(Duration::from_secs_f64(time.seconds)));
    eprintln!("    slowest {SLOWEST} of {} cases", times.len());
    for CaseTime { suite, case, seconds } in times.iter().take(SLOWEST) {
        eprintln!("    {seconds:>7.1} s  {suite} {case}");
    }
}

/// The times in the output of a suite: `test NAME ... ok <1.234s>` by libtest, `time NAME <1.234s>` by
/// [`testenv::runner`].
fn case_times(suite: &str, output: &str) -> Vec<CaseTime> {
    let case_time = |line: &str| {
        let (what, rest) = line.split_once(' ')?;
        let (rest, seconds) = rest.strip_suffix("s>")?.rsplit_once(" <")?;
        let case = match what {
            "test" => rest.split_once(" ... ")?.0,
            "time" => rest,
            _ => return None,
        };
        Some(CaseTime { suite: suite.to_owned(), case: case.to_owned(), seconds: seconds.parse().ok()? })
    };
    output.lines().filter_map(case_time).collect()
}

/// The counts in the output of a suite that passed: `83 passed`, and ignored cases if there are any.
fn counts(output: &str) -> String {
    let Some(result) = output.lines().rev().find_map(|line| line.strip_prefix("test result: ok. ")) else {
        return String::new();
    };
    let counted =
        |count: &&str| !count.starts_with("0 ") && (count.ends_with(" passed") || count.ends_with(" ignored"));
    result.split("; ").filter(counted).collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_runners_are_read() {
        let output = "running 2 tests\ntest a::b ... ok <1.500s>\ntest c ... ignored\ntest d ... FAILED <0.020s>\n\
                      test e ... ok\ntime real::f <61.000s>\ntest result: ok. 3 passed; finished in 2.00s\n";
        let times: Vec<_> = case_times("s", output).into_iter().map(|time| (time.case, time.seconds)).collect();
        assert_eq!(times, [("a::b".to_owned(), 1.5), ("d".to_owned(), 0.02), ("real::f".to_owned(), 61.0)]);
    }

    #[test]
    fn suites_with_the_same_resource_run_one_after_another() {
        let suite = |name: &str| Suite { name: name.to_owned(), package: PathBuf::new(), program: PathBuf::new() };
        let waiting = ["node", "real", "schema"].map(suite).into();
        let mut schedule = Schedule { waiting, running: vec!["up".to_owned()] };
        assert_eq!(schedule.startable(), Some(2));
        schedule.end("up");
        assert_eq!(schedule.startable(), Some(0));
    }
}
