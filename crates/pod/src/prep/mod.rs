//! prep: puts the inputs of a run and its caches in place, before the agent starts.
//!
//! Inputs that are not optional must be there, or the run does not start. A cache only saves time: whatever is wrong with
//! it, the run starts without it. Archives are downloaded and verified whole before a file of them is written; they are
//! kept in a volume that the agent does not have.

mod caches;
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

/// Time for all inputs.
const INPUTS: Duration = Duration::from_mins(10);
/// Time for all caches: later than this, a run gains nothing from them.
const CACHES: Duration = Duration::from_mins(5);

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub fetch: Fetch,
    pub depot: depot::Settings,
    /// Directory for files in transit, which the housekeeper shares.
    pub collect: PathBuf,
    pub workspace: PathBuf,
    /// File that receives the report.
    pub report: ReportFile,
    /// See [`INPUTS`].
    pub inputs_timeout: Duration,
    /// See [`CACHES`].
    pub caches_timeout: Duration,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            fetch: env::json(env, env::FETCH, "what to fetch, as JSON")?,
            depot: depot::Settings::from_env(env)?,
            collect: env::path(env, env::COLLECT_DIR, paths::COLLECT),
            workspace: env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE),
            report: ReportFile::from_env(env),
            inputs_timeout: INPUTS,
            caches_timeout: CACHES,
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
    #[error("the inputs were not in place within {}: {awaited} took too long", text::duration(*.limit))]
    TimedOut { limit: Duration, awaited: String },
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
    let depot = Depot::connect(&settings.depot)?;
    let mut report = FetchReport::default();
    inputs::fetch(settings, &depot, &mut report).await?;
    caches::restore(settings, &depot, &mut report).await;
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
    /// Downloads and verifies the bytes of a set.
    async fn download(
        settings: &Settings,
        depot: &Depot,
        url: &reqwest::Url,
        found: FoundSet,
        deadline: Instant,
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
        depot.download(url, &set.found.stored(), &set.path, deadline, what).await?;
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
}
