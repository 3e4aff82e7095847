//! Writes and reads the report of a run in the termination message.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use domain::contract::paths;
use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use domain::contract::termination::MOST_BYTES;

use crate::env::{self, Lookup};
use crate::place::{FileMode, PlaceError, Root};
use crate::redact::Redactor;

/// The file that receives the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    pub path: PathBuf,
    /// Bytes that the node keeps of it.
    pub most_bytes: usize,
}

impl ReportFile {
    pub fn from_env(env: Lookup<'_>) -> Self {
        let most_bytes = env::text(env, env::OUTCOME_BYTES).and_then(|bytes| bytes.parse().ok()).unwrap_or(MOST_BYTES);
        Self { path: file(env), most_bytes }
    }

    /// Writes a report, with secrets redacted.
    pub fn write(&self, report: &RunReport, redactor: &Redactor) -> std::io::Result<()> {
        write_termination_message(&self.path, &clean(report, redactor).into_termination_message(self.most_bytes))
    }
}

/// The file that receives the report, or the reason why an init container failed.
pub fn file(env: Lookup<'_>) -> PathBuf {
    env::path(env, env::OUTCOME_FILE, paths::TERMINATION_LOG)
}

/// The report in a file; `None` if there is none.
pub fn read(path: &Path) -> Option<RunReport> {
    let report = RunReport::read(&std::fs::read_to_string(path).ok()?)?;
    Some(report).filter(|report| report.reason != Reason::Unknown)
}

/// Writes a copy of a report for the housekeeper, with secrets redacted. Replaces whatever the agent put there.
pub fn copy(report: &RunReport, path: &Path, redactor: &Redactor) -> Result<(), PlaceError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(PlaceError::Outside(path.to_owned()));
    };
    let text = clean(report, redactor).into_termination_message(MOST_BYTES);
    // The housekeeper may have another UID.
    Root::open(parent)?.write(name.as_ref(), &mut text.as_bytes(), FileMode::Exactly(0o644)).map(drop)
}

fn clean(report: &RunReport, redactor: &Redactor) -> RunReport {
    let mut report = report.clone();
    report.message = redactor.clean(&report.message);
    report.summary = redactor.clean(&report.summary);
    report
}

/// Replaces a termination message. `/dev/termination-log` exists only inside of a Pod; elsewhere it is not created.
pub(crate) fn write_termination_message(path: &Path, message: &str) -> std::io::Result<()> {
    let in_dev = path.starts_with("/dev");
    if in_dev && !path.exists() {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new().write(true).create(!in_dev).truncate(true).open(path)?;
    file.write_all(message.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_without_secrets_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "x".repeat(5000)).unwrap();
        assert_eq!(read(&path), None);
        let mut report = RunReport::new(Reason::ModelError, "key sk-secret-1 refused \"\n".repeat(400));
        report.summary = "the key is sk-secret-1".to_owned();
        let file = ReportFile { path: path.clone(), most_bytes: 2048 };
        file.write(&report, &Redactor::new(["sk-secret-1".to_owned()])).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written.starts_with(r#"{"outcome":"Failed","reason":"ModelError""#) && !written.contains("sk-secret-1")
        );
        assert!(written.len() <= 2048, "{}", written.len());
        assert_eq!(read(&path).map(|report| report.reason), Some(Reason::ModelError));
        std::fs::write(&path, r#"{"outcome":"Failed","reason":"Another"}"#).unwrap();
        assert_eq!(read(&path), None, "another program's report");
    }

    #[test]
    fn a_copy_replaces_what_the_agent_put_there() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, path) = (directory.path().join("victim"), directory.path().join("report.json"));
        std::fs::write(&victim, "old").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let report = RunReport::new(Reason::ModelError, "key sk-secret-1 refused");
        copy(&report, &path, &Redactor::new(["sk-secret-1".to_owned()])).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"old");
        assert_eq!(read(&path).unwrap().message, "key [redacted] refused");
        assert!(path.symlink_metadata().unwrap().is_file());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(copy(&report, &path, &Redactor::default()).is_err());
    }

    #[test]
    fn dev_is_left_alone_outside_of_a_pod() {
        let nowhere = ReportFile { path: "/dev/kubeopencode-no-such-log".into(), most_bytes: 4096 };
        nowhere.write(&RunReport::succeeded(), &Redactor::default()).unwrap();
        assert!(!nowhere.path.exists());
    }
}
