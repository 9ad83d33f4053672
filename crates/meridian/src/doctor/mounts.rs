//! The NFS mounts of this machine, and options that take away guarantees for users.
//!
//! What must never enter: mounting.

use std::fs;

use super::finding::Finding;

const ABOUT: &str = "mounts";

/// A mount of NFS version 4 in `/proc/self/mounts`.
struct Mount<'t> {
    place: &'t str,
    options: Vec<&'t str>,
}

impl Mount<'_> {
    fn has(&self, option: &str) -> bool {
        self.options.contains(&option)
    }

    fn value(&self, key: &str) -> Option<&str> {
        let mut options = self.options.iter();
        options.find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    }
}

/// The findings for the mounts of this machine.
pub(super) fn local() -> Vec<Finding> {
    match fs::read_to_string("/proc/self/mounts") {
        Ok(mounts) => findings(&mounts),
        Err(error) => vec![Finding::unknown(
            ABOUT,
            format!("they cannot be read: {error}"),
        )],
    }
}

fn findings(mounts: &str) -> Vec<Finding> {
    let lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mounts = lines.filter_map(|fields| match fields[..] {
        [_, place, "nfs4", options, ..] => Some(Mount {
            place,
            options: options.split(',').collect(),
        }),
        _ => None,
    });
    mounts.flat_map(|mount| of_one(&mount)).collect()
}

fn of_one(mount: &Mount<'_>) -> Vec<Finding> {
    let place = mount.place;
    let mut found = Vec::new();
    let version = mount.value("vers").unwrap_or("4");
    if !matches!(version, "4.1" | "4.2") {
        let what = format!("{place} is mounted with NFS {version}, which Meridian does not speak");
        found.push(Finding::mind(
            ABOUT,
            what,
            "if it is a Meridian server, mount it with -o vers=4.2",
        ));
    }
    if mount.has("soft") || mount.has("softerr") {
        found.push(Finding::mend(
            ABOUT,
            format!("{place} is mounted soft: programs get errors, and may lose what they wrote, when a server takes long to answer, as when it is restarted"),
            "mount it without `soft` and `softerr`",
        ));
    }
    if mount.has("noresvport") {
        found.push(Finding::mind(
            ABOUT,
            format!("{place} is mounted with noresvport: the client calls from ports that servers do not believe by default"),
            "mount it without `noresvport`, or write `secure = false` for this client in [[export.allow]]",
        ));
    }
    if mount.value("local_lock").is_some_and(|kind| kind != "none") {
        found.push(Finding::mend(
            ABOUT,
            format!("{place} keeps locks to this machine, so programs elsewhere do not see them"),
            "mount it without `local_lock` and `nolock`",
        ));
    }
    if mount.has("nocto") {
        found.push(Finding::mend(
            ABOUT,
            format!("{place} is mounted with nocto: what others have closed is not seen when it is opened here"),
            "mount it without `nocto`",
        ));
    }
    if found.is_empty() {
        found.push(Finding::well(ABOUT, format!("{place}: NFS {version}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn options_that_break_promises_are_told() {
        let told = |options: &str| -> Vec<Verdict> {
            let line = format!("alpha:/export /mnt nfs4 rw,{options} 0 0");
            findings(&line)
                .iter()
                .map(|finding| finding.verdict)
                .collect()
        };
        assert_eq!(told("vers=4.2,hard,local_lock=none"), [Verdict::Well]);
        assert_eq!(told("vers=4.0,hard"), [Verdict::Mind]);
        assert_eq!(told("vers=4.2,soft"), [Verdict::Mend]);
        assert_eq!(told("vers=4.2,noresvport"), [Verdict::Mind]);
        assert_eq!(
            told("vers=4.2,local_lock=all,nocto"),
            [Verdict::Mend, Verdict::Mend]
        );
        assert!(findings("/dev/vda / ext4 rw 0 0\nx /y nfs rw,vers=3 0 0").is_empty());
    }
}
