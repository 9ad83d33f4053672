//! Large numbers: files in one tree and in one directory, and clients with their state, at one server.
//!
//! - [`Files`]: a tree of up to ten million files, filled, listed, killed, checked, and copied by a new replica.
//! - [`Crowd`]: clients with state, open files and connections.
//!
//! What must never enter: the speed of single operations; that is `bench server`.

mod crowd;
mod files;

pub(crate) use crowd::Crowd;
pub(crate) use files::Files;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::client::Target;
use testbed::{Meridian, Place, Service};

/// One server whose data directory remains when it is stopped.
struct Single {
    place: Place,
    meridian: Meridian,
    service: Service,
    address: SocketAddr,
}

impl Single {
    /// Starts it with these lines of a configuration.
    fn start(place: &Place, program: &Path, data: &Path, settings: &str) -> Result<Self> {
        let meridian = Meridian::new(place.site(), program, data);
        let address = place.nfs_address();
        let text = Meridian::OPEN.to_owned() + settings;
        let service = meridian.serve("meridian", address, &text)?;
        Ok(Self {
            place: place.clone(),
            meridian,
            service,
            address,
        })
    }

    /// The target for its clients.
    fn target(&self) -> Target {
        Target {
            site: Some(self.place.site().clone()),
            address: self.address,
            export: Meridian::EXPORT.to_owned(),
        }
    }

    /// Starts it again after `kill -9`, and returns the time until it answers.
    fn killed_and_started(&mut self) -> Result<Duration> {
        self.service.kill()?;
        self.started()
    }

    /// Starts it again, and returns the time until it answers.
    fn started(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.service.restart()?;
        self.service.wait_for_nfs(self.address)?;
        Ok(began.elapsed())
    }

    /// Its resident memory, in bytes.
    fn memory(&self) -> Result<f64> {
        let pid = self.service.pid().context("the server was not started")?;
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        let status = status.context("the server has ended")?;
        resident_in(&status).context("proc(5) `status` has no VmRSS")
    }
}

/// `VmRSS` of proc(5) `status`, which is in KiB, in bytes.
fn resident_in(status: &str) -> Option<f64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read() {
        let status = "VmHWM:\t  20480 kB\nVmRSS:\t   2048 kB\nThreads:\t4\n";
        assert_eq!(resident_in(status), Some(2_097_152.0));
        assert_eq!(resident_in("Threads:\t4\n"), None);
    }
}
