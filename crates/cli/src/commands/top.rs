//! `top`: current load and cost of Agents.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    time::Duration,
};

use api::{Agent, AgentTemplate, Task, TaskPhase};
use domain::{agent::standby::Suspension, platform::Platform, run::resolve::resolve_agent};
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};

use super::{
    columns::tone,
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    money::{dollars, millionths},
    output::print,
    problem::{Answer, Problem},
    screen::{Screen, Tone},
    span,
    table::{Cell, Table},
    task::stage::thousands,
};

/// Finished Tasks are counted for this long, in seconds.
const DAY: i64 = 24 * 3600;
/// Frame interval; a shorter one makes terminals flicker.
const FRAME: Duration = Duration::from_millis(500);
/// Maximum number of Tasks listed below the Agents.
const LISTED: usize = 15;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// In every namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Print one frame and end. That is also what happens when the output is no terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Shows the load, live on a terminal.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let screen = Screen::stdout();
    let load = Load::fetch(&cluster, args.all_namespaces).await?;
    if args.once || !screen.terminal {
        print(&frame(&load, args.all_namespaces, Timestamp::now(), &screen))?;
        return Ok(Exit::Success);
    }
    // The alternate screen leaves the previous content untouched.
    print("\x1b[?1049h\x1b[?25l")?;
    let ended = live(&cluster, &args, load).await;
    print("\x1b[?25h\x1b[?1049l")?;
    ended
}

async fn live(cluster: &Cluster, args: &Args, mut load: Load) -> Answer<Exit> {
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let agents: Api<Agent> = in_namespace(cluster, namespace);
    let tasks: Api<Task> = in_namespace(cluster, namespace);
    let mut agents = watcher(agents, watcher::Config::default()).default_backoff().boxed();
    let mut tasks = watcher(tasks, watcher::Config::default()).default_backoff().boxed();
    let mut clock = tokio::time::interval(FRAME);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            Some(event) = agents.next() => if let Ok(event) = event { keep(&mut load.agents, event) },
            Some(event) = tasks.next() => if let Ok(event) = event { keep(&mut load.tasks, event) },
            _ = clock.tick() => {
                let shown = frame(&load, args.all_namespaces, Timestamp::now(), &Screen::stdout());
                draw(&shown)?;
            }
            _ = &mut interrupted => return Ok(Exit::Success),
        }
    }
}

/// Draws over the last frame line by line, to avoid flicker.
fn draw(frame: &str) -> Answer<()> {
    let mut out = io::stdout().lock();
    let height = rustix::termios::tcgetwinsize(&out).map_or(24, |size| usize::from(size.ws_row.max(2)));
    write!(out, "\x1b[H")?;
    for line in frame.lines().take(height - 1) {
        write!(out, "{line}\x1b[K\r\n")?;
    }
    write!(out, "\x1b[J")?;
    out.flush()?;
    Ok(())
}

fn in_namespace<K>(cluster: &Cluster, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(cluster.client.clone(), namespace),
        None => Api::all(cluster.client.clone()),
    }
}

type Key = (String, String);

fn key(object: &impl kube::ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn keep<K: kube::ResourceExt>(all: &mut BTreeMap<Key, K>, event: watcher::Event<K>) {
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            all.insert(key(&object), object);
        }
        watcher::Event::Delete(object) => {
            all.remove(&key(&object));
        }
        watcher::Event::Init => all.clear(),
        watcher::Event::InitDone => {}
    }
}

/// The objects that a frame shows.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub agents: BTreeMap<Key, Agent>,
    /// Templates, for the limits that Agents inherit.
    templates: BTreeMap<Key, AgentTemplate>,
    tasks: BTreeMap<Key, Task>,
}

impl Load {
    /// Fetches the objects.
    pub async fn fetch(cluster: &Cluster, all_namespaces: bool) -> Answer<Self> {
        let namespace = (!all_namespaces).then_some(cluster.namespace.as_str());
        Ok(Self {
            agents: all(&in_namespace(cluster, namespace)).await?,
            templates: all(&in_namespace(cluster, namespace)).await?,
            tasks: all(&in_namespace(cluster, namespace)).await?,
        })
    }
}

async fn all<K>(api: &Api<K>) -> Result<BTreeMap<Key, K>, Problem>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    Ok(api.list(&ListParams::default()).await?.items.into_iter().map(|object| (key(&object), object)).collect())
}

/// Totals of one Agent.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    running: usize,
    waiting: usize,
    done: usize,
    failed: usize,
    tokens: i64,
    /// Cost in millionths, so that sums of small numbers are exact.
    cost: i64,
    oldest: Option<i64>,
}

impl Sum {
    fn add(&mut self, task: &Task, now: Timestamp) {
        let status = task.status.clone().unwrap_or_default();
        let ended = status.completion_time.as_ref().map(|time| now.as_second() - time.0.as_second());
        let recent = ended.is_none_or(|ended| ended <= DAY);
        match status.phase.unwrap_or_default() {
            TaskPhase::Running => self.running += 1,
            TaskPhase::Pending | TaskPhase::Queued => {
                self.waiting += 1;
                let created =
                    task.metadata.creation_timestamp.as_ref().map(|time| now.as_second() - time.0.as_second());
                self.oldest = self.oldest.max(created);
            }
            TaskPhase::Completed if recent => self.done += 1,
            TaskPhase::Failed if recent => self.failed += 1,
            TaskPhase::Completed | TaskPhase::Failed => {}
        }
        if let Some(usage) = status.usage.filter(|_| recent) {
            let tokens = usage.tokens.unwrap_or_default();
            self.tokens += tokens.input + tokens.output + tokens.reasoning + tokens.cache;
            self.cost += usage.cost.as_deref().and_then(millionths).unwrap_or(0);
        }
    }
}

/// The table of Agents.
pub fn agents(load: &Load, namespaces: bool, now: Timestamp) -> Table {
    let headings = ["AGENT", "STATE", "SLOTS", "QUEUE", "OLDEST", "DONE 24H", "FAILED 24H", "TOKENS 24H", "COST 24H"];
    let mut table = Table::new(namespaces.then_some("NAMESPACE").into_iter().chain(headings));
    for ((namespace, name), agent) in &load.agents {
        let mut sum = Sum::default();
        let runs_here = |task: &&Task| {
            task.namespace().as_deref() == Some(namespace)
                && task.spec.agent_ref.as_ref().is_some_and(|agent| agent.name == *name)
        };
        load.tasks.values().filter(runs_here).for_each(|task| sum.add(task, now));
        let state = state(agent);
        let template = agent.spec.template_ref.as_ref().map(|named| (namespace.clone(), named.name.clone()));
        let template = template.and_then(|key| load.templates.get(&key));
        let most =
            resolve_agent(agent, template, &Platform::default()).ok().and_then(|agent| agent.max_concurrent_tasks);
        let slots = most.map_or(format!("{}/any", sum.running), |most| format!("{}/{most}", sum.running));
        let full = most.is_some_and(|most| sum.running >= most as usize);
        let first = namespaces.then(|| namespace.as_str().into());
        let row = [
            name.as_str().into(),
            Cell::new(state, tone("STATE", state)),
            Cell::new(&slots, if full { Tone::Busy } else { Tone::Plain }),
            Cell::new(&sum.waiting.to_string(), if sum.waiting > 0 { Tone::Busy } else { Tone::Faint }),
            sum.oldest.map(span::age).unwrap_or_default().into(),
            sum.done.to_string().into(),
            Cell::new(&sum.failed.to_string(), if sum.failed > 0 { Tone::Bad } else { Tone::Faint }),
            thousands(sum.tokens).into(),
            dollars(sum.cost).into(),
        ];
        table.push(first.into_iter().chain(row).collect());
    }
    table
}

fn state(agent: &Agent) -> &'static str {
    match (Suspension::of(agent), agent.status.as_ref().and_then(|status| status.ready)) {
        (Suspension::ByUser, _) => "Suspended",
        (Suspension::ByStandby, _) => "Standby",
        (Suspension::Awake, Some(true)) => "Ready",
        (Suspension::Awake, _) => "Not ready",
    }
}

/// Renders one frame: a line of totals, the Agents, and the active Tasks.
fn frame(load: &Load, namespaces: bool, now: Timestamp, screen: &Screen) -> String {
    let mut sum = Sum::default();
    load.tasks.values().for_each(|task| sum.add(task, now));
    let ready = load.agents.values().filter(|agent| state(agent) == "Ready").count();
    let mut page = format!(
        "{}  {ready}/{} agents ready, {} running, {} waiting; in 24h: {} done, {} failed, {} tokens, cost {}\n",
        screen.paint(Tone::Strong, "KubeOpenCode"),
        load.agents.len(),
        sum.running,
        sum.waiting,
        sum.done,
        sum.failed,
        thousands(sum.tokens),
        dollars(sum.cost),
    );
    let agents = agents(load, namespaces, now);
    if !agents.is_empty() {
        page.push('\n');
        page.push_str(&agents.show(screen));
    }
    let active = active(load, namespaces, now);
    if !active.is_empty() {
        page.push('\n');
        page.push_str(&active.show(screen));
    }
    page
}

/// Running Tasks, oldest first, then waiting ones by queue position.
fn active(load: &Load, namespaces: bool, now: Timestamp) -> Table {
    let mut active: Vec<_> = load.tasks.values().filter(|task| !phase(task).is_finished()).collect();
    active.sort_by_key(|task| {
        let status = task.status.clone().unwrap_or_default();
        (
            phase(task) != TaskPhase::Running,
            status.queue_position,
            task.metadata.creation_timestamp.as_ref().map(|time| time.0),
        )
    });
    let headings = ["TASK", "ON", "PHASE", "SINCE", "TOKENS", "WHY"];
    let mut table = Table::new(namespaces.then_some("NAMESPACE").into_iter().chain(headings));
    for task in active.iter().take(LISTED) {
        let status = task.status.clone().unwrap_or_default();
        let on = task.spec.agent_ref.as_ref().or(task.spec.template_ref.as_ref());
        let since = status.start_time.as_ref().or(task.metadata.creation_timestamp.as_ref());
        let phase = format!("{:?}", phase(task));
        let tokens = status.usage.and_then(|usage| usage.tokens).map(|tokens| thousands(tokens.input + tokens.output));
        let first = namespaces.then(|| task.namespace().unwrap_or_default().into());
        let row = [
            task.name_any().into(),
            on.map(|on| on.name.as_str()).unwrap_or_default().into(),
            Cell::new(&phase, tone("PHASE", &phase)),
            span::since(since, now).unwrap_or_default().into(),
            tokens.unwrap_or_default().into(),
            status.message.or(status.reason).unwrap_or_default().into(),
        ];
        table.push(first.into_iter().chain(row).collect());
    }
    table
}

fn phase(task: &Task) -> TaskPhase {
    task.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sample() -> Load {
        let agent = |name: &str, spec: Value, status: Value| -> Agent {
            serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent",
                "metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": status}))
            .unwrap()
        };
        let task = |name: &str, agent: &str, status: Value| -> Task {
            serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
                "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"agentRef": {"name": agent}}, "status": status}))
            .unwrap()
        };
        let usage = json!({"tokens": {"input": 1000, "output": 234}, "cost": "0.1234567"});
        let mut load = Load::default();
        for agent in [
            agent("dev", json!({"maxConcurrentTasks": 1}), json!({"ready": true})),
            agent("idle", json!({"suspend": true}), json!({"ready": false})),
        ] {
            load.agents.insert(key(&agent), agent);
        }
        for task in [
            task("runs", "dev", json!({"phase": "Running", "startTime": "2026-01-01T00:04:00Z", "usage": usage})),
            task("waits", "dev", json!({"phase": "Queued", "queuePosition": 1, "message": "Agent 'dev' is busy"})),
            task(
                "done",
                "dev",
                json!({"phase": "Completed", "completionTime": "2026-01-01T00:03:00Z", "usage": usage}),
            ),
            task("old", "dev", json!({"phase": "Failed", "completionTime": "2025-01-01T00:03:00Z", "usage": usage})),
        ] {
            load.tasks.insert(key(&task), task);
        }
        load
    }

    #[test]
    fn a_frame_shows_who_works_who_waits_and_what_it_cost() {
        let screen = Screen { width: Some(120), ..Screen::default() };
        insta::assert_snapshot!(frame(&sample(), false, "2026-01-01T00:05:00Z".parse().unwrap(), &screen), @r"
        KubeOpenCode  1/2 agents ready, 1 running, 1 waiting; in 24h: 1 done, 0 failed, 2,468 tokens, cost $0.2469

        AGENT   STATE       SLOTS   QUEUE   OLDEST   DONE 24H   FAILED 24H   TOKENS 24H   COST 24H
        dev     Ready       1/1     1       5m       1          0            2,468        $0.2469
        idle    Suspended   0/any   0       -        0          0            0            $0.0000

        TASK    ON    PHASE     SINCE   TOKENS   WHY
        runs    dev   Running   60s     1,234    -
        waits   dev   Queued    5m      -        Agent 'dev' is busy
        ");
    }

    #[test]
    fn what_the_watch_tells_is_kept() {
        let mut load = sample();
        let agent = load.agents.values().next().unwrap().clone();
        keep(&mut load.agents, watcher::Event::Delete(agent.clone()));
        assert_eq!(load.agents.len(), 1);
        keep(&mut load.agents, watcher::Event::Init);
        keep(&mut load.agents, watcher::Event::InitApply(agent));
        assert_eq!(load.agents.len(), 1);
    }
}
