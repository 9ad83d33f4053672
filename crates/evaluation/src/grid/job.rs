//! A job: all tasks of a graph at their sites, from the launch until the report.
//!
//! A task polls for the semaphore files of its inputs, reads and checks the inputs, computes,
//! writes its outputs, and makes a semaphore file for each. Computing is a pause, during which no other task of the site
//! computes. The launch costs nothing: the papers' figures exclude the deployment, too.
//!
//! What must never enter: the choice and the start of servers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::GridFtp;
use tokio::task::JoinSet;

use super::graph::{Consumer, Graph, Output, SITES, TASKS, site_of};
use super::staging;
use crate::files::{Checksum, LocalFolder, Material, NfsFolder};

/// The polling interval for a semaphore file.
pub(super) const POLL: Duration = Duration::from_millis(10);

/// The view of a site on the files of a job.
#[derive(Debug, Clone)]
pub(super) enum Ground {
    /// One tree for all sites: all read what one writes.
    Shared(NfsFolder),
    /// A folder on the site's own disk.
    Local(LocalFolder),
}

/// The place of a job.
#[derive(Debug)]
pub(super) struct Field {
    /// The view of each site; only one if one node does everything.
    pub(super) grounds: Vec<Ground>,
    /// The servers that stage files between local folders, one per site; none without staging.
    pub(super) stage: Vec<Arc<GridFtp>>,
}

/// The shared state of all tasks of a job.
#[derive(Debug)]
struct Job {
    graph: Graph,
    /// The divisor of the papers' times.
    divisor: u32,
    /// Distinguishes the contents of jobs.
    seed: u64,
    field: Field,
    processors: Vec<tokio::sync::Mutex<()>>,
    /// The expected checksum of each output: set by its writer, without any server.
    checksums: Mutex<Vec<Option<Checksum>>>,
}

/// Runs a job to its end and returns the turnaround: the time from the launch until the report.
///
/// # Errors
/// Fails when a task fails, and when an input differs from what its writer has written.
pub(super) async fn run(graph: Graph, divisor: u32, seed: u64, field: Field) -> Result<Duration> {
    let sites = field.grounds.len();
    ensure!(sites == SITES || sites == 1, "a job needs a ground a site");
    ensure!(
        field.stage.is_empty() || field.stage.len() == sites,
        "a job needs a server a site"
    );
    let job = Arc::new(Job {
        checksums: Mutex::new(vec![None; graph.outputs.len()]),
        processors: (0..sites).map(|_| tokio::sync::Mutex::default()).collect(),
        graph,
        divisor,
        seed,
        field,
    });
    let launched = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let job = Arc::clone(&job);
        tasks.spawn(async move {
            let done = job.task(task).await;
            done.with_context(|| format!("task {task} failed"))
        });
    }
    let reporting = Arc::clone(&job);
    tasks.spawn(async move { reporting.take_inputs(Consumer::Report).await });
    while let Some(ended) = tasks.join_next().await {
        // Dropping the others ends them: their inputs would never come.
        ended??;
    }
    Ok(launched.elapsed())
}

impl Job {
    /// A site by its number; the only one if one node does everything.
    fn site(&self, number: usize) -> usize {
        number % self.field.grounds.len()
    }

    async fn task(&self, task: usize) -> Result<()> {
        self.take_inputs(Consumer::Task(task)).await?;
        self.compute(task).await;
        self.make_outputs(task).await
    }

    async fn compute(&self, task: usize) {
        let _alone = self.processors[self.site(site_of(task))].lock().await;
        tokio::time::sleep(self.graph.computing[task] / self.divisor).await;
    }

    /// Waits for all inputs of a consumer, in their order, and reads and checks each.
    async fn take_inputs(&self, consumer: Consumer) -> Result<()> {
        let ground = &self.field.grounds[self.site(consumer.site())];
        for number in self.graph.inputs(consumer) {
            let output = &self.graph.outputs[number];
            let writer = self.site(site_of(output.from));
            while !ground.has(writer, &semaphore(number)).await? {
                tokio::time::sleep(POLL).await;
            }
            if output.bytes == 0 {
                continue;
            }
            let found = ground.read(writer, &content(number)).await?;
            let written = self.checksum(number)?;
            ensure!(
                Some(found) == written,
                "output {number} is {found:?} where it is read, and was written as {written:?}"
            );
        }
        Ok(())
    }

    /// Writes all outputs of a task, each with its semaphore, and stages those that are needed elsewhere.
    async fn make_outputs(&self, task: usize) -> Result<()> {
        let site = self.site(site_of(task));
        let ground = &self.field.grounds[site];
        let mut transfers = JoinSet::new();
        for number in self.graph.outputs_of(task) {
            let output = &self.graph.outputs[number];
            let mut names = Vec::new();
            if output.bytes > 0 {
                let material = Material::new(self.seed << 8 | number as u64, output.bytes);
                ground.write(site, &content(number), material).await?;
                self.set_checksum(number, material.checksum())?;
                names.push(content(number));
            }
            let nothing = Material::new(0, 0);
            ground.write(site, &semaphore(number), nothing).await?;
            names.push(semaphore(number));
            for to in self.other_sites(output) {
                if let Some(servers) = self.servers([site, to]) {
                    let folders = [self.folder(site)?, self.folder(to)?];
                    transfers.spawn(staging::send(servers, folders, names.clone()));
                }
            }
        }
        while let Some(sent) = transfers.join_next().await {
            sent??;
        }
        Ok(())
    }

    /// The sites that need a file and do not make it, each once.
    fn other_sites(&self, output: &Output) -> BTreeSet<usize> {
        let here = self.site(site_of(output.from));
        let sites = output.to.iter().map(|to| self.site(to.site()));
        sites.filter(|&site| site != here).collect()
    }

    /// The servers of two sites, if files are staged.
    fn servers(&self, sites: [usize; 2]) -> Option<[Arc<GridFtp>; 2]> {
        let server = |site: usize| self.field.stage.get(site).cloned();
        Some([server(sites[0])?, server(sites[1])?])
    }

    fn folder(&self, site: usize) -> Result<LocalFolder> {
        match &self.field.grounds[site] {
            Ground::Local(folder) => Ok(folder.clone()),
            Ground::Shared(_) => bail!("only local files are staged"),
        }
    }

    fn checksum(&self, number: usize) -> Result<Option<Checksum>> {
        let checksums = self.checksums.lock();
        let checksums = checksums.map_err(|_| anyhow::anyhow!("a task has died"))?;
        Ok(checksums[number])
    }

    fn set_checksum(&self, number: usize, checksum: Checksum) -> Result<()> {
        let checksums = self.checksums.lock();
        checksums.map_err(|_| anyhow::anyhow!("a task has died"))?[number] = Some(checksum);
        Ok(())
    }
}

/// Files of the site `writer`, which matters if each site has its own directory.
impl Ground {
    async fn has(&self, writer: usize, name: &str) -> Result<bool> {
        match self {
            Self::Shared(folder) => folder.has(writer, name).await,
            Self::Local(folder) => Ok(folder.has(name)),
        }
    }

    async fn read(&self, writer: usize, name: &str) -> Result<Checksum> {
        match self {
            Self::Shared(folder) => folder.read(writer, name).await,
            Self::Local(folder) => folder.read(name).await,
        }
    }

    async fn write(&self, writer: usize, name: &str, material: Material) -> Result<()> {
        match self {
            Self::Shared(folder) => folder.write(writer, name, material).await,
            Self::Local(folder) => folder.write(name, material).await,
        }
    }
}

/// The file name of an output.
fn content(number: usize) -> String {
    format!("output-{number}")
}

/// The name of the file that announces an output.
fn semaphore(number: usize) -> String {
    format!("done-{number}")
}

#[cfg(test)]
mod tests {
    use super::super::graph::{Benchmark, Class};
    use super::*;

    fn one_node(name: &str) -> (LocalFolder, Field) {
        let name = format!("job-{}-{name}", std::process::id());
        let folder = LocalFolder::make(std::env::temp_dir().join(name)).unwrap();
        let field = Field {
            grounds: vec![Ground::Local(folder.clone())],
            stage: Vec::new(),
        };
        (folder, field)
    }

    #[tokio::test]
    async fn every_graph_comes_to_its_end() {
        for benchmark in Benchmark::ALL {
            let (folder, field) = one_node(benchmark.name());
            let graph = Graph::of(benchmark, Class::S);
            let ran = run(graph, 100, 1, field).await;
            folder.remove().unwrap();
            ran.unwrap();
        }
    }

    #[tokio::test]
    async fn another_content_than_was_written_is_found() {
        let (folder, field) = one_node("wrong");
        // The first output seems to exist before it was written, and has another content.
        let (other, nothing) = (Material::new(99, 5), Material::new(0, 0));
        folder.write(&content(0), other).await.unwrap();
        folder.write(&semaphore(0), nothing).await.unwrap();
        let ran = run(Graph::of(Benchmark::Hc, Class::S), 1, 1, field).await;
        folder.remove().unwrap();
        let error = format!("{:#}", ran.unwrap_err());
        assert!(error.contains("output 0"), "{error}");
    }
}
