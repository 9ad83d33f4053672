//! Tables and plots of the experiment, and sentences about where they bend, which are computed.
//!
//! What must never enter: the simulation.

use super::super::experiment::{Point, Shown};
use super::super::plot::{self, Axis, Chart, Line, Marks, Plot, Value};
use super::super::statistics::Results;
use super::super::table::{self, Figure, Heads};
use super::{Amount, BURST, CONTEND, CONTENTIONS, SINGLE, UNPACK, WRITE, bend, rules, work};
use super::{cities, contend, set};

/// What the rules say, beside what was counted.
const ON_PAPER: &str = "on paper";

/// The experiment's part of the page.
pub(super) fn shown(results: &Results, amount: Amount) -> Shown {
    let about = format!("{}\n\n{}\n\n{}", stage(), work(amount), counted());
    Shown {
        title: "Scale: 2 to 64 replicas all over the world",
        about: format!("{about}\n\n{}", bend::sentences(results)),
        claims: include_str!("../claims/scale.md"),
        tables: tables(results),
        plots: vec![messages(results, amount), costs(results), times(results)],
    }
}

fn stage() -> String {
    format!(
        "**A simulation**, in which the cores of replication control that servers run exchange their real messages over virtual links. \
         Time is virtual, too, and follows from the seed alone. Replicas are in cities drawn anew for each \
         trial from {} of all continents; a larger set of the same trial has the cities of the smaller ones. A packet takes \
         the great circle at two thirds of the speed of light, {} times as long as that because no cable is straight, and up to {} % more at random; \
         packets do not overtake each other. Disks and processors take no time, bandwidth has no limit, nothing is lost and nobody fails. Every trial \
         ends with a check that all copies are identical, nobody waits and no control is left; in sets of up to {} every \
         invariant of the simulation was checked after every step.",
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
    } = amount;
    format!(
        "*{SINGLE}*: {single_updates} updates at replicas drawn at random, {} s apart, each of another file or directory that nobody controls. \
         *{BURST}*: a client of one replica makes, writes and closes {burst_files} files, one every {} ms or when the last one is closed, in \
         directories that it makes on the way, all below one that nobody controlled. *{CONTEND}*: clients of two replicas make {updates_a_site} files \
         each, one every {} ms or when the last one is made; one of {}, drawn at random, is in a directory that both use, the others are in one of its own. An \
         update of what the other one controls is carried out there (`forward`) or waits (`wait`).",
        work::APART.as_secs(),
        work::FILE_EVERY.as_millis(),
        contend::EVERY.as_millis(),
        contend::COMMON_ONE_IN,
    )
}

fn counted() -> String {
    format!(
        "*Messages* and *bytes* are those of replication control until the last control has ended everywhere, the frames of servers with their headers, without \
         TLS and TCP, and without what a quiet connection says of itself. *All messages* has update records, contents, forwarded operations and the answer to each \
         as well, each as a message of its own, though servers send several records as one. *Proposals* count once, to however many they go; *refused* ones were refused by \
         somebody, *withdrawn* ones had to be given up, so that the election was in vain or was repeated. *{ON_PAPER}*: one control costs 4 (n − 1) messages among n \
         replicas: a proposal to each of the others, its acknowledgement, the release, and its receipt. A burst needs one control for the directory and one \
         for each file that is written below it; for two sites the line is 4 (n − 1) for each proposal that was counted. A \
         majority is reached after the round trip to the nearer half, everybody after that to the farthest."
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
        Figure::plain("refused_per_update", "refused"),
        Figure::plain("withdrawn_per_update", "withdrawn"),
        Figure::plain("messages_per_update", "messages"),
        Figure::plain("bytes_per_update", "bytes"),
        Figure::plain("all_messages_per_update", "all messages"),
        Figure::plain(
            "primary_messages_per_update",
            "sent by the primary, all messages",
        ),
    ];
    let unit = 1e-3;
    let milliseconds = |name, title| Figure { name, title, unit };
    let time = [
        milliseconds("first_update_s", "first update (ms)"),
        milliseconds("mean_update_s", "mean update of the burst (ms)"),
        milliseconds("majority_s", "majority, on paper (ms)"),
        milliseconds("everybody_s", "everybody, on paper (ms)"),
        milliseconds("own_s", "in the own directory, mean (ms)"),
        milliseconds("common_s", "in the common one, mean (ms)"),
    ];
    let costs = table::by_point(results, heads, &cost, None);
    let times = table::by_point(results, heads, &time, None);
    vec![
        format!("For each update:\n\n{costs}"),
        format!("How long updates take:\n\n{times}"),
    ]
}

/// Counted messages beside the rules' formulas.
fn messages(results: &Results, amount: Amount) -> Plot {
    let figure = "messages_per_update";
    let updates = work::updates_of_a_burst(amount.burst_files);
    let single = on_paper(results, SINGLE, &|n, _| {
        Some(rules::messages_of_a_control(n))
    });
    let burst = on_paper(results, BURST, &|n, _| {
        Some(rules::messages_in_a_burst(n, amount.burst_files, updates))
    });
    let mut contend = Vec::new();
    for (series, _) in CONTENTIONS {
        let formula = |n, x: &str| {
            let point = Point::new(CONTEND, series, x);
            let proposals = results.summary(&point, "proposals_per_update")?;
            Some(proposals.mean * rules::messages_of_a_control(n))
        };
        let mut line = on_paper(results, CONTEND, &formula);
        line.name = format!("{series}, {ON_PAPER}");
        contend.push(line);
    }
    let panels = [
        (SINGLE, vec![single]),
        (BURST, vec![burst]),
        (CONTEND, contend),
    ];
    let chart = |(panel, paper): (&str, Vec<Line>)| {
        let marks = beside(plot::lines(results, panel, figure, 1.0, None), paper);
        chart(
            panel,
            Axis::log("messages of control for each update"),
            marks,
        )
    };
    Plot {
        name: "messages",
        title: "Messages of replication control for each update".to_owned(),
        columns: 3,
        charts: panels.map(chart).into(),
    }
}

/// Bytes, and what the primary sends.
fn costs(results: &Results) -> Plot {
    let mut charts = Vec::new();
    let figures = [
        ("bytes_per_update", "bytes of control for each update"),
        (
            "primary_messages_per_update",
            "sent by the primary, all messages",
        ),
    ];
    for (figure, title) in figures {
        for panel in [SINGLE, BURST, CONTEND] {
            let marks = plot::lines(results, panel, figure, 1.0, None);
            charts.push(chart(panel, Axis::log(title), marks));
        }
    }
    Plot {
        name: "cost",
        title: "Bytes of replication control, and what the primary sends, for each update"
            .to_owned(),
        columns: 3,
        charts,
    }
}

/// How long updates take, and how often one asks in vain.
fn times(results: &Results) -> Plot {
    let lines = |panel, figure, unit| plot::lines(results, panel, figure, unit, None);
    let bound = |panel: &str, series: &str, figure: &str, name: &str| {
        let formula = |_, x: &str| {
            let found = results.summary(&Point::new(panel, series, x), figure)?;
            Some(found.mean * 1e3)
        };
        let mut line = on_paper(results, panel, &formula);
        line.name = name.to_owned();
        line
    };
    let bounds = |panel, series| {
        vec![
            bound(panel, series, "majority_s", "round trip to a majority"),
            bound(panel, series, "everybody_s", "round trip to the farthest"),
        ]
    };
    let single = beside(lines(SINGLE, "first_update_s", 1e-3), bounds(SINGLE, WRITE));
    let burst = beside(lines(BURST, "first_update_s", 1e-3), bounds(BURST, UNPACK));
    let milliseconds = |title: &str| Axis::linear(&format!("{title} (ms)"));
    let each = || Axis::linear("for each update");
    let charts = vec![
        chart(SINGLE, milliseconds("time of an update"), single),
        chart(BURST, milliseconds("time of the first update"), burst),
        chart(
            "two sites: updates of the common directory",
            milliseconds("mean time"),
            lines(CONTEND, "common_s", 1e-3),
        ),
        chart(
            "two sites: updates of their own directories",
            milliseconds("mean time"),
            lines(CONTEND, "own_s", 1e-3),
        ),
        chart(
            "two sites: proposals",
            each(),
            lines(CONTEND, "proposals_per_update", 1.0),
        ),
        chart(
            "two sites: proposals withdrawn",
            each(),
            lines(CONTEND, "withdrawn_per_update", 1.0),
        ),
    ];
    Plot {
        name: "time",
        title: "How long updates take, and elections of two sites that share a directory"
            .to_owned(),
        columns: 3,
        charts,
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

/// A dashed line of a formula, over all places of a panel: of the number of replicas, and its name among the places.
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
