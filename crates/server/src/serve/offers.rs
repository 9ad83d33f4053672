//! The services for people and programs that watch the server: metrics for Prometheus, and the status page.
//!
//! What must never enter: their content.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::ServeError;
use super::overview::Overview;
use crate::configuration::{Configuration, Offer};
use crate::metrics;
use crate::page::{self, SAMPLED_EVERY};

/// Starts all configured services, and records their addresses in the overview.
///
/// # Errors
/// [`ServeError`] when a configured address cannot be used.
pub(super) async fn begin(
    configuration: &Configuration,
    overview: &Arc<Overview>,
    stopping: &watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let exporter = |address| {
        let (page, health) = (overview.clone().into_page(), overview.as_health());
        metrics::serve(address, page, health, stopping.clone())
    };
    if let Some(bound) = offered(configuration.metrics, exporter, "metrics").await? {
        overview.metrics.get_or_init(|| bound);
    }
    let names = &configuration.page.names;
    let page = |address| {
        let (source, stop) = (overview.as_source(), stopping.clone());
        page::serve(address, names.clone(), source, overview.as_health(), stop)
    };
    if let Some(bound) = offered(configuration.page.listen, page, "the status page").await? {
        overview.page.get_or_init(|| bound);
        tokio::spawn(remember(overview.clone(), stopping.clone()));
    }
    Ok(())
}

/// Starts one service; returns its address.
async fn offered<F, E>(
    offer: Offer,
    serve: impl Fn(SocketAddr) -> F,
    what: &str,
) -> Result<Option<SocketAddr>, E>
where
    F: Future<Output = Result<SocketAddr, E>>,
    E: std::fmt::Display,
{
    match offer {
        Offer::Off => Ok(None),
        Offer::At(address) => Ok(Some(serve(address).await?)),
        Offer::IfFree(address) => match serve(address).await {
            Ok(bound) => Ok(Some(bound)),
            Err(error) => {
                tracing::warn!(%error, "running without {what}");
                Ok(None)
            }
        },
    }
}

/// Samples the counters for the charts of the page, until the server stops.
async fn remember(overview: Arc<Overview>, mut stopping: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SAMPLED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => overview.remember(Instant::now()),
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}
