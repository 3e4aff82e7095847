//! Caches: computes their keys and restores them. Whatever is wrong with a cache is a note and a miss.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use api::kinds::task::CacheHit;
use api::run::{Cache, CachePolicy};
use domain::contract::collect::{FetchReport, FetchedCache};
use fileset::Manifest;
use tokio::time::timeout_at;

use super::keys::{self, ComputedKey};
use super::{FetchError, InTransit, Settings};
use crate::depot::{Depot, DepotError, retry};
use crate::text;

/// Computes the key of every cache, restores those that are to be restored, and leaves the keys for the housekeeper.
pub(super) async fn restore(
    settings: &Settings,
    depot: &Depot,
    deadline: tokio::time::Instant,
    report: &mut FetchReport,
) {
    if settings.fetch.caches.is_empty() {
        return;
    }
    // All keys before the first restored file: a key depends on what the agent gets, not on other caches.
    let mut all = Vec::new();
    for cache in &settings.fetch.caches {
        let keys = Keys::of(cache, settings, report).await;
        let keys = keys.map_err(|problem| note(report, format!("cache \"{}\" is not used: {problem}", cache.name)));
        all.push((cache, keys.ok()));
    }
    // For all caches together: a depot that fails must not cost the run its time to start.
    let mut patience = settings.patience;
    let mut computed = Vec::new();
    for (cache, keys) in all {
        let mut fetched = FetchedCache { name: cache.name.clone(), hit: None, bytes: 0, seconds: 0 };
        let Some(keys) = keys else {
            report.caches.push(fetched);
            continue;
        };
        if cache.policy != CachePolicy::Push {
            let begin = Instant::now();
            let what = format!("cache \"{}\"", cache.name);
            let times = Times { retry_until: deadline.min(tokio::time::Instant::now() + patience), deadline };
            let restored = restore_one(settings, depot, cache, &keys, times, &what).await;
            let (hit, bytes) = restored.unwrap_or_else(|problem| {
                patience = patience.saturating_sub(begin.elapsed());
                note(report, format!("{what} is not restored: {problem}"));
                (CacheHit::Miss, 0)
            });
            fetched = FetchedCache { hit: Some(hit), bytes, seconds: begin.elapsed().as_secs(), ..fetched };
            tracing::info!(
                "{what}, key {:?}: {hit:?}, {}, in {}",
                keys.key,
                text::size(bytes),
                text::seconds(begin.elapsed())
            );
        }
        let exact = fetched.hit == Some(CacheHit::Exact);
        computed.push(ComputedKey { name: cache.name.clone(), key: keys.key, exact });
        report.caches.push(fetched);
    }
    if let Err(error) = keys::write(&settings.collect, &computed) {
        note(report, format!("caches will not be saved: {error}"));
    }
}

fn note(report: &mut FetchReport, message: String) {
    tracing::warn!("{message}");
    report.notes.push(message);
}

/// The keys of a cache without placeholders.
struct Keys {
    key: String,
    prefixes: Vec<String>,
}

impl Keys {
    /// A prefix that cannot be used is left out.
    async fn of(cache: &Cache, settings: &Settings, report: &mut FetchReport) -> Result<Self, String> {
        let expand = async |key: &str| {
            let (key, workspace) = (key.to_owned(), settings.workspace.clone());
            let hashing = tokio::task::spawn_blocking(move || keys::expand(&key, &workspace));
            hashing.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        };
        let key = expand(&cache.key).await?;
        let mut prefixes = Vec::new();
        for prefix in cache.restore_keys.iter().flatten() {
            match expand(prefix).await {
                Ok(prefix) => prefixes.push(prefix),
                Err(problem) => {
                    note(report, format!("a restore key of cache \"{}\" is not used: {problem}", cache.name));
                }
            }
        }
        Ok(Self { key, prefixes })
    }
}

#[derive(Clone, Copy)]
struct Times {
    /// What fails is tried again until then.
    retry_until: tokio::time::Instant,
    deadline: tokio::time::Instant,
}

/// Returns what was found, and the bytes of its files.
async fn restore_one(
    settings: &Settings,
    depot: &Depot,
    cache: &Cache,
    keys: &Keys,
    Times { retry_until, deadline }: Times,
    what: &str,
) -> Result<(CacheHit, u64), FetchError> {
    let download = download(settings, depot, cache, keys, retry_until, what);
    let limit = settings.optional_timeout;
    let late = || io::Error::other(format!("it took longer than {}", text::duration(limit)));
    let Some((hit, set)) = timeout_at(deadline, download).await.map_err(|_| late())?? else {
        return Ok((CacheHit::Miss, 0));
    };
    // Not interrupted: a thread that is left alone would go on writing.
    let added = Added::by(&set.found.manifest, &settings.workspace);
    match set.unpack(settings.workspace.clone()).await {
        Ok(unpacked) => Ok((hit, unpacked.bytes)),
        Err(error) => {
            added.remove();
            Err(error)
        }
    }
}

/// The set of the best entry; `None` if there is none.
async fn download(
    settings: &Settings,
    depot: &Depot,
    cache: &Cache,
    Keys { key, prefixes }: &Keys,
    retry_until: tokio::time::Instant,
    what: &str,
) -> Result<Option<(CacheHit, InTransit)>, FetchError> {
    let found = retry::until(retry_until, what, async || depot.find_cache(&cache.name, key, prefixes).await).await;
    let found = match found {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let (hit, content) = match &found.key {
        Some(found) if found == key => (CacheHit::Exact, depot.cache_content(&cache.name, found)),
        Some(found) if prefixes.iter().any(|prefix| found.starts_with(prefix)) => {
            (CacheHit::Prefix, depot.cache_content(&cache.name, found))
        }
        _ => return Err(DepotError::Unreadable("it found an entry of another key".to_owned()).into()),
    };
    let set = InTransit::download(settings, depot, &content, found, retry_until, what).await?;
    Ok(Some((hit, set)))
}

/// What a cache adds to a workspace, to be removed if it cannot be restored whole: with half of its dependencies a build
/// may fail in a way that no one understands.
struct Added(Vec<PathBuf>);

impl Added {
    /// The topmost paths that are not there yet. Most of a cache is below a few of them.
    fn by(manifest: &Manifest, workspace: &Path) -> Self {
        let mut added = Vec::new();
        // Whether something can be below each path that was looked at.
        let mut looked_at: HashMap<PathBuf, bool> = HashMap::new();
        for entry in &manifest.entries {
            let mut path = PathBuf::new();
            for name in Path::new(OsStr::from_bytes(entry.path.as_bytes())) {
                path.push(name);
                let goes_on = *looked_at.entry(path.clone()).or_insert_with(|| {
                    let full = workspace.join(&path);
                    let found = full.symlink_metadata();
                    if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                        added.push(full);
                    }
                    found.is_ok_and(|found| found.is_dir())
                });
                if !goes_on {
                    break;
                }
            }
        }
        Self(added)
    }

    fn remove(&self) {
        for path in &self.0 {
            // What cannot be removed stays, as a file of an older cache would.
            let _ = std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_a_cache_added_is_removed() {
        let (source, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in ["new/a/b", "new/c", "both/new", "both/old", "deep/old/new/x", "top", "was"] {
            let path = source.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "cached").unwrap();
        }
        std::os::unix::fs::symlink("new/c", source.path().join("link")).unwrap();
        for file in ["both/old", "both/mine", "deep/old/mine", "was"] {
            let path = workspace.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "mine").unwrap();
        }
        let patterns = fileset::Patterns::parse(&["**"]).unwrap();
        let (mut archive, limits) = (Vec::new(), crate::housekeeper::LIMITS);
        let packed = fileset::pack(source.path(), &patterns, &[], limits, &mut archive).unwrap();
        let added = Added::by(&packed.manifest, workspace.path());
        assert_eq!(added.0.len(), 5, "{:?}", added.0);
        fileset::unpack(&archive[..], &packed.manifest, workspace.path(), limits).unwrap();
        added.remove();
        let mut left: Vec<_> =
            fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["both", "deep", "was"]);
        assert!(workspace.path().join("both/mine").exists() && workspace.path().join("both/old").exists());
        assert!(!workspace.path().join("both/new").exists() && !workspace.path().join("deep/old/new").exists());
    }
}
