//! Directories that move while another site works below.
//!
//! What must never enter: renames that one server alone decides.

use anyhow::{Result, ensure};

use crate::scene::{eventually, finish, in_sites, lines};

/// The writers stand in the directory, as a shell that has gone there does, and follow it.
pub fn a_directory_moves_while_another_site_writes_below() -> Result<()> {
    const FILES: usize = 60;
    in_sites(|sites| {
        sites.run(
            0,
            "mkdir -p /run/m/renames/{left,right} /run/m/renames/left/moved/below",
        )?;
        let writer = |below: &str, name: &str| {
            format!(
                "cd /run/m/renames/left/moved/{below} || exit 1
                 for n in {{1..{FILES}}}; do echo {name} $n > {name}-$n && echo $n || exit 1; done"
            )
        };
        let writers = [
            sites.start(1, writer("", "oslo"))?,
            sites.start(2, writer("below", "rome"))?,
        ];
        for writer in &writers {
            eventually("the writers work", || {
                Ok(lines(writer)? > 0 || !writer.is_running()?)
            })?;
        }
        // Where the directory ends depends on how often it moves while they write.
        let mut moves = 0;
        while writers[0].is_running()? || writers[1].is_running()? {
            let (from, to) = [("left", "right"), ("right", "left")][moves % 2];
            sites.run(
                0,
                format!("mv /run/m/renames/{from}/moved /run/m/renames/{to}/"),
            )?;
            moves += 1;
        }
        for writer in &writers {
            finish(writer)?;
        }
        ensure!(moves > 1, "nothing moved while they wrote");
        let seen = sites.equal_everywhere("renames")?;
        let place = ["left", "right"][moves % 2];
        for number in 1..=FILES {
            for file in [format!("oslo-{number}"), format!("below/rome-{number}")] {
                let wanted = format!("{place}/moved/{file} f ");
                let found = seen.lines().any(|line| line.starts_with(&wanted));
                ensure!(found, "{file} is lost after {moves} moves:\n{seen}");
            }
        }
        Ok(())
    })
}
