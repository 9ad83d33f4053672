//! From the death of a primary until somebody else may write the file that it decided about.
//!
//! What must never enter: work that the servers are not asked to do by clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, StableHow4};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::sites::Sites;
use crate::worker::Target;

/// What is written at once, in bytes.
const SIZE: usize = 4096;

/// The first writer is at work for so long before it loses its server.
const RUN_UP: Duration = Duration::from_secs(2);

/// A client that is told to come again does so after this.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Without success for so long a trial has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was measured with some settings.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Takeover {
    /// The settings' name.
    pub(crate) settings: &'static str,
    /// From the kill until a write to the same file was answered at another site, in microseconds, by trial.
    pub(crate) accepted_us: Vec<u64>,
    /// The longest operation of a client at the third site, on files of its own, in microseconds, by trial.
    pub(crate) stall_us: Vec<u64>,
    /// From the restart until the killed server takes part again, in microseconds, by trial.
    pub(crate) returned_us: Vec<u64>,
}

/// Kills the primary of a file again and again.
pub(crate) fn measure(
    sites: &mut Sites,
    runtime: &Runtime,
    settings: &'static str,
    trials: usize,
) -> Result<Takeover> {
    let mut figures = Takeover {
        settings,
        accepted_us: Vec::new(),
        stall_us: Vec::new(),
        returned_us: Vec::new(),
    };
    for trial in 0..trials {
        sites.wait_for_all()?;
        sites.wait_for_quiet()?;
        let trial = one(sites, runtime, trial)
            .with_context(|| format!("trial {trial} with {settings} settings"))?;
        eprintln!(
            "bench: accepted after {:.2} s, longest stall {:.2} s, back after {:.2} s",
            trial[0].as_secs_f64(),
            trial[1].as_secs_f64(),
            trial[2].as_secs_f64()
        );
        let [accepted, stall, returned] = trial.map(|time| time.as_micros() as u64);
        figures.accepted_us.push(accepted);
        figures.stall_us.push(stall);
        figures.returned_us.push(returned);
    }
    Ok(figures)
}

/// Until a write was accepted, the longest stall elsewhere, and until the killed server was back.
fn one(sites: &mut Sites, runtime: &Runtime, trial: usize) -> Result<[Duration; 3]> {
    let targets: Vec<Target> = sites
        .replicas
        .iter()
        .map(|server| server.target())
        .collect();
    let name = format!("contested-{trial}");
    let file = runtime.block_on(prepare(&targets[0], &name))?;
    let writer = runtime.spawn(write_on(targets[0].clone(), file.clone()));
    let over = Arc::new(AtomicBool::new(false));
    let onlooker = onlook(
        targets[2].clone(),
        format!("onlooker-{trial}"),
        Arc::clone(&over),
    );
    let onlooker = runtime.spawn(onlooker);
    let (heir, _) = runtime.block_on(targets[1].client_with(AGAIN_AFTER / 2))?;
    std::thread::sleep(RUN_UP);

    ensure!(!onlooker.is_finished(), "the onlooker has ended early");
    sites.replicas[0].kill()?;
    let killed = Instant::now();
    let accepted = runtime.block_on(succeed(&heir, &file, killed))?;
    over.store(true, Ordering::Relaxed);
    let stall = runtime.block_on(onlooker)??;
    writer.abort();

    sites.replicas[0].restart()?;
    let restarted = Instant::now();
    sites.wait_for_all()?;
    sites.wait_for_copies()?;
    Ok([accepted, stall, restarted.elapsed()])
}

async fn prepare(target: &Target, name: &str) -> Result<NfsFh4> {
    let (client, root) = target.client().await?;
    let file = client.open(&root, name, &How::create_new(0o666)).await?;
    client.close(&file).await?;
    client.leave().await?;
    Ok(file.handle)
}

/// Writes steadily until its server is gone.
async fn write_on(target: Target, file: NfsFh4) -> Result<()> {
    let (client, _) = target.client().await?;
    let file = client.open_handle(&file, &How::write()).await?;
    loop {
        let data = Bytes::from_static(&[1; SIZE]);
        client.write(&file, 0, data, StableHow4::FileSync).await?;
    }
}

/// Opens, writes and closes the file at another site, as soon as that is accepted.
async fn succeed(client: &Client, file: &NfsFh4, since: Instant) -> Result<Duration> {
    loop {
        let attempt = async {
            let open = client.open_handle(file, &How::write()).await?;
            let data = Bytes::from_static(&[2; SIZE]);
            client.write(&open, 0, data, StableHow4::FileSync).await?;
            let accepted = since.elapsed();
            client.close(&open).await?;
            Ok::<Duration, nfs4_client::Error>(accepted)
        };
        match attempt.await {
            Ok(accepted) => return Ok(accepted),
            Err(error) if since.elapsed() > PATIENCE => {
                return Err(error).context("no write was accepted elsewhere");
            }
            Err(_) => tokio::time::sleep(AGAIN_AFTER).await,
        }
    }
}

/// Makes files in a directory of its own at a third site, and returns the longest time that one of its
/// operations took.
pub(super) async fn onlook(
    target: Target,
    name: String,
    over: Arc<AtomicBool>,
) -> Result<Duration> {
    let (client, root) = target.client_with(PATIENCE).await?;
    let home = client.create_directory(&root, &*name, 0o755).await?;
    let mut longest = Duration::ZERO;
    for number in 0.. {
        let began = Instant::now();
        let how = How::create_new(0o644);
        let file = client.open(&home, &*format!("file-{number}"), &how).await?;
        let opened = began.elapsed();
        let data = Bytes::from_static(&[3; SIZE]);
        client.write(&file, 0, data, StableHow4::FileSync).await?;
        let written = began.elapsed();
        client.close(&file).await?;
        let closed = began.elapsed();
        for step in [opened, written - opened, closed - written] {
            longest = longest.max(step);
        }
        if over.load(Ordering::Relaxed) {
            client.leave().await?;
            return Ok(longest);
        }
    }
    bail!("the onlooker ran out of numbers")
}
