//! The NAS Grid Benchmarks as pure data-flow graphs: their files are real, their computing is a pause.
//!
//! What must never enter: knowledge of how a server keeps files.

mod figure_11;
mod graph;
mod job;
mod servers;
mod staging;
mod table_2;

use std::time::Duration;

use anyhow::{Context, Result};

pub(crate) use figure_11::Figure11;
pub(crate) use table_2::Table2;

use crate::extent::Extent;
use graph::{Benchmark, Class};

/// The divisor of the authors' computing times. The small classes compute for the authors' times, so that turnarounds can be
/// compared with theirs.
fn divisor(class: Class, extent: Extent) -> u32 {
    match (extent, class) {
        (Extent::Quick, _) => 100,
        (Extent::Whole, Class::S | Class::W) => 1,
        (Extent::Whole, Class::A) => 10,
    }
}

/// The divisors of all classes, for settings.
fn divisors(extent: Extent) -> [u32; 3] {
    Class::ALL.map(|class| divisor(class, extent))
}

/// The time of a problem on the authors' node, divided by the divisor used here.
fn scaled(benchmark: Benchmark, class: Class, extent: Extent) -> Duration {
    graph::single_node(benchmark, class) / divisor(class, extent)
}

/// The name of a problem, such as `HC-S`.
fn panel(benchmark: Benchmark, class: Class) -> String {
    format!("{}-{class}", benchmark.name())
}

/// The problem of that name.
fn problem(name: &str) -> Result<(Benchmark, Class)> {
    let classes = |benchmark| Class::ALL.map(|class| (benchmark, class));
    let mut all = Benchmark::ALL.into_iter().flat_map(classes);
    let found = all.find(|&(benchmark, class)| panel(benchmark, class) == name);
    found.with_context(|| format!("there is no problem '{name}'"))
}
