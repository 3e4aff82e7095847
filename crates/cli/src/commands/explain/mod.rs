//! `explain`: why a Task waits or failed, and where its settings come from.

mod facts;
mod show;

use domain::{
    explain::{self, Setting},
    run::origin::Origin,
};
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
    /// Task to explain.
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

/// Explains a Task.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let Facts { task, run, around } = Box::pin(Facts::fetch(&cluster, &args.name)).await?;
    let mut explanation = explain::task(&task, &run, &around);
    if !args.all {
        explanation.settings.retain(is_explicit);
    }
    let screen = Screen::stdout();
    print(&args.output.show(&explanation, |explanation| show::show(explanation, around.now, &screen))?)?;
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
