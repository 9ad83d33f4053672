//! The progress of a replica on its way back into the view, for people.
//!
//! What must never enter: how the progress is determined.

use std::fmt;

use replica::{RejoinView, Stage};

use super::text::{duration, size};

/// The progress of a replica on its way back into the view, or into a set that it has joined.
pub(crate) struct RejoinText<'s>(pub(crate) &'s RejoinView);

impl fmt::Display for RejoinText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RejoinText(rejoin) = self;
        let what = match rejoin.stage {
            Stage::ByLog => "updates",
            Stage::Comparing => "objects",
            Stage::Contents => "files",
        };
        let total = rejoin.objects_done.saturating_add(rejoin.objects_left);
        let (stage, done) = (rejoin.stage.name(), rejoin.objects_done);
        let sent = size(rejoin.bytes_done);
        write!(f, "{stage}: {done} of {total} {what}, {sent} sent")?;
        if let Some(bytes) = rejoin.bytes_left {
            write!(f, ", {} left", size(bytes))?;
        }
        match rejoin.seconds_left {
            Some(seconds) => write!(f, ", about {} to go", duration(seconds)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples;

    #[test]
    fn a_return_reads_well() {
        let mut rejoin = examples::rejoin();
        let told = "contents: 3 of 10 files, 4.0 MiB sent, 6.0 MiB left, about 12 s to go";
        assert_eq!(RejoinText(&rejoin).to_string(), told);
        rejoin.stage = Stage::ByLog;
        (rejoin.bytes_left, rejoin.seconds_left) = (None, None);
        let told = "by log: 3 of 10 updates, 4.0 MiB sent";
        assert_eq!(RejoinText(&rejoin).to_string(), told);
    }

    /// Scripts and older servers depend on these names.
    #[test]
    fn stages_travel_under_their_names() {
        for stage in [Stage::ByLog, Stage::Comparing, Stage::Contents] {
            let told = serde_json::to_value(stage).unwrap();
            assert_eq!(told, stage.name());
        }
    }
}
