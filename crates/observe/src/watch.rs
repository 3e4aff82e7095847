//! A watch that recovers from every error.

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

/// Minimum pause between two full lists, for a server that expires every watch at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches objects until the stream is dropped. A lost connection is retried with backoff; an expired watch starts with
/// a new list.
///
/// The watcher relists by itself if the server reports the expiry as an event. If the server rejects the request
/// instead, the watcher would retry the same request for ever, so it is replaced.
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
