//! A watch that goes on whatever happens to it.

use std::{fmt::Debug, time::Duration};

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;

/// A server that never remembers is asked for everything this often at most.
const PAUSE: Duration = Duration::from_secs(1);

/// Follows objects for ever. A lost connection is taken up again with growing pauses; an expired one starts with a new
/// list.
///
/// The last is the watcher's own business if the server says so by an event. If it refuses the request instead, the
/// watcher would ask for the same for ever; then another one takes its place.
pub fn watch<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let begin = move || watcher::watcher(api.clone(), config.clone()).default_backoff().boxed();
    stream::unfold((begin(), begin), |(mut events, begin)| async move {
        let event = events.next().await?;
        if matches!(&event, Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410) {
            tokio::time::sleep(PAUSE).await;
            events = begin();
        }
        Some((event, (events, begin)))
    })
}
