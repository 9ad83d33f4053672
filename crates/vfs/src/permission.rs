//! POSIX permission rules, as pure functions of attributes and credentials.
//!
//! Every implementation of [`crate::FileSystem`] uses these rules, so that all replicas agree.

use crate::{Attributes, Credentials};

/// Bit of a mode's permission triple: read a file, list a directory.
pub const READ: u32 = 4;
/// Bit of a mode's permission triple: write a file, change a directory's entries.
pub const WRITE: u32 = 2;
/// Bit of a mode's permission triple: execute a file, search a directory.
pub const EXECUTE: u32 = 1;

/// Set-user-id bit.
pub const SET_USER_ID: u32 = 0o4000;
/// Set-group-id bit.
pub const SET_GROUP_ID: u32 = 0o2000;
/// Sticky bit.
pub const STICKY: u32 = 0o1000;
/// All bits of a mode that can be set.
pub const MODE_MASK: u32 = 0o7777;

/// The permission triple (a sum of [`READ`], [`WRITE`], [`EXECUTE`]) that `who` has on an object.
///
/// The superuser may read and write everything, search every directory, and execute a file if
/// any user may execute it.
#[must_use]
pub fn granted(who: &Credentials, object: &Attributes) -> u32 {
    if who.is_root() {
        let executable = object.is_directory() || object.mode & 0o111 != 0;
        return READ | WRITE | if executable { EXECUTE } else { 0 };
    }
    let shift = if who.user == object.owner {
        6
    } else if who.is_member(object.group) {
        3
    } else {
        0
    };
    (object.mode >> shift) & 7
}

/// Whether `who` has every bit of `wanted` on an object.
#[must_use]
pub fn allows(who: &Credentials, object: &Attributes, wanted: u32) -> bool {
    granted(who, object) & wanted == wanted
}

/// Whether `who` counts as the owner for changes that only the owner may make in POSIX.
#[must_use]
pub fn is_owner(who: &Credentials, object: &Attributes) -> bool {
    who.is_root() || who.user == object.owner
}

/// Whether the sticky bit of `directory` forbids `who` to remove or rename `entry` in it.
#[must_use]
pub fn sticky_forbids(who: &Credentials, directory: &Attributes, entry: &Attributes) -> bool {
    directory.mode & STICKY != 0 && !is_owner(who, directory) && !is_owner(who, entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChangeAttribute, ObjectId, ObjectKind, Timestamp};
    use std::sync::Arc;

    fn object(kind: ObjectKind, mode: u32, owner: u32, group: u32) -> Attributes {
        Attributes {
            id: ObjectId::ROOT,
            kind,
            mode,
            links: 1,
            owner,
            group,
            size: 0,
            space_used: 0,
            change: ChangeAttribute(1),
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            created: Timestamp::default(),
        }
    }

    fn user(user: u32, group: u32, groups: &[u32]) -> Credentials {
        Credentials {
            user,
            group,
            groups: Arc::from(groups),
            request: None,
        }
    }

    #[test]
    fn the_first_matching_class_decides_even_when_it_grants_less() {
        let file = object(ObjectKind::File, 0o077, 10, 20);
        assert_eq!(granted(&user(10, 20, &[]), &file), 0);
        assert_eq!(granted(&user(11, 99, &[20]), &file), 7);
        assert_eq!(granted(&user(11, 99, &[]), &file), 7);
    }

    #[test]
    fn root_executes_only_what_somebody_may_execute() {
        let plain = object(ObjectKind::File, 0o600, 10, 20);
        assert_eq!(granted(&Credentials::root(), &plain), READ | WRITE);
        let closed_directory = object(ObjectKind::Directory, 0, 10, 20);
        assert_eq!(granted(&Credentials::root(), &closed_directory), 7);
    }

    #[test]
    fn sticky_directories_protect_the_entries_of_others() {
        let tmp = object(ObjectKind::Directory, 0o1777, 0, 0);
        let theirs = object(ObjectKind::File, 0o666, 10, 10);
        assert!(sticky_forbids(&user(11, 11, &[]), &tmp, &theirs));
        assert!(!sticky_forbids(&user(10, 10, &[]), &tmp, &theirs));
        assert!(!sticky_forbids(&Credentials::root(), &tmp, &theirs));
    }
}
