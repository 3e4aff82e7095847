//! `/healthz`, `/readyz` and `/metrics`.

mod tls;

use std::{io, net::SocketAddr, sync::Arc};

use axum::{Router, http::StatusCode, routing::get};
use tokio::{net::TcpListener, sync::watch};

use crate::shared::metrics::Metrics;

/// Addresses to listen on.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For `/metrics`.
    pub metrics: SocketAddr,
    /// Whether `/metrics` is served over TLS.
    pub metrics_tls: bool,
    /// For `/healthz` and `/readyz`.
    pub health: SocketAddr,
}

/// Serves metrics and health until the process ends.
///
/// `ready` is true once the caches are filled. Leadership is not required, so that a roll-out of several replicas can
/// complete.
pub async fn serve(addresses: Addresses, metrics: Arc<Metrics>, ready: watch::Receiver<bool>) -> io::Result<()> {
    let numbers = Router::new().route(
        "/metrics",
        get(async move || {
            ([("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.render())
        }),
    );
    let health = Router::new().route("/healthz", get(async || "ok")).route(
        "/readyz",
        get(
            async move || {
                if *ready.borrow() { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "starting") }
            },
        ),
    );
    let metrics_listener = listen(addresses.metrics).await?;
    let health_listener = listen(addresses.health).await?;
    tracing::info!(metrics = %metrics_listener.local_addr()?, health = %health_listener.local_addr()?, "serving");
    if addresses.metrics_tls {
        let secured = tls::Listener::new(metrics_listener)?;
        tokio::spawn(async move { axum::serve(secured, numbers).await });
    } else {
        tokio::spawn(async move { axum::serve(metrics_listener, numbers).await });
    }
    tokio::spawn(async move { axum::serve(health_listener, health).await });
    Ok(())
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
}
