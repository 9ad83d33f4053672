//! A status for people.
//!
//! What must never enter: collecting a status.

use std::fmt;

use vfs::Counted;

use super::replication::ReplicaText;
use super::{ExportStatus, Status};

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listen: Vec<String> = self.listen.iter().map(ToString::to_string).collect();
        let metrics = self
            .metrics
            .map_or("off".to_owned(), |at| format!("http://{at}/metrics"));
        let page = self
            .page
            .map_or("off".to_owned(), |at| format!("http://{at}/"));
        let grace = if self.in_grace {
            "yes: clients reclaim what they held"
        } else {
            "no"
        };
        let (version, build) = (&self.version, &self.build);
        writeln!(f, "Meridian {version} ({build}), process {}", self.process)?;
        writeln!(f, "  up           {}", duration(self.uptime_seconds))?;
        writeln!(f, "  data         {}", self.data.display())?;
        writeln!(f, "  listening    {}", listen.join(", "))?;
        writeln!(f, "  metrics      {metrics}")?;
        writeln!(f, "  page         {page}")?;
        writeln!(f, "  commit       {}", self.commit)?;
        writeln!(f, "  grace        {grace}")?;
        writeln!(
            f,
            "  clients      {} ({}, {})",
            self.clients,
            Counted(self.sessions, "session"),
            Counted(self.connections, "connection")
        )?;
        writeln!(
            f,
            "  state        {}, {}",
            Counted(self.opens, "open"),
            Counted(self.locks, "lock")
        )?;
        write!(f, "  operations   {}", self.operations)?;
        for alarm in &self.alarms {
            write!(f, "\n  ALARM        {alarm}")?;
        }
        if let Some(pool) = &self.pool {
            write!(f, "\n{pool}")?;
        }
        self.exports
            .iter()
            .try_for_each(|export| write!(f, "\n{export}"))
    }
}

impl fmt::Display for ExportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (available, total) = (self.space.available_bytes, self.space.total_bytes);
        let replication = self.replication.as_ref();
        let withheld = match replication.is_some_and(|replication| replication.witness) {
            true => ", not shown to clients: this server is a witness",
            false => "",
        };
        writeln!(f, "export {}{withheld}", self.path)?;
        writeln!(f, "  tree         {} ({})", self.tree, self.fs_id)?;
        writeln!(
            f,
            "  space        {} of {} available",
            size(available),
            size(total)
        )?;
        write!(f, "  objects      {}", self.store.objects)?;
        if self.store.failed {
            write!(f, "\n  FAILED       stable storage has failed; see the log")?;
        }
        match &self.replication {
            Some(replication) => write!(f, "\n{}", ReplicaText(replication)),
            None => Ok(()),
        }
    }
}

pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A moment in seconds since 1970, as a calendar date and time.
#[must_use]
pub fn moment(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Years that begin in March end with the leap day. One of their cycles of 400 years began 719,468 days before 1970.
    let day = days + 719_468;
    let (cycle, of_cycle) = (day / 146_097, day % 146_097);
    let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = 400 * cycle + year_of_cycle + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A number of bytes, rounded to about three digits.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        unit => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_well() {
        assert_eq!(
            Status::example().to_string(),
            "Meridian 0.1.0 (0123456789ab), process 4242
  up           1 d 2 h
  data         /var/lib/meridian
  listening    127.0.0.1:2049
  metrics      off
  page         off
  commit       sync
  grace        yes: clients reclaim what they held
  clients      1 (1 session, 2 connections)
  state        3 opens, 0 locks
  operations   1000
export /export
  tree         default (0000000000000001:0000000000000002)
  space        3.7 GiB of 10.0 GiB available
  objects      12"
        );
    }

    #[test]
    fn figures_are_rounded_down_to_something_short() {
        for (seconds, text) in [
            (0, "0 s"),
            (61, "1 min 1 s"),
            (7_260, "2 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(unix_s), text);
        }
        for (bytes, text) in [(1023, "1023 B"), (1024, "1.0 KiB"), (1 << 40, "1.0 TiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
