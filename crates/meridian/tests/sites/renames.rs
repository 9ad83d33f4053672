//! Directories that move while another site works below.
//!
//! What must never enter: renames that one server alone decides.

use anyhow::{Context, Result, ensure};
use testbed::Signal;

use crate::scene::{NAMES, PATIENCE, in_sites, lines, more};

/// The writers stand in the directory, as a shell that has gone there does, and follow it.
pub fn a_directory_moves_while_another_site_writes_below() -> Result<()> {
    in_sites(|sites| {
        sites.run(
            0,
            "mkdir -p /run/m/renames/{left,right} /run/m/renames/left/moved/below",
        )?;
        let writer = |site: usize, folder: &str| {
            let name = NAMES[site];
            let write = format!(
                "cd /run/m/renames/left/{folder} || exit 1
                 for ((n = 0; ; n++)); do echo {name} $n > {name}-$n && echo $n || exit 1; done"
            );
            sites.start(site, write)
        };
        let writers = [writer(1, "moved")?, writer(2, "moved/below")?];
        for (from, to) in [("left", "right"), ("right", "left")] {
            writers.iter().try_for_each(more)?;
            sites.run(
                0,
                format!("mv /run/m/renames/{from}/moved /run/m/renames/{to}/"),
            )?;
        }
        writers.iter().try_for_each(more)?;
        for writer in &writers {
            writer.signal(Signal::KILL)?;
            writer.wait(PATIENCE)?.context("a killed program ends")?;
        }
        let seen = sites.equal_everywhere("renames")?;
        for (writer, file) in writers.iter().zip(["oslo", "below/rome"]) {
            for number in 0..lines(writer)? {
                let wanted = format!("left/moved/{file}-{number} f ");
                let found = seen.lines().any(|line| line.starts_with(&wanted));
                ensure!(found, "{wanted}is lost:\n{seen}");
            }
        }
        Ok(())
    })
}
