//! `explain`: why a Task waits or failed, an Agent is not ready or a CronTask does not run, and what to do.

mod facts;
mod show;

use domain::{
    explain::{self, Setting},
    run::origin::Origin,
};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{DataFormat, print},
    problem::Answer,
    screen::Screen,
};
use facts::Facts;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task to explain, or agent/NAME or crontask/NAME.
    #[arg(value_name = "TASK")]
    name: String,
    /// Also show settings that have their default.
    #[arg(short, long)]
    all: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = DataFormat::Text)]
    output: DataFormat,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Explains a Task, an Agent or a CronTask.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let screen = Screen::stdout();
    let shown = match args.name.split_once('/') {
        Some(("crontask" | "crontasks" | "ct", name)) => {
            let (cron, tasks) = facts::of_cron_task(&cluster, name).await?;
            let explanation = explain::cron_task(&cron, &tasks, facts::reader(&cluster));
            args.output.show(&explanation, |explanation| show::cron_task(explanation, Timestamp::now(), &screen))?
        }
        Some(("agent" | "agents", name)) => {
            let (agent, around) = Box::pin(facts::of_agent(&cluster, name)).await?;
            let mut explanation = explain::agent(&agent, &around);
            explanation.settings.retain(|setting| args.all || is_explicit(setting));
            args.output.show(&explanation, |explanation| show::agent(explanation, around.now, &screen))?
        }
        _ => {
            let Facts { task, run, around } = Box::pin(Facts::fetch(&cluster, &args.name)).await?;
            let mut explanation = explain::task(&task, &run, &around);
            explanation.settings.retain(|setting| args.all || is_explicit(setting));
            args.output.show(&explanation, |explanation| show::show(explanation, &task, around.now, &screen))?
        }
    };
    print(&shown)?;
    Ok(Exit::Success)
}

fn is_explicit(setting: &Setting) -> bool {
    let is_nothing = match &setting.value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    setting.origin != Origin::BuiltIn && !is_nothing
}

#[cfg(test)]
mod tests;
