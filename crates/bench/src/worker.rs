//! Workers: clients that do the same thing at the same time, each with its own connection, session,
//! owner and directory.
//!
//! What must never enter: what they do.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::client::Target;
use bench::tally::Tally;
use fastrand::Rng;
use nfs4::NfsFh4;
use nfs4_client::Client;

/// One client at work.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its number, from zero.
    pub(crate) number: usize,
    /// Its session.
    pub(crate) client: Client,
    /// The root of the export.
    pub(crate) root: NfsFh4,
    /// Its own directory.
    pub(crate) directory: NfsFh4,
    /// The regular files in that directory.
    pub(crate) files: Vec<File>,
    /// The source of its random numbers.
    pub(crate) random: Rng,
}

/// A file that a worker has made.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Its name in the worker's directory.
    pub(crate) name: String,
    /// Its handle.
    pub(crate) handle: NfsFh4,
}

/// Workers that begin together.
#[derive(Debug)]
pub(crate) struct Crew {
    target: Target,
    workers: Vec<Worker>,
    /// The directory that contains theirs.
    name: String,
    /// The number of bytes that they write together.
    data_size: u64,
}

impl Crew {
    /// Connects `count` workers and makes their directories in a new one called `name`. Together
    /// they will write `data_size` bytes to large files.
    pub(crate) async fn hire(
        target: &Target,
        count: usize,
        name: &str,
        data_size: u64,
    ) -> Result<Self> {
        let (client, root) = target.client().await?;
        let home = client.create_directory(&root, name, 0o755).await?;
        client.leave().await?;
        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            let (client, root) = target.client().await?;
            let own = format!("worker-{number}");
            let directory = client.create_directory(&home, &*own, 0o755).await?;
            workers.push(Worker {
                number,
                client,
                root,
                directory,
                files: Vec::new(),
                random: Rng::with_seed(number as u64),
            });
        }
        Ok(Self {
            target: target.clone(),
            workers,
            name: name.to_owned(),
            data_size,
        })
    }

    /// The number of bytes that they write together, and the number of workers.
    pub(crate) fn data(&self) -> (u64, usize) {
        (self.data_size, self.workers.len())
    }

    /// Lets all workers do the same and returns their common tally, and the time until
    /// the last was done.
    pub(crate) async fn all<F, W>(&mut self, work: F) -> Result<(Tally, Duration)>
    where
        F: Fn(Worker) -> W,
        W: Future<Output = Result<(Worker, Tally)>> + Send + 'static,
    {
        let began = Instant::now();
        let tasks: Vec<_> = std::mem::take(&mut self.workers)
            .into_iter()
            .map(|worker| tokio::spawn(work(worker)))
            .collect();
        let mut together = Tally::default();
        for task in tasks {
            let (worker, tally) = task.await.context("a worker has died")??;
            self.workers.push(worker);
            together.absorb(&tally);
        }
        Ok((together, began.elapsed()))
    }

    /// Connects new workers that continue with what others left.
    pub(crate) async fn rehire(target: &Target, left: Left) -> Result<Self> {
        let mut workers = Vec::with_capacity(left.workers.len());
        for (number, (directory, files)) in left.workers.into_iter().enumerate() {
            let (client, root) = target.client().await?;
            workers.push(Worker {
                number,
                client,
                root,
                directory,
                files,
                random: Rng::with_seed(number as u64),
            });
        }
        Ok(Self {
            target: target.clone(),
            workers,
            name: left.name,
            data_size: left.data_size,
        })
    }

    /// Ends the sessions; the files stay.
    pub(crate) async fn dismiss(self) -> Result<Left> {
        let mut workers = Vec::with_capacity(self.workers.len());
        for worker in self.workers {
            worker.client.leave().await?;
            workers.push((worker.directory, worker.files));
        }
        Ok(Left {
            name: self.name,
            data_size: self.data_size,
            workers,
        })
    }

    /// Removes the directories, which must be empty, and ends the sessions.
    pub(crate) async fn clear(self) -> Result<()> {
        let (client, root) = self.target.client().await?;
        let home = client.lookup(&root, &*self.name).await?;
        for worker in self.workers {
            let own = format!("worker-{}", worker.number);
            client.remove(&home, &*own).await?;
            worker.client.leave().await?;
        }
        client.remove(&root, &*self.name).await?;
        Ok(client.leave().await?)
    }
}

/// What workers leave behind: their directories, and the files in them.
#[derive(Debug)]
pub(crate) struct Left {
    name: String,
    data_size: u64,
    workers: Vec<(NfsFh4, Vec<File>)>,
}
