//! housekeeper: stores what a run leaves, when the agent's container is over.
//!
//! It knows the depot's token and the credential for publishing; the agent's container has neither. What the agent wrote
//! is untrusted: no symbolic link is followed, no file is read beyond a limit, nothing waits on a named pipe.
//!
//! | module | |
//! |---|---|
//! | `wait` | the end of the agent's container |
//! | `remote` | what a Task on an Agent's server left in the Agent's workspace |
//! | `collection` | the steps within the time limit, and the report |
//! | `artifacts`, `outputs`, `changes`, `publish`, `caches` | one step each |
//! | `results` | files that the agent's container left |
//!
//! A step that fails does not keep the others from their work: a run that lost an artefact still has its outputs. What is
//! stored twice, because the container was started again, is stored once.

mod artifacts;
mod caches;
mod changes;
mod collection;
mod outputs;
mod publish;
mod remote;
pub(crate) mod results;
mod store;
mod wait;

use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::contract::collect::{COMPARE_AFTER_STOP, CollectFailure, CollectReport, Keep};
use domain::contract::paths;

use crate::companion::client;
use crate::depot;
use crate::env::{self, Lookup, SettingError};
use crate::outcome::{self, ReportFile};
use crate::publish as publishing;
use crate::redact::{self, Redactor};
use collection::Collection;
pub(crate) use store::LIMITS;
use wait::{Ended, Stops};

/// After a request to stop, the shim ends the agent's command and compares the workspace within this time.
const STOP_GRACE: Duration = Duration::from_secs(35).saturating_add(COMPARE_AFTER_STOP);

/// A quarter of the time is kept for publishing, and at least this, but at most half.
const PUBLISHING: Duration = Duration::from_mins(3);

#[derive(Clone, Debug)]
pub struct Settings {
    pub keep: Keep,
    /// `None` only if nothing goes to the depot.
    pub depot: Option<depot::Settings>,
    /// The Agent's, for a Task on its server: then the workspace is there, and not in this Pod.
    pub companion: Option<client::Settings>,
    /// `None` only if nothing is published.
    pub publish: Option<publishing::Settings>,
    /// From the end of the agent's container until everything must be stored.
    pub timeout: Duration,
    /// Directory that the agent's container shares.
    pub results: PathBuf,
    /// Directory that `prep` shares.
    pub collect: PathBuf,
    pub workspace: PathBuf,
    /// See `STOP_GRACE`.
    pub stop_grace: Duration,
    /// The part of `timeout` that is kept for publishing.
    pub publishing_time: Duration,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let keep: Keep = env::json(env, env::KEEP, "what to keep, as JSON")?;
        let uses_depot = keep.has_files() || !keep.outputs.is_empty();
        let timeout = env::duration(env, env::COLLECT_TIMEOUT, Duration::from_mins(10))?;
        Ok(Self {
            depot: if uses_depot { Some(depot::Settings::from_env(env)?) } else { None },
            companion: client::Settings::from_env(env)?,
            publish: match &keep.publish {
                Some(plan) => {
                    let left_out = plan.left_out.iter().map(PathBuf::from).collect();
                    Some(publishing::Settings { left_out, ..publishing::Settings::from_env(env)? })
                }
                None => None,
            },
            keep,
            timeout,
            results: env::path(env, env::RESULTS_DIR, paths::RESULTS),
            collect: env::path(env, env::COLLECT_DIR, paths::COLLECT),
            workspace: env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE),
            stop_grace: STOP_GRACE,
            publishing_time: PUBLISHING.max(timeout / 4).min(timeout / 2),
        })
    }

    /// The file of the contract in the directory of results.
    fn result(&self, path: &str) -> PathBuf {
        self.results.join(Path::new(path).file_name().unwrap_or_default())
    }
}

/// Runs the housekeeper as a program, and writes its report. Returns the exit code.
pub async fn execute(env: Lookup<'_>) -> u8 {
    // Before anything else: the kernel ignores signals without a handler for PID 1, and kills other processes.
    let stops = Stops::install();
    let report = match (stops, Settings::from_env(env)) {
        (Ok(mut stops), Ok(settings)) => run(&settings, stops.requested()).await,
        (Err(error), _) => CollectReport::failed(CollectFailure::CollectFailed, format!("signals: {error}")),
        (_, Err(error)) => CollectReport::failed(CollectFailure::CollectFailed, error.to_string()),
    };
    let report = clean(report, &redact::from_process([]));
    let ReportFile { path, most_bytes } = ReportFile::from_env(env);
    if let Err(error) = outcome::write_termination_message(&path, &report.to_termination_message(most_bytes)) {
        let _ = writeln!(std::io::stderr(), "the report cannot be written to {}: {error}", path.display());
    }
    u8::from(report.failure.is_some())
}

/// Waits for the end of the agent's container, then stores what it left.
pub async fn run(settings: &Settings, stop: impl Future<Output = ()>) -> CollectReport {
    let ended = wait::for_the_agent(&settings.result(paths::RUN_LOCK), stop, settings.stop_grace).await;
    let note = match ended {
        Ok(Ended::Over) => None,
        Ok(Ended::StillRuns) => Some("the agent's container still ran when its files were read".to_owned()),
        Ok(Ended::NeverStarted) => {
            return CollectReport::failed(CollectFailure::CollectFailed, "the agent's container never started");
        }
        // The run may have done its work nevertheless.
        Err(error) => Some(format!("the end of the agent's container is not known: {error}")),
    };
    Collection::begin(settings, note).collect().await
}

/// A failed push may quote a URL, or an answer of a server, with a credential.
fn clean(mut report: CollectReport, redactor: &Redactor) -> CollectReport {
    for sentence in report.notes.iter_mut().chain(report.failure.as_mut().map(|failure| &mut failure.message)) {
        *sentence = redactor.clean(sentence);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn the_depot_is_needed_for_files_and_outputs_alone() {
        let read = |keep: &str| Settings::from_env(&of(&[(env::KEEP, keep)]));
        assert!(read("").unwrap().depot.is_none());
        for keep in [r#"{"outputs":["a"]}"#, r#"{"changes":true}"#, r#"{"artifacts":[{"name":"a","paths":["a"]}]}"#] {
            let missing =
                SettingError::Missing { name: env::DEPOT_URL, expected: "the http:// or https:// URL of the depot" };
            assert_eq!(read(keep).unwrap_err(), missing, "{keep}");
        }
        assert!(read(r#"{"artifacts":"x"}"#).is_err());
        for (timeout, kept) in [("600s", 180), ("1h", 900), ("60s", 30)] {
            let settings = Settings::from_env(&of(&[(env::COLLECT_TIMEOUT, timeout)])).unwrap();
            assert_eq!(settings.publishing_time.as_secs(), kept, "{timeout}");
        }
        let settings = read("{}").unwrap();
        assert_eq!((settings.timeout, settings.result(paths::PATCH)), (Duration::from_mins(10), paths::PATCH.into()));
    }

    #[test]
    fn secrets_do_not_leave_in_a_report() {
        let mut report = CollectReport::failed(CollectFailure::PublishFailed, "refused: hunter2");
        report.notes = vec!["with hunter2".to_owned()];
        let report = clean(report, &Redactor::new(["hunter2".to_owned()]));
        assert_eq!(report.failure.unwrap().message, "refused: [redacted]");
        assert_eq!(report.notes, ["with [redacted]"]);
    }
}
