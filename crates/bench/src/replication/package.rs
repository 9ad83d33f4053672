//! A package unpacked, configured and built: the trace of its operations played at a set and at a server
//! that is alone, phase by phase in turns, and at a server far away.
//!
//! What must never enter: how it is shown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use testbed::LinkSettings;

use super::sites::{Sent, Sites};
use crate::replay::{Played, Replay, compare};
use crate::trace::Trace;
use crate::worker::Target;

/// One phase at one number of replicas and distance.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PhaseFigures {
    /// How many replicas.
    pub(crate) replicas: usize,
    /// The round trip asked for, in microseconds.
    pub(crate) distance_us: u64,
    /// Whether there were pauses between the steps, as in the recording.
    pub(crate) thinks: bool,
    /// The phase.
    pub(crate) phase: String,
    /// What it took at the set, in seconds.
    pub(crate) replicated_s: f64,
    /// What it took at the server that is alone.
    pub(crate) alone_s: f64,
    /// Of the time at the server that is alone, what was spent in pauses.
    pub(crate) thought_s: f64,
    /// Requests at the set.
    pub(crate) requests: u64,
    /// How often the set asked to come back later.
    pub(crate) delays: u64,
    /// What the client wrote, in bytes.
    pub(crate) written: u64,
    /// What was sent until all replicas had everything.
    pub(crate) sent: Sent,
    /// How long after the end of the phase all replicas had everything, in seconds.
    pub(crate) behind_s: f64,
    /// Processor time of all replicas, in seconds.
    pub(crate) replicas_cpu_s: f64,
    /// Processor time of the server that is alone.
    pub(crate) alone_cpu_s: f64,
}

/// The beginning of the first phase at a server far away.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FarFigures {
    /// The round trip asked for, in microseconds.
    pub(crate) distance_us: u64,
    /// How many steps of the first phase were played, and of how many.
    pub(crate) steps: [usize; 2],
    /// What they took at a single server this far away, in seconds.
    pub(crate) far_s: f64,
    /// What they took at the near replica of a set with the other this far away.
    pub(crate) replicated_s: f64,
    /// What they took at a single server near.
    pub(crate) alone_s: f64,
}

/// Plays the whole trace at one distance, and compares the result at the last replica byte by byte.
pub(crate) async fn measure(
    sites: &Sites,
    trace: &Trace,
    distance: Duration,
    thinks: bool,
) -> Result<Vec<PhaseFigures>> {
    sites.set(&LinkSettings::round_trip(distance))?;
    let name = format!("package-{}-{thinks}", distance.as_micros());
    let target = sites.replicas[0].target();
    let mut replicated = begin(&target, trace, &name, thinks).await?;
    let mut alone = begin(&sites.alone.target(), trace, &name, thinks).await?;
    sites.wait_for_quiet()?;
    let mut figures = Vec::new();
    for phase in &trace.phases {
        let alone_before = sites.alone.processor_time()?;
        let beside = alone.play(&phase.steps).await?;
        let alone_cpu = sites.alone.processor_time()? - alone_before;
        let (before, cpu_before) = (sites.sent()?, replicas_cpu(sites)?);
        let played = replicated.play(&phase.steps).await;
        let played = played.with_context(|| format!("{} at the set", phase.name))?;
        let done = Instant::now();
        sites.wait_for_copies()?;
        let behind = done.elapsed();
        let after = sites.sent()?;
        figures.push(PhaseFigures {
            replicas: sites.replicas.len(),
            distance_us: distance.as_micros() as u64,
            thinks,
            phase: phase.name.clone(),
            replicated_s: played.took.as_secs_f64(),
            alone_s: beside.took.as_secs_f64(),
            thought_s: beside.thought.as_secs_f64(),
            requests: played.counts.requests,
            delays: played.counts.delays,
            written: played.counts.written,
            sent: after.since(before),
            behind_s: behind.as_secs_f64(),
            replicas_cpu_s: (replicas_cpu(sites)? - cpu_before).as_secs_f64(),
            alone_cpu_s: alone_cpu.as_secs_f64(),
        });
        tell(&figures[figures.len() - 1]);
    }
    verify(sites, &replicated, &name).await?;
    Ok(figures)
}

fn tell(figures: &PhaseFigures) {
    eprintln!(
        "bench: {}: {:.2} s with {} replicas, {:.2} s alone, {} requests",
        figures.phase, figures.replicated_s, figures.replicas, figures.alone_s, figures.requests
    );
}

fn replicas_cpu(sites: &Sites) -> Result<Duration> {
    sites.replicas.iter().map(|one| one.processor_time()).sum()
}

async fn begin<'a>(
    target: &Target,
    trace: &'a Trace,
    name: &str,
    thinks: bool,
) -> Result<Replay<'a>> {
    let (client, root) = target.client().await?;
    let home = client.create_directory(&root, name, 0o755).await?;
    Ok(Replay::begin(trace, client, home, thinks))
}

/// What was made at the first replica must be found at the last, from its own copy.
async fn verify(sites: &Sites, replay: &Replay<'_>, name: &str) -> Result<()> {
    sites.set(&LinkSettings::default())?;
    sites.wait_for_quiet()?;
    let last = sites.replicas.last().context("a set has replicas")?;
    let (client, root) = last.target().client().await?;
    let home = client.lookup(&root, name).await?;
    let bytes = compare(&client, &home, &replay.outcome()).await;
    let bytes = bytes.context("the last replica has something else than was made at the first")?;
    eprintln!("bench: {bytes} bytes are the same at the last replica");
    Ok(client.leave().await?)
}

/// Plays the first steps of the first phase everywhere.
pub(crate) async fn measure_far(
    sites: &Sites,
    trace: &Trace,
    distance: Duration,
    steps_max: usize,
) -> Result<FarFigures> {
    let all = &trace.phases.first().context("the trace is empty")?.steps;
    let steps = &all[..steps_max.min(all.len())];
    sites.set(&LinkSettings::round_trip(distance))?;
    let [_, second] = sites.two_places()?;
    let targets = [
        sites.alone.from(second),
        sites.replicas[0].target(),
        sites.alone.target(),
    ];
    let mut took = [0.0; 3];
    for (number, (target, took)) in targets.iter().zip(&mut took).enumerate() {
        let name = format!("far-{}-{number}", distance.as_micros());
        let mut replay = begin(target, trace, &name, false).await?;
        sites.wait_for_quiet()?;
        let Played { took: time, .. } = replay.play(steps).await?;
        *took = time.as_secs_f64();
        eprintln!("bench: the first {} steps took {time:.1?}", steps.len());
    }
    Ok(FarFigures {
        distance_us: distance.as_micros() as u64,
        steps: [steps.len(), all.len()],
        far_s: took[0],
        replicated_s: took[1],
        alone_s: took[2],
    })
}
