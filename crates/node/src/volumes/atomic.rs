//! Atomic update of all files of a volume.
//!
//! The files are in a directory of their own, `..data` links to it, and each name in the volume links through `..data`.
//! Replacing that one link updates everything, so readers never see a partial update.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, fchown, symlink},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use super::payload::Payload;

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Writes `files` to the volume at `dir`. With a group, the group owns them and may read them.
pub(crate) fn write(dir: &Path, files: &Payload, group: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("..{}", since.as_nanos());
    let fresh = dir.join(&name);
    fs::create_dir(&fresh)?;
    for (path, file) in files {
        let target = fresh.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        // Other users may not read it before it has its mode.
        let mut draft = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
        draft.write_all(&file.content)?;
        let mode = if group.is_some() { file.mode | 0o440 } else { file.mode };
        if group.is_some() {
            fchown(&draft, None, group)?;
        }
        draft.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    let old = fs::read_link(dir.join(DATA)).ok();
    let _ = fs::remove_file(dir.join(NEXT));
    symlink(&name, dir.join(NEXT))?;
    fs::rename(dir.join(NEXT), dir.join(DATA))?;
    link_names(dir, files)?;
    if let Some(old) = old {
        fs::remove_dir_all(dir.join(old))?;
    }
    Ok(())
}

/// Links the first component of every path, and removes the links of removed paths.
fn link_names(dir: &Path, files: &Payload) -> io::Result<()> {
    let wanted: std::collections::BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(name.as_ref()) {
            fs::remove_file(dir.join(name.as_ref()))?;
        }
    }
    for name in wanted {
        let link = dir.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(name), link)?;
        }
    }
    Ok(())
}

/// Creates a directory that all Pod users may write to; with a group, its content belongs to the group.
pub(crate) fn open_directory(dir: &Path, group: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mode = match group {
        Some(group) => {
            if dir.metadata()?.gid() != group {
                chown(dir, None, Some(group))?;
            }
            0o2777
        }
        None => 0o777,
    };
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::payload::File;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |content: &str| File { content: content.into(), mode: 0o640 };
        files.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect()
    }

    #[test]
    fn an_update_replaces_everything_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        write(&volume, &payload(&[("a", "1"), ("dir/b", "2")]), None).unwrap();
        assert_eq!(fs::read_to_string(volume.join("dir/b")).unwrap(), "2");
        assert_eq!(fs::metadata(volume.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        let before = fs::read_link(volume.join(DATA)).unwrap();

        write(&volume, &payload(&[("a", "new"), ("c", "3")]), None).unwrap();
        assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "new");
        assert!(!volume.join("dir").exists() && !volume.join(before).exists());
        let mut names: Vec<_> = fs::read_dir(&volume).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| !name.to_string_lossy().starts_with(".."));
        names.sort();
        assert_eq!(names, ["a", "c"]);
    }
}
