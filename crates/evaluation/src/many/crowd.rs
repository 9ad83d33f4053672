//! A crowd: clients with state, open files, and connections.
//!
//! What must never enter: the data that clients read and write.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::client::Target;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::tally::Tally;
use bench::trial::{self, Job, Outcome, Point};
use nfs4::NfsFh4;
use nfs4_client::{Client, How, OpenFile, Options};
use plot::{Axis, Chart, Plot};
use rustix::process::{Resource, getrlimit};
use testbed::{LinkSettings, World};
use tokio::task::JoinSet;

use super::Single;
use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};

const SERIES: &str = "Meridian";

/// The number of clients that connect at the same time.
const DEPTH: usize = 32;

/// The number of sequential requests of one client among all others.
const REQUESTS: usize = 500;

/// The time limit of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// The crowds: clients, open files of each, and connections of each.
const CROWDS: [(&str, Crowded); 4] = [
    ("1 client", Crowded::of(1, 1, 1)),
    ("1,000 clients", Crowded::of(1000, 1, 1)),
    (
        "1,000 clients, 100,000 open files",
        Crowded::of(1000, 100, 1),
    ),
    (
        "1,000 clients, 20,000 connections",
        Crowded::of(1000, 1, 20),
    ),
];

#[derive(Debug, Clone, Copy)]
struct Crowded {
    clients: usize,
    files: usize,
    connections: usize,
}

impl Crowded {
    /// Whether this process, and a server that it starts, may have enough descriptors: a server uses a quarter of them for connections.
    fn is_possible(self) -> bool {
        let limit = getrlimit(Resource::Nofile).current;
        let connections = (self.clients * self.connections) as u64;
        limit.is_none_or(|limit| connections <= limit / 4)
    }

    const fn of(clients: usize, files: usize, connections: usize) -> Self {
        Self {
            clients,
            files,
            connections,
        }
    }
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Crowd;

/// The options of a client that connects from any port: there are fewer privileged ports than clients.
fn unprivileged(server: &Target) -> Options {
    let address = server.address;
    let site = server.site.clone();
    Options::dialling(move || match &site {
        None => TcpStream::connect(address),
        Some(site) => site
            .enter(|| TcpStream::connect(address))
            .map_err(io::Error::other)?,
    })
}

/// A client that holds files open.
async fn member(server: &Target, number: usize, crowd: Crowded) -> Result<(Client, Vec<OpenFile>)> {
    let options = Options {
        patience: PATIENCE,
        connections: crowd.connections,
        ..unprivileged(server)
    };
    let client = Client::connect(options).await?;
    let root = client.mount(&server.export).await?;
    for connection in 0..crowd.connections {
        client.session().connection(connection).await?;
    }
    let mut held = Vec::new();
    for file in 0..crowd.files {
        let how = How::create(0o644).by(format!("owner-{file}"));
        held.push(client.open(&root, &*format!("file-{file}"), &how).await?);
    }
    anyhow::ensure!(held.len() == crowd.files, "client {number} holds less");
    Ok((client, held))
}

async fn arrive(server: Arc<Target>, crowd: Crowded) -> Result<Vec<(Client, Vec<OpenFile>)>> {
    let mut arriving = JoinSet::new();
    let mut here = Vec::new();
    for number in 0..crowd.clients {
        if arriving.len() == DEPTH {
            here.push(arriving.join_next().await.context("somebody arrives")???);
        }
        let server = Arc::clone(&server);
        arriving.spawn(async move { member(&server, number, crowd).await });
    }
    while let Some(arrived) = arriving.join_next().await {
        here.push(arrived??);
    }
    Ok(here)
}

/// The times of one client's GETATTR meanwhile.
async fn requests(client: &Client, root: &NfsFh4) -> Result<Tally> {
    let mut tally = Tally::default();
    for _ in 0..REQUESTS {
        let began = Instant::now();
        client.stat(root).await?;
        tally.add(began, 1);
    }
    Ok(tally)
}

fn measure(field: &Field, crowd: Crowded) -> Result<Outcome> {
    let folder = field.folder()?;
    let world = World::new(&["a"], &LinkSettings::default())?;
    let place = world.places().first().context("a world has a place")?;
    let data = folder.path().join("data");
    // The first line belongs to the table about clients at the end of every configuration.
    let settings = "secure = false\n[limits]\nconnections = 24000\n";
    let mut server = Single::start(place, &field.program, &data, settings)?;
    let here = runtime()?;
    let empty = server.memory()?;
    let target = Arc::new(server.target());
    let began = Instant::now();
    let members = here.block_on(arrive(Arc::clone(&target), crowd))?;
    let arrived = began.elapsed().as_secs_f64();
    let full = server.memory()?;
    let (client, root) = here.block_on(target.client_with(PATIENCE))?;
    let tally = here.block_on(requests(&client, &root))?;
    let started = server.killed_and_started()?.as_secs_f64();
    let figures = [
        ("arrived_s", arrived),
        ("memory_bytes", full - empty),
        ("median_us", tally.percentile(0.5) as f64),
        ("most_us", tally.percentile(0.95) as f64),
        ("start_s", started),
    ];
    drop(members);
    Ok(trial::named(figures))
}

impl Experiment for Crowd {
    fn name(&self) -> &'static str {
        "many-clients"
    }

    fn settings(&self, _: Extent) -> String {
        format!("{CROWDS:?} {REQUESTS}")
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let crowds = CROWDS.iter().take(extent.choose(CROWDS.len(), 2));
        let crowds = crowds.filter(|(_, crowd)| crowd.is_possible());
        crowds
            .map(|(name, _)| Point::new("", SERIES, name))
            .collect()
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        Duration::from_secs(extent.choose(60, 10))
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for job in jobs {
            let known = CROWDS.iter().find(|(name, _)| *name == job.point.x);
            let (_, crowd) = known.context("there is no such crowd")?;
            let outcome = measure(field, *crowd).with_context(|| job.to_string())?;
            book.keep(job, outcome)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, _: Extent) -> Shown {
        let heads = Heads::of("", "there are");
        let columns = [
            Figure::plain("arrived_s", "until all have arrived (s)"),
            Figure {
                name: "memory_bytes",
                title: "memory for them (MiB)",
                unit: 1024.0 * 1024.0,
            },
            Figure::plain("median_us", "GETATTR of another client, median (µs)"),
            Figure::plain("most_us", "95 % within (µs)"),
            Figure::plain("start_s", "start after kill -9 (s)"),
        ];
        Shown {
            title: "Many clients",
            about: format!(
                "Clients of one server, each with a session, that hold files open and keep connections; {DEPTH} arrive at a time. While all are there \
                 another client makes {REQUESTS} GETATTRs, one after the other. Memory is what the resident memory of the server's process grows by. Then the server is killed with \
                 `kill -9` and started, which is over when it answers. The limit of connections is 24,000 (`[limits]`); as many need a limit of \
                 open files of 80,000 (`ulimit -n`), and are left out where it is lower."
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "Memory by who is there",
                1,
                vec![Chart::untitled(
                    Axis::linear(""),
                    Axis::linear("memory (MiB)"),
                    bench::chart::bars(results, "", "memory_bytes", 1024.0 * 1024.0),
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let crowds = CROWDS.iter().map(|(name, _)| {
            let memory = results.summary(&Point::new("", SERIES, name), "memory_bytes")?;
            Some(format!(
                "{name} {} MiB",
                table::cell(memory, 1024.0 * 1024.0)
            ))
        });
        let crowds: Option<Vec<String>> = crowds.collect();
        Some(format!("memory for {}", crowds?.join(", ")))
    }
}
