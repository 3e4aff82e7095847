//! Runs cases that wait most of the time, several at once, and looks like `cargo test` from outside.

use std::{
    pin::Pin,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet};

/// A case that hangs is a case that fails.
const LIMIT: Duration = Duration::from_mins(3);
/// They share two cores and an API server.
const AT_ONCE: usize = 6;

/// A name and what to do.
pub type Case = (&'static str, fn() -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>);

/// Cases from names of async functions.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$((concat!(module_path!(), "::", stringify!($case)), || Box::pin($case()))),*]
    };
}
pub(crate) use cases;

/// Runs those of `cases` whose names hold one of the arguments.
pub fn run(cases: Vec<Case>) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted =
        cases.into_iter().filter(|(name, _)| parts.is_empty() || parts.iter().any(|part| name.contains(*part)));
    let wanted: Vec<Case> = wanted.collect();
    if words.iter().any(|word| word == "--list") {
        for (name, _) in &wanted {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run_all(wanted))
}

async fn run_all(cases: Vec<Case>) -> ExitCode {
    let (all, started) = (cases.len(), Instant::now());
    println!("running {all} tests");
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (name, case) in cases {
        let slot = Arc::clone(&slots).acquire_owned().await;
        running.spawn(async move {
            let _slot = slot;
            let begun = Instant::now();
            let problem = match tokio::time::timeout(LIMIT, tokio::spawn(case())).await {
                Ok(Ok(Ok(()))) => None,
                Ok(Ok(Err(error))) => Some(format!("{error:#}")),
                Ok(Err(panic)) => Some(panic.to_string()),
                Err(_) => Some(format!("it took more than {LIMIT:?}")),
            };
            let word = if problem.is_none() { "ok" } else { "FAILED" };
            println!("test {name} ... {word} ({:.1} s)", begun.elapsed().as_secs_f64());
            problem.map(|problem| (name, problem))
        });
    }
    let outcomes = running.join_all().await;
    let failed: Vec<_> = outcomes.into_iter().flatten().collect();
    for (name, problem) in &failed {
        println!("\n---- {name} ----\n{problem}");
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let took = started.elapsed().as_secs_f64();
    println!("\ntest result: {word}. {} passed; {} failed; finished in {took:.1} s", all - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
