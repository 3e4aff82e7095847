//! `store`: works on a store itself, without a cluster.

mod place;

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use clap::Subcommand;
use jiff::SignedDuration;
use store::{Archive as _, Collected, Directory, Exported, GRACE, Store};

use super::{
    exit::Exit,
    output::{note, print},
    problem::{Answer, Problem},
    screen::line,
    size::size,
    span,
};
use place::{OtherArgs, Place, PlaceArgs};

/// Time between two looks at how far a copy is.
const PAUSE: Duration = Duration::from_secs(1);

/// A command about a store.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read everything in the store and compare it with its digests.
    Check(CheckArgs),
    /// Remove what nothing in the store refers to.
    Gc(GcArgs),
    /// Copy the store into another one, such as a backup.
    Export(ExportArgs),
    /// Copy another store into this one.
    Import(ImportArgs),
}

/// Arguments of `store check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Arguments of `store gc`.
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Keep what is younger than this, because its writer may still be at work [default: 24h].
    #[arg(long, value_name = "SPAN", value_parser = span::read)]
    grace: Option<Duration>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Arguments of `store export`.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// Directory of the other store; created if necessary.
    #[arg(value_name = "DIR", required_unless_present = "to_records")]
    to: Option<std::path::PathBuf>,
    /// Records of the other store: `postgres://…`, or an SQLite file.
    #[arg(long, value_name = "URL", conflicts_with = "to", requires = "to_blobs")]
    to_records: Option<String>,
    /// Blobs of the other store: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`, or a directory.
    #[arg(long, value_name = "URL", requires = "to_records")]
    to_blobs: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Arguments of `store import`.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// Directory of the other store, or of a `--log-archive`. It stays as it is.
    #[arg(value_name = "DIR", required_unless_present = "from_records")]
    from: Option<std::path::PathBuf>,
    /// Records of the other store: `postgres://…`, or an SQLite file.
    #[arg(long, value_name = "URL", conflicts_with = "from", requires = "from_blobs")]
    from_records: Option<String>,
    /// Blobs of the other store: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`, or a directory.
    #[arg(long, value_name = "URL", requires = "from_records")]
    from_blobs: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Executes a command.
pub async fn run(command: Command) -> Answer<Exit> {
    match command {
        Command::Check(args) => check(&args.place.find()?.open().await?).await,
        Command::Gc(args) => gc(&args.place.find()?.open().await?, args.grace, args.dry_run).await,
        Command::Export(ExportArgs { to, to_records, to_blobs, place }) => {
            let other = OtherArgs { directory: to, records: to_records, blobs: to_blobs }.place()?;
            let from = place.find()?;
            refuse_same(&from, &other)?;
            copy(&from.open().await?, &other.create().await?).await
        }
        Command::Import(ImportArgs { from, from_records, from_blobs, place }) => {
            let other = OtherArgs { directory: from, records: from_records, blobs: from_blobs }.place()?;
            let to = place.find()?;
            refuse_same(&to, &other)?;
            if let Some(archive) = other.archive().await? {
                return import(&archive, &to.open().await?).await;
            }
            copy(&other.open().await?, &to.open().await?).await
        }
    }
}

fn refuse_same(one: &Place, other: &Place) -> Answer<()> {
    if one.shares_with(other) {
        return Err(Problem::usage(format!("{one} shares its records or its blobs with the other store"))
            .next("name two stores, each with records and blobs of its own"));
    }
    Ok(())
}

/// Copies an archive of files.
async fn import(archive: &Directory, to: &Store) -> Answer<Exit> {
    let imported = to.import_files(archive).await;
    let tasks = imported.map_err(|error| failed(error).next("run the same command again: it continues"))?;
    if tasks == 0 {
        return Err(Problem::not_found("the directory has neither a store nor logs of Tasks").next("check the path"));
    }
    print(&format!("copied the logs and records of {}\n", count(tasks as u64, "Task", "Tasks")))?;
    Ok(Exit::Success)
}

async fn check(store: &Store) -> Answer<Exit> {
    let problems = store.check().await.map_err(failed)?;
    if problems.is_empty() {
        note("everything in the store is as it was written");
        return Ok(Exit::Success);
    }
    print(&problems.iter().flat_map(|problem| [line(problem), "\n".to_owned()]).collect::<String>())?;
    note(&match problems.len() {
        1 => "one problem was found".to_owned(),
        many => format!("{many} problems were found"),
    });
    Ok(Exit::Failed)
}

async fn gc(store: &Store, grace: Option<Duration>, dry_run: bool) -> Answer<Exit> {
    let grace = grace.and_then(|grace| SignedDuration::try_from(grace).ok()).unwrap_or(GRACE);
    let collected = if dry_run {
        store.collectable(grace).await.map_err(failed)?
    } else {
        let unused = store.collect(grace).await.map_err(failed)?;
        let unrecorded = store.collect_unrecorded(grace).await.map_err(failed)?;
        Collected {
            blobs: unused.blobs + unrecorded.blobs,
            bytes: unused.bytes + unrecorded.bytes,
            uploads: unused.uploads + unrecorded.uploads,
        }
    };
    print(&removed(collected, dry_run))?;
    Ok(Exit::Success)
}

fn removed(collected: Collected, dry_run: bool) -> String {
    let Collected { blobs, bytes, uploads } = collected;
    let removed = if dry_run { "would remove" } else { "removed" };
    if blobs == 0 && uploads == 0 {
        return "nothing to remove\n".to_owned();
    }
    let mut text = format!("{removed} {} ({})", count(blobs, "blob", "blobs"), size(bytes));
    if uploads > 0 {
        let _ = write!(text, " and {}", count(uploads, "unfinished upload", "unfinished uploads"));
    }
    text + "\n"
}

/// Copies what the other store lacks. An interrupted copy is continued by the next one.
async fn copy(from: &Store, to: &Store) -> Answer<Exit> {
    let copying = from.export(to);
    tokio::pin!(copying);
    let mut progress = Watch::new(from).await;
    let exported = loop {
        tokio::select! {
            done = &mut copying => break done,
            () = tokio::time::sleep(PAUSE), if progress.is_some() => {
                if let Some(watch) = &mut progress {
                    watch.show(to).await;
                }
            }
        }
    };
    drop(progress);
    let exported = exported.map_err(|error| failed(error).next("run the same command again: it continues"))?;
    print(&copied(&exported))?;
    exported.damaged.iter().for_each(|damage| note(&line(damage)));
    if exported.damaged.is_empty() {
        return Ok(Exit::Success);
    }
    note("what is damaged was left out; find out more with: kubeopencode store check");
    Ok(Exit::Failed)
}

fn copied(exported: &Exported) -> String {
    let Exported { runs, logs, artifacts, caches, bytes, damaged: _ } = exported;
    if [runs, logs, artifacts, caches].into_iter().all(|count| *count == 0) {
        return "nothing is new\n".to_owned();
    }
    format!(
        "copied {}, {}, {} and {} ({})\n",
        count(*runs, "run", "runs"),
        count(*logs, "log", "logs"),
        count(*artifacts, "artifact", "artifacts"),
        count(*caches, "cache", "caches"),
        size(*bytes)
    )
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// How many Tasks of a copy are in its target, on a terminal.
struct Watch {
    total: usize,
    since: Instant,
}

impl Watch {
    async fn new(from: &Store) -> Option<Self> {
        use std::io::IsTerminal as _;
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let total = from.owners().await.ok()?.len();
        Some(Self { total, since: Instant::now() })
    }

    async fn show(&mut self, to: &Store) {
        use std::io::Write as _;
        let Ok(there) = to.owners().await else { return };
        let text =
            format!("{} of {} Tasks, {} s", there.len().min(self.total), self.total, self.since.elapsed().as_secs());
        // Standard error may be closed; nothing else can be done.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn failed(error: store::Error) -> Problem {
    Problem::new(line(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_and_copied_is_counted() {
        let collected = Collected { blobs: 2, bytes: 3 << 20, uploads: 1 };
        assert_eq!(removed(collected, false), "removed 2 blobs (3.0 MiB) and 1 unfinished upload\n");
        let one = Collected { blobs: 1, bytes: 10, uploads: 0 };
        assert_eq!(removed(one, true), "would remove 1 blob (10 B)\n");
        assert_eq!(removed(Collected::default(), true), "nothing to remove\n");
        let exported = Exported { runs: 3, logs: 1, artifacts: 2, bytes: 1024, ..Exported::default() };
        assert_eq!(copied(&exported), "copied 3 runs, 1 log, 2 artifacts and 0 caches (1.0 KiB)\n");
        assert_eq!(copied(&Exported::default()), "nothing is new\n");
    }
}
