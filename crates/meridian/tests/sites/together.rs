//! Several sites change one file, or one directory, at the same time.
//!
//! What must never enter: who is first.

use anyhow::{Result, ensure};

use crate::scene::{NAMES, in_sites, program};

/// Two sites lock with fcntl(2) and one with flock(2), which is the same lock over NFS.
pub fn lines_appended_under_a_lock_at_three_sites_are_all_there() -> Result<()> {
    const LINES: usize = 25;
    in_sites(|sites| {
        sites.run(0, "mkdir /run/m/together")?;
        let lines = LINES.to_string();
        sites.everywhere(|site| {
            let way = ["fcntl", "flock", "fcntl"][site];
            program(["append", "/run/m/together/log", way, NAMES[site], &lines])
        })?;
        sites.equal_everywhere("together")?;
        let log = sites.run(1, "cat /run/m/together/log")?.text();
        for name in NAMES {
            let own = log.lines().filter(|line| line.starts_with(name));
            let wanted = (0..LINES).map(|number| format!("{name} {number}"));
            ensure!(own.eq(wanted), "lines of {name} are lost:\n{log}");
        }
        ensure!(log.lines().count() == LINES * NAMES.len(), "{log}");
        Ok(())
    })
}

pub fn files_made_in_one_directory_at_three_sites_are_all_there() -> Result<()> {
    const FILES: usize = 40;
    in_sites(|sites| {
        sites.run(2, "mkdir /run/m/crowd")?;
        // The shell makes files without a fork, which costs a guest most.
        sites.everywhere(|site| {
            let name = NAMES[site];
            format!(
                "cd /run/m/crowd
                 for n in {{1..{FILES}}}; do echo {name} $n > {name}-$n || exit 1; done
                 rm {name}-1 && mv {name}-2 {name}-moved"
            )
        })?;
        sites.equal_everywhere("crowd")?;
        for (site, here) in NAMES.iter().enumerate() {
            let mut names: Vec<String> = Vec::new();
            for name in NAMES {
                names.push(format!("{name}-moved"));
                names.extend((3..=FILES).map(|number| format!("{name}-{number}")));
            }
            names.sort();
            let listed = sites
                .run(site, "ls -A /run/w/crowd | LC_ALL=C sort")?
                .text();
            let listed: Vec<&str> = listed.lines().collect();
            ensure!(listed == names, "{here} lists {listed:?}");
        }
        let sum = "cat /run/w/crowd/* | wc -l";
        let lines = sites.run(1, sum)?.text();
        ensure!(lines.trim() == ((FILES - 1) * NAMES.len()).to_string());
        Ok(())
    })
}
