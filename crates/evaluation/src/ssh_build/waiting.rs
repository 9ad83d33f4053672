//! A check of the method by which waiting for processors is taken off: the same play with busy loops beside it.
//!
//! What must never enter: how the package is played.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::{Job, Point};
use plot::{Axis, Chart, Line, Marks, Plot};

use super::stands::{Beside, Setup, Stands};
use super::waits::{self, UNDISTURBED};
use super::{LOCAL, TOTAL, round_trip, shortened};
use crate::experiment::{Book, Experiment, Extent, Shown};
use crate::field::Field;
use crate::replay::Pauses;

/// Two replicas, the second so far away.
const SET: &str = "two replicas";

/// The round trip between them, in milliseconds.
const DISTANCE: &str = "120";

/// How many busy loops go on beside a play.
const LOOPS: [&str; 3] = ["0", "1", "2"];

/// How many steps are played.
const STEPS: usize = 100_000;
const QUICK_STEPS: usize = 1_000;

/// The check.
#[derive(Debug)]
pub(crate) struct Waiting;

fn setup(point: &Point, extent: Extent) -> Result<Setup> {
    Ok(Setup {
        replicas: if point.series == LOCAL { 1 } else { 2 },
        settings: String::new(),
        round_trip: round_trip(DISTANCE)?,
        pauses: Pauses::None,
        steps: extent.choose(STEPS, QUICK_STEPS),
        beside: Beside::Nothing,
    })
}

/// Does something while so many threads use all the processor time that they get.
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

impl Experiment for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{DISTANCE} {}", extent.choose(STEPS, QUICK_STEPS))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        let points = LOOPS.into_iter();
        let points = points.flat_map(|x| [SET, LOCAL].map(|series| Point::new("", series, x)));
        points.collect()
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
            panel: "",
            series: "server",
            x: "busy loops",
        };
        let line = |name: &str, is_reference, figure| {
            let places = results.places("").into_iter();
            let dots = places.filter_map(|x| {
                let [ours, local] = [SET, LOCAL].map(|series| Point::new("", series, x));
                let ratio = results.ratio(&ours, &local, figure)?;
                Some((x.parse().ok()?, bench::chart::value(ratio, 1.0)))
            });
            Line {
                name: name.to_owned(),
                is_reference,
                dots: dots.collect(),
            }
        };
        let steps = extent.choose(STEPS, QUICK_STEPS);
        Shown {
            title: "A check: what is waited for processors, taken off",
            about: format!(
                "The first {steps} steps of the package, without think time, at the first of two replicas {DISTANCE} ms apart and at a server without \
                 replicas, while 0 to 2 threads beside them do nothing but use processors. {} If the method is right, the \
                 ratio without waiting is the same in all rows.{}",
                waits::ABOUT_METHOD,
                shortened(extent, QUICK_STEPS)
            ),
            claims: "",
            tables: vec![waits::table(results, heads, &[], LOCAL)],
            plots: vec![Plot {
                name: "",
                title: "Time at two replicas by that at one server, beside busy loops".to_owned(),
                columns: 1,
                charts: vec![Chart {
                    title: String::new(),
                    x: Axis::linear("busy loops"),
                    y: Axis::linear("two replicas / single local server"),
                    marks: Marks::Lines(vec![
                        line("as measured", true, TOTAL),
                        line("without waiting for processors", false, UNDISTURBED),
                    ]),
                }],
            }],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let ratios = LOOPS.iter().map(|x| {
            let [ours, local] = [SET, LOCAL].map(|series| Point::new("", series, x));
            let ratio = |figure| results.ratio(&ours, &local, figure);
            let [measured, without] = [ratio(TOTAL)?, ratio(UNDISTURBED)?];
            let [measured, without] = [measured, without].map(|one| table::cell(one, 1.0));
            Some(format!("{x} loops {measured}, {without}"))
        });
        let ratios: Option<Vec<String>> = ratios.collect();
        Some(format!(
            "two replicas by one server, as measured and without waiting: {}",
            ratios?.join("; ")
        ))
    }
}
