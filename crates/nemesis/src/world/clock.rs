//! What a server takes for the time: a library is preloaded that answers its questions for it.
//!
//! It stands between the server and its C library, and is made of `clock.c` where it is needed; any machine with Rust has a
//! C compiler, which Rust links with. It is not one of the libraries that others keep because those leave the clock alone by
//! which site leases are measured (`CLOCK_BOOTTIME`).
//!
//! What must never enter: when clocks go wrong (`schedule`).

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("clock.c");

/// What a server takes for the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The time.
    True,
    /// The time of day is ahead by so many seconds.
    Wrong(i64),
    /// All clocks are too fast by so many millionths.
    Uneven(i64),
}

impl Clock {
    /// What a process is started with. The library is put into this folder.
    ///
    /// # Errors
    /// Fails where it cannot be made.
    pub fn environment(self, folder: &Path) -> Result<Vec<(&'static str, OsString)>> {
        let told = match self {
            Clock::True => return Ok(Vec::new()),
            Clock::Wrong(seconds) => ("CLOCK_AHEAD", seconds.to_string().into()),
            Clock::Uneven(millionths) => ("CLOCK_MILLIONTHS", millionths.to_string().into()),
        };
        let library = folder.join("clock.so");
        if !library.exists() {
            make(folder, &library)?;
        }
        let library = library.canonicalize()?;
        Ok(vec![("LD_PRELOAD", library.into()), told])
    }
}

fn make(folder: &Path, library: &Path) -> Result<()> {
    let source = folder.join("clock.c");
    fs::write(&source, SOURCE)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
    let output = compiler.arg(library).arg(&source).output();
    let output = output.context("could not start the C compiler cc")?;
    ensure!(
        output.status.success(),
        "the library for wrong clocks is not compiled: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// Set in the process that looks at its clock.
    const LOOK: &str = "LOOK_AT_THE_CLOCK";

    /// What the kernel says of the same clock in a file, in seconds.
    fn uptime() -> f64 {
        let text = fs::read_to_string("/proc/uptime").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    fn lease_clock() -> f64 {
        let time = clock_gettime(ClockId::Boottime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    /// Does something only in a process that the other test starts.
    #[test]
    fn look() {
        if env::var_os(LOOK).is_none() {
            return;
        }
        let (before, truly) = (lease_clock(), uptime());
        std::thread::sleep(Duration::from_secs(1));
        let rate = (lease_clock() - before) / (uptime() - truly);
        println!("\nrate {rate}");
    }

    /// How fast the clock of leases runs in a process with this clock.
    fn rate(clock: Clock, folder: &Path) -> f64 {
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", "world::clock::tests::look", "--nocapture"]);
        program.envs(clock.environment(folder).unwrap());
        let output = program.env(LOOK, "1").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let rate = said.lines().find_map(|line| line.strip_prefix("rate "));
        rate.unwrap_or_else(|| panic!("{said}")).parse().unwrap()
    }

    #[test]
    fn the_clock_of_leases_runs_as_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let double = rate(Clock::Uneven(1_000_000), folder.path());
        assert!(double > 1.5, "{double}");
        for clock in [Clock::True, Clock::Wrong(300)] {
            let rate = rate(clock, folder.path());
            assert!(rate < 1.5, "{clock:?}: {rate}");
        }
    }
}
