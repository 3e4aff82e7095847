//! Background work off the reconcile path. On shutdown what is left is flushed, within a time limit.

use std::{future::Future, time::Duration};

use tokio::{sync::watch, task::JoinHandle};

/// How long all that is left may take when the process ends.
const LIMIT: Duration = Duration::from_secs(2);

/// A background task that is flushed on shutdown.
pub struct Background {
    what: &'static str,
    ending: watch::Sender<bool>,
    work: JoinHandle<()>,
}

impl Background {
    /// Starts it. On the signal it takes no new work, flushes what is left, and returns.
    pub fn start<F>(what: &'static str, work: impl FnOnce(watch::Receiver<bool>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (ending, is_ending) = watch::channel(false);
        Self { what, ending, work: tokio::spawn(work(is_ending)) }
    }

    /// Returns when what is left is done, or took too long.
    pub async fn drain(self) {
        self.ending.send_replace(true);
        let stop = self.work.abort_handle();
        if tokio::time::timeout(LIMIT, self.work).await.is_err() {
            stop.abort();
            tracing::warn!(what = self.what, "shutdown flush timed out");
        }
    }
}

/// Returns when it is time to end.
pub async fn ended(ending: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Waits for `pause`, or until it is time to end.
pub async fn unless_ended(ending: &mut watch::Receiver<bool>, pause: impl Future<Output = ()>) {
    tokio::select! {
        () = pause => {}
        () = ended(ending) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_done_without_pauses_before_the_end() {
        let (sender, mut queue) = mpsc::channel(10);
        let (done, mut all) = mpsc::channel(10);
        for number in 0..5 {
            sender.send(number).await.unwrap();
        }
        let background = Background::start("numbers", |mut ending| async move {
            while let Ok(number) = queue.try_recv() {
                unless_ended(&mut ending, tokio::time::sleep(Duration::from_hours(1))).await;
                done.send(number).await.unwrap();
            }
        });
        background.drain().await;
        let mut seen = Vec::new();
        all.recv_many(&mut seen, 10).await;
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_left() {
        let background = Background::start("nothing", |_| std::future::pending());
        let begun = tokio::time::Instant::now();
        background.drain().await;
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }
}
