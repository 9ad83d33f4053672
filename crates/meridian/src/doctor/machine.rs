//! The machine: its clock, and the disk of the data directory.
//!
//! What must never enter: the server.

use std::fs;
use std::path::Path;
use std::process::Command;

use server::size;

use super::finding::{Finding, Verdict};

const CLOCK: &str = "clock";
const DISK: &str = "disk";

/// File systems that are not durable or not local: unsuitable for a data directory.
const UNSUITABLE: [&str; 8] = [
    "tmpfs", "ramfs", "nfs", "nfs4", "cifs", "overlay", "proc", "sysfs",
];
/// Free space below this number of bytes, and below a part of the disk, is too little.
const LITTLE_BYTES: u64 = 10 << 30;
const LITTLE_PART: u64 = 20;

/// Whether something keeps the clock right, which certificates, tokens and file times need.
pub(super) fn clock() -> Vec<Finding> {
    let asked = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .output();
    let said = asked.ok().filter(|output| output.status.success());
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    vec![judge_clock(said.as_deref())]
}

fn judge_clock(said: Option<&str>) -> Finding {
    match said {
        Some("yes") => Finding::well(CLOCK, "it is synchronised"),
        Some("no") => Finding::mind(
            CLOCK,
            "nothing keeps it right",
            "install and start a time service, such as systemd-timesyncd or chrony",
        ),
        _ => Finding::new(
            CLOCK,
            Verdict::Unknown,
            "systemd does not say whether it is synchronised",
            Some(
                "see that a time service runs, with `timedatectl` or `chronyc tracking`".to_owned(),
            ),
        ),
    }
}

/// The findings for the disk of a data directory, which need not exist yet.
pub(super) fn disk(data: &Path) -> Vec<Finding> {
    let Some(there) = data.ancestors().find(|path| path.exists()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if there != data {
        let what = format!("{} is not there yet", data.display());
        found.push(Finding::unknown(DISK, what));
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if let Ok(whole) = there.canonicalize() {
        found.extend(judge_mount(&mounts, &whole));
    }
    match nix::sys::statvfs::statvfs(there) {
        Ok(space) if space.blocks() == 0 => found.push(Finding::mend(
            DISK,
            format!(
                "{} is on a file system without space for anything",
                there.display()
            ),
            "choose a data directory on a local disk (ext4, xfs, btrfs)",
        )),
        Ok(space) => {
            let fragment = space.fragment_size();
            let (total, free) = (
                space.blocks() * fragment,
                space.blocks_available() * fragment,
            );
            found.push(judge_space(total, free));
        }
        Err(error) => found.push(Finding::unknown(
            DISK,
            format!("its space cannot be read: {error}"),
        )),
    }
    found
}

fn judge_space(total: u64, free: u64) -> Finding {
    let what = format!("{} of {} are free", size(free), size(total));
    match free < LITTLE_BYTES.min(total / LITTLE_PART) {
        true => Finding::mend(
            DISK,
            what,
            "make space before clients get ENOSPC; `du -xsh` shows what takes it",
        ),
        false => Finding::well(DISK, what),
    }
}

/// The finding for the file system of a path: the last mounted one that contains it.
fn judge_mount(mounts: &str, place: &Path) -> Option<Finding> {
    let lines = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind, options) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        place.starts_with(at).then_some((at, kind, options))
    });
    let (at, kind, options) = lines.max_by_key(|(at, ..)| Path::new(at).components().count())?;
    if options.split(',').any(|option| option == "ro") {
        let what = format!("{at} is mounted read-only");
        let remedy =
            "look at `dmesg`: the kernel may have made it so after an error; mount it writable";
        return Some(Finding::mend(DISK, what, remedy));
    }
    Some(match UNSUITABLE.contains(&kind) {
        true => Finding::mend(
            DISK,
            format!("the data would lie on {kind} ({at})"),
            "choose a data directory on a local disk (ext4, xfs, btrfs): what is answered has to be on stable storage",
        ),
        false => Finding::well(DISK, format!("{kind}, mounted at {at}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_that_cannot_keep_data_are_told() {
        let mounts = "/dev/a / ext4 rw,relatime 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/b /srv xfs ro,noatime 0 0\n";
        let told = |place: &str| judge_mount(mounts, Path::new(place)).unwrap().verdict;
        assert_eq!(told("/var/lib/meridian"), Verdict::Well);
        assert_eq!(told("/run/meridian"), Verdict::Mend);
        assert_eq!(told("/srv/meridian"), Verdict::Mend);
        assert_eq!(told("/running"), Verdict::Well);
        assert_eq!(judge_space(100 << 30, 50 << 30).verdict, Verdict::Well);
        assert_eq!(judge_space(100 << 30, 1 << 30).verdict, Verdict::Mend);
        assert_eq!(judge_space(1 << 40, 11 << 30).verdict, Verdict::Well);
    }

    #[test]
    fn a_place_that_keeps_nothing_is_told() {
        for place in ["/proc/nothing", "/sys/nothing"] {
            let found = disk(Path::new(place));
            assert!(found.iter().any(|finding| finding.verdict == Verdict::Mend));
            assert!(found.iter().all(|finding| finding.verdict != Verdict::Well));
        }
    }

    #[test]
    fn a_clock_that_nobody_keeps_is_told() {
        assert_eq!(judge_clock(Some("yes")).verdict, Verdict::Well);
        assert_eq!(judge_clock(Some("no")).verdict, Verdict::Mind);
        assert_eq!(judge_clock(None).verdict, Verdict::Unknown);
    }
}
