use super::*;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use proptest::prelude::*;

use crate::manifest::VERSION;
use crate::name::LinkTarget;
use crate::{Patterns, pack};

const LIMITS: Limits = Limits { files: 100_000, bytes: 1 << 30 };

fn packed(root: &Path) -> (Vec<u8>, Manifest) {
    let mut archive = Vec::new();
    let packed = pack(root, &Patterns::parse(&["."]).unwrap(), &[], LIMITS, &mut archive).unwrap();
    // What callers have went through JSON.
    let manifest = serde_json::from_slice(&serde_json::to_vec(&packed.manifest).unwrap()).unwrap();
    assert_eq!(packed.manifest, manifest);
    (archive, manifest)
}

/// Path, type and permissions, modification time, content or link target of everything below, except directories that
/// are not empty.
type Listed = (Vec<u8>, u32, (i64, i64), Vec<u8>);

fn list(root: &Path) -> Vec<Listed> {
    let mut listed = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_dir() {
                if std::fs::read_dir(&path).unwrap().next().is_some() {
                    pending.push(path);
                    continue;
                }
                Vec::new()
            } else if metadata.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else {
                std::fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            listed.push((name, metadata.mode(), (metadata.mtime(), metadata.mtime_nsec()), content));
        }
    }
    listed.sort();
    listed
}

/// Bytes that do not compress to nothing.
fn noise(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| ((index ^ seed).wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

fn round_trip(root: &Path) -> Manifest {
    let (archive, manifest) = packed(root);
    let target = tempfile::tempdir().unwrap();
    let unpacked = unpack(&archive[..], &manifest, target.path(), LIMITS).unwrap();
    assert_eq!(unpacked, Unpacked { files: manifest.files(), bytes: manifest.content_bytes() });
    assert!(list(root) == list(target.path()));
    manifest
}

#[test]
fn files_links_and_empty_directories_return_with_their_times() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &[u8]| root.path().join(std::ffi::OsStr::from_bytes(path));
    let deep = [vec![b'd'; 200], vec![b'e'; 200]].join(&b'/');
    for directory in [&b"a/b/c"[..], b"empty/inner", &deep] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    let long = [&deep[..], b"/file"].concat();
    for path in [&b"a/x"[..], b"a/b/c/y", b"line\nbreak", b"\xff\xfe", b"-", b" ", b"a/\\", &long] {
        std::fs::write(at(path), path).unwrap();
    }
    std::fs::write(at(b"zero"), "").unwrap();
    std::fs::write(at(b"a/run"), "#!/bin/sh").unwrap();
    std::fs::set_permissions(at(b"a/run"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("a/x", at(b"link")).unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"b/../\xff").to_string_lossy().replace("b/../", "./"), at(b"a/dangling"))
        .unwrap();
    symlink(at(&long).strip_prefix(root.path()).unwrap(), at(b"long-link")).unwrap();
    symlink("a", at(b"directory-link")).unwrap();
    let manifest = round_trip(root.path());
    assert_eq!(manifest.entries.len(), 15);
}

#[test]
fn many_files_and_a_file_over_many_frames_return() {
    let root = tempfile::tempdir().unwrap();
    for index in 0..3000 {
        let path = root.path().join(format!("{}/{}/{index}", index % 10, index % 3));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, noise(index, index)).unwrap();
    }
    std::fs::write(root.path().join("5/large"), noise(1, 9_000_000)).unwrap();
    // A sparse file returns with its content.
    File::create(root.path().join("sparse")).unwrap().set_len(5 << 20).unwrap();
    assert!(round_trip(root.path()).frames.len() > 8);
}

#[test]
fn headers_contents_and_the_end_may_cross_the_border_of_frames() {
    for blocks in 1..9 {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), noise(3, FRAME_BYTES - 512 * blocks - blocks)).unwrap();
        // Its headers are four blocks long.
        let long = root.path().join("l".repeat(200));
        std::fs::create_dir(&long).unwrap();
        std::fs::write(long.join("m".repeat(200)), "content").unwrap();
        symlink("n".repeat(150), root.path().join("z")).unwrap();
        round_trip(root.path());
        std::fs::remove_dir_all(&long).unwrap();
        std::fs::remove_file(root.path().join("z")).unwrap();
        round_trip(root.path());
    }
}

#[test]
fn an_empty_set_is_unpacked() {
    round_trip(tempfile::tempdir().unwrap().path());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_names_and_contents_return(
        files in prop::collection::vec(
            (
                prop::collection::vec("[^/\0]{1,60}", 1..5),
                prop::collection::vec(any::<u8>(), 0..2000),
                any::<bool>(),
            ),
            0..20,
        )
    ) {
        let root = tempfile::tempdir().unwrap();
        for (components, content, raw) in files {
            let mut path = root.path().to_owned();
            for component in components {
                let mut bytes = component.into_bytes();
                if raw {
                    bytes.push(0xff);
                }
                path.push(std::ffi::OsStr::from_bytes(&bytes));
            }
            let plain = path.components().all(|component| component != std::path::Component::ParentDir);
            // A file may be in the way of a directory and the reverse; then there is one file less.
            if plain && std::fs::create_dir_all(path.parent().unwrap()).is_ok() {
                let _ = std::fs::write(path, content);
            }
        }
        round_trip(root.path());
    }
}

// Hostile archives

fn name(path: &str) -> Name {
    Name::new(path).unwrap()
}

/// The manifest of files with these contents.
fn claim(files: &[(&str, &[u8])]) -> Manifest {
    let mut at = 0;
    let entries = files.iter().map(|(path, content)| {
        let bytes = content.len() as u64;
        let kind = |at| Kind::File { bytes, sha256: Digest::of(content), executable: false, at };
        let mut entry = Entry { path: name(path), modified: Modified(7, 0), kind: kind(0) };
        let start = at + headers_len(&entry);
        entry.kind = kind(start);
        at = start + bytes.next_multiple_of(512);
        entry
    });
    let frames = vec![Frame { at: 0, offset: 0 }];
    Manifest { version: VERSION, bytes: 0, entries: entries.collect(), frames }
}

/// The honest tar of `claim`.
fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (entry, (_, content)) in claim(files).entries.iter().zip(files) {
        write_headers(entry, &mut tar);
        tar.extend_from_slice(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn header(kind: tar::EntryType, path: &str, target: &str, bytes: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(7);
    // By hand: the library refuses such names.
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    header.as_bytes().to_vec()
}

struct Case {
    directory: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for path in ["target", "outside"] {
            std::fs::create_dir(directory.path().join(path)).unwrap();
        }
        std::fs::write(directory.path().join("outside/kept"), "kept").unwrap();
        Self { directory }
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("target")
    }

    fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// Unpacks a tar whose frames are those that its manifest implies; nothing outside of the target changes.
    fn unpack(&self, tar: &[u8], manifest: &Manifest) -> Result<Unpacked, UnpackError> {
        let (mut archive, mut frames) = (Vec::new(), Vec::new());
        let last = Layout::of(manifest).unwrap().len().div_ceil(FRAME_BYTES as u64) - 1;
        for frame in 0..=last {
            let at = frame * FRAME_BYTES as u64;
            frames.push(Frame { at, offset: archive.len() as u64 });
            let end = if frame == last { tar.len() } else { at as usize + FRAME_BYTES };
            archive.extend(zstd::bulk::compress(&tar[at as usize..end], 3).unwrap());
        }
        let manifest = Manifest { bytes: archive.len() as u64, frames, ..manifest.clone() };
        let before = list(&self.outside());
        let result = unpack(&archive[..], &manifest, &self.target(), LIMITS);
        assert_eq!(list(&self.outside()), before);
        assert_eq!(std::fs::read_dir(self.directory.path()).unwrap().count(), 2);
        result
    }
}

#[test]
fn an_archive_contains_nothing_that_its_manifest_does_not_list() {
    use tar::EntryType;
    let files: &[(&str, &[u8])] = &[("a", b"one"), ("b", b"two")];
    let honest = tar_of(files);
    let foreign = |from: &[u8], expected: &str| {
        let case = Case::new();
        // In place of the second file.
        let mut tar = honest.clone();
        tar[1024..1024 + from.len()].copy_from_slice(from);
        match case.unpack(&tar, &claim(files)) {
            Err(UnpackError::Foreign { path, found }) => {
                assert_eq!(path, name("b"));
                assert!(found.contains(expected), "{found}");
            }
            other => panic!("{expected}: {other:?}"),
        }
        assert!(!case.target().join("b").exists());
    };
    foreign(&header(EntryType::Regular, "../outside/x", "", 3), r#"a file named "../outside/x" of 3 bytes"#);
    foreign(&header(EntryType::Regular, "/tmp/x", "", 3), r#"a file named "/tmp/x""#);
    foreign(&header(EntryType::Regular, "c", "", 3), r#"a file named "c""#);
    foreign(&header(EntryType::Regular, "b", "", 1 << 40), "of 1099511627776 bytes");
    foreign(&header(EntryType::Symlink, "b", "../outside", 0), "a symbolic link named \"b\"");
    foreign(&header(EntryType::Link, "b", "/etc/passwd", 0), "a hard link named \"b\"");
    foreign(&header(EntryType::Link, "b", "a", 0), "a hard link");
    foreign(&header(EntryType::Char, "b", "", 0), "a device");
    foreign(&header(EntryType::Block, "b", "", 0), "a device");
    foreign(&header(EntryType::Fifo, "b", "", 0), "a named pipe");
    foreign(&header(EntryType::Directory, "b", "", 0), "a directory");
    foreign(&header(EntryType::GNUSparse, "b", "", 3), "a sparse file");
    foreign(&header(EntryType::XHeader, "b", "", 3), "a PAX header");
    foreign(&header(EntryType::GNULongName, "b", "", 3), "a long name");
    foreign(&header(EntryType::new(b'?'), "b", "", 3), "an unknown kind");
    foreign(&[0; 512], "no entry of a tar");
    let mut setuid = tar::Header::from_byte_slice(&honest[1024..1536]).clone();
    setuid.set_mode(0o4755);
    setuid.set_cksum();
    foreign(setuid.as_bytes(), "a file named \"b\"");
    let case = Case::new();
    case.unpack(&honest, &claim(files)).unwrap();
    assert_eq!(std::fs::read(case.target().join("b")).unwrap(), b"two");
}

#[test]
fn bytes_between_and_behind_files_are_refused() {
    let files: &[(&str, &[u8])] = &[("a", b"one")];
    let (honest, manifest) = (tar_of(files), claim(files));
    for position in [512 + 3, 1023] {
        let mut tar = honest.clone();
        tar[position] = 1;
        assert!(matches!(Case::new().unpack(&tar, &manifest), Err(UnpackError::Foreign { .. })), "{position}");
    }
    for position in [1024, honest.len() - 1] {
        let mut tar = honest.clone();
        tar[position] = 1;
        assert!(matches!(Case::new().unpack(&tar, &manifest), Err(UnpackError::AfterEnd)), "{position}");
    }
    let longer = [&honest[..], &[0; 512]].concat();
    let shorter = &honest[..honest.len() - 512];
    // A longer frame does not even fit.
    assert!(matches!(Case::new().unpack(&longer, &manifest), Err(UnpackError::Frame { frame: 0, .. })));
    let short = Case::new().unpack(shorter, &manifest);
    assert!(matches!(short, Err(UnpackError::FrameLength { frame: 0, expected: 2048, found: 1536 })));
}

#[test]
fn headers_that_cross_the_border_of_frames_are_compared_too() {
    // The headers of the second file begin 512 bytes before the border; those of the third lie in the second frame, and
    // its content ends in the third.
    let first = noise(1, FRAME_BYTES - 1024);
    let third = noise(2, FRAME_BYTES);
    let long = "l".repeat(120);
    let files: &[(&str, &[u8])] = &[("a", &first), (&long, b"two"), ("m", &third)];
    let (honest, manifest) = (tar_of(files), claim(files));
    Case::new().unpack(&honest, &manifest).unwrap();
    let starts = Layout::of(&manifest).unwrap();
    let [second, third] = [1, 2].map(|item| starts.start(item) as usize);
    assert_eq!(second, FRAME_BYTES - 512);
    for (position, path) in [(second, &long[..]), (second + 600, &long), (second + 1024, &long), (third, "m")] {
        let mut tar = honest.clone();
        tar[position] ^= 1;
        let case = Case::new();
        match case.unpack(&tar, &manifest) {
            Err(UnpackError::Foreign { path: found, .. }) => assert_eq!(found, name(path), "{position}"),
            other => panic!("{position}: {other:?}"),
        }
        assert!(!case.target().join(path).exists());
    }
}

#[test]
fn a_bomb_is_refused_before_it_unfolds() {
    let manifest = claim(&[("a", b"one")]);
    let bomb = vec![0; 64 << 20];
    let case = Case::new();
    assert!(matches!(case.unpack(&bomb, &manifest), Err(UnpackError::Frame { frame: 0, .. })));
    // An honest bomb is a matter of limits.
    let root = tempfile::tempdir().unwrap();
    File::create(root.path().join("zeros")).unwrap().set_len(1 << 20).unwrap();
    std::fs::create_dir(root.path().join("empty")).unwrap();
    let (archive, manifest) = packed(root.path());
    for limits in [Limits { files: 2, bytes: (1 << 20) - 1 }, Limits { files: 1, bytes: 1 << 20 }] {
        let result = unpack(&archive[..], &manifest, &case.target(), limits);
        assert!(matches!(result, Err(UnpackError::TooMuch { files: 2, bytes: 1_048_576, .. })));
    }
    assert_eq!(list(&case.target()), []);
    unpack(&archive[..], &manifest, &case.target(), Limits { files: 2, bytes: 1 << 20 }).unwrap();
}

#[test]
fn a_manifest_that_lies_is_refused() {
    let files: &[(&str, &[u8])] = &[("a", b"one")];
    let tar = tar_of(files);
    let with = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = claim(files);
        change(&mut manifest);
        let case = Case::new();
        let error = case.unpack(&tar, &manifest).unwrap_err();
        assert_eq!(list(&case.target()), [], "{error}");
        error
    };
    let kind = |bytes: u64, content: &[u8], executable: bool| Kind::File {
        bytes,
        sha256: Digest::of(content),
        executable,
        at: 512,
    };
    assert!(matches!(with(&|manifest| manifest.version = 2), UnpackError::Manifest(ManifestError::Version(2))));
    let wrong = with(&|manifest| manifest.entries[0].kind = kind(3, b"two", false));
    assert!(matches!(wrong, UnpackError::Digest { .. }));
    let wrong = with(&|manifest| manifest.entries[0].kind = kind(2, b"on", false));
    assert!(matches!(wrong, UnpackError::Foreign { .. }));
    let wrong = with(&|manifest| manifest.entries[0].kind = kind(3, b"one", true));
    assert!(matches!(wrong, UnpackError::Foreign { .. }));
    assert!(matches!(with(&|manifest| manifest.entries[0].path = name("b")), UnpackError::Foreign { .. }));
    assert!(matches!(with(&|manifest| manifest.entries[0].modified = Modified(8, 0)), UnpackError::Foreign { .. }));
    assert!(matches!(with(&|manifest| manifest.entries.clear()), UnpackError::Frame { .. }));
    let kind = || Kind::Link { target: LinkTarget::new("/etc").unwrap() };
    assert!(matches!(with(&|manifest| manifest.entries[0].kind = kind()), UnpackError::Manifest(_)));
}

#[test]
fn a_truncated_a_longer_or_a_damaged_archive_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), noise(1, 300)).unwrap();
    std::fs::write(root.path().join("b"), "b").unwrap();
    let (archive, manifest) = packed(root.path());
    let attempt = |archive: &[u8]| {
        let target = tempfile::tempdir().unwrap();
        unpack(archive, &manifest, target.path(), LIMITS).map(|_| list(target.path()))
    };
    let whole = attempt(&archive).unwrap();
    for length in 0..archive.len() {
        let result = attempt(&archive[..length]);
        assert!(matches!(result, Err(UnpackError::Short { .. })), "{length}");
    }
    assert!(matches!(attempt(&[&archive[..], b"x"].concat()), Err(UnpackError::Long { .. })));
    for position in 0..archive.len() {
        let mut damaged = archive.clone();
        damaged[position] ^= 0x10;
        if let Ok(listed) = attempt(&damaged) {
            assert!(listed == whole, "{position}");
        }
    }
}

#[test]
fn a_file_of_several_frames_that_fails_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("large"), noise(1, 3 * FRAME_BYTES)).unwrap();
    let (archive, mut manifest) = packed(root.path());
    let case = Case::new();
    let cut = &archive[..archive.len() - 10];
    assert!(matches!(unpack(cut, &manifest, &case.target(), LIMITS), Err(UnpackError::Short { .. })));
    assert_eq!(list(&case.target()), []);
    let Kind::File { sha256, .. } = &mut manifest.entries[0].kind else { panic!() };
    *sha256 = Digest([1; 32]);
    assert!(matches!(unpack(&archive[..], &manifest, &case.target(), LIMITS), Err(UnpackError::Digest { .. })));
    assert_eq!(list(&case.target()), []);
}

#[test]
fn nothing_is_written_through_links_that_are_in_the_target() {
    let files: &[(&str, &[u8])] = &[("d/a", b"one"), ("f", b"two")];
    let case = Case::new();
    // A link in place of a directory.
    symlink(case.outside(), case.target().join("d")).unwrap();
    match case.unpack(&tar_of(files), &claim(files)) {
        Err(UnpackError::NotADirectory(path)) => assert_eq!(path, name("d")),
        other => panic!("{other:?}"),
    }
    // A link in place of a file is replaced, not followed.
    std::fs::remove_file(case.target().join("d")).unwrap();
    let _ = std::fs::remove_file(case.target().join("f"));
    symlink(case.outside().join("kept"), case.target().join("f")).unwrap();
    case.unpack(&tar_of(files), &claim(files)).unwrap();
    assert!(case.target().join("f").symlink_metadata().unwrap().is_file());
    // A file in place of a directory.
    let case = Case::new();
    std::fs::write(case.target().join("d"), "in the way").unwrap();
    assert!(matches!(case.unpack(&tar_of(files), &claim(files)), Err(UnpackError::NotADirectory(_))));
    // A directory in place of a file.
    let case = Case::new();
    std::fs::create_dir_all(case.target().join("f/inner")).unwrap();
    match case.unpack(&tar_of(files), &claim(files)) {
        Err(UnpackError::IsADirectory(path)) => assert_eq!(path, name("f")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_exists_is_replaced_and_the_rest_stays() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("d/empty")).unwrap();
    std::fs::write(root.path().join("d/file"), "new").unwrap();
    symlink("file", root.path().join("d/link")).unwrap();
    let (archive, manifest) = packed(root.path());
    let case = Case::new();
    let at = |path: &str| case.target().join(path);
    std::fs::create_dir_all(at("d/empty/not")).unwrap();
    std::fs::write(at("d/file"), "an older file, which is longer").unwrap();
    std::fs::hard_link(at("d/file"), at("d/other")).unwrap();
    std::fs::set_permissions(at("d/file"), PermissionsExt::from_mode(0o444)).unwrap();
    symlink(case.outside(), at("d/link")).unwrap();
    unpack(&archive[..], &manifest, &case.target(), LIMITS).unwrap();
    assert_eq!(std::fs::read_to_string(at("d/file")).unwrap(), "new");
    assert_eq!(std::fs::read_to_string(at("d/other")).unwrap(), "an older file, which is longer");
    assert_eq!(std::fs::read_link(at("d/link")).unwrap(), Path::new("file"));
    assert!(at("d/empty/not").is_dir());
    unpack(&archive[..], &manifest, &case.target(), LIMITS).unwrap();
    // A link in place of an empty directory is not taken for one.
    std::fs::remove_dir_all(at("d/empty")).unwrap();
    symlink(case.outside(), at("d/empty")).unwrap();
    let result = unpack(&archive[..], &manifest, &case.target(), LIMITS);
    assert!(matches!(result, Err(UnpackError::NotADirectory(path)) if path == name("d/empty")));
}

#[test]
fn a_missing_target_is_an_error() {
    let case = Case::new();
    let (archive, manifest) = packed(&case.outside());
    let missing = unpack(&archive[..], &manifest, &case.target().join("missing"), LIMITS);
    assert!(matches!(missing, Err(UnpackError::Target { .. })));
}
