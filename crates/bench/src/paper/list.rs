//! All experiments, in the order in which they run and are shown.
//!
//! What must never enter: what they do.

use super::experiment::Experiment;
use super::grid::{Figure11, Table2};

/// Each once. A new one is added here.
pub(crate) const EXPERIMENTS: &[&dyn Experiment] = &[&Table2, &Figure11];
