//! A journal per Pod, so that a restarted node knows what the previous one did.
//!
//! A start is on disk before the container runs: however the node ends, the next one knows that the container may have
//! run, and never runs it twice by mistake.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    net::Ipv4Addr,
    os::unix::fs::FileExt as _,
    path::Path,
};

use jiff::Timestamp;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::{
    pod::lifecycle::{Phase, RestartPolicy, Slot, State, Terminated, record_exit},
    status::PodOutcome,
};

const FILE: &str = "journal";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// The node accepted the Pod.
    Taken { namespace: String, name: String, uid: String, address: Ipv4Addr, at: Timestamp },
    /// A container is about to be started; it may run from now on.
    Start { container: String, run: u32 },
    /// The main process of the container.
    Process { container: String, run: u32, process: Process },
    /// The container exited.
    End { container: String, run: u32, ended: Terminated },
    /// The Pod finished.
    #[serde(rename = "Over")]
    Finished(PodOutcome),
}

/// A process, identified by its start time too, because process ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pid: u32,
    /// Start time in clock ticks since boot.
    since: u64,
}

impl Process {
    /// The process that has this id now.
    pub(crate) fn now(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; the start time is the 20th field after it.
        let since = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
        Some(Self { pid, since })
    }

    /// Kills the process if it still runs.
    fn kill(self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| Self::now(self.pid) == Some(self)) {
            // It may exit at this moment.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// Whether the last line may lack its end, because of a crash or a full disk. The next entry ends it first:
    /// otherwise both would be one unreadable line.
    torn: bool,
}

impl Journal {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let file = File::options().create(true).read(true).append(true).open(dir.join(FILE))?;
        let mut last = [b'\n'];
        if let Some(at) = file.metadata()?.len().checked_sub(1) {
            file.read_exact_at(&mut last, at)?;
        }
        Ok(Self { file, torn: last != [b'\n'] })
    }

    pub(crate) fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = Vec::new();
        if self.torn {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        self.torn = true;
        self.file.write_all(&line)?;
        self.torn = false;
        Ok(())
    }

    /// Writes an entry and returns when it is on disk.
    pub(crate) fn write_durably(&mut self, entry: &Entry) -> io::Result<()> {
        self.write(entry)?;
        self.file.sync_data()
    }
}

/// The content of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) uid: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) taken_at: Timestamp,
    runs: BTreeMap<String, Run>,
    pub(crate) over: Option<PodOutcome>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    number: u32,
    process: Option<Process>,
    ended: Option<Terminated>,
    before: Option<Terminated>,
}

impl History {
    /// Reads the journal in the directory of a Pod. Incomplete lines are ignored; they may end within a character.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        Self::parse(&fs::read(dir.join(FILE)).ok()?)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let lines = text.split(|byte| *byte == b'\n');
        let mut entries = lines.filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
        let mut history = entries.find_map(|entry| match entry {
            Entry::Taken { uid, address, at, .. } => {
                Some(Self { uid, address, taken_at: at, runs: BTreeMap::new(), over: None })
            }
            _ => None,
        })?;
        for entry in entries {
            match entry {
                Entry::Start { container, run } => {
                    let before = history.runs.remove(&container).and_then(|run| run.ended);
                    history.runs.insert(container, Run { number: run, before, ..Run::default() });
                }
                Entry::Process { container, process, .. } => {
                    history.runs.entry(container).or_default().process = Some(process);
                }
                Entry::End { container, ended, .. } => {
                    history.runs.entry(container).or_default().ended = Some(ended);
                }
                Entry::Finished(over) => history.over = Some(over),
                Entry::Taken { .. } => {}
            }
        }
        Some(history)
    }

    /// Kills processes that may still run.
    pub(crate) fn kill_leftovers(&self) {
        for process in self.runs.values().filter(|run| run.ended.is_none()).filter_map(|run| run.process) {
            process.kill();
        }
    }

    /// Restores the state of the containers. A container that was running is lost; if it must not run twice, the Pod is
    /// finished.
    pub(crate) fn recover(&self, slots: &mut [Slot], restart: RestartPolicy, now: Timestamp) -> Option<PodOutcome> {
        let mut lost_one = false;
        for slot in slots {
            let Some(run) = self.runs.get(&slot.name) else { continue };
            slot.restarts = run.number;
            slot.last = run.before.clone();
            if let Some(ended) = &run.ended {
                record_exit(slot, ended.clone());
                continue;
            }
            lost_one = true;
            if restart == RestartPolicy::Never {
                slot.state = State::Terminated(lost(now));
            } else {
                slot.last = Some(lost(now));
                slot.state = State::initial();
            }
        }
        let lost = (lost_one && restart == RestartPolicy::Never).then(|| PodOutcome {
            phase: Phase::Failed,
            reason: Some("NodeLost".to_owned()),
            message: Some("the node stopped while this Pod was running, and its processes were terminated".to_owned()),
        });
        self.over.clone().or(lost)
    }
}

fn lost(now: Timestamp) -> Terminated {
    Terminated {
        code: 137,
        signal: None,
        reason: "ContainerStatusUnknown".to_owned(),
        message: Some("the node stopped while the container was running".to_owned()),
        started_at: None,
        finished_at: now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::lifecycle::{Role, tests::ended};

    fn history(entries: &[Entry]) -> History {
        let mut text = serde_json::to_string(&taken()).unwrap();
        for entry in entries {
            text.push('\n');
            text.push_str(&serde_json::to_string(entry).unwrap());
        }
        History::parse(format!("{text}\n{{\"Start\":{{\"conta").as_bytes()).unwrap()
    }

    fn start(container: &str, run: u32) -> Entry {
        Entry::Start { container: container.into(), run }
    }

    fn end(container: &str, run: u32, code: i32) -> Entry {
        Entry::End { container: container.into(), run, ended: ended(code) }
    }

    fn taken() -> Entry {
        Entry::Taken {
            namespace: "n".into(),
            name: "p".into(),
            uid: "u".into(),
            address: Ipv4Addr::LOCALHOST,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_entry_after_a_torn_line_is_read() {
        let mut told = ended(1);
        told.message = Some("é".repeat(40));
        let torn = serde_json::to_vec(&Entry::End { container: "main".into(), run: 0, ended: told }).unwrap();
        // Wherever the line is torn, also within a character, and also if only its end is missing.
        for length in (1..torn.len()).step_by(3).chain([torn.len()]) {
            let dir = tempfile::tempdir().unwrap();
            let mut journal = Journal::open(dir.path()).unwrap();
            journal.write(&taken()).unwrap();
            journal.write(&start("main", 0)).unwrap();
            journal.file.write_all(&torn[..length]).unwrap();
            let before = History::read(dir.path()).unwrap();
            let mut journal = Journal::open(dir.path()).unwrap();
            journal.write(&start("main", 1)).unwrap();
            let history = History::read(dir.path()).unwrap();
            assert_eq!(history.runs["main"].number, 1, "torn after {length} bytes");
            // What a node knew is not forgotten by the next one.
            assert_eq!(history.runs["main"].before, before.runs["main"].ended, "torn after {length} bytes");
        }
    }

    #[test]
    fn an_entry_after_a_failed_write_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        journal.write(&taken()).unwrap();
        // As a full disk leaves it: a part of the line is written, and the write fails.
        let writable = std::mem::replace(&mut journal.file, File::open(dir.path().join(FILE)).unwrap());
        journal.write(&start("main", 0)).unwrap_err();
        journal.file = writable;
        journal.file.write_all(b"{\"Start\":{\"conta").unwrap();
        journal.write(&start("main", 1)).unwrap();
        assert_eq!(History::read(dir.path()).unwrap().runs["main"].number, 1);
    }

    fn slots() -> Vec<Slot> {
        vec![Slot::new("init", Role::Init), Slot::new("main", Role::Main)]
    }

    #[test]
    fn a_running_container_is_lost_if_it_must_not_run_twice() {
        let mut slots = slots();
        let over = history(&[start("init", 0), end("init", 0, 0), start("main", 0)])
            .recover(&mut slots, RestartPolicy::Never, Timestamp::UNIX_EPOCH)
            .unwrap();
        assert_eq!((over.phase, over.reason.as_deref()), (Phase::Failed, Some("NodeLost")));
        assert_eq!(slots[0].state.ended().unwrap().code, 0);
        assert_eq!(slots[1].state.ended().unwrap().code, 137);
    }

    #[test]
    fn a_running_container_restarts_if_it_may() {
        let mut slots = slots();
        let history =
            history(&[start("init", 0), end("init", 0, 0), start("main", 0), end("main", 0, 1), start("main", 1)]);
        assert_eq!(history.recover(&mut slots, RestartPolicy::Always, Timestamp::UNIX_EPOCH), None);
        assert_eq!(slots[0].state.ended().unwrap().code, 0, "what is done is not done again");
        assert_eq!((slots[1].restarts, &slots[1].state), (1, &State::initial()));
        assert_eq!(slots[1].last.as_ref().unwrap().code, 137);
    }

    #[test]
    fn a_container_that_never_started_starts_now() {
        let mut slots = slots();
        let history = history(&[start("init", 0), end("init", 0, 0)]);
        assert_eq!(history.recover(&mut slots, RestartPolicy::Never, Timestamp::UNIX_EPOCH), None);
        assert_eq!(crate::pod::lifecycle::next(&slots, RestartPolicy::Never, false).start, [1]);
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let us = Process::now(std::process::id()).unwrap();
        assert_eq!(Process::now(std::process::id()), Some(us));
        Process { since: us.since + 1, ..us }.kill();
    }
}
