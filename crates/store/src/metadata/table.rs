//! The tables of the store, with their numbers on the disk.
//!
//! What must never enter: how rows are kept.

/// `docs/disk-format.md` describes the content of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Table {
    /// Object id → attributes.
    Objects = 1,
    /// Directory, hash of the name → the names with that hash and their objects.
    Entries = 2,
    /// Object, directory, cookie → nothing: the names of an object.
    Links = 3,
    /// Object, hash of the name, index → extended attribute.
    Xattrs = 4,
    /// Object id → home, and whether its home is lost: files without a name that are, or may be, open.
    Orphans = 5,
    /// Object id → placement, or nothing: removed objects whose data is still there.
    Removals = 6,
    /// Object id → kind of mark: files whose data may not be stable.
    Dirty = 7,
    /// Position → rows changed by one operation, for replicas.
    Updates = 8,
    /// Name → one fact about the whole store.
    System = 9,
    /// Table, key, number → a piece of a row that is too long for one value. Only this module uses it.
    Pieces = 10,
    /// Object id, number → offset and bytes: small writes whose data file is not stable yet.
    Kept = 11,
    /// Any short key → a row of the layers above the store.
    Facts = 12,
    /// Object id → nothing: files whose data other replicas may not have.
    Unshipped = 13,
    /// Replica slot → position of the last update of that replica that was applied.
    Applied = 14,
    /// Object id → nothing: files that were dirty at a crash; other replicas may have other data of them.
    Recovered = 15,
    /// Object id → byte-range locks, if there are other replicas. Lookups use memory.
    Locks = 16,
    /// Object id → opens that deny access to others; likewise.
    Denials = 17,
    /// Object id, replica slot → which of that primary's data of the file has arrived.
    Incomplete = 18,
    /// Object id → the version that its data file holds, while the rows are being replaced.
    Remembered = 19,
    /// Object id → nothing: files whose content has to be fetched after the rows were replaced.
    Unfetched = 20,
    /// Object id → version, size and digest of a file's content at the last check.
    Digests = 21,
    /// Object id → nothing: files whose content the disk has changed.
    Damaged = 22,
    /// Object id → nothing: files whose rows mark them as torn.
    Torn = 23,
    /// Series of requests → the result of the last one that changed something.
    Requests = 24,
    /// Object id, number of a group of blocks → checksums of the written blocks.
    Sums = 25,
    /// Object id → nothing: files whose rows of checksums are void and are being removed.
    Voided = 26,
}

impl Table {
    pub(crate) fn from_tag(tag: u8) -> Option<Table> {
        use Table::*;
        [
            Objects, Entries, Links, Xattrs, Orphans, Removals, Dirty, Updates, System, Kept,
            Facts, Unshipped, Applied, Recovered, Locks, Denials, Incomplete, Remembered,
            Unfetched, Digests, Damaged, Torn, Requests, Sums, Voided,
        ]
        .into_iter()
        .find(|table| *table as u8 == tag)
    }
}
