//! The package, played at one server and compared at another.
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

/// Less than these pauses in a phase are hardly any.
const DENSE: Duration = Duration::from_secs(3);

/// How a package is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play<'a> {
    /// The work.
    pub(crate) trace: &'a Trace,
    /// What becomes of the pauses of the recording.
    pub(crate) pauses: Pauses,
    /// The server that is asked, where what it waits for processors counts.
    pub(crate) server: Option<&'a Server>,
    /// Held during phases without pauses worth mentioning, by plays that run beside others.
    pub(crate) turn: Option<&'a Mutex<()>>,
}

/// A package that was played.
#[derive(Debug)]
pub(crate) struct Played {
    /// Seconds of each phase by `PHASE_s`, [`TOTAL`], [`SERVER`], `requests`, `delays` and `written_bytes`; and what was waited for
    /// processors, where a server was named.
    pub(crate) figures: Outcome,
    /// The directory of the export that holds the result.
    home: String,
    /// What must be found there.
    left: replay::Outcome,
}

impl Play<'_> {
    /// Plays it in a new directory of the export, on this thread.
    ///
    /// # Errors
    /// Fails when the server finds other files than the recorded programs did.
    pub(crate) fn at(self, target: &Target, home: &str) -> Result<Played> {
        make_directory(target, home)?;
        self.within(target, home)
    }

    /// The same in a directory that is there.
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

    /// The same at the first replica of a set, from quiet on, with everything brought to the others and compared at the last
    /// of them. Adds `behind_s`, how long after the end all had everything, `wire_bytes`, `first_out_bytes`, which left
    /// the first site, the same for each byte written and for each second until all had everything, `content_bytes`, `record_bytes`, and [`LATENESS`].
    ///
    /// # Errors
    /// Fails when the copy differs, and when a server has not run all the time.
    pub(crate) fn at_set(self, sites: &Sites, home: &str) -> Result<Outcome> {
        let first = sites.replicas[0].target();
        make_directory(&first, home)?;
        // Control that was won for the directory would spare the package its first election.
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

/// Makes the directory in which something is played.
///
/// # Errors
/// Fails when there is such a directory.
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

/// Whether a phase has hardly any pauses, so that those who play it at the same time are in each other's way.
fn is_dense(phase: &Phase) -> bool {
    let pauses = phase.steps.iter().map(|step| u64::from(step.think_us));
    Duration::from_micros(pauses.sum()) < DENSE
}
