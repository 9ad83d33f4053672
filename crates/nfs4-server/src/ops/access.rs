//! ACCESS: what the caller may do with an object (RFC 8881, section 18.1; RFC 8276, section 8.5).

use nfs4::access::{DELETE, EXECUTE, EXTEND, LOOKUP, MODIFY, READ, XALIST, XAREAD, XAWRITE};
use nfs4::{AccessArgs, AccessResOk, NfsStat4};
use vfs::{Attributes, Credentials, ObjectKind, permission};

use crate::compound::Compound;
use crate::handle::Handle;
use crate::pseudo;

/// The bits for extended attributes, for minor version 2.
const OF_XATTRS: u32 = XAREAD | XAWRITE | XALIST;

/// The bits for changes.
const OF_CHANGES: u32 = MODIFY | EXTEND | DELETE | XAWRITE;

pub(crate) async fn access(
    compound: &mut Compound<'_>,
    args: AccessArgs,
) -> Result<AccessResOk, NfsStat4> {
    let mut known = args.access;
    if compound.minor_version < 2 {
        known &= !OF_XATTRS;
    }
    match compound.current()?.clone() {
        Handle::Pseudo(node) => {
            let attributes = pseudo::attributes(compound.service, node);
            let asked = known & !OF_XATTRS;
            Ok(answer(asked, &pseudo::visitor(), &attributes, true))
        }
        Handle::Object(object) => {
            let attributes = compound.attributes(&object).await?;
            Ok(answer(known, &object.who, &attributes, object.read_only))
        }
        Handle::Absent(_) => Err(NfsStat4::Moved),
    }
}

/// The bits of `asked` that apply to the object, and those of them that are granted.
fn answer(asked: u32, who: &Credentials, object: &Attributes, read_only: bool) -> AccessResOk {
    let supported = asked & meaningful(object.kind);
    let mut access = supported & granted(who, object);
    if read_only {
        access &= !OF_CHANGES;
    }
    AccessResOk { supported, access }
}

/// LOOKUP and DELETE apply to directories, EXECUTE applies to files (RFC 8881, section 18.1.3), and both have extended
/// attributes. Whether an object can be deleted depends on its directory, so it is not answered for the object.
fn meaningful(kind: ObjectKind) -> u32 {
    let always = READ | MODIFY | EXTEND;
    match kind {
        ObjectKind::Directory => always | LOOKUP | DELETE | OF_XATTRS,
        ObjectKind::File => always | EXECUTE | OF_XATTRS,
        _ => always,
    }
}

fn granted(who: &Credentials, object: &Attributes) -> u32 {
    let allows = |wanted, bits| {
        if permission::allows(who, object, wanted) {
            bits
        } else {
            0
        }
    };
    let reading = allows(permission::READ, READ | XAREAD | XALIST);
    let writing = allows(permission::WRITE, XAWRITE);
    let others = if object.is_directory() {
        // Changing entries requires the right to look them up.
        allows(permission::EXECUTE, LOOKUP)
            | allows(
                permission::WRITE | permission::EXECUTE,
                MODIFY | EXTEND | DELETE,
            )
    } else {
        allows(permission::WRITE, MODIFY | EXTEND) | allows(permission::EXECUTE, EXECUTE)
    };
    reading | writing | others
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{ChangeAttribute, ObjectId, Timestamp};

    const ALL: u32 = READ | LOOKUP | MODIFY | EXTEND | DELETE | EXECUTE | OF_XATTRS;

    fn object(kind: ObjectKind, mode: u32) -> Attributes {
        Attributes {
            id: ObjectId::from_u64(5),
            kind,
            mode,
            links: 1,
            owner: 10,
            group: 20,
            size: 0,
            space_used: 0,
            change: ChangeAttribute(1),
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            created: Timestamp::default(),
        }
    }

    fn user(user: u32) -> Credentials {
        Credentials {
            user,
            group: 99,
            groups: [].into(),
            request: None,
        }
    }

    #[test]
    fn files_are_executed_and_directories_searched() {
        let file = answer(ALL, &user(10), &object(ObjectKind::File, 0o700), false);
        assert_eq!(file.supported, ALL & !(LOOKUP | DELETE));
        assert_eq!(file.access, file.supported);
        let directory = answer(ALL, &user(10), &object(ObjectKind::Directory, 0o700), false);
        assert_eq!(directory.supported, ALL & !EXECUTE);
        assert_eq!(directory.access, directory.supported);
        let fifo = answer(ALL, &user(10), &object(ObjectKind::Fifo, 0o700), false);
        assert_eq!(fifo.supported, READ | MODIFY | EXTEND);
    }

    #[test]
    fn only_what_was_asked_is_answered() {
        let file = object(ObjectKind::File, 0o644);
        let answered = answer(READ | LOOKUP, &user(11), &file, false);
        assert_eq!(
            answered,
            AccessResOk {
                supported: READ,
                access: READ
            }
        );
    }

    #[test]
    fn executing_is_not_reading() {
        let file = object(ObjectKind::File, 0o711);
        assert_eq!(answer(ALL, &user(11), &file, false).access, EXECUTE);
        let root = Credentials::root();
        let plain = object(ObjectKind::File, 0o600);
        assert_eq!(answer(READ | EXECUTE, &root, &plain, false).access, READ);
    }

    #[test]
    fn changing_entries_needs_searching_too() {
        let directory = object(ObjectKind::Directory, 0o706);
        assert_eq!(
            answer(ALL, &user(11), &directory, false).access,
            READ | OF_XATTRS
        );
    }

    #[test]
    fn read_only_exports_grant_no_change() {
        let file = object(ObjectKind::File, 0o666);
        let answered = answer(ALL, &user(11), &file, true);
        assert_eq!(answered.access, READ | XAREAD | XALIST);
        assert_eq!(answered.supported & OF_CHANGES, MODIFY | EXTEND | XAWRITE);
    }
}
