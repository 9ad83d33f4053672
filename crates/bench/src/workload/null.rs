//! Bare RPC: a request and a reply that carry nothing, over the connection that all other requests take.

use std::time::Instant;

use anyhow::Result;
use bench::tally::{Span, Tally};

use crate::worker::Worker;

/// Calls the procedure that does nothing until the time is over.
pub(crate) async fn call(worker: Worker, span: Span) -> Result<(Worker, Tally)> {
    let mut tally = Tally::default();
    let connection = worker.client.session().connection(0).await?;
    while span.goes_on() {
        let began = Instant::now();
        connection.null().await?;
        tally.add(began, 1);
    }
    Ok((worker, tally))
}
