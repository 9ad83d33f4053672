//! Reading a directory page by page while it changes.

use std::collections::BTreeSet;

use crate::{Attributes, ChangeAttribute, Name};
use serde::{Deserialize, Serialize};

/// A place in a directory from which reading continues.
///
/// A cookie belongs to a name, not to a position: it stays valid when other entries come and go, and
/// is the same at every replica. [`Cookie::START`] is before the first entry; real cookies are
/// at least [`Cookie::FIRST`] (RFC 8881, section 18.23.3 reserves 0, 1 and 2) and below 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Before the first entry.
    pub const START: Cookie = Cookie(0);
    /// The smallest cookie an entry can have.
    pub const FIRST: Cookie = Cookie(3);
}

/// One entry of a directory, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Reading after this cookie continues after the entry.
    pub cookie: Cookie,
    /// The entry's name.
    pub name: Name,
    /// The object it leads to.
    pub attributes: Attributes,
}

/// Consecutive entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryPage {
    /// The entries, in cookie order.
    pub entries: Vec<DirectoryEntry>,
    /// Whether no entry follows the last one.
    pub end: bool,
    /// The cookies of entries whose attributes are unknown now, because the server that has them is away. Their attributes here are
    /// outdated, except identifier and kind. This field is not transmitted.
    #[serde(skip)]
    pub unread: BTreeSet<Cookie>,
}

/// A directory's version around a change made in it (RFC 8881, section 3.3.3, `change_info4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryChange {
    /// The version just before.
    pub before: ChangeAttribute,
    /// The version just after. Nothing else changed the directory in between.
    pub after: ChangeAttribute,
}
