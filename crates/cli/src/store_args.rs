//! `--store-records` and `--store-blobs`: the store that controllers and servers of a cluster share.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _};
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
    /// Opens the store, if one is configured. Refuses that of another cluster than the client's.
    pub async fn open(&self, client: &Client) -> anyhow::Result<Option<Store>> {
        let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let (Some(records), Some(blobs)) = (set(&self.store_records), set(&self.store_blobs)) else { return Ok(None) };
        let store = Store::open(&records, &blobs).await.context("the store cannot be opened")?;
        if let Some(cluster) = identity(client).await? {
            store.belong_to(&cluster).await.context("the store cannot be used")?;
        }
        Ok(Some(store))
    }
}

/// What tells a cluster from others: the UID of a Namespace that every cluster has. `None` without the right to read it.
async fn identity(client: &Client) -> anyhow::Result<Option<String>> {
    match Api::<Namespace>::all(client.clone()).get("kube-system").await {
        Ok(namespace) => Ok(namespace.uid()),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => {
            tracing::warn!(
                error = status.message,
                "it is not checked that the store belongs to this cluster: the right to get Namespace kube-system is missing"
            );
            Ok(None)
        }
        Err(error) => Err(error).context("Namespace kube-system, which names the cluster, cannot be read"),
    }
}
