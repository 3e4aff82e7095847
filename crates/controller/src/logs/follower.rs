//! A follower copies the log of one container to the archive.

use std::{io, sync::Arc, time::Duration};

use api::kinds::task::LogStatus;
use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use store::{Archive, End, Log, Position, Positions, Selection, lines};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::Stage;
use crate::shared::metrics::Metrics;

/// Lines are collected for this long and written together.
const GATHER: Duration = Duration::from_millis(300);
/// A batch of this many bytes is written at once.
const BATCH: usize = 256 << 10;
/// The rest of a log is read within this time after its container ended. The run keeps its slot meanwhile.
const REST: Duration = Duration::from_secs(20);
/// After a Pod is gone, only data in flight is still read.
const IN_FLIGHT: Duration = Duration::from_secs(2);
/// Timeout of closing a log in the archive.
const CLOSE: Duration = Duration::from_secs(10);
/// A stream that follows an ended container is closed after this long without data.
const SILENT: Duration = Duration::from_secs(1);
/// First delay before the log is requested again; it doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// Limits of concurrent streams: while containers run, and after they ended.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    pub(super) followed: Arc<Semaphore>,
    pub(super) closing: Arc<Semaphore>,
}

/// The result of a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    complete: bool,
    lines: u64,
    /// Without the bytes that were left out.
    bytes: u64,
    gaps: u32,
}

impl Captured {
    pub(super) fn status(&self, log: &Log) -> LogStatus {
        let number = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        LogStatus {
            reference: Some(log.to_string()),
            lines: number(self.lines),
            bytes: number(self.bytes),
            complete: Some(self.complete),
            gaps: i32::try_from(self.gaps).ok().filter(|gaps| *gaps > 0),
            expired_at: None,
        }
    }
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// More lines may follow.
    Open,
    /// The log was read to its end.
    Whole,
    /// The node has deleted lines that were not read yet.
    Lost,
}

/// Why reading stopped before the end of the log.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the log cannot be read: {0}")]
    Api(#[from] kube::Error),
    #[error("the log broke off: {0}")]
    Broken(#[from] io::Error),
    #[error("the node says: {0}")]
    Words(String),
    #[error(transparent)]
    Archive(#[from] store::Error),
}

/// Copies one log of a run.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub(super) archive: Arc<dyn Archive>,
    pub(super) log: Log,
    pub(super) container: &'static str,
    /// Whether no line follows this one.
    pub(super) is_last: fn(&[u8]) -> bool,
    pub(super) pods: Api<Pod>,
    pub(super) pod: String,
    pub(super) permits: Permits,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stage: watch::Receiver<Stage>,
}

/// The archived part of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Durable {
    lines: u64,
    bytes: u64,
    last: Option<Position>,
}

/// Lines that are not archived yet.
#[derive(Debug, Default)]
struct Gathered {
    text: Vec<u8>,
    lines: u64,
    last: Option<Position>,
    since: Option<Instant>,
}

impl Follower {
    /// Copies until the end of the log, or until the log cannot be read any more.
    pub(super) async fn follow(self) -> Captured {
        let mut stage = self.stage.clone();
        let over = async {
            reaches(&mut stage, Stage::Ended).await;
            let rest = Instant::now() + REST;
            tokio::select! {
                () = sleep_until(rest) => return,
                () = reaches(&mut stage, Stage::Gone) => {}
            }
            sleep_until(rest.min(Instant::now() + IN_FLIGHT)).await;
        };
        let (mut durable, mut gaps) = (None, 0);
        let complete = tokio::select! {
            complete = self.copy(&mut durable, &mut gaps) => complete,
            () = over => false,
        };
        // After an interruption it is unknown whether the last append was stored.
        let known = durable.filter(|_| complete);
        match timeout(CLOSE, self.close(complete, known, gaps)).await {
            Ok(Ok((End { complete, lines, bytes, gaps }, left_out))) => {
                if !complete {
                    self.metrics.log_cut();
                    tracing::warn!(log = %self.log, lines, "the end of a log was not read");
                }
                Captured { complete, lines, bytes: bytes.saturating_sub(left_out), gaps }
            }
            Ok(Err(error)) => {
                tracing::warn!(log = %self.log, %error, "a log cannot be closed");
                Captured::default()
            }
            Err(_) => Captured::default(),
        }
    }

    /// Copies until the whole log is copied (`true`), or the Pod is gone.
    async fn copy(&self, durable: &mut Option<Durable>, gaps: &mut u32) -> bool {
        let mut stage = self.stage.clone();
        let mut pause = FIRST_RETRY;
        loop {
            let now = *stage.borrow_and_update();
            if now == Stage::Gone {
                // A Pod of this name would belong to another run.
                return false;
            }
            let before = bytes(*durable);
            match self.attempt(now == Stage::Ended, durable, gaps).await {
                Ok(Read::Whole) => return true,
                Ok(Read::Lost) => return false,
                Ok(Read::Open) => {}
                Err(trouble) => {
                    tracing::debug!(log = %self.log, %trouble, "a log is read again");
                    if matches!(trouble, Trouble::Archive(_)) {
                        // The archive has to be read again: the append may have succeeded.
                        *durable = None;
                    }
                }
            }
            pause = if bytes(*durable) > before { FIRST_RETRY } else { (pause * 2).min(LAST_RETRY) };
            tokio::select! {
                changed = stage.changed() => if changed.is_err() { return false },
                () = sleep(pause) => {}
            }
        }
    }

    /// Reads once, from the last archived line; of a container that has `ended`, to the end of the log.
    async fn attempt(&self, ended: bool, durable: &mut Option<Durable>, gaps: &mut u32) -> Result<Read, Trouble> {
        let mut stage = self.stage.clone();
        let known = if let Some(known) = *durable {
            known
        } else {
            if self.archive.find(&self.log).await?.is_some_and(|kept| kept.end.is_some()) {
                // Closed by a process that died before it could report that.
                return Ok(Read::Whole);
            }
            self.look().await?
        };
        let durable = durable.insert(known);
        let permits = if ended { &self.permits.closing } else { &self.permits.followed };
        let _permit = tokio::select! {
            permit = permits.acquire() => permit,
            () = reaches(&mut stage, Stage::Ended), if !ended => return Ok(Read::Open),
        };
        let params = LogParams {
            container: Some(self.container.to_owned()),
            follow: !ended,
            timestamps: true,
            since_time: durable.last.map(|last| whole_second(last.time)),
            ..LogParams::default()
        };
        // If the node does not answer until the container has ended, the log is requested again without following it.
        let opened = tokio::select! {
            opened = self.pods.log_stream(&self.pod, &params) => opened?,
            () = reaches(&mut stage, Stage::Ended), if !ended => return Ok(Read::Open),
        };
        let log = lines(opened);
        pin_mut!(log);
        let mut places = Positions::after(durable.last);
        let mut gathered = Gathered::default();
        let (mut had_gap, mut is_last) = (false, false);
        while !is_last {
            let over = *stage.borrow() >= Stage::Ended;
            let line = tokio::select! {
                line = log.next() => line,
                () = due(gathered.since) => {
                    self.keep(durable, &mut gathered).await?;
                    continue;
                }
                () = reaches(&mut stage, Stage::Ended), if !over => continue,
                () = sleep(SILENT), if over && !ended => None,
            };
            let Some(line) = line else { break };
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    self.keep(durable, &mut gathered).await?;
                    return Err(error.into());
                }
            };
            let Some(time) = line.time else {
                self.keep(durable, &mut gathered).await?;
                return Err(Trouble::Words(line.lossy_text().into_owned()));
            };
            if !line.ended && !ended {
                // The line is incomplete. It is read again when the container has ended.
                break;
            }
            let Some(place) = places.take(time) else { continue };
            if places.has_gap() && !had_gap {
                had_gap = true;
                *gaps += 1;
            }
            is_last = (self.is_last)(&line.text);
            line.write(&mut gathered.text);
            gathered.lines += 1;
            gathered.last = Some(place);
            gathered.since.get_or_insert_with(Instant::now);
            if gathered.text.len() >= BATCH {
                self.keep(durable, &mut gathered).await?;
            }
        }
        self.keep(durable, &mut gathered).await?;
        Ok(match ended {
            _ if is_last => Read::Whole,
            false => Read::Open,
            true if places.is_behind() => Read::Lost,
            true => Read::Whole,
        })
    }

    /// Archives the collected lines.
    async fn keep(&self, durable: &mut Durable, gathered: &mut Gathered) -> Result<(), Trouble> {
        let Gathered { text, lines, last, since: _ } = std::mem::take(gathered);
        if text.is_empty() {
            return Ok(());
        }
        let bytes = text.len() as u64;
        self.archive.append(&self.log, durable.bytes, text).await?;
        self.metrics.log_kept(bytes);
        *durable = Durable { lines: durable.lines + lines, bytes: durable.bytes + bytes, last };
        Ok(())
    }

    /// Reads what is archived: by a process that died, or by an append with an unknown result.
    async fn look(&self) -> Result<Durable, store::Error> {
        let kept = self.archive.find(&self.log).await?;
        // A line without a position stands for lines that were left out.
        let all = store::read(Arc::clone(&self.archive), self.log.clone(), Selection::default());
        let count = async |(lines, last), (place, _): (Option<Position>, _)| {
            Ok((lines + u64::from(place.is_some()), place.or(last)))
        };
        let counted = all.try_fold((0, None), count).await;
        let (lines, last) =
            counted.map_err(|source| store::Error::Io { what: "read", place: self.log.to_string(), source })?;
        Ok(Durable { lines, bytes: kept.map_or(0, |kept| kept.bytes), last })
    }

    /// Closes the log. Returns its end, and how many bytes of it were left out.
    async fn close(&self, complete: bool, known: Option<Durable>, gaps: u32) -> Result<(End, u64), store::Error> {
        let kept = self.archive.find(&self.log).await?;
        let left_out = kept.map_or(0, |kept| kept.left_out);
        let Durable { lines, bytes, last: _ } = match known {
            // Lines that were left out after they were counted are not kept.
            Some(known) if left_out == 0 => known,
            _ => self.look().await?,
        };
        let end = End { complete, lines, bytes, gaps: gaps + u32::from(left_out > 0) };
        // A log that was never archived is not closed.
        if !complete && kept.is_none() {
            return Ok((end, 0));
        }
        Ok((self.archive.close(&self.log, end).await?, left_out))
    }
}

/// Returns when the run has reached a stage.
async fn reaches(stage: &mut watch::Receiver<Stage>, wanted: Stage) {
    if stage.wait_for(|stage| *stage >= wanted).await.is_err() {
        // The sender is gone: this follower is about to be aborted.
        std::future::pending::<()>().await;
    }
}

fn bytes(durable: Option<Durable>) -> u64 {
    durable.map_or(0, |durable| durable.bytes)
}

async fn due(since: Option<Instant>) {
    match since {
        Some(since) => sleep_until(since + GATHER).await,
        None => std::future::pending().await,
    }
}

/// Truncated to seconds: the Kubernetes API takes no fractions, and kube would round up and skip lines.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000).try_into().unwrap_or_default())
        .unwrap_or(time)
}
