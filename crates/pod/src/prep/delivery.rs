//! The Agent's workspace before a run: the files of the Task are delivered, and the workspace is read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::contract::companion::{Begin, Delivered};
use domain::contract::paths;
use tokio::time::Instant;

use crate::companion::client::{self, Companion, CompanionError, patiently};
use crate::env::{self, Lookup, SettingError};
use crate::place::plain_names;
use crate::text;

/// Time for a delivery, once the companion answers.
const DELIVERY: Duration = Duration::from_mins(10);

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub companion: client::Settings,
    /// Directory of the Task, here and in the Agent's workspace; `None` if it has no files.
    pub directory: Option<PathBuf>,
    /// What is asked at the end of the run; `None` if nothing is kept.
    pub begin: Option<Begin>,
    /// How long the companion may take to answer.
    pub start: Duration,
}

impl Settings {
    /// `None` for a Task that is not on an Agent's server.
    pub fn from_env(env: Lookup<'_>) -> Result<Option<Self>, SettingError> {
        let Some(companion) = client::Settings::from_env(env)? else { return Ok(None) };
        let begin: Begin = env::json(env, env::COMPANION_BEGIN, r#"{"outputs": true, "changes": true}"#)?;
        Ok(Some(Self {
            companion,
            directory: directory(env)?,
            begin: env::text(env, env::COMPANION_BEGIN).map(|_| begin),
            start: env::duration(env, env::START_TIMEOUT_SECONDS, Duration::from_mins(2))?,
        }))
    }
}

fn directory(env: Lookup<'_>) -> Result<Option<PathBuf>, SettingError> {
    let Some(path) = env::text(env, env::DELIVERY_DIR) else { return Ok(None) };
    let root = env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE);
    let below = Path::new(&path).strip_prefix(&root).ok().and_then(|below| plain_names(below).ok());
    if below.is_some_and(|names| !names.is_empty()) {
        return Ok(Some(path.into()));
    }
    Err(SettingError::Invalid {
        name: env::DELIVERY_DIR,
        problem: format!("`{path}` is not below `{}`", root.display()),
        expected: "a directory below the workspace",
    })
}

/// Why the run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the files of the Task cannot be delivered to the Agent's workspace: {0}")]
    Deliver(#[source] CompanionError),
    #[error("the Agent's workspace cannot be read before the run: {0}")]
    Begin(#[source] CompanionError),
    #[error(
        "the companion of the Agent did not answer within {}: {source}; a server that an older version started has none until the Agent is rolled out",
        text::duration(*.limit)
    )]
    NoCompanion { limit: Duration, source: CompanionError },
}

/// Delivers the files, and lets the companion read the workspace.
pub async fn run(settings: &Settings) -> Result<(), Error> {
    let companion = Companion::connect(&settings.companion).map_err(Error::Deliver)?;
    if let Some(directory) = &settings.directory {
        let deadline = Instant::now() + settings.start;
        let what = "the delivery of the files";
        let delivering = patiently(deadline, what, async || companion.deliver(directory).await);
        let Delivered { files, bytes } = tokio::time::timeout(settings.start + DELIVERY, delivering)
            .await
            .unwrap_or(Err(CompanionError::Silent(DELIVERY)))
            .map_err(|error| unreachable(settings, error, Error::Deliver))?;
        let (files, size) = (text::files(files), text::size(bytes));
        tracing::info!("{files}, {size}, are at {} in the Agent's workspace", directory.display());
    }
    if let Some(begin) = settings.begin {
        let deadline = Instant::now() + settings.start;
        let known = patiently(deadline, "the workspace before the run", async || companion.begin(begin).await);
        known.await.map_err(|error| unreachable(settings, error, Error::Begin))?;
    }
    Ok(())
}

fn unreachable(settings: &Settings, error: CompanionError, other: fn(CompanionError) -> Error) -> Error {
    match error {
        CompanionError::Transfer(_) | CompanionError::Silent(_) => {
            Error::NoCompanion { limit: settings.start, source: error }
        }
        error => other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn what_is_delivered_is_below_the_workspace() {
        let read = |path| directory(&of(&[(env::DELIVERY_DIR, path)]));
        assert_eq!(read("").unwrap(), None);
        let path = "/workspace/.kubeopencode/tasks/fix";
        assert_eq!(read(path).unwrap(), Some(path.into()));
        for bad in ["/etc", "/workspace", "/workspace/../etc", "relative"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
