//! The changes of a Task on an Agent: `attach` has no workspace, so a helper compares it next to the Agent's server.
//!
//! OpenCode's API runs commands, so `attach` calls `kubeopencode changes begin` before the prompt and
//! `kubeopencode changes end` after the session, each in a session of its own that is deleted: no model reads them.
//! Tasks on one Agent share the workspace. The helper knows which of them overlap, and says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::run::changes::Changes;
use egress::Redactor;
use opencode::{Client, Error};
use serde_json::json;

use super::{AFTER, BEFORE, Before};

/// Prefix of the directories of runs.
pub(crate) const STATE: &str = "kubeopencode-changes-";
/// Begins the line of the answer.
const ANSWER: &str = "changes ";
/// Files in the directory of a run: what was read before, and whether another run overlapped.
const BEFORE_FILE: &str = "before.json";
const SHARED_FILE: &str = "shared";
/// A run that is older left its directory behind.
const STALE: Duration = Duration::from_hours(24);
const SHARED: &str =
    "Other Tasks ran on this Agent at the same time: the listed changes may include changes of those Tasks.";

/// The workspace of an Agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub root: PathBuf,
    /// The program on the server that compares the workspace, with its first arguments.
    pub helper: Vec<String>,
}

/// A run whose workspace was read.
#[derive(Debug, Clone)]
pub struct Begun {
    id: String,
}

impl Remote {
    /// Reads the workspace before the run.
    pub async fn begin(&self, client: &Client) -> Result<Begun, String> {
        // The id of a session is unique on the server.
        let session = client.create(&json!({ "title": TITLE })).await.map_err(|error| error.to_string())?.id;
        let id: String = session.chars().filter(char::is_ascii_alphanumeric).collect();
        let answer = self.ask(client, &session, "begin", &id).await;
        let _ = client.delete(&session).await;
        answer.map(|_| Begun { id })
    }

    /// Compares the workspace after the run.
    pub async fn end(&self, client: &Client, begun: &Begun) -> Result<Changes, String> {
        let session = client.create(&json!({ "title": TITLE })).await.map_err(|error| error.to_string())?.id;
        let answer = self.ask(client, &session, "end", &begun.id).await;
        let _ = client.delete(&session).await;
        serde_json::from_str(&answer?).map_err(|error| format!("the answer cannot be read: {error}"))
    }

    async fn ask(&self, client: &Client, session: &str, step: &str, id: &str) -> Result<String, String> {
        let failed = |error: Error| error.to_string();
        let agent = client.default_agent().await.map_err(failed)?;
        let root = BASE64.encode(self.root.as_os_str().as_encoded_bytes());
        let words = self.helper.iter().map(String::as_str).chain([step, id, &root]).collect::<Vec<_>>();
        let plain = |char: char| char.is_ascii_alphanumeric() || "_-./=".contains(char);
        if let Some(word) = words.iter().find(|word| word.is_empty() || !word.chars().all(plain)) {
            return Err(format!("the program {word:?} has characters that a shell would read"));
        }
        let output = client.shell(session, &agent, &words.join(" ")).await.map_err(failed)?;
        match output.lines().find_map(|line| line.trim().strip_prefix(ANSWER)) {
            Some(answer) => Ok(answer.to_owned()),
            None => Err(output.split_whitespace().take(40).collect::<Vec<_>>().join(" ")),
        }
    }
}

const TITLE: &str = "KubeOpenCode: changes of the workspace";

/// Why the helper cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("the arguments of changes are not what attach sends")]
    Arguments,
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

/// Runs one step next to the server, and returns the line of the answer. `temporary` is a directory for the state
/// between the steps.
pub async fn run(words: &[String], temporary: &Path, redactor: &Redactor) -> Result<String, HelperError> {
    let [step, id, root] = words else { return Err(HelperError::Arguments) };
    let root = BASE64.decode(root).ok().and_then(|root| String::from_utf8(root).ok()).map(PathBuf::from);
    let root = root.filter(|root| root.is_absolute()).ok_or(HelperError::Arguments)?;
    if id.is_empty() || id.len() > 100 || !id.chars().all(|char| char.is_ascii_alphanumeric()) {
        return Err(HelperError::Arguments);
    }
    let state = temporary.join(format!("{STATE}{id}"));
    let answer = match step.as_str() {
        "begin" => {
            begin(&root, temporary, &state).await?;
            json!({})
        }
        "end" => {
            let changes = end(&state).await;
            let _ = fs::remove_dir_all(&state);
            redactor.clean_json(&serde_json::to_value(changes).unwrap_or_default())
        }
        _ => return Err(HelperError::Arguments),
    };
    Ok(format!("{ANSWER}{answer}"))
}

async fn begin(root: &Path, temporary: &Path, state: &Path) -> Result<(), HelperError> {
    let failed = |source: std::io::Error| HelperError::Io { path: state.to_owned(), source };
    claim(temporary, state).map_err(failed)?;
    let before = Before::read(root, state, BEFORE).await;
    let json = serde_json::to_vec(&before).unwrap_or_default();
    fs::write(state.join(BEFORE_FILE), json).map_err(failed)
}

/// Creates the directory of a run below `temporary`.
pub(crate) fn claim(temporary: &Path, state: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let others = others(temporary);
    fs::DirBuilder::new().mode(0o700).create(state)?;
    // Each learns of the other, whichever ends first.
    for other in &others {
        let _ = fs::write(other.join(SHARED_FILE), "");
        let _ = fs::write(state.join(SHARED_FILE), "");
    }
    Ok(())
}

/// Whether another run overlapped.
pub(crate) fn is_shared(state: &Path) -> bool {
    state.join(SHARED_FILE).exists()
}

async fn end(state: &Path) -> Changes {
    let before = fs::read(state.join(BEFORE_FILE)).ok().and_then(|json| serde_json::from_slice::<Before>(&json).ok());
    let Some(before) = before else {
        return Changes::unknown("The Agent was restarted during the run, so its workspace was not compared.");
    };
    let mut changes = before.compare(state, AFTER).await;
    if changes.compared && is_shared(state) {
        changes.notes.push(SHARED.to_owned());
    }
    changes
}

/// The directories of the other runs. Those that were left behind are removed.
fn others(temporary: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
    let of_runs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(STATE));
    let (stale, others): (Vec<_>, Vec<_>) = of_runs.map(|entry| entry.path()).partition(|path| {
        let age = fs::symlink_metadata(path).ok().and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
        age.is_some_and(|age| age > STALE)
    });
    for path in stale {
        let _ = fs::remove_dir_all(path);
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(step: &str, id: &str, root: &Path) -> Vec<String> {
        vec![step.to_owned(), id.to_owned(), BASE64.encode(root.as_os_str().as_encoded_bytes())]
    }

    async fn step(step: &str, id: &str, root: &Path, temporary: &Path) -> Changes {
        let answer = run(&words(step, id, root), temporary, &Redactor::default()).await.unwrap();
        serde_json::from_str(answer.strip_prefix(ANSWER).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn runs_that_overlap_say_so_and_others_do_not() {
        let (workspace, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, temporary) = (workspace.path(), temporary.path());
        step("begin", "a", root, temporary).await;
        step("begin", "b", root, temporary).await;
        fs::write(root.join("x"), "1\n").unwrap();
        let shared = |changes: &Changes| changes.notes.iter().any(|note| note == SHARED);
        let first = step("end", "a", root, temporary).await;
        assert!(shared(&first) && first.file_count == 1, "{first:?}");
        assert!(shared(&step("end", "b", root, temporary).await));
        step("begin", "c", root, temporary).await;
        let alone = step("end", "c", root, temporary).await;
        assert!(alone.compared && !shared(&alone) && alone.file_count == 0, "{alone:?}");
        assert_eq!(fs::read_dir(temporary).unwrap().count(), 0, "nothing is left behind");
    }

    #[tokio::test]
    async fn a_restarted_agent_and_wrong_arguments_are_no_harm() {
        let temporary = tempfile::tempdir().unwrap();
        let lost = step("end", "gone", Path::new("/w"), temporary.path()).await;
        assert!(!lost.compared && lost.notes[0].contains("restarted"), "{lost:?}");
        for bad in [
            words("begin", "../x", Path::new("/w")),
            words("now", "a", Path::new("/w")),
            words("end", "a", Path::new("w")),
        ] {
            assert!(run(&bad, temporary.path(), &Redactor::default()).await.is_err(), "{bad:?}");
        }
    }
}
