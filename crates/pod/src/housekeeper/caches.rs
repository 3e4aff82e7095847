//! Caches are saved after success under the keys that `prep` computed. Trouble with them fails nothing.

use std::time::Instant;

use api::run::{Cache, CachePolicy};

use super::collection::Collection;
use super::store::{StoreError, left_out};
use crate::depot::{Depot, Published};
use crate::prep::keys::{self, ComputedKey};
use crate::text;

impl Collection<'_> {
    pub(super) async fn caches(&mut self, depot: &Depot) {
        let settings = self.settings;
        let saved = |cache: &&Cache| matches!(cache.policy, CachePolicy::PullPush | CachePolicy::Push);
        let caches: Vec<&Cache> = settings.keep.caches.iter().filter(saved).collect();
        if caches.is_empty() || !self.succeeded() || self.left_too_little() {
            return;
        }
        let keys = match keys::read(&settings.collect) {
            Ok(keys) => keys,
            Err(error) => return self.note(format!("no cache is saved: {error}")),
        };
        for cache in caches {
            // `prep` said why a cache has no key. An entry that was found by its key is never replaced.
            if let Some(ComputedKey { key, exact: false, .. }) = keys.iter().find(|found| found.name == cache.name) {
                self.cache(depot, cache, key).await;
            }
        }
    }

    async fn cache(&mut self, depot: &Depot, cache: &Cache, key: &str) {
        let begin = Instant::now();
        let what = format!("cache \"{}\"", cache.name);
        let stored = async {
            let (packed, _) = self.store(depot, &cache.paths, &what).await?;
            let published = self.patiently(&what, async || depot.publish_cache(&cache.name, key, &packed).await);
            Ok::<_, StoreError>((published.await?, packed))
        };
        match stored.await {
            Ok((Published::Now, packed)) => {
                tracing::info!(
                    "saved {what} as {key:?}: {}, {} as {}, in {}",
                    text::files(packed.files),
                    text::size(packed.content_bytes),
                    text::size(packed.bytes),
                    text::seconds(begin.elapsed())
                );
                self.report.saved_caches.push(cache.name.clone());
                self.notes(left_out(&what, &packed.skipped));
            }
            Ok((Published::Before, _)) => tracing::info!("{what} has an entry {key:?} already, which stays"),
            Err(StoreError::Nothing) => self.note(format!("{what} is not saved: nothing matches its paths")),
            Err(error) => self.note(format!("{what} is not saved: {error}")),
        }
    }
}
