use super::*;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};

const LIMITS: Limits = Limits { files: 10_000, bytes: 1 << 30 };

fn all() -> Patterns {
    Patterns::parse(&["."]).unwrap()
}

fn packed(root: &Path) -> (Vec<u8>, Packed) {
    let mut archive = Vec::new();
    let packed = pack(root, &all(), &[], LIMITS, &mut archive).unwrap();
    assert_eq!(packed.manifest.validate(), Ok(()));
    assert_eq!((packed.bytes, packed.digest), (archive.len() as u64, Digest::of(&archive)));
    (archive, packed)
}

fn paths(packed: &Packed) -> Vec<String> {
    packed.manifest.entries.iter().map(|entry| entry.path.to_string()).collect()
}

/// Calls `act` before the first bytes are written.
struct Interrupted<F: FnMut()> {
    act: Option<F>,
    archive: Vec<u8>,
}

impl<F: FnMut()> Write for Interrupted<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(mut act) = self.act.take() {
            act();
        }
        self.archive.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// More than the pool holds, so that its end is read after the first frame was written.
const LARGE: u64 = 64 << 20;

fn large(root: &Path, name: &str) -> PathBuf {
    let path = root.join(name);
    File::create(&path).unwrap().set_len(LARGE).unwrap();
    path
}

#[test]
fn zstd_and_tar_read_the_archive() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let long = format!("{}/{}", "d".repeat(150), "f".repeat(250));
    std::fs::create_dir_all(at(&long).parent().unwrap()).unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    for (path, content) in [("a", "A"), (&long, "long"), ("line\nbreak", "n"), ("run", "#!")] {
        std::fs::write(at(path), content).unwrap();
    }
    std::fs::write(at("big"), vec![7; 5 << 20]).unwrap();
    std::fs::set_permissions(at("run"), PermissionsExt::from_mode(0o4750)).unwrap();
    std::fs::set_permissions(at("a"), PermissionsExt::from_mode(0o1666)).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 987_654_321);
    File::open(at("a")).unwrap().set_modified(modified).unwrap();
    symlink("a", at("link")).unwrap();
    std::fs::hard_link(at("a"), at("same")).unwrap();
    let (archive, packed) = packed(root.path());
    assert_eq!(packed.files, 6);
    assert_eq!(packed.content_bytes, (5 << 20) + 1 + 4 + 1 + 2 + 1);
    assert_eq!(packed.manifest.find(&Name::new("a").unwrap()).unwrap().modified, Modified(1_234_567_890, 987_654_321));

    let tar = zstd::stream::decode_all(&archive[..]).unwrap();
    let mut read = BTreeMap::new();
    for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        assert_eq!((header.username_bytes(), header.groupname_bytes()), (Some(&b""[..]), Some(&b""[..])));
        let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        read.insert(path, (header.entry_type(), header.mode().unwrap(), content, target));
        if entry.path_bytes().as_ref() == b"a" {
            assert_eq!(entry.header().mtime().unwrap(), 1_234_567_890);
        }
    }
    let file = |mode: u32, content: &[u8]| (tar::EntryType::Regular, mode, content.to_vec(), Vec::new());
    let expected = BTreeMap::from([
        ("a".to_owned(), file(0o644, b"A")),
        ("big".to_owned(), file(0o644, &vec![7; 5 << 20])),
        (long, file(0o644, b"long")),
        ("empty/".to_owned(), (tar::EntryType::Directory, 0o755, Vec::new(), Vec::new())),
        ("line\nbreak".to_owned(), file(0o644, b"n")),
        ("link".to_owned(), (tar::EntryType::Symlink, 0o777, Vec::new(), b"a".to_vec())),
        ("run".to_owned(), file(0o755, b"#!")),
        ("same".to_owned(), file(0o644, b"A")),
    ]);
    assert!(read == expected, "{:?}", read.keys());
}

#[test]
fn the_same_files_give_the_same_bytes_with_any_number_of_threads() {
    let root = tempfile::tempdir().unwrap();
    for index in 0..700u32 {
        // In the order of their creation, directories list other orders.
        let path = root.path().join(format!("{}/{index}", index % 7));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content: Vec<_> = (0..index * 30).map(|byte| (byte.wrapping_mul(index | 1) >> 3) as u8).collect();
        std::fs::write(&path, content).unwrap();
    }
    let with = |workers: usize| {
        let walked = walk(root.path(), &all(), &[], LIMITS).unwrap();
        let mut archive = Vec::new();
        (pack_walked(walked, LIMITS, &mut archive, workers).unwrap(), archive)
    };
    let one = with(1);
    assert!(one.0.manifest.frames.len() > 3);
    assert!(one == with(4));
    let ends = one.0.manifest.frames.windows(2).map(|frames| frames[1].at - frames[0].at);
    assert!(ends.into_iter().all(|length| length == FRAME_BYTES as u64));
    // Each frame is complete in itself.
    let frame = &one.0.manifest.frames[1..3];
    let bytes = &one.1[frame[0].offset as usize..frame[1].offset as usize];
    assert_eq!(zstd::stream::decode_all(bytes).unwrap().len(), FRAME_BYTES);
}

#[test]
fn what_does_not_match_is_left_out_and_nothing_is_a_valid_set() {
    let root = tempfile::tempdir().unwrap();
    for path in ["dist/a", "dist/tmp/b", "src/c", ".git/d"] {
        std::fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
        std::fs::write(root.path().join(path), path).unwrap();
    }
    let with = |patterns: &[&str], exclude: &[&str]| {
        let exclude: Vec<_> = exclude.iter().map(|path| Name::new(*path).unwrap()).collect();
        pack(root.path(), &Patterns::parse(patterns).unwrap(), &exclude, LIMITS, io::sink()).unwrap()
    };
    assert_eq!(paths(&with(&["dist/**", "!dist/tmp/**"], &[])), ["dist/a"]);
    assert_eq!(paths(&with(&["."], &[".git", "dist/tmp"])), ["dist/a", "src/c"]);
    let nothing = with(&["*.log"], &[]);
    assert!(nothing.manifest.entries.is_empty());
    assert_eq!((nothing.files, nothing.content_bytes, nothing.manifest.validate()), (0, 0, Ok(())));
}

#[test]
fn links_that_lead_out_are_skipped_and_named() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    for (path, target) in [("d/in", "../x"), ("d/out", "../../x"), ("absolute", "/etc/passwd"), ("up", "..")] {
        symlink(target, root.path().join(path)).unwrap();
    }
    let (_, packed) = packed(root.path());
    assert_eq!(paths(&packed), ["d/in"]);
    let skipped: Vec<_> = packed.skipped.names.iter().map(|name| (name.path.to_string(), name.reason)).collect();
    let outside = |path: &str| (path.to_owned(), SkipReason::LinkOutside);
    assert_eq!(skipped, [outside("absolute"), outside("d/out"), outside("up")]);
    assert_eq!(packed.skipped.count, 3);
}

#[test]
fn a_file_that_shrinks_is_an_error_that_names_it() {
    let root = tempfile::tempdir().unwrap();
    let path = large(root.path(), "growing.log");
    let shrink = || File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    let out = Interrupted { act: Some(shrink), archive: Vec::new() };
    match pack(root.path(), &all(), &[], LIMITS, out) {
        Err(PackError::Shrank { path, expected: LARGE, found }) => {
            assert_eq!(path.as_bytes(), b"growing.log");
            assert!(found < LARGE);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_grows_is_stored_with_the_size_it_had() {
    let root = tempfile::tempdir().unwrap();
    let path = large(root.path(), "a");
    let grow = || File::options().append(true).open(&path).unwrap().write_all(&[1; 5000]).unwrap();
    let mut out = Interrupted { act: Some(grow), archive: Vec::new() };
    let packed = pack(root.path(), &all(), &[], LIMITS, &mut out).unwrap();
    assert_eq!(packed.content_bytes, LARGE);
    let tar = zstd::stream::decode_all(&out.archive[..]).unwrap();
    assert_eq!(tar.len() as u64, 512 + LARGE + 1024);
    assert!(std::fs::metadata(&path).unwrap().len() > LARGE);
}

#[test]
fn a_file_that_vanishes_or_is_replaced_is_skipped() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "secret").unwrap();
    large(root.path(), "a");
    std::fs::create_dir(root.path().join("empty")).unwrap();
    for path in ["dir/f", "fifo", "gone", "into-directory", "link", "rest"] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let change = || {
        let at = |path: &str| root.path().join(path);
        for path in ["dir/f", "fifo", "gone", "into-directory", "link"] {
            std::fs::remove_file(at(path)).unwrap();
        }
        std::fs::remove_dir(at("dir")).unwrap();
        std::fs::remove_dir(at("empty")).unwrap();
        symlink(outside.path(), at("empty")).unwrap();
        symlink(outside.path(), at("dir")).unwrap();
        symlink(outside.path().join("f"), at("link")).unwrap();
        std::fs::create_dir(at("into-directory")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    };
    let out = Interrupted { act: Some(change), archive: Vec::new() };
    let packed = pack(root.path(), &all(), &[], LIMITS, out).unwrap();
    assert_eq!(paths(&packed), ["a", "rest"]);
    let skipped: Vec<_> = packed.skipped.names.iter().map(|name| name.path.to_string()).collect();
    assert_eq!(skipped, ["dir/f", "empty", "fifo", "gone", "into-directory", "link"]);
    assert!(packed.skipped.names.iter().all(|name| name.reason == SkipReason::Vanished));
}

#[test]
fn what_contradicts_itself_is_an_error_and_no_archive() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    for path in ["d/f", "x"] {
        std::fs::write(root.path().join(path), path).unwrap();
    }
    let mut walked = walk(root.path(), &all(), &[], LIMITS).unwrap();
    // As if `d` had been listed as an empty directory, too.
    walked.found.insert(0, Found { path: Name::new("d").unwrap(), kind: FoundKind::Directory });
    let result = pack_walked(walked, LIMITS, io::sink(), 1);
    assert!(matches!(result, Err(PackError::Moved(ManifestError::Below { .. }))));
}

#[test]
fn a_file_that_grew_over_the_limit_since_it_was_found_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "12345").unwrap();
    let limits = Limits { files: 1, bytes: 5 };
    let walked = walk(root.path(), &all(), &[], limits).unwrap();
    std::fs::write(root.path().join("a"), "123456").unwrap();
    let result = pack_walked(walked, limits, io::sink(), 1);
    assert!(matches!(result, Err(PackError::Walk(WalkError::TooManyBytes { limit: 5 }))));
}

#[test]
fn an_output_that_fails_ends_the_packing() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let root = tempfile::tempdir().unwrap();
    large(root.path(), "a");
    let result = pack(root.path(), &all(), &[], LIMITS, Full);
    assert!(matches!(result, Err(PackError::Write(error)) if error.kind() == io::ErrorKind::StorageFull));
}
