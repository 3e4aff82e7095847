//! The tar of a file set: which bytes stand where, as its manifest determines them.
//!
//! GNU format: its long names are plain bytes, while those of PAX are UTF-8.

use tar::{EntryType, Header};

use crate::manifest::{Entry, Kind, Manifest};

pub(crate) const BLOCK: usize = 512;
/// [`BLOCK`] as an offset.
const STEP: u64 = BLOCK as u64;
/// Two blocks of zeros end a tar.
pub(crate) const END_BYTES: usize = 2 * BLOCK;
/// Bytes of a name in a header; longer ones stand in an entry of their own before it.
const SHORT_NAME: u64 = 100;

/// Rounded up to whole blocks; `None` on overflow.
fn padded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(STEP)
}

/// Length of the headers before the content of `entry`.
pub(crate) fn headers_len(entry: &Entry) -> u64 {
    // A long name has a header of its own and ends with NUL.
    let long = |bytes: u64| if bytes > SHORT_NAME { STEP + (bytes + 1).next_multiple_of(STEP) } else { 0 };
    let path = entry.path.as_bytes().len() as u64;
    STEP + match &entry.kind {
        Kind::File { .. } => long(path),
        Kind::Directory => long(path + 1),
        Kind::Link { target } => long(path) + long(target.as_bytes().len() as u64),
    }
}

/// Length of `entry` in the tar: headers, content and padding. `None` if no tar can be so long.
pub(crate) fn entry_len(entry: &Entry) -> Option<u64> {
    match entry.kind {
        Kind::File { bytes, .. } => headers_len(entry).checked_add(padded(bytes)?),
        Kind::Link { .. } | Kind::Directory => Some(headers_len(entry)),
    }
}

/// Appends the headers of `entry`.
pub(crate) fn write_headers(entry: &Entry, tar: &mut Vec<u8>) {
    let path = entry.path.as_bytes();
    let directory;
    let (kind, path, target, bytes, executable) = match &entry.kind {
        Kind::File { bytes, executable, .. } => (EntryType::Regular, path, &[][..], *bytes, *executable),
        Kind::Link { target } => (EntryType::Symlink, path, target.as_bytes(), 0, true),
        Kind::Directory => {
            directory = [path, b"/"].concat();
            (EntryType::Directory, &directory[..], &[][..], 0, true)
        }
    };
    let long = |name: &[u8]| name.len() as u64 > SHORT_NAME;
    if long(target) {
        write_long(EntryType::GNULongLink, target, tar);
    }
    if long(path) {
        write_long(EntryType::GNULongName, path, tar);
    }
    let mode = match entry.kind {
        Kind::Link { .. } => 0o777,
        _ if executable => 0o755,
        _ => 0o644,
    };
    write_header(kind, path, target, bytes, mode, entry.modified.0, tar);
}

fn write_long(kind: EntryType, name: &[u8], tar: &mut Vec<u8>) {
    let bytes = name.len() as u64 + 1;
    write_header(kind, b"././@LongLink", b"", bytes, 0o644, 0, tar);
    tar.extend_from_slice(name);
    let padding = bytes.next_multiple_of(STEP) - name.len() as u64;
    tar.resize(tar.len() + usize::try_from(padding).unwrap_or_default(), 0);
}

/// Names are cut to what a header holds: a long one stands before it.
fn write_header(kind: EntryType, path: &[u8], target: &[u8], bytes: u64, mode: u32, modified: u64, tar: &mut Vec<u8>) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(modified);
    let old = header.as_old_mut();
    for (field, name) in [(&mut old.name, path), (&mut old.linkname, target)] {
        let length = name.len().min(field.len());
        field[..length].copy_from_slice(&name[..length]);
    }
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
}

/// What a header describes, for an error message.
pub(crate) fn describe(block: &[u8]) -> String {
    if block.len() < Header::new_old().as_bytes().len() {
        return "the rest of something else".to_owned();
    }
    let header = Header::from_byte_slice(&block[..BLOCK]);
    if header.cksum().ok() != Some(checksum(block)) {
        return "something that is no entry of a tar".to_owned();
    }
    let kind = match header.entry_type() {
        EntryType::Regular => "a file",
        EntryType::Link => "a hard link",
        EntryType::Symlink => "a symbolic link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Directory => "a directory",
        EntryType::Fifo => "a named pipe",
        EntryType::GNULongName => "a long name",
        EntryType::GNULongLink => "a long link",
        EntryType::GNUSparse => "a sparse file",
        EntryType::XHeader | EntryType::XGlobalHeader => "a PAX header",
        _ => "an entry of an unknown kind",
    };
    let name = header.path_bytes();
    format!("{kind} named \"{}\" of {} bytes", name.escape_ascii(), header.size().unwrap_or_default())
}

/// The sum of a header's bytes, its checksum read as spaces.
fn checksum(block: &[u8]) -> u32 {
    let plain = block[..148].iter().chain(&block[156..BLOCK]);
    plain.map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ')
}

/// Where the entries of a valid manifest stand in its tar.
pub(crate) struct Layout {
    /// Offsets of the entries, and of the blocks that end the tar.
    starts: Vec<u64>,
}

impl Layout {
    /// `None` if the entries are too long for any tar, which a valid manifest excludes.
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        let mut starts = Vec::with_capacity(manifest.entries.len() + 1);
        let mut at = 0u64;
        for entry in &manifest.entries {
            starts.push(at);
            at = at.checked_add(entry_len(entry)?)?;
        }
        starts.push(at);
        at.checked_add(END_BYTES as u64)?;
        Some(Self { starts })
    }

    /// Length of the tar.
    pub(crate) fn len(&self) -> u64 {
        self.start(self.starts.len() - 1) + END_BYTES as u64
    }

    /// Number of items: the entries and the end.
    pub(crate) fn items(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn start(&self, item: usize) -> u64 {
        self.starts.get(item).copied().unwrap_or_default()
    }

    pub(crate) fn end(&self, item: usize) -> u64 {
        self.starts.get(item + 1).copied().unwrap_or_else(|| self.len())
    }

    /// The first item that starts at `at` or later.
    pub(crate) fn first_from(&self, at: u64) -> usize {
        self.starts.partition_point(|start| *start < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::manifest::Modified;
    use crate::name::{LinkTarget, Name};

    #[test]
    fn headers_have_the_length_that_the_layout_says_and_are_read_by_tar() {
        for length in [1, 99, 100, 101, 255, 511, 512, 513, 1500] {
            let path = vec![b'p'; length].chunks(200).collect::<Vec<_>>().join(&b'/');
            let path = Name::new(path).unwrap();
            let file = Kind::File { bytes: 0, sha256: Digest::of(b""), executable: false, at: 0 };
            let link = Kind::Link { target: LinkTarget::new(vec![b't'; length]).unwrap() };
            for kind in [file, link, Kind::Directory] {
                let entry = Entry { path: path.clone(), modified: Modified(1_700_000_000, 5), kind };
                let mut tar = Vec::new();
                write_headers(&entry, &mut tar);
                assert_eq!(tar.len() as u64, headers_len(&entry), "{entry:?}");
                tar.extend([0; 1024]);
                let mut archive = tar::Archive::new(&tar[..]);
                let read = archive.entries().unwrap().next().unwrap().unwrap();
                let name = read.path_bytes().into_owned();
                assert_eq!(name.strip_suffix(b"/").unwrap_or(&name), path.as_bytes());
                assert_eq!(read.header().mtime().unwrap(), 1_700_000_000);
                if let Kind::Link { target } = &entry.kind {
                    assert_eq!(read.link_name_bytes().unwrap(), target.as_bytes());
                }
            }
        }
    }

    #[test]
    fn no_size_overflows() {
        let entry = |bytes| Entry {
            path: Name::new("a").unwrap(),
            modified: Modified::default(),
            kind: Kind::File { bytes, sha256: Digest::of(b""), executable: false, at: 512 },
        };
        assert_eq!(entry_len(&entry(1)), Some(1024));
        for bytes in [u64::MAX, u64::MAX - 510, u64::MAX - 511] {
            assert_eq!(entry_len(&entry(bytes)), None, "{bytes}");
        }
    }
}
