//! The metrics of a pool, as its metadata server knows its data servers.
//!
//! What must never enter: counting. All values come from the status.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::status::{CopiesStatus, Holding, MovingStatus, PoolServerStatus, Status};

/// A name, its meaning, and the function that reads it.
type Metric = (&'static str, &'static str, fn(&Holding) -> u64);

/// Metrics of a connected data server. They are gauges, because they start again when the data server does.
const OF_HOLDINGS: [Metric; 5] = [
    (
        "pool_server_total_bytes",
        "The size of a data server's disk",
        |holding| holding.total_bytes,
    ),
    (
        "pool_server_available_bytes",
        "What may still be written at a data server",
        |holding| holding.available_bytes,
    ),
    (
        "pool_server_contents",
        "Files of which something lies at a data server",
        |holding| holding.contents,
    ),
    (
        "pool_server_read_bytes",
        "Bytes read from a data server since it started",
        |holding| holding.read_bytes,
    ),
    (
        "pool_server_written_bytes",
        "Bytes written to a data server since it started",
        |holding| holding.written_bytes,
    ),
];

/// Metrics of files that move to other data servers, while there are any.
type OfMoves = (&'static str, &'static str, fn(&MovingStatus) -> Option<u64>);

const OF_MOVES: [OfMoves; 4] = [
    (
        "pool_files_to_move",
        "Files to be moved to other data servers when they were last counted",
        |moving| moving.files_left,
    ),
    (
        "pool_bytes_to_move",
        "Bytes of files to be moved to other data servers when they were last counted",
        |moving| moving.bytes_left,
    ),
    (
        "pool_moved_files",
        "Files that were moved to other data servers since the server started",
        |moving| Some(moving.files_moved),
    ),
    (
        "pool_moved_bytes",
        "Bytes that were copied to move files since the server started",
        |moving| Some(moving.bytes_copied),
    ),
];

/// Metrics of a joined metadata server.
type OfCopies = (&'static str, &'static str, fn(&CopiesStatus) -> u64);

const OF_COPIES: [OfCopies; 4] = [
    (
        "pool_copies",
        "Attributes and names of which this metadata server has copies",
        |copies| copies.kept,
    ),
    (
        "pool_answers_from_copies",
        "What this metadata server has answered from copies since it started",
        |copies| copies.answered,
    ),
    (
        "pool_questions",
        "Questions to the first metadata server since this one started",
        |copies| copies.questions,
    ),
    (
        "pool_copies_taken_back",
        "Objects of which the first metadata server has taken copies back since this one started",
        |copies| copies.taken_back,
    ),
];

/// Writes nothing for a server without a pool.
pub(super) fn encode(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(pool) = &status.pool else {
        return Ok(());
    };
    let help = "1 while a server of the pool is connected";
    let connected = |server: &PoolServerStatus| Some(u64::from(server.connected));
    gauges(
        &pool.servers,
        ("pool_server_connected", help),
        connected,
        encoder,
    )?;
    let help = "1 while a server of the pool does its part";
    let serves = |server: &PoolServerStatus| Some(u64::from(server.serves));
    gauges(&pool.servers, ("pool_server_serves", help), serves, encoder)?;
    let help = "Changes that a data server has not carried out yet";
    let waits = |server: &PoolServerStatus| Some(server.waits);
    gauges(
        &pool.servers,
        ("pool_server_waiting_changes", help),
        waits,
        encoder,
    )?;
    for (name, help, metric) in OF_HOLDINGS {
        let of = |server: &PoolServerStatus| server.holding.as_ref().map(metric);
        gauges(&pool.servers, (name, help), of, encoder)?;
    }
    for (name, help, metric) in OF_MOVES {
        if let Some(value) = pool.moving.as_ref().and_then(metric) {
            gauge((name, help), value, encoder)?;
        }
    }
    for (name, help, metric) in OF_COPIES {
        if let Some(copies) = &pool.copies {
            gauge((name, help), metric(copies), encoder)?;
        }
    }
    Ok(())
}

fn gauge(
    (name, help): (&str, &str),
    value: u64,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let one = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    // Exact below 2^53.
    ConstGauge::new(value as f64).encode(one)
}

fn gauges(
    servers: &[PoolServerStatus],
    (name, help): (&str, &str),
    metric: impl Fn(&PoolServerStatus) -> Option<u64>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for server in servers {
        if let Some(value) = metric(server) {
            let labels = [("server", server.number.to_string())];
            let one = family.encode_family(&labels)?;
            // Exact below 2^53.
            ConstGauge::new(value as f64).encode(one)?;
        }
    }
    Ok(())
}
