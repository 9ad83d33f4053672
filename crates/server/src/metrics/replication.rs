//! The figures of replicated trees: of each replica, and of each of its peers.
//!
//! What must never enter: counting. Everything is taken from the status.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::status::{ReplicaPeerStatus, ReplicationStatus, Status};

/// A name, what it means, of which kind it is, and where it is taken from.
type Figure<S> = (&'static str, &'static str, MetricType, fn(&S) -> f64);

const OF_REPLICAS: [Figure<ReplicationStatus>; 7] = [
    (
        "replica_ready",
        "1 when the whole tree is here",
        MetricType::Gauge,
        |replica| f64::from(u8::from(replica.ready)),
    ),
    (
        "replica_controls",
        "Controls that this replica acknowledges",
        MetricType::Gauge,
        |replica| replica.controls_total as f64,
    ),
    (
        "replica_forwarded",
        "Operations of clients here that other replicas carried out",
        MetricType::Counter,
        |replica| replica.forwarded as f64,
    ),
    (
        "replica_served",
        "Operations carried out here for other replicas",
        MetricType::Counter,
        |replica| replica.served as f64,
    ),
    (
        "replica_written_bytes",
        "Bytes that clients have written here",
        MetricType::Counter,
        |replica| replica.written_bytes as f64,
    ),
    (
        "replica_shipped_content_bytes",
        "Bytes of file contents sent to other replicas, before compression",
        MetricType::Counter,
        |replica| replica.shipped_content_bytes as f64,
    ),
    (
        "replica_shipped_record_bytes",
        "Bytes of update records sent to other replicas",
        MetricType::Counter,
        |replica| replica.shipped_record_bytes as f64,
    ),
];

const OF_PEERS: [Figure<ReplicaPeerStatus>; 8] = [
    (
        "replica_peer_connected",
        "1 while there is a connection",
        MetricType::Gauge,
        |peer| f64::from(u8::from(peer.connected)),
    ),
    (
        "replica_peer_round_trip_seconds",
        "Round-trip time; 0 before it is known",
        MetricType::Gauge,
        |peer| peer.round_trip_us.unwrap_or(0) as f64 / 1e6,
    ),
    (
        "replica_peer_sent_bytes",
        "Bytes sent to the peer",
        MetricType::Counter,
        |peer| peer.sent_bytes as f64,
    ),
    (
        "replica_peer_received_bytes",
        "Bytes received from the peer",
        MetricType::Counter,
        |peer| peer.received_bytes as f64,
    ),
    (
        "replica_peer_lag_updates",
        "Updates made here that the peer lacks",
        MetricType::Gauge,
        |peer| peer.lag_updates as f64,
    ),
    (
        "replica_peer_lag_bytes",
        "Bytes of file contents that the peer lacks, as far as they are known",
        MetricType::Gauge,
        |peer| peer.lag_bytes.unwrap_or(0) as f64,
    ),
    (
        "replica_peer_lag_files",
        "Files of which the peer lacks contents",
        MetricType::Gauge,
        |peer| peer.lag_files as f64,
    ),
    (
        "replica_peer_lag_seconds",
        "For how long the peer has lacked something",
        MetricType::Gauge,
        |peer| peer.lag_ms as f64 / 1e3,
    ),
];

/// Writes the figures of every replicated tree; nothing when there is none.
pub(super) fn encode(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let trees = status.exports.iter().filter_map(|export| {
        let replication = export.replication.as_ref()?;
        Some((export.tree.as_str(), replication))
    });
    let trees: Vec<_> = trees.collect();
    if trees.is_empty() {
        return Ok(());
    }
    encode_replicas(&trees, encoder)?;
    encode_peers(&trees, encoder)
}

type Trees<'s> = [(&'s str, &'s ReplicationStatus)];

fn encode_replicas(trees: &Trees<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, kind, value) in OF_REPLICAS {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (tree, replica) in trees {
            let labels = [("tree", *tree)];
            encode_value(kind, value(replica), family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_peers(trees: &Trees<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, kind, value) in OF_PEERS {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        let peers = trees
            .iter()
            .flat_map(|(tree, replica)| replica.peers.iter().map(move |peer| (*tree, peer)));
        for (tree, peer) in peers {
            let slot = peer.slot.to_string();
            let labels = [("tree", tree), ("peer", slot.as_str())];
            encode_value(kind, value(peer), family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_value(kind: MetricType, value: f64, place: MetricEncoder<'_>) -> fmt::Result {
    match kind {
        MetricType::Counter => ConstCounter::new(value).encode(place),
        _ => ConstGauge::new(value).encode(place),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::{OperationCounters, exposition};

    #[test]
    fn replicas_and_their_peers_are_shown() {
        let mut status = Status::example();
        let page = exposition(Arc::new(OperationCounters::default()), status.clone());
        assert!(!page.contains("meridian_replica"), "{page}");
        status.exports[0].replication = Some(ReplicationStatus::example());
        let page = exposition(Arc::new(OperationCounters::default()), status);
        for line in [
            "meridian_replica_ready{tree=\"default\"} 1.0",
            "meridian_replica_forwarded_total{tree=\"default\"} 7.0",
            "meridian_replica_peer_connected{tree=\"default\",peer=\"3\"} 0.0",
            "meridian_replica_peer_round_trip_seconds{tree=\"default\",peer=\"1\"} 0.120345",
            "meridian_replica_peer_lag_seconds{tree=\"default\",peer=\"1\"} 4.2",
            "# EOF",
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{line} is not in\n{page}"
            );
        }
    }
}
