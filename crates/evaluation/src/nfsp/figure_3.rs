//! Figure 3: the cost of accessing a file that was made at another metadata server.
//!
//! What must never enter: contents.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::client::Target;
use bench::statistics::{LATENESS, Results};
use bench::trial::{Job, Outcome, Point};
use nfs4_client::{How, STAT as STAT_ATTRIBUTES, ops};
use testbed::Requirements;
use tokio::runtime::Runtime;

use super::machines::{Count, Machines, pool_status};
use super::series::{CAT, CENTRAL, FILES, NUMBER, SEARCHED, STAT, sizes};
use super::{CARD, ONE_WAY, QUEUE, shown};
use crate::experiment::{Book, Experiment, Peer, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::sites::lateness;

/// The series, and the access to each file.
const SERIES: [(&str, Look); 3] = [
    (STAT, Look::Attributes),
    (CAT, Look::Contents),
    (CENTRAL, Look::Contents),
];
/// The kind of access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The file by its name, and its attributes.
    Attributes,
    /// Its whole content.
    Contents,
}

/// Figure 3.
#[derive(Debug)]
pub(crate) struct Figure3;

fn all(extent: Extent) -> usize {
    sizes(extent).last().copied().unwrap_or(0)
}

/// Makes empty files in a new directory of this name.
async fn make(target: &Target, directory: &str) -> Result<()> {
    let (client, root) = target.client().await?;
    let home = client.create_directory(&root, directory, 0o755).await?;
    for number in 0..FILES {
        let how = How::create_new(0o644);
        let file = client.open(&home, &*name(number), &how).await?;
        client.close(&file).await?;
    }
    Ok(client.leave().await?)
}

/// Accesses each of them, with nothing cached except the mount. Returns the total time.
async fn look(target: &Target, directory: &str, look: Look) -> Result<Duration> {
    let (client, root) = target.client().await?;
    let began = Instant::now();
    let home = client.lookup(&root, directory).await?;
    for number in 0..FILES {
        let name = name(number);
        match look {
            Look::Attributes => {
                let request = vec![
                    ops::putfh(&home),
                    ops::lookup(&*name),
                    ops::getfh(),
                    ops::getattr(STAT_ATTRIBUTES),
                ];
                let reply = client.compound(request).await?;
                ensure!(reply.status.is_ok(), "{name}: {:?}", reply.status);
            }
            Look::Contents => {
                let file = client.open(&home, &*name, &How::read()).await?;
                let read = client.read(&file, 0, client.io_max()).await?;
                ensure!(read.eof && read.data.is_empty(), "{name} is not empty");
                client.close(&file).await?;
            }
        }
    }
    let took = began.elapsed();
    client.leave().await?;
    Ok(took)
}

/// The directory of files for this kind of access.
fn of(directory: &str, look: Look) -> String {
    format!("{directory}-{look:?}")
}

fn name(number: u32) -> String {
    format!("file-{number}")
}

/// One trial of all points.
struct Trial {
    machines: Machines,
    runtime: Runtime,
    outcomes: Vec<(Point, Outcome)>,
}

impl Trial {
    fn of(field: &Field, folder: &Path) -> Result<Self> {
        let metadata = all(field.extent);
        let count = Count {
            metadata,
            data: 1,
            clients: 1,
        };
        let machines = Machines::start(field, folder, count)?;
        machines.bound_cards(Some(QUEUE))?;
        let mut trial = Self {
            machines,
            runtime: runtime()?,
            outcomes: Vec::new(),
        };
        for size in sizes(field.extent) {
            trial.machines.grow(*size)?;
            trial.make(
                &trial.machines.metadata_server(0, 0),
                &format!("with-{size}"),
            )?;
            let panel = (NUMBER, *size);
            trial.look_at_pool(panel, size - 1, &format!("with-{size}"))?;
        }
        let (last, directory) = (metadata - 1, "made-at-last");
        trial.make(&trial.machines.metadata_server(0, last), directory)?;
        trial.make(&trial.machines.central_server(0), directory)?;
        // The paper's search begins at the first server and ends at the nearest one with the file.
        for server in (0..last).rev() {
            let searched = server + 1;
            trial.look_at_pool((SEARCHED, searched), server, directory)?;
            let (central, wanted) = (trial.machines.central_server(0), Look::Contents);
            let directory = of(directory, wanted);
            let took = trial.runtime.block_on(look(&central, &directory, wanted))?;
            trial.note(Point::new(SEARCHED, CENTRAL, searched), took, None)?;
        }
        Ok(trial)
    }

    /// Makes files for each kind of access.
    fn make(&self, target: &Target, directory: &str) -> Result<()> {
        for wanted in [Look::Attributes, Look::Contents] {
            let directory = of(directory, wanted);
            self.runtime.block_on(make(target, &directory))?;
        }
        Ok(())
    }

    fn look_at_pool(
        &mut self,
        (panel, x): (&str, usize),
        server: usize,
        directory: &str,
    ) -> Result<()> {
        let target = self.machines.metadata_server(0, server);
        for (series, wanted) in SERIES.into_iter().filter(|(series, _)| *series != CENTRAL) {
            let directory = of(directory, wanted);
            let before = self.questions(server)?;
            let took = self.runtime.block_on(look(&target, &directory, wanted))?;
            let asked = self.questions(server)? - before;
            self.note(Point::new(panel, series, x), took, Some(asked))?;
        }
        Ok(())
    }

    /// The number of questions from a metadata server to the first one; the first one asks no other server.
    fn questions(&self, server: usize) -> Result<f64> {
        if server == 0 {
            return Ok(0.0);
        }
        let status = pool_status(&self.machines.metadata[server])?;
        let questions = status["copies"]["questions"].as_f64();
        questions.context("a metadata server that has joined counts its questions")
    }

    fn note(&mut self, point: Point, took: Duration, asked: Option<f64>) -> Result<()> {
        let files = f64::from(FILES);
        let late = lateness(self.machines.world())?;
        let mut outcome = Outcome::from([
            ("access_s".to_owned(), took.as_secs_f64() / files),
            (LATENESS.to_owned(), late.as_secs_f64() * 1e6),
        ]);
        outcome.extend(asked.map(|asked| ("messages".to_owned(), asked / files)));
        self.outcomes.push((point, outcome));
        Ok(())
    }
}

impl Experiment for Figure3 {
    fn name(&self) -> &'static str {
        "nfsp-figure-3"
    }

    fn needs(&self) -> Requirements {
        super::needs()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        super::peers()
    }

    fn settings(&self, _: Extent) -> String {
        format!("{CARD} {ONE_WAY:?} {FILES}")
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let searched = 1..all(extent);
        let searched = searched
            .flat_map(|number| SERIES.map(|(series, _)| Point::new(SEARCHED, series, number)));
        let sizes = sizes(extent).iter();
        let sizes =
            sizes.flat_map(|size| [STAT, CAT].map(|series| Point::new(NUMBER, series, size)));
        searched.chain(sizes).collect()
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(5, 1)
    }

    /// All of them are measured together, and most of the time is the start of the servers.
    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        let points = self.points(extent).len() as u32;
        extent.choose(Duration::from_secs(60), Duration::from_secs(15)) / points
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let folder = field.folder()?;
        let mut trial = Trial::of(field, folder.path())?;
        trial.machines.processor_times()?;
        for job in jobs {
            let mut found = trial.outcomes.iter();
            let found = found.find(|(point, _)| *point == job.point);
            let (_, outcome) = found.context("there is no such point")?;
            book.keep(job, outcome.clone())?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        shown::figure_3(results, extent)
    }

    fn result(&self, results: &Results) -> Option<String> {
        shown::figure_3_in_a_line(results)
    }
}
