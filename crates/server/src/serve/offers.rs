//! What is offered to people and programs that watch the server: metrics for Prometheus, and the status page.
//!
//! What must never enter: what they show.

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

/// Begins to offer everything as configured, and lets the overview know where.
///
/// # Errors
/// [`ServeError`] when an address that somebody chose cannot be had.
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

/// Begins one offer; returns where it is.
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

/// Looks at the counters that the page has charts of, until the server stops.
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
