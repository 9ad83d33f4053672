//! Numbers that name things of a pool. No number is used again for another thing of its kind.

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

/// A home of a pool: the part of a metadata server that decides about the objects made there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HomeNumber(pub u16);

impl HomeNumber {
    /// The home of the first metadata server of a pool.
    pub const FIRST: HomeNumber = HomeNumber(1);

    /// Whether this home may make requests about contents of an object, and seal handles for them. Objects of a joined home carry its number, and it
    /// has no others. If a set keeps its contents in a pool, the first home has objects of every member.
    #[must_use]
    pub fn may_speak_of(self, object: ObjectId) -> bool {
        self == HomeNumber::FIRST || object.slot().0 == self.0
    }
}

/// Counts the starts of a home, and the other times when it fences all handles and leases that it gave out. What was issued under an older number
/// is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IssueNumber(pub u64);

/// Counts the placements of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementNumber(pub u32);

/// Counts how often a placement was fenced. Handles of another generation, older or newer, are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of a placement that was never fenced.
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

/// Counts the keys with which one home seals handles, over all its starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNumber(pub u32);

impl KeyNumber {
    /// The number of the next key. At one key a day, the numbers do not run out.
    #[must_use]
    pub fn next(self) -> KeyNumber {
        KeyNumber(self.0.saturating_add(1))
    }
}
