//! A turn: everything that is measured without interruption with one server and one number of clients, in an
//! order in which each workload finds what it needs.
//!
//! What must never enter: the order of turns.

use std::time::Duration;

use anyhow::{Context, Result};
use bench::processor::ProcessorTime;
use bench::tally::Tally;
use bench::trial::{Outcome, Point};

use crate::contender::{Contender, Kind};
use crate::worker::{Crew, Left};
use crate::workload::{Workload, data, files};

/// The names of figures in outcomes.
pub(crate) mod figure {
    /// The amount per second, in the workload's unit.
    pub(crate) const RATE: &str = "per_s";
    /// The median latency of operations.
    pub(crate) const MEDIAN: &str = "median_us";
    /// The 99th percentile of latencies.
    pub(crate) const MOST: &str = "most_us";
    /// Processor time of the server for each unit of work.
    pub(crate) const SERVER_CPU: &str = "server_cpu_us";
    /// The same for the clients.
    pub(crate) const CLIENT_CPU: &str = "client_cpu_us";
    /// The share of the processors that other programs used meanwhile.
    pub(crate) const OTHERS: &str = "others_share";
}

/// The numbers of clients that work at once.
pub(crate) const CLIENTS: [usize; 3] = [1, 16, 64];

/// The results of a turn.
pub(crate) type Outcomes = Vec<(Point, Outcome)>;

/// A workload at a server, by this many clients.
pub(crate) fn point(workload: Workload, kind: Kind, clients: usize) -> Point {
    Point::new(workload.title(), kind.title(), clients)
}

/// The outcome of a workload that took this long, with the processor time of server and clients.
pub(crate) fn outcome(
    workload: Workload,
    tally: &Tally,
    took: Duration,
    (server_cpu, client_cpu): (Duration, Duration),
) -> Outcome {
    let amount = tally.amount as f64 / workload.scale();
    let per_unit = |time: Duration| time.as_secs_f64() * 1e6 / amount.max(1.0);
    let figures = [
        (figure::RATE, amount / took.as_secs_f64()),
        (figure::MEDIAN, tally.percentile(0.5) as f64),
        (figure::MOST, tally.percentile(0.99) as f64),
        (figure::SERVER_CPU, per_unit(server_cpu)),
        (figure::CLIENT_CPU, per_unit(client_cpu)),
        ("took_s", took.as_secs_f64()),
    ];
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}

/// The amount of work in a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// The length of a workload without an end of its own.
    pub(crate) length: Duration,
    /// The number of bytes that all clients together write to large files.
    pub(crate) data_size: u64,
}

/// The server and the clients of a turn.
pub(crate) struct Place<'a> {
    /// The server.
    pub(crate) contender: &'a mut Contender,
    /// The number of clients.
    pub(crate) clients: usize,
}

/// A turn in progress.
struct Turn<'a> {
    place: Place<'a>,
    crew: Crew,
    length: Duration,
    outcomes: Outcomes,
}

/// Does everything except removing; `name` is new at this server. Also returns what remains for
/// [`remove`].
///
/// Removals have their own turns, after all others: an ext4 without a journal skips
/// inodes that were in use in the last minutes when it looks for a free one, and would slow the next
/// turn down.
pub(crate) async fn work(place: Place<'_>, name: &str, extent: Extent) -> Result<(Outcomes, Left)> {
    let target = place.contender.target();
    let crew = Crew::hire(target, place.clients, name, extent.data_size).await?;
    let only_names = place.contender.kind().is_durable();
    let mut turn = Turn {
        place,
        crew,
        length: extent.length,
        outcomes: Vec::new(),
    };
    if !only_names {
        turn.measure(Workload::Null).await?;
    }
    turn.measure(Workload::Create).await?;
    turn.measure(Workload::CreateDurable).await?;
    turn.crew.all(files::check).await?;
    if !only_names {
        turn.measure(Workload::Getattr).await?;
        turn.measure(Workload::Lookup).await?;
        turn.measure(Workload::Readdir).await?;
        turn.large_files().await?;
    }
    Ok((turn.outcomes, turn.crew.dismiss().await?))
}

/// Removes all small files that an earlier turn made.
pub(crate) async fn remove(place: Place<'_>, left: Left) -> Result<Outcomes> {
    let mut turn = Turn {
        crew: Crew::rehire(place.contender.target(), left).await?,
        place,
        length: Duration::ZERO,
        outcomes: Vec::new(),
    };
    turn.measure(Workload::Remove).await?;
    turn.crew.clear().await?;
    Ok(turn.outcomes)
}

impl Turn<'_> {
    async fn large_files(&mut self) -> Result<()> {
        self.measure(Workload::Write).await?;
        self.measure(Workload::Read).await?;
        self.measure(Workload::RandomRead).await?;
        self.measure(Workload::RandomWrite).await?;
        let share = data::Share::of(self.crew.data());
        self.crew
            .all(move |worker| data::check_and_remove(worker, share))
            .await?;
        Ok(())
    }

    async fn measure(&mut self, workload: Workload) -> Result<()> {
        let title = self.place.contender.kind().title();
        let server_before = self.place.contender.processor_time()?.total();
        let client_before = ProcessorTime::own()?.total();
        let (tally, took) = workload
            .run(&mut self.crew, self.length)
            .await
            .with_context(|| format!("{title} failed at: {}", workload.title()))?;
        let server_cpu = self.place.contender.processor_time()?.total() - server_before;
        let client_cpu = ProcessorTime::own()?.total() - client_before;
        let outcome = outcome(workload, &tally, took, (server_cpu, client_cpu));
        let point = point(workload, self.place.contender.kind(), self.place.clients);
        self.outcomes.push((point, outcome));
        Ok(())
    }
}
