//! How to start a server on a data directory, and how to run commands there: with the package's unit and user, or by hand.
//!
//! What must never enter: starting anything.

use std::path::Path;

use crate::configuration::DEFAULT_DATA;

/// Where systemd finds a unit of a package or of an administrator.
const UNITS: [&str; 3] = [
    "/etc/systemd/system/meridian.service",
    "/usr/lib/systemd/system/meridian.service",
    "/lib/systemd/system/meridian.service",
];

/// Exists while systemd runs the machine, see sd_booted(3). It does not exist in a container, although the package has a unit there too.
const SYSTEMD: &str = "/run/systemd/system";

/// The right commands for a data directory on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Commands<'d> {
    data: &'d Path,
    /// Whether the unit serves this directory.
    by_unit: bool,
}

impl<'d> Commands<'d> {
    /// The commands for a data directory, which need not exist.
    pub fn on(data: &'d Path) -> Commands<'d> {
        let usual = Path::new(DEFAULT_DATA);
        let same = || Some(data.canonicalize().ok()? == usual.canonicalize().ok()?);
        let is_usual = data == usual || same().unwrap_or(false);
        Commands {
            data,
            by_unit: is_usual
                && Path::new(SYSTEMD).exists()
                && UNITS.iter().any(|unit| Path::new(unit).exists()),
        }
    }

    /// The command that starts the server.
    pub fn start(&self) -> String {
        match self.by_unit {
            true => "sudo systemctl enable --now meridian".to_owned(),
            false => format!("meridian serve --data {}", self.data.display()),
        }
    }

    /// A command for another machine with the same kind of installation: with the package or without it.
    pub fn elsewhere(&self, words: &str) -> String {
        match self.by_unit {
            true => self.command(words),
            false => format!("meridian {words} --data DIR"),
        }
    }

    /// A command of this program that changes the directory, such as `set invite`.
    pub fn command(&self, words: &str) -> String {
        match self.by_unit {
            true => format!("sudo -u meridian meridian {words}"),
            false => format!("meridian {words} --data {}", self.data.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_unit_serves_it_is_what_one_starts() {
        let told = |data: &str, by_unit| {
            let commands = Commands {
                data: Path::new(data),
                by_unit,
            };
            [
                commands.start(),
                commands.command("set invite"),
                commands.elsewhere("set join"),
            ]
        };
        let by_hand = [
            "meridian serve --data /srv/m",
            "meridian set invite --data /srv/m",
            "meridian set join --data DIR",
        ];
        assert_eq!(told("/srv/m", false), by_hand);
        let by_unit = [
            "sudo systemctl enable --now meridian",
            "sudo -u meridian meridian set invite",
            "sudo -u meridian meridian set join",
        ];
        assert_eq!(told(DEFAULT_DATA, true), by_unit);
    }

    #[test]
    fn a_unit_serves_no_other_directory() {
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(!Commands::on(elsewhere.path()).by_unit);
    }
}
