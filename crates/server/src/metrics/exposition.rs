//! The metrics in the text format of OpenMetrics, which Prometheus reads.
//!
//! What must never enter: counting. All values are read at the moment of the request.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::{OperationCounters, pool, replication};
use crate::status::Status;

/// All metrics as text.
pub(crate) fn exposition(operations: Arc<OperationCounters>, status: Status) -> String {
    let mut registry = Registry::with_prefix("meridian");
    registry.register_collector(Box::new(Exposition { operations, status }));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a string takes all that is written to it");
    page
}

#[derive(Debug)]
struct Exposition {
    operations: Arc<OperationCounters>,
    status: Status,
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_build(&mut encoder)?;
        self.encode_operations(&mut encoder)?;
        self.encode_latencies(&mut encoder)?;
        self.encode_totals(&mut encoder)?;
        self.encode_present(&mut encoder)?;
        self.encode_exports(&mut encoder)?;
        replication::encode_alarms(&self.status, &mut encoder)?;
        pool::encode(&self.status, &mut encoder)?;
        replication::encode(&self.status, &mut encoder)
    }
}

impl Exposition {
    fn encode_build(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Always 1; the labels say which program this is";
        let mut family = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        let labels = [
            ("version", self.status.version.as_str()),
            ("commit", self.status.build.as_str()),
        ];
        ConstGauge::new(1).encode(family.encode_family(&labels)?)
    }

    fn encode_operations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "NFS operations executed, by name and status";
        let mut family =
            encoder.encode_descriptor("nfs_operations", help, None, MetricType::Counter)?;
        for counter in self.operations.seen() {
            for (status, count) in counter.outcomes() {
                let labels = [
                    ("operation", label(&counter.operation)),
                    ("status", label(&status)),
                ];
                let one = family.encode_family(&labels)?;
                ConstCounter::new(count).encode(one)?;
            }
        }
        Ok(())
    }

    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time from the beginning of an NFS operation to its result, in seconds";
        let mut family = encoder.encode_descriptor(
            "nfs_operation_seconds",
            help,
            None,
            MetricType::Histogram,
        )?;
        for counter in self.operations.seen() {
            let labels = [("operation", label(&counter.operation))];
            let (sum, count, buckets) = counter.latency.totals();
            let mut one = family.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn encode_totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Status { traffic, .. } = &self.status;
        for (name, help, count) in [
            (
                "nfs_read_bytes",
                "Bytes of files sent to clients",
                self.operations.bytes_read(),
            ),
            (
                "nfs_written_bytes",
                "Bytes of files received from clients",
                self.operations.bytes_written(),
            ),
            (
                "nfs_replays",
                "Replies sent again from a reply cache",
                self.operations.replays(),
            ),
            (
                "connections_accepted",
                "Connections accepted",
                traffic.accepted,
            ),
            (
                "connections_refused",
                "Connections closed so that others had a place",
                traffic.refused,
            ),
            (
                "received_bytes",
                "Bytes received over all connections",
                traffic.received_bytes,
            ),
            (
                "sent_bytes",
                "Bytes sent over all connections",
                traffic.sent_bytes,
            ),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(metric)?;
        }
        Ok(())
    }

    fn encode_present(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.status;
        for (name, help, value) in [
            ("connections", "Connections open now", status.connections),
            ("clients", "Confirmed clients", status.clients),
            ("sessions", "Sessions", status.sessions),
            ("opens", "Open files, counted by owner", status.opens),
            (
                "locks",
                "Byte-range lock states, counted by owner and file",
                status.locks,
            ),
            (
                "client_reply_bytes",
                "Memory reserved for replies that are kept for clients",
                status.reply_bytes,
            ),
            (
                "client_state_bytes",
                "Memory that opens and locks take",
                status.state_bytes,
            ),
            (
                "client_buffer_bytes",
                "Memory that requests and replies on their way take",
                status.buffer_bytes,
            ),
            (
                "client_memory_limit_bytes",
                "What all of these may take: kept replies, opens and locks three eighths each, the rest a quarter",
                status.memory_bytes,
            ),
            (
                "grace",
                "1 while only reclaims are accepted",
                u64::from(status.in_grace),
            ),
            (
                "uptime_seconds",
                "Time since the start",
                status.uptime_seconds,
            ),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }

    fn encode_exports(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, kind, value) in EXPORT_METRICS {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for export in &self.status.exports {
                let labels = [
                    ("export", export.path.as_str()),
                    ("tree", export.tree.as_str()),
                ];
                let one = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(value(export)).encode(one)?,
                    _ => ConstGauge::new(value(export)).encode(one)?,
                }
            }
        }
        Ok(())
    }
}

type ExportMetric = (
    &'static str,
    &'static str,
    MetricType,
    fn(&crate::status::ExportStatus) -> u64,
);

const EXPORT_METRICS: [ExportMetric; 12] = [
    (
        "store_total_bytes",
        "Size of the file system below",
        MetricType::Gauge,
        |export| export.space.total_bytes,
    ),
    (
        "store_free_bytes",
        "Bytes not in use",
        MetricType::Gauge,
        |export| export.space.free_bytes,
    ),
    (
        "store_available_bytes",
        "Bytes that clients may still fill",
        MetricType::Gauge,
        |export| export.space.available_bytes,
    ),
    (
        "store_objects",
        "Objects in the tree",
        MetricType::Gauge,
        |export| export.store.objects,
    ),
    (
        "store_dirty_files",
        "Files that may have unstable data",
        MetricType::Gauge,
        |export| export.store.dirty_files,
    ),
    (
        "store_orphans",
        "Removed files that may still be open",
        MetricType::Gauge,
        |export| export.store.orphans,
    ),
    (
        "store_requests",
        "Slots of sessions whose last change is on record, for repeats after a restart",
        MetricType::Gauge,
        |export| export.store.requests,
    ),
    (
        "store_failed",
        "1 when stable storage has failed",
        MetricType::Gauge,
        |export| u64::from(export.store.failed),
    ),
    (
        "store_batches",
        "Operations that changed metadata",
        MetricType::Counter,
        |export| export.store.batches,
    ),
    (
        "store_group_commits",
        "Trips to stable storage for metadata",
        MetricType::Counter,
        |export| export.store.group_commits,
    ),
    (
        "store_data_syncs",
        "Trips to stable storage for data",
        MetricType::Counter,
        |export| export.store.data_syncs,
    ),
    (
        "store_written_bytes",
        "Bytes of data written",
        MetricType::Counter,
        |export| export.store.bytes_written,
    ),
];

/// A name from the wire types as a label: `OpenDowngrade` becomes `open_downgrade`.
fn label(name: &impl fmt::Debug) -> String {
    let name = format!("{name:?}");
    let mut label = String::with_capacity(name.len() + 4);
    for (place, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && place > 0 {
            label.push('_');
        }
        label.push(letter.to_ascii_lowercase());
    }
    label
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nfs4_server::{NfsStat4, Observer, Opnum};

    use super::*;

    #[test]
    fn operations_are_shown_by_name_and_status() {
        let operations = Arc::new(OperationCounters::default());
        operations.operation(Opnum::OpenDowngrade, NfsStat4::Ok, Duration::from_millis(2));
        operations.operation(Opnum::Lookup, NfsStat4::NoEnt, Duration::from_micros(20));
        operations.operation(Opnum::Lookup, NfsStat4::NoEnt, Duration::from_secs(20));
        Observer::bytes_read(&*operations, 7);
        let page = exposition(operations, Status::example());
        for line in [
            "meridian_nfs_operations_total{operation=\"open_downgrade\",status=\"ok\"} 1",
            "meridian_nfs_operations_total{operation=\"lookup\",status=\"no_ent\"} 2",
            "meridian_nfs_operation_seconds_bucket{le=\"0.000025\",operation=\"lookup\"} 1",
            "meridian_nfs_operation_seconds_bucket{le=\"+Inf\",operation=\"lookup\"} 2",
            "meridian_nfs_operation_seconds_count{operation=\"lookup\"} 2",
            "meridian_nfs_read_bytes_total 7",
            "meridian_clients 1",
            "meridian_build_info{version=\"0.1.0\",commit=\"0123456789ab\"} 1",
            "meridian_store_objects{export=\"/export\",tree=\"default\"} 12",
            "# EOF",
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{line} is not in\n{page}"
            );
        }
        assert!(!page.contains("operation=\"read\""), "{page}");
    }
}
