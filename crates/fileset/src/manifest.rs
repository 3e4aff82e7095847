//! The list of what an archive contains.

use serde::{Deserialize, Serialize};
use zstd::zstd_safe;

use crate::Limits;
use crate::archive::{END_BYTES, entry_len, headers_len};
use crate::digest::Digest;
use crate::name::{LinkTarget, Name};

/// Version of the format of archive and manifest.
pub const VERSION: u32 = 1;
/// Bytes of tar in a frame, at most. Frames of 2 MiB cost 3 % in size against a single frame, and two of 4 MiB for each
/// core would be too much memory for a housekeeper.
pub const FRAME_BYTES: usize = 1 << FRAME_LOG;
pub(crate) const FRAME_LOG: u32 = 21;

/// What an archive contains. A manifest that was read from JSON is valid; one that was made or changed otherwise may not
/// be, see [`Manifest::validate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Unchecked")]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// Length of the archive.
    pub bytes: u64,
    /// Sorted by the bytes of their path, as in the tar.
    pub entries: Vec<Entry>,
    /// In the order of the archive. The first starts at 0.
    pub frames: Vec<Frame>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub path: Name,
    pub modified: Modified,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    File {
        bytes: u64,
        sha256: Digest,
        executable: bool,
        /// Offset of the content in the tar.
        at: u64,
    },
    Link {
        target: LinkTarget,
    },
    /// An empty directory.
    Directory,
}

/// When an entry was modified: seconds since 1970 and nanoseconds. Earlier times are 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modified(pub u64, pub u32);

/// Where a zstd frame starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame {
    /// Offset in the tar.
    pub at: u64,
    /// Offset in the archive.
    pub offset: u64,
}

/// Why a manifest is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("the file set has format version {0}; this program reads version {VERSION}")]
    Version(u32),
    #[error("\"{0}\" is listed twice")]
    Duplicate(Name),
    #[error("\"{0}\" is not listed in the order of its path")]
    Order(Name),
    #[error("\"{path}\" is listed below \"{above}\", which is a file, a link or an empty directory")]
    Below { path: Name, above: Name },
    #[error("the symbolic link \"{path}\" leads to \"{target}\", which is not in its file set")]
    Link { path: Name, target: LinkTarget },
    #[error("\"{0}\" has an impossible modification time")]
    Modified(Name),
    #[error("the content of \"{path}\" starts at {expected} of the tar, not at {found}")]
    Place { path: Name, expected: u64, found: u64 },
    #[error("the files are larger than any archive")]
    Overflow,
    #[error("frame {0} of the archive has an impossible place")]
    Frame(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unchecked {
    version: u32,
    bytes: u64,
    entries: Vec<Entry>,
    frames: Vec<Frame>,
}

impl TryFrom<Unchecked> for Manifest {
    type Error = ManifestError;

    fn try_from(unchecked: Unchecked) -> Result<Self, ManifestError> {
        let Unchecked { version, bytes, entries, frames } = unchecked;
        let manifest = Self { version, bytes, entries, frames };
        manifest.validate()?;
        Ok(manifest)
    }
}

impl Manifest {
    /// Whether this can be the manifest of an archive. Whether it is that of a particular one shows when it is read.
    pub fn validate(&self) -> Result<(), ManifestError> {
        if self.version != VERSION {
            return Err(ManifestError::Version(self.version));
        }
        let end = self.validate_entries()?.checked_add(END_BYTES as u64).ok_or(ManifestError::Overflow)?;
        self.validate_frames(end)
    }

    /// Returns the length of the entries in the tar.
    fn validate_entries(&self) -> Result<u64, ManifestError> {
        let mut at = 0u64;
        // In this order, all paths that begin with the bytes of a path follow it: these are on the stack.
        let mut prefixes: Vec<&Name> = Vec::new();
        let mut previous: Option<&Name> = None;
        for entry in &self.entries {
            let path = &entry.path;
            match previous.map(|previous| previous.cmp(path)) {
                Some(std::cmp::Ordering::Equal) => return Err(ManifestError::Duplicate(path.clone())),
                Some(std::cmp::Ordering::Greater) => return Err(ManifestError::Order(path.clone())),
                Some(std::cmp::Ordering::Less) | None => previous = Some(path),
            }
            while prefixes.pop_if(|top| !path.as_bytes().starts_with(top.as_bytes())).is_some() {}
            if let Some(above) = prefixes.iter().find(|prefix| path.is_within(prefix)) {
                return Err(ManifestError::Below { path: path.clone(), above: (*above).clone() });
            }
            prefixes.push(path);
            if i64::try_from(entry.modified.0).is_err() || entry.modified.1 >= 1_000_000_000 {
                return Err(ManifestError::Modified(path.clone()));
            }
            match &entry.kind {
                Kind::File { at: found, .. } => {
                    let expected = at.checked_add(headers_len(entry)).ok_or(ManifestError::Overflow)?;
                    if expected != *found {
                        return Err(ManifestError::Place { path: path.clone(), expected, found: *found });
                    }
                }
                Kind::Link { target } if !target.stays_within(path) => {
                    return Err(ManifestError::Link { path: path.clone(), target: target.clone() });
                }
                Kind::Link { .. } | Kind::Directory => {}
            }
            at = entry_len(entry).and_then(|length| at.checked_add(length)).ok_or(ManifestError::Overflow)?;
        }
        Ok(at)
    }

    fn validate_frames(&self, tar_bytes: u64) -> Result<(), ManifestError> {
        if self.frames.first() != Some(&Frame { at: 0, offset: 0 }) {
            return Err(ManifestError::Frame(0));
        }
        let end = Frame { at: tar_bytes, offset: self.bytes };
        let ends = self.frames.iter().skip(1).chain([&end]);
        for (index, (start, end)) in self.frames.iter().zip(ends).enumerate() {
            let fits = |from: u64, to: u64, most: usize| to > from && to - from <= most as u64;
            if !fits(start.at, end.at, FRAME_BYTES) || !fits(start.offset, end.offset, most_packed_bytes()) {
                return Err(ManifestError::Frame(index));
            }
        }
        Ok(())
    }

    /// The entry at `path`.
    pub fn find(&self, path: &Name) -> Option<&Entry> {
        let index = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        self.entries.get(index)
    }

    /// Bytes of all files together.
    pub fn content_bytes(&self) -> u64 {
        let bytes = |entry: &Entry| if let Kind::File { bytes, .. } = entry.kind { bytes } else { 0 };
        self.entries.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// Number of regular files.
    pub fn files(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count() as u64
    }

    pub(crate) fn exceeds(&self, limits: Limits) -> bool {
        self.entries.len() as u64 > limits.files || self.content_bytes() > limits.bytes
    }
}

/// Compressed bytes of a frame, at most: incompressible content grows a little.
pub(crate) fn most_packed_bytes() -> usize {
    zstd_safe::compress_bound(FRAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry { path: Name::new(path).unwrap(), modified: Modified(1, 2), kind }
    }

    fn file(path: &str, bytes: u64, at: u64) -> Entry {
        entry(path, Kind::File { bytes, sha256: Digest::of(b""), executable: false, at })
    }

    fn link(path: &str, target: &str) -> Entry {
        entry(path, Kind::Link { target: LinkTarget::new(target).unwrap() })
    }

    fn manifest(entries: Vec<Entry>) -> Manifest {
        Manifest { version: VERSION, bytes: 10, entries, frames: vec![Frame { at: 0, offset: 0 }] }
    }

    #[test]
    fn json_is_stable_and_a_lie_in_it_is_refused() {
        let valid = manifest(vec![entry("a", Kind::Directory), file("b", 3, 1024), link("c", "b")]);
        let json = serde_json::to_string(&valid).unwrap();
        let digest = Digest::of(b"");
        let expected = format!(
            r#"{{"version":1,"bytes":10,"entries":[{{"path":"a","modified":[1,2],"kind":"directory"}},{{"path":"b","modified":[1,2],"kind":{{"file":{{"bytes":3,"sha256":"{digest}","executable":false,"at":1024}}}}}},{{"path":"c","modified":[1,2],"kind":{{"link":{{"target":"b"}}}}}}],"frames":[{{"at":0,"offset":0}}]}}"#
        );
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), valid);
        let refused = |from: &str, to: &str, message: &str| {
            assert!(json.contains(from), "{from}");
            let error = serde_json::from_str::<Manifest>(&json.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        };
        refused(r#""version":1"#, r#""version":2"#, "format version 2");
        refused(r#""path":"a""#, r#""path":"../a""#, "`..`");
        refused(r#""path":"a""#, r#""path":"/a""#, "absolute");
        refused(r#""target":"b""#, r#""target":"/etc/passwd""#, "/etc/passwd");
        refused(r#""path":"a""#, r#""path":"b""#, "twice");
    }

    #[test]
    fn an_impossible_manifest_is_refused() {
        let check = |manifest: Manifest, expected: ManifestError| {
            assert_eq!(manifest.validate(), Err(expected), "{manifest:?}");
        };
        let name = |path: &str| Name::new(path).unwrap();
        assert_eq!(manifest(vec![]).validate(), Ok(()));
        assert_eq!(manifest(vec![file("a", 0, 512), file("a-b", 0, 1024), file("ab/c", 0, 1536)]).validate(), Ok(()));
        check(Manifest { version: 0, ..manifest(vec![]) }, ManifestError::Version(0));
        check(manifest(vec![file("b", 0, 512), file("a", 0, 1024)]), ManifestError::Order(name("a")));
        check(manifest(vec![file("a", 0, 512), file("a", 0, 1024)]), ManifestError::Duplicate(name("a")));
        for above in [file("a", 0, 512), link("a", "x"), entry("a", Kind::Directory)] {
            let below = ManifestError::Below { path: name("a/b/c"), above: name("a") };
            // `a-b` stands between them.
            check(manifest(vec![above, file("a-b", 0, 1024), file("a/b/c", 0, 1536)]), below);
        }
        let error = |path: &str, target: &str| ManifestError::Link {
            path: name(path),
            target: LinkTarget::new(target).unwrap(),
        };
        check(manifest(vec![link("a/b", "../../x")]), error("a/b", "../../x"));
        check(manifest(vec![link("a/b", "/x")]), error("a/b", "/x"));
        let place = ManifestError::Place { path: name("a"), expected: 512, found: 0 };
        check(manifest(vec![file("a", 0, 0)]), place);
        check(manifest(vec![file("a", u64::MAX, 512)]), ManifestError::Overflow);
        check(manifest(vec![file("a", u64::MAX - 1535, 512)]), ManifestError::Overflow);
        let half = (u64::MAX / 2) & !511;
        check(manifest(vec![file("a", half, 512), file("b", half, half + 1024)]), ManifestError::Overflow);
        for modified in [Modified(1 << 63, 0), Modified(0, 1_000_000_000)] {
            let entry = Entry { modified, ..file("a", 0, 512) };
            check(manifest(vec![entry]), ManifestError::Modified(name("a")));
        }
    }

    #[test]
    fn frames_follow_each_other_and_are_small() {
        let check = |bytes: u64, frames: &[(u64, u64)], expected: Result<(), usize>| {
            let frames = frames.iter().map(|(at, offset)| Frame { at: *at, offset: *offset }).collect();
            // Its tar is 3 MiB long.
            let entries = vec![file("a", (3 << 20) - 1536, 512)];
            let manifest = Manifest { bytes, frames, ..manifest(entries) };
            assert_eq!(manifest.validate(), expected.map_err(ManifestError::Frame), "{:?}", manifest.frames);
        };
        let mib = 1 << 20;
        check(20, &[(0, 0), (2 * mib, 10)], Ok(()));
        check(20, &[(0, 0), (mib, 10), (2 * mib, 19)], Ok(()));
        check(20, &[], Err(0));
        check(20, &[(0, 1), (2 * mib, 10)], Err(0));
        check(20, &[(512, 0), (2 * mib, 10)], Err(0));
        check(20, &[(0, 0)], Err(0));
        check(20, &[(0, 0), (2 * mib + 1, 10)], Err(0));
        check(20, &[(0, 0), (2 * mib, 0)], Err(0));
        check(20, &[(0, 0), (2 * mib, 10), (2 * mib, 11)], Err(1));
        check(20, &[(0, 0), (2 * mib, 10), (mib, 11)], Err(1));
        check(20, &[(0, 0), (2 * mib, 21)], Err(1));
        check(20, &[(0, 0), (2 * mib, 10), (4 * mib, 11)], Err(2));
        check(4 * mib, &[(0, 0), (2 * mib, 10)], Err(1));
    }
}
