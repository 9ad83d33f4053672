//! Replays the package at one server and compares the result at another.
//!
//! What must never enter: how the figures are shown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::client::Target;
use bench::statistics::LATENESS;
use bench::trial::{self, Outcome};
use tokio::sync::Mutex;

use super::columns::{SERVER, TOTAL};
use super::waits::{Others, Waits};
use crate::field::runtime;
use crate::replay::{self, Pauses, Replay};
use crate::sites::{Server, Sites};
use crate::trace::{Phase, Trace};

/// A phase with shorter pauses than this counts as dense.
const DENSE: Duration = Duration::from_secs(3);

/// The settings of a replay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play<'a> {
    /// The work.
    pub(crate) trace: &'a Trace,
    /// The treatment of the recorded pauses.
    pub(crate) pauses: Pauses,
    /// The server that gets the requests, if its waiting for processors is recorded.
    pub(crate) server: Option<&'a Server>,
    /// Held during dense phases, by replays that run beside others.
    pub(crate) turn: Option<&'a Mutex<()>>,
}

/// A package that was replayed.
#[derive(Debug)]
pub(crate) struct Played {
    /// Seconds of each phase by `PHASE_s`, [`TOTAL`], [`SERVER`], `requests`, `delays` and `written_bytes`; and the time waited for
    /// processors, if a server was named.
    pub(crate) figures: Outcome,
    /// The directory of the export with the result.
    home: String,
    /// The expected content of that directory.
    left: replay::Outcome,
}

impl Play<'_> {
    /// Replays it in a new directory of the export, on this thread.
    ///
    /// # Errors
    /// Fails when the server finds other files than the recorded programs did.
    pub(crate) fn at(self, target: &Target, home: &str) -> Result<Played> {
        make_directory(target, home)?;
        self.within(target, home)
    }

    /// The same in an existing directory.
    fn within(self, target: &Target, home: &str) -> Result<Played> {
        runtime()?.block_on(self.play(target, home))
    }

    async fn play(self, target: &Target, home: &str) -> Result<Played> {
        let (client, root) = target.client().await?;
        let directory = client.lookup(&root, home).await?;
        let mut replay = Replay::begin(self.trace, client.clone(), directory, self.pauses);
        let waits = || self.server.map_or(Ok(None), Waits::so_far);
        let mut waited = Waits::default();
        let (mut figures, mut all) = (Outcome::new(), replay::Played::default());
        for phase in &self.trace.phases {
            let _turn = match self.turn {
                Some(turn) if is_dense(phase) => Some(turn.lock().await),
                _ => None,
            };
            let before = waits()?;
            let played = replay.play(&phase.steps).await;
            let played = played.with_context(|| format!("{} went wrong", phase.name))?;
            if let (Some(before), Some(after)) = (before, waits()?) {
                waited = waited.and(after.since(before));
            }
            figures.insert(time_of(phase), played.took.as_secs_f64());
            all += played;
        }
        let whole = [
            (TOTAL, all.took.as_secs_f64()),
            (SERVER, all.took.saturating_sub(all.thought).as_secs_f64()),
            ("requests", all.counts.requests as f64),
            ("delays", all.counts.delays as f64),
            ("written_bytes", all.counts.written as f64),
        ];
        figures.extend(trial::named(whole));
        if waits()?.is_some() {
            figures.extend(waited.figures());
        }
        let left = replay.outcome();
        client.leave().await?;
        Ok(Played {
            figures,
            home: home.to_owned(),
            left,
        })
    }

    /// The same at the first replica of a set at rest. Afterwards waits until all others have everything, and compares at the last
    /// of them. Adds `behind_s` (how long after the end all had everything), `wire_bytes`, `first_out_bytes` (bytes that left
    /// the first site; also per written byte, and per second until all had everything), `content_bytes`, `record_bytes`, and [`LATENESS`].
    ///
    /// # Errors
    /// Fails when the copy differs, and when a server has not run all the time.
    pub(crate) fn at_set(self, sites: &Sites, home: &str) -> Result<Outcome> {
        let first = sites.replicas[0].target();
        make_directory(&first, home)?;
        // Control of the directory from before would save the package its first election.
        sites.wait_for_quiet()?;
        let (before, out) = (sites.sent()?, sites.sent_by_first()?);
        let waited = Others::so_far(sites)?;
        let mut played = self.within(&first, home)?;
        let done = Instant::now();
        if let (Some(before), Some(after)) = (waited, Others::so_far(sites)?) {
            played.figures.extend(after.figures_since(before));
        }
        sites.wait_for_copies()?;
        let behind = done.elapsed().as_secs_f64();
        let (sent, out_after) = (sites.sent()?.since(before), sites.sent_by_first()?);
        let last = sites.replicas.last().context("a set has replicas")?;
        sites.wait_for_quiet()?;
        played.check_at(&last.target())?;
        sites.check_running()?;
        let (total, written) = (played.figures[TOTAL], played.figures["written_bytes"]);
        let out = (out_after - out) as f64;
        let more = [
            ("behind_s", behind),
            (LATENESS, sites.lateness()?.as_secs_f64() * 1e6),
            ("wire_bytes", sent.wire as f64),
            ("first_out_bytes", out),
            ("first_out_per_written", out / written),
            ("first_out_per_s", out / (total + behind)),
            ("content_bytes", sent.content as f64),
            ("record_bytes", sent.records as f64),
        ];
        played.figures.extend(trial::named(more));
        Ok(played.figures)
    }
}

/// Makes the directory for a replay.
///
/// # Errors
/// Fails when the directory exists.
pub(crate) fn make_directory(target: &Target, home: &str) -> Result<()> {
    runtime()?.block_on(async {
        let (client, root) = target.client().await?;
        client.create_directory(&root, home, 0o755).await?;
        Ok(client.leave().await?)
    })
}

impl Played {
    /// Compares the result, as this server shows it, with what was written.
    ///
    /// # Errors
    /// Fails at the first difference.
    pub(crate) fn check_at(&self, target: &Target) -> Result<()> {
        runtime()?.block_on(async {
            let (client, root) = target.client().await?;
            let home = client.lookup(&root, &*self.home).await?;
            let found = replay::compare(&client, &home, &self.left).await;
            found.context("the copy differs from what was written")?;
            Ok(client.leave().await?)
        })
    }
}

/// The name of the figure with the time of a phase.
pub(super) fn time_of(phase: &Phase) -> String {
    format!("{}_s", phase.name)
}

/// Whether a phase has hardly any pauses, so that parallel replays of it disturb each other.
fn is_dense(phase: &Phase) -> bool {
    let pauses = phase.steps.iter().map(|step| u64::from(step.think_us));
    Duration::from_micros(pauses.sum()) < DENSE
}
