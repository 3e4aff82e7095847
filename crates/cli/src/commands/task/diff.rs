//! `diff`: the changes of a run.

use std::io::Write as _;

use futures::AsyncReadExt as _;
use kube::ResourceExt as _;
use serde::Deserialize;

use super::{
    follow::find,
    patch::{self, FileChange},
};
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{note, print},
    problem::{Answer, Problem},
    rest::{Rest, ServerArg, task_path},
    screen::{Screen, line},
};

/// A patch is read into memory up to this size. The platform keeps patches of 10 MiB.
const LARGEST: u64 = 64 << 20;

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose changes to show.
    #[arg(value_name = "TASK")]
    name: String,
    /// Only the files and the numbers of their changed lines.
    #[arg(long)]
    stat: bool,
    /// The whole patch, which `git apply` takes; the default.
    #[arg(short, long, conflicts_with = "stat")]
    patch: bool,
    /// Changes of this run, the first being 1 [default: the newest run with changes].
    #[arg(long, alias = "run", value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    epoch: Option<i64>,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Shows the changes.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let task = find(&cluster, &args.name).await?;
    let current = task.status.as_ref().and_then(|status| status.run_epoch);
    let name = task.name_any();
    let rest = args.server.connect(&cluster).await?;
    let screen = Screen::stdout();
    match whole(&cluster, &rest, &name, args.epoch).await {
        Ok(patch) if args.stat => print(&patch::stat(&patch::read(&patch), &screen))?,
        Ok(patch) => show(&patch, &screen)?,
        // The records of an earlier run's log are not read.
        Err(problem) if problem.exit() == Exit::NotFound && args.epoch.is_none_or(|epoch| Some(epoch) == current) => {
            // What applies a patch must not get a part of it.
            if !args.stat && (args.patch || !screen.terminal) {
                let shown = cluster.hint(format!("kubeopencode diff {name} --stat"));
                return Err(problem.or_next(format!("see which files are recorded: {shown}")));
            }
            let recorded: Recorded = rest.read(&task_path(&cluster, &name, "/changes", &[])).await?;
            note(&format!("the whole patch is not stored ({problem}); these are the recorded changes"));
            recorded.show(args.stat, &screen)?;
            if !recorded.is_whole(args.stat) {
                return Ok(Exit::Failed);
            }
        }
        Err(problem) => return Err(problem),
    }
    Ok(Exit::Success)
}

/// The whole patch of a run.
pub async fn whole(cluster: &Cluster, rest: &Rest, task: &str, epoch: Option<i64>) -> Answer<Vec<u8>> {
    let epoch = epoch.map(|epoch| epoch.to_string());
    let bytes = rest.stream(&task_path(cluster, task, "/changes/patch", &[("epoch", epoch)])).await?;
    let mut patch = Vec::new();
    bytes.take(LARGEST + 1).read_to_end(&mut patch).await?;
    if patch.len() as u64 > LARGEST {
        return Err(Problem::new(format!("the patch has more than {} MiB", LARGEST >> 20)));
    }
    Ok(patch)
}

fn show(patch: &[u8], screen: &Screen) -> Answer<()> {
    if screen.terminal {
        return print(&patch::painted(patch, screen));
    }
    let mut out = std::io::stdout().lock();
    out.write_all(patch)?;
    out.flush()?;
    Ok(())
}

/// The changes in the records of a run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    files: Vec<RecordedFile>,
    file_count: u64,
    insertions: u64,
    deletions: u64,
    notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct RecordedFile {
    path: String,
    insertions: u64,
    deletions: u64,
    binary: bool,
    patch: String,
    cut: bool,
}

impl Recorded {
    fn show(&self, stat: bool, screen: &Screen) -> Answer<()> {
        if stat {
            print(&self.stat(screen))?;
        } else {
            let patch: String = self.files.iter().map(|file| file.patch.as_str()).collect();
            show(patch.as_bytes(), screen)?;
        }
        self.missing(stat).iter().for_each(|text| note(&line(text)));
        Ok(())
    }

    fn stat(&self, screen: &Screen) -> String {
        let one = |file: &RecordedFile| FileChange {
            path: file.path.clone(),
            insertions: file.insertions,
            deletions: file.deletions,
            binary: file.binary,
            ..FileChange::default()
        };
        let files: Vec<_> = self.files.iter().map(one).collect();
        let listed = patch::summary(&files);
        patch::stat(&files, screen).replace(&listed, &patch::totals(self.file_count, self.insertions, self.deletions))
    }

    /// Whether all files are shown, and all of their lines if they are wanted.
    fn is_whole(&self, stat: bool) -> bool {
        self.file_count <= self.files.len() as u64 && (stat || !self.files.iter().any(|file| file.cut || file.binary))
    }

    /// Sentences about what is not shown.
    fn missing(&self, stat: bool) -> Vec<String> {
        let mut missing = self.notes.clone();
        let listed = self.files.len() as u64;
        if self.file_count > listed {
            missing.push(format!("{} more files are not listed", self.file_count - listed));
        }
        let cut = self.files.iter().filter(|file| file.cut || file.binary).count();
        if cut > 0 && !stat {
            missing.push(match cut {
                1 => "one file is binary or too long to be recorded whole".to_owned(),
                many => format!("{many} files are binary or too long to be recorded whole"),
            });
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_changes_say_what_they_leave_out() {
        let file = |path: &str, binary: bool| {
            json!({ "path": path, "status": "modified", "insertions": 2, "deletions": 1,
            "binary": binary, "patch": "", "cut": false })
        };
        let recorded: Recorded =
            serde_json::from_value(json!({ "compared": true, "files": [file("a", false), file("b", true)],
            "fileCount": 5, "insertions": 40, "deletions": 3, "commits": [], "commitCount": 0,
            "notes": ["Ignored files are not compared."] }))
            .unwrap();
        insta::assert_snapshot!(recorded.stat(&Screen::default()), @r"
        a |   3 ++-
        b | Bin
        5 files changed, 40 insertions(+), 3 deletions(-)
        ");
        insta::assert_snapshot!(recorded.missing(false).join("\n"), @r"
        Ignored files are not compared.
        3 more files are not listed
        one file is binary or too long to be recorded whole
        ");
        assert_eq!(recorded.missing(true).len(), 2);
        assert!(!recorded.is_whole(true) && !recorded.is_whole(false));
        let all = Recorded { file_count: 2, ..recorded };
        assert!(all.is_whole(true) && !all.is_whole(false));
    }
}
