//! The keys of caches: computed from the workspace before the agent changes it, for the housekeeper.

use std::io;
use std::path::Path;

use domain::run::cache_key::{self, CacheKey, KeyError, Piece};
use fileset::{HashError, HashLimits};
use serde::{Deserialize, Serialize};

use crate::place::{FileMode, PlaceError, Root};

const FILE: &str = "caches.json";

/// A cache of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputedKey {
    pub name: String,
    pub key: String,
    /// An entry of this key was restored, so there is nothing to save.
    pub exact: bool,
}

/// Why a cache is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Hash(#[from] HashError),
}

/// Replaces the placeholders of a key by hashes of files in the workspace.
pub(super) fn expand(key: &str, workspace: &Path) -> Result<String, Unusable> {
    let parts = CacheKey::parse(key)?
        .pieces()
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Hash(pattern) => fileset::hash(workspace, pattern, HashLimits::default()),
        })
        .collect::<Result<Vec<String>, HashError>>()?;
    Ok(cache_key::join(&parts)?)
}

/// Writes the keys into the directory that the housekeeper shares.
pub(super) fn write(directory: &Path, keys: &[ComputedKey]) -> Result<(), PlaceError> {
    let text = serde_json::to_vec(keys).unwrap_or_default();
    Root::open(directory)?.write(FILE.as_ref(), &mut text.as_slice(), FileMode::Exactly(0o644)).map(drop)
}

/// The keys that `prep` wrote.
pub fn read(directory: &Path) -> io::Result<Vec<ComputedKey>> {
    let path = directory.join(FILE);
    let failed = |error: io::Error| io::Error::other(format!("{} cannot be read: {error}", path.display()));
    let text = std::fs::read(&path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_the_hash_of_files() {
        let workspace = tempfile::tempdir().unwrap();
        std::fs::create_dir(workspace.path().join("a")).unwrap();
        std::fs::write(workspace.path().join("a/go.sum"), "1").unwrap();
        let expand = |key: &str| expand(key, workspace.path());
        let first = expand("go-{{ hash \"**/go.sum\" }}-v1").unwrap();
        let hash = first.strip_prefix("go-").and_then(|rest| rest.strip_suffix("-v1")).unwrap();
        assert!(hash.len() == 12 && hash.chars().all(|digit| digit.is_ascii_hexdigit()), "{first}");
        std::fs::write(workspace.path().join("a/go.sum"), "2").unwrap();
        assert_ne!(expand("go-{{ hash \"**/go.sum\" }}-v1").unwrap(), first);
        assert_eq!(expand("plain").unwrap(), "plain");
        let problem = expand("go-{{ hash \"package.json\" }}").unwrap_err().to_string();
        assert!(problem.contains("no file matches \"package.json\""), "{problem}");
        assert!(matches!(expand("{{ x }}"), Err(Unusable::Key(_))));
    }

    #[test]
    fn the_housekeeper_reads_what_prep_wrote() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).is_err());
        let keys = [ComputedKey { name: "go".to_owned(), key: "go-1".to_owned(), exact: true }];
        write(directory.path(), &keys).unwrap();
        assert_eq!(read(directory.path()).unwrap(), keys);
        std::fs::write(directory.path().join(FILE), "[{}]").unwrap();
        assert!(read(directory.path()).is_err());
    }
}
