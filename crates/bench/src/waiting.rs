//! Waiting for a processor: the time in which a process or a thread was ready and did not run, because others ran.
//!
//! What must never enter: processor time that was used; that is `processor`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// A control group (cgroups version 2) with one process. The kernel keeps *pressure stall information* of it. The group is removed when this
/// value is dropped, after the process has ended.
#[derive(Debug)]
pub struct Pressure {
    folder: PathBuf,
}

impl Pressure {
    /// Puts a process with all its threads and future children into a new group below this process's group.
    ///
    /// # Errors
    /// Fails without cgroups version 2 or the right to make a group, and when the process has ended.
    pub fn of(process: u32) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("is /proc mounted?")?;
        let root = mount_in(&mounts).context("cgroups version 2 are not mounted")?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = group_in(&groups).context("this process is in no cgroup of version 2")?;
        let parent = Path::new(root).join(own.trim_start_matches('/'));
        let folder = parent.join(format!("measured-{process}"));
        fs::create_dir(&folder)
            .with_context(|| format!("could not make the cgroup {}", folder.display()))?;
        let group = Self { folder };
        fs::write(group.folder.join("cgroup.procs"), process.to_string())
            .with_context(|| format!("process {process} cannot be put into a cgroup"))?;
        Ok(group)
    }

    /// The total time in which at least one thread of the process was ready and did not run: *some* in `cpu.pressure`
    /// (Documentation/accounting/psi.rst of Linux). Threads that wait at the same time count once.
    ///
    /// # Errors
    /// Fails if the kernel keeps no pressure stall information.
    pub fn waited(&self) -> Result<Duration> {
        some_in_file(&self.folder.join("cpu.pressure"))
    }
}

impl Drop for Pressure {
    fn drop(&mut self) {
        // An empty group that stays does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The total time in which at least one thread of the whole machine was ready and did not run.
///
/// # Errors
/// Fails if the kernel keeps no pressure stall information.
pub fn of_machine() -> Result<Duration> {
    some_in_file(Path::new("/proc/pressure/cpu"))
}

/// The total time in which the calling thread was ready and did not run: the second field of `schedstat`
/// (Documentation/scheduler/sched-stats.rst of Linux).
///
/// # Errors
/// Fails if the kernel keeps no scheduler statistics.
pub fn of_this_thread() -> Result<Duration> {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path).with_context(|| format!("could not read {path}"))?;
    let waited = text.split_whitespace().nth(1);
    let waited = waited.and_then(|nanoseconds| nanoseconds.parse().ok());
    Ok(Duration::from_nanos(
        waited.context("schedstat has no second number")?,
    ))
}

fn some_in_file(path: &Path) -> Result<Duration> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("could not read {}: psi=1 turns it on", path.display()))?;
    some_in(&text).with_context(|| format!("{} has no total", path.display()))
}

/// The total of the line *some*, which is in microseconds.
fn some_in(pressure: &str) -> Option<Duration> {
    let mut lines = pressure.lines();
    let some = lines.find(|line| line.starts_with("some "))?;
    let total = some.rsplit_once("total=")?.1;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// The mount point of cgroups version 2, from proc(5) `mounts`.
fn mount_in(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then_some(place)
    })
}

/// The group of version 2, in cgroups(7) `/proc/PID/cgroup`.
fn group_in(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let pressure = "some avg10=13.40 avg60=2.42 avg300=0.50 total=2383671\n\
                        full avg10=9.41 avg60=1.70 avg300=0.35 total=1730550\n";
        assert_eq!(some_in(pressure), Some(Duration::from_micros(2_383_671)));
        assert_eq!(some_in("full avg10=0.00 total=1\n"), None);
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_in(mounts), Some("/sys/fs/cgroup/unified"));
        assert_eq!(
            group_in("4:memory:/a\n0::/user.slice\n"),
            Some("/user.slice")
        );
        assert_eq!(group_in("4:memory:/a\n"), None);
    }

    #[test]
    fn a_thread_among_too_many_waits() {
        let processors = std::thread::available_parallelism().unwrap().get();
        let spin = || {
            let began = std::time::Instant::now();
            let before = of_this_thread().unwrap();
            while of_this_thread().unwrap() == before && began.elapsed().as_secs() < 60 {}
            of_this_thread().unwrap() - before
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..=processors).map(|_| scope.spawn(spin)).collect();
            for thread in threads {
                assert!(thread.join().unwrap() > Duration::ZERO);
            }
        });
    }
}
