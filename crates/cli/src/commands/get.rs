//! `get`: prints objects as a table, JSON, YAML or names.

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::ListParams,
    core::DynamicObject,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use serde_json::Value;

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    kinds::{Kind, Named, named},
    missing::missing,
    output::{Format, json_text, list, note, print, tidy, yaml_text},
    problem::{Answer, Problem},
    screen::Screen,
    table::Table,
};

/// Page size of list requests.
const PAGE: u32 = 500;

/// Arguments of `get`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kinds and names: `tasks`, `task fix`, `task/fix agent/dev`, `tasks,agents`, or `all`.
    #[arg(required = true, value_name = "KIND")]
    what: Vec<String>,
    #[command(flatten)]
    pub(super) how: ListArgs,
}

/// Arguments of `get`, and of commands that list one kind.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// In every namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects with these labels, such as `team=a,env!=test`.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// The same as `--output wide`.
    #[arg(long, conflicts_with = "output")]
    wide: bool,
    /// Keep watching and print changes.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Prints objects.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    show(cluster, named(&args.what)?, args.how).await
}

/// Prints all objects of a kind.
pub async fn list_kind(cluster: Cluster, kind: Kind, args: ListArgs) -> Answer<Exit> {
    show(cluster, vec![Named { kind, name: None }], args).await
}

async fn show(cluster: Cluster, all: Vec<Named>, args: ListArgs) -> Answer<Exit> {
    let format = if args.wide { Format::Wide } else { args.output };
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    if args.watch {
        let [one] = all.as_slice() else {
            return Err(Problem::usage("--watch shows one kind, or one object")
                .next("name one kind only, such as: get tasks --watch"));
        };
        return watch(&cluster, one, namespace, args.selector.as_deref(), format).await;
    }

    let single = matches!(all.as_slice(), [Named { name: Some(_), .. }]);
    let mut found: Vec<(Kind, Vec<Value>)> = Vec::new();
    for wanted in &all {
        let objects = fetch(&cluster, wanted, namespace, args.selector.as_deref()).await?;
        match found.iter_mut().find(|(kind, _)| *kind == wanted.kind) {
            Some((_, others)) => others.extend(objects),
            None => found.push((wanted.kind.clone(), objects)),
        }
    }
    let now = Timestamp::now();
    match format {
        Format::Table | Format::Wide => {
            let shown = View { wide: format == Format::Wide, namespaces: namespace.is_none() };
            print(&tables(&found, shown, now, &Screen::stdout()))?;
            if found.iter().all(|(_, objects)| objects.is_empty()) {
                note(&nothing(&all, namespace));
            }
        }
        Format::Json => print(&json_text(&list(flat(found), single))?)?,
        Format::Yaml => print(&yaml_text(&list(flat(found), single))?)?,
        Format::Name => print(&names(&found))?,
    }
    Ok(Exit::Success)
}

/// Fetches one object, or all objects of a kind.
async fn fetch(
    cluster: &Cluster,
    wanted: &Named,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Answer<Vec<Value>> {
    let api = wanted.kind.api(cluster.client.clone(), namespace);
    if let Some(name) = &wanted.name {
        if namespace.is_none() && wanted.kind.namespaced {
            return Err(Problem::usage("a name needs a namespace: use --namespace instead of --all-namespaces"));
        }
        let Some(object) = api.get_opt(name).await? else { return Err(missing(cluster, &wanted.kind, name).await) };
        return Ok(vec![data(&wanted.kind, object)?]);
    }
    let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
    params.label_selector = selector.map(ToOwned::to_owned);
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await?;
        for object in page.items {
            objects.push(data(&wanted.kind, object)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

/// The object as JSON. Adds the kind, which items of a list response do not contain.
fn data(kind: &Kind, mut object: DynamicObject) -> Answer<Value> {
    let resource = kind.resource();
    object.types = Some(kube::core::TypeMeta { api_version: resource.api_version, kind: resource.kind });
    serde_json::to_value(object).map(tidy).map_err(|error| Problem::new(error.to_string()))
}

fn flat(found: Vec<(Kind, Vec<Value>)>) -> Vec<Value> {
    found.into_iter().flat_map(|(_, objects)| objects).collect()
}

fn nothing(all: &[Named], namespace: Option<&str>) -> String {
    let what = match all {
        [one] => format!("no {}", one.kind.plural),
        _ => "nothing".to_owned(),
    };
    match namespace.filter(|_| all.iter().any(|one| one.kind.namespaced)) {
        Some(namespace) => format!("{what} in namespace {namespace}; --all-namespaces looks everywhere"),
        None => format!("{what} found"),
    }
}

fn names(found: &[(Kind, Vec<Value>)]) -> String {
    let one = |kind: &Kind, object: &Value| kind.full_name(name_of(object)) + "\n";
    found.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| one(kind, object))).collect()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Options of a table.
#[derive(Clone, Copy, Debug)]
struct View {
    wide: bool,
    namespaces: bool,
}

impl View {
    fn table(self, kind: &Kind) -> Table {
        let columns = kind.columns.iter().filter(|column| self.wide || !column.wide);
        let namespace = (self.namespaces && kind.namespaced).then(|| "NAMESPACE".to_owned());
        Table::new(namespace.into_iter().chain(["NAME".to_owned()]).chain(columns.map(|column| column.heading.clone())))
    }

    fn push(self, table: &mut Table, kind: &Kind, object: &Value, now: Timestamp) {
        let columns = kind.columns.iter().filter(|column| self.wide || !column.wide);
        let namespace = object["metadata"]["namespace"].as_str().filter(|_| self.namespaces && kind.namespaced);
        let first = namespace.into_iter().chain([name_of(object)]).map(Into::into);
        table.push(first.chain(columns.map(|column| column.cell(object, now))).collect());
    }
}

/// One table per kind; kinds without objects are omitted.
fn tables(found: &[(Kind, Vec<Value>)], view: View, now: Timestamp, screen: &Screen) -> String {
    let several = found.iter().filter(|(_, objects)| !objects.is_empty()).count() > 1;
    let mut shown = Vec::new();
    for (kind, objects) in found.iter().filter(|(_, objects)| !objects.is_empty()) {
        let mut table = view.table(kind);
        for object in objects {
            view.push(&mut table, kind, object, now);
        }
        let title = if several { format!("{}\n", kind.name) } else { String::new() };
        shown.push(title + &table.show(screen));
    }
    shown.join("\n")
}

/// Prints the objects, then each that changes, until the command is interrupted.
async fn watch(
    cluster: &Cluster,
    wanted: &Named,
    namespace: Option<&str>,
    selector: Option<&str>,
    format: Format,
) -> Answer<Exit> {
    let kind = &wanted.kind;
    let config = watcher::Config {
        label_selector: selector.map(ToOwned::to_owned),
        field_selector: wanted.name.as_ref().map(|name| format!("metadata.name={name}")),
        ..watcher::Config::default()
    };
    if wanted.name.is_some() {
        // A watch would wait for a name that does not exist; report a mistyped name at once.
        fetch(cluster, wanted, namespace, selector).await?;
    }
    let api = kind.api(cluster.client.clone(), namespace);
    let mut events = watcher(api, config).default_backoff().boxed();
    let view = View { wide: format == Format::Wide, namespaces: namespace.is_none() };
    let screen = Screen::stdout();
    let mut table = view.table(kind);
    let mut started = false;
    let mut seen = std::collections::HashMap::new();
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => object,
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => continue,
            Ok(watcher::Event::InitDone) => {
                if !started && matches!(format, Format::Table | Format::Wide) {
                    print(&table.show(&screen))?;
                }
                started = true;
                continue;
            }
            // The watch retries temporary errors by itself.
            Err(error) if started => {
                note(&format!("the watch was interrupted: {}", Problem::from(error)));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        // After an interruption all objects are delivered again.
        let version = object.resource_version();
        if seen.insert((object.namespace(), object.name_any()), version.clone()) == Some(version) {
            continue;
        }
        let object = data(kind, object)?;
        match format {
            Format::Table | Format::Wide => {
                view.push(&mut table, kind, &object, Timestamp::now());
                if started {
                    print(&table.show_last(&screen))?;
                }
            }
            Format::Json => print(&json_text(&object)?)?,
            Format::Yaml => print(&format!("---\n{}", yaml_text(&object)?))?,
            Format::Name => print(&format!("{}\n", kind.full_name(name_of(&object))))?,
        }
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Vec<(Kind, Vec<Value>)> {
        let task = |name: &str, status: Value| {
            json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
                "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"agentRef": {"name": "dev"}}, "status": status})
        };
        let tasks = vec![
            task("fix", json!({"phase": "Running", "agentRef": {"name": "dev"}, "podName": "fix-pod"})),
            task("wait", json!({"phase": "Queued", "reason": "AgentAtCapacity", "queuePosition": 2})),
        ];
        vec![(Kind::named("tasks").unwrap(), tasks), (Kind::named("agents").unwrap(), vec![])]
    }

    fn now() -> Timestamp {
        "2026-01-01T00:05:30Z".parse().unwrap()
    }

    #[test]
    fn a_table_shows_the_columns_of_the_definition() {
        let view = View { wide: false, namespaces: false };
        insta::assert_snapshot!(tables(&sample(), view, now(), &Screen::default()), @r"
        NAME   PHASE     AGENT   POD       REASON            AGE
        fix    Running   dev     fix-pod   -                 5m30s
        wait   Queued    -       -         AgentAtCapacity   5m30s
        ");
    }

    #[test]
    fn a_wide_table_shows_all_of_them_and_the_namespace() {
        let view = View { wide: true, namespaces: true };
        insta::assert_snapshot!(tables(&sample(), view, now(), &Screen::default()), @r"
        NAMESPACE   NAME   PHASE     AGENT   TEMPLATE   POD       REASON            QUEUE   COST   ARTIFACTS   AGE
        team        fix    Running   dev     -          fix-pod   -                 -       -      -           5m30s
        team        wait   Queued    -       -          -         AgentAtCapacity   2       -      -           5m30s
        ");
    }

    #[test]
    fn names_can_be_handed_to_other_commands() {
        assert_eq!(names(&sample()), "task.kubeopencode.io/fix\ntask.kubeopencode.io/wait\n");
    }

    #[test]
    fn an_empty_answer_says_where_it_looked() {
        let tasks = named(&["tasks".to_owned()]).unwrap();
        assert_eq!(nothing(&tasks, Some("a")), "no tasks in namespace a; --all-namespaces looks everywhere");
        assert_eq!(nothing(&tasks, None), "no tasks found");
    }
}
