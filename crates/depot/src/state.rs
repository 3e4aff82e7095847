//! What all requests share.

use std::{sync::Arc, time::Duration};

use domain::contract::depot::MOST_PUBLICATION_BYTES;
use kube::Client;
use store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Options,
    caller::Callers,
    refused::{Answer, Refused},
};

/// Unit in which the memory of publications is shared out.
const KIB: usize = 1 << 10;

pub(crate) struct Shared {
    pub(crate) callers: Callers,
    pub(crate) store: Store,
    pub(crate) options: Options,
    uploads: Arc<Semaphore>,
    publications: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(client: Client, store: Store, options: Options) -> Self {
        Self {
            callers: Callers::new(client, options.review_lifetime),
            store,
            uploads: Arc::new(Semaphore::new(options.uploads)),
            publications: Arc::new(Semaphore::new(MOST_PUBLICATION_BYTES / KIB)),
            options,
        }
    }

    /// Waits until another upload may begin.
    pub(crate) async fn upload(&self) -> Answer<OwnedSemaphorePermit> {
        turn(&self.uploads, 1, self.options.turn).await
    }

    /// Waits until there is room for a publication of this length: all together have the room of the largest one.
    pub(crate) async fn publication(&self, bytes: Option<u64>) -> Answer<OwnedSemaphorePermit> {
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(MOST_PUBLICATION_BYTES);
        let units = bytes.div_ceil(KIB).clamp(1, MOST_PUBLICATION_BYTES / KIB);
        turn(&self.publications, u32::try_from(units).unwrap_or(u32::MAX), self.options.turn).await
    }
}

async fn turn(room: &Arc<Semaphore>, units: u32, limit: Duration) -> Answer<OwnedSemaphorePermit> {
    let busy = || Refused::unavailable("the depot receives as much as it can at the moment; try again");
    let taken = tokio::time::timeout(limit, Arc::clone(room).acquire_many_owned(units)).await;
    taken.map_err(|_| busy())?.map_err(|_| busy())
}
