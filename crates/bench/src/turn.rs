//! A turn: everything that is measured with one server and one number of clients, in an order in
//! which each workload finds what it needs and nothing is left behind.
//!
//! What must never enter: whose turn it is.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::contender::Contender;
use crate::figures::{Figures, Measurement};
use crate::processor::ProcessorTime;
use crate::worker::Crew;
use crate::workload::{Workload, data, files};

/// How much is done in a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// How long a workload goes on that has no end of its own.
    pub(crate) length: Duration,
    /// How much data all clients together write to large files, in bytes.
    pub(crate) data_size: u64,
}

/// A turn in progress.
struct Turn<'a> {
    round: usize,
    clients: usize,
    contender: &'a mut Contender,
    crew: Crew,
    length: Duration,
    figures: Figures,
}

/// Gives a server its turn, and returns what was measured.
pub(crate) async fn take(
    contender: &mut Contender,
    round: usize,
    clients: usize,
    extent: Extent,
) -> Result<Figures> {
    let name = format!("round-{round}-{clients}");
    let crew = Crew::hire(contender.target(), clients, &name, extent.data_size).await?;
    let only_names = contender.kind().is_durable();
    let mut turn = Turn {
        round,
        clients,
        contender,
        crew,
        length: extent.length,
        figures: Figures::default(),
    };
    turn.small_files(only_names).await?;
    if !only_names {
        turn.measure(Workload::Readdir).await?;
        turn.large_files().await?;
    }
    turn.crew.dismiss().await?;
    Ok(turn.figures)
}

impl Turn<'_> {
    async fn small_files(&mut self, only_names: bool) -> Result<()> {
        self.measure(Workload::Create).await?;
        self.crew.all(files::check).await?;
        if !only_names {
            self.measure(Workload::Getattr).await?;
            self.measure(Workload::Lookup).await?;
        }
        self.measure(Workload::Remove).await?;
        self.measure(Workload::CreateDurable).await?;
        self.crew.all(files::check).await?;
        self.crew.all(files::remove).await?;
        Ok(())
    }

    async fn large_files(&mut self) -> Result<()> {
        self.measure(Workload::Write).await?;
        self.measure(Workload::Read).await?;
        self.measure(Workload::RandomRead).await?;
        let share = self.crew.share();
        self.crew
            .all(move |worker| data::check_and_remove(worker, share))
            .await?;
        Ok(())
    }

    async fn measure(&mut self, workload: Workload) -> Result<()> {
        let title = self.contender.kind().title();
        let server_before = self.contender.processor_time()?.total();
        let client_before = ProcessorTime::own()?.total();
        let (mut tally, took) = workload
            .run(&mut self.crew, self.length)
            .await
            .with_context(|| format!("{title} failed at: {}", workload.title()))?;
        let server_cpu = self.contender.processor_time()?.total() - server_before;
        let client_cpu = ProcessorTime::own()?.total() - client_before;
        let amount = tally.amount as f64 / workload.scale();
        let per_unit = |time: Duration| time.as_secs_f64() * 1e6 / amount.max(1.0);
        self.figures.add(Measurement {
            round: self.round,
            server: self.contender.kind(),
            workload,
            clients: self.clients,
            rate: amount / took.as_secs_f64(),
            unit: workload.unit(),
            seconds: took.as_secs_f64(),
            latency_median_us: tally.percentile(0.5),
            latency_p99_us: tally.percentile(0.99),
            server_cpu_us: per_unit(server_cpu),
            client_cpu_us: per_unit(client_cpu),
        });
        Ok(())
    }
}
