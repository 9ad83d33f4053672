//! Tables and plots of the experiment, and computed sentences about their bends.
//!
//! What must never enter: the simulation.

use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Line, Marks, Plot, Value};

use super::series::{
    Amount, BURST, CONTEND, CONTENTIONS, LAID_OUT, LAY_OUT, SINGLE, UNPACK, WRITE,
};
use super::{bend, cities, contend, rules, set, work};
use crate::experiment::Shown;

/// The expectations from the rules, beside the counted figures.
const ON_PAPER: &str = "on paper";

/// The experiment's part of the page.
pub(super) fn shown(results: &Results, amount: Amount) -> Shown {
    let about = format!("{}\n\n{}\n\n{}", stage(), work(amount), counted());
    Shown {
        title: "Scale: 2 to 64 replicas all over the world",
        about: format!("{about}\n\n{}", bend::sentences(results)),
        claims: include_str!("../claims/scale.md"),
        tables: tables(results),
        plots: vec![
            messages(results, amount),
            costs(results),
            times(results),
            elections(results),
        ],
    }
}

fn stage() -> String {
    format!(
        "**A simulation.** The cores of replication control that servers run exchange their real messages over virtual links; time is \
         virtual, too, and follows from the seed alone. Replicas are in cities drawn anew for each run from {} of all continents; a \
         larger set has all cities of the smaller one. A packet takes the great circle at two thirds of the speed of light, {} times as \
         long as that because no cable is straight, and up to {} % longer at random; packets do not overtake each other. Disks and \
         processors take no time, bandwidth has no limit, nothing is lost and nobody fails. Every run ends with a check that all copies \
         are identical, nobody waits and no control is left; with up to {} replicas every invariant of the simulation is checked after \
         every step as well.",
        cities::CITIES.len(),
        cities::STRETCH,
        set::JITTER_PERCENT,
        set::CHECKED_REPLICAS_MAX,
    )
}

fn work(amount: Amount) -> String {
    let Amount {
        single_updates,
        burst_files,
        updates_a_site,
        draws,
    } = amount;
    let [far, near] = [LAID_OUT[1].1, LAID_OUT[1].2].map(|one_way| 2 * one_way.as_millis());
    format!(
        "*{SINGLE}*: {single_updates} updates at replicas drawn at random, {} s apart, each of another file or directory that nobody \
         controls. *{BURST}*: a client of one replica makes, writes and closes {burst_files} files, one every {} ms or when the last one \
         is closed, in directories that it makes on the way, all below one that nobody controlled. *{CONTEND}*: clients of two replicas \
         make {updates_a_site} files each, one every {} ms or when the last one is made; one of {}, drawn at random, is in a directory \
         that both use, the others are in one of their own. An update of what the other one controls is carried out there (`forward`) or \
         waits (`wait`, as in the papers). *{LAY_OUT}*: all replicas are {far} ms from each other, or only those two, and {near} ms from \
         all others. Each trial is the mean of {draws} such runs.",
        work::APART.as_secs(),
        work::FILE_EVERY.as_millis(),
        contend::EVERY.as_millis(),
        contend::COMMON_ONE_IN,
    )
}

fn counted() -> String {
    format!(
        "*Messages* and *bytes* are those of replication control until the last control has ended everywhere: the frames that servers \
         send, with their headers, without TLS and TCP and without frames that carry no message. *All messages* are these, update \
         records, contents, forwarded operations, and what confirms each; every record counts, though servers send several as one. \
         *Proposals* count once, to however many they go; *made again* are those that replace an earlier one or stand behind a \
         competitor that an earlier one made way for; *withdrawn* are those that ended before they had won. *{ON_PAPER}*: of n \
         replicas, each of the n − 1 others gets a proposal and a release and answers both, so a control takes 4 (n − 1) messages. A \
         burst has one control for the directory and one for each file that is written below it. What is made in a directory under \
         shallow control *inherits* control by its maker; the record is the proposal, and 3 (n − 1) messages remain. For two sites the \
         dashed lines are made of the proposals and inherited controls that were counted; what is above them are refusals, revokes, \
         and what was asked in vain. A majority is reached after the round trip to the nearer half of the set, everybody after that to \
         the farthest."
    )
}

fn tables(results: &Results) -> Vec<String> {
    let heads = Heads {
        panel: "work",
        series: "update",
        x: "replicas",
    };
    let cost = [
        Figure::plain("proposals_per_update", "proposals"),
        Figure::plain("again_per_update", "made again"),
        Figure::plain("withdrawn_per_update", "withdrawn"),
        Figure::plain("inherited_per_update", "inherited"),
        Figure::plain("messages_per_update", "messages"),
        Figure::plain("bytes_per_update", "bytes"),
        Figure::plain("all_messages_per_update", "all messages"),
        Figure::plain("primary_messages_per_update", "of these sent by primaries"),
    ];
    let unit = 1e-3;
    let milliseconds = |name, title| Figure { name, title, unit };
    let time = [
        milliseconds("first_update_s", "first update (ms)"),
        milliseconds("majority_s", "majority, on paper (ms)"),
        milliseconds("everybody_s", "everybody, on paper (ms)"),
        milliseconds("mean_update_s", "all updates of the burst (ms)"),
        milliseconds("common_s", "in the common directory (ms)"),
        milliseconds("own_s", "in one of their own (ms)"),
        milliseconds("longest_s", "longest (ms)"),
        Figure::plain("own_proposals_a_site", "proposals for the own one"),
    ];
    let costs = table::by_point(results, heads, &cost, None);
    let times = table::by_point(results, heads, &time, None);
    vec![
        format!("For each update:\n\n{costs}"),
        format!("How long updates take, in the mean:\n\n{times}"),
    ]
}

/// Counted messages beside the rules' formulas.
fn messages(results: &Results, amount: Amount) -> Plot {
    let updates = work::updates_of_a_burst(amount.burst_files);
    let single = on_paper(results, SINGLE, &|n, _| {
        Some(rules::messages_of_a_control(n))
    });
    let burst = on_paper(results, BURST, &|n, _| {
        Some(rules::messages_in_a_burst(n, amount.burst_files, updates))
    });
    let contend = CONTENTIONS.map(|(series, _)| {
        on_paper(results, CONTEND, &|n, x| {
            let point = Point::new(CONTEND, series, x);
            let mean = |figure| results.summary(&point, figure).map(|found| found.mean);
            let proposed = mean("proposals_per_update")? * rules::messages_of_a_control(n);
            Some(
                proposed
                    + mean("inherited_per_update")? * rules::messages_of_an_inherited_control(n),
            )
        })
    });
    let panels = [
        (SINGLE, vec![single]),
        (BURST, vec![burst]),
        (CONTEND, contend.to_vec()),
    ];
    let counted = |panel, figure| chart::lines(results, panel, figure, 1.0, None);
    let above = panels.map(|(panel, paper)| {
        let marks = beside(counted(panel, "messages_per_update"), paper);
        chart(panel, Axis::log("messages for each update"), marks)
    });
    let below = [SINGLE, BURST, CONTEND].map(|panel| {
        let y = Axis::linear("for each update and other replica");
        chart(panel, y, counted(panel, "messages_per_other"))
    });
    Plot {
        name: "messages",
        title: "Messages of replication control for each update".to_owned(),
        columns: 3,
        charts: above.into_iter().chain(below).collect(),
    }
}

/// Bytes, and the traffic of the primary.
fn costs(results: &Results) -> Plot {
    let mut charts = Vec::new();
    let figures = [
        ("bytes_per_update", "bytes of control for each update"),
        (
            "primary_messages_per_update",
            "all messages sent by primaries",
        ),
    ];
    for (figure, title) in figures {
        for panel in [SINGLE, BURST, CONTEND] {
            let marks = chart::lines(results, panel, figure, 1.0, None);
            charts.push(chart(panel, Axis::log(title), marks));
        }
    }
    Plot {
        name: "cost",
        title: "Bytes of replication control, and what primaries send, for each update".to_owned(),
        columns: 3,
        charts,
    }
}

/// The times of updates, beside the round trips that they wait for.
fn times(results: &Results) -> Plot {
    let lines = |panel, figure, unit| chart::lines(results, panel, figure, unit, None);
    let bounds = |panel: &str, series: &str| {
        let bounds = [
            ("majority_s", "round trip to a majority"),
            ("everybody_s", "round trip to the farthest"),
        ];
        let line = |(figure, name): (&str, &str)| {
            let formula = |_, x: &str| {
                let found = results.summary(&Point::new(panel, series, x), figure)?;
                Some(found.mean * 1e3)
            };
            Line {
                name: name.to_owned(),
                ..on_paper(results, panel, &formula)
            }
        };
        bounds.map(line).to_vec()
    };
    let single = beside(lines(SINGLE, "first_update_s", 1e-3), bounds(SINGLE, WRITE));
    let burst = beside(lines(BURST, "first_update_s", 1e-3), bounds(BURST, UNPACK));
    let common = lines(CONTEND, "common_s", 1e-3);
    let milliseconds = |title: &str| Axis::linear(&format!("{title} (ms)"));
    Plot {
        name: "time",
        title: "How long updates take".to_owned(),
        columns: 3,
        charts: vec![
            chart(SINGLE, milliseconds("time of an update"), single),
            chart(BURST, milliseconds("time of the first update"), burst),
            chart(CONTEND, milliseconds("update of the common one"), common),
        ],
    }
}

/// How often two sites ask, and how often they ask again.
fn elections(results: &Results) -> Plot {
    let of = |panel, figure, title| {
        let marks = chart::lines(results, panel, figure, 1.0, None);
        chart(panel, Axis::linear(title), marks)
    };
    let again = "proposals made again for each update";
    Plot {
        name: "elections",
        title: "Elections of two sites that share a directory".to_owned(),
        columns: 3,
        charts: vec![
            of(CONTEND, "proposals_per_update", "proposals for each update"),
            of(CONTEND, "again_per_update", again),
            of(LAY_OUT, "again_per_update", again),
        ],
    }
}

fn chart(title: &str, y: Axis, marks: Marks) -> Chart {
    Chart {
        title: title.to_owned(),
        x: Axis::log("replicas"),
        y,
        marks,
    }
}

/// A dashed line of a formula, over all places of a panel. The formula gets the number of replicas and the name of the place.
fn on_paper(results: &Results, panel: &str, formula: &dyn Fn(u16, &str) -> Option<f64>) -> Line {
    let places = results.places(panel);
    let dot = |x: &&str| {
        let replicas: u16 = x.parse().ok()?;
        let value = formula(replicas, x)?;
        Some((f64::from(replicas), Value::exactly(value)))
    };
    Line {
        name: ON_PAPER.to_owned(),
        is_reference: true,
        dots: places.iter().filter_map(dot).collect(),
    }
}

/// The same lines and more.
fn beside(marks: Marks, more: Vec<Line>) -> Marks {
    match marks {
        Marks::Lines(mut lines) => {
            lines.extend(more);
            Marks::Lines(lines)
        }
        bars @ Marks::Bars { .. } => bars,
    }
}
