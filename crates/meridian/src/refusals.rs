//! Limits the logged refusals of a program that is started for each request: a user with many requests must not fill a log.
//!
//! What must never enter: what was refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// The maximum number of logged refusals per minute.
pub(crate) const TOLD_MAX: u64 = 20;

/// An upper bound for the length of a tally: two numbers of 20 digits.
const TALLY_BYTES: u64 = 64;

/// What to log about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// The refused request, and why.
    Why,
    /// The same, and that it is the last one in this minute.
    WhyAndNoMore,
    /// Nothing.
    Nothing,
}

/// Counts a refusal in a file of the program's user. If that fails, the refusal is logged.
pub(crate) fn count(file: &Path) -> Telling {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let minute = since_1970.map_or(0, |time| time.as_secs() / 60);
    count_in(file, minute).unwrap_or(Telling::Why)
}

fn count_in(file: &Path, minute: u64) -> io::Result<Telling> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file: File = options.mode(0o600).open(file)?;
    // Several refusals may happen at the same time. The end of the process releases the lock.
    file.lock()?;
    let mut tally = String::new();
    // An invalid tally, such as bytes that are not text, does not count for this minute.
    let _ = (&file).take(TALLY_BYTES).read_to_string(&mut tally);
    let times = 1 + before(&tally, minute);
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{minute} {times}")?;
    Ok(match times {
        ..TOLD_MAX => Telling::Why,
        TOLD_MAX => Telling::WhyAndNoMore,
        _ => Telling::Nothing,
    })
}

/// The number of refusals in this minute by a tally.
fn before(tally: &str, minute: u64) -> u64 {
    let number = |text: &str| text.parse::<u64>().ok();
    match tally
        .split_once(' ')
        .map(|(at, times)| (number(at), number(times)))
    {
        Some((Some(at), Some(times))) if at == minute => times.min(TOLD_MAX),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_told_in_each_minute_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tally");
        for minute in [7, 8] {
            let told: Vec<Telling> = (0..300).map(|_| count_in(&file, minute).unwrap()).collect();
            let (why, nothing) = told.split_at(20);
            assert!(why[..19].iter().all(|one| *one == Telling::Why));
            assert_eq!(why[19], Telling::WhyAndNoMore);
            assert!(nothing.iter().all(|one| *one == Telling::Nothing));
        }
        assert!(std::fs::metadata(&file).unwrap().len() < TALLY_BYTES);
    }

    #[test]
    fn what_is_no_tally_hides_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tally");
        for content in [
            &b""[..],
            b"7",
            b"7 -1",
            b"7 99999999999999999999999",
            b"\xff\xff",
            &[b'7'; 4096],
        ] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(count_in(&file, 7).unwrap(), Telling::Why, "{content:?}");
        }
        assert_eq!(count(directory.path()), Telling::Why);
    }
}
