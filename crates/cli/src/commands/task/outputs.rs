//! `outputs`: the values that a run wrote for later use.

use std::collections::BTreeMap;

use api::Task;
use clap::ValueEnum;
use kube::ResourceExt as _;
use serde::Deserialize;

use super::follow::find;
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{json_text, note, print, yaml_text},
    problem::{Answer, Problem},
    rest::{ServerArg, task_path},
    screen::Screen,
    table::Table,
};

/// Arguments of `outputs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose outputs to show.
    #[arg(value_name = "TASK")]
    name: String,
    /// Print the value of this output alone.
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Outputs of this run, the first being 1 [default: the newest run with outputs].
    #[arg(long, alias = "run", value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    epoch: Option<i64>,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// How outputs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table, or the value alone.
    Text,
    /// A JSON object.
    Json,
    /// YAML.
    Yaml,
    /// Assignments for a shell: `eval "$(kubeopencode outputs TASK -o env)"`.
    Env,
}

type Outputs = BTreeMap<String, String>;

/// Shows the outputs.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let task = find(&cluster, &args.name).await?;
    let name = task.name_any();
    let mut outputs = fetch(&cluster, &task, &args).await?;
    if let Some(key) = &args.key {
        let known: Vec<_> = outputs.keys().cloned().collect();
        let value = outputs.remove(key).ok_or_else(|| {
            Problem::not_found(format!("Task '{name}' has written no output '{key}'"))
                .next(format!("it has written: {}", known.join(", ")))
        })?;
        outputs = BTreeMap::from([(key.clone(), value)]);
    }
    if args.output == Output::Env {
        let odd: Vec<_> = outputs.keys().filter(|key| !is_variable(key)).cloned().collect();
        if !odd.is_empty() {
            note(&format!("left out, because a variable of a shell cannot have this name: {}", odd.join(", ")));
        }
    }
    print(&show(&outputs, args.key.is_some(), args.output, &Screen::stdout())?)?;
    Ok(Exit::Success)
}

/// All outputs from the server, or those in the status of the Task where there is no server.
async fn fetch(cluster: &Cluster, task: &Task, args: &Args) -> Answer<Outputs> {
    #[derive(Deserialize)]
    struct Response {
        epoch: Option<i64>,
        outputs: Outputs,
    }
    let epoch = args.epoch.map(|epoch| epoch.to_string());
    let path = task_path(cluster, &task.name_any(), "/outputs", &[("epoch", epoch)]);
    let asked = async { args.server.connect(cluster).await?.read::<Response>(&path).await };
    let problem = match asked.await {
        Ok(Response { epoch: Some(_), outputs }) => return Ok(outputs),
        Ok(Response { epoch: None, .. }) => Problem::not_found("no outputs are stored for this run"),
        Err(problem) => problem,
    };
    let short = task.status.as_ref().and_then(|status| status.result.as_ref()?.outputs.as_ref());
    match short.filter(|_| args.epoch.is_none() && matches!(problem.exit(), Exit::NotFound | Exit::Unreachable)) {
        Some(short) => {
            note(&format!("{problem}; these are the outputs in the status of the Task, which holds small ones"));
            Ok(short.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        None => Err(problem),
    }
}

fn show(outputs: &Outputs, single: bool, output: Output, screen: &Screen) -> Answer<String> {
    match output {
        Output::Json => json_text(outputs),
        Output::Yaml => yaml_text(outputs),
        Output::Env => Ok(outputs
            .iter()
            .filter(|(key, _)| is_variable(key))
            .map(|(key, value)| format!("{key}='{}'\n", value.replace('\'', r"'\''")))
            .collect::<Vec<_>>()
            .concat()),
        Output::Text if single => Ok(outputs.values().flat_map(|value| [value.as_str(), "\n"]).collect()),
        Output::Text => {
            let mut table = Table::new(["KEY", "VALUE"]);
            for (key, value) in outputs {
                table.push(vec![key.into(), value.into()]);
            }
            Ok(table.show(screen))
        }
    }
}

fn is_variable(key: &str) -> bool {
    let fits = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    fits && key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_become_a_command_of_a_shell_or_of_a_terminal() {
        let pairs = [
            ("URL", "https://x"),
            ("quote", "it's $(id); `id`\n"),
            ("not-a-name", "x"),
            ("1st", "x"),
            ("esc", "\u{1b}[2J"),
        ];
        let outputs: Outputs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let shown = |output, single| show(&outputs, single, output, &Screen::default()).unwrap();
        assert_eq!(shown(Output::Env, false), "URL='https://x'\nesc='\u{1b}[2J'\nquote='it'\\''s $(id); `id`\n'\n");
        let table = shown(Output::Text, false);
        assert!(!table.contains('\u{1b}') && table.starts_with("KEY          VALUE\n1st          x\n"), "{table}");
        let one: Outputs = BTreeMap::from([("URL".to_owned(), "a\nb".to_owned())]);
        assert_eq!(show(&one, true, Output::Text, &Screen::default()).unwrap(), "a\nb\n");
        assert_eq!(show(&one, true, Output::Json, &Screen::default()).unwrap(), "{\n  \"URL\": \"a\\nb\"\n}\n");
    }
}
