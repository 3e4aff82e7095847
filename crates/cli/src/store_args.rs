//! `--store-records` and `--store-blobs`: the store that controllers and servers of a cluster share.

use anyhow::Context as _;
use store::Store;

/// Where records and results of runs are kept.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StoreArgs {
    /// Database of the records of runs: `postgres://USER:PASSWORD@HOST/NAME`, or the path of an SQLite file for a single
    /// process. Set the variable if the URL has a password: other users of a machine see arguments.
    #[arg(
        long,
        value_name = "URL",
        env = "KUBEOPENCODE_STORE_RECORDS",
        hide_env_values = true,
        requires = "store_blobs",
        conflicts_with = "log_archive"
    )]
    store_records: Option<String>,
    /// Where logs, artefacts and caches are kept: a directory, or `s3://BUCKET/PREFIX?endpoint=URL&region=NAME` with the
    /// credentials of `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    #[arg(long, value_name = "URL", env = "KUBEOPENCODE_STORE_BLOBS", requires = "store_records")]
    store_blobs: Option<String>,
}

impl StoreArgs {
    /// Opens the store, if one is configured.
    pub async fn open(&self) -> anyhow::Result<Option<Store>> {
        let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        match (set(&self.store_records), set(&self.store_blobs)) {
            (Some(records), Some(blobs)) => {
                Ok(Some(Store::open(&records, &blobs).await.context("the store cannot be opened")?))
            }
            _ => Ok(None),
        }
    }
}
