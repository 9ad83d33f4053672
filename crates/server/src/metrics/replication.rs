//! The metrics of replicated trees: of each replica, and of each of its peers.
//!
//! What must never enter: counting. All values come from the status.

use std::collections::BTreeSet;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::status::{PeerView, RejoinView, ReplicaStatus, ScrubView, Status, ViewStatus};

/// A name, its meaning, its type, and the function that reads it.
type Metric<S> = (&'static str, &'static str, MetricType, fn(&S) -> f64);

const OF_REPLICAS: [Metric<ReplicaStatus>; 17] = [
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
    (
        "replica_dropped_grants",
        "Grants for the site lease that were dropped, because this start of the server had not asked for them lately",
        MetricType::Counter,
        |replica| replica.dropped_grants as f64,
    ),
    (
        "replica_refused_relays",
        "Messages with updates of a third replica that were dropped: not its own, or not to be taken at that time",
        MetricType::Counter,
        |replica| replica.refused_relays as f64,
    ),
    (
        "replica_clock_jumps",
        "How often the time of day jumped against the clock of leases",
        MetricType::Counter,
        |replica| replica.clock_jumps as f64,
    ),
    (
        "replica_torn_files",
        "Files that cannot be read because part of them was lost with a server",
        MetricType::Gauge,
        |replica| replica.torn_files as f64,
    ),
    (
        "replica_kept_bytes",
        "Bytes of memory for what is kept of files that other replicas lack contents of, about",
        MetricType::Gauge,
        |replica| replica.kept_bytes as f64,
    ),
    (
        "replica_kept_bytes_max",
        "Bytes of memory for that, at most (`kept_memory`)",
        MetricType::Gauge,
        |replica| replica.kept_bytes_max as f64,
    ),
    (
        "replica_space_refusals",
        "Changes refused here because another member's disk has no space",
        MetricType::Counter,
        |replica| replica.space_refusals as f64,
    ),
    (
        "replica_return_objects_left",
        "Updates, objects or files that this replica lacks on its way back into the view",
        MetricType::Gauge,
        |replica| objects_left(replica.rejoining.as_ref()),
    ),
    (
        "replica_return_bytes_left",
        "Bytes of contents that it lacks, as far as they are known",
        MetricType::Gauge,
        |replica| bytes_left(replica.rejoining.as_ref()),
    ),
    (
        "replica_return_seconds_left",
        "Until it lacks nothing; infinite when it does not come nearer",
        MetricType::Gauge,
        |replica| seconds_left(replica.rejoining.as_ref()),
    ),
];

const OF_PEERS: [Metric<PeerView>; 18] = [
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
        "replica_peer_clock_ahead_seconds",
        "By how much the peer's time of day is ahead of this server's, negative when it is behind; 0 where that is not known",
        MetricType::Gauge,
        |peer| peer.clock.map_or(0.0, |clock| clock.ahead_us as f64 / 1e6),
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
        "replica_peer_waiting_bytes",
        "Bytes of messages that wait here for the peer, besides updates and contents",
        MetricType::Gauge,
        |peer| peer.waiting_bytes as f64,
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
        "replica_peer_resting_files",
        "Files of these whose contents rest on because clients keep this server busy",
        MetricType::Gauge,
        |peer| peer.resting_files as f64,
    ),
    (
        "replica_peer_lag_seconds",
        "For how long the peer has lacked something",
        MetricType::Gauge,
        |peer| peer.lag_ms as f64 / 1e3,
    ),
    (
        "replica_peer_awaits_space",
        "1 while contents are held back because the peer's disk has no space",
        MetricType::Gauge,
        |peer| f64::from(u8::from(peer.awaits_space)),
    ),
    (
        "replica_peer_update_waits_seconds",
        "For how long an update of the peer's has been waiting here; 0 when none is",
        MetricType::Gauge,
        |peer| peer.update_waits_ms.unwrap_or(0) as f64 / 1e3,
    ),
    (
        "replica_peer_refused_bytes",
        "Bytes of contents that were sent to the peer and that it had no space for",
        MetricType::Counter,
        |peer| peer.refused_bytes as f64,
    ),
    (
        "replica_peer_return_objects_left",
        "Updates, objects or files that the peer lacks on its way back into the view",
        MetricType::Gauge,
        |peer| objects_left(peer.rejoining.as_ref()),
    ),
    (
        "replica_peer_return_bytes_left",
        "Bytes of contents that it lacks from here, as far as they are known",
        MetricType::Gauge,
        |peer| bytes_left(peer.rejoining.as_ref()),
    ),
    (
        "replica_peer_return_seconds_left",
        "Until it lacks nothing from here; infinite when it does not come nearer",
        MetricType::Gauge,
        |peer| seconds_left(peer.rejoining.as_ref()),
    ),
    (
        "replica_peer_available_bytes",
        "Bytes that clients may still fill at the peer, as it said last; infinite before that",
        MetricType::Gauge,
        |peer| {
            let available = peer.available_bytes;
            available.map_or(f64::INFINITY, |bytes| bytes as f64)
        },
    ),
];

const OF_VIEWS: [Metric<ViewStatus>; 6] = [
    (
        "view_epoch",
        "The number of the view",
        MetricType::Gauge,
        |view| view.epoch as f64,
    ),
    (
        "view_changes",
        "Changes of the view since the set was founded",
        MetricType::Counter,
        |view| view.epoch as f64,
    ),
    (
        "takes_part",
        "1 while this server is in the view",
        MetricType::Gauge,
        |view| f64::from(u8::from(view.takes_part)),
    ),
    (
        "view_up_to_date",
        "1 while its copy has everything that clients may ask for",
        MetricType::Gauge,
        |view| f64::from(u8::from(view.up_to_date)),
    ),
    (
        "site_lease_seconds",
        "For how long this server may answer without another grant; infinite when it needs none",
        MetricType::Gauge,
        |view| view.lease_ms.map_or(f64::INFINITY, |ms| ms as f64 / 1e3),
    ),
    (
        "frozen_controls",
        "Controls of lost replicas that keep objects frozen",
        MetricType::Gauge,
        |view| view.frozen_controls() as f64,
    ),
];

const OF_SCRUBS: [Metric<ScrubView>; 8] = [
    (
        "scrub_running",
        "1 while this copy is being compared with the others",
        MetricType::Gauge,
        |scrub| f64::from(u8::from(scrub.running)),
    ),
    (
        "scrub_objects",
        "Objects that the comparison under way has looked at",
        MetricType::Gauge,
        |scrub| scrub.objects as f64,
    ),
    (
        "scrub_runs",
        "Comparisons finished since the start",
        MetricType::Counter,
        |scrub| scrub.runs as f64,
    ),
    (
        "scrub_last_finished_seconds",
        "When the last comparison was finished, in seconds since 1970; 0 if none ever was",
        MetricType::Gauge,
        |scrub| scrub.last_finished_unix_s.unwrap_or(0) as f64,
    ),
    (
        "scrub_found",
        "Contents and objects found wrong",
        MetricType::Counter,
        |scrub| scrub.found as f64,
    ),
    (
        "scrub_mended",
        "Contents got back from a good copy",
        MetricType::Counter,
        |scrub| scrub.mended as f64,
    ),
    (
        "scrub_damaged_files",
        "Files whose content is damaged here now",
        MetricType::Gauge,
        |scrub| scrub.damaged as f64,
    ),
    (
        "scrub_undecided_objects",
        "Objects that differ between copies now, and nobody knows which is right",
        MetricType::Gauge,
        |scrub| scrub.undecided as f64,
    ),
];

fn objects_left(rejoining: Option<&RejoinView>) -> f64 {
    rejoining.map_or(0.0, |rejoining| rejoining.objects_left as f64)
}

fn bytes_left(rejoining: Option<&RejoinView>) -> f64 {
    let bytes = rejoining.and_then(|rejoining| rejoining.bytes_left);
    bytes.unwrap_or(0) as f64
}

fn seconds_left(rejoining: Option<&RejoinView>) -> f64 {
    let left = |rejoining: &RejoinView| rejoining.seconds_left.map_or(f64::INFINITY, |s| s as f64);
    rejoining.map_or(0.0, left)
}

/// Writes the metrics of every replicated tree; nothing if there is none.
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
    encode_peers(&trees, encoder)?;
    encode_views(&trees, encoder)?;
    encode_scrubs(&trees, encoder)?;
    encode_members(&trees, encoder)
}

type Trees<'s> = [(&'s str, &'s ReplicaStatus)];

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

fn encode_views(trees: &Trees<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, kind, value) in OF_VIEWS {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (tree, replica) in trees {
            let Some(view) = &replica.view else {
                continue;
            };
            let labels = [("tree", *tree)];
            encode_value(kind, value(view), family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_scrubs(trees: &Trees<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, kind, value) in OF_SCRUBS {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (tree, replica) in trees {
            let Some(scrub) = &replica.scrub else {
                continue;
            };
            let labels = [("tree", *tree)];
            encode_value(kind, value(scrub), family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_members(trees: &Trees<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (help, kind) = ("1 while the replica is in the view", MetricType::Gauge);
    let mut family = encoder.encode_descriptor("view_active", help, None, kind)?;
    for (tree, replica) in trees {
        let members = replica.view.iter().flat_map(|view| &view.members);
        for member in members {
            let slot = member.slot.to_string();
            let labels = [("tree", *tree), ("slot", slot.as_str())];
            let active = f64::from(u8::from(member.active));
            encode_value(kind, active, family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Writes each active alarm as 1, and nothing for the others.
pub(super) fn encode_alarms(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "1 for each kind of alarm that stands";
    let mut family = encoder.encode_descriptor("alarm", help, None, MetricType::Gauge)?;
    let alarms = status
        .alarms
        .iter()
        .map(|alarm| (&*alarm.tree, &*alarm.name));
    for (tree, name) in alarms.collect::<BTreeSet<_>>() {
        let labels = [("tree", tree), ("alarm", name)];
        encode_value(MetricType::Gauge, 1.0, family.encode_family(&labels)?)?;
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
    use crate::status::examples;

    #[test]
    fn replicas_and_their_peers_are_shown() {
        let mut status = Status::example();
        let page = exposition(Arc::new(OperationCounters::default()), status.clone());
        assert!(!page.contains("meridian_replica"), "{page}");
        status.exports[0].replication = Some(examples::replica());
        status.alarms = crate::status::alarms(&status.exports[0]);
        let page = exposition(Arc::new(OperationCounters::default()), status);
        for line in [
            "meridian_replica_ready{tree=\"default\"} 1.0",
            "meridian_replica_forwarded_total{tree=\"default\"} 7.0",
            "meridian_replica_dropped_grants_total{tree=\"default\"} 1.0",
            "meridian_replica_refused_relays_total{tree=\"default\"} 2.0",
            "meridian_replica_clock_jumps_total{tree=\"default\"} 2.0",
            "meridian_replica_peer_connected{tree=\"default\",peer=\"3\"} 0.0",
            "meridian_replica_peer_round_trip_seconds{tree=\"default\",peer=\"1\"} 0.120345",
            "meridian_replica_peer_clock_ahead_seconds{tree=\"default\",peer=\"1\"} -0.0123",
            "meridian_replica_peer_lag_seconds{tree=\"default\",peer=\"1\"} 4.2",
            "meridian_replica_peer_return_bytes_left{tree=\"default\",peer=\"1\"} 6291456.0",
            "meridian_replica_return_seconds_left{tree=\"default\"} 0.0",
            "meridian_replica_torn_files{tree=\"default\"} 0.0",
            "meridian_replica_peer_available_bytes{tree=\"default\",peer=\"1\"} 3221225472.0",
            "meridian_replica_peer_waiting_bytes{tree=\"default\",peer=\"1\"} 512.0",
            "meridian_scrub_found_total{tree=\"default\"} 0.0",
            "meridian_view_epoch{tree=\"default\"} 6.0",
            "meridian_view_changes_total{tree=\"default\"} 6.0",
            "meridian_takes_part{tree=\"default\"} 1.0",
            "meridian_site_lease_seconds{tree=\"default\"} 4.23",
            "meridian_frozen_controls{tree=\"default\"} 2.0",
            "meridian_view_active{tree=\"default\",slot=\"3\"} 0.0",
            "meridian_alarm{tree=\"default\",alarm=\"frozen-objects\"} 1.0",
            "# EOF",
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{line} is not in\n{page}"
            );
        }
    }
}
