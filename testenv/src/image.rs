//! Container images without a registry: a directory becomes a docker archive of one layer.
//!
//! The same directory always gives the same bytes: entries are sorted, owned by root and dated 1970.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// An image could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot put {} into an image", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

/// Name and run configuration of an image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Image<'a> {
    /// The name that Pods use, with a tag: `testenv.local/app:1`.
    pub name: &'a str,
    /// The program that runs if a Pod names none, with its arguments.
    pub entrypoint: &'a [&'a str],
    /// `NAME=value` pairs.
    pub environment: &'a [&'a str],
    /// User id to run as; root if empty.
    pub user: &'a str,
}

/// Writes the image with the content of the directory `root` to the file `archive`.
pub fn archive(image: &Image<'_>, root: &Path, archive: &Path) -> Result<(), Error> {
    let fails = |source| Error { path: archive.to_owned(), source };
    let mut layer = tempfile::tempfile().map_err(fails)?;
    let digest = write_layer(root, &mut layer)?;
    layer.rewind().map_err(fails)?;
    File::create(archive).and_then(|file| write_archive(image, &digest, &layer, file)).map_err(fails)
}

fn write_archive(image: &Image<'_>, digest: &str, layer: &File, file: File) -> io::Result<()> {
    let config = json!({
        "architecture": match std::env::consts::ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other },
        "os": "linux",
        "config": {"Entrypoint": image.entrypoint, "Env": image.environment, "User": image.user},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [image.name], "Layers": ["layer.tar"]}]);
    let mut archive = Builder::new(file);
    for (name, content) in [("manifest.json", manifest), ("config.json", config)] {
        let content = content.to_string();
        archive.append_data(&mut header(EntryType::Regular, 0o644, content.len() as u64), name, content.as_bytes())?;
    }
    let mut entry = header(EntryType::Regular, 0o644, layer.metadata()?.len());
    archive.append_data(&mut entry, "layer.tar", layer)?;
    archive.into_inner()?.flush()
}

/// Writes everything under `root` as a tar and returns its digest.
fn write_layer(root: &Path, to: impl Write) -> Result<String, Error> {
    let mut layer = Builder::new(Hashed { to, hash: Sha256::new() });
    append_content(&mut layer, root, Path::new(""))?;
    let finished = layer.into_inner().map_err(|source| Error { path: root.to_owned(), source })?;
    Ok(format!("{:x}", finished.hash.finalize()))
}

/// Appends the contents of the directory `path` as `name`, in sorted order.
fn append_content(layer: &mut Builder<impl Write>, path: &Path, name: &Path) -> Result<(), Error> {
    let list = || fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    let mut children = list().map_err(|source| Error { path: path.to_owned(), source })?;
    children.sort_unstable();
    for child in children {
        let (path, name) = (path.join(&child), name.join(&child));
        let metadata = append(layer, &path, &name).map_err(|source| Error { path: path.clone(), source })?;
        if metadata.is_dir() {
            append_content(layer, &path, &name)?;
        }
    }
    Ok(())
}

/// Appends one file, link or directory without its contents.
fn append(layer: &mut Builder<impl Write>, path: &Path, name: &Path) -> io::Result<Metadata> {
    let metadata = fs::symlink_metadata(path)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.is_symlink() {
        layer.append_link(&mut header(EntryType::Symlink, 0o777, 0), name, fs::read_link(path)?)?;
    } else if metadata.is_file() {
        layer.append_data(&mut header(EntryType::Regular, mode, metadata.len()), name, File::open(path)?)?;
    } else if metadata.is_dir() {
        layer.append_data(&mut header(EntryType::Directory, mode, 0), name, io::empty())?;
    } else {
        return Err(io::Error::other("neither a file nor a link nor a directory"));
    }
    Ok(metadata)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header
}

/// A writer that hashes what it forwards.
struct Hashed<W> {
    to: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        for name in ["sh", "cat", "ls"] {
            fs::write(dir.path().join("bin").join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("sh", dir.path().join("bin/ash")).unwrap();
        dir
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        let (first, second, out) = (sample(), sample(), tempfile::tempdir().unwrap());
        let image = Image { name: "testenv.local/x:1", entrypoint: &["/bin/sh"], ..Image::default() };
        let bytes = |root: &Path| {
            let file = out.path().join("x.tar");
            archive(&image, root, &file).unwrap();
            fs::read(file).unwrap()
        };
        assert_eq!(bytes(first.path()), bytes(second.path()));
    }

    #[test]
    fn a_layer_has_every_entry_in_order() {
        let mut layer = Vec::new();
        write_layer(sample().path(), &mut layer).unwrap();
        let mut read = tar::Archive::new(&layer[..]);
        let names: Vec<_> =
            read.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names, ["bin", "bin/ash", "bin/cat", "bin/ls", "bin/sh"]);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = archive(&Image::default(), Path::new("/no/such"), &std::env::temp_dir().join("never")).unwrap_err();
        assert_eq!(error.to_string(), "cannot put /no/such into an image");
    }
}
