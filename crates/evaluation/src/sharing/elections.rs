//! Contested elections: clients of several sites change the same directory at the same instant.
//!
//! The directory is then uncontrolled. One of the servers becomes its primary. It makes its own client's file, and the forwarded files of the others.
//!
//! What must never enter: updates of a directory that is already controlled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::chart;
use bench::statistics::{LATENESS, Results, Summary};
use bench::table::{self, Figure, Heads};
use bench::trial::{self, Job, Outcome, Point};
use nfs4::{Bitmap4, NfsFh4};
use nfs4_client::How;
use plot::{Axis, Chart, Plot};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::replay::{Pauses, Requests};
use crate::sites::{Server, Sites};
use crate::ssh_build::round_trip;
use crate::ssh_build::stands::{Beside, Setup, Stands};

/// The number of replicas, each equally far from all others.
const REPLICAS: usize = 5;

/// Round trips between sites, in milliseconds, with the words of their series.
const DISTANCES: [(&str, &str); 3] = [("0.2 ms", "0.2"), ("60 ms", "60"), ("120 ms", "120")];

/// The times of the first and the last answer, from the instant of the requests.
const FIRST: &str = "first_us";
const LAST: &str = "last_us";

/// Contested elections.
#[derive(Debug)]
pub(crate) struct Elections;

/// The number of contested directories in a trial.
fn rounds(extent: Extent) -> usize {
    extent.choose(10, 2)
}

/// One site's client.
struct Competitor {
    requests: Requests,
    home: NfsFh4,
    name: String,
}

impl Competitor {
    async fn at(server: &Server, home: &str, site: usize) -> Result<Self> {
        let (client, root) = server.target().client().await?;
        let home = client.lookup(&root, home).await?;
        let name = format!("file-{site}");
        let requests = Requests::of(client);
        Ok(Self {
            requests,
            home,
            name,
        })
    }

    /// Makes its own file in a directory once all are ready, and returns the times of its request and of the answer.
    async fn compete(mut self, round: usize, ready: Arc<Barrier>) -> Result<(Self, [Instant; 2])> {
        let client = self.requests.client().clone();
        let place = client.lookup(&self.home, &*directory(round)).await?;
        ready.wait().await;
        let asked = Instant::now();
        let how = How::create_new(0o644);
        let (found, stateid) = self.requests.open(&place, &self.name, &how).await?;
        let answered = Instant::now();
        self.requests.close(&found.handle, stateid).await?;
        Ok((self, [asked, answered]))
    }
}

fn directory(round: usize) -> String {
    format!("directory-{round}")
}

async fn prepare(server: &Server, home: &str, rounds: usize) -> Result<()> {
    let (client, root) = server.target().client().await?;
    let home = client.create_directory(&root, home, 0o755).await?;
    for round in 0..rounds {
        client
            .create_directory(&home, &*directory(round), 0o755)
            .await?;
    }
    Ok(client.leave().await?)
}

/// Lets this number of sites compete for one directory after another, each time when nothing is controlled. Then checks at the last replica that all
/// files exist.
fn measure(sites: &Sites, home: &str, competitors: usize, rounds: usize) -> Result<Outcome> {
    let here = runtime()?;
    let first = sites.replicas.first().context("a set has replicas")?;
    here.block_on(prepare(first, home, rounds))?;
    sites.wait_for_quiet()?;
    let mut all = Vec::new();
    // The first has made the directories; competitors begin with the second, so that a single one is not a special case.
    for site in (1..=competitors).map(|number| number % sites.replicas.len()) {
        let server = &sites.replicas[site];
        all.push(here.block_on(Competitor::at(server, home, site))?);
    }
    let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        sites.wait_for_quiet()?;
        let ready = Arc::new(Barrier::new(competitors));
        let times = here.block_on(async {
            let competing = all
                .drain(..)
                .map(|one| one.compete(round, Arc::clone(&ready)));
            let ended = competing.collect::<JoinSet<_>>().join_all().await;
            let (back, times): (Vec<_>, Vec<_>) = ended
                .into_iter()
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .unzip();
            all = back;
            anyhow::Ok(times)
        })?;
        let asked = times.iter().map(|[asked, _]| *asked).min();
        let asked = asked.context("nobody competes")?;
        let after = |answered: Option<Instant>| {
            let took = answered.map(|time| time.duration_since(asked));
            took.unwrap_or_default().as_secs_f64() * 1e6
        };
        let answered = || times.iter().map(|[_, answered]| *answered);
        firsts.push(after(answered().min()));
        lasts.push(after(answered().max()));
    }
    sites.wait_for_quiet()?;
    let last = sites.replicas.last().context("a set has replicas")?;
    here.block_on(check(last, home, rounds, competitors))?;
    sites.check_running()?;
    let delays: u64 = all.iter().map(|one| one.requests.counts.delays).sum();
    for one in all {
        here.block_on(one.requests.client().clone().leave())?;
    }
    let median = |times: &[f64]| Summary::of(times).map(|summary| summary.median);
    let figures = [
        (FIRST, median(&firsts).context("there was no round")?),
        (LAST, median(&lasts).context("there was no round")?),
        ("delays", delays as f64),
        (LATENESS, sites.lateness()?.as_secs_f64() * 1e6),
    ];
    Ok(trial::named(figures))
}

async fn check(server: &Server, home: &str, rounds: usize, files: usize) -> Result<()> {
    let (client, root) = server.target().client().await?;
    let home = client.lookup(&root, home).await?;
    for round in 0..rounds {
        let place = client.lookup(&home, &*directory(round)).await?;
        let found = client.readdir(&place, Bitmap4::EMPTY).await?.len();
        ensure!(
            found == files,
            "{found} files are there where {files} were made"
        );
    }
    Ok(client.leave().await?)
}

impl Experiment for Elections {
    fn name(&self) -> &'static str {
        "elections"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{REPLICAS} {}", rounds(extent))
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances = &DISTANCES[..];
        let competitors: &[usize] = extent.choose(&[1, 2, 3, 4, 5], &[1, 3]);
        let points = distances.iter().flat_map(|(series, _)| {
            let all = competitors.iter();
            all.map(move |count| Point::new("", series, count))
        });
        points.collect()
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        Duration::from_millis(1500) * u32::try_from(rounds(extent)).unwrap_or(u32::MAX)
    }

    /// Servers are started once for all trials.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let mut stands = Stands::of(field);
        for job in jobs {
            let distance = DISTANCES.iter().find(|(name, _)| *name == job.point.series);
            let (_, distance) = distance.context("there is no such distance")?;
            let setup = Setup {
                replicas: REPLICAS,
                settings: String::new(),
                round_trip: round_trip(distance)?,
                is_apart: false,
                pauses: Pauses::None,
                steps: 0,
                beside: Beside::Nothing,
            };
            let competitors = job.point.x.parse().context("no number of competitors")?;
            let home = stands.home();
            let sites = stands.sites(&setup)?;
            let outcome = measure(sites, &home, competitors, rounds(field.extent));
            book.keep(job, outcome.with_context(|| job.to_string())?)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("round trip", "competitors");
        let unit = 1e3;
        let columns = [(FIRST, "first answer (ms)"), (LAST, "last answer (ms)")];
        let times = columns.map(|(name, title)| Figure { name, title, unit });
        let delays = Figure::plain("delays", "asked to come later");
        let chart = |title: &str, figure| Chart {
            title: title.to_owned(),
            x: Axis::linear("competitors"),
            y: Axis::linear("time (ms)"),
            marks: chart::lines(results, "", figure, unit, None),
        };
        Shown {
            title: "Contested elections",
            about: format!(
                "{REPLICAS} replicas, each equally far from all others. Clients of 1 to {REPLICAS} of them make a file each (OPEN) in the same \
                 directory at the same instant, while nobody controls it: the servers compete, one becomes primary, and the others forward. Shown is \
                 when the first of the clients has its answer, and when the last one has: the median of {} directories, one after the other. Two \
                 message delays are one round trip. A server that lost forwards to the primary, which takes one round trip more.",
                rounds(extent)
            ),
            claims: include_str!("../claims/elections.md"),
            tables: vec![table::by_point(
                results,
                heads,
                &[times[0], times[1], delays],
                None,
            )],
            plots: vec![Plot::only(
                "Elections with several competitors",
                2,
                vec![
                    chart("the first answer", FIRST),
                    chart("the last answer", LAST),
                ],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let (series, _) = DISTANCES.last()?;
        let x = results.last_place("")?;
        let [alone, all] = ["1", x].map(|x| Point::new("", series, x));
        let one = results.summary(&alone, FIRST)?;
        let [first, last] = [FIRST, LAST].map(|figure| results.summary(&all, figure));
        let [one, first, last] = [one, first?, last?].map(|time| table::cell(time, 1e3));
        Some(format!(
            "{series} apart: one alone {one} ms; of {x} competitors the first {first} ms, the last {last} ms"
        ))
    }
}
