//! What runs leave: artefacts and their files, outputs.

use std::collections::BTreeMap;

use fileset::{Entry, Kind};
use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;
use store::{Artifact, ArtifactExpiry, ArtifactExpiryCause};
use utoipa::ToSchema;

/// What a path begins with that is not UTF-8, in requests: the bytes follow in hexadecimal. No name of a file set begins
/// with a slash.
pub const HEX: &str = "/hex/";

/// The artefacts of a Task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Artifacts {
    /// By name.
    pub artifacts: Vec<ArtifactResponse>,
}

/// Files that a run left.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactResponse {
    /// The run that left it.
    pub epoch: i64,
    pub name: String,
    /// Size of the archive.
    pub bytes: u64,
    /// Number of its files.
    pub files: u64,
    /// SHA-256 of the archive.
    pub digest: String,
    pub stored_at: Timestamp,
    /// Time of removal.
    pub expires_at: Option<Timestamp>,
    /// Set once the files are removed.
    pub expired: Option<Expired>,
}

/// When and why the files of an artefact were removed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Expired {
    pub at: Timestamp,
    pub cause: ExpiredCause,
    /// The same as a sentence.
    pub message: String,
}

/// Why the files of an artefact were removed.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub enum ExpiredCause {
    /// The time for which the artefact was to be kept is over.
    Due,
    /// It was older than artefacts may be.
    Age,
    /// The artefacts of its namespace needed too much space.
    Space,
    /// Its namespace had too many artefacts.
    Count,
}

/// A page of the files of an artefact.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ArtifactFiles {
    /// Sorted by the bytes of their names.
    pub files: Vec<ArtifactFile>,
    /// Number of all entries with the prefix.
    pub total: usize,
    /// The value of `after` for the next page; unset on the last one.
    pub next: Option<String>,
}

/// A file, a symbolic link or an empty directory.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ArtifactFile {
    /// Path in the artefact, for people: bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The same for requests: the name, or `/hex/` and its bytes in hexadecimal if they are not UTF-8.
    pub path: String,
    pub kind: FileKind,
    /// In bytes; of files.
    pub size: Option<u64>,
    /// SHA-256; of files.
    pub digest: Option<String>,
    /// Of files.
    pub executable: Option<bool>,
    /// Where a link leads.
    pub target: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    File,
    Link,
    Directory,
}

/// The outputs of a run; empty if it has none.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Outputs {
    /// The run that wrote them; unset if no run did.
    pub epoch: Option<i64>,
    pub outputs: BTreeMap<String, String>,
}

impl From<Artifact> for ArtifactResponse {
    fn from(artifact: Artifact) -> Self {
        let Artifact { epoch, name, digest, bytes, files, stored, expires, expired } = artifact;
        Self {
            epoch,
            name,
            bytes,
            files,
            digest: digest.as_str().to_owned(),
            stored_at: stored,
            expires_at: expires,
            expired: expired.map(Expired::from),
        }
    }
}

impl From<ArtifactExpiry> for Expired {
    fn from(expiry: ArtifactExpiry) -> Self {
        let cause = match expiry.cause {
            ArtifactExpiryCause::Due => ExpiredCause::Due,
            ArtifactExpiryCause::Age => ExpiredCause::Age,
            ArtifactExpiryCause::Space => ExpiredCause::Space,
            ArtifactExpiryCause::Count => ExpiredCause::Count,
        };
        Self { at: expiry.at, cause, message: expiry.to_string() }
    }
}

impl From<&Entry> for ArtifactFile {
    fn from(entry: &Entry) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let path = entry.path.as_bytes();
        let file = Self {
            name: text(path),
            path: for_requests(path),
            kind: FileKind::Directory,
            size: None,
            digest: None,
            executable: None,
            target: None,
        };
        match &entry.kind {
            Kind::File { bytes, sha256, executable, .. } => Self {
                kind: FileKind::File,
                size: Some(*bytes),
                digest: Some(sha256.to_string()),
                executable: Some(*executable),
                ..file
            },
            Kind::Link { target } => Self { kind: FileKind::Link, target: Some(text(target.as_bytes())), ..file },
            Kind::Directory => file,
        }
    }
}

/// The bytes of a name as a text that [`bytes_of`] reads.
fn for_requests(name: &[u8]) -> String {
    match str::from_utf8(name) {
        Ok(name) => name.to_owned(),
        Err(_) => name.iter().fold(HEX.to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

/// The bytes of a name in a request; `None` if its digits make none.
pub fn bytes_of(path: &str) -> Option<Vec<u8>> {
    let Some(digits) = path.strip_prefix(HEX) else { return Some(path.as_bytes().to_vec()) };
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives_the_way_to_the_page_and_back() {
        for name in [&b"dist/app.js"[..], b"line\nbreak", b"\xff\xfe", b"a/\x80b", b"hex/00", "é".as_bytes()] {
            assert_eq!(bytes_of(&for_requests(name)).as_deref(), Some(name), "{}", name.escape_ascii());
        }
        assert_eq!(for_requests(b"\xff"), "/hex/ff");
        for wrong in ["/hex/f", "/hex/zz", "/hex/ä"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }
}
