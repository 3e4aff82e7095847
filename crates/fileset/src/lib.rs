//! Files as one object that verifies itself: artefacts, inputs and caches travel and are stored as an archive and its
//! manifest.
//!
//! The archive is a tar (GNU format) in zstd frames that are independent of each other, so `zstd -d | tar x` reads it,
//! all cores compress and decompress it, and one file can be read from a range of it. The manifest lists the files with
//! their SHA-256, their place in the tar, and the places of the frames.
//!
//! Invariants:
//!
//! - The same files give the same bytes: entries are sorted by the bytes of their path, owners are 0, modes are 0644 or
//!   0755. Modification times are kept, because build tools compare them: whole seconds in the tar, nanoseconds in the
//!   manifest.
//! - A manifest determines every byte of the tar that is not content of a file. [`unpack`] computes these bytes and
//!   compares them instead of parsing the archive, so an archive can contain nothing that its manifest does not list:
//!   no device, no hard link, no second file of a name.
//! - Nothing is read or written through a symbolic link, whoever changes the tree meanwhile. A link that is absolute or
//!   leads out of the tree is not packed, and a manifest with one is invalid.
//! - Only empty directories are entries; other directories follow from the paths of the files.
//! - Memory is bounded, whatever the files are: at most 5 frames are in memory, each as up to 2 MiB of tar and as many
//!   compressed bytes, and 90 bytes and the path for each entry.

mod archive;
mod cache_key;
mod digest;
mod directories;
mod frames;
mod manifest;
mod name;
mod pack;
mod part;
mod patterns;
mod unpack;
mod walk;

pub use cache_key::{HashError, HashLimits, hash};
pub use digest::{Digest, Hasher, HashingReader, HashingWriter, InvalidDigest, VerifyError, copy_verified};
pub use manifest::{Entry, FRAME_BYTES, Frame, Kind, Manifest, ManifestError, Modified, VERSION};
pub use name::{LinkTarget, MOST_DEPTH, MOST_NAME_BYTES, Name, NameError};
pub use pack::{PackError, Packed, pack};
pub use part::{Part, PartDecoder, PartError};
pub use patterns::{PatternError, Patterns};
pub use unpack::{UnpackError, Unpacked, unpack, unpack_into};
pub use walk::{MOST_SKIPPED, SkipReason, Skipped, SkippedName, WalkError};

/// How much a file set may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of entries: files, links and empty directories.
    pub files: u64,
    /// Bytes of all files together. Holes of sparse files count.
    pub bytes: u64,
}
