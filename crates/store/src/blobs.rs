//! Bytes by their digest, in a directory or a bucket. Which of them are in use is known to the records alone.

use std::{
    fmt, fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use object_store::{
    ClientConfigKey, ObjectStore, ObjectStoreExt as _, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    multipart::MultipartStore as _,
    path::Path as Key,
    prefix::PrefixStore,
};
use sha2::{Digest as _, Sha256};

use crate::{OpenError, upload::Upload};

/// A bucket that refuses or does not answer is tried again for this long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: &str = "30 seconds";
/// A server may copy all parts of an object before it answers that the object is complete.
const COMPLETE_TIMEOUT: &str = "10 minutes";
/// Bytes that are read from a file at a time.
const FILE_CHUNK: u64 = 256 << 10;
/// Bytes of one request to a bucket. A request for all would run into its timeout when the reader of a stream is slow.
const BUCKET_CHUNK: u64 = 2 << 20;
/// Space of a disk that uploads leave free, or this part of it, whichever is less.
const RESERVE: u64 = 1 << 30;
const RESERVED_PART: u64 = 20;
/// Chunks that are read ahead of the reader of a stream.
const AHEAD: usize = 2;
/// Objects named after their digest, and objects whose digest was not known when they were begun.
const FOLDERS: [&str; 2] = ["sha256", "streams"];

/// The object that names the store whose blobs these are.
const STORE: &str = "store-id";

/// The SHA-256 of a blob, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("{:x}", Sha256::digest(bytes)))
    }

    /// `None` unless the text is a SHA-256 in lowercase hexadecimal.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| Self(text.to_owned()))
    }

    pub(crate) fn finished(hasher: Sha256) -> Self {
        Self(format!("{:x}", hasher.finalize()))
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
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Directory(PathBuf),
    /// `patient` waits longer for an answer.
    Bucket {
        bucket: Arc<AmazonS3>,
        patient: Arc<AmazonS3>,
        prefix: Key,
    },
}

impl Blobs {
    /// Blobs in a directory, which must exist.
    pub(crate) fn directory(path: &Path) -> Result<Self, OpenError> {
        let files = LocalFileSystem::new_with_prefix(path).map_err(OpenError::Blobs)?;
        Ok(Self { objects: Arc::new(files.with_fsync(true)), place: Place::Directory(path.to_owned()) })
    }

    /// Blobs in `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`. Credentials are those of the environment (`AWS_…`).
    pub(crate) fn bucket(url: &str) -> Result<Self, OpenError> {
        let (place, options) = url.split_once('?').unwrap_or((url, ""));
        let prefix = place.trim_start_matches("s3://").split_once('/').map_or("", |(_, prefix)| prefix);
        // The client panics without one; an error says that this process has one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let open = |timeout| {
            let retry = RetryConfig { retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
            let of_request = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
            let mut bucket =
                AmazonS3Builder::from_env().with_url(place).with_retry(retry).with_config(of_request, timeout);
            for (name, value) in form_urlencoded::parse(options.as_bytes()) {
                bucket = match &*name {
                    "endpoint" => bucket.with_allow_http(value.starts_with("http://")).with_endpoint(value),
                    "region" => bucket.with_region(value),
                    _ => return Err(OpenError::Option(name.into_owned())),
                };
            }
            bucket.build().map_err(OpenError::Blobs)
        };
        let (bucket, patient, prefix) = (open(REQUEST_TIMEOUT)?, open(COMPLETE_TIMEOUT)?, Key::from(prefix));
        let objects = Arc::new(PrefixStore::new(bucket.clone(), prefix.clone()));
        Ok(Self { objects, place: Place::Bucket { bucket: Arc::new(bucket), patient: Arc::new(patient), prefix } })
    }

    /// The store whose blobs these are, if any has claimed them.
    pub(crate) async fn store(&self) -> object_store::Result<Option<String>> {
        match self.objects.get(&Key::from(STORE)).await {
            Ok(found) => Ok(Some(String::from_utf8_lossy(&found.bytes().await?).into_owned())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn set_store(&self, store: &str) -> object_store::Result<()> {
        self.put(STORE, store.to_owned().into()).await
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

    /// A name for an object whose digest is not known yet.
    pub(crate) fn new_stream_name() -> String {
        let unique: u128 = rand::random();
        let unique = format!("{unique:032x}");
        format!("streams/{}/{unique}", &unique[..2])
    }

    /// Begins an object of several parts. It appears under its name when it is complete.
    pub(crate) async fn begin(&self, name: &str) -> object_store::Result<Upload> {
        match &self.place {
            Place::Directory(_) => Ok(Upload::to_file(self.objects.put_multipart(&Key::from(name)).await?)),
            Place::Bucket { bucket, patient, prefix } => {
                Upload::to_bucket(Arc::clone(bucket), Arc::clone(patient), below(prefix, name)).await
            }
        }
    }

    /// Removes whatever an upload left: the object, its parts, and the file in which they were collected. `id` is that of
    /// an upload to a bucket.
    pub(crate) async fn discard(&self, name: &str, id: Option<&str>) -> object_store::Result<()> {
        match &self.place {
            Place::Directory(base) => {
                let staged = base.join(format!("{name}#1"));
                let removed = run_blocking(move || match fs::remove_file(&staged) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                });
                removed.await?;
            }
            Place::Bucket { bucket, prefix, .. } => {
                if let Some(id) = id {
                    match bucket.abort_multipart(&below(prefix, name), &id.to_owned()).await {
                        Err(object_store::Error::NotFound { .. }) => {}
                        other => other?,
                    }
                }
            }
        }
        self.remove(name).await
    }

    /// Whether there is an object of this name and length.
    pub(crate) async fn has(&self, name: &str, bytes: u64) -> object_store::Result<bool> {
        match self.objects.head(&Key::from(name)).await {
            Ok(found) => Ok(found.size == bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The bytes of a range that is within the object, in chunks.
    pub(crate) fn stream(&self, name: &str, range: Range<u64>) -> BoxStream<'static, object_store::Result<Bytes>> {
        let (this, name) = (self.clone(), name.to_owned());
        let end = range.end;
        let size = match &self.place {
            Place::Directory(_) => FILE_CHUNK,
            Place::Bucket { .. } => BUCKET_CHUNK,
        };
        let starts = stream::iter((range.start..end).step_by(usize::try_from(size).unwrap_or(usize::MAX)));
        let read = move |start: u64| {
            let (this, name) = (this.clone(), name.clone());
            async move {
                let chunk = start..end.min(start + size);
                let bytes = this.get(&name, chunk.clone()).await?;
                if bytes.len() as u64 == chunk.end - chunk.start {
                    return Ok(bytes);
                }
                let source = format!("{name} ends at byte {}", start + bytes.len() as u64).into();
                Err(object_store::Error::Generic { store: "blobs", source })
            }
        };
        starts.map(read).buffered(AHEAD).boxed()
    }

    /// The digest and the length of the bytes that are stored.
    pub(crate) async fn measure(&self, name: &str) -> object_store::Result<(Digest, u64)> {
        let length = self.objects.head(&Key::from(name)).await?.size;
        let mut bytes = self.stream(name, 0..length);
        let mut hasher = Sha256::new();
        while let Some(chunk) = bytes.try_next().await? {
            hasher.update(&chunk);
        }
        Ok((Digest::finished(hasher), length))
    }

    /// Whether the disk has little space left. A bucket has no limit that is known here.
    pub(crate) async fn is_almost_full(&self) -> object_store::Result<bool> {
        match &self.place {
            Place::Directory(base) => {
                let base = base.clone();
                run_blocking(move || {
                    let found = rustix::fs::statvfs(&base)?;
                    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
                    Ok(is_scarce(bytes(found.f_bavail), bytes(found.f_blocks)))
                })
                .await
            }
            Place::Bucket { .. } => Ok(false),
        }
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
        let objects = FOLDERS.map(|folder| self.objects.list(Some(&Key::from(folder))));
        stream::iter(objects).flatten().map_ok(found).boxed()
    }

    /// Removes the files in which a process that was killed collected the bytes of an object, if they were not written
    /// since `before`. Returns their number and length. A bucket has none.
    pub(crate) async fn remove_staged(&self, before: Timestamp) -> object_store::Result<(u64, u64)> {
        match &self.place {
            Place::Directory(base) => {
                let folders = FOLDERS.map(|folder| base.join(folder));
                run_blocking(move || remove_staged(folders.into(), before)).await
            }
            Place::Bucket { .. } => Ok((0, 0)),
        }
    }
}

/// Whether so much of a disk is not enough for more blobs. Records and logs, and other programs, need the rest.
fn is_scarce(free: u64, all: u64) -> bool {
    free < RESERVE.min(all / RESERVED_PART)
}

/// The key of an object in a bucket.
fn below(prefix: &Key, name: &str) -> Key {
    let name = Key::from(name);
    prefix.parts().chain(name.parts()).collect()
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> object_store::Result<T> {
    let done = tokio::task::spawn_blocking(work).await?;
    done.map_err(|source| object_store::Error::Generic { store: "blobs", source: source.into() })
}

/// object_store collects the bytes of an object in a file `NAME#NUMBER` beside it.
fn remove_staged(mut folders: Vec<PathBuf>, before: Timestamp) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
                continue;
            }
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.rsplit_once('#')).map(|(_, number)| number);
            let staged = number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
            // The file may just have been renamed.
            let Some(found) = entry.metadata().ok().filter(|_| staged) else { continue };
            if found.modified().ok().and_then(|time| Timestamp::try_from(time).ok()).is_some_and(|time| time < before)
                && fs::remove_file(entry.path()).is_ok()
            {
                files += 1;
                bytes += found.len();
            }
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_disk_stays_free() {
        let check = |free: u64, all: u64, expected: bool| assert_eq!(is_scarce(free, all), expected, "{free} of {all}");
        check(2 << 30, 500 << 30, false);
        check((1 << 30) - 1, 500 << 30, true);
        check(100 << 20, 1 << 30, false);
        check(50 << 20, 1 << 30, true);
        check(0, 0, false);
    }
}
