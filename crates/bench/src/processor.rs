//! Processor time: of a process, and of all processes that are not part of the measurement.
//!
//! What must never enter: the purpose of the time.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Processor time used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl ProcessorTime {
    /// Of this process, whose threads are all clients.
    pub fn own() -> Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat").context("is /proc mounted?")?;
        Self::in_stat(&stat).context("/proc/self/stat is not as proc(5) says")
    }

    /// From proc(5) `stat` of a process; `None` for a zombie.
    pub fn in_stat(stat: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, which may contain anything. The
        // fields after it begin with the third, the state; the times are the 14th and 15th.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        Some(Self {
            user: ticks(fields.get(11)?)?,
            system: ticks(fields.get(12)?)?,
        })
    }

    /// In program and kernel together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// The user-space time of all processes of the machine together. Kernel time is
/// left out, because the kernel may also work for the servers.
pub fn everybodys_user_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("is /proc mounted?")?;
    user_time_in(&stat).context("/proc/stat is not as proc(5) says")
}

/// The sum of the first two numbers of the first line: time at normal and at low priority.
fn user_time_in(stat: &str) -> Option<Duration> {
    let mut words = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace();
    Some(ticks(words.next()?)? + ticks(words.next()?)?)
}

fn ticks(text: &str) -> Option<Duration> {
    let each = rustix::param::clock_ticks_per_second();
    Some(Duration::from_secs_f64(
        text.parse::<u64>().ok()? as f64 / each as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_behind_the_programs_name() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        let time = ProcessorTime::in_stat(stat).unwrap();
        assert_eq!(time.user, Duration::from_millis(1500));
        assert_eq!(time.total(), Duration::from_secs(2));
        let dead = "7 (a) Z 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(ProcessorTime::in_stat(dead), None);
        assert_eq!(ProcessorTime::in_stat("7 (a"), None);
    }

    #[test]
    fn everybodys_time_is_on_the_first_line() {
        let stat = "cpu  100 20 7 7 7 7 7 0 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(user_time_in(stat), Some(Duration::from_millis(1200)));
        assert_eq!(user_time_in("intr 1"), None);
    }
}
