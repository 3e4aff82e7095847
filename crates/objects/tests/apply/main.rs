//! Server-side apply, patches and tables, compared with a real API server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where the two servers differ")]
#![allow(clippy::similar_names, clippy::format_collect, clippy::struct_field_names, reason = "harmless in a test")]

mod dice;
mod kinds;
mod real;
mod selectors;
mod sequence;
mod tables;

use real::Real;
use sequence::{Sequence, Tally};

/// With the kinds taken in turn, this many objects are written to.
const SEQUENCES: u64 = 600;

/// How often each.
const WRITES: usize = 10;

/// Sequences that run side by side.
const LANES: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_writes_have_the_same_effect_here_and_on_a_real_api_server() {
    let real = Real::start().await;
    let lane = |lane: u64| {
        let real = real.clone();
        tokio::spawn(async move {
            let kinds = kinds::all();
            let mut tally = Tally::new();
            for seed in (lane..SEQUENCES).step_by(usize::try_from(LANES).unwrap()) {
                let kind = &kinds[usize::try_from(seed).unwrap() % kinds.len()];
                let mut sequence = Sequence::new(&real, kind, seed);
                sequence.run(WRITES).await;
                for (what, count) in sequence.tally {
                    *tally.entry(what).or_default() += count;
                }
            }
            tally
        })
    };
    let lanes: Vec<_> = (0..LANES).map(lane).collect();
    let mut tally = Tally::new();
    for lane in lanes {
        for (what, count) in lane.await.unwrap() {
            *tally.entry(what).or_default() += count;
        }
    }
    println!("{tally:#?}");
    // A generator that only makes refused writes proves nothing.
    for kind in kinds::all() {
        let count = |what: &str| tally.get(&format!("{} {what}", kind.kind)).copied().unwrap_or_default();
        for what in ["apply", "apply conflict", "put", "merge patch"] {
            assert!(count(what) >= 10, "{} {what}: {}", kind.kind, count(what));
        }
    }
}

#[tokio::test]
async fn the_oldest_of_many_writers_are_merged_as_on_a_real_api_server() {
    let real = Real::start().await;
    for (kind, seed) in kinds::all().iter().zip(10_000..) {
        Sequence::new(&real, kind, seed).run_many(14).await;
    }
}
