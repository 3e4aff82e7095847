//! Shared parts of the tests with real programs.

pub mod depot;
pub mod git;
pub mod helper;
pub mod opencode;
pub mod ssh;

use std::future::Future;
use std::time::{Duration, Instant};

/// Limit of a wait for something that takes at most some seconds on an idle machine.
pub const LIMIT: Duration = Duration::from_mins(1);

/// A lookup over owned pairs.
pub fn lookup(pairs: &[(&str, String)]) -> impl Fn(&str) -> Option<String> {
    let pairs: Vec<(String, String)> = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    move |name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// Waits until something is there, with a limit.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, limit: Duration, mut look: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < limit, "{what} did not happen within {limit:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
