//! The life of a server: bind, serve, shut down.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Instant};

use axum::{Router, extract::State, routing::get};
use http::header;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch as signal},
    task::JoinSet,
};

use crate::{
    Access, Oidc, Options,
    auth::{self, Codes, Reviews, Sessions, oidc, random},
    cluster::Cluster,
    edge::{connections::Connections, limits::Limits},
    live::{cache::Caches, logs},
    metrics::Metrics,
    routes::{self, artifact::Manifests, share::Shares},
    state::Server,
};

/// Why the server cannot start or stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client configuration of the cluster is invalid.
    #[error("invalid cluster configuration: {0}")]
    Cluster(#[from] kube::Error),
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address to bind.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A listener failed.
    #[error("serving failed: {0}")]
    Serve(#[from] io::Error),
    /// The system provides no randomness, or the session key is invalid.
    #[error("sessions cannot be created: {0}")]
    Sessions(String),
    /// The configuration of the identity provider is invalid.
    #[error("invalid identity provider: {0}")]
    Oidc(String),
}

/// A server whose addresses are bound.
pub struct Listening {
    listener: TcpListener,
    metrics: Option<TcpListener>,
    server: Arc<Server>,
    address: SocketAddr,
    ending: signal::Sender<bool>,
}

impl Listening {
    /// Binds the addresses.
    pub async fn bind(cluster: Access, options: Options) -> Result<Self, Error> {
        Self::bind_with_provider(cluster, options, None).await
    }

    /// As [`Self::bind`]; users of `provider` may log in too.
    pub async fn bind_with_provider(cluster: Access, options: Options, provider: Option<Oidc>) -> Result<Self, Error> {
        let (ending, is_ending) = signal::channel(false);
        let listener = listen(options.address).await?;
        let address = listener.local_addr()?;
        let metrics = match options.metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let server = Arc::new(server(cluster, options, provider, address, is_ending)?);
        Ok(Self { listener, metrics, server, address, ending })
    }

    /// The bound address of the API, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Issues one-time login links for the owner of this machine.
    pub fn login_links(&self) -> LoginLinks {
        LoginLinks { codes: Arc::clone(&self.server.codes), base: base(&self.server.options, self.address) }
    }

    /// Serves until `stop` is ready, then finishes open requests.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let Self { listener, metrics, server, address, ending } = self;
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&server.caches).follow(server.cluster.readable()));
        if let Some(listener) = metrics {
            let router = Router::new().route("/metrics", get(metrics_text)).with_state(Arc::clone(&server));
            background.spawn(async move {
                if let Err(error) = axum::serve(listener, router).await {
                    tracing::error!(%error, "serving metrics failed");
                }
            });
        }
        tracing::info!(%address, "serving");
        let (router, _) = routes::router(Some(&server));
        let mut connections = Connections::new(listener, router.with_state(server));
        tokio::select! {
            () = connections.accept() => {}
            () = stop => {}
        }
        tracing::info!("shutting down");
        ending.send_replace(true);
        connections.end().await;
        Ok(())
    }
}

/// Issues one-time login links for the owner of this machine.
#[derive(Clone, Debug)]
pub struct LoginLinks {
    codes: Arc<Codes>,
    base: String,
}

impl LoginLinks {
    /// A link that works once, within 15 minutes.
    pub fn issue(&self) -> Result<String, Error> {
        let code = self.codes.issue().map_err(|error| Error::Sessions(error.to_string()))?;
        Ok(format!("{}/login?code={code}", self.base))
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// URL at which browsers reach the server, as far as known.
fn base(options: &Options, address: SocketAddr) -> String {
    let at_host = || options.page_host.as_ref().map(|host| format!("http://{host}:{}", address.port()));
    let base = options.base_url.clone().or_else(at_host).unwrap_or_else(|| format!("http://{address}"));
    base.trim_end_matches('/').to_owned()
}

fn server(
    cluster: Access,
    options: Options,
    provider: Option<Oidc>,
    address: SocketAddr,
    ending: signal::Receiver<bool>,
) -> Result<Server, Error> {
    let failed = |error: &dyn std::error::Error| Error::Sessions(error.to_string());
    let key = match options.session_key {
        Some(key) => key,
        None => random::bytes().map_err(|error| failed(&error))?,
    };
    let feed_prefix = random::text(6).map_err(|error| failed(&error))?;
    let cluster = Cluster::new(cluster)?;
    let provider = provider.map(|settings| oidc::Provider::new(settings, &base(&options, address)));
    Ok(Server {
        caches: Arc::new(Caches::new(&feed_prefix, options.environment)),
        reviews: Reviews::new(cluster.own.clone(), options.review_ttl),
        sessions: Sessions::new(&key, auth::is_secure(options.base_url.as_deref())).map_err(|error| failed(&error))?,
        codes: Arc::default(),
        oidc: provider.transpose().map_err(|error| Error::Oidc(error.to_string()))?,
        limits: Limits::new(options.requests_per_second),
        throttle: (options.concurrent_requests > 0).then(|| Semaphore::new(options.concurrent_requests)),
        log_searches: Semaphore::new(logs::search::AT_ONCE),
        metrics: Metrics::default(),
        shares: Shares::default(),
        manifests: Manifests::default(),
        started: Instant::now(),
        cluster,
        options,
        ending,
    })
}

async fn metrics_text(State(server): State<Arc<Server>>) -> ([(header::HeaderName, &'static str); 1], String) {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], server.metrics.text())
}
