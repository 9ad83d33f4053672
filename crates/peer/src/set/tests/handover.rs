//! The authority changes hands, with a crash after each step, and comes back from backups of any age.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::set::AuthorityBackup;

const SECOND: ReplicaSlot = ReplicaSlot(2);

fn keepers(all: &[&SetDirectory]) -> Vec<u16> {
    let keepers = all.iter().filter(|one| one.keeps_authority());
    keepers.map(|one| slot_of(one)).collect()
}

fn slot_of(directory: &SetDirectory) -> u16 {
    directory.identity().expect("has one").slot().0
}

fn set_of_three(root: &TempDir) -> [SetDirectory; 3] {
    let first = founder(root);
    let (second, third) = (admitted(&first, root), admitted(&first, root));
    second.learn(&list_of(&first)).expect("signed");
    [first, second, third]
}

#[test]
fn one_signs_and_one_at_least_has_the_key_after_every_step_of_a_move() {
    let root = TempDir::new().expect("a directory");
    let [first, second, third] = set_of_three(&root);
    let holders = || {
        let all = [&first, &second, &third];
        let keys = all
            .iter()
            .filter(|one| one.path().join("authority.key").exists());
        (
            keys.map(|one| slot_of(one)).collect::<Vec<_>>(),
            keepers(&all),
        )
    };
    let handover = first.begin_handover(SECOND).expect("keeps it");
    assert_eq!(holders(), (vec![1], vec![1]));
    second.store_offer(&handover).expect("stores it");
    assert_eq!(holders(), (vec![1], vec![1]), "an offer signs nothing");

    // The previous keeper changes something in between: the move is over, and the key that was on its way is forgotten.
    first.revoke(ReplicaSlot(3)).expect("a member");
    second.learn(&list_of(&first)).expect("signed");
    assert!(!second.path().join("authority.offer").exists());
    let late = first.complete_handover(SECOND, &handover);
    assert!(matches!(late, Err(SetError::Superseded)), "{late:?}");
    assert!(matches!(
        second.store_offer(&handover),
        Err(SetError::Superseded)
    ));
    assert_eq!(holders(), (vec![1], vec![1]));

    let handover = first.begin_handover(SECOND).expect("keeps it");
    second.store_offer(&handover).expect("stores it");
    first
        .complete_handover(SECOND, &handover)
        .expect("keeps it");
    assert_eq!(
        holders(),
        (vec![1], vec![]),
        "the next one has not heard of it"
    );
    assert!(matches!(
        first.invite(MINUTE, SystemTime::now()),
        Err(SetError::NoAuthority { keeper: 2, .. })
    ));
    let named = list_of(&first);
    assert_eq!((named.term, named.keeper), (2, 2));

    assert_eq!(second.learn(&named).expect("signed"), Learned::News);
    assert_eq!(holders(), (vec![1, 2], vec![2]));
    let taken = list_of(&second);
    assert!(taken.version > named.version, "it says that it keeps it");
    for directory in [&first, &third] {
        assert_eq!(directory.learn(&taken).expect("signed"), Learned::News);
    }
    assert_eq!(holders(), (vec![2], vec![2]));
    second
        .revoke(ReplicaSlot(1))
        .expect("the founder is one like others");

    // What was said before comes again, and changes nothing.
    for list in [&named, &taken] {
        assert_eq!(second.learn(list).expect("signed"), Learned::Nothing);
    }
    assert!(matches!(
        second.store_offer(&handover),
        Err(SetError::Superseded)
    ));
    assert_eq!(holders(), (vec![2], vec![2]));
}

#[test]
fn a_move_can_be_tried_again_and_a_foreign_key_is_never_taken() {
    let root = TempDir::new().expect("a directory");
    let [first, second, third] = set_of_three(&root);
    let other = SetDirectory::new(root.path().join("other"));
    other
        .create_for(b"", Vec::new(), SystemTime::now())
        .expect("creates");
    admitted_to(&other, &root, "other-2");
    let foreign = other.begin_handover(SECOND).expect("keeps it");
    assert!(matches!(
        second.store_offer(&foreign),
        Err(SetError::WrongKey)
    ));
    assert!(!format!("{foreign:?}").contains("KEY"));

    for to in [1, 9] {
        assert!(first.begin_handover(ReplicaSlot(to)).is_err());
    }
    let lost = first.begin_handover(SECOND).expect("keeps it");
    second.store_offer(&lost).expect("stores it");
    let again = first.begin_handover(ReplicaSlot(3)).expect("keeps it");
    third.store_offer(&again).expect("stores it");
    first
        .complete_handover(ReplicaSlot(3), &again)
        .expect("keeps it");
    let late = first.complete_handover(SECOND, &lost);
    assert!(
        matches!(late, Err(SetError::NoAuthority { keeper: 3, .. })),
        "{late:?}"
    );
    third.learn(&list_of(&first)).expect("signed");
    second.learn(&list_of(&third)).expect("signed");
    assert!(third.keeps_authority() && !second.keeps_authority());
    let left: Vec<_> = std::fs::read_dir(second.path())
        .expect("a directory")
        .collect();
    let is_key = |entry: &std::io::Result<std::fs::DirEntry>| {
        let name = entry.as_ref().expect("an entry").file_name();
        ["authority.key", "authority.offer"]
            .iter()
            .any(|key| name == *key)
    };
    assert!(
        !left.iter().any(is_key),
        "what was offered for that term is gone"
    );
}

/// A server was removed while the authority was being moved to it, and kept the key that it had been offered.
#[test]
fn one_that_is_removed_in_mid_move_keeps_no_key() {
    let root = TempDir::new().expect("a directory");
    let [first, second, _third] = set_of_three(&root);
    let handover = first.begin_handover(SECOND).expect("keeps it");
    second.store_offer(&handover).expect("stores it");
    first.revoke(SECOND).expect("a member");
    assert!(first.complete_handover(SECOND, &handover).is_err());
    assert_eq!(
        second.learn(&list_of(&first)).expect("signed"),
        Learned::News
    );
    for key in ["authority.offer", "authority.key"] {
        assert!(!second.path().join(key).exists(), "{key}");
    }
    assert!(second.store_offer(&handover).is_err());
    assert!(first.keeps_authority());
}

/// The keeper was lost, replaced and removed. It had admitted a server that no other member knew. The new list did not
/// cover its own, so it ignored the new list, and did not learn of its removal.
#[test]
fn a_previous_keeper_that_was_removed_learns_it_whatever_it_alone_knows() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let file = root.path().join("backup");
    first.export_authority(&file).expect("keeps it");
    admitted(&first, &root);
    let backup = AuthorityBackup::read(&file).expect("a backup");
    second.restore_authority(&backup).expect("restores it");
    second.revoke(ReplicaSlot(1)).expect("a member");
    let list = list_of(&second);
    assert!(!list.covers(&list_of(&first)));
    assert_eq!(first.learn(&list).expect("signed"), Learned::News);
    assert!(list_of(&first).member(1).expect("named").revoked);
    assert!(!first.holds_key() && !first.keeps_authority());
}

#[test]
fn a_lost_keeper_is_replaced_from_a_backup_of_any_age() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let file = root.path().join("backup");
    first.export_authority(&file).expect("writes");
    let mode = std::fs::metadata(&file)
        .expect("there")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(mode, 0o600);
    assert!(
        first.export_authority(&file).is_err(),
        "nothing is replaced"
    );
    let copy = copied(&first);
    let (second, third) = (admitted(&first, &root), admitted(&first, &root));
    // The second one has not heard of the third.
    let newest = list_of(&first);
    assert_eq!(list_of(&second).members.len(), 2);

    let from_copy = AuthorityBackup::read(copy.path()).expect("a copy of the directory");
    let from_file = AuthorityBackup::read(&file).expect("a backup");
    assert!(matches!(
        first.restore_authority(&from_copy),
        Err(SetError::AlreadyKeeper)
    ));
    assert!(!format!("{from_file:?}").contains("KEY"));
    second.restore_authority(&from_file).expect("restores");
    assert!(second.keeps_authority());
    let restored = list_of(&second);
    assert_eq!((restored.term, restored.keeper), (2, 2));

    // A replica that knows more does not forget it, and the new keeper learns it.
    assert_eq!(third.learn(&restored).expect("signed"), Learned::NotAll);
    assert_eq!(second.learn(&newest).expect("signed"), Learned::News);
    let whole = list_of(&second);
    assert_eq!(whole.members.len(), 3);
    assert_eq!(third.learn(&whole).expect("signed"), Learned::News);
    let token = second.invite(MINUTE, SystemTime::now()).expect("invites");
    assert!(
        token.slot.0 > 256,
        "slots that the lost one may have given away are left out"
    );

    // The lost one was only away, and did something of which nobody knows.
    let away = admitted(&first, &root);
    assert_eq!(first.learn(&whole).expect("signed"), Learned::NotAll);
    assert!(!first.keeps_authority(), "its term is over at once");
    assert_eq!(
        second.learn(&list_of(&first)).expect("signed"),
        Learned::News
    );
    let all = list_of(&second);
    assert!(all.member(slot_of(&away)).is_some());
    assert_eq!(first.learn(&all).expect("signed"), Learned::News);
    assert!(!first.holds_key());
    assert_eq!(keepers(&[&first, &second, &third, &away]), [2]);
}

#[test]
fn two_that_restored_the_authority_at_the_same_time_end_with_one_keeper() {
    let root = TempDir::new().expect("a directory");
    let [first, second, third] = set_of_three(&root);
    let file = root.path().join("backup");
    first.export_authority(&file).expect("writes");
    let backup = AuthorityBackup::read(&file).expect("a backup");
    for directory in [&second, &third] {
        directory.restore_authority(&backup).expect("restores");
    }
    second.revoke(ReplicaSlot(1)).expect("a member");
    assert_eq!(
        second.learn(&list_of(&third)).expect("signed"),
        Learned::NotAll
    );
    assert_eq!(
        third.learn(&list_of(&second)).expect("signed"),
        Learned::News
    );
    assert_eq!(
        second.learn(&list_of(&third)).expect("signed"),
        Learned::News
    );
    assert_eq!(keepers(&[&second, &third]), [3]);
    assert!(
        list_of(&second).members[0].revoked,
        "what either signed counts"
    );
    assert_eq!(list_of(&second), list_of(&third));
}

#[test]
fn a_member_that_was_removed_and_a_backup_that_is_none_restore_nothing() {
    let root = TempDir::new().expect("a directory");
    let [first, second, _third] = set_of_three(&root);
    let file = root.path().join("backup");
    first.export_authority(&file).expect("writes");
    let backup = AuthorityBackup::read(&file).expect("a backup");
    first.revoke(SECOND).expect("a member");
    second.learn(&list_of(&first)).expect("signed");
    let refused = second.restore_authority(&backup);
    assert!(
        matches!(refused, Err(SetError::NoSuchMember(2))),
        "{refused:?}"
    );

    let text = std::fs::read_to_string(&file).expect("there");
    let forged = text.replacen("\"slots_from\": 2", "\"slots_from\": 9", 1);
    assert_ne!(forged, text);
    std::fs::write(&file, forged).expect("writes");
    let forged = AuthorityBackup::read(&file).expect("a backup in form");
    let third = SetDirectory::new(root.path().join("replica-3"));
    let refused = third.restore_authority(&forged);
    assert!(matches!(refused, Err(SetError::Forged(_))), "{refused:?}");
    std::fs::write(&file, &text[..40]).expect("writes");
    let refused = AuthorityBackup::read(&file).expect_err("cut").to_string();
    assert!(
        refused.contains("no backup") && !refused.contains("PRIVATE"),
        "{refused}"
    );
}

/// What is wrong with a path that an administrator gave is not told as if it were a file of the set, whose remedy takes
/// the copy away.
#[test]
fn a_backup_that_cannot_be_written_or_read_is_told_of_that_path() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let taken = root.path().join("taken");
    std::fs::write(&taken, "rubbish").expect("writes");
    for (to, remedy) in [
        (root.path().join("nowhere/backup"), "make the directory"),
        (taken.join("backup"), "make the directory"),
        (taken.clone(), "not there yet"),
        (root.path().to_owned(), "not there yet"),
    ] {
        let told = first.export_authority(&to).expect_err("not written");
        let told = told.to_string();
        assert!(told.contains(remedy), "{told}");
        assert!(!told.contains("rejoin"), "{told}");
    }
    let empty = root.path().join("empty");
    std::fs::create_dir(&empty).expect("makes a directory");
    let copy = root.path().join("first");
    std::fs::remove_file(copy.join("authority.key")).expect("is there");
    for from in [root.path().join("nowhere"), empty, taken, copy] {
        let told = AuthorityBackup::read(&from).expect_err("no backup");
        let told = told.to_string();
        assert!(told.contains("authority show --export"), "{told}");
        assert!(!told.contains("rejoin"), "{told}");
    }
}
