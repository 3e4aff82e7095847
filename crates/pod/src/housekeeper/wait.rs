//! Waits until the agent's container is over: until its shim no longer holds its lock.

use std::fs::File;
use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::results;

/// Before the agent's container starts, its image may be pulled for minutes: a look costs next to nothing.
const POLL: Duration = Duration::from_millis(200);

/// Requests to stop this container.
pub struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    /// From now on, signals no longer end this process.
    pub fn install() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Over,
    /// It did not end within the grace period after a request to stop.
    StillRuns,
    /// The Pod was stopped before.
    NeverStarted,
}

/// Waits without a limit until `stop`, and then at most for `grace`.
pub async fn for_the_agent(lock: &Path, stop: impl Future<Output = ()>, grace: Duration) -> io::Result<Ended> {
    let mut stop = std::pin::pin!(stop);
    let file = loop {
        if let Some(file) = results::open(lock)? {
            break file;
        }
        tokio::select! {
            () = &mut stop => match results::open(lock)? {
                // The shim got the same signal, and ends its command.
                Some(file) => return ended(freed(file), grace).await,
                None => return Ok(Ended::NeverStarted),
            },
            () = tokio::time::sleep(POLL) => {}
        }
    };
    tracing::info!("waiting for the end of the agent");
    let mut freed = freed(file);
    tokio::select! {
        free = &mut freed => free.unwrap_or_else(|_| Err(io::Error::other("the thread that waits ended")))?,
        () = &mut stop => return ended(freed, grace).await,
    }
    Ok(Ended::Over)
}

async fn ended(freed: oneshot::Receiver<io::Result<()>>, grace: Duration) -> io::Result<Ended> {
    match tokio::time::timeout(grace, freed).await {
        Ok(free) => free.unwrap_or_else(|_| Err(io::Error::other("the thread that waits ended"))).map(|()| Ended::Over),
        Err(_) => Ok(Ended::StillRuns),
    }
}

/// Receives the moment at which no one holds the lock. The kernel offers no wait for it but a blocked thread, which ends
/// with this process at the latest.
fn freed(file: File) -> oneshot::Receiver<io::Result<()>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let free = loop {
            // Shared: it needs no right to write, and another housekeeper may wait too.
            match rustix::fs::flock(&file, FlockOperation::LockShared) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.map_err(Into::into),
            }
        };
        let _ = sender.send(free);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Far above the time that anything here takes.
    const LONG: Duration = Duration::from_hours(1);

    struct Case {
        _directory: tempfile::TempDir,
        lock: PathBuf,
    }

    impl Case {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let lock = directory.path().join("lock");
            Self { _directory: directory, lock }
        }

        fn held(&self) -> File {
            let pending = self.lock.with_extension("new");
            let file = File::create(&pending).unwrap();
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            std::fs::rename(pending, &self.lock).unwrap();
            file
        }
    }

    #[tokio::test]
    async fn the_agent_is_over_when_its_lock_is_free() {
        let case = Case::new();
        let waiting = {
            let lock = case.lock.clone();
            tokio::spawn(async move { for_the_agent(&lock, std::future::pending(), LONG).await })
        };
        drop(case.held());
        assert_eq!(waiting.await.unwrap().unwrap(), Ended::Over);
    }

    #[tokio::test]
    async fn a_stop_waits_for_an_agent_that_started_and_for_no_other() {
        let case = Case::new();
        assert_eq!(for_the_agent(&case.lock, async {}, LONG).await.unwrap(), Ended::NeverStarted);
        let held = case.held();
        let ended = for_the_agent(&case.lock, async {}, Duration::from_millis(1)).await.unwrap();
        assert_eq!(ended, Ended::StillRuns);
        let stop = async move { drop(held) };
        assert_eq!(for_the_agent(&case.lock, stop, LONG).await.unwrap(), Ended::Over);
    }

    #[tokio::test]
    async fn nothing_else_at_the_place_of_the_lock_is_waited_for() {
        let case = Case::new();
        std::os::unix::fs::symlink("/dev/zero", &case.lock).unwrap();
        assert!(for_the_agent(&case.lock, std::future::pending(), LONG).await.is_err());
        std::fs::remove_file(&case.lock).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &case.lock,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(for_the_agent(&case.lock, std::future::pending(), LONG).await.is_err());
    }
}
