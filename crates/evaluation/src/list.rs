//! All experiments, in the order in which they run and are shown.
//!
//! What must never enter: their work.

use crate::bulk::{Bulk, Lanes};
use crate::cost::Cost;
use crate::experiment::Experiment;
use crate::failover::{Absence, Leases, Takeover};
use crate::grid::{Figure11, Table2};
use crate::kernel_build::KernelBuild;
use crate::latency::Latency;
use crate::many::{Crowd, Files};
use crate::nfsp::{Bandwidth, Figure3};
use crate::scale::Scale;
use crate::sharing::{Contention, Elections, SharedStrategies};
use crate::ssh_build::{Ablation, Durability, Figure5, Figure6, Figure7, Figure8, Processors};
use crate::today::{Age, Copies, Package};
use crate::wan_bytes::WanBytes;

/// All experiments. A new one is added here.
pub(crate) const EXPERIMENTS: &[&dyn Experiment] = &[
    &Figure5,
    &KernelBuild,
    &Figure6,
    &Figure7,
    &Figure8,
    &Processors,
    &Table2,
    &Figure11::SMALL,
    &Figure11::LARGE,
    &Figure3,
    &Bandwidth::READING,
    &Bandwidth::WRITING,
    &Ablation,
    &SharedStrategies,
    &Contention,
    &Elections,
    &Durability,
    &WanBytes,
    &Scale,
    &Package,
    &Copies,
    &Age,
    &Latency,
    &Cost,
    &Bulk,
    &Lanes,
    &Takeover,
    &Absence,
    &Leases,
    &Files,
    &Crowd,
];
