//! One mark: which data of a file is missing here, and its row.
//!
//! What must never enter: which files are marked (`incomplete`).

use fields::Fields;

use crate::malformed::Malformed;
use crate::rows::key;

const VERSION: u8 = 2;
/// Marks of this version do not record the version that they follow.
const WITHOUT_BEFORE: u8 = 1;

/// What is here of the version before the one of which data is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionBefore {
    /// All of it, up to this size: nothing of the missing data has arrived.
    Whole(u64),
    /// Some of the missing data has replaced it, or it was not complete.
    Partial,
    /// The store was opened since, or the data is a copy of another replica's.
    #[default]
    Unknown,
}

/// Which data of a file is missing, as positions in the stream of one primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// All data of updates up to this position has arrived.
    pub(super) complete_through: u64,
    /// The last update whose data may be missing.
    pub(super) marked_at: u64,
    /// The version of the file before the first such update; 0 if unknown.
    pub(super) follows: u64,
    /// The last such update that did not follow its predecessor directly, because another primary or an update without data had changed the
    /// file in between: its position and the version before it.
    pub(super) resumed: (u64, u64),
    /// The version after the last such update.
    pub(super) version: u64,
    /// The data was here and a copy without it replaced it. Reports of the primary count only after a request to send the data again.
    pub(super) given_way: bool,
    /// Only in memory.
    pub(super) before: VersionBefore,
}

impl Mark {
    pub(super) fn decode(row: &[u8]) -> std::result::Result<Mark, Malformed> {
        let mut fields = Fields::new(row);
        let version = fields.u8()?;
        if ![VERSION, WITHOUT_BEFORE].contains(&version) {
            return Err(Malformed(
                "the version of a mark of missing data is unknown",
            ));
        }
        let mut mark = Mark {
            complete_through: fields.u64()?,
            marked_at: fields.u64()?,
            ..Mark::default()
        };
        if version != WITHOUT_BEFORE {
            mark.follows = fields.u64()?;
            mark.resumed = (fields.u64()?, fields.u64()?);
            mark.version = fields.u64()?;
            mark.given_way = fields.u8()? != 0;
        }
        fields.end()?;
        Ok(mark)
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let (through, at) = (self.complete_through, self.marked_at);
        let (resumed_at, resumed) = self.resumed;
        let numbers = [through, at, self.follows, resumed_at, resumed, self.version];
        let numbers = numbers.map(key::number).concat();
        [&[VERSION][..], &numbers, &[u8::from(self.given_way)]].concat()
    }

    /// The mark after an update that gives the file this size: data that is cut off no longer belongs to the version before.
    pub(super) fn resized(self, size: u64) -> Mark {
        let before = match self.before {
            _ if size == 0 => VersionBefore::Whole(0),
            VersionBefore::Whole(whole) if whole > size => VersionBefore::Partial,
            before => before,
        };
        Mark { before, ..self }
    }

    /// The mark when a copy that lacks this data is about to replace the local data, which lacks some already.
    pub(super) fn reaching_back_to(self, through: u64, at: u64, follows: u64) -> Mark {
        // The earlier of both; if both begin at the same position, the one with the earlier version.
        let begins = (self.complete_through, self.follows);
        let (complete_through, follows) = begins.min((through, follows));
        Mark {
            complete_through,
            follows,
            marked_at: at.max(self.marked_at),
            given_way: true,
            before: VersionBefore::Unknown,
            ..self
        }
    }

    /// What remains marked once everything up to a position has arrived; `None` if nothing.
    pub(super) fn after(self, position: u64) -> Option<Mark> {
        let (resumed_at, resumed) = self.resumed;
        (position < self.marked_at).then_some(Mark {
            complete_through: position.max(self.complete_through),
            follows: match position >= resumed_at {
                true => resumed,
                false => self.follows,
            },
            ..self
        })
    }
}
