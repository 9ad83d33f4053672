//! POSIX rules for changes of modes, owners and times, and for set-id bits.
//!
//! Pure functions of the current and the requested attributes. They follow Linux where POSIX leaves a choice, like
//! the clients' own file systems.

use vfs::permission::{MODE_MASK, SET_GROUP_ID, SET_USER_ID, WRITE, allows, is_owner};
use vfs::{Attributes, Credentials, Error, Result, SetAttributes, SetTime};

/// Execute permission of the group. Without it a set-group-id bit on a file does not make programs run as the
/// group, and changes that normally clear the bit leave it.
const GROUP_EXECUTE: u32 = 0o010;

/// A file's mode after a write by a user other than the superuser.
pub(crate) fn strip_set_id(mode: u32, member_of_group: bool) -> u32 {
    let group_bit = mode & GROUP_EXECUTE != 0 || !member_of_group;
    mode & !SET_USER_ID & !if group_bit { SET_GROUP_ID } else { 0 }
}

/// The mode that `who` may give to an object of `group`: the set-group-id bit only for a group of
/// `who`.
pub(crate) fn settable_mode(who: &Credentials, group: u32, wanted: u32) -> u32 {
    let foreign = !who.is_root() && !who.is_member(group);
    wanted & MODE_MASK & !if foreign { SET_GROUP_ID } else { 0 }
}

/// Refuses changes of attributes that `who` may not make. Sizes are checked with the data.
pub(crate) fn check_change(who: &Credentials, now: &Attributes, set: &SetAttributes) -> Result<()> {
    let owner = is_owner(who, now);
    if (set.mode.is_some() || set.created.is_some()) && !owner {
        return Err(Error::NotPermitted);
    }
    if set
        .owner
        .is_some_and(|wanted| !(who.is_root() || (owner && wanted == now.owner)))
    {
        return Err(Error::NotPermitted);
    }
    let group_allowed =
        |wanted| who.is_root() || (owner && (wanted == now.group || who.is_member(wanted)));
    if set.group.is_some_and(|wanted| !group_allowed(wanted)) {
        return Err(Error::NotPermitted);
    }
    for time in [set.accessed, set.modified].into_iter().flatten() {
        match time {
            SetTime::To(_) if !owner => return Err(Error::NotPermitted),
            SetTime::Now if !owner && !allows(who, now, WRITE) => return Err(Error::AccessDenied),
            _ => {}
        }
    }
    Ok(())
}

/// The mode after a permitted change of mode, owner and group.
pub(crate) fn mode_after(who: &Credentials, now: &Attributes, set: &SetAttributes) -> u32 {
    let group = set.group.unwrap_or(now.group);
    let mode = match set.mode {
        Some(wanted) => settable_mode(who, group, wanted),
        None => now.mode,
    };
    // A program must not run as the user or group it was given to, even if the superuser made the change.
    let given_away = (set.owner.is_some() || set.group.is_some()) && !now.is_directory();
    if given_away {
        strip_set_id(mode, who.is_root() || who.is_member(group))
    } else {
        mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vfs::{ChangeAttribute, ObjectId, ObjectKind, Timestamp};

    fn file(mode: u32) -> Attributes {
        Attributes {
            id: ObjectId::ROOT,
            kind: ObjectKind::File,
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

    fn user(user: u32, groups: &[u32]) -> Credentials {
        Credentials {
            user,
            group: 99,
            groups: Arc::from(groups),
            request: None,
        }
    }

    fn set(change: impl FnOnce(&mut SetAttributes)) -> SetAttributes {
        let mut set = SetAttributes::default();
        change(&mut set);
        set
    }

    #[test]
    fn only_the_owner_changes_the_mode() {
        let chmod = set(|set| set.mode = Some(0o600));
        assert_eq!(
            check_change(&user(11, &[20]), &file(0o666), &chmod),
            Err(Error::NotPermitted)
        );
        assert_eq!(check_change(&user(10, &[]), &file(0o666), &chmod), Ok(()));
        assert_eq!(
            check_change(&Credentials::root(), &file(0o666), &chmod),
            Ok(())
        );
    }

    #[test]
    fn an_owner_gives_a_file_to_its_own_groups_but_to_no_other_user() {
        let owner = user(10, &[30]);
        let to_group = |group| set(|set| set.group = Some(group));
        assert_eq!(check_change(&owner, &file(0o644), &to_group(30)), Ok(()));
        assert_eq!(check_change(&owner, &file(0o644), &to_group(20)), Ok(()));
        assert_eq!(
            check_change(&owner, &file(0o644), &to_group(31)),
            Err(Error::NotPermitted)
        );
        let away = set(|set| set.owner = Some(11));
        assert_eq!(
            check_change(&owner, &file(0o644), &away),
            Err(Error::NotPermitted)
        );
        let same = set(|set| set.owner = Some(10));
        assert_eq!(check_change(&owner, &file(0o644), &same), Ok(()));
        assert_eq!(
            check_change(&user(11, &[]), &file(0o644), &same),
            Err(Error::NotPermitted)
        );
    }

    #[test]
    fn a_writer_may_set_times_to_now_and_only_the_owner_to_anything_else() {
        let writer = user(11, &[20]);
        let now = set(|set| set.modified = Some(SetTime::Now));
        assert_eq!(check_change(&writer, &file(0o660), &now), Ok(()));
        assert_eq!(
            check_change(&writer, &file(0o640), &now),
            Err(Error::AccessDenied)
        );
        let past = set(|set| set.accessed = Some(SetTime::To(Timestamp::default())));
        assert_eq!(
            check_change(&writer, &file(0o660), &past),
            Err(Error::NotPermitted)
        );
    }

    #[test]
    fn set_id_bits_go_when_a_file_changes_hands() {
        let chgrp = set(|set| set.group = Some(20));
        assert_eq!(
            mode_after(&Credentials::root(), &file(0o6755), &chgrp),
            0o755
        );
        // Without execute permission of the group, a set-group-id bit only marks mandatory locking.
        assert_eq!(
            mode_after(&Credentials::root(), &file(0o6745), &chgrp),
            0o2745
        );
        let mut directory = file(0o2755);
        directory.kind = ObjectKind::Directory;
        assert_eq!(mode_after(&Credentials::root(), &directory, &chgrp), 0o2755);
    }

    #[test]
    fn nobody_sets_the_group_bit_of_a_foreign_group() {
        let chmod = set(|set| set.mode = Some(0o2755));
        assert_eq!(mode_after(&user(10, &[]), &file(0o644), &chmod), 0o755);
        assert_eq!(mode_after(&user(10, &[20]), &file(0o644), &chmod), 0o2755);
    }

    #[test]
    fn writing_clears_set_id_bits() {
        assert_eq!(strip_set_id(0o6775, true), 0o775);
        assert_eq!(strip_set_id(0o2664, true), 0o2664);
        assert_eq!(strip_set_id(0o2664, false), 0o664);
    }
}
