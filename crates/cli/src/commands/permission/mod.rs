//! `approve` and `deny`: answer permission requests of an agent.

mod server;

use api::Task;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{note, print},
    problem::{Answer, Problem},
    rest::{Rest, ServerArg, percent_encoded, task_path},
    screen::{Screen, line},
    table::Table,
    task::follow,
    tunnel::{self, Tunnel},
};
use opencode::{Asked, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use server::{Server, describe};

/// Arguments of `approve` and `deny`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose agent asks.
    #[arg(value_name = "TASK")]
    task: String,
    /// Request to answer, as --list shows it; the only one when unset.
    #[arg(value_name = "REQUEST")]
    request: Option<String>,
    /// Answer every request that waits.
    #[arg(long, conflicts_with = "request")]
    all: bool,
    /// Only show what the agent asks.
    #[arg(short, long)]
    list: bool,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Arguments of `approve`.
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    /// Allow the same again without asking, for the rest of the session.
    #[arg(long)]
    always: bool,
    #[command(flatten)]
    pub(super) common: Args,
}

/// Arguments of `deny`.
#[derive(Debug, clap::Args)]
pub struct DenyArgs {
    /// What the agent should do instead. Without a message it stops.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    pub(super) common: Args,
}

/// Approves permission requests.
pub async fn approve(cluster: Cluster, args: ApproveArgs) -> Answer<Exit> {
    let reply = if args.always { Reply::Always } else { Reply::Once };
    Box::pin(answer(cluster, args.common, reply)).await
}

/// Denies permission requests.
pub async fn deny(cluster: Cluster, args: DenyArgs) -> Answer<Exit> {
    Box::pin(answer(cluster, args.common, Reply::Reject(args.message))).await
}

async fn answer(cluster: Cluster, args: Args, reply: Reply) -> Answer<Exit> {
    let task = follow::find(&cluster, &args.task).await?;
    let name = task.name_any();
    if Exit::of_task(&task).is_some() {
        return Err(Problem::new(format!("Task '{name}' has ended, so no request is open")));
    }
    let Some(agent) = &task.spec.agent_ref else {
        return Err(Problem::new(format!(
            "Task '{name}' runs in a Pod of its own, which has no server that could be answered"
        ))
        .next("run it on an Agent (agentRef), or allow what it needs in the template's permissions"));
    };
    match args.server.connect(&cluster).await {
        Ok(rest) => by_rest(&cluster, &rest, &name, &args, &reply).await,
        Err(problem) if args.server.is_named() => Err(problem),
        Err(_) => by_tunnel(&cluster, &agent.name, &task, &args, &reply).await,
    }
}

/// Answers by the KubeOpenCode server, which records who answered.
async fn by_rest(cluster: &Cluster, rest: &Rest, name: &str, args: &Args, reply: &Reply) -> Answer<Exit> {
    let Permissions { permissions } = rest.read(&task_path(cluster, name, "/permissions", &[])).await?;
    for request in chosen(name, permissions, args)? {
        let path = format!("/permissions/{}", percent_encoded(&request.id));
        rest.send(&task_path(cluster, name, &path, &[]), &body(reply)).await?;
        report(&request, reply)?;
    }
    Ok(Exit::Success)
}

/// Answers on the server of the Agent.
async fn by_tunnel(cluster: &Cluster, agent: &str, task: &Task, args: &Args, reply: &Reply) -> Answer<Exit> {
    // The tunnel must stay open while the server is used.
    let (server, _tunnel) = open(cluster, agent).await?;
    let chosen = chosen(&task.name_any(), server.requests_of(task).await?, args)?;
    for request in &chosen {
        server.answer(request, reply).await?;
        report(request, reply)?;
    }
    if !chosen.is_empty() {
        note("the answer is not recorded: only a KubeOpenCode server does that; name it with --server URL");
    }
    Ok(Exit::Success)
}

/// What the agent asks, from the KubeOpenCode server.
#[derive(Deserialize)]
struct Permissions {
    permissions: Vec<Asked>,
}

/// The requests to answer. With --list, they are printed and none is answered.
fn chosen(task: &str, asked: Vec<Asked>, args: &Args) -> Answer<Vec<Asked>> {
    if args.list {
        print(&table(&asked).show(&Screen::stdout()))?;
        return Ok(Vec::new());
    }
    choose(task, asked, args.request.as_deref(), args.all)
}

fn body(reply: &Reply) -> Value {
    match reply {
        Reply::Once => json!({ "reply": "once" }),
        Reply::Always => json!({ "reply": "always" }),
        Reply::Reject(None) => json!({ "reply": "reject" }),
        Reply::Reject(Some(message)) => json!({ "reply": "reject", "message": message }),
    }
}

fn report(request: &Asked, reply: &Reply) -> Answer<()> {
    let result = if matches!(reply, Reply::Reject(_)) { "denied" } else { "approved" };
    print(&format!("{result}: {}\n", describe(request)))
}

async fn open(cluster: &Cluster, agent: &str) -> Answer<(Server, Tunnel)> {
    let agent = tunnel::find(cluster, agent).await?;
    let password = tunnel::password(cluster, &agent).await?;
    let pods: Api<Pod> = cluster.api();
    let tunnel = Tunnel::open(pods, tunnel::pod(cluster, &agent).await?, tunnel::port(&agent), None).await?;
    Ok((Server::new(tunnel.address, password)?, tunnel))
}

/// Selects the requests to answer.
fn choose(task: &str, asked: Vec<Asked>, wanted: Option<&str>, all: bool) -> Answer<Vec<Asked>> {
    if asked.is_empty() {
        return Err(Problem::not_found(format!("the agent of Task '{task}' asks for nothing")));
    }
    if all {
        return Ok(asked);
    }
    let listed = asked.iter().map(|request| format!("{}  {}", line(&request.id), describe(request)));
    let listed = format!("choose one of:\n  {}", listed.collect::<Vec<_>>().join("\n  "));
    match wanted {
        None if asked.len() == 1 => Ok(asked),
        None => Err(Problem::usage(format!("the agent asks for {} things", asked.len()))
            .next(format!("{listed}\nor answer them together with --all"))),
        Some(id) => match asked.into_iter().find(|request| request.id == id) {
            Some(request) => Ok(vec![request]),
            None => Err(Problem::not_found(format!("the agent does not ask for '{id}'")).next(listed)),
        },
    }
}

fn table(asked: &[Asked]) -> Table {
    let mut table = Table::new(["REQUEST", "PERMISSION", "FOR"]);
    for request in asked {
        table.push(vec![
            request.id.as_str().into(),
            request.permission.as_str().into(),
            request.patterns.join(", ").into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ids: &[&str]) -> Vec<Asked> {
        let one = |id: &&str| {
            serde_json::from_value(json!({"id": id, "sessionID": "ses_1", "permission": "bash",
                "patterns": ["git push \u{1b}[2J*"], "metadata": {}, "always": []}))
            .unwrap()
        };
        ids.iter().map(one).collect()
    }

    #[track_caller]
    fn check(ids: &[&str], wanted: Option<&str>, all: bool, expected: &str) {
        let found = match choose("fix", asked(ids), wanted, all) {
            Ok(chosen) => chosen.iter().map(|request| request.id.as_str()).collect::<Vec<_>>().join(" "),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_only_request_needs_no_name() {
        check(&["per_1"], None, false, "per_1");
        check(&["per_1", "per_2"], None, false, "the agent asks for 2 things");
        check(&["per_1", "per_2"], Some("per_2"), false, "per_2");
        check(&["per_1", "per_2"], None, true, "per_1 per_2");
        check(&["per_1"], Some("per_9"), false, "the agent does not ask for 'per_9'");
        check(&[], None, true, "the agent of Task 'fix' asks for nothing");
    }

    #[test]
    fn what_an_agent_asks_for_cannot_play_tricks_on_the_terminal() {
        let problem = choose("fix", asked(&["per_1", "per_2"]), None, false).unwrap_err();
        assert!(!problem.next_step().unwrap().contains('\u{1b}'));
        assert!(!table(&asked(&["per_1"])).show(&Screen::default()).contains('\u{1b}'));
    }
}
