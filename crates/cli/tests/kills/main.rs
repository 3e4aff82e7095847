//! Whatever keeps what runs leave is killed at random moments while runs leave it: the depot, the controller, housekeepers
//! in the middle of their work, and the back ends. At the end nothing that was acknowledged is missing, nothing was
//! published twice, and nothing is left over.
//!
//! | variable | means |
//! |---|---|
//! | `KILLS` | number of kills on each pair of back ends, with two runs for five kills; some by default |
//! | `SEED` | repeats the moments of another run, as far as the machine does |
//!
//! The controller is played by this program, because a real one needs nodes: it appends the lines of logs and writes the
//! records of runs as the real one does. `kubeopencode up`, where everything is one process, is killed in the suite `up`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it did"
)]

mod audit;
mod controller;
mod dice;
mod process;
mod runs;
mod world;

use std::{
    env,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::Context as _;
use testenv::{
    Bucket,
    runner::{self, Ready},
};
use world::BackEnds;

/// Each pair uses every core.
const AT_ONCE: usize = 1;
/// The credentials of the bucket come from the environment, as in production.
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
const SOME_KILLS: usize = 15;
/// A kill and what it costs take less than a second; a machine that builds at the same time needs longer.
const LIMIT_OF_KILL: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_mins(3);

fn main() -> ExitCode {
    if let Ok(place) = env::var(controller::PLACE) {
        return controller::run(&place);
    }
    if env::var_os(ACCESS_KEY).is_none_or(|key| key != Bucket::ACCESS_KEY) {
        let mut again = Command::new(env::current_exe().unwrap());
        again.args(env::args_os().skip(1)).env(ACCESS_KEY, Bucket::ACCESS_KEY);
        let status = again.env("AWS_SECRET_ACCESS_KEY", Bucket::SECRET_KEY).status().unwrap();
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let number = |name: &str| env::var(name).ok().map(|text| text.parse().unwrap());
    let kills = number("KILLS").map_or(SOME_KILLS, |kills| usize::try_from(kills).unwrap());
    let seed = number("SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let cases = BackEnds::ALL.map(|back_ends| -> Ready {
        let name = format!("{}::nothing_that_was_acknowledged_is_lost", back_ends.name());
        (
            name,
            Box::pin(async move {
                runs::amid_kills(back_ends, kills, seed).await.with_context(|| format!("SEED={seed} KILLS={kills}"))
            }),
        )
    });
    runner::run_within(cases.into(), AT_ONCE, LIMIT + LIMIT_OF_KILL * u32::try_from(kills).unwrap())
}
