//! Starts the demo, follows its Tasks and reports the results.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    io::{self, Write},
    time::Duration,
};

use api::{Agent, Task};
use futures::{StreamExt as _, pin_mut};
use jiff::Zoned;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind, NamespaceResourceScope},
    runtime::{
        WatchStreamExt as _,
        wait::{await_condition, conditions::is_deleted},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    report::{self, Report},
    template,
};

pub const NAMESPACE: &str = "demo";
const LABEL: &str = "kubeopencode.io/demo=true";
/// Annotation: what a Task demonstrates.
pub(crate) const SHOWS: &str = "kubeopencode.io/demo-shows";
/// Annotation: the reason a Task must finish with.
pub(crate) const ENDS: &str = "kubeopencode.io/demo-ends";
/// Field manager of the manifests.
const MANAGER: &str = "kubeopencode-demo";
/// A Task takes about ten seconds on an idle machine; a busy machine has needed six times as long.
const LIMIT: Duration = Duration::from_mins(8);

const MANIFESTS: [&str; 4] = [
    include_str!("../manifests/namespace.yaml"),
    include_str!("../manifests/agent.yaml"),
    include_str!("../manifests/tasks.yaml"),
    include_str!("../manifests/crontask.yaml"),
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid demo manifest: {0}")]
    Manifest(String),
    #[error("{what}: {why}")]
    Api {
        /// The failed operation.
        what: String,
        /// The message of the API server.
        why: String,
    },
    #[error("Task {0} of an earlier demo is not deleted: see `kubectl describe task -n demo {0}`")]
    Stays(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// A started demo.
pub struct Demo {
    client: Client,
    /// Number of Tasks that the manifests create.
    expected: usize,
}

impl Demo {
    /// Applies the manifests, with the scripted model at `model_url`. Removes the objects of an earlier demo first: its
    /// Agent would keep the old address of the model, and run the new Tasks with it.
    pub async fn start(client: Client, model_url: &str) -> Result<Self, Error> {
        remove::<Task>(&client, &DeleteParams::background()).await?;
        Box::pin(remove::<Agent>(&client, &DeleteParams::foreground())).await?;
        let mut expected = 0;
        for object in manifests(model_url)? {
            expected += usize::from(matches!(object["kind"].as_str(), Some("Task" | "CronTask")));
            apply(&client, &object).await?;
        }
        Ok(Self { client, expected })
    }

    /// Writes a line for each progress of a Task, until all have finished or the time limit is reached.
    pub async fn follow(&self, out: &mut dyn Write) -> Result<Report, Error> {
        let mut tasks = BTreeMap::new();
        // A timeout is not an error: the report shows what is missing.
        if let Ok(outcome) = timeout(LIMIT, self.watch(&mut tasks, out)).await {
            outcome?;
        }
        Ok(Report::new(tasks.values(), self.expected))
    }

    async fn watch(&self, tasks: &mut BTreeMap<String, Task>, out: &mut dyn Write) -> Result<(), Error> {
        let events = watcher::watcher(self.tasks(), watcher::Config::default().labels(LABEL)).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            // The watcher recovers from errors by itself.
            let Ok(Event::Apply(task) | Event::InitApply(task)) = event else { continue };
            let name = task.name_any();
            if let Some(line) = report::progress(tasks.get(&name), &task) {
                writeln!(out, "{}  {line}", Zoned::now().strftime("%H:%M:%S"))?;
            }
            tasks.insert(name, task);
            if tasks.len() >= self.expected && tasks.values().all(report::is_finished) {
                break;
            }
        }
        Ok(())
    }

    fn tasks(&self) -> Api<Task> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

/// The objects of the demo, with the address of the model filled in.
fn manifests(model_url: &str) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for text in MANIFESTS {
        let read: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| Error::Manifest(error.to_string()))?;
        objects.extend(read);
    }
    // After the Namespace, before the objects that refer to it.
    objects.insert(1, template::manifest(NAMESPACE, model_url)?);
    Ok(objects)
}

/// Creates or updates an object.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<(), Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let failed = |error| Error::Api { what: format!("cannot apply {kind} {name}"), why: message(error) };
    if kind == "Task" {
        let object = serde_json::from_value(object.clone()).map_err(|error| Error::Manifest(error.to_string()))?;
        api.create(&PostParams::default(), &object).await.map_err(failed)?;
    } else {
        api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await.map_err(failed)?;
    }
    Ok(())
}

/// The message of an API error, without status and details.
pub(crate) fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    }
}

/// Deletes the objects of one kind that an earlier demo created, and waits until they are gone.
async fn remove<K>(client: &Client, how: &DeleteParams) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let all: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    let failed = |error| {
        let what = format!("cannot remove the {} of an earlier demo", K::plural(&()));
        Error::Api { what, why: message(error) }
    };
    for object in all.list(&ListParams::default().labels(LABEL)).await.map_err(failed)? {
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        match all.delete(&name, how).await {
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            other => drop(other.map_err(failed)?),
        }
        let gone = timeout(Duration::from_mins(1), await_condition(all.clone(), &name, is_deleted(&uid))).await;
        if !matches!(gone, Ok(Ok(_))) {
            return Err(Error::Stays(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api::{AgentTemplate, CronTask};

    use super::*;

    #[test]
    fn the_manifests_are_what_they_say_and_name_the_model() {
        let objects = manifests("http://127.0.0.1:1/v1").unwrap();
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let tasks = ["Task"; 5];
        assert_eq!(kinds[..3], ["Namespace", "AgentTemplate", "Agent"]);
        assert_eq!((&kinds[3..8], kinds[8]), (&tasks[..], "CronTask"));
        // The next demo finds and removes them by this label.
        assert!(objects[2..8].iter().all(|object| object["metadata"]["labels"]["kubeopencode.io/demo"] == "true"));
        let template: AgentTemplate = serde_json::from_value(objects[1].clone()).unwrap();
        let config = serde_json::to_string(&template.spec).unwrap();
        assert!(config.contains("http://127.0.0.1:1/v1") && !config.contains("MODEL_URL"), "{config}");
        serde_json::from_value::<Agent>(objects[2].clone()).unwrap();
        let cron: CronTask = serde_json::from_value(objects[8].clone()).unwrap();
        let mut annotations = vec![cron.spec.task_template.metadata.unwrap().annotations.unwrap()];
        for object in &objects[3..8] {
            let task: Task = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(task.labels().get("kubeopencode.io/demo").map(String::as_str), Some("true"));
            annotations.push(task.annotations().clone());
        }
        assert!(annotations.iter().all(|all| all.contains_key(SHOWS) && all.contains_key(ENDS)));
    }
}
