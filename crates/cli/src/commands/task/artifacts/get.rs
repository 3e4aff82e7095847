//! `artifacts TASK get`: downloads an artefact and unpacks it.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use domain::contract::collect::{MOST_CONTENT_BYTES, MOST_FILES};
use fileset::{HashingReader, Limits, Manifest, Unpacked, unpack};
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use tokio::sync::mpsc;

use super::{Artifact, GetArgs, artifacts, hint, names};
use crate::commands::{
    connect::Cluster,
    exit::Exit,
    output::print,
    problem::{Answer, Problem},
    rest::{Rest, percent_encoded, task_path},
    screen::line,
    size::{Progress, size},
};

/// Chunks between the connection and the files.
const AHEAD: usize = 4;

/// Downloads an artefact.
pub(super) async fn run(cluster: &Cluster, rest: &Rest, task: &str, args: GetArgs) -> Answer<Exit> {
    let list = cluster.hint(format!("kubeopencode artifacts {task}"));
    let target = args.output.clone().unwrap_or_else(|| PathBuf::from(&args.artifact));
    let found = artifacts(cluster, rest, task, args.epoch).await?;
    let artifact = choose(task, &args, &found, &list)?;
    let place = Place::check(&target, args.force)?;
    let epoch = Some(artifact.epoch.to_string());
    let path = |rest: &str| {
        let rest = format!("/artifacts/{}{rest}", percent_encoded(&artifact.name));
        task_path(cluster, task, &rest, &[("epoch", epoch.clone())])
    };
    let manifest: Manifest = rest.read(&path("/manifest")).await.map_err(|problem| hint(problem, &list))?;
    let archive = rest.stream(&path("")).await.map_err(|problem| hint(problem, &list))?;
    let progress = Progress::new(artifact.name.as_str(), Some(artifact.bytes));
    let unpacked = place.fill(archive, manifest, artifact, progress).await?;
    print(&format!(
        "{}: {} file{}, {} of run {} in {}\n",
        artifact.name,
        unpacked.files,
        if unpacked.files == 1 { "" } else { "s" },
        size(unpacked.bytes),
        artifact.epoch,
        line(&target.display().to_string())
    ))?;
    Ok(Exit::Success)
}

/// The named one of the artefacts of a Task.
fn choose<'a>(task: &str, args: &GetArgs, found: &'a [Artifact], list: &str) -> Answer<&'a Artifact> {
    let wanted = &args.artifact;
    match found.iter().find(|artifact| artifact.name == *wanted) {
        Some(Artifact { expired: Some(expired), epoch, .. }) => {
            Err(Problem::not_found(format!("artifact '{wanted}' of run {epoch} {}", line(&expired.message)))
                .next("artifacts are kept for as long as their expireAfter and the limits of the platform say"))
        }
        Some(artifact) => Ok(artifact),
        None if found.is_empty() => {
            Err(Problem::not_found(format!("Task '{task}' has left no artifacts")).next(format!("see: {list}")))
        }
        None => Err(Problem::not_found(format!("Task '{task}' has left no artifact '{wanted}'"))
            .next(format!("it has left: {}", names(found)))),
    }
}

/// Where the files go.
enum Place {
    /// Beside the target, which appears when all files are there.
    New { target: PathBuf, draft: tempfile::TempDir },
    /// In the target, which is empty and may be a mount or the current directory.
    Empty { target: PathBuf, draft: tempfile::TempDir },
    /// Into a directory that exists.
    Existing(PathBuf),
}

impl Place {
    /// Refuses a directory with files, unless `force` is set.
    fn check(target: &Path, force: bool) -> Answer<Self> {
        let shown = line(&target.display().to_string());
        let (exists, is_empty) = match fs::read_dir(target) {
            Ok(mut entries) => (true, entries.next().is_none()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (false, true),
            Err(error) => {
                return Err(
                    Problem::new(format!("{shown} cannot be used: {error}")).next("name another directory with -o")
                );
            }
        };
        if !is_empty {
            return if force {
                Ok(Self::Existing(target.to_owned()))
            } else {
                Err(Problem::new(format!("{shown} is not empty"))
                    .next("name another directory with -o, or replace files in this one with --force"))
            };
        }
        let cannot = |error: io::Error| {
            Problem::new(format!("{shown} cannot be created: {error}")).next("name another directory with -o")
        };
        let draft = |place: &Path| tempfile::Builder::new().prefix(".kubeopencode-").tempdir_in(place).map_err(cannot);
        if exists {
            return Ok(Self::Empty { target: target.to_owned(), draft: draft(target)? });
        }
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(cannot)?;
        Ok(Self::New { target: target.to_owned(), draft: draft(parent)? })
    }

    /// Unpacks the archive and compares it with the manifest and its digest.
    async fn fill(
        self,
        archive: impl AsyncBufRead + Unpin + Send,
        manifest: Manifest,
        artifact: &Artifact,
        progress: Progress,
    ) -> Answer<Unpacked> {
        let into = match &self {
            // With the permissions of any new directory, which a temporary one does not have.
            Self::New { draft, .. } | Self::Empty { draft, .. } => draft.path().join("files"),
            Self::Existing(target) => target.clone(),
        };
        if !matches!(self, Self::Existing(_)) {
            fs::create_dir(&into)?;
        }
        let expected = artifact.digest.clone();
        let (sender, chunks) = mpsc::channel(AHEAD);
        let unpacking = tokio::task::spawn_blocking(move || {
            let mut archive = HashingReader::new(Incoming { chunks, current: Vec::new(), at: 0 });
            let limits = Limits { files: MOST_FILES, bytes: MOST_CONTENT_BYTES };
            let unpacked = unpack(&mut archive, &manifest, &into, limits).map_err(|error| error.to_string())?;
            let (digest, _) = archive.finish();
            if digest.to_string() == expected {
                Ok(unpacked)
            } else {
                Err(format!("the archive has the SHA-256 {digest} instead of {expected}"))
            }
        });
        let received = receive(archive, &sender, progress).await;
        drop(sender);
        let unpacked = unpacking.await.map_err(|error| Problem::new(error.to_string()))?;
        let unpacked = match (unpacked, received) {
            (Ok(unpacked), _) => unpacked,
            (Err(_), Err(error)) => {
                return Err(self.broken(&format!("the download broke off: {error}")).next("try again"));
            }
            (Err(error), Ok(())) => return Err(self.broken(&error)),
        };
        let shown = |path: &Path| line(&path.display().to_string());
        match &self {
            Self::New { target, draft } => fs::rename(draft.path().join("files"), target)
                .map_err(|error| Problem::new(format!("{} cannot be created: {error}", shown(target))))?,
            Self::Empty { target, draft } => move_entries(&draft.path().join("files"), target)
                .map_err(|error| Problem::new(format!("{} cannot be filled: {error}", shown(target))))?,
            Self::Existing(_) => {}
        }
        Ok(unpacked)
    }

    fn broken(&self, why: &str) -> Problem {
        let why = line(why);
        match self {
            Self::New { .. } | Self::Empty { .. } => {
                Problem::new(format!("the artifact cannot be unpacked: {why}; nothing was written"))
            }
            Self::Existing(target) => Problem::new(format!(
                "the artifact cannot be unpacked: {why}; {} may have a part of its files",
                line(&target.display().to_string())
            )),
        }
    }
}

/// Moves everything in a directory into another one of the same file system.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::rename(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Sends what arrives, until its end or until no one reads it.
async fn receive(
    mut bytes: impl AsyncBufRead + Unpin,
    chunks: &mpsc::Sender<io::Result<Vec<u8>>>,
    mut progress: Progress,
) -> io::Result<()> {
    loop {
        let chunk = match bytes.fill_buf().await {
            Ok([]) => return Ok(()),
            Ok(chunk) => chunk.to_vec(),
            Err(error) => {
                let reported = io::Error::new(error.kind(), error.to_string());
                // The reader may have ended for another reason.
                let _ = chunks.send(Err(reported)).await;
                return Err(error);
            }
        };
        let length = chunk.len();
        bytes.consume_unpin(length);
        progress.add(length as u64);
        if chunks.send(Ok(chunk)).await.is_err() {
            return Ok(());
        }
    }
}

/// Chunks of another task as a reader.
struct Incoming {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    current: Vec<u8>,
    at: usize,
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            match self.chunks.blocking_recv() {
                Some(chunk) => (self.current, self.at) = (chunk?, 0),
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len() - self.at);
        buffer[..length].copy_from_slice(&self.current[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use fileset::{Patterns, pack};
    use futures::io::Cursor;

    use super::*;

    struct Case {
        archive: Vec<u8>,
        manifest: Manifest,
        artifact: Artifact,
        dir: tempfile::TempDir,
    }

    impl Case {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("root");
            fs::create_dir_all(root.join("sub")).unwrap();
            fs::write(root.join("sub/a"), "content").unwrap();
            fs::write(root.join("b"), "b").unwrap();
            let mut archive = Vec::new();
            let limits = Limits { files: 10, bytes: 1000 };
            let packed = pack(&root, &Patterns::parse(&["."]).unwrap(), &[], limits, &mut archive).unwrap();
            let artifact = Artifact {
                epoch: 1,
                name: "dist".to_owned(),
                bytes: archive.len() as u64,
                files: 2,
                digest: fileset::Digest::of(&archive).to_string(),
                stored_at: jiff::Timestamp::UNIX_EPOCH,
                expires_at: None,
                expired: None,
            };
            Self { archive, manifest: packed.manifest, artifact, dir }
        }

        async fn get(&self, target: &Path, force: bool) -> Answer<Unpacked> {
            let place = Place::check(target, force)?;
            let bytes = Cursor::new(self.archive.clone());
            place.fill(bytes, self.manifest.clone(), &self.artifact, Progress::new("dist", None)).await
        }

        fn entries(&self) -> Vec<String> {
            let entries = fs::read_dir(self.dir.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn inode(path: &Path) -> u64 {
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
    }

    #[tokio::test]
    async fn files_appear_together_and_replace_nothing_unasked() {
        let case = Case::new();
        let target = case.dir.path().join("new/dist");
        let unpacked = case.get(&target, false).await.unwrap();
        assert_eq!((unpacked.files, unpacked.bytes), (2, 8));
        assert_eq!(fs::read_to_string(target.join("sub/a")).unwrap(), "content");
        let problem = case.get(&target, false).await.unwrap_err();
        assert!(problem.to_string().ends_with("is not empty") && problem.next_step().unwrap().contains("--force"));
        fs::write(target.join("b"), "mine").unwrap();
        fs::write(target.join("other"), "stays").unwrap();
        case.get(&target, true).await.unwrap();
        assert_eq!(fs::read_to_string(target.join("b")).unwrap(), "b");
        assert_eq!(fs::read_to_string(target.join("other")).unwrap(), "stays");
        let empty = case.dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let before = inode(&empty);
        case.get(&empty, false).await.unwrap();
        assert_eq!(inode(&empty), before, "a mount or the current directory cannot be replaced");
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 2);
        assert_eq!(fs::read_to_string(empty.join("sub/a")).unwrap(), "content");
        assert_eq!(case.entries(), ["empty", "new", "root"], "nothing temporary stays");
    }

    #[tokio::test]
    async fn damaged_bytes_leave_nothing() {
        let mut case = Case::new();
        let target = case.dir.path().join("dist");
        case.artifact.digest = fileset::Digest::of(b"other").to_string();
        let problem = case.get(&target, false).await.unwrap_err().to_string();
        assert!(problem.contains("instead of") && problem.ends_with("nothing was written"), "{problem}");
        case.archive.truncate(20);
        let problem = case.get(&target, false).await.unwrap_err().to_string();
        assert!(problem.contains("ends after 20 of"), "{problem}");
        assert_eq!(case.entries(), ["root"]);
    }
}
