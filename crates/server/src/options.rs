//! Settings of the server.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use store::{Archive, Store};

use crate::Range;

/// Default of [`Options::review_ttl`].
pub const REVIEW_TTL: Duration = Duration::from_secs(15);

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the API and the page.
    pub address: SocketAddr,
    /// Address of `/metrics`; not served when unset.
    pub metrics: Option<SocketAddr>,
    /// URL at which browsers reach the server. With https, cookies are marked `Secure`.
    pub base_url: Option<String>,
    /// Host name of the page, if sessions are bound to one; other hosts of this machine serve programs with tokens and
    /// share links, and every other host is refused. A browser sends a cookie to every port of a host, so a session of
    /// `127.0.0.1` would reach every program that listens there. Programs must not learn this name.
    pub page_host: Option<String>,
    /// Anonymous callers may read, with the server's own rights.
    pub anonymous: bool,
    /// Anonymous callers may make changes too.
    pub anonymous_write: bool,
    /// Origins of other pages that may use the API with bearer tokens (CORS).
    pub cors_allowed_origins: Vec<String>,
    /// Requests per second of one client address in the long run; 0 means no limit.
    pub requests_per_second: u32,
    /// Requests served at the same time; 0 means no limit.
    pub concurrent_requests: usize,
    /// Proxies whose X-Forwarded-For header is trusted.
    pub trusted_proxies: Vec<Range>,
    /// Key that encrypts session cookies, the same for all replicas. Without one, sessions end with the process.
    pub session_key: Option<[u8; 32]>,
    /// Agents and model providers may listen on loopback addresses, as in the embedded mode.
    pub agents_on_loopback: bool,
    /// How long the review of a caller is valid: it is cached for requests and repeated for open streams and terminals,
    /// so a revoked right works for this long at most.
    pub review_ttl: Duration,
    /// Looks up an environment variable.
    pub environment: fn(&str) -> Option<String>,
    /// Archive of logs and run records; without one, logs are lost with their Pods.
    pub log_archive: Option<Arc<dyn Archive>>,
    /// Store of artefacts, outputs and patches; without one, requests for them are refused.
    pub results: Option<Store>,
}

impl Options {
    /// For one person on this machine: only signed-in callers, no rate limits, Agents on loopback addresses.
    pub fn local(address: SocketAddr) -> Self {
        Self {
            address,
            metrics: None,
            base_url: None,
            page_host: None,
            anonymous: false,
            anonymous_write: false,
            cors_allowed_origins: Vec::new(),
            requests_per_second: 0,
            concurrent_requests: 0,
            trusted_proxies: Vec::new(),
            session_key: None,
            agents_on_loopback: true,
            review_ttl: REVIEW_TTL,
            environment: |_| None,
            log_archive: None,
            results: None,
        }
    }
}
