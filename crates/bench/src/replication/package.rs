//! A package unpacked, configured and built: the trace of its operations played at a set and at a server
//! that is alone, phase by phase in turns, and at a server far away.
//!
//! What must never enter: how it is shown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use testbed::LinkSettings;

use crate::replay::{Played, Replay, compare};
use crate::sites::{Sent, Server, Sites};
use crate::trace::{Step, Trace};
use crate::worker::Target;

/// How many steps are played at one server before it is the other's turn.
const TURN: usize = 200;

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
    /// Processor time of the replica that does the work, in seconds.
    pub(crate) first_cpu_s: f64,
    /// Processor time of all other replicas together.
    pub(crate) others_cpu_s: f64,
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
        let (before, cpu_before) = (sites.sent()?, cpu(sites)?);
        let (played, beside) = turns(&mut replicated, &mut alone, &phase.steps, thinks)
            .await
            .with_context(|| format!("{} went wrong", phase.name))?;
        let done = Instant::now();
        sites.wait_for_copies()?;
        let behind = done.elapsed();
        let (after, cpu_after) = (sites.sent()?, cpu(sites)?);
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
            first_cpu_s: cpu_after[0] - cpu_before[0],
            others_cpu_s: cpu_after[1] - cpu_before[1],
            alone_cpu_s: cpu_after[2] - cpu_before[2],
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

/// Plays the steps at both, a few here and the same there, so that what else happens on the machine
/// meets both. With pauses that would give the set time to lose its control; there each plays all.
async fn turns(
    replicated: &mut Replay<'_>,
    alone: &mut Replay<'_>,
    steps: &[Step],
    thinks: bool,
) -> Result<(Played, Played)> {
    let turn = match thinks {
        true => steps.len().max(1),
        false => TURN,
    };
    let (mut here, mut there) = (Played::default(), Played::default());
    for steps in steps.chunks(turn) {
        there += alone.play(steps).await?;
        here += replicated.play(steps).await?;
    }
    Ok((here, there))
}

/// Processor seconds of the first replica, of the others, and of the server that is alone.
fn cpu(sites: &Sites) -> Result<[f64; 3]> {
    let seconds = |server: &Server| Ok(server.processor_time()?.as_secs_f64());
    let mut replicas = sites.replicas.iter().map(seconds);
    let first = replicas.next().context("a set has replicas")??;
    let others = replicas.sum::<Result<f64>>()?;
    Ok([first, others, seconds(&sites.alone)?])
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
