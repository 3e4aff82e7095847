//! Test runner for suites whose cases mostly wait for an API server.
//!
//! libtest runs as many cases at once as there are cores, which leaves the machine idle while cases wait. Here the
//! suite chooses the number, and all cases share one tokio runtime. The command line and the output are libtest's, by
//! `libtest-mimic`; `--report-time`, which libtest has on nightly only, prints the time of every case at the end.

use std::{
    io::Write as _,
    panic,
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Handle};

/// A case that takes longer than this fails.
const LIMIT: Duration = Duration::from_mins(4);

/// A running case.
pub type CaseFuture = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// The full path of a case and the function that starts it.
pub type Case = (&'static str, fn() -> CaseFuture);

/// A case with a name made at run time, such as `embedded::queue::…`. It starts when it is first polled.
pub type Ready = (String, CaseFuture);

/// Name and time of every case that ended.
type Times = Arc<Mutex<Vec<(String, Duration)>>>;

/// Lists async functions as a `&[Case]`.
#[macro_export]
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$((concat!(module_path!(), "::", stringify!($case)), || Box::pin($case()))),*]
    };
}

/// Runs the cases that the arguments of the process select, at most `at_once` at a time, in this order.
pub fn run(cases: Vec<Case>, at_once: usize) -> ExitCode {
    run_ready(cases.into_iter().map(|(name, case)| (name.to_owned(), case())).collect(), at_once)
}

/// As [`run`], for cases with names made at run time.
pub fn run_ready(cases: Vec<Ready>, at_once: usize) -> ExitCode {
    run_within(cases, at_once, LIMIT)
}

/// As [`run_ready`], with another limit for each case.
pub fn run_within(cases: Vec<Ready>, at_once: usize, limit: Duration) -> ExitCode {
    let (times_flags, others): (Vec<_>, Vec<_>) = std::env::args().partition(|arg| arg == "--report-time");
    let mut arguments = Arguments::from_iter(others);
    arguments.test_threads.get_or_insert(at_once);
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            write(&format!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let times = Times::default();
    let trials = cases.into_iter().map(|case| trial(case, runtime.handle(), &times, limit)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !times_flags.is_empty() {
        for (name, time) in times.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            write(&format!("time {name} <{:.3}s>", time.as_secs_f64()));
        }
    }
    conclusion.exit_code()
}

/// A case as libtest-mimic runs it: on a thread that waits for the runtime.
fn trial((name, case): Ready, runtime: &Handle, times: &Times, limit: Duration) -> Trial {
    let (runtime, times, case_name) = (runtime.clone(), Arc::clone(times), name.clone());
    Trial::test(name, move || {
        let started = Instant::now();
        let outcome = runtime.block_on(run_limited(case, limit));
        times.lock().unwrap_or_else(PoisonError::into_inner).push((case_name, started.elapsed()));
        outcome
    })
}

async fn run_limited(case: CaseFuture, limit: Duration) -> Result<(), Failed> {
    // A task of its own, so that the workers of the runtime poll the case and not the waiting thread.
    let mut task = tokio::spawn(case);
    match tokio::time::timeout(limit, &mut task).await {
        Ok(Ok(outcome)) => outcome.map_err(|error| Failed::from(format!("{error:#}"))),
        Ok(Err(ended)) if ended.is_panic() => panic::resume_unwind(ended.into_panic()),
        Ok(Err(cancelled)) => Err(Failed::from(cancelled)),
        Err(_) => {
            task.abort();
            Err(Failed::from(format!("timed out after {limit:?}")))
        }
    }
}

fn write(line: &str) {
    // A closed standard output leaves nowhere to report the error.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
