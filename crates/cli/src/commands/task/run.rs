//! `run`: creates a Task and follows it to its end.

use std::{
    fs,
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use api::{
    Agent, AgentTemplate, Task, TaskSpec,
    context::{ContextItem, ContextType},
    refs::LocalRef,
};
use demo::template;
use domain::workload::names;
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
    core::ObjectMeta,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::follow::Follow;
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    kinds::Kind,
    log::LogArgs,
    missing,
    output::{DataFormat, json_text, note, print, yaml_text},
    problem::{Answer, Problem},
    span,
};

/// Maximum size of a context: the size limit of a Kubernetes object, minus an allowance for the rest of the Task.
const LARGEST_CONTEXT: u64 = 1_000_000;
/// A second Ctrl-C within this time stops the Task.
const SECOND_THOUGHTS: Duration = Duration::from_secs(5);

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Description of the work; `-` or nothing reads it from standard input.
    description: Option<String>,
    /// Agent to run on. Without --agent and --template, the only Agent of the namespace, or its only template.
    #[arg(short, long, value_name = "NAME", conflicts_with = "template")]
    agent: Option<String>,
    /// Template for a Pod of its own.
    #[arg(short, long, value_name = "NAME")]
    template: Option<String>,
    /// Name of the Task; generated if unset.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// File to give to the agent as context. `FILE:PATH` puts it at PATH in the workspace; otherwise the agent reads it as
    /// part of its instructions.
    #[arg(short = 'c', long = "context-file", value_name = "FILE[:PATH]")]
    context_files: Vec<String>,
    /// Stop the Task after this time, such as 30m.
    #[arg(long, value_name = "SPAN", value_parser = span::read)]
    timeout: Option<Duration>,
    /// Higher goes first in the queue.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Label of the Task, such as team=a.
    #[arg(short, long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Stream the log until the Task ends; the default without --wait and --detach.
    #[arg(short, long)]
    follow: bool,
    /// Wait for the end without streaming the log.
    #[arg(short, long)]
    wait: bool,
    /// Create the Task and return.
    #[arg(short, long, conflicts_with_all = ["follow", "wait"])]
    detach: bool,
    /// Stop the Task on Ctrl-C or SIGTERM. Otherwise it continues, unless Ctrl-C is pressed twice.
    #[arg(long, conflicts_with = "detach")]
    stop_on_interrupt: bool,
    /// Print the Task instead of creating it.
    #[arg(long)]
    dry_run: bool,
    /// How to print the created Task with --detach or --dry-run.
    #[arg(short, long, value_enum, default_value_t = DataFormat::Text)]
    output: DataFormat,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

impl Args {
    /// Accepts `--context FILE`, which was the name of `--context-file`: moves the file to where it belongs now. Returns
    /// false if `--context` does not name a file.
    pub fn accept_old_context(&mut self) -> bool {
        let Some(file) = self.cluster.context.take_if(|text| context_path(text).0.is_file()) else { return false };
        note(&format!("--context names a context of the kubeconfig; use --context-file for the file {file}"));
        self.context_files.push(file);
        true
    }
}

/// Creates a Task, follows it, and exits with its result.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let description = description(args.description.as_deref())?;
    let (agent_ref, template_ref) = target(&cluster, &args).await?;
    let contexts = args.context_files.iter().map(|text| context(text)).collect::<Answer<Vec<_>>>()?;
    let spec = TaskSpec {
        description: Some(description),
        agent_ref,
        template_ref,
        contexts: (!contexts.is_empty()).then_some(contexts),
        timeout: args.timeout.map(Into::into),
        priority: args.priority,
        ..TaskSpec::default()
    };
    let mut task = Task { metadata: metadata(&cluster, &args, &spec), spec, status: None };
    if args.dry_run {
        let text = if args.output == DataFormat::Json { json_text(&task)? } else { yaml_text(&task)? };
        print(&text)?;
        return Ok(Exit::Success);
    }
    task = cluster.api::<Task>().create(&PostParams::default(), &task).await?;
    let name = task.name_any();
    if args.detach {
        print(&args.output.show(&task, |_| format!("task.kubeopencode.io/{name} created\n"))?)?;
        if args.output == DataFormat::Text {
            note(&format!("follow it with: kubeopencode logs -f {name} -n {}", cluster.namespace));
        }
        return Ok(Exit::Success);
    }
    note(&format!("task.kubeopencode.io/{name} created"));
    let log = (args.follow || !args.wait).then(LogArgs::default);
    let follow = Follow { log, stages: true, after_run: None };
    attend(&cluster, &name, &follow, args.stop_on_interrupt).await
}

/// Follows a Task and handles Ctrl-C. The exit code is that of the Task.
pub async fn attend(cluster: &Cluster, name: &str, follow: &Follow, stop_on_interrupt: bool) -> Answer<Exit> {
    let mut interrupts = Interrupts::new()?;
    let work = follow.to_the_end(cluster, name);
    tokio::pin!(work);
    let mut stopping = false;
    let task = loop {
        tokio::select! {
            done = &mut work => break done?,
            patient = interrupts.next() => {
                if stopping || (!stop_on_interrupt && !patient) {
                    note(&format!("task {name} continues; stop it with: kubeopencode stop {name} -n {}", cluster.namespace));
                    return Ok(Exit::Interrupted);
                }
                if !stop_on_interrupt {
                    note(&format!(
                        "\ntask {name} continues in the cluster; press Ctrl-C again within {} s to stop it\nfollow it with: kubeopencode logs -f {name} -n {}",
                        SECOND_THOUGHTS.as_secs(), cluster.namespace
                    ));
                    tokio::select! {
                        done = &mut work => break done?,
                        _ = interrupts.next() => {}
                        () = tokio::time::sleep(SECOND_THOUGHTS) => return Ok(Exit::Interrupted),
                    }
                }
                note(&format!("stopping task {name}"));
                super::stop::ask(cluster, name).await?;
                stopping = true;
            }
        }
    };
    Ok(Exit::of_task(&task).unwrap_or(Exit::Failed))
}

/// Ctrl-C and SIGTERM.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    fn new() -> Answer<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Whether a person can be asked for confirmation: Ctrl-C at a terminal, not a supervisor.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => std::io::stderr().is_terminal(),
            _ = self.terminate.recv() => false,
        }
    }
}

fn metadata(cluster: &Cluster, args: &Args, spec: &TaskSpec) -> ObjectMeta {
    let runs_on = names::runs_on(spec).map(|(label, name)| (label.to_owned(), name.to_owned()));
    ObjectMeta {
        name: args.name.clone(),
        generate_name: args.name.is_none().then(|| "task-".to_owned()),
        namespace: Some(cluster.namespace.clone()),
        labels: Some(args.labels.iter().cloned().chain(runs_on).collect()),
        ..ObjectMeta::default()
    }
}

/// The description: the argument, or standard input.
fn description(argument: Option<&str>) -> Answer<String> {
    let text = match argument {
        Some(text) if text != "-" => text.to_owned(),
        None if std::io::stdin().is_terminal() => String::new(),
        _ => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            text
        }
    };
    if text.trim().is_empty() {
        return Err(Problem::usage("say what to do")
            .next("for example: kubeopencode run \"explain what this repository does\" --agent dev"));
    }
    Ok(text)
}

/// The target of the Task. A name that does not exist fails at once: the Task would wait for it.
async fn target(cluster: &Cluster, args: &Args) -> Answer<(Option<LocalRef>, Option<LocalRef>)> {
    match (&args.agent, &args.template) {
        (Some(name), _) => {
            if !args.dry_run {
                check::<Agent, AgentTemplate>(cluster, name, "--template").await?;
            }
            return Ok((Some(LocalRef::new(name)), None));
        }
        (None, Some(name)) => {
            if !args.dry_run {
                check::<AgentTemplate, Agent>(cluster, name, "--agent").await?;
            }
            return Ok((None, Some(LocalRef::new(name))));
        }
        (None, None) => {}
    }
    let agents = cluster.api::<Agent>().list(&ListParams::default()).await?;
    let agents: Vec<_> = agents.items.iter().map(ResourceExt::name_any).collect();
    let templates = match agents.as_slice() {
        [_] => Vec::new(),
        _ => cluster.api::<AgentTemplate>().list(&ListParams::default()).await?.items,
    };
    let (scripted, templates): (Vec<_>, Vec<_>) =
        templates.into_iter().partition(|one| one.labels().contains_key(template::LABEL));
    let names = |all: &[AgentTemplate]| all.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let choice = choose(&agents, &names(&templates), &names(&scripted), &cluster.namespace)?;
    note(&choice.note());
    Ok(match choice {
        Choice::Agent(name) => (Some(LocalRef::new(name)), None),
        Choice::Template(name) | Choice::Scripted(name) => (None, Some(LocalRef::new(name))),
    })
}

/// Fails if the object `name` does not exist; suggests the flag for an object of the other kind with that name.
async fn check<Wanted, Other>(cluster: &Cluster, name: &str, other_flag: &str) -> Answer<()>
where
    Wanted: kube::Resource<DynamicType = ()>,
    Other: kube::Resource<DynamicType = ()>,
{
    let Err(problem) = missing::check(cluster, &Kind::of_type::<Wanted>()?, name).await else { return Ok(()) };
    let other = Kind::of_type::<Other>()?;
    let found = other.api(cluster.client.clone(), Some(&cluster.namespace)).get_metadata_opt(name).await;
    Err(match found {
        Ok(Some(_)) => problem.next(format!("there is an {} of that name: use {other_flag} {name}", other.name)),
        _ => problem,
    })
}

/// The target of a Task for which none was named.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Agent(String),
    Template(String),
    /// The built-in template of the scripted model.
    Scripted(String),
}

impl Choice {
    fn note(&self) -> String {
        match self {
            Self::Agent(name) => format!("using Agent '{name}', the only one"),
            Self::Template(name) => format!("using AgentTemplate '{name}', the only one"),
            Self::Scripted(name) => format!(
                "using AgentTemplate '{name}': its model is built in, needs no key, and does what [[markers]] in the \
                 description say; connect a real model with: kubeopencode setup"
            ),
        }
    }
}

/// The only Agent, or without Agents the only template. The built-in template counts only if there is no other.
fn choose(agents: &[String], templates: &[String], scripted: &[String], namespace: &str) -> Answer<Choice> {
    match (agents, templates, scripted) {
        ([agent], _, _) => return Ok(Choice::Agent(agent.clone())),
        ([], [template], _) => return Ok(Choice::Template(template.clone())),
        ([], [], [scripted]) => return Ok(Choice::Scripted(scripted.clone())),
        ([], [], []) => {
            let message = format!("there is no Agent and no AgentTemplate in namespace '{namespace}'");
            return Err(Problem::usage(message).next(format!(
                "connect a model with: kubeopencode setup -n {namespace}; or name another namespace with -n"
            )));
        }
        _ => {}
    }
    let agents = agents.iter().map(|name| format!("--agent {name}"));
    let templates = templates.iter().chain(scripted).map(|name| format!("--template {name}"));
    let choices: Vec<_> = agents.chain(templates).collect();
    Err(Problem::usage("which Agent or template?").next(format!("choose one of: {}", choices.join(", "))))
}

/// A file as a context: `FILE` or `FILE:PATH`.
fn context(text: &str) -> Answer<ContextItem> {
    let (file, path) = context_path(text);
    let shown = file.display();
    let unreadable = |error: std::io::Error| {
        Problem::usage(format!("the context {shown} cannot be read: {error}"))
            .next("--context-file names a file for the agent; --context chooses a context of the kubeconfig")
    };
    let size = fs::metadata(&file).map_err(unreadable)?;
    if size.is_dir() {
        return Err(Problem::usage(format!("the context {shown} is a directory"))
            .next("name its files one by one, or put them into a Git repository and use a Git context"));
    }
    if size.len() > LARGEST_CONTEXT {
        return Err(Problem::usage(format!(
            "the context {shown} has {} bytes, but at most {LARGEST_CONTEXT} fit",
            size.len()
        ))
        .next("put it where the agent can fetch it and use a Git or URL context in a manifest"));
    }
    let content = String::from_utf8(fs::read(&file).map_err(unreadable)?)
        .map_err(|_| Problem::usage(format!("the context {shown} is no text")))?;
    let name = file.file_name().map(|name| name.to_string_lossy().chars().take(63).collect());
    Ok(ContextItem { name, kind: ContextType::Text, mount_path: path, text: Some(content), ..ContextItem::default() })
}

/// Splits `FILE:PATH`.
fn context_path(text: &str) -> (PathBuf, Option<String>) {
    let whole = Path::new(text);
    match text.rsplit_once(':') {
        Some((file, path)) if !whole.exists() && !file.is_empty() && !path.is_empty() => {
            (PathBuf::from(file), Some(path.to_owned()))
        }
        _ => (whole.to_owned(), None),
    }
}

/// `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_context_and_its_path_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("notes.md");
        fs::write(&file, "know this").unwrap();
        let plain = context(&file.display().to_string()).unwrap();
        assert_eq!((plain.name.as_deref(), plain.text.as_deref()), (Some("notes.md"), Some("know this")));
        assert_eq!(plain.mount_path, None);
        let placed = context(&format!("{}:docs/n.md", file.display())).unwrap();
        assert_eq!(placed.mount_path.as_deref(), Some("docs/n.md"));
    }

    #[test]
    fn a_task_without_a_target_runs_where_there_is_no_choice() {
        let check = |agents: &[&str], templates: &[&str], scripted: &[&str], expected: &str| {
            let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let found = match choose(&own(agents), &own(templates), &own(scripted), "here") {
                Ok(choice) => format!("{choice:?}"),
                Err(problem) => problem.next_step().unwrap_or_default().to_owned(),
            };
            assert_eq!(found, expected);
        };
        check(&["dev"], &["a", "b"], &["scripted"], r#"Agent("dev")"#);
        check(&[], &["base"], &["scripted"], r#"Template("base")"#);
        check(&[], &[], &["scripted"], r#"Scripted("scripted")"#);
        check(
            &["dev", "ops"],
            &["base"],
            &["scripted"],
            "choose one of: --agent dev, --agent ops, --template base, --template scripted",
        );
        check(&[], &["a", "b"], &[], "choose one of: --template a, --template b");
        check(&[], &[], &[], "connect a model with: kubeopencode setup -n here; or name another namespace with -n");
    }

    #[test]
    fn a_file_behind_the_old_flag_is_still_a_context() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("notes.md");
        fs::write(&file, "know this").unwrap();
        let args = |context: &str| -> Args {
            use clap::Parser as _;
            #[derive(clap::Parser)]
            struct Run {
                #[command(flatten)]
                args: Args,
            }
            Run::parse_from(["run", "x", "--context", context]).args
        };
        let placed = format!("{}:docs/notes.md", file.display());
        let mut old = args(&placed);
        assert!(old.accept_old_context());
        assert_eq!((old.context_files.as_slice(), old.cluster.context), ([placed].as_slice(), None));
        let mut new = args("prod");
        assert!(!new.accept_old_context());
        assert_eq!(new.cluster.context.as_deref(), Some("prod"));
    }

    #[test]
    fn an_invalid_context_is_reported_before_anything_is_created() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("blob");
        fs::write(&file, [0xff, 0xfe]).unwrap();
        let check = |text: &str, expected: &str| {
            let problem = context(text).unwrap_err().to_string();
            assert!(problem.ends_with(expected), "{problem}");
        };
        check(&file.display().to_string(), "blob is no text");
        check(&directory.path().display().to_string(), "is a directory");
        fs::write(&file, vec![b'a'; 1_000_001]).unwrap();
        check(&file.display().to_string(), "has 1000001 bytes, but at most 1000000 fit");
        assert!(context("/does/not/exist").unwrap_err().next_step().unwrap().contains("--context-file"));
    }
}
