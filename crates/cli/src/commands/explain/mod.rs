//! `explain`: why a Task waits or failed, and where its settings come from.

mod chain;
mod facts;
mod next;
mod queue;
mod settings;
mod show;

use api::{TaskPhase, run::DependencyCondition};
use jiff::Timestamp;
use kubeopencode_core::{
    dependencies::{End, Other},
    origin::Origin,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{DataFormat, print},
    problem::Answer,
    screen::Screen,
};
pub use facts::Facts;
pub use queue::{Line, QuotaUse};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task to explain.
    #[arg(value_name = "TASK")]
    name: String,
    /// Also show settings that nobody set.
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
    let facts = Facts::fetch(&cluster, &args.name).await?;
    let explanation = Explanation::of(&facts, args.all);
    let screen = Screen::stdout();
    print(&args.output.show(&explanation, |explanation| show::show(explanation, facts.now, &screen))?)?;
    Ok(Exit::Success)
}

/// Why a Task is where it is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub task: String,
    /// Its stage.
    pub phase: TaskPhase,
    /// The stable word for where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// From what is seen to what caused it.
    pub chain: Vec<Cause>,
    /// The queue that it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Line>,
    /// Starts in the window of the quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaUse>,
    /// Tasks that it depends on.
    pub dependencies: Vec<DependencyState>,
    /// The settings of its next or current run.
    pub settings: Vec<Setting>,
    /// Why the settings cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings_error: Option<String>,
    /// What a person can do.
    pub next: Vec<String>,
}

/// One link of the chain of causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// How bad it is.
    pub level: Level,
    /// The stable word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence.
    pub message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// How bad a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// This is waited for.
    Wait,
    /// This went wrong.
    Error,
    /// This is done.
    Done,
}

/// Where a dependency stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DependencyState {
    /// The other Task.
    pub task: String,
    /// Which end is good enough.
    pub condition: DependencyCondition,
    /// Its stage, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<TaskPhase>,
    /// Whether it is good enough.
    pub met: bool,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its path, such as `agent.executorImage`.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Who decided it.
    pub origin: Origin,
}

impl Explanation {
    /// Explains, from what is known. `all` also lists settings that nobody set.
    pub fn of(facts: &Facts, all: bool) -> Self {
        let task = &facts.task;
        let status = task.status.clone().unwrap_or_default();
        let standing = queue::Standing::of(facts);
        let (settings, settings_error) = match settings::settings(facts, all) {
            Ok(settings) => (settings, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let chain = chain::chain(facts, &standing);
        let reason = chain.iter().find_map(|cause| cause.reason.clone()).or(status.reason);
        Self {
            namespace: task.metadata.namespace.clone().unwrap_or_default(),
            task: task.metadata.name.clone().unwrap_or_default(),
            phase: status.phase.unwrap_or_default(),
            next: next::steps(facts, &chain),
            reason,
            chain,
            queue: standing.line,
            quota: standing.quota,
            dependencies: dependencies(facts),
            settings,
            settings_error,
        }
    }
}

fn dependencies(facts: &Facts) -> Vec<DependencyState> {
    let one = |dependency: &api::run::Dependency| {
        let other = facts.neighbour(&dependency.task);
        let end = other.and_then(|task| Other::of(task).end);
        DependencyState {
            task: dependency.task.clone(),
            condition: dependency.condition,
            phase: other.map(|task| task.status.as_ref().and_then(|status| status.phase).unwrap_or_default()),
            met: match dependency.condition {
                DependencyCondition::Finished => end.is_some(),
                DependencyCondition::Succeeded => end == Some(End::Succeeded),
                DependencyCondition::Failed => end == Some(End::Failed),
            },
        }
    };
    facts.task.spec.depends_on.iter().flatten().map(one).collect()
}

#[cfg(test)]
mod tests;
