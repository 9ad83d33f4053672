//! What a play waited for processors: its client, and the server that it asks.
//!
//! It is shown, and not taken off: a thread of the server may wait with work that no answer waits for, and both may wait at
//! the same time, so what would be left was at times a quarter of what the same work takes undisturbed. Processors are kept apart
//! instead (`bench::affinity`).
//!
//! What must never enter: time for which anybody waits for disks and networks.

use std::time::Duration;

use anyhow::Result;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Outcome, named};
use bench::waiting;

use super::columns::figures;
use crate::sites::{Server, Sites};

/// The name of the figure with the time that client and server waited for a processor.
pub(super) const WAITED: &str = "waited_s";

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

    /// As figures.
    pub(super) fn figures(self) -> Outcome {
        let waited = self.client + self.server;
        let figures = [
            ("client_waited_s", self.client),
            ("server_waited_s", self.server),
            (WAITED, waited),
        ];
        named(figures.map(|(name, time)| (name, time.as_secs_f64())))
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
        named(figures.map(|(name, time)| (name, time.as_secs_f64())))
    }
}

/// The table of plays: times by phase, with the ratio of the whole to another series, and what was waited for processors.
pub(super) fn table(results: &Results, heads: Heads, before: &[Figure], base: &str) -> String {
    let mut columns = before.to_vec();
    columns.extend(figures(results));
    let ratio: Vec<Figure> = columns.last().copied().into_iter().collect();
    let waited = Figure::plain(WAITED, "waited for processors (s)");
    let points = results.points().iter();
    let known = points.filter_map(|point| results.summary(point, WAITED));
    if known.count() > 0 {
        columns.push(waited);
    }
    table::with_ratios(results, heads, &columns, &ratio, base)
}

/// What pages say of it.
pub(super) const ABOUT: &str = "*Waited for processors* is the time for which the client's thread (`schedstat` of proc(5)) was ready and did not run, and that for which \
     some thread of the server that it asks did so (`cpu.pressure` of the server's control group), one added to the other: at most that much was lost to \
     programs that would run on machines of their own.";
