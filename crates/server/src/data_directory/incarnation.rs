//! A number that differs at every start of the server, so that clients notice the restart and old identifiers are not
//! mistaken for new ones.
//!
//! The number grows by at least one at each start and is never below the clock (seconds since 1970). The file is enough
//! if the clock jumps back. The clock is enough if the file is lost.

use std::path::Path;

use super::sealed_file::{self, Kind, SealedFileError};

const KIND: Kind = Kind {
    name: "incarnation",
    format: 1,
};

/// The number of this start, already on stable storage. `clock` is the time in seconds since 1970.
pub(super) fn next(path: &Path, clock: u32) -> Result<u32, SealedFileError> {
    let last = match last(path) {
        Ok(last) => Some(last),
        Err(error) if error.is_missing() => None,
        Err(error @ SealedFileError::Damaged { .. }) => {
            tracing::warn!(%error, "the clock takes the place of the last incarnation");
            None
        }
        Err(error) => return Err(error),
    };
    let next = after(last, clock);
    sealed_file::write(path, KIND, format!("{next}\n").as_bytes())?;
    Ok(next)
}

/// The number of the last start.
pub(super) fn last(path: &Path) -> Result<u32, SealedFileError> {
    let content = sealed_file::read(path, KIND)?;
    let number = std::str::from_utf8(&content)
        .ok()
        .and_then(|text| text.trim_end().parse().ok());
    let what = "it holds no number";
    number.ok_or_else(|| SealedFileError::Damaged {
        path: path.to_owned(),
        what,
    })
}

/// Starts again at 1 after the largest number, because 0 means no incarnation.
fn after(last: Option<u32>, clock: u32) -> u32 {
    match last {
        Some(last) => last.checked_add(1).map_or(1, |next| next.max(clock)),
        None => clock.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_whatever_the_clock_does() {
        assert_eq!(after(None, 1000), 1000);
        assert_eq!(after(Some(1000), 1000), 1001);
        assert_eq!(after(Some(1000), 5), 1001);
        assert_eq!(after(Some(1000), 2000), 2000);
        assert_eq!(after(Some(u32::MAX), 2000), 1);
        assert_eq!(after(None, 0), 1);
    }

    #[test]
    fn a_lost_or_damaged_file_gives_way_to_the_clock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("incarnation");
        assert_eq!(next(&path, 100).unwrap(), 100);
        assert_eq!(next(&path, 100).unwrap(), 101);
        std::fs::write(&path, b"rubbish").unwrap();
        assert_eq!(next(&path, 200).unwrap(), 200);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(next(&path, 300).unwrap(), 300);
        assert_eq!(next(&path, 100).unwrap(), 301);
    }
}
