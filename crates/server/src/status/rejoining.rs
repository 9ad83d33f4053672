//! How far a replica is on its way back into the view.
//!
//! What must never enter: how it is found out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::{duration, size};

/// How far a replica is on its way back into the view, or into a set that it has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejoinStatus {
    /// `by log`: it is sent the updates that it missed; `comparing`: the rows of all objects, to compare its own with;
    /// `contents`: the contents of files of which it has another version, or none.
    pub stage: String,
    /// Updates, objects or files, as the stage is, that it has got.
    pub objects_done: u64,
    /// Those that it lacks.
    pub objects_left: u64,
    /// Bytes that it was sent.
    pub bytes_done: u64,
    /// Bytes of contents that it lacks, at most; absent when nobody knows.
    pub bytes_left: Option<u64>,
    /// Until it lacks nothing, at the pace of the last minute; absent when it does not come nearer.
    pub seconds_left: Option<u64>,
}

impl From<replica::RejoinView> for RejoinStatus {
    fn from(view: replica::RejoinView) -> RejoinStatus {
        RejoinStatus {
            stage: view.stage.name().to_owned(),
            objects_done: view.objects_done,
            objects_left: view.objects_left,
            bytes_done: view.bytes_done,
            bytes_left: view.bytes_left,
            // Casts saturate.
            seconds_left: view.seconds_left.map(|seconds| seconds.ceil() as u64),
        }
    }
}

impl fmt::Display for RejoinStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.stage.as_str() {
            "by log" => "updates",
            "comparing" => "objects",
            _ => "files",
        };
        let total = self.objects_done.saturating_add(self.objects_left);
        let (done, sent) = (self.objects_done, size(self.bytes_done));
        write!(f, "{}: {done} of {total} {what}, {sent} sent", self.stage)?;
        if let Some(bytes) = self.bytes_left {
            write!(f, ", {} left", size(bytes))?;
        }
        match self.seconds_left {
            Some(seconds) => write!(f, ", about {} to go", duration(seconds)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl RejoinStatus {
    pub(crate) fn example() -> RejoinStatus {
        RejoinStatus {
            stage: "contents".to_owned(),
            objects_done: 3,
            objects_left: 7,
            bytes_done: 4 << 20,
            bytes_left: Some(6 << 20),
            seconds_left: Some(12),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_reads_well() {
        let mut status = RejoinStatus::example();
        let told = "contents: 3 of 10 files, 4.0 MiB sent, 6.0 MiB left, about 12 s to go";
        assert_eq!(status.to_string(), told);
        status.stage = "by log".to_owned();
        (status.bytes_left, status.seconds_left) = (None, None);
        let told = "by log: 3 of 10 updates, 4.0 MiB sent";
        assert_eq!(status.to_string(), told);
    }
}
