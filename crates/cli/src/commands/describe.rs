//! `describe`: prints everything about an object as text.

use std::fmt::Write as _;

use api::TaskStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::Value;

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    kinds::{Kind, named},
    missing::missing,
    output::{print, tidy, yaml_text},
    problem::{Answer, Problem},
    screen::{Screen, Tone, line, paragraph},
    span,
    table::{Cell, Table},
    task::results,
};

/// Arguments of `describe`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kind and names: `task fix`, `task/fix agent/dev`; all objects of a kind without a name.
    #[arg(required = true, value_name = "KIND")]
    what: Vec<String>,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Prints the objects that the arguments name.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let screen = Screen::stdout();
    let mut shown = Vec::new();
    for wanted in named(&args.what)? {
        let api = wanted.kind.api(cluster.client.clone(), Some(&cluster.namespace));
        let objects = match &wanted.name {
            Some(name) => match api.get_opt(name).await? {
                Some(object) => vec![object],
                None => return Err(missing(&cluster, &wanted.kind, name).await),
            },
            None => api.list(&ListParams::default()).await?.items,
        };
        for object in objects {
            let events = events(&cluster, object.metadata.uid.as_deref()).await;
            let object = serde_json::to_value(object).map(tidy).map_err(|error| Problem::new(error.to_string()))?;
            shown.push(describe(&wanted.kind, &object, &events, Timestamp::now(), &screen)?);
        }
    }
    print(&shown.join("\n\n"))?;
    Ok(Exit::Success)
}

/// Events of an object, oldest first; empty without the right to read Events.
pub async fn events(cluster: &Cluster, uid: Option<&str>) -> Vec<Event> {
    let Some(uid) = uid else { return Vec::new() };
    let api: Api<Event> = cluster.api();
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let mut events = api.list(&params).await.map(|list| list.items).unwrap_or_default();
    events.sort_by_key(last_seen);
    events
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let recent = event.last_timestamp.as_ref().map(|time| time.0);
    recent.or(event.event_time.as_ref().map(|time| time.0)).or(event.first_timestamp.as_ref().map(|time| time.0))
}

fn describe(kind: &Kind, object: &Value, events: &[Event], now: Timestamp, screen: &Screen) -> Answer<String> {
    let mut page = String::new();
    let metadata = &object["metadata"];
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(page, "{}{}", screen.paint(Tone::Strong, &format!("{name:<14}")), line(value));
    };
    fact("Name:", metadata["name"].as_str().unwrap_or_default());
    if let Some(namespace) = metadata["namespace"].as_str() {
        fact("Namespace:", namespace);
    }
    fact("Kind:", &kind.name);
    if let Some(created) = metadata["creationTimestamp"].as_str() {
        let age = created.parse::<Timestamp>().map(|time| span::age(now.as_second() - time.as_second()));
        fact("Created:", &age.map_or_else(|_| created.to_owned(), |age| format!("{created} ({age} ago)")));
    }
    if let Some(deleted) = metadata["deletionTimestamp"].as_str() {
        fact("Deleted:", &format!("since {deleted}; removed when its work has stopped"));
    }
    for (heading, key) in [("Labels:", "labels"), ("Annotations:", "annotations")] {
        let pairs = metadata[key].as_object().into_iter().flatten();
        for (at, (name, value)) in pairs.enumerate() {
            fact(if at == 0 { heading } else { "" }, &format!("{name}={}", value.as_str().unwrap_or_default()));
        }
    }

    let mut status = object["status"].clone();
    let conditions = status.as_object_mut().and_then(|status| status.remove("conditions"));
    let results = results(kind, &mut status);
    for (heading, value) in [("Spec:", &object["spec"]), ("Status:", &status)] {
        if value.as_object().is_some_and(|map| !map.is_empty()) {
            let _ = writeln!(page, "\n{}", screen.paint(Tone::Strong, heading));
            for text in paragraph(&yaml_text(value)?).lines() {
                let _ = writeln!(page, "  {text}");
            }
        }
    }
    let narrower = Screen { width: screen.width.map(|width| width.saturating_sub(2)), ..*screen };
    let mut block = |heading: &str, table: &Table| {
        if !table.is_empty() {
            let _ = writeln!(page, "\n{}", screen.paint(Tone::Strong, heading));
            for text in table.show(&narrower).lines() {
                let _ = writeln!(page, "  {text}");
            }
        }
    };
    block("Artifacts:", &results::artifacts(&results, now));
    block("Caches:", &results::caches(&results));
    block("Conditions:", &condition_table(conditions.as_ref(), now));
    block("Events:", &event_table(events, now));
    Ok(page)
}

/// What a Task left and used, which has tables of its own, taken out of its status.
fn results(kind: &Kind, status: &mut Value) -> TaskStatus {
    let Some(status) = status.as_object_mut().filter(|_| kind.name == "Task") else { return TaskStatus::default() };
    let lists = ["artifacts", "caches"].map(|name| (name.to_owned(), status.get(name).cloned().unwrap_or_default()));
    let Ok(results) = serde_json::from_value(lists.into_iter().collect()) else { return TaskStatus::default() };
    status.retain(|name, _| !matches!(name.as_str(), "artifacts" | "caches"));
    results
}

fn condition_table(conditions: Option<&Value>, now: Timestamp) -> Table {
    let mut table = Table::new(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions.and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| condition[key].as_str().unwrap_or_default();
        let since = text("lastTransitionTime").parse::<Timestamp>();
        let since = since.map(|time| span::age(now.as_second() - time.as_second())).unwrap_or_default();
        table.push(vec![
            text("type").into(),
            text("status").into(),
            text("reason").into(),
            since.into(),
            text("message").into(),
        ]);
    }
    table
}

fn event_table(events: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(["AGE", "TYPE", "REASON", "MESSAGE"]);
    for event in events {
        let age = last_seen(event).map(|time| span::age(now.as_second() - time.as_second())).unwrap_or_default();
        let times = event.count.filter(|count| *count > 1).map(|count| format!(" (x{count})")).unwrap_or_default();
        let kind = event.type_.as_deref().unwrap_or_default();
        table.push(vec![
            format!("{age}{times}").into(),
            Cell::new(kind, if kind == "Warning" { Tone::Bad } else { Tone::Plain }),
            event.reason.as_deref().unwrap_or_default().into(),
            event.message.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_described_completely_and_in_order() {
        let object = json!({
            "metadata": {"name": "fix", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"a": "1", "b": "2"}},
            "spec": {"description": "do\nthis \u{1b}[31m", "agentRef": {"name": "dev"}},
            "status": {"phase": "Queued", "caches": [{"name": "npm", "hit": "Miss", "saved": true}],
                "artifacts": [{"name": "dist", "bytes": 2048, "files": 3}], "conditions": [{"type": "Queued", "status": "True",
                "reason": "AgentAtCapacity", "message": "Agent 'dev' is busy", "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
        });
        let event: Event = serde_json::from_value(json!({"type": "Warning", "reason": "Refused", "message": "no",
            "count": 3, "lastTimestamp": "2026-01-01T00:00:50Z", "involvedObject": {}, "metadata": {}}))
        .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let kind = Kind::named("task").unwrap();
        let shown = describe(&kind, &object, &[event], now, &Screen::default()).unwrap();
        insta::assert_snapshot!(shown, @r#"
        Name:         fix
        Namespace:    team
        Kind:         Task
        Created:      2026-01-01T00:00:00Z (60s ago)
        Labels:       a=1
                      b=2

        Spec:
          description: "do\nthis \e[31m"
          agentRef:
            name: dev

        Status:
          phase: Queued

        Artifacts:
          ARTIFACT   SIZE      FILES   EXPIRES
          dist       2.0 KiB   3       never

        Caches:
          CACHE   FOUND   RESTORED   TOOK   SAVED
          npm     miss    -          -      yes

        Conditions:
          TYPE     STATUS   REASON            SINCE   MESSAGE
          Queued   True     AgentAtCapacity   55s     Agent 'dev' is busy

        Events:
          AGE        TYPE      REASON    MESSAGE
          10s (x3)   Warning   Refused   no
        "#);
    }
}
