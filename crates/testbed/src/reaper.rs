//! Removes what a run leaves behind: namespaces, the processes inside them, and work folders.
//!
//! Each site has a *reaper*, a small shell that only waits for the end of a pipe that this
//! process holds. The kernel closes that pipe when the process ends by return, panic, Ctrl-C or
//! SIGKILL, so one mechanism covers all cases and no signal handler is needed. The reaper is in
//! its own process group, so a Ctrl-C on the terminal does not reach it. If the
//! reaper was killed too, the next run removes the rest.
//!
//! What must never enter: anything that ends processes outside the testbed's own namespaces.

use std::fs;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;

/// How long the logs of a failed run stay before a sweep removes them.
const LOGS_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The prefix of every namespace made here, followed by [`Owner`] and a counter.
const PREFIX: &str = "meridian-testbed-";

/// Kills all processes in the namespace `$1`, waits until they are gone, and deletes the namespace.
/// The bound keeps a process that cannot die from holding this one for ever.
const CLEAN: &str = r#"
for _ in $(seq 100); do
    pids=$(ip netns pids "$1") && [ -n "$pids" ] || break
    kill -KILL $pids
    sleep 0.05
done
ip netns del "$1"
"#;

/// The shell that cleans one namespace once its owner is gone.
#[derive(Debug)]
pub(crate) struct Reaper {
    shell: Child,
    lifeline: Option<ChildStdin>,
}

impl Reaper {
    /// Starts to watch over `namespace`, which need not exist yet.
    pub(crate) fn watch(namespace: &str) -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("read -r _\n{CLEAN}"), "reaper", namespace])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("could not start a shell to clean up after the testbed")?;
        let lifeline = shell.stdin.take();
        Ok(Self { shell, lifeline })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // A failure leaves the namespace to the next sweep, so it needs no report.
        let _ = self.shell.wait();
    }
}

/// A process, as in the names of its sites: with the start time, a recycled pid is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    pid: u32,
    /// Clock ticks between the machine's start and the process's, proc(5) `stat` field 22.
    started: u64,
}

impl Owner {
    fn this_process() -> Result<Self> {
        let pid = std::process::id();
        let started = start_time(pid).context("could not read /proc/self/stat; is /proc there?")?;
        Ok(Self { pid, started })
    }

    fn lives(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// The start time of a process that exists.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may itself hold both kinds of
    // parenthesis and spaces. The remainder begins with field 3.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// A name for the `number`th site of this process.
pub(crate) fn site_name(number: u64) -> Result<String> {
    let Owner { pid, started } = Owner::this_process()?;
    Ok(format!("{PREFIX}{pid}-{started}-{number}"))
}

/// The process that made the site of this name, or nothing if the name is not from the testbed.
fn owner_of(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let owner = Owner {
        pid: parts.next()?.parse().ok()?,
        started: parts.next()?.parse().ok()?,
    };
    parts.next()?.parse::<u64>().ok()?;
    Some(owner)
}

/// Removes the namespaces of processes that are dead, and work folders below `base` that
/// such processes left more than a day ago. Best effort: two runs may sweep at the same time.
pub(crate) fn sweep(base: &Path) {
    for name in orphans(Path::new("/run/netns")) {
        let _ = Command::new("sh")
            .args(["-c", CLEAN, "sweep", &name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
    for name in orphans(base) {
        let folder = base.join(name);
        let age = fs::metadata(&folder)
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age > LOGS_KEPT_FOR) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Entries of `folder` that are named like sites of dead processes.
fn orphans(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| owner_of(name).is_some_and(|owner| !owner.lives()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner() {
        let name = site_name(7).unwrap();
        assert_eq!(owner_of(&name), Some(Owner::this_process().unwrap()));
    }

    #[test]
    fn foreign_names_have_no_owner() {
        for name in [
            "site1",
            "meridian-testbed-",
            "meridian-testbed-1-2",
            "meridian-testbed-1-2-x",
        ] {
            assert_eq!(owner_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_recycled_pid_is_not_the_owner() {
        let this = Owner::this_process().unwrap();
        assert!(this.lives());
        assert!(
            !Owner {
                started: this.started + 1,
                ..this
            }
            .lives()
        );
    }
}
