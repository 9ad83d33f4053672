//! Figures 4 and 5: the total rate at which clients read and write, by their number.
//!
//! What must never enter: how it is shown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::client::Target;
use bench::processor::ProcessorTime;
use bench::statistics::{LATENESS, Results};
use bench::trial::{self, Job, Outcome, Point};
use testbed::Requirements;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::bytes::{BLOCK, Contents};
use super::machines::{Count, Machines, of_bandwidth, processor_figures};
use super::series::{Doing, ONE, PNFS, THROUGH, size, size_of_all};
use super::streams::{DEPTH_OF_EACH, Stream};
use super::{CARD, GANESHA, ONE_WAY, PAYLOAD, shown};
use crate::experiment::{Book, Experiment, Peer, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::sites::lateness;

/// The file that all clients read.
const LARGE: &str = "large";

/// Figure 4, or 5.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    doing: Doing,
}

impl Bandwidth {
    /// Figure 4.
    pub(crate) const READING: Self = Self {
        doing: Doing::Reading,
    };
    /// Figure 5.
    pub(crate) const WRITING: Self = Self {
        doing: Doing::Writing,
    };
}

/// The numbers of clients. If one card limits all of them, few numbers suffice.
fn numbers(series: &str, extent: Extent) -> &'static [usize] {
    match (extent, series) {
        (Extent::Quick, _) => &[1, 3, 4],
        (_, GANESHA | ONE) => &[1, 12, 21],
        (_, THROUGH) => &[1, 7, 12, 21],
        _ => &[1, 4, 7, 10, 12, 15, 18, 21],
    }
}

/// The shared state of trials.
struct Stage {
    machines: Machines,
    runtime: Runtime,
    doing: Doing,
    extent: Extent,
    /// The rate of one plain TCP connection through a card, in bytes a second.
    tcp: f64,
}

impl Stage {
    /// Starts all servers, stores the file that is read, and limits the cards.
    fn set_up(field: &Field, folder: &std::path::Path, doing: Doing) -> Result<Self> {
        let count = of_bandwidth(field.extent);
        let mut machines = Machines::start(field, folder, count)?;
        machines.grow(count.metadata)?;
        let (runtime, size) = (runtime()?, size_of_all(field.extent));
        if doing == Doing::Reading {
            for target in [machines.metadata_server(0, 0), machines.central_server(0)] {
                runtime.block_on(async {
                    let stream = Stream::begin(&target, false).await?;
                    stream.write(LARGE, &Contents::of(0), size).await?;
                    stream.end().await
                })?;
            }
        }
        machines.bound_cards(Some(doing.queue()))?;
        let tcp = machines.plain_tcp()?;
        Ok(Self {
            machines,
            runtime,
            doing,
            extent: field.extent,
            tcp,
        })
    }

    /// The target of a client in a series.
    fn target(&self, series: &str, client: usize) -> Target {
        let metadata = self.machines.metadata.len();
        match series {
            GANESHA => self.machines.central_server(client),
            ONE => self.machines.metadata_server(client, 0),
            _ => self.machines.metadata_server(client, client % metadata),
        }
    }

    fn trial(&mut self, job: &Job) -> Result<Outcome> {
        let series = &*job.point.series;
        let clients: usize = job.point.x.parse()?;
        let targets: Vec<Target> = (0..clients).map(|one| self.target(series, one)).collect();
        let sent = self.machines.sent_by_metadata_servers()?;
        let mut outcome = self.work(series, &targets)?;
        let sent = (self.machines.sent_by_metadata_servers()? - sent) as f64;
        let moved = (size(series, self.extent) * clients as u64) as f64;
        self.check_way(series, sent, moved)?;
        let seconds = outcome["seconds"];
        let (rate, servers) = (moved / seconds, self.data_servers());
        let gibibytes = moved / f64::from(1 << 30);
        let asked = match series {
            GANESHA => outcome["central_cpu_s"],
            _ => outcome["metadata_cpu_s"],
        };
        let late = lateness(self.machines.world())?;
        let more = [
            ("rate_bytes_s", rate),
            ("tcp_share", self.tcp / PAYLOAD),
            ("client_share", rate / PAYLOAD / clients as f64),
            ("card_share", rate / PAYLOAD / clients.min(servers) as f64),
            ("metadata_sent_bytes", sent),
            ("mounted_cpu_s_gib", asked / gibibytes),
            ("data_cpu_s_gib", outcome["data_cpu_s"] / gibibytes),
            (LATENESS, late.as_secs_f64() * 1e6),
        ];
        outcome.extend(trial::named(more));
        if self.doing == Doing::Writing {
            self.machines.bound_cards(None)?;
            self.check_and_remove(series, clients)?;
            self.machines.bound_cards(Some(self.doing.queue()))?;
        }
        Ok(outcome)
    }

    fn data_servers(&self) -> usize {
        self.machines.count().data
    }

    /// All clients begin at once; the time is that of the last one.
    fn work(&mut self, series: &str, targets: &[Target]) -> Result<Outcome> {
        let (doing, size) = (self.doing, size(series, self.extent));
        let is_direct = series == PNFS;
        let streams = self.runtime.block_on(async {
            let mut streams = Vec::new();
            for target in targets {
                streams.push(Stream::begin(target, is_direct).await?);
            }
            anyhow::Ok(streams)
        })?;
        let before = self.machines.processor_times()?;
        let own = ProcessorTime::own()?.total();
        let began = Instant::now();
        self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for (number, stream) in streams.iter().enumerate() {
                let stream = stream.clone();
                working.spawn(async move {
                    let done = match doing {
                        Doing::Reading => stream.read(LARGE, &Contents::of(0), size).await,
                        Doing::Writing => {
                            let contents = Contents::of(number as u64);
                            stream.write(&file(number), &contents, size).await
                        }
                    };
                    done.with_context(|| format!("client {}", number + 1))
                });
            }
            while let Some(done) = working.join_next().await {
                done??;
            }
            anyhow::Ok(())
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let own = ProcessorTime::own()?.total() - own;
        let after = self.machines.processor_times()?;
        let put_off: u64 = streams.iter().map(Stream::times_put_off).sum();
        self.runtime.block_on(async {
            for stream in streams {
                stream.end().await?;
            }
            anyhow::Ok(())
        })?;
        let mut outcome = processor_figures(&before, &after)?;
        outcome.insert("seconds".to_owned(), seconds);
        outcome.insert("own_cpu_s".to_owned(), own.as_secs_f64());
        outcome.insert("put_off".to_owned(), put_off as f64);
        Ok(outcome)
    }

    /// Fails unless the bytes have taken the path of the series.
    fn check_way(&self, series: &str, sent: f64, moved: f64) -> Result<()> {
        let is_right = match series {
            GANESHA | PNFS => sent < moved / 10.0,
            _ => sent > moved,
        };
        ensure!(
            is_right,
            "metadata servers sent {sent} bytes while {moved} were moved: {series}"
        );
        Ok(())
    }

    /// Reads the data of each client, through the first server, as another client.
    fn check_and_remove(&self, series: &str, clients: usize) -> Result<()> {
        let reader = self.machines.count().clients - 1;
        let target = match series {
            GANESHA => self.machines.central_server(reader),
            _ => self.machines.metadata_server(reader, 0),
        };
        let size = size(series, self.extent);
        self.runtime.block_on(async {
            let stream = Stream::begin(&target, false).await?;
            for number in 0..clients {
                let contents = Contents::of(number as u64);
                stream.read(&file(number), &contents, size).await?;
                stream.remove(&file(number)).await?;
            }
            stream.end().await
        })
    }
}

/// The file that a client writes.
fn file(client: usize) -> String {
    format!("written-{client}")
}

impl Experiment for Bandwidth {
    fn name(&self) -> &'static str {
        match self.doing {
            Doing::Reading => "nfsp-figure-4",
            Doing::Writing => "nfsp-figure-5",
        }
    }

    fn needs(&self) -> Requirements {
        super::needs()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        super::peers()
    }

    fn settings(&self, extent: Extent) -> String {
        let Count {
            metadata,
            data,
            clients,
        } = of_bandwidth(extent);
        format!(
            "{CARD} {} {ONE_WAY:?} {BLOCK} {} {DEPTH_OF_EACH} {} {metadata} {data} {clients}",
            self.doing.queue(),
            self.doing.depth(),
            size_of_all(extent)
        )
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let series = [GANESHA, ONE, THROUGH, PNFS].into_iter();
        let points = series.flat_map(|series| {
            let numbers = numbers(series, extent).iter();
            numbers.map(move |number| Point::new("", series, number))
        });
        points.collect()
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(3, 1)
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let clients: f64 = point.x.parse().unwrap_or(1.0);
        let cards = match &*point.series {
            PNFS => clients.min(of_bandwidth(extent).data as f64),
            _ => 1.0,
        };
        let seconds = clients * size(&point.series, extent) as f64 * 8.0 / CARD as f64 / cards;
        // Also the start of the servers, for each round.
        Duration::from_secs_f64(seconds + 3.0)
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let folder = field.folder()?;
        let mut stage = Stage::set_up(field, folder.path(), self.doing)?;
        for job in jobs {
            let outcome = stage.trial(job).with_context(|| job.to_string())?;
            book.keep(job, outcome)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        shown::bandwidth(self.doing, results, extent)
    }

    fn result(&self, results: &Results) -> Option<String> {
        shown::bandwidth_in_a_line(results)
    }
}
