//! A check that processors are kept apart: the same replay while busy loops run.
//!
//! What must never enter: how the package is replayed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::{Job, Point};
use plot::{Axis, Chart, Line, Marks, Plot};

use super::stands::{Beside, Setup, Stands};
use super::waits;
use super::{LOCAL, TOTAL, round_trip, shortened};
use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::Field;
use crate::replay::Pauses;

/// Two replicas; [`DISTANCE`] separates them.
const SET: &str = "two replicas";

/// The round trip between them, in milliseconds.
const DISTANCE: &str = "120";

/// Whether client and server have their own processors.
const PANELS: [(&str, bool); 2] = [("processors apart", true), ("shared processors", false)];

/// The number of busy loops during a replay.
const LOOPS: [&str; 3] = ["0", "1", "2"];

/// The number of replayed steps.
const STEPS: usize = 100_000;
const QUICK_STEPS: usize = 1_000;

/// The check.
#[derive(Debug)]
pub(crate) struct Processors;

fn setup(point: &Point, extent: Extent) -> Result<Setup> {
    let known = PANELS.iter().find(|(panel, _)| *panel == point.panel);
    Ok(Setup {
        is_apart: known.context("there is no such panel")?.1,
        replicas: if point.series == LOCAL { 1 } else { 2 },
        settings: String::new(),
        round_trip: round_trip(DISTANCE)?,
        pauses: Pauses::None,
        steps: extent.choose(STEPS, QUICK_STEPS),
        beside: Beside::Nothing,
    })
}

/// Does some work while this number of threads use all the processor time that they get.
fn beside_loops<T>(count: usize, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

impl Experiment for Processors {
    fn name(&self) -> &'static str {
        "processors"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{DISTANCE} {}", extent.choose(STEPS, QUICK_STEPS))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        let mut points = Vec::new();
        for (panel, _) in PANELS {
            for x in LOOPS {
                points.extend([SET, LOCAL].map(|series| Point::new(panel, series, x)));
            }
        }
        points
    }

    fn expected(&self, point: &Point, extent: Extent) -> std::time::Duration {
        let setup = setup(point, extent).map(|setup| setup.expected(super::sweep::STEPS_ALL));
        setup.unwrap_or_default() * 2
    }

    /// Servers are started once for all trials.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let mut stands = Stands::of(field);
        for job in jobs {
            let setup = setup(&job.point, field.extent)?;
            let loops = job.point.x.parse().context("no number of loops")?;
            let played = beside_loops(loops, || stands.play(&setup));
            book.keep(job, played.with_context(|| job.to_string())?)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads {
            panel: "processors",
            series: "server",
            x: "busy loops",
        };
        let line = |panel: &str| {
            let dots = LOOPS.iter().filter_map(|x| {
                let ratio = ratio(results, panel, x)?;
                Some((x.parse().ok()?, bench::chart::value(ratio, 1.0)))
            });
            Line {
                name: panel.to_owned(),
                is_reference: false,
                dots: dots.collect(),
            }
        };
        let steps = extent.choose(STEPS, QUICK_STEPS);
        Shown {
            title: "A check: processors of their own",
            about: format!(
                "The first {steps} steps of the package, without think time, at the first of two replicas {DISTANCE} ms apart and at a server without \
                 replicas, while 0 to 2 threads beside them do nothing but use processors. With *processors apart* the client and the server that it asks have \
                 one half of them, and the other replica, the program that delays packets and the busy loops have the other \
                 (`sched_setaffinity`), so the ratio should be the same in all rows; with *shared processors* everybody \
                 runs everywhere. {}{}",
                waits::ABOUT,
                shortened(extent, QUICK_STEPS)
            ),
            claims: "",
            tables: vec![waits::table(results, heads, &[], LOCAL)],
            plots: vec![Plot::only(
                "Time at two replicas by that at one server, beside busy loops",
                1,
                vec![Chart::untitled(
                    Axis::linear("busy loops"),
                    Axis::linear("two replicas / single local server"),
                    Marks::Lines(PANELS.map(|(panel, _)| line(panel)).to_vec()),
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let panels = PANELS.iter().map(|(panel, _)| {
            let ratios = LOOPS
                .iter()
                .map(|x| Some(table::cell(ratio(results, panel, x)?, 1.0)));
            let ratios: Option<Vec<String>> = ratios.collect();
            Some(format!("{panel} {}", ratios?.join(", ")))
        });
        let panels: Option<Vec<String>> = panels.collect();
        Some(format!(
            "two replicas by one server beside {} busy loops: {}",
            LOOPS.join(", "),
            panels?.join("; ")
        ))
    }
}

/// The total time at the set divided by that at the single server.
fn ratio(results: &Results, panel: &str, x: &str) -> Option<bench::statistics::Summary> {
    let [ours, local] = [SET, LOCAL].map(|series| Point::new(panel, series, x));
    results.ratio(&ours, &local, TOTAL)
}
