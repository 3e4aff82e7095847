//! How much of artefacts and caches is kept.

use std::time::Duration;

use jiff::SignedDuration;
use store::{Limits, Retention};

use crate::log_archive::{age, size};

/// How much of artefacts and caches is kept.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct RetentionArgs {
    /// Space for all artefacts and patches of a namespace. When it is used up, the oldest are removed; the newest one
    /// stays, and the runs say what was removed. 0 is no limit.
    #[arg(long, value_name = "SIZE", default_value = "50Gi", value_parser = size, env = "KUBEOPENCODE_ARTIFACT_NAMESPACE_LIMIT")]
    artifact_namespace_limit: u64,
    /// Age at which artefacts and patches are removed, unless their `expireAfter` is shorter. 0 is no limit.
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = age, env = "KUBEOPENCODE_ARTIFACT_MAX_AGE")]
    artifact_max_age: Duration,
    /// Number of artefacts and patches of a namespace that are kept; of more, the oldest are removed. 0 is no limit.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, env = "KUBEOPENCODE_ARTIFACT_NAMESPACE_COUNT")]
    artifact_namespace_count: u64,
    /// Space for all caches of a namespace. When it is used up, those that were not used for the longest time are removed.
    /// 0 is no limit.
    #[arg(long, value_name = "SIZE", default_value = "10Gi", value_parser = size, env = "KUBEOPENCODE_CACHE_NAMESPACE_LIMIT")]
    cache_namespace_limit: u64,
    /// Time without use after which a cache is removed. 0 is no limit.
    #[arg(long, value_name = "SPAN", default_value = "720h", value_parser = age, env = "KUBEOPENCODE_CACHE_MAX_AGE")]
    cache_max_age: Duration,
    /// Number of entries of caches of a namespace that are kept; of more, those that were not used for the longest time
    /// are removed. 0 is no limit.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, env = "KUBEOPENCODE_CACHE_NAMESPACE_COUNT")]
    cache_namespace_count: u64,
}

impl RetentionArgs {
    pub fn retention(&self) -> Retention {
        let limits = |bytes: u64, age: Duration, count: u64| Limits {
            bytes: Some(bytes).filter(|bytes| *bytes > 0),
            age: SignedDuration::try_from(age).ok().filter(|age| !age.is_zero()),
            count: Some(count).filter(|count| *count > 0),
        };
        Retention {
            artifacts: limits(self.artifact_namespace_limit, self.artifact_max_age, self.artifact_namespace_count),
            caches: limits(self.cache_namespace_limit, self.cache_max_age, self.cache_namespace_count),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        retention: RetentionArgs,
    }

    #[test]
    fn the_defaults_are_those_of_the_store_and_zero_is_no_limit() {
        let read = |args: &[&str]| {
            Args::try_parse_from([&["x"], args].concat())
                .unwrap_or_else(|error| panic!("{error}"))
                .retention
                .retention()
        };
        assert_eq!(read(&[]), Retention::default());
        let none = ["--artifact-namespace-limit=0", "--cache-namespace-limit=0", "--cache-max-age=0"];
        assert_eq!(read(&none), Retention { artifacts: Limits::default(), caches: Limits::default() });
        let counted = read(&["--artifact-namespace-count=100", "--cache-namespace-count=7"]);
        assert_eq!((counted.artifacts.count, counted.caches.count), (Some(100), Some(7)));
        assert_eq!(read(&["--artifact-max-age=12h"]).artifacts.age, Some(SignedDuration::from_hours(12)));
    }
}
