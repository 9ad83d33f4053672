//! One page about a run: violations first, then curves with the faults marked, then counts.
//!
//! What must never enter: judgement; it is in `check`.

mod summary;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};

use anyhow::{Context, Result};
use plot::{Band, Curve, Timeline, colour, escaped};
use serde_json::json;

use crate::check::invariants::INVARIANTS;
use crate::history::Event;
use crate::run::{Order, Outcome};
use crate::sampling::Sample;
use crate::schedule::{POOLED, name};
use crate::stage::Suffered;

/// The approximate number of points of a curve.
const POINTS: f64 = 240.0;

/// A server without an answer for this many seconds leaves a gap.
const SILENCE_S: f64 = 5.0;

/// The style of the page.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;\
    padding:0 1em;color:#222}svg{width:100%;height:auto}table{border-collapse:collapse}\
    td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}\
    td:first-child,th:first-child{text-align:left}pre{white-space:pre-wrap}\
    .bad{background:#fde8e8;border-left:5px solid #c00;padding:.3em 1em}\
    .good{background:#e8f6ec;border-left:5px solid #080;padding:.3em 1em}";

/// Writes the page, the history and the raw result into the run's folder.
pub fn write(order: &Order, outcome: &Outcome) -> Result<()> {
    let folder = &order.folder;
    let page = page(order, outcome);
    fs::write(folder.join("report.html"), page).context("could not write the report")?;
    let result = json!({
        "order": order,
        "faults": outcome.faults,
        "violations": outcome.violations,
        "kinds": summary::by_kind(&outcome.events),
        "failures": summary::failures(&outcome.events),
        "put_off": outcome.put_off,
        "direct": outcome.direct,
        "samples": outcome.samples,
    });
    fs::write(
        folder.join("result.json"),
        serde_json::to_string_pretty(&result)?,
    )?;
    let mut history = BufWriter::new(File::create(folder.join("history.jsonl"))?);
    for event in &outcome.events {
        serde_json::to_writer(&mut history, event)?;
        history.write_all(b"\n")?;
    }
    history.flush().context("could not write the history")
}

/// A short summary for the terminal.
pub fn in_short(order: &Order, outcome: &Outcome) -> String {
    let mut text = String::new();
    for violation in &outcome.violations {
        let _ = writeln!(text, "VIOLATION: {violation}");
    }
    let sites = order.profile.sites;
    for (site, longest) in summary::longest(&outcome.events, sites).iter().enumerate() {
        if let Some(event) = longest {
            let _ = writeln!(
                text,
                "longest wait at {}: {:.1} s, {}",
                name(site),
                seconds(event.end - event.begin),
                event.act.kind()
            );
        }
    }
    if order.kind.has_layouts() {
        let judged = INVARIANTS.iter().map(|invariant| {
            let evidence = invariant.evidence(&outcome.events);
            format!("{} {evidence}", invariant.number)
        });
        let judged = judged.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "{} reads and writes at data servers; operations that were judged by invariant: {judged}",
            outcome.direct
        );
    }
    let done = outcome
        .events
        .iter()
        .filter(|event| event.is_done())
        .count();
    let _ = writeln!(
        text,
        "seed {}: {} faults, {done} of {} operations done, {} put off, {} violations; see {}",
        order.profile.seed,
        outcome.faults.len(),
        outcome.events.len(),
        outcome.put_off,
        outcome.violations.len(),
        order.folder.join("report.html").display()
    );
    text
}

fn page(order: &Order, outcome: &Outcome) -> String {
    let profile = &order.profile;
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Nemesis, seed {seed}</title><style>{STYLE}</style>\n\
         <h1>Nemesis, seed {seed}</h1>\n\
         <p>{sites} sites{own_pool}, {round_trip} ms from one to another and back; {faults} faults in {length} s\
         {majority}; {operations} operations of {clients} clients, which servers put off {put_off} times.</p>\n",
        seed = profile.seed,
        sites = profile.sites,
        own_pool = match profile.data_servers {
            0 => String::new(),
            count => format!(
                ", of which {} keeps its contents on {count} data servers",
                name(POOLED)
            ),
        },
        round_trip = order.round_trip.as_millis(),
        faults = outcome.faults.len(),
        length = profile.length.as_secs(),
        majority = if profile.majority {
            ", also of a majority at once"
        } else {
            ""
        },
        operations = outcome.events.len(),
        clients = outcome
            .events
            .iter()
            .map(|event| event.client + 1)
            .max()
            .unwrap_or(0),
        put_off = outcome.put_off,
    );
    page += &verdict(outcome);
    if order.kind.has_layouts() {
        page += &invariants(outcome);
    }
    page += &plots(order, outcome);
    page += &tables(order, outcome);
    page + "</html>\n"
}

fn verdict(outcome: &Outcome) -> String {
    if outcome.violations.is_empty() {
        return "<p class=\"good\"><b>Every promise was kept.</b></p>\n".to_owned();
    }
    let mut html = format!(
        "<div class=\"bad\"><p><b>{} violations</b></p><ol>\n",
        outcome.violations.len()
    );
    for violation in &outcome.violations {
        let _ = writeln!(
            html,
            "<li><pre>{}</pre></li>",
            escaped(&violation.to_string())
        );
    }
    html + "</ol></div>\n"
}

/// The invariants of a pool, their judges, and the amount of evidence.
fn invariants(outcome: &Outcome) -> String {
    let mut html = format!(
        "<h2>Invariants of a pool</h2>\n<p>Clients have read and written {} times at data servers.</p>\n\
         <table><tr><th>invariant</th><th>judged by</th><th>operations</th></tr>\n",
        outcome.direct
    );
    for invariant in &INVARIANTS {
        let _ = writeln!(
            html,
            "<tr><td>{}: {}</td><td>{}</td><td>{}</td></tr>",
            invariant.number,
            escaped(invariant.says),
            escaped(invariant.judge),
            invariant.evidence(&outcome.events)
        );
    }
    html + "</table>\n"
}

fn plots(order: &Order, outcome: &Outcome) -> String {
    let last = outcome.events.iter().map(|event| event.end).max();
    let length = seconds(last.unwrap_or(1_000_000));
    let sites = 0..order.profile.sites;
    let bands: Vec<Band> = outcome
        .faults
        .iter()
        .map(|fault| band(fault, length))
        .collect();
    let curves = |of: &dyn Fn(usize) -> Vec<(f64, Option<f64>)>| -> Vec<Curve> {
        let curve = |site| Curve {
            name: name(site).to_owned(),
            colour: colour(site),
            points: of(site),
        };
        sites.clone().map(curve).collect()
    };
    let bin = (length / POINTS).max(1.0);
    let done = |site| binned(&outcome.events, site, [length, bin], throughput);
    let waits = |site| binned(&outcome.events, site, [length, bin], longest_wait);
    let lag = |site| sampled(outcome, site, |sample| Some(sample.lag_ms as f64 / 1e3));
    let epoch = |site| sampled(outcome, site, |sample| Some(sample.epoch? as f64));
    let mut html = String::from("<p>");
    for site in sites.clone() {
        let _ = write!(
            html,
            "<b style=\"color:{}\">{}</b> ",
            colour(site),
            name(site)
        );
    }
    html += "– a band is a fault of the site of that colour.</p>\n";
    let plot = |title: &str, unit, curves| {
        let timeline = Timeline {
            title: title.to_owned(),
            unit,
            length,
            curves,
            bands: bands.clone(),
        };
        timeline.svg()
    };
    html += &plot("Operations done", "1/s", curves(&done));
    html += &plot(
        "Longest wait of an operation that began then",
        "s",
        curves(&waits),
    );
    html += &plot(
        "Lag: for how long another server has lacked what was changed here",
        "s",
        curves(&lag),
    );
    if outcome.samples.iter().any(|sample| sample.epoch.is_some()) {
        html += &plot("View in force", "", curves(&epoch));
    }
    html
}

/// A curve of a server's samples, with gaps where samples are missing for long.
fn sampled(
    outcome: &Outcome,
    site: usize,
    value: fn(&Sample) -> Option<f64>,
) -> Vec<(f64, Option<f64>)> {
    let mut points: Vec<(f64, Option<f64>)> = Vec::new();
    for sample in outcome.samples.iter().filter(|sample| sample.site == site) {
        let time = seconds(sample.at);
        if points
            .last()
            .is_some_and(|(last, _)| time - last > SILENCE_S)
        {
            points.push((time, None));
        }
        points.push((time, value(sample)));
    }
    points
}

fn band(suffered: &Suffered, length: f64) -> Band {
    let victim = suffered.fault.victim;
    Band {
        name: format!("{} {}", suffered.fault.blow, name(victim)),
        colour: colour(victim),
        begin: seconds(suffered.begin),
        end: suffered.end.map_or(length, seconds),
    }
}

/// A curve with a point for every `bin` seconds.
fn binned(
    events: &[Event],
    site: usize,
    [length, bin]: [f64; 2],
    value: fn(&[&Event], f64) -> f64,
) -> Vec<(f64, Option<f64>)> {
    let mut bins: Vec<Vec<&Event>> = vec![Vec::new(); (length / bin) as usize + 1];
    let is_wait = std::ptr::fn_addr_eq(value, longest_wait as fn(&[&Event], f64) -> f64);
    for event in events.iter().filter(|event| event.site == site) {
        let time = if is_wait { event.begin } else { event.end };
        if let Some(bin) = bins.get_mut((seconds(time) / bin) as usize) {
            bin.push(event);
        }
    }
    let points = bins.iter().enumerate();
    points
        .map(|(index, events)| ((index as f64 + 0.5) * bin, Some(value(events, bin))))
        .collect()
}

fn throughput(events: &[&Event], bin: f64) -> f64 {
    events.iter().filter(|event| event.is_done()).count() as f64 / bin
}

fn longest_wait(events: &[&Event], _bin: f64) -> f64 {
    let waits = events.iter().map(|event| seconds(event.end - event.begin));
    waits.fold(0.0, f64::max)
}

fn tables(order: &Order, outcome: &Outcome) -> String {
    let mut html = String::from("<h2>Longest waits</h2>\n<table>");
    let longest = summary::longest(&outcome.events, order.profile.sites);
    for (site, event) in longest.iter().enumerate() {
        let Some(event) = event else { continue };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{:.2} s</td><td>{}</td><td>from {:.1} s</td></tr>",
            name(site),
            seconds(event.end - event.begin),
            event.act.kind(),
            seconds(event.begin)
        );
    }
    html += "</table>\n<h2>Operations</h2>\n<table><tr><th>what</th><th>done</th><th>refused</th>\
             <th>unknown</th><th>median</th><th>99 of 100</th><th>longest</th></tr>\n";
    for (kind, line) in summary::by_kind(&outcome.events) {
        let _ = writeln!(
            html,
            "<tr><td>{kind}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1} ms</td>\
             <td>{:.1} ms</td><td>{:.1} ms</td></tr>",
            line.done,
            line.refused,
            line.unknown,
            line.median_us as f64 / 1e3,
            line.most_us as f64 / 1e3,
            line.longest_us as f64 / 1e3
        );
    }
    html += "</table>\n<h2>Refusals and failures</h2>\n<table>\n";
    for (words, count) in summary::failures(&outcome.events).iter().take(40) {
        let _ = writeln!(html, "<tr><td>{}</td><td>{count}</td></tr>", escaped(words));
    }
    html += "</table>\n<h2>Faults</h2>\n<table>\n";
    for suffered in &outcome.faults {
        let end = suffered
            .end
            .map_or("never".to_owned(), |end| format!("{:.1} s", seconds(end)));
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{:.1} s</td><td>{end}</td></tr>",
            name(suffered.fault.victim),
            escaped(&suffered.fault.blow.to_string()),
            seconds(suffered.begin)
        );
    }
    html + "</table>\n"
}

fn seconds(time: u64) -> f64 {
    time as f64 / 1e6
}
