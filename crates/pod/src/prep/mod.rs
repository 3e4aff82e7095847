//! prep: puts the inputs of a run and its caches in place, before the agent starts. For a Task on an Agent's server, it
//! delivers inputs and contexts to the Agent's workspace, and lets the companion there read the workspace before the run.
//!
//! Inputs that are not optional must be there, or the run does not start. A cache only saves time: whatever is wrong with
//! it, the run starts without it, and in time: its `startupTimeout` goes on meanwhile. Archives are downloaded and
//! verified whole before a file of them is written; they are kept in a volume that the agent does not have.

mod caches;
pub mod delivery;
mod inputs;
pub mod keys;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use domain::contract::collect::{Fetch, FetchReport};
use domain::contract::paths;
use egress::AuthoritiesError;
use fileset::{UnpackError, Unpacked};
use tokio::time::Instant;

use crate::depot::{self, Depot, DepotError, FoundSet};
use crate::env::{self, Lookup, SettingError};
use crate::housekeeper::LIMITS;
use crate::outcome::{self, ReportFile};
use crate::place::PlaceError;
use crate::text;

/// Parts of `startupTimeout` for all inputs; the rest is for what comes before and after them.
const INPUTS: (u32, u32) = (3, 4);
/// Parts of `startupTimeout` until what a run can do without is given up.
const OPTIONAL: (u32, u32) = (1, 2);
/// Later than this, a run gains nothing from its caches.
const MOST_OPTIONAL: Duration = Duration::from_mins(5);
/// What a run can do without is given up when requests for it fail for this long.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub fetch: Fetch,
    /// `None` only if nothing is fetched.
    pub depot: Option<depot::Settings>,
    /// The Agent's, for a Task on its server.
    pub companion: Option<delivery::Settings>,
    /// Directory for files in transit, which the housekeeper shares.
    pub collect: PathBuf,
    pub workspace: PathBuf,
    /// File that receives the report.
    pub report: ReportFile,
    /// Time for all inputs.
    pub inputs_timeout: Duration,
    /// Time after which optional inputs and caches are given up.
    pub optional_timeout: Duration,
    /// See `PATIENCE`.
    pub patience: Duration,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let startup = env::duration(env, env::STARTUP_TIMEOUT, Duration::from_mins(5))?;
        let part = |(part, whole): (u32, u32)| startup.saturating_mul(part) / whole;
        let fetch: Fetch = env::json(env, env::FETCH, "what to fetch, as JSON")?;
        let companion = delivery::Settings::from_env(env)?;
        let uses_depot = companion.is_none() || !fetch.is_empty();
        Ok(Self {
            fetch,
            depot: if uses_depot { Some(depot::Settings::from_env(env)?) } else { None },
            companion,
            collect: env::path(env, env::COLLECT_DIR, paths::COLLECT),
            workspace: env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE),
            report: ReportFile::from_env(env),
            inputs_timeout: part(INPUTS),
            optional_timeout: part(OPTIONAL).min(MOST_OPTIONAL),
            patience: PATIENCE,
        })
    }
}

/// Why the run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The certificates cannot be read.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// There is no such artefact.
    #[error("{message}; check the input, or make it optional")]
    NoInput {
        /// The depot's sentence, which names artefact and Task.
        message: String,
    },
    /// An input cannot be put in place.
    #[error("artifact \"{artifact}\" of Task \"{task}\" cannot be put in place: {source}")]
    Input {
        task: String,
        artifact: String,
        #[source]
        source: FetchError,
    },
    /// The inputs took too long.
    #[error(
        "the inputs were not in place within {}: {awaited} took too long; raise startupTimeout, which includes them",
        text::duration(*.limit)
    )]
    TimedOut { limit: Duration, awaited: String },
    /// The companion of the Agent cannot be used.
    #[error(transparent)]
    Delivery(#[from] delivery::Error),
    /// The report cannot be written.
    #[error("the report cannot be written: {0}")]
    Report(#[source] io::Error),
}

/// Why a file set cannot be put in place.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Depot(#[from] DepotError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{} bytes are in the store, and its list of files says {}", .0, .1)]
    Length(u64, u64),
}

/// Puts inputs and caches in place, and reports on them.
pub async fn run(settings: &Settings) -> Result<FetchReport, Error> {
    let begin = Instant::now();
    let mut report = FetchReport::default();
    if let Some(depot) = &settings.depot {
        let depot = Depot::connect(depot)?;
        let hasty = depot.with_silence(settings.patience);
        inputs::fetch(settings, &depot, &hasty, begin, &mut report).await?;
        caches::restore(settings, &hasty, begin + settings.optional_timeout, &mut report).await;
    }
    if let Some(companion) = &settings.companion {
        delivery::run(companion).await?;
    }
    let ReportFile { path, most_bytes } = &settings.report;
    outcome::write_termination_message(path, &report.to_termination_message(*most_bytes)).map_err(Error::Report)?;
    Ok(report)
}

/// A file set in transit. Removed with this value.
struct InTransit {
    path: PathBuf,
    found: FoundSet,
}

impl Drop for InTransit {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl InTransit {
    /// Downloads and verifies the bytes of a set. What fails is tried again until `retry_until`.
    async fn download(
        settings: &Settings,
        depot: &Depot,
        url: &reqwest::Url,
        found: FoundSet,
        retry_until: Instant,
        what: &str,
    ) -> Result<Self, FetchError> {
        if found.manifest.bytes != found.bytes {
            return Err(FetchError::Length(found.bytes, found.manifest.bytes));
        }
        let path = settings.collect.join("fetched");
        // Left by a container that was killed.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let set = Self { path, found };
        depot.download(url, &set.found.stored(), &set.path, retry_until, what).await?;
        Ok(set)
    }

    /// Unpacks the set in a thread.
    async fn unpack(self, target: PathBuf) -> Result<Unpacked, FetchError> {
        let unpacking = tokio::task::spawn_blocking(move || {
            let archive = std::fs::File::open(&self.path)?;
            Ok(fileset::unpack(archive, &self.found.manifest, &target, LIMITS)?)
        });
        unpacking.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn settings_say_what_is_missing() {
        assert!(Settings::from_env(&of(&[])).is_err());
        let pairs = [(env::DEPOT_URL, "http://depot:1"), (env::FETCH, r#"{"inputs":[{"fromTask":"a"}]}"#)];
        assert!(Settings::from_env(&of(&pairs)).is_err());
        let settings = Settings::from_env(&of(&pairs[..1])).unwrap();
        assert_eq!((settings.collect, settings.workspace), (paths::COLLECT.into(), paths::WORKSPACE.into()));
    }

    #[test]
    fn the_run_starts_within_its_startup_timeout() {
        for (startup, inputs, optional) in [("300s", 225, 150), ("1h", 2700, 300), ("40s", 30, 20)] {
            let pairs = [(env::DEPOT_URL, "http://depot:1"), (env::STARTUP_TIMEOUT, startup)];
            let settings = Settings::from_env(&of(&pairs)).unwrap();
            let found = (settings.inputs_timeout.as_secs(), settings.optional_timeout.as_secs());
            assert_eq!(found, (inputs, optional), "{startup}");
        }
    }
}
