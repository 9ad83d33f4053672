//! All experiments, in the order in which they run and are shown.
//!
//! What must never enter: what they do.

use super::experiment::Experiment;
use super::grid::{Figure11, Table2};
use super::kernel_build::KernelBuild;
use super::scale::Scale;
use super::sharing::{Contention, SharedStrategies};
use super::ssh_build::{Ablation, Durability, Figure5, Figure6, Figure7, Figure8};
use super::today::{Age, Copies, Package};
use super::wan_bytes::WanBytes;

/// Each once. A new one is added here.
pub(crate) const EXPERIMENTS: &[&dyn Experiment] = &[
    &Figure5,
    &KernelBuild,
    &Figure6,
    &Figure7,
    &Figure8,
    &Table2,
    &Figure11::SMALL,
    &Figure11::LARGE,
    &Ablation,
    &SharedStrategies,
    &Contention,
    &Durability,
    &WanBytes,
    &Scale,
    &Package,
    &Copies,
    &Age,
];
