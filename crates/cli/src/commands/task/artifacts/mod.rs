//! `artifacts`: the files that a Task left.

mod get;

use std::{io::Write as _, path::PathBuf};

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use super::follow::find;
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{Format, json_text, note, print, yaml_text},
    problem::{Answer, Problem},
    rest::{Rest, ServerArg, percent_encoded, task_path},
    screen::{Screen, Tone, paragraph},
    size::size,
    span,
    table::{Cell, Table},
};

/// Arguments of `artifacts`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose artifacts to show.
    #[arg(value_name = "TASK")]
    name: String,
    #[command(subcommand)]
    action: Option<Action>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Only those of this run, the first being 1 [default: of each artifact the one of the newest run].
    #[arg(long, alias = "run", value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    epoch: Option<i64>,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Download the files of an artifact.
    Get(GetArgs),
    /// Print one file of an artifact.
    Cat(CatArgs),
}

/// Arguments of `artifacts TASK get`.
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// Artifact to download.
    #[arg(value_name = "NAME")]
    artifact: String,
    /// Directory for the files [default: ./NAME].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write into a directory that is not empty. Files of the same names are replaced.
    #[arg(long)]
    force: bool,
    /// That of this run, the first being 1 [default: the newest run that has it].
    #[arg(long, alias = "run", value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    epoch: Option<i64>,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `artifacts TASK cat`.
#[derive(Debug, clap::Args)]
pub struct CatArgs {
    /// Artifact that contains the file.
    #[arg(value_name = "NAME")]
    artifact: String,
    /// Path of the file in the artifact.
    #[arg(value_name = "PATH")]
    path: String,
    /// That of this run, the first being 1 [default: the newest run that has it].
    #[arg(long, alias = "run", value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    epoch: Option<i64>,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Args {
    /// The flags about the cluster: those at the end win.
    pub fn cluster(&self) -> ClusterArgs {
        match &self.action {
            Some(Action::Get(args)) => args.cluster.clone().or(&self.cluster),
            Some(Action::Cat(args)) => args.cluster.clone().or(&self.cluster),
            None => self.cluster.clone(),
        }
    }
}

/// Shows or downloads artefacts.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let task = find(&cluster, &args.name).await?.name_any();
    match args.action {
        None => {
            let rest = args.server.connect(&cluster).await?;
            list(&cluster, &rest, &task, args.epoch, args.output).await
        }
        Some(Action::Get(mut get)) => {
            get.epoch = get.epoch.or(args.epoch);
            let rest = get.server.clone().or(args.server).connect(&cluster).await?;
            get::run(&cluster, &rest, &task, get).await
        }
        Some(Action::Cat(cat)) => {
            let rest = cat.server.clone().or(args.server).connect(&cluster).await?;
            let rest_of = format!("/artifacts/{}/content", percent_encoded(&cat.artifact));
            let epoch = cat.epoch.or(args.epoch).map(|epoch| epoch.to_string());
            let path = task_path(&cluster, &task, &rest_of, &[("path", Some(cat.path)), ("epoch", epoch)]);
            let list = cluster.hint(format!("kubeopencode artifacts {task}"));
            let content = rest.stream(&path).await.map_err(|problem| hint(problem, &list))?;
            copy(content).await?;
            Ok(Exit::Success)
        }
    }
}

/// An artefact, as the server describes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    epoch: i64,
    name: String,
    bytes: u64,
    files: u64,
    digest: String,
    stored_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<Expired>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Expired {
    at: Timestamp,
    cause: String,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Artifacts {
    artifacts: Vec<Artifact>,
}

async fn artifacts(cluster: &Cluster, rest: &Rest, task: &str, epoch: Option<i64>) -> Answer<Vec<Artifact>> {
    let path = task_path(cluster, task, "/artifacts", &[("epoch", epoch.map(|epoch| epoch.to_string()))]);
    Ok(rest.read::<Artifacts>(&path).await?.artifacts)
}

async fn list(cluster: &Cluster, rest: &Rest, task: &str, epoch: Option<i64>, format: Format) -> Answer<Exit> {
    let found = artifacts(cluster, rest, task, epoch).await?;
    if found.is_empty() && matches!(format, Format::Table | Format::Wide) {
        let of_run = epoch.map(|epoch| format!(" in run {epoch}")).unwrap_or_default();
        note(&format!("Task '{task}' has left no artifacts{of_run}"));
        return Ok(Exit::Success);
    }
    let text = match format {
        Format::Table | Format::Wide => table(&found, Timestamp::now(), format == Format::Wide).show(&Screen::stdout()),
        Format::Json => json_text(&found)?,
        Format::Yaml => yaml_text(&found)?,
        Format::Name => found.iter().flat_map(|artifact| [artifact.name.as_str(), "\n"]).collect(),
    };
    print(&text)?;
    Ok(Exit::Success)
}

fn table(artifacts: &[Artifact], now: Timestamp, wide: bool) -> Table {
    let digest = wide.then_some("DIGEST");
    let mut table = Table::new(["NAME", "SIZE", "FILES", "RUN", "AGE", "EXPIRES"].into_iter().chain(digest));
    for artifact in artifacts {
        let expires = match (&artifact.expired, artifact.expires_at) {
            (Some(expired), _) => Cell::new(&expired.message, Tone::Faint),
            (None, Some(at)) => Cell::new(&format!("in {}", span::age(at.as_second() - now.as_second())), Tone::Plain),
            (None, None) => "never".into(),
        };
        let mut row = vec![
            artifact.name.as_str().into(),
            size(artifact.bytes).into(),
            artifact.files.to_string().into(),
            artifact.epoch.to_string().into(),
            span::age(now.as_second() - artifact.stored_at.as_second()).into(),
            expires,
        ];
        if wide {
            row.push(artifact.digest.as_str().into());
        }
        table.push(row);
    }
    table
}

/// The next step after something that the server does not have.
fn hint(problem: Problem, list: &str) -> Problem {
    if problem.exit() == Exit::NotFound { problem.or_next(format!("list what is there: {list}")) } else { problem }
}

/// Copies bytes to standard output. Control characters of an agent do not reach a terminal.
async fn copy(mut content: impl AsyncBufRead + Unpin) -> Answer<()> {
    let screen = Screen::stdout();
    let mut out = std::io::stdout();
    loop {
        let bytes = content.fill_buf().await?;
        let length = bytes.len();
        if length == 0 {
            break;
        }
        if screen.terminal {
            out.write_all(paragraph(&String::from_utf8_lossy(bytes)).as_bytes())?;
        } else {
            out.write_all(bytes)?;
        }
        content.consume_unpin(length);
    }
    out.flush()?;
    Ok(())
}

/// The names of artefacts in the answer of the server, for a message.
fn names(artifacts: &[Artifact]) -> String {
    artifacts.iter().map(|artifact| artifact.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_shows_what_is_there_and_what_is_gone() {
        let artifacts: Vec<Artifact> = serde_json::from_value(json!([
            { "epoch": 2, "name": "dist", "bytes": 1_572_864, "files": 12, "digest": "ab12",
              "storedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-08T00:00:00Z" },
            { "epoch": 1, "name": "report", "bytes": 10, "files": 1, "digest": "cd34",
              "storedAt": "2026-01-01T00:00:00Z" },
            { "epoch": 1, "name": "trace", "bytes": 10, "files": 1, "digest": "ef56",
              "storedAt": "2026-01-01T00:00:00Z",
              "expired": { "at": "2026-01-01T00:30:00Z", "cause": "Age", "message": "expired at \u{1b}[2J" } },
        ]))
        .unwrap();
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        insta::assert_snapshot!(table(&artifacts, now, true).show(&Screen::default()), @r"
        NAME     SIZE      FILES   RUN   AGE   EXPIRES           DIGEST
        dist     1.5 MiB   12      2     60m   in 6d23h          ab12
        report   10 B      1       1     60m   never             cd34
        trace    10 B      1       1     60m   expired at �[2J   ef56
        ");
        assert_eq!(names(&artifacts), "dist, report, trace");
    }
}
