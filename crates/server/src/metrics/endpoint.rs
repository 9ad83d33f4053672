//! A small HTTP server for Prometheus.
//!
//! What must never enter: anything that changes the server. Anyone who reaches the port may send requests.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use tokio::sync::watch;

use crate::health;
use crate::short_connections;

/// The metrics port cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot answer Prometheus at {address}: {source}; set `listen` in [metrics] to another address, or to \"off\""
)]
pub struct EndpointError {
    address: SocketAddr,
    source: io::Error,
}

/// Creates the page of metrics for each request.
pub(crate) type Page = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `GET /metrics` and the health page until `stop` becomes true. Returns the address.
///
/// # Errors
/// [`EndpointError`] when it cannot listen there.
pub(crate) async fn serve(
    address: SocketAddr,
    page: Page,
    health: health::Asked,
    stop: watch::Receiver<bool>,
) -> Result<SocketAddr, EndpointError> {
    let metrics = move || {
        let page = page.clone();
        // One request per connection, so that idle connections take no places.
        let headers = [
            (header::CONTENT_TYPE, OPEN_METRICS),
            (header::CONNECTION, "close"),
        ];
        async move { (headers, page().await) }
    };
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route(health::PATH, health::route(health));
    let bound = short_connections::answer(address, routes, stop, "metrics").await;
    bound.map_err(|source| EndpointError { address, source })
}
