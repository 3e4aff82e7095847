//! What the controller does with the store while Pods come and go: it follows logs, and records how runs ended.
//!
//! A process of its own that is killed and started again. What the store acknowledged it notes in a file, and the next one
//! checks that the store still has it.

use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use store::{Archive as _, End, Error, Owner, Run, Store};

use crate::process::Kept;

/// Names the store and the directory of the runs of such a process.
pub const PLACE: &str = "KUBEOPENCODE_TEST_CONTROLLER";
/// Lines of one append.
const BATCH: u64 = 40;
/// Bytes of a line.
const LINE: u64 = 100;
/// Small segments, so that lines move to blobs all the time.
const LOG_LIMIT: u64 = 1 << 20;
const PAUSE: Duration = Duration::from_millis(20);

/// The uid of the run's Task, the number of its lines, and how it ended once its Pod is over.
pub const UID: &str = "uid";
pub const LINES: &str = "lines";
pub const OVER: &str = "over";
/// What the store acknowledged: bytes of the log, and the record.
pub const APPENDED: &str = "appended";
pub const RECORDED: &str = "recorded";
/// What the store acknowledged and does not have any more, as a sentence.
pub const LOST: &str = "lost";

pub fn start(dir: &Path, records: &str, blobs: &str) -> Kept {
    let place = format!("{records} {blobs} {}", dir.join("runs").display());
    Kept::start(&dir.join("controller.log"), move || {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(PLACE, &place);
        command
    })
}

/// The text of the lines of a log.
pub fn lines(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let line = |number: u64| {
        let time = time + SignedDuration::from_millis(number.cast_signed());
        format!("{:<99}\n", format!("{time} line {number}")).into_bytes()
    };
    numbers.flat_map(line).collect()
}

/// The process. It ends only if the store cannot be opened, and is started again then.
pub fn run(place: &str) -> ExitCode {
    let words: Vec<&str> = place.split(' ').collect();
    let [records, blobs, runs] = words[..] else { return ExitCode::FAILURE };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = match Store::open(records, blobs).await {
            Ok(store) => store.with_log_limit(LOG_LIMIT),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        let mut known = BTreeSet::new();
        loop {
            for entry in fs::read_dir(runs).unwrap().flatten() {
                let dir = entry.path();
                if dir.join(UID).exists() && known.insert(dir.clone()) {
                    let store = store.clone();
                    tokio::spawn(async move { Controlled { store, dir }.run().await });
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

struct Controlled {
    store: Store,
    dir: PathBuf,
}

impl Controlled {
    /// Repeats until everything is recorded: the back ends come and go.
    async fn run(self) {
        while let Err(error) = self.attempt().await {
            eprintln!("{}: {error}", self.dir.display());
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&self) -> Result<(), Error> {
        let run = Run { task: Owner::new("default", &self.read(UID).unwrap()).unwrap(), epoch: 1 };
        let log = run.log();
        let found = self.store.find(&log).await?;
        let mut at = found.map_or(0, |found| found.bytes);
        let acknowledged = self.read(APPENDED).map_or(0, |text| text.parse().unwrap());
        if at < acknowledged {
            self.write(LOST, &format!("{at} of {acknowledged} bytes of the log"));
        }
        let all = self.read(LINES).unwrap().parse::<u64>().unwrap() * LINE;
        while at < all && found.is_none_or(|found| found.end.is_none()) {
            let first = at / LINE;
            let batch = lines(first..(first + BATCH).min(all / LINE));
            let added = batch.len() as u64;
            self.store.append(&log, at, batch).await?;
            at += added;
            self.write(APPENDED, &at.to_string());
        }
        let outcome = loop {
            match self.read(OVER) {
                Some(outcome) => break outcome,
                None => tokio::time::sleep(PAUSE).await,
            }
        };
        self.store.close(&log, End { complete: true, lines: all / LINE, bytes: all, gaps: 0 }).await?;
        // Each process would write another one: the first counts.
        let record = json!({ "phase": outcome, "by": std::process::id() }).to_string();
        let recorded = self.store.record(&run, record.into_bytes()).await?;
        let recorded = String::from_utf8_lossy(&recorded).into_owned();
        match self.read(RECORDED) {
            Some(before) if before != recorded => self.write(LOST, &format!("the record {before}")),
            _ => self.write(RECORDED, &recorded),
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Option<String> {
        match fs::read_to_string(self.dir.join(name)) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    /// Whole or not at all.
    fn write(&self, name: &str, text: &str) {
        let draft = self.dir.join(format!("{name}.draft"));
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.dir.join(name)).unwrap();
    }
}
