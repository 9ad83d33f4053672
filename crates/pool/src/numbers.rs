//! Numbers that name things of a pool. None is ever used for another thing of its kind.

use std::fmt;

use vfs::ObjectId;

/// A pool: the data servers and metadata servers of one site. Drawn at random when the pool is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64);

impl fmt::Debug for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolId({:016x})", self.0)
    }
}

/// A data server of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataServerNumber(pub u16);

/// A home of a pool: what a metadata server decides about the objects that were made there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HomeNumber(pub u16);

impl HomeNumber {
    /// That of the first metadata server of a pool.
    pub const FIRST: HomeNumber = HomeNumber(1);

    /// Whether this home may speak of contents of an object, and seal handles for them. Objects that live at a joined home carry its number, and it
    /// has no others. Where a member of a set keeps its contents in a pool, the first home has objects of every member.
    #[must_use]
    pub fn may_speak_of(self, object: ObjectId) -> bool {
        self == HomeNumber::FIRST || object.slot().0 == self.0
    }
}

/// Counts the starts of a home, and whatever else makes it fence all that it gave out. What was issued under an older number
/// is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IssueNumber(pub u64);

/// Counts the placements of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementNumber(pub u32);

/// Counts how often a placement was fenced. Handles of another generation, a newer one included, are worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// That of a placement which was never fenced.
    pub const FIRST: Generation = Generation(1);

    /// The next one.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0.saturating_add(1))
    }
}

/// A device group of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceGroupNumber(pub u32);

/// Counts the keys that one home seals handles with, over its starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNumber(pub u32);

impl KeyNumber {
    /// That of the next key. With a key a day none is ever the last.
    #[must_use]
    pub fn next(self) -> KeyNumber {
        KeyNumber(self.0.saturating_add(1))
    }
}
