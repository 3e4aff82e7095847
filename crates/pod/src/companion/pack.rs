//! A directory as a tar, for a delivery.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use domain::contract::companion::{MOST_DELIVERY_BYTES, MOST_DELIVERY_ENTRIES};

/// Writes a directory as a tar, sorted, without owners and times. After an error, what was written is of no use.
pub fn pack(directory: &Path, out: impl Write) -> io::Result<()> {
    let mut packing = Packing { tar: tar::Builder::new(out), entries: 0, bytes: 0 };
    packing.directory(directory, Path::new(""))?;
    packing.tar.into_inner()?.flush()
}

struct Packing<W: Write> {
    tar: tar::Builder<W>,
    entries: u64,
    bytes: u64,
}

impl<W: Write> Packing<W> {
    fn directory(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        let mut children =
            std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        children.sort();
        for child in children {
            self.entry(&path.join(&child), &name.join(&child))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        let metadata = std::fs::symlink_metadata(path)?;
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(if metadata.is_file() { metadata.len() } else { 0 });
        if self.entries > MOST_DELIVERY_ENTRIES || self.bytes > MOST_DELIVERY_BYTES {
            return Err(io::Error::other(format!(
                "they are larger than {} GiB or {MOST_DELIVERY_ENTRIES} files; give large repositories and documents to the Agent instead",
                MOST_DELIVERY_BYTES >> 30
            )));
        }
        let mut header = tar::Header::new_gnu();
        header.set_mode(metadata.permissions().mode() & 0o777);
        header.set_size(0);
        if metadata.is_dir() {
            header.set_entry_type(tar::EntryType::Directory);
            self.tar.append_data(&mut header, name, io::empty())?;
            self.directory(path, name)?;
        } else if metadata.is_symlink() {
            header.set_entry_type(tar::EntryType::Symlink);
            self.tar.append_link(&mut header, name, std::fs::read_link(path)?)?;
        } else if metadata.is_file() {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(metadata.len());
            self.tar.append_data(&mut header, name, Exactly { file: File::open(path)?, left: metadata.len() })?;
        }
        Ok(())
    }
}

/// As many bytes of a file as its header says: a file that grows is cut, and one that shrinks is an error, for otherwise
/// what follows it in the tar would become its content.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::other("a file became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::companion::delivery;
    use crate::place::Root;

    #[test]
    fn what_is_packed_here_is_placed_there() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = "deep/".repeat(30);
        std::fs::create_dir_all(here.path().join(&long)).unwrap();
        std::fs::create_dir(here.path().join("empty")).unwrap();
        std::fs::write(here.path().join(&long).join("it's $HOME.md"), "content").unwrap();
        std::os::unix::fs::symlink("empty", here.path().join("link")).unwrap();
        let packed = || {
            let mut tar = Vec::new();
            pack(here.path(), &mut tar).unwrap();
            tar
        };
        assert_eq!(packed(), packed());
        let root = Root::open(there.path()).unwrap();
        let delivered = delivery::place(&root, Path::new("d"), &mut packed().as_slice()).unwrap();
        assert_eq!((delivered.files, delivered.bytes), (2, 7));
        let there = there.path().join("d");
        assert_eq!(std::fs::read_to_string(there.join(&long).join("it's $HOME.md")).unwrap(), "content");
        assert_eq!(std::fs::read_link(there.join("link")).unwrap(), Path::new("empty"));
        assert!(there.join("empty").is_dir());
    }

    #[test]
    fn a_flood_is_refused_before_it_is_sent() {
        let here = tempfile::tempdir().unwrap();
        let file = File::create(here.path().join("big")).unwrap();
        file.set_len(MOST_DELIVERY_BYTES + 1).unwrap();
        let error = pack(here.path(), io::sink()).unwrap_err().to_string();
        assert!(error.contains("larger than 4 GiB"), "{error}");
    }
}
