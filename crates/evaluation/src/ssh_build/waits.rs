//! What a play waited for processors: its client, and the server that it asks.
//!
//! One request follows the other, so the time that is lost to other programs is that in which the client's thread, or a thread of the
//! server, was ready and did not run. All of it taken off leaves at least too little: the server's threads may wait with work that no
//! answer waits for.
//!
//! What must never enter: time for which anybody waits for disks and networks.

use std::time::Duration;

use anyhow::Result;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::Outcome;
use bench::waiting;

use super::figures;
use crate::sites::{Server, Sites};

/// The name of the figure with the time that client and server waited for a processor.
pub(super) const WAITED: &str = "waited_s";

/// The name of the figure with the whole time but that.
pub(super) const UNDISTURBED: &str = "undisturbed_s";

/// Of the client's thread, which is the one that asks, and of the server's process: waited so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waits {
    client: Duration,
    server: Duration,
}

impl Waits {
    /// Until now. None where the kernel does not say so of the server.
    pub(super) fn so_far(server: &Server) -> Result<Option<Self>> {
        let Some(server) = server.waited()? else {
            return Ok(None);
        };
        let client = waiting::of_this_thread()?;
        Ok(Some(Self { client, server }))
    }

    /// Since an earlier moment.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            client: self.client.saturating_sub(earlier.client),
            server: self.server.saturating_sub(earlier.server),
        }
    }

    /// With those of another part of the play.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            client: self.client + other.client,
            server: self.server + other.server,
        }
    }

    /// As figures of a play that took so long.
    pub(super) fn figures(self, took: Duration) -> Outcome {
        let waited = self.client + self.server;
        let figures = [
            ("client_waited_s", self.client),
            ("server_waited_s", self.server),
            (WAITED, waited),
            (UNDISTURBED, took.saturating_sub(waited)),
        ];
        let named = figures.map(|(name, time)| (name.to_owned(), time.as_secs_f64()));
        named.into()
    }
}

/// What all replicas but the first, and the whole machine, waited for processors so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    replicas: Duration,
    machine: Duration,
}

impl Others {
    /// Until now. None where the kernel does not say so.
    pub(super) fn so_far(sites: &Sites) -> Result<Option<Self>> {
        let mut replicas = Duration::ZERO;
        for replica in sites.replicas.iter().skip(1) {
            let Some(waited) = replica.waited()? else {
                return Ok(None);
            };
            replicas += waited;
        }
        let machine = waiting::of_machine()?;
        Ok(Some(Self { replicas, machine }))
    }

    /// Since an earlier moment, as figures.
    pub(super) fn figures_since(self, earlier: Self) -> Outcome {
        let figures = [
            (
                "others_waited_s",
                self.replicas.saturating_sub(earlier.replicas),
            ),
            (
                "machine_waited_s",
                self.machine.saturating_sub(earlier.machine),
            ),
        ];
        let named = figures.map(|(name, time)| (name.to_owned(), time.as_secs_f64()));
        named.into()
    }
}

/// The table of plays: times by phase, what was waited for processors, and the ratio to another series with that and without.
pub(super) fn table(results: &Results, heads: Heads, before: &[Figure], base: &str) -> String {
    let mut columns = before.to_vec();
    columns.extend(figures(results));
    let all = columns.pop().into_iter();
    let waits = [
        Figure::plain(WAITED, "of it waited for processors (s)"),
        Figure::plain(UNDISTURBED, "without that (s)"),
    ];
    let points = results.points();
    let known = |figure: &Figure| {
        let mut points = points.iter();
        points.any(|point| results.summary(point, figure.name).is_some())
    };
    let decides: Vec<Figure> = all.chain(waits).filter(known).collect();
    let ratios = decides.iter().filter(|figure| figure.name != WAITED);
    let ratios: Vec<Figure> = ratios.copied().collect();
    columns.extend(&decides);
    table::with_ratios(results, heads, &columns, &ratios, base)
}

/// How it is measured.
pub(super) const ABOUT_METHOD: &str = "*Waited for processors* is the time for which the client's thread (`schedstat`) or some thread of the server that it asks \
     (`cpu.pressure` of the server's control group) was ready and did not run, because other programs did. The server's threads may wait with \
     work that no answer waits for, so a time without that is at most too small.";

/// What the pages of figures say of it.
pub(super) const ABOUT: &str = "Times are given with what was *waited for processors*, which all replicas share here, and without, as [a check of the \
     method](waiting.md) explains.";
