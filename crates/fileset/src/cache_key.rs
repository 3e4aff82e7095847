//! `{{ hash "glob" }}` of cache keys.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::io::Errno;

use crate::Limits;
use crate::digest::Hasher;
use crate::directories::{Directories, DirectoryError, open_file};
use crate::name::Name;
use crate::patterns::{PatternError, Patterns};
use crate::walk::{FoundKind, WalkError, walk};

/// Hexadecimal digits of a hash.
const DIGITS: usize = 12;

/// What may be hashed: files that describe dependencies are few and small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLimits {
    pub files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

impl Default for HashLimits {
    fn default() -> Self {
        Self { files: 100, file_bytes: 16 << 20, bytes: 64 << 20 }
    }
}

/// Why files have no hash.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("no file matches \"{0}\"")]
    NoMatch(String),
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error("\"{path}\" is larger than {limit} bytes")]
    LargeFile { path: Name, limit: u64 },
    #[error("\"{path}\" cannot be read: {source}")]
    Read { path: Name, source: io::Error },
}

/// The first 12 hexadecimal digits of the SHA-256 over path, NUL and content of each file below `root` that matches, in
/// the order of their paths. Links do not count.
pub fn hash(root: &Path, pattern: &str, limits: HashLimits) -> Result<String, HashError> {
    let patterns = Patterns::parse(&[pattern])?;
    let walked = walk(root, &patterns, &[], Limits { files: limits.files, bytes: limits.bytes })?;
    let mut directories = Directories::existing(walked.root.as_fd());
    let mut hasher = Hasher::default();
    let mut total = 0u64;
    let mut files = 0u64;
    for found in walked.found.into_iter().filter(|found| found.kind == FoundKind::File) {
        let path = found.path;
        let failed = |errno: Errno| HashError::Read { path: path.clone(), source: errno.into() };
        let (parent, name) = directories.parent(&path).map_err(|DirectoryError { errno, .. }| failed(errno))?;
        let mut file = open_file(parent, name).map_err(failed)?;
        hasher.update(path.as_bytes());
        hasher.update(&[0]);
        let mut bytes = 0u64;
        let mut buffer = [0; 16 << 10];
        loop {
            let read = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(HashError::Read { path, source }),
            };
            bytes += read as u64;
            total += read as u64;
            // The size at the end counts, not the one that the walk found.
            if bytes > limits.file_bytes {
                return Err(HashError::LargeFile { path, limit: limits.file_bytes });
            }
            if total > limits.bytes {
                return Err(WalkError::TooManyBytes { limit: limits.bytes }.into());
            }
            hasher.update(&buffer[..read]);
        }
        files += 1;
    }
    if files == 0 {
        return Err(HashError::NoMatch(pattern.to_owned()));
    }
    let mut digits = hasher.finish().0.to_string();
    digits.truncate(DIGITS);
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    fn write(root: &Path, path: &str, content: &[u8]) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn the_hash_is_that_of_sorted_paths_and_contents() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "b/Cargo.lock", b"two");
        write(root.path(), "Cargo.lock", b"one");
        write(root.path(), "other", b"x");
        std::os::unix::fs::symlink("Cargo.lock", root.path().join("link")).unwrap();
        let expected = |bytes: &[u8]| Digest::of(bytes).to_string()[..12].to_owned();
        let hash = |pattern: &str| hash(root.path(), pattern, HashLimits::default());
        assert_eq!(hash("**/Cargo.lock").unwrap(), expected(b"Cargo.lock\0oneb/Cargo.lock\0two"));
        assert_eq!(hash("Cargo.lock").unwrap(), expected(b"Cargo.lock\0one"));
        assert_eq!(hash("b").unwrap(), expected(b"b/Cargo.lock\0two"));
        assert!(matches!(hash("*.json"), Err(HashError::NoMatch(pattern)) if pattern == "*.json"));
        assert!(matches!(hash("link"), Err(HashError::NoMatch(_))));
        assert!(matches!(hash("../x"), Err(HashError::Pattern(PatternError::Parent(_)))));
    }

    #[test]
    fn limits_hold() {
        let root = tempfile::tempdir().unwrap();
        for index in 0..3 {
            write(root.path(), &format!("f{index}"), &[b'x'; 10]);
        }
        let with =
            |files: u64, file_bytes: u64, bytes: u64| hash(root.path(), "f*", HashLimits { files, file_bytes, bytes });
        assert!(with(3, 10, 30).is_ok());
        assert!(matches!(with(2, 10, 30), Err(HashError::Walk(WalkError::TooManyFiles { limit: 2 }))));
        assert!(matches!(with(3, 9, 30), Err(HashError::LargeFile { limit: 9, .. })));
        assert!(matches!(with(3, 10, 29), Err(HashError::Walk(WalkError::TooManyBytes { limit: 29 }))));
        assert_eq!(HashLimits::default(), HashLimits { files: 100, file_bytes: 16 << 20, bytes: 64 << 20 });
    }
}
