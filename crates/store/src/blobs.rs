//! Bytes by their digest, in a directory or a bucket. Which of them are in use is known to the records alone.

use std::{fmt, ops::Range, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use object_store::{
    ClientConfigKey, ObjectStore, ObjectStoreExt as _, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path as Key,
    prefix::PrefixStore,
};
use sha2::{Digest as _, Sha256};

use crate::OpenError;

/// A bucket that refuses or does not answer is tried again for this long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: &str = "30 seconds";

/// The SHA-256 of a blob, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("{:x}", Sha256::digest(bytes)))
    }

    /// A digest as the records hold it.
    pub(crate) fn recorded(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// An object that holds a blob.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) changed: Timestamp,
}

/// A directory or a bucket.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    objects: Arc<dyn ObjectStore>,
}

impl Blobs {
    /// Blobs in a directory, which must exist.
    pub(crate) fn directory(path: &Path) -> Result<Self, OpenError> {
        let files = LocalFileSystem::new_with_prefix(path).map_err(OpenError::Blobs)?;
        Ok(Self { objects: Arc::new(files.with_fsync(true)) })
    }

    /// Blobs in `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`. Credentials are those of the environment (`AWS_…`).
    pub(crate) fn bucket(url: &str) -> Result<Self, OpenError> {
        let (place, options) = url.split_once('?').unwrap_or((url, ""));
        let prefix = place.trim_start_matches("s3://").split_once('/').map_or("", |(_, prefix)| prefix);
        let retry = RetryConfig { retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
        let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
        let mut bucket =
            AmazonS3Builder::from_env().with_url(place).with_retry(retry).with_config(timeout, REQUEST_TIMEOUT);
        for (name, value) in form_urlencoded::parse(options.as_bytes()) {
            bucket = match &*name {
                "endpoint" => bucket.with_allow_http(value.starts_with("http://")).with_endpoint(value),
                "region" => bucket.with_region(value),
                _ => return Err(OpenError::Option(name.into_owned())),
            };
        }
        Ok(Self { objects: Arc::new(PrefixStore::new(bucket.build().map_err(OpenError::Blobs)?, prefix)) })
    }

    /// A name for a blob that no other object has.
    pub(crate) fn new_name(digest: &Digest) -> String {
        let unique: u64 = rand::random();
        format!("sha256/{}/{}-{unique:016x}", &digest.0[..2], digest.0)
    }

    /// Stores bytes durably. They appear under their name as a whole.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> object_store::Result<()> {
        self.objects.put(&Key::from(name), bytes.into()).await.map(drop)
    }

    pub(crate) async fn get(&self, name: &str, range: Range<u64>) -> object_store::Result<Bytes> {
        self.objects.get_range(&Key::from(name), range).await
    }

    /// The digest and the length of the bytes that are stored.
    pub(crate) async fn measure(&self, name: &str) -> object_store::Result<(Digest, u64)> {
        let mut bytes = self.objects.get(&Key::from(name)).await?.into_stream();
        let (mut hasher, mut length) = (Sha256::new(), 0);
        while let Some(chunk) = bytes.try_next().await? {
            hasher.update(&chunk);
            length += chunk.len() as u64;
        }
        Ok((Digest(format!("{:x}", hasher.finalize())), length))
    }

    /// Removes an object. Not an error if there is none.
    pub(crate) async fn remove(&self, name: &str) -> object_store::Result<()> {
        match self.objects.delete(&Key::from(name)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn list(&self) -> BoxStream<'static, object_store::Result<Found>> {
        let found = |object: object_store::ObjectMeta| Found {
            name: object.location.to_string(),
            bytes: object.size,
            changed: Timestamp::from_millisecond(object.last_modified.timestamp_millis()).unwrap_or(Timestamp::MAX),
        };
        self.objects.list(Some(&Key::from("sha256"))).map_ok(found).boxed()
    }
}
