//! `--log-archive`: the archive of logs and run records, which outlive Pods.

use std::{sync::Arc, time::Duration};

use domain::run::retention::LogLimits;
use store::{Archive, OpenError};

/// Where logs outlive Pods.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LogArchiveArg {
    /// Directory for logs and run records of Tasks that outlive their Pods, as a path or as file:///PATH. Controller and
    /// server need the same one, and each cluster its own: data of Tasks that the cluster does not have is removed.
    #[arg(long, value_name = "URL", env = "KUBEOPENCODE_LOG_ARCHIVE")]
    log_archive: Option<String>,
}

impl LogArchiveArg {
    /// Opens the archive for reading, if one is configured.
    pub fn open(&self) -> Result<Option<Arc<dyn Archive>>, OpenError> {
        self.open_limited(store::LOG_LIMIT)
    }

    /// Opens the archive, if one is configured; logs are written up to this many bytes each.
    pub fn open_limited(&self, log_limit: u64) -> Result<Option<Arc<dyn Archive>>, OpenError> {
        let url = self.log_archive.as_deref().filter(|url| !url.is_empty());
        url.map(|url| store::open(url, log_limit)).transpose()
    }
}

/// How much of the logs is kept.
#[derive(Clone, Copy, Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub struct LogLimitArgs {
    /// Space for the log of a run in the archive. Of a longer log, the first and the last part are kept. 0 is no limit.
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = size, env = "KUBEOPENCODE_LOG_LIMIT")]
    log_limit: u64,
    /// Space for all logs of a namespace in the archive. When it is used up, the oldest logs of finished runs are
    /// removed; the records of the runs stay. 0 is no limit.
    #[arg(long, value_name = "SIZE", default_value = "2Gi", value_parser = size, env = "KUBEOPENCODE_LOG_NAMESPACE_LIMIT")]
    log_namespace_limit: u64,
    /// Age at which the logs of finished runs are removed from the archive. 0 is no limit.
    #[arg(long, value_name = "SPAN", default_value = "2160h", value_parser = age, env = "KUBEOPENCODE_LOG_MAX_AGE")]
    log_max_age: Duration,
}

impl LogLimitArgs {
    /// Maximum size of a log, in bytes.
    pub fn of_run(&self) -> u64 {
        if self.log_limit == 0 { u64::MAX } else { self.log_limit }
    }

    /// Which archived logs are removed.
    pub fn of_archive(&self) -> LogLimits {
        LogLimits {
            max_age: Some(self.log_max_age).filter(|age| !age.is_zero()),
            namespace_bytes: Some(self.log_namespace_limit).filter(|limit| *limit > 0),
        }
    }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<units::Quantity>().ok().and_then(|size| u64::try_from(size.ceil()).ok());
    bytes.ok_or_else(|| format!("'{text}' is not a size; write it as 64Mi or 2Gi"))
}

pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let parsed = if text == "0" { Some(Duration::ZERO) } else { units::duration::parse(text) };
    parsed.ok_or_else(|| format!("'{text}' is not a duration; write it as 12h or 720h"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        limits: LogLimitArgs,
    }

    fn read(args: &[&str]) -> Option<LogLimitArgs> {
        Program::try_parse_from([&["kubeopencode"], args].concat()).ok().map(|program| program.limits)
    }

    #[test]
    fn logs_are_limited_unless_their_limit_is_zero() {
        let usual = read(&[]).unwrap();
        assert_eq!((usual.of_run(), usual.of_archive()), (store::LOG_LIMIT, LogLimits::default()));
        let none = read(&["--log-limit", "0", "--log-namespace-limit", "0", "--log-max-age", "0"]).unwrap();
        assert_eq!(none.of_run(), u64::MAX);
        assert_eq!(none.of_archive(), LogLimits { max_age: None, namespace_bytes: None });
        assert!(read(&["--log-limit", "much"]).is_none() && read(&["--log-max-age", "-1h"]).is_none());
    }
}
