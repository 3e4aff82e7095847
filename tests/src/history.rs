//! Everything that happened to the objects of a namespace, in the order in which it was stored.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::watcher::{self, Event},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::Notify, task::JoinHandle};

/// Whatever a case waits for comes in a second; a machine that is busy with builds needs longer.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Records every version of every object that a watch shows. It ends with this value.
pub struct History<K> {
    log: Arc<Log<K>>,
    worker: JoinHandle<()>,
}

struct Log<K> {
    /// `false` in front of the last version of an object that was deleted.
    entries: Mutex<Vec<(bool, Arc<K>)>>,
    changed: Notify,
}

impl<K> History<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static,
{
    /// Records the changes of the objects of `api`, beginning with those that exist.
    pub fn record(api: Api<K>) -> Self {
        let log = Arc::new(Log { entries: Mutex::default(), changed: Notify::new() });
        let written = Arc::clone(&log);
        let worker = tokio::spawn(async move {
            let events = watcher::watcher(api, watcher::Config::default());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let entry = match event {
                    Ok(Event::InitApply(object) | Event::Apply(object)) => (true, Arc::new(object)),
                    Ok(Event::Delete(object)) => (false, Arc::new(object)),
                    Ok(Event::Init | Event::InitDone) => continue,
                    // The watch is taken up again by the next poll; an API server that restarts gets a moment.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                        continue;
                    }
                };
                written.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
                written.changed.notify_waiters();
            }
        });
        Self { log, worker }
    }

    /// Every version of every object, in order.
    pub fn versions(&self) -> Vec<Arc<K>> {
        let entries = self.log.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter(|(there, _)| *there).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The object of this name as it is now.
    pub fn now(&self, name: &str) -> Option<Arc<K>> {
        let entries = self.log.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (there, object) = entries.iter().rev().find(|(_, object)| object.name_any() == name)?;
        there.then(|| Arc::clone(object))
    }

    /// Every object as it is now.
    pub fn all(&self) -> Vec<Arc<K>> {
        let entries = self.log.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last: Vec<&(bool, Arc<K>)> = Vec::new();
        for entry in entries.iter().rev() {
            if !last.iter().any(|(_, object)| object.name_any() == entry.1.name_any()) {
                last.push(entry);
            }
        }
        last.into_iter().filter(|(there, _)| *there).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Waits until `test` returns a value. The error names the awaited state and the last one.
    pub async fn until<T>(&self, what: &str, test: impl Fn(&Self) -> Option<T>) -> anyhow::Result<T> {
        let search = async {
            loop {
                let changed = self.log.changed.notified();
                tokio::pin!(changed);
                // From here on no change is missed, whether or not it comes before the wait.
                changed.as_mut().enable();
                if let Some(found) = test(self) {
                    return found;
                }
                changed.await;
            }
        };
        tokio::time::timeout(LIMIT, search).await.map_err(|_| self.complaint(what))
    }

    /// Waits until the object of this name is as wanted.
    pub async fn until_object(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> anyhow::Result<Arc<K>> {
        self.until(&format!("{name}: {what}"), |history| history.now(name).filter(|object| wanted(object))).await
    }

    /// Waits until there is no object of this name.
    pub async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        self.until(&format!("{name} to go"), |history| history.now(name).is_none().then_some(())).await
    }

    fn complaint(&self, what: &str) -> anyhow::Error {
        let show = |object: &Arc<K>| {
            let mut object = (**object).clone();
            object.managed_fields_mut().clear();
            serde_json::to_string(&object).context("not JSON").unwrap_or_else(|error| error.to_string())
        };
        let all: Vec<String> = self.all().iter().map(show).collect();
        anyhow::anyhow!("waited {LIMIT:?} in vain for {what}; there is\n{}", all.join("\n"))
    }
}

impl<K> Drop for History<K> {
    fn drop(&mut self) {
        self.worker.abort();
    }
}
