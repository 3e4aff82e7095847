//! Runs on an Agent: what the workspace was before each, and which of them overlap.
//!
//! The directory of a run is in a volume that the agent does not have. It is gone when the Agent's Pod is replaced, and
//! then the run is not known any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::contract::companion::{Begin, Compared, is_task_name};
use domain::contract::paths;

use super::refused::{Answer, Refused};
use crate::changes::agent::{self as overlapping, STATE};
use crate::changes::{AFTER, BEFORE, Before};

/// The name of the Task, what was read before the run, and what became of it.
const TASK_FILE: &str = "task";
const BEFORE_FILE: &str = "before.json";
const COMPARED_FILE: &str = "compared.json";
const PATCH_FILE: &str = "changes.patch";
const RESTARTED: &str = "The Agent was restarted during the run.";
const SHARED: &str =
    "Other Tasks ran on this Agent at the same time: what is kept may include files and changes of theirs.";

const ONLY_EDITED: &str = "Other Tasks ran on this Agent at the same time: the patch contains only the files that tools of this \
                           Task's session edited, and not those that its commands changed.";

/// A run, as the path of a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub task: String,
    uid: String,
    epoch: u64,
}

impl Run {
    pub fn parse(task: &str, uid: &str, epoch: &str) -> Answer<Self> {
        let plain = |char: char| char.is_ascii_alphanumeric() || char == '-';
        let epoch = epoch.parse().ok().filter(|epoch| *epoch > 0);
        match epoch {
            Some(epoch) if is_task_name(task) && !uid.is_empty() && uid.len() <= 100 && uid.chars().all(plain) => {
                Ok(Self { task: task.to_owned(), uid: uid.to_owned(), epoch })
            }
            _ => Err(Refused::malformed("the path names no run of a Task")),
        }
    }

    /// Directory of the Task below the workspace.
    pub fn directory(&self) -> PathBuf {
        Path::new(paths::DELIVERIES).join(&self.task)
    }

    fn prefix(&self) -> String {
        format!("{STATE}{}.", self.uid)
    }

    fn state(&self, state: &Path) -> PathBuf {
        state.join(format!("{}{}", self.prefix(), self.epoch))
    }

    /// The runs of the same Task that are known.
    fn known(&self, state: &Path) -> Vec<u64> {
        let entries = fs::read_dir(state).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix(&self.prefix())?.parse().ok()).collect()
    }

    /// Refuses a run that is older than one that is known.
    pub fn admit(&self, state: &Path) -> Answer<()> {
        match self.known(state).into_iter().max().filter(|newest| *newest > self.epoch) {
            Some(newest) => Err(Refused::conflict(format!(
                "run {} of Task '{}' is over: run {newest} has begun",
                self.epoch, self.task
            ))),
            None => Ok(()),
        }
    }

    /// Reads the workspace before the run. A run that begins again, because its container was started again, begins with
    /// the workspace of now: its agent has not started.
    pub async fn begin(&self, state: &Path, workspace: &Path, begin: Begin) -> io::Result<()> {
        fs::create_dir_all(state)?;
        for epoch in self.known(state).into_iter().filter(|epoch| *epoch <= self.epoch) {
            remove(&Self { epoch, ..self.clone() }.state(state))?;
        }
        let own = self.state(state);
        overlapping::claim(state, &own)?;
        fs::write(own.join(TASK_FILE), &self.task)?;
        if begin.changes {
            let before = Before::read(workspace, &own, BEFORE).await;
            fs::write(own.join(BEFORE_FILE), serde_json::to_vec(&before).map_err(io::Error::other)?)?;
        }
        Ok(())
    }

    /// Sentences about what the files of the workspace are.
    pub fn notes(&self, state: &Path) -> Vec<String> {
        let own = self.state(state);
        let sentence = match (own.is_dir(), overlapping::is_shared(&own)) {
            (false, _) => Some(RESTARTED),
            (true, true) => Some(SHARED),
            (true, false) => None,
        };
        sentence.map(str::to_owned).into_iter().collect()
    }

    /// Compares the workspace, once. Returns the file with the patch, if there is one. If another run overlapped, the
    /// patch is that of the files in `edited`, unless they are not known.
    pub async fn compare(&self, state: &Path, edited: Option<&[String]>) -> io::Result<(Compared, Option<PathBuf>)> {
        let own = self.state(state);
        let patch = own.join(PATCH_FILE);
        let known = fs::read(own.join(COMPARED_FILE)).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let compared = match (known, fs::read(own.join(BEFORE_FILE))) {
            (Some(compared), _) => compared,
            (None, Err(_)) => {
                let note = format!("{RESTARTED} The patch of the whole change is not kept.");
                return Ok((Compared { notes: vec![note] }, None));
            }
            (None, Ok(json)) => {
                let before: Before = serde_json::from_slice(&json).map_err(io::Error::other)?;
                let edited = edited.filter(|_| overlapping::is_shared(&own));
                let mut notes = before.compare_some_into(&own, AFTER, &patch, edited).await.notes;
                match edited {
                    Some(_) => notes.push(ONLY_EDITED.to_owned()),
                    None if patch.exists() => notes.extend(self.notes(state)),
                    None => {}
                }
                let compared = Compared { notes };
                fs::write(own.join(COMPARED_FILE), serde_json::to_vec(&compared).map_err(io::Error::other)?)?;
                compared
            }
        };
        Ok((compared, Some(patch).filter(|patch| patch.exists())))
    }

    /// Forgets the run.
    pub fn end(&self, state: &Path) -> io::Result<()> {
        remove(&self.state(state))
    }
}

/// The directories of all known runs, with the names of their Tasks.
fn all(state: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let of_runs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(STATE));
    of_runs.filter_map(|entry| Some((entry.path(), fs::read_to_string(entry.path().join(TASK_FILE)).ok()?))).collect()
}

/// Names of the Tasks with known runs.
pub fn tasks(state: &Path) -> Vec<String> {
    all(state).into_iter().map(|(_, task)| task).collect()
}

/// Forgets every run of a Task, whose Pod may have ended before it could say so.
pub fn forget(state: &Path, task: &str) -> io::Result<()> {
    all(state).into_iter().filter(|(_, of)| of == task).try_for_each(|(directory, _)| remove(&directory))
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(epoch: u64) -> Run {
        Run::parse("fix", "u-1", &epoch.to_string()).unwrap()
    }

    #[test]
    fn only_runs_of_tasks_have_a_directory() {
        assert_eq!(run(2).directory(), Path::new(".kubeopencode/tasks/fix"));
        for (task, uid, epoch) in
            [("..", "u", "1"), ("a", "../u", "1"), ("a", "", "1"), ("a", "u.2", "1"), ("a", "u", "0")]
        {
            assert!(Run::parse(task, uid, epoch).is_err(), "{task} {uid} {epoch}");
        }
    }

    #[tokio::test]
    async fn an_older_run_is_over_once_a_newer_one_has_begun() {
        let (state, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (state, workspace) = (state.path(), workspace.path());
        run(1).begin(state, workspace, Begin::default()).await.unwrap();
        run(1).begin(state, workspace, Begin::default()).await.unwrap();
        assert!(run(2).admit(state).is_ok());
        run(2).begin(state, workspace, Begin::default()).await.unwrap();
        assert!(run(1).admit(state).is_err());
        assert_eq!(run(2).notes(state), [""; 0], "runs of one Task do not overlap");
        let other = Run::parse("other", "u-2", "1").unwrap();
        other.begin(state, workspace, Begin::default()).await.unwrap();
        assert_eq!(run(2).notes(state), [SHARED]);
        run(2).end(state).unwrap();
        assert_eq!(run(2).notes(state), [RESTARTED]);
        assert_eq!(other.notes(state), [SHARED], "also after the end of the first");
        assert_eq!(tasks(state), ["other"]);
        forget(state, "fix").unwrap();
        assert_eq!(tasks(state), ["other"]);
        forget(state, "other").unwrap();
        assert_eq!(tasks(state), [""; 0]);
    }

    #[tokio::test]
    async fn of_runs_that_overlap_each_has_the_files_that_its_session_edited() {
        let (state, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (state, workspace) = (state.path(), workspace.path());
        for repository in [".", "lib"] {
            let path = workspace.join(repository);
            fs::create_dir_all(&path).unwrap();
            let done = std::process::Command::new("git").arg("-C").arg(path).args(["init", "-q"]).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
        let begin = Begin { changes: true, outputs: false };
        let other = Run::parse("other", "u-2", "1").unwrap();
        run(1).begin(state, workspace, begin).await.unwrap();
        other.begin(state, workspace, begin).await.unwrap();
        for name in ["mine", "theirs", "lib/mine", "lib/theirs"] {
            fs::write(workspace.join(name), format!("{name}\n")).unwrap();
        }
        let absolute = |name: &str| workspace.canonicalize().unwrap().join(name).display().to_string();
        let check = async |run: &Run, edited: &[String], expected: &[&str]| {
            let (compared, patch) = run.compare(state, Some(edited)).await.unwrap();
            let patch = patch.map(|patch| fs::read_to_string(patch).unwrap()).unwrap_or_default();
            let added: Vec<&str> = patch.lines().filter_map(|line| line.strip_prefix("+++ b/")).collect();
            assert_eq!(added, expected, "{patch}");
            assert!(compared.notes.iter().any(|note| note == ONLY_EDITED), "{compared:?}");
        };
        let mine = ["mine".to_owned(), absolute("lib/mine"), "/etc/passwd".to_owned(), "../x".to_owned()];
        check(&run(1), &mine, &["mine", "lib/mine"]).await;
        check(&other, &[], &[]).await;
    }

    #[tokio::test]
    async fn the_change_between_begin_and_end_is_the_patch() {
        let (state, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (state, workspace) = (state.path(), workspace.path());
        let git = |words: &[&str]| {
            let done = std::process::Command::new("git").arg("-C").arg(workspace).args(words).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "-q"]);
        fs::write(workspace.join("a"), "before\n").unwrap();
        run(1).begin(state, workspace, Begin { changes: true, outputs: false }).await.unwrap();
        fs::write(workspace.join("a"), "after\n").unwrap();
        let (compared, patch) = run(1).compare(state, None).await.unwrap();
        let patch = fs::read_to_string(patch.unwrap()).unwrap();
        assert!(patch.contains("-before\n+after\n"), "{patch}");
        fs::write(workspace.join("a"), "later\n").unwrap();
        assert_eq!(run(1).compare(state, None).await.unwrap().0, compared);
        run(1).end(state).unwrap();
        let (lost, none) = run(1).compare(state, None).await.unwrap();
        assert!(none.is_none() && lost.notes[0].contains("restarted"), "{lost:?}");
    }
}
