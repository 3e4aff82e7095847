//! Runs cases that wait most of the time: many at once, on one runtime, whatever the number of cores.
//!
//! `cargo test` runs as many tests at once as there are cores, which is far too few for cases that wait for an API
//! server. From outside it looks the same: arguments are parts of names, `--list` lists, `--skip` leaves out.

use std::{
    io::Write as _,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use tokio::{sync::Semaphore, task::JoinSet};

/// A case that hangs is a case that fails.
const LIMIT: Duration = Duration::from_mins(4);

/// A name and what to do.
pub type Case = (&'static str, fn() -> BoxFuture<'static, anyhow::Result<()>>);

/// A case that is ready to run. Nothing happens before it is asked to.
pub type Ready = (String, BoxFuture<'static, anyhow::Result<()>>);

/// Cases from names of async functions.
#[macro_export]
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$((concat!(module_path!(), "::", stringify!($case)), || Box::pin($case()))),*]
    };
}

/// Runs those of `cases` that the arguments of the process ask for, at most `at_once` at a time, in this order.
pub fn run(cases: Vec<Case>, at_once: usize) -> ExitCode {
    run_ready(cases.into_iter().map(|(name, case)| (name.to_owned(), case())).collect(), at_once)
}

/// The same with cases that were prepared.
pub fn run_ready(cases: Vec<Ready>, at_once: usize) -> ExitCode {
    let arguments = Arguments::read(std::env::args().skip(1));
    let wanted: Vec<Ready> = cases.into_iter().filter(|(name, _)| arguments.want(name)).collect();
    if arguments.list {
        for (name, _) in &wanted {
            say(&format!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run_all(wanted, at_once)),
        Err(error) => {
            say(&format!("no runtime: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run_all(cases: Vec<Ready>, at_once: usize) -> ExitCode {
    say(&format!("running {} tests", cases.len()));
    let started = Instant::now();
    let slots = Arc::new(Semaphore::new(at_once));
    let mut running = JoinSet::new();
    for (name, case) in cases {
        // A slot is taken before the next case is looked at, so cases start in order.
        let slot = Arc::clone(&slots).acquire_owned().await;
        running.spawn(async move {
            let _slot = slot;
            let begun = Instant::now();
            // A task of its own: a panic ends it and nothing else.
            let outcome = tokio::time::timeout(LIMIT, tokio::spawn(case)).await;
            let problem = match outcome {
                Ok(Ok(Ok(()))) => None,
                Ok(Ok(Err(error))) => Some(format!("{error:#}")),
                Ok(Err(panic)) => Some(panic.to_string()),
                Err(_) => Some(format!("it took more than {LIMIT:?}")),
            };
            let word = if problem.is_none() { "ok" } else { "FAILED" };
            say(&format!("test {name} ... {word} ({:.1} s)", begun.elapsed().as_secs_f64()));
            (name, problem)
        });
    }
    let mut failed = Vec::new();
    let mut passed = 0;
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((_, None)) => passed += 1,
            Ok((name, Some(problem))) => failed.push((name, problem)),
            Err(error) => failed.push(("a case".to_owned(), error.to_string())),
        }
    }
    for (name, problem) in &failed {
        say(&format!("\n---- {name} ----\n{problem}"));
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let took = started.elapsed().as_secs_f64();
    say(&format!("\ntest result: {word}. {passed} passed; {} failed; finished in {took:.1} s", failed.len()));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the command line asks for.
#[derive(Default)]
struct Arguments {
    list: bool,
    parts: Vec<String>,
    skipped: Vec<String>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Self {
        let mut arguments = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => arguments.list = true,
                "--skip" => arguments.skipped.extend(words.next()),
                // Of cargo test's own runner, with a value that is no name.
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(words.next()),
                other if other.starts_with('-') => {}
                _ => arguments.parts.push(word),
            }
        }
        arguments
    }

    fn want(&self, name: &str) -> bool {
        let any = |parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
        (self.parts.is_empty() || any(&self.parts)) && !any(&self.skipped)
    }
}

fn say(line: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
