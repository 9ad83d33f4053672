//! The NAS Grid Benchmarks as pure data-flow graphs: their files are real, their computing is a pause.
//!
//! What must never enter: knowledge of how a server keeps files.

mod figure_11;
mod graph;
mod job;
mod servers;
mod staging;
mod table_2;

use anyhow::{Context, Result};

pub(crate) use figure_11::Figure11;
pub(crate) use table_2::Table2;

use graph::{Benchmark, Class};

/// What the authors' times of computing are divided by.
const DIVISOR: u32 = 100;

/// How a problem is called, such as `HC-S`.
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
