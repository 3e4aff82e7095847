//! `runs`: how each run of a Task ended.

use std::collections::BTreeMap;

use api::TaskStatus;
use domain::run::history::runs;
use jiff::Timestamp;

use super::{follow::find, stage::thousands};
use crate::{
    commands::{
        columns::tone,
        connect::{Cluster, ClusterArgs},
        exit::Exit,
        log::kept::archive_of,
        money,
        output::{DataFormat, note, print},
        problem::{Answer, Problem},
        screen::Screen,
        span,
        table::{Cell, Table},
    },
    log_archive::LogArchiveArg,
};

/// Arguments of `runs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose runs to show.
    #[arg(value_name = "TASK")]
    name: String,
    /// How to print them. As data, each run is the status with which it ended.
    #[arg(short, long, value_enum, default_value_t = DataFormat::Text)]
    output: DataFormat,
    #[command(flatten)]
    log_archive: LogArchiveArg,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Shows the runs of a Task, the latest first.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let task = find(&cluster, &args.name).await?;
    let name = task.metadata.name.as_deref().unwrap_or_default();
    let archive = archive_of(&cluster, &args.log_archive, &task)?;
    let records = match &archive {
        Some((archive, owner)) => archive.records(owner).await.map_err(|error| Problem::new(error.to_string()))?,
        None => BTreeMap::new(),
    };
    let runs = runs(&task, &records);
    if runs.is_empty() && args.output == DataFormat::Text {
        let explain = cluster.hint(format!("kubeopencode explain {name}"));
        note(&format!("Task '{name}' has not run yet; ask why: {explain}"));
        return Ok(Exit::Success);
    }
    print(&args.output.show(&runs, |runs| table(runs, Timestamp::now()).show(&Screen::stdout()))?)?;
    if archive.is_none() && task.status.as_ref().and_then(|status| status.run_epoch) > Some(1) {
        note("only the current run is known here; with a log archive the page shows all, as does --log-archive");
    }
    Ok(Exit::Success)
}

/// How the run ended, and whether its log is gone.
fn message(run: &TaskStatus) -> String {
    let expired = run.logs.as_ref().is_some_and(|logs| logs.expired_at.is_some());
    let parts = [run.message.as_deref(), expired.then_some("its log expired")];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn table(runs: &[TaskStatus], now: Timestamp) -> Table {
    let mut table = Table::new(["RUN", "PHASE", "REASON", "STARTED", "TOOK", "TOKENS", "COST", "MESSAGE"]);
    for run in runs {
        let phase = run.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
        let usage = run.usage.clone().unwrap_or_default();
        let tokens = usage.tokens.map(|tokens| thousands(tokens.input + tokens.output));
        table.push(vec![
            run.run_epoch.unwrap_or_default().to_string().into(),
            Cell::new(&phase, tone("PHASE", &phase)),
            run.reason.clone().unwrap_or_default().into(),
            span::since(run.start_time.as_ref(), now).unwrap_or_default().into(),
            span::between(run.start_time.as_ref(), run.completion_time.as_ref()).unwrap_or_default().into(),
            tokens.unwrap_or_default().into(),
            usage.cost.as_deref().map(money::cost).unwrap_or_default().into(),
            message(run).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_shows_how_each_run_ended() {
        let runs: Vec<TaskStatus> = serde_json::from_value(json!([
            { "runEpoch": 2, "phase": "Running", "startTime": "2026-01-01T00:01:00Z" },
            { "runEpoch": 1, "phase": "Failed", "reason": "ModelError", "message": "the model answered 500",
              "logs": { "expiredAt": "2026-01-01T00:01:59Z" },
              "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:07Z",
              "usage": { "tokens": { "input": 1000, "output": 234 }, "cost": "0.01" } },
        ]))
        .unwrap();
        let shown = table(&runs, "2026-01-01T00:02:00Z".parse().unwrap()).show(&Screen::default());
        insta::assert_snapshot!(shown, @r"
        RUN   PHASE     REASON       STARTED   TOOK   TOKENS   COST      MESSAGE
        2     Running   -            60s       -      -        -         -
        1     Failed    ModelError   2m        7s     1,234    $0.0100   the model answered 500; its log expired
        ");
    }
}
