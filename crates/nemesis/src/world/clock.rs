//! The clock that a server sees: a preloaded library answers its calls.
//!
//! The library stands between the server and its C library. It is built from `clock.c` when it is needed: every machine with Rust has a
//! C compiler, because Rust links with it. Existing libraries do not suffice: they do not change the clock that measures site leases
//! (`CLOCK_BOOTTIME`).
//!
//! If a clock may jump while the server runs, the library maps a file that says by how much.
//!
//! What must never enter: when clocks go wrong (`schedule`).

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("clock.c");

/// The clock that a server sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The true time.
    True,
    /// The time of day is ahead by this many seconds.
    Wrong(i64),
    /// All clocks are too fast by this many millionths.
    Uneven(i64),
}

/// The error of the time of day of a running process.
#[derive(Debug, Clone)]
pub struct Jumps(PathBuf);

impl Jumps {
    /// Creates the file in this folder. A process that starts with it sees the right time of day at first.
    ///
    /// # Errors
    /// Fails where the file cannot be made.
    pub fn in_folder(folder: &Path) -> Result<Jumps> {
        let jumps = Jumps(folder.join("clock-jumps"));
        jumps.set(0)?;
        Ok(jumps)
    }

    /// From now on the time of day is ahead by this many seconds.
    ///
    /// # Errors
    /// Fails where the file cannot be written.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // In place, since processes have it mapped, and in one write, so that no process sees half of it.
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false);
        let file = file.open(&self.0)?;
        Ok(file.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }

    /// The environment of a process, besides the library.
    fn environment(&self) -> (&'static str, OsString) {
        ("CLOCK_JUMPS", self.0.clone().into())
    }
}

impl Clock {
    /// The environment of a process. Puts the library into this folder.
    ///
    /// # Errors
    /// Fails where it cannot be made.
    pub fn environment(
        self,
        folder: &Path,
        jumps: Option<&Jumps>,
    ) -> Result<Vec<(&'static str, OsString)>> {
        let told = match self {
            Clock::True if jumps.is_none() => return Ok(Vec::new()),
            Clock::True => ("CLOCK_AHEAD", "0".into()),
            Clock::Wrong(seconds) => ("CLOCK_AHEAD", seconds.to_string().into()),
            Clock::Uneven(millionths) => ("CLOCK_MILLIONTHS", millionths.to_string().into()),
        };
        let library = folder.join("clock.so");
        if !library.exists() {
            make(folder, &library)?;
        }
        let library = library.canonicalize()?;
        let mut all = vec![("LD_PRELOAD", library.into()), told];
        all.extend(jumps.map(Jumps::environment));
        Ok(all)
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

    /// Set in the process that reads its clock.
    const LOOK: &str = "LOOK_AT_THE_CLOCK";

    /// The folder with the jumps in such a process.
    const JUMPS: &str = "LOOK_AT_JUMPS";

    /// The value of the same clock in a file of the kernel, in seconds.
    fn uptime() -> f64 {
        let text = fs::read_to_string("/proc/uptime").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    fn lease_clock() -> f64 {
        let time = clock_gettime(ClockId::Boottime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    /// Does nothing unless the other test starts it in a process.
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

    /// The same, and the time of day jumps meanwhile.
    #[test]
    fn look_at_jumps() {
        let Some(folder) = env::var_os(JUMPS) else {
            return;
        };
        let jumps = Jumps(Path::new(&folder).join("clock-jumps"));
        let day = || clock_gettime(ClockId::Realtime).tv_sec;
        let before = (day(), lease_clock());
        jumps.set(-5000).unwrap();
        let after = (day(), lease_clock());
        println!("\njumped {} {}", after.0 - before.0, after.1 - before.1);
    }

    #[test]
    fn the_time_of_day_jumps_in_a_running_process_and_the_clock_of_leases_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let jumps = Jumps::in_folder(folder.path()).unwrap();
        let mut program = Command::new(env::current_exe().unwrap());
        let test = "world::clock::tests::look_at_jumps";
        program.args(["--exact", test, "--nocapture"]);
        let clock = Clock::True.environment(folder.path(), Some(&jumps));
        program.envs(clock.unwrap()).env(JUMPS, folder.path());
        let said = String::from_utf8(program.output().unwrap().stdout).unwrap();
        let jumped = said.lines().find_map(|line| line.strip_prefix("jumped "));
        let (day, lease) = jumped.and_then(|both| both.split_once(' ')).unwrap();
        let (day, lease): (i64, f64) = (day.parse().unwrap(), lease.parse().unwrap());
        assert!((-5000..-4900).contains(&day), "{said}");
        assert!((0.0..100.0).contains(&lease), "{said}");
    }

    /// The speed of the lease clock in a process with this clock.
    fn rate(clock: Clock, folder: &Path) -> f64 {
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", "world::clock::tests::look", "--nocapture"]);
        program.envs(clock.environment(folder, None).unwrap());
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
