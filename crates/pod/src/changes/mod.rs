//! The changes of a run: the workspace is compared before and after.
//!
//! Invariants: the agent's repositories are only read; no program that the agent configured is executed; time and size
//! are bounded; a workspace that cannot be compared never fails a run: a sentence says why.

pub mod agent;
pub(crate) mod find;
mod patch;
pub(crate) mod place;

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use domain::contract::report::RunReport;
use domain::run::changes::Changes;
use egress::{Git, GitError};
use serde::{Deserialize, Serialize};

use crate::run_log::{Log, Note};
use place::{Difference, Place, Problem, Scope};

/// How long the workspace may be read before a run. The run waits for it.
pub const BEFORE: Duration = Duration::from_secs(20);
/// The same after a run.
pub const AFTER: Duration = Duration::from_secs(40);
/// The same after a run that was stopped and keeps no patch: its Pod has 30 s for everything.
pub const AFTER_STOP: Duration = Duration::from_secs(3);

/// Files to which a patch is limited. Further ones are left out.
const MOST_EDITED: usize = 2_000;

const NOT_LISTED: &str = "files changed by shell commands are not listed";

/// The workspace before a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Before {
    root: PathBuf,
    places: Vec<Place>,
    /// Sentences about what cannot be compared.
    notes: Vec<String>,
}

impl Before {
    /// Reads the workspace. `state` is a directory of our own, which the second reading needs too.
    pub async fn read(root: &Path, state: &Path, limit: Duration) -> Self {
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let mut before = Self { root: root.clone(), ..Self::default() };
        let mut places = Vec::new();
        let mut notes = Vec::new();
        let reading = async {
            let git = local(limit)?;
            let repositories = find::repositories(&root);
            let scope = Scope { root: &root, repositories: &repositories };
            if !repositories.iter().any(|path| path.as_os_str().is_empty()) {
                match Place::outside(&git, scope, state.join("outside")).await {
                    Ok(place) => places.push(place),
                    Err(problem) => notes.push(incomparable(Path::new(""), &problem)),
                }
            }
            for (number, path) in repositories.iter().enumerate() {
                match Place::repository(&git, scope, path, state.join(number.to_string())).await {
                    Ok(place) => places.push(place),
                    Err(problem) => notes.push(incomparable(path, &problem)),
                }
            }
            Ok::<_, String>(())
        };
        let read = tokio::time::timeout(limit, reading).await;
        (before.places, before.notes) = (places, notes);
        match read {
            Ok(Ok(())) => {}
            Ok(Err(note)) => before.notes.push(note),
            Err(_) => before.notes.push(too_slow(limit)),
        }
        before.notes.dedup();
        before
    }

    /// Compares the workspace with how it was.
    pub async fn compare(&self, state: &Path, limit: Duration) -> Changes {
        self.compare_all(state, limit).await.0
    }

    /// The same, and writes the patch of the whole change into `patch`, if the workspace has a repository. Without a
    /// change there is no file. A patch that cannot be kept is noted.
    pub async fn compare_into(&self, state: &Path, limit: Duration, patch: &Path) -> Changes {
        self.compare_some_into(state, limit, patch, None).await
    }

    /// The same; with `only`, the patch contains only these files, whose paths are absolute or relative to the workspace.
    pub async fn compare_some_into(
        &self,
        state: &Path,
        limit: Duration,
        patch: &Path,
        only: Option<&[String]>,
    ) -> Changes {
        let start = Instant::now();
        let (mut changes, differences) = self.compare_all(state, limit).await;
        let repositories = find::repositories(&self.root);
        match local(limit) {
            Ok(git) if changes.compared && !repositories.is_empty() => {
                let scope = Scope { root: &self.root, repositories: &repositories };
                let left = limit.saturating_sub(start.elapsed());
                let only = only.map(|files| self.below(files));
                patch::write(&git, scope, &differences, only.as_deref(), patch, left, &mut changes).await;
            }
            // What the agent put there is no patch.
            _ => drop(patch::remove(patch)),
        }
        changes
    }

    /// The files below the workspace, relative to it.
    fn below(&self, files: &[String]) -> Vec<PathBuf> {
        let relative = files.iter().filter_map(|file| {
            let path = Path::new(file);
            if path.is_absolute() { path.strip_prefix(&self.root).ok() } else { Some(path) }
        });
        let plain = |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        relative.filter(plain).take(MOST_EDITED).map(Path::to_owned).collect()
    }

    async fn compare_all(&self, state: &Path, limit: Duration) -> (Changes, Vec<Difference>) {
        if self.places.is_empty() {
            return (Changes { notes: self.notes.clone(), ..Changes::default() }, Vec::new());
        }
        let mut changes = Changes { compared: true, notes: self.notes.clone(), ..Changes::default() };
        let comparing = self.compare_places(state, limit, &mut changes);
        let compared = tokio::time::timeout(limit, comparing).await;
        match compared {
            Ok(Ok(differences)) => {
                changes.notes.dedup();
                (changes, differences)
            }
            Ok(Err(note)) => (Changes::unknown(note), Vec::new()),
            // Numbers of a part would look like those of the whole.
            Err(_) => (Changes::unknown(too_slow(limit)), Vec::new()),
        }
    }

    async fn compare_places(
        &self,
        state: &Path,
        limit: Duration,
        changes: &mut Changes,
    ) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        let git = local(limit)?;
        let repositories = find::repositories(&self.root);
        let scope = Scope { root: &self.root, repositories: &repositories };
        for place in &self.places {
            if !place.own && !repositories.contains(&place.path) {
                changes.notes.push(format!("The repository {} was removed.", place.path.display()));
                continue;
            }
            match place.compare(&git, scope, changes).await {
                Ok(difference) => differences.extend(difference),
                Err(problem) => changes.notes.push(incomparable(&place.path, &problem)),
            }
        }
        // What could not be read before the run has a note already. A workspace that becomes a repository is compared
        // as the directory that it was.
        let known = |path: &PathBuf| self.places.iter().any(|place| place.path == *path);
        let new = repositories.iter().enumerate().filter(|(_, path)| !known(path) && self.notes.is_empty());
        for (number, path) in new {
            let scratch = state.join(format!("new-{number}"));
            let compared = match Place::created(&git, scope, path, scratch).await {
                Ok((place, cloned)) => {
                    if !cloned {
                        let note = format!("The repository {} was created: all its files are listed.", path.display());
                        changes.notes.push(note);
                    }
                    place.compare(&git, scope, changes).await
                }
                Err(problem) => Err(problem),
            };
            match compared {
                Ok(difference) => differences.extend(difference),
                Err(problem) => changes.notes.push(incomparable(path, &problem)),
            }
        }
        if repositories.is_empty() && changes.file_count > 0 {
            changes.notes.push("No repository in the workspace: its files were compared by content.".to_owned());
        }
        Ok(differences)
    }
}

/// Writes the changes into the log, and their numbers into the report.
pub fn conclude(changes: &Changes, report: RunReport, log: &mut Log<'_>) -> RunReport {
    for file in &changes.files {
        log.note(&Note::Change(file));
    }
    for commit in &changes.commits {
        log.note(&Note::Commit(commit));
    }
    // The log of a command without an agent, and of a run without changes, stays free of remarks.
    if changes.file_count > 0 || (!changes.compared && report.session.is_some()) {
        for note in &changes.notes {
            log.note(&Note::Info(note));
        }
    }
    // A command without an agent that changed nothing keeps a log of its own lines only.
    if report.session.is_some() || changes.file_count > 0 || changes.commit_count > 0 {
        log.note(&Note::Changes(changes));
    }
    report.with_changes(changes)
}

fn local(limit: Duration) -> Result<Git, String> {
    let process = |name: &str| -> Option<OsString> { std::env::var_os(name) };
    Git::local(limit, &process).map_err(|error| format!("The workspace was not compared: {error}."))
}

fn incomparable(path: &Path, problem: &Problem) -> String {
    if matches!(problem, Problem::Git(GitError::Start(error)) if error.kind() == std::io::ErrorKind::NotFound) {
        return format!("The image has no git: {NOT_LISTED}.");
    }
    let place = if path.as_os_str().is_empty() { "The workspace".to_owned() } else { path.display().to_string() };
    format!("{place} was not compared, because {problem}: {NOT_LISTED}.")
}

fn too_slow(limit: Duration) -> String {
    format!("The workspace was not compared within {} s: {NOT_LISTED}.", limit.as_secs())
}
