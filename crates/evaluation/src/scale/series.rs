//! The axes of the experiment: panels and series, and the amount of work.
//!
//! What must never enter: the simulation, and showing.

use std::time::Duration;

use control::Contention;

use crate::extent::Extent;

/// Panels, one for each sort of work.
pub(super) const SINGLE: &str = "single updates";
pub(super) const BURST: &str = "a burst under deep control";
pub(super) const CONTEND: &str = "two sites share a directory";
pub(super) const LAY_OUT: &str = "the same at distances laid out, with wait";

/// Series of single updates.
pub(super) const MAKE: &str = "a file is made";
pub(super) const WRITE: &str = "a file is written and closed";

/// The series of the burst.
pub(super) const UNPACK: &str = "files are unpacked";

/// Series of two sites, by the handling of an update of a directory that the other one controls.
pub(super) const CONTENTIONS: [(&str, Contention); 2] =
    [("forward", Contention::Forward), (WAIT, Contention::Wait)];

/// The series in which a site waits until it controls the directory itself.
pub(super) const WAIT: &str = "wait";

/// The one-way time between two replicas if distances are fixed: about the largest distance in a large set.
const FAR: Duration = Duration::from_millis(140);

/// Series of two sites that wait for each other with fixed distances: between the two, and of all others.
pub(super) const LAID_OUT: [(&str, Duration, Duration); 2] = [
    ("all equally far", FAR, FAR),
    (
        "the two farther from each other",
        FAR,
        Duration::from_millis(70),
    ),
];

/// The amount of work of clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) single_updates: u64,
    pub(super) burst_files: u64,
    pub(super) updates_a_site: u64,
    /// This number of runs at different places form one trial, which is their mean.
    pub(super) draws: u32,
}

impl Amount {
    pub(super) fn of(extent: Extent) -> Self {
        Self {
            single_updates: extent.choose(24, 6),
            burst_files: extent.choose(200, 20),
            updates_a_site: extent.choose(200, 20),
            draws: extent.choose(4, 1),
        }
    }
}
