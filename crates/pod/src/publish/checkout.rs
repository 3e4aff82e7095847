//! The agent's checkout, read as text and by names of files: git never runs in it.
//!
//! The agent wrote every byte of it. So sizes are bounded, no path leads out of the workspace, and of the objects only
//! files whose names git would choose are used: no list of other object directories, no index over packs, no graph.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

/// Bytes of a small file: a reference, `HEAD`, the path of a repository.
const MOST_LINE: u64 = 8 << 10;
/// Bytes of the list of the ends of a shallow history, and of the list of ignored files.
const MOST_LIST: u64 = 1 << 20;
/// Bytes of `packed-refs`. Those of very large repositories take megabytes.
const MOST_PACKED: u64 = 64 << 20;
/// Objects in files of their own.
const MOST_OBJECTS: usize = 500_000;
/// Packs.
const MOST_PACKS: usize = 10_000;
/// References that name another one.
const MOST_HOPS: usize = 5;
/// Links on the way to a file, as in Linux.
const MOST_LINKS: usize = 40;

/// Why the commits of a checkout cannot be used. Completes "The agent's commits are not published, because …".
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("the checkout has no .git")]
    NoRepository,
    #[error("{0} of the checkout leads out of the workspace")]
    Outside(&'static str),
    #[error("{0} of the checkout cannot be read")]
    Unreadable(&'static str),
    #[error("HEAD of the checkout names no commit")]
    NoCommit,
    #[error("the checkout has more than {MOST_OBJECTS} objects or {MOST_PACKS} packs")]
    TooMany,
    #[error("they cannot be copied: {0}")]
    Copy(io::Error),
}

/// A repository of the agent.
#[derive(Debug)]
pub struct Checkout {
    root: Root,
    /// The directory of references and objects.
    common: PathBuf,
    /// The checked-out commit.
    pub head: Result<String, Unusable>,
    /// The commit that was checked out first, if the agent says the truth.
    pub start: Option<String>,
    /// The ends of a shallow history.
    pub shallow: Vec<String>,
    /// Patterns of ignored files that are in no commit.
    pub ignored: Vec<u8>,
}

impl Checkout {
    /// Reads the repository of a work tree. No link may lead out of `workspace`, which contains it.
    pub fn read(workspace: &Path, work_tree: &Path) -> Result<Self, Unusable> {
        let root = Root::new(workspace);
        let git = root.find(work_tree, Path::new(".git")).ok_or(Unusable::Outside(".git"))?;
        let directory = match std::fs::symlink_metadata(&git) {
            Ok(metadata) if metadata.is_dir() => git,
            Ok(metadata) if metadata.is_file() => {
                let text = small(&git).ok_or(Unusable::Unreadable(".git"))?;
                let path = text.strip_prefix("gitdir: ").ok_or(Unusable::Unreadable(".git"))?;
                root.find(work_tree, Path::new(path)).ok_or(Unusable::Outside(".git"))?
            }
            _ => return Err(Unusable::NoRepository),
        };
        let file = |directory: &Path, name: &str| root.find(directory, Path::new(name));
        // Only a linked work tree has this file.
        let common = match file(&directory, "commondir").and_then(|file| small(&file)) {
            Some(path) => root.find(&directory, Path::new(&path)).ok_or(Unusable::Outside("commondir"))?,
            None => directory.clone(),
        };
        let head = file(&directory, "HEAD").and_then(|file| small(&file)).ok_or(Unusable::Unreadable("HEAD"));
        let head = head.and_then(|text| commit_of(&root, &common, &text, 0).ok_or(Unusable::NoCommit));
        let start = file(&directory, "logs/HEAD").and_then(|file| first_line(&file));
        let start = start.and_then(|line| line.split(' ').nth(1).filter(|id| is_id(id)).map(str::to_owned));
        let shallow = file(&common, "shallow").and_then(|file| bounded(&file, MOST_LIST)).unwrap_or_default();
        let shallow = String::from_utf8_lossy(&shallow);
        let shallow = shallow.lines().filter(|line| is_id(line)).map(str::to_owned).collect();
        let ignored = file(&common, "info/exclude").and_then(|file| bounded(&file, MOST_LIST)).unwrap_or_default();
        Ok(Self { root, common, head, start, shallow, ignored })
    }

    /// Puts links to the agent's objects into the directory of objects of a new repository.
    pub fn link_objects(&self, into: &Path) -> Result<(), Unusable> {
        let objects = self.root.find(&self.common, Path::new("objects")).ok_or(Unusable::Outside("objects"))?;
        let (mut loose, mut packs) = (0, 0);
        for directory in names(&objects).map_err(|_| Unusable::Unreadable("objects"))? {
            let is_pack = directory == "pack";
            if !is_pack && !is_hex(&directory, 2..=2) {
                continue;
            }
            let Some(from) = self.root.find(&objects, Path::new(&directory)).filter(|from| from.is_dir()) else {
                continue;
            };
            let to = into.join(&directory);
            std::fs::create_dir_all(&to).map_err(Unusable::Copy)?;
            for name in names(&from).map_err(|_| Unusable::Unreadable("objects"))? {
                let wanted = if is_pack { is_pack_file(&name) } else { is_hex(&name, 38..=62) };
                let count = if is_pack { &mut packs } else { &mut loose };
                let file = from.join(&name);
                if !wanted || !is_file(&file) {
                    continue;
                }
                *count += 1;
                if loose > MOST_OBJECTS || packs > 2 * MOST_PACKS {
                    return Err(Unusable::TooMany);
                }
                symlink(file, to.join(name)).map_err(Unusable::Copy)?;
            }
        }
        Ok(())
    }
}

/// The directory that no path of the agent leads out of.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// As containers name it: it may contain links of ours.
    given: PathBuf,
}

impl Root {
    fn new(given: &Path) -> Self {
        Self { path: std::fs::canonicalize(given).unwrap_or_else(|_| given.to_owned()), given: given.to_owned() }
    }

    fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given)).ok()
    }

    /// The path without links, seen from a directory. `None` if it leads out of the root.
    fn find(&self, from: &Path, path: &Path) -> Option<PathBuf> {
        let mut walked: Vec<OsString> = Vec::new();
        let mut ahead: VecDeque<OsString> = VecDeque::new();
        let push = |ahead: &mut VecDeque<OsString>, path: &Path| {
            for part in path.components().rev() {
                match part {
                    Component::Normal(name) => ahead.push_front(name.to_owned()),
                    Component::ParentDir => ahead.push_front("..".into()),
                    Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
                }
            }
        };
        push(&mut ahead, if path.is_absolute() { self.below(path)? } else { path });
        if !path.is_absolute() {
            push(&mut ahead, self.below(from)?);
        }
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                walked.pop()?;
                continue;
            }
            let here: PathBuf =
                std::iter::once(self.path.as_os_str()).chain(walked.iter().map(OsString::as_os_str)).collect();
            let Ok(target) = std::fs::read_link(here.join(&name)) else {
                walked.push(name);
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            if target.is_absolute() {
                walked.clear();
                push(&mut ahead, self.below(&target)?);
            } else {
                push(&mut ahead, &target);
            }
        }
        Some(self.path.iter().chain(walked.iter().map(OsString::as_os_str)).collect())
    }
}

/// The commit that the text of `HEAD` or of a reference names.
fn commit_of(root: &Root, common: &Path, text: &str, hops: usize) -> Option<String> {
    let Some(name) = text.strip_prefix("ref: ") else {
        return is_id(text).then(|| text.to_owned());
    };
    let plain = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if hops == MOST_HOPS || !name.starts_with("refs/") || !plain || name.chars().any(char::is_control) {
        return None;
    }
    match root.find(common, Path::new(name)).and_then(|file| small(&file)) {
        Some(text) => commit_of(root, common, &text, hops + 1),
        None => packed(&root.find(common, Path::new("packed-refs"))?, name),
    }
}

fn packed(file: &Path, name: &str) -> Option<String> {
    let mut reader = BufReader::new(open(file)?.take(MOST_PACKED));
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let text = std::str::from_utf8(&line).ok().and_then(|line| line.trim_end_matches('\n').split_once(' '));
        if let Some((id, found)) = text
            && found == name
            && is_id(id)
        {
            return Some(id.to_owned());
        }
    }
}

/// The text of a small file, without the line end.
fn small(file: &Path) -> Option<String> {
    let text = String::from_utf8(bounded(file, MOST_LINE)?).ok()?;
    Some(text.trim_end_matches(['\n', '\r', ' ']).to_owned())
}

fn first_line(file: &Path) -> Option<String> {
    let mut line = String::new();
    BufReader::new(open(file)?.take(MOST_LINE)).read_line(&mut line).ok()?;
    Some(line)
}

/// The content; `None` if there is none, or more.
fn bounded(file: &Path, most: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    open(file)?.take(most + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= most).then_some(content)
}

/// Opens a regular file, and does not wait on anything else.
fn open(file: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let opened = File::options().read(true).custom_flags(flags.cast_signed()).open(file).ok()?;
    opened.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(opened)
}

fn is_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    std::fs::read_dir(directory)?.take(2 * MOST_OBJECTS).map(|entry| Ok(entry?.file_name())).collect()
}

fn is_hex(name: &OsStr, lengths: std::ops::RangeInclusive<usize>) -> bool {
    let lower = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    name.to_str().is_some_and(|name| lengths.contains(&name.len()) && name.as_bytes().iter().all(lower))
}

fn is_pack_file(name: &OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".pack").or_else(|| name.strip_suffix(".idx")));
    stem.and_then(|stem| stem.strip_prefix("pack-")).is_some_and(|id| is_hex(id.as_ref(), 40..=64))
}

/// Whether a text is the full id of an object.
pub fn is_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && is_hex(text.as_ref(), 40..=64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    struct Case(tempfile::TempDir);

    impl Case {
        /// A work tree `ws/app` and files below the directory of the case.
        fn new(files: &[(&str, &str)]) -> Self {
            let case = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir_all(case.path("ws/app")).unwrap();
            for (path, content) in files {
                let path = case.path(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, content).unwrap();
            }
            case
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn read(&self) -> Result<Checkout, Unusable> {
            Checkout::read(&self.path("ws"), &self.path("ws/app"))
        }

        fn head(&self) -> Result<String, String> {
            self.read().and_then(|checkout| checkout.head).map_err(|unusable| unusable.to_string())
        }
    }

    #[test]
    fn the_commit_is_found_behind_references_and_in_packs_of_them() {
        let line = &format!("{ID}\n");
        let packed = &format!("# pack-refs with: peeled\n{ID} refs/heads/other\n{ID} refs/heads/main\n^{ID}\n");
        let main = ("ws/app/.git/HEAD", "ref: refs/heads/main\n");
        for files in [
            &[("ws/app/.git/HEAD", line.as_str())][..],
            &[main, ("ws/app/.git/refs/heads/main", line)],
            &[main, ("ws/app/.git/refs/heads/main", "ref: refs/heads/x"), ("ws/app/.git/refs/heads/x", line)],
            &[main, ("ws/app/.git/packed-refs", packed)],
            &[("ws/app/.git", "gitdir: ../store/work\n"), ("ws/store/work/HEAD", line)],
            &[
                ("ws/app/.git", "gitdir: ../main/.git/worktrees/app\n"),
                ("ws/main/.git/worktrees/app/HEAD", "ref: refs/heads/main\n"),
                ("ws/main/.git/worktrees/app/commondir", "../..\n"),
                ("ws/main/.git/refs/heads/main", line),
            ],
        ] {
            assert_eq!(Case::new(files).head().as_deref(), Ok(ID), "{files:?}");
        }
    }

    #[test]
    fn nothing_is_read_outside_of_the_workspace_and_nothing_without_limit() {
        let main = ("ws/app/.git/HEAD", "ref: refs/heads/main\n");
        let huge = "x".repeat((8 << 10) + 1);
        for files in [
            &[("ws/app/.git", "gitdir: ../../secret\n"), ("secret/HEAD", ID)][..],
            &[("ws/app/.git", "gitdir: /etc\n")],
            &[("ws/app/.git/HEAD", "ref: refs/../../../../secret\n"), ("secret", ID)],
            &[("ws/app/.git/HEAD", "ref: refs/heads/a\nb\n"), ("ws/app/.git/refs/heads/a\nb", ID)],
            &[("ws/app/.git/HEAD", "ref: refs/heads/loop\n"), ("ws/app/.git/refs/heads/loop", "ref: refs/heads/loop")],
            &[("ws/app/.git/HEAD", &huge)],
            &[main, ("ws/app/.git/refs/heads/main", &huge)],
            &[main, ("ws/app/.git/packed-refs", &huge)],
            &[("ws/app/.git/HEAD", "--upload-pack=x\n")],
            &[("ws/app/.git/commondir", "../../../secret\n"), main],
            &[],
        ] {
            assert!(Case::new(files).head().is_err(), "{files:?}");
        }
    }

    #[test]
    fn links_are_followed_within_the_workspace_only() {
        let inside = Case::new(&[("ws/store/HEAD", ID)]);
        symlink("../store", inside.path("ws/app/.git")).unwrap();
        assert_eq!(inside.head().as_deref(), Ok(ID));
        let outside = Case::new(&[("store/HEAD", ID)]);
        symlink("../../store", outside.path("ws/app/.git")).unwrap();
        assert!(outside.head().unwrap_err().contains("leads out of the workspace"));
        let absolute = Case::new(&[("store/HEAD", ID)]);
        symlink(absolute.path("store"), absolute.path("ws/app/.git")).unwrap();
        assert!(absolute.head().is_err());
        let circle = Case::new(&[]);
        symlink(".git", circle.path("ws/app/.git")).unwrap();
        assert!(circle.head().is_err());
    }

    #[test]
    fn only_objects_and_packs_are_linked() {
        let object = format!("ws/app/.git/objects/01/{}", &ID[2..]);
        let pack = format!("ws/app/.git/objects/pack/pack-{ID}");
        let case = Case::new(&[
            ("ws/app/.git/HEAD", ID),
            (&object, "o"),
            (&format!("{pack}.pack"), "p"),
            (&format!("{pack}.idx"), "i"),
            (&format!("{pack}.bitmap"), "b"),
            ("ws/app/.git/objects/pack/multi-pack-index", "m"),
            ("ws/app/.git/objects/info/alternates", "/etc"),
            ("ws/app/.git/objects/info/commit-graph", "g"),
            ("ws/app/.git/objects/01/short", "s"),
            ("secret", "s"),
        ]);
        symlink(case.path("secret"), case.path(&format!("ws/app/.git/objects/01/{}", "a".repeat(38)))).unwrap();
        symlink("/etc", case.path("ws/app/.git/objects/02")).unwrap();
        case.read().unwrap().link_objects(&case.path("out")).unwrap();
        let mut found = Vec::new();
        for directory in names(&case.path("out")).unwrap() {
            let files = names(&case.path("out").join(&directory)).unwrap();
            found.extend(files.into_iter().map(|file| Path::new(&directory).join(file)));
        }
        found.sort();
        let expected = [format!("01/{}", &ID[2..]), format!("pack/pack-{ID}.idx"), format!("pack/pack-{ID}.pack")];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
