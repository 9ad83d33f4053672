//! The time that a replay waited for processors: its client, and the server that gets the requests.
//!
//! It is shown but not subtracted. A thread of the server may wait with work that no answer needs, and client and server may wait at
//! the same time, so the difference was sometimes a quarter of the undisturbed time. Instead, processors are kept apart
//! (`bench::affinity`).
//!
//! What must never enter: waiting for disks and networks.

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

/// The waiting times of the client's thread and of the server's process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waits {
    client: Duration,
    server: Duration,
}

impl Waits {
    /// Until now. None if the kernel does not report it for the server.
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

    /// Added to those of another part of the replay.
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

/// The waiting times for processors of all replicas except the first, and of the whole machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    replicas: Duration,
    machine: Duration,
}

impl Others {
    /// Until now. None if the kernel does not report it.
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

/// The table of replays: times by phase, with the ratio of the total to another series, and the waiting times for processors.
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

/// The text about it on pages.
pub(super) const ABOUT: &str = "*Waited for processors* is the time for which the client's thread (`schedstat` of proc(5)) was ready and did not run, and that for which \
     some thread of the server that it asks did so (`cpu.pressure` of the server's control group), one added to the other: at most that much was lost to \
     programs that would run on machines of their own.";
