//! # The REST API and the web page
//!
//! [`Listening`] serves `/api/v1`, share links and the page until it is told to stop; [`openapi`] is its description.
//!
//! What is known of the cluster comes in by one watch a kind (`world`), so a list costs no request to the Kubernetes
//! API. Single objects are read from it, and everything is changed there, with the caller's own token.
//!
//! Invariants, each with a test:
//! - nobody sees or does anything without a right that the Kubernetes API confirmed (`auth`);
//! - the value of a Secret leaves only as the token of a share link, for who may read that Secret;
//! - no name from a path reaches another path unchecked (`names`);
//! - a stream of changes or logs goes on where it broke off, or says that it cannot (`feed`, `logs`);
//! - every answer that is no success has the same shape (`error`).

mod actions;
mod address;
mod auth;
mod cluster;
mod config;
mod connections;
mod crud;
mod error;
mod events;
mod explain;
mod extract;
mod feed;
mod front;
mod graph;
mod kind;
mod limits;
mod list;
mod logs;
mod meta;
mod metrics;
mod names;
mod openapi;
mod opencode;
mod page;
mod proxy;
mod random;
mod runs;
mod selector;
mod session;
mod share;
mod span;
mod state;
mod summary;
mod terminal;
mod upcoming;
mod wire;
mod world;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Instant,
};

use axum::{
    Router,
    extract::State,
    middleware::from_fn_with_state,
    routing::{any, get},
};
use http::header;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch as signal},
    task::JoinSet,
};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

pub use address::{NoRange, Range};
pub use auth::oidc::Oidc;
use auth::{Codes, Reviews, Sessions, oidc};
pub use cluster::Access;
use cluster::Cluster;
use connections::Connections;
use error::ApiError;
use limits::Limits;
use metrics::Metrics;
use share::Shares;
use state::Server;
use store::Archive;
use world::World;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to serve the API and the page.
    pub address: SocketAddr,
    /// Where to serve `/metrics`; nowhere when unset.
    pub metrics: Option<SocketAddr>,
    /// Address at which browsers reach the server. With https, cookies travel by https only.
    pub base_url: Option<String>,
    /// Whoever is not logged in may read, with the server's own rights.
    pub anonymous: bool,
    /// Whoever is not logged in may change things too.
    pub anonymous_write: bool,
    /// Origins of other pages that may use the API, with tokens.
    pub cors_allowed_origins: Vec<String>,
    /// Requests a second that one client address may make in the long run; 0 is any number.
    pub requests_per_second: u32,
    /// Requests that are worked on at once; 0 is any number.
    pub concurrent_requests: usize,
    /// Proxies whose X-Forwarded-For is believed.
    pub trusted_proxies: Vec<Range>,
    /// Key that seals sessions. Give all servers the same; without one, sessions end with the process.
    pub session_key: Option<[u8; 32]>,
    /// Agents may listen on loopback addresses, as they do in the embedded mode.
    pub agents_on_loopback: bool,
    /// Looks up an environment variable.
    pub environment: fn(&str) -> Option<String>,
    /// Where logs are kept; without one they go with their Pods.
    pub log_archive: Option<Arc<dyn Archive>>,
}

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be talked to.
    #[error("the cluster's configuration cannot be used: {0}")]
    Cluster(#[from] kube::Error),
    /// An address cannot be served.
    #[error("{address} cannot be served: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Serving failed.
    #[error("serving failed: {0}")]
    Serve(#[from] io::Error),
    /// There is no randomness or no usable key.
    #[error("sessions cannot be made: {0}")]
    Sessions(String),
    /// The identity provider cannot be used as it is configured.
    #[error("the identity provider cannot be used: {0}")]
    Oidc(String),
}

/// A server that has its address and is about to serve.
pub struct Listening {
    listener: TcpListener,
    metrics: Option<TcpListener>,
    server: Arc<Server>,
    address: SocketAddr,
    ending: signal::Sender<bool>,
}

impl Listening {
    /// Takes its addresses.
    pub async fn bind(cluster: Access, options: Options) -> Result<Self, Error> {
        Self::bind_with_provider(cluster, options, None).await
    }

    /// As [`Self::bind`]; people of `provider` may log in too.
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

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes links that log in the owner of this machine, each once.
    pub fn login_links(&self) -> LoginLinks {
        LoginLinks { codes: Arc::clone(&self.server.codes), base: base(&self.server.options, self.address) }
    }

    /// Serves until `stop` is ready and what was begun has ended.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let Self { listener, metrics, server, address, ending } = self;
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&server.world).follow(server.cluster.readable()));
        if let Some(listener) = metrics {
            let numbers = Router::new().route("/metrics", get(numbers)).with_state(Arc::clone(&server));
            background.spawn(async move {
                if let Err(error) = axum::serve(listener, numbers).await {
                    tracing::error!(%error, "metrics are no longer served");
                }
            });
        }
        tracing::info!(%address, "serving");
        let (router, _) = router(Some(&server));
        let mut connections = Connections::new(listener, router.with_state(server));
        tokio::select! {
            () = connections.accept() => {}
            () = stop => {}
        }
        tracing::info!("ending");
        ending.send_replace(true);
        connections.end().await;
        Ok(())
    }
}

/// Makes links that log in the owner of this machine, each once.
#[derive(Clone, Debug)]
pub struct LoginLinks {
    codes: Arc<Codes>,
    base: String,
}

impl LoginLinks {
    /// A link that works once, within a quarter of an hour.
    pub fn issue(&self) -> Result<String, Error> {
        let code = self.codes.issue().map_err(|error| Error::Sessions(error.to_string()))?;
        Ok(format!("{}/login?code={code}", self.base))
    }
}

/// The description of the API as JSON (OpenAPI 3.1), indented.
pub fn openapi() -> String {
    let (_, api) = router(None);
    let mut text = serde_json::to_string_pretty(&openapi::finish(api)).unwrap_or_default();
    text.push('\n');
    text
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Address at which browsers reach the server, as far as it knows.
fn base(options: &Options, address: SocketAddr) -> String {
    let base = options.base_url.clone().unwrap_or_else(|| format!("http://{address}"));
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
    let born = random::text(6).map_err(|error| failed(&error))?;
    let cluster = Cluster::new(cluster)?;
    let provider = provider.map(|settings| oidc::Provider::new(settings, &base(&options, address)));
    Ok(Server {
        world: Arc::new(World::new(&born, options.environment)),
        reviews: Reviews::new(cluster.own.clone()),
        sessions: Sessions::new(&key, auth::is_secure(options.base_url.as_deref())).map_err(|error| failed(&error))?,
        codes: Arc::default(),
        oidc: provider.transpose().map_err(|mistake| Error::Oidc(mistake.to_string()))?,
        limits: Limits::new(options.requests_per_second),
        throttle: (options.concurrent_requests > 0).then(|| Semaphore::new(options.concurrent_requests)),
        metrics: Metrics::default(),
        shares: Shares::default(),
        started: Instant::now(),
        cluster,
        options,
        ending,
    })
}

/// Every route, and what is written at those under `/api/v1` of their description. Without a server there is nobody to
/// guard them.
fn router(server: Option<&Arc<Server>>) -> (Router<Arc<Server>>, OpenApi) {
    let described = OpenApiRouter::new()
        .merge(meta::routes())
        .merge(actions::routes())
        .merge(session::routes())
        .merge(logs::routes())
        .merge(runs::routes())
        .merge(explain::routes())
        .merge(share::routes())
        .merge(upcoming::routes())
        .merge(config::routes())
        .merge(events::routes())
        .merge(summary::routes())
        .merge(graph::routes());
    let (known, mut api) = OpenApiRouter::new().nest("/api/v1", described).split_for_parts();
    let (open, open_api) = OpenApiRouter::new().nest("/api/v1", meta::open_routes()).split_for_parts();
    api.merge(open_api);

    let agent = "/namespaces/{namespace}/agents/{name}";
    let kinds = crud::routes::<api::Task>()
        .merge(crud::routes::<api::CronTask>())
        .merge(crud::routes::<api::Agent>())
        .merge(crud::routes::<api::AgentTemplate>())
        .merge(crud::routes::<api::Registry>())
        .merge(crud::routes::<api::ModelProvider>())
        .merge(crud::routes::<api::Model>())
        .merge(crud::routes::<api::Instruction>())
        .merge(crud::routes::<api::RemoteMCPServer>())
        .merge(crud::routes::<api::MCPServer>())
        .merge(crud::routes::<api::AgentTool>())
        .merge(crud::routes::<api::AgentWorkflow>())
        .route(&format!("{agent}/terminal"), get(terminal::open))
        .route(&format!("{agent}/proxy/"), any(proxy::pass))
        .route(&format!("{agent}/proxy/{{*rest}}"), any(proxy::pass));
    let mut known = known.merge(Router::new().nest("/api/v1", kinds));
    let unfinished = api.clone();
    // Made for the first who asks: it takes longer than all the rest of a start.
    let text = Arc::new(LazyLock::new(move || openapi::finish(unfinished).to_string()));
    let description = move || async move { ([(header::CONTENT_TYPE, "application/json")], text.as_str().to_owned()) };
    let mut all = open.route("/api/v1/openapi.json", get(description));
    if let Some(server) = server {
        known = known.route_layer(from_fn_with_state(Arc::clone(server), auth::identify));
    }
    all = all.merge(known);
    if let Some(server) = server {
        all = all.route_layer(from_fn_with_state(Arc::clone(server), front::limit));
    }
    all = all
        .route("/login", get(meta::redeem))
        .route(oidc::PATH, get(oidc::begin))
        .route(oidc::CALLBACK, get(oidc::finish))
        .route("/s/{token}", get(share::page))
        .route("/s/{token}/", get(share::page))
        .route("/s/{token}/info", get(share::info))
        .route("/s/{token}/terminal", get(terminal::open_shared))
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .fallback(page::serve);
    if let Some(server) = server {
        all = all.layer(from_fn_with_state(Arc::clone(server), front::door));
    }
    (all, api)
}

async fn numbers(State(server): State<Arc<Server>>) -> ([(header::HeaderName, &'static str); 1], String) {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], server.metrics.text())
}
