//! Table 2: the benchmarks on one node with a local file system.
//!
//! What must never enter: servers.

use std::time::Duration;

use anyhow::Result;
use bench::chart;
use bench::statistics::Results;
use bench::table::{cell, row};
use bench::trial::{Job, Outcome, Point};
use plot::{Axis, Bars, Chart, Marks, Plot, Value};
use testbed::Requirements;

use super::graph::{Benchmark, Class, Graph, single_node};
use super::job::{self, Ground};
use super::servers::runtime;
use super::{divisor, divisors, panel, problem, scaled};
use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::Field;
use crate::files::LocalFolder;
use crate::ssh_build::sweep::side_by_side;

/// The measured figure.
const TURNAROUND: &str = "turnaround_s";

/// The number of parallel jobs; they mostly wait.
const SIDE_BY_SIDE: usize = 6;

/// Table 2.
#[derive(Debug)]
pub(crate) struct Table2;

impl Experiment for Table2 {
    fn name(&self) -> &'static str {
        "table-2"
    }

    fn needs(&self) -> Requirements {
        Requirements::default()
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{:?} {:?}", divisors(extent), job::POLL)
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let classes: &[Class] = extent.choose(&Class::ALL, &[Class::S, Class::W]);
        let of = |&class: &Class| {
            Benchmark::ALL.map(|benchmark| Point::new("", "one node", panel(benchmark, class)))
        };
        classes.iter().flat_map(of).collect()
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let Ok((benchmark, class)) = problem(&point.x) else {
            return Duration::ZERO;
        };
        let alone = scaled(benchmark, class, extent) + Duration::from_millis(200);
        alone / SIDE_BY_SIDE as u32
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let folder = field.folder()?;
        let numbered: Vec<(usize, &Job)> = jobs.iter().enumerate().collect();
        side_by_side(SIDE_BY_SIDE, &numbered, |&(number, job)| {
            let (benchmark, class) = problem(&job.point.x)?;
            let local = LocalFolder::make(folder.path().join(format!("job-{number}")))?;
            let node = job::Field {
                grounds: vec![Ground::Local(local.clone())],
                stage: Vec::new(),
            };
            let graph = Graph::of(benchmark, class);
            let divisor = divisor(class, field.extent);
            let ran = job::run(graph, divisor, number as u64, node);
            let turnaround = runtime()?.block_on(ran)?.as_secs_f64();
            local.remove()?;
            book.keep(job, Outcome::from([(TURNAROUND.to_owned(), turnaround)]))
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = [
            "problem",
            "the authors' node (s)",
            "divided by",
            "that is (s)",
            "here (s)",
        ];
        let mut table = row(heads.into_iter()) + "|---|--:|--:|--:|--:|\n";
        for point in results.points() {
            let Ok((benchmark, class)) = problem(&point.x) else {
                continue;
            };
            let theirs = single_node(benchmark, class);
            let found = results.summary(point, TURNAROUND);
            let cells = [
                point.x.clone(),
                theirs.as_secs().to_string(),
                divisor(class, extent).to_string(),
                format!("{:.2}", scaled(benchmark, class, extent).as_secs_f64()),
                found.map_or(String::new(), |found| cell(found, 1.0)),
            ];
            table += &row(cells.iter().map(String::as_str));
        }
        Shown {
            title: "Table 2: the NAS Grid Benchmarks on one node",
            about: format!(
                "All tasks at one node, one computing at a time, with files on its own disk; up to {SIDE_BY_SIDE} jobs side by side. The times of \
                 computing are the authors', for large problems divided, so only what the last column has on top of the one before was measured \
                 here: writing, finding and reading files."
            ),
            claims: include_str!("../claims/table-2.md"),
            tables: vec![table],
            plots: vec![Plot::only(
                "The NAS Grid Benchmarks on one node (Table 2)",
                3,
                Class::ALL
                    .iter()
                    .filter_map(|class| chart(results, *class, extent))
                    .collect(),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let lines = results.points().iter().map(|point| {
            let found = results.summary(point, TURNAROUND)?;
            Some(format!("{} {} s", point.x, cell(found, 1.0)))
        });
        // The smallest problems use files most.
        let lines: Option<Vec<String>> = lines.take(Benchmark::ALL.len()).collect();
        Some(lines?.join(", "))
    }
}

/// The problems of a class, if it was measured: the authors' scaled times, and ours.
fn chart(results: &Results, class: Class, extent: Extent) -> Option<Chart> {
    let of_class = |point: &&Point| problem(&point.x).is_ok_and(|(_, of)| of == class);
    let points: Vec<&Point> = results.points().iter().filter(of_class).collect();
    if points.is_empty() {
        return None;
    }
    let theirs = |point: &&Point| {
        let (benchmark, class) = problem(&point.x).ok()?;
        Some(Value::exactly(
            scaled(benchmark, class, extent).as_secs_f64(),
        ))
    };
    let ours = |point: &&Point| Some(chart::value(results.summary(point, TURNAROUND)?, 1.0));
    let series = [
        Bars {
            name: format!("the authors' node, divided by {}", divisor(class, extent)),
            values: points.iter().map(theirs).collect(),
        },
        Bars {
            name: "here".to_owned(),
            values: points.iter().map(ours).collect(),
        },
    ];
    Some(Chart {
        title: format!("class {class}"),
        x: Axis::linear("problem"),
        y: Axis::linear("time (s)"),
        marks: Marks::Bars {
            groups: points.iter().map(|point| point.x.clone()).collect(),
            series: series.to_vec(),
        },
    })
}
