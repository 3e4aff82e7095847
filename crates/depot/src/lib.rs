//! # The depot: where Pods put the files that a run keeps, and fetch the files that it needs
//!
//! It serves the protocol of [`domain::contract::depot`]; what arrives goes into the [`store`].
//!
//! Invariants:
//! - A request is that of one run. Its token was issued for a Pod and for the depot, the Pod is that of the current run of
//!   its Task, and the run is not over. What was found out is remembered for [`Options::review_lifetime`]; the store itself
//!   refuses what comes after the end of a run or from an older one (I2).
//! - A run may do what its Pod declares, and nothing else: the names in the immutable specification of the Pod count.
//! - Bytes are streamed. What is held of them in memory does not depend on their number.
//! - What was not received whole, or is not what its sender says, is never named by anything.
//! - The depot keeps no tokens, and writes none into logs and answers.
//!
//! Its Kubernetes client needs the rights to create TokenReviews and to get Pods and Tasks.

mod caches;
mod caller;
mod content;
mod inputs;
mod intake;
mod publication;
mod recent;
mod refused;
mod routes;
mod serving;
mod state;
mod upload;

use std::{io, sync::Arc, time::Duration};

use domain::contract::collect::MOST_CONTENT_BYTES;
use kube::Client;
use store::Store;
use tokio::net::TcpListener;

use crate::state::Shared;

/// Limits of a depot.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one blob.
    pub most_blob_bytes: u64,
    /// Uploads at a time. Each holds up to 15 MiB in memory.
    pub uploads: usize,
    /// How long a request waits for its turn, before it is told to try again.
    pub turn: Duration,
    /// How long a client may take to send or to receive the next bytes.
    pub patience: Duration,
    /// How long is remembered which run a token belongs to.
    pub review_lifetime: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            most_blob_bytes: MOST_CONTENT_BYTES,
            uploads: 16,
            turn: Duration::from_secs(20),
            patience: Duration::from_mins(1),
            review_lifetime: Duration::from_secs(10),
        }
    }
}

/// The depot of a store.
#[derive(Clone)]
pub struct Depot {
    shared: Arc<Shared>,
}

impl Depot {
    /// The depot of `store`, which asks the Kubernetes API through `client` who calls.
    pub fn new(client: Client, store: Store, options: Options) -> Self {
        Self { shared: Arc::new(Shared::new(client, store, options)) }
    }

    /// Serves HTTP on `listener` until `shutdown` resolves, then finishes open requests. Fails if the socket does not
    /// listen any more.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let router = routes::router(Arc::clone(&self.shared));
        serving::serve(listener, router, self.shared.options.patience, shutdown).await
    }
}
