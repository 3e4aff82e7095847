//! `--log-archive`: the archive of logs and run records, which outlive Pods.

use std::sync::Arc;

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
    /// Opens the archive, if one is configured.
    pub fn open(&self) -> Result<Option<Arc<dyn Archive>>, OpenError> {
        self.log_archive.as_deref().filter(|url| !url.is_empty()).map(store::open).transpose()
    }
}
