//! What a set's files keep: versions of the list of members, and the words about the tree.

use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use vfs::ReplicaSlot;

use super::{
    Member, MemberList, SetDirectory, SetError, Token, proof_for_tests, request_for_tests,
};

const TREE: &[u8] = b"a tree\0with bytes of its own";

fn founder(root: &TempDir) -> SetDirectory {
    let directory = SetDirectory::new(root.path().join("first"));
    let addresses = vec!["first.example:7643".to_owned()];
    directory
        .create_for(TREE, addresses, SystemTime::now())
        .expect("creates");
    directory
}

/// Admits one more replica, without a network.
fn admitted(founder: &SetDirectory, root: &TempDir) -> SetDirectory {
    let token = founder.invite(Duration::from_secs(60), SystemTime::now());
    admitted_with(founder, root, &token.expect("invites"))
}

fn admitted_with(founder: &SetDirectory, root: &TempDir, token: &Token) -> SetDirectory {
    let now = SystemTime::now();
    let (_key, request) = request_for_tests();
    let proof = proof_for_tests(token, &request);
    let admission = founder
        .admit(token.slot, &proof, &request, Vec::new(), now)
        .expect("admits");
    let directory = SetDirectory::new(root.path().join(format!("replica-{}", token.slot.0)));
    directory
        .write_joined(token.set, token.slot, "a key", &admission)
        .expect("writes");
    directory
}

#[test]
fn the_version_of_the_members_grows_with_each_change_and_only_then() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let version = || first.member_list().expect("a list").version;
    assert_eq!(version(), 1);
    first
        .invite(Duration::from_secs(60), SystemTime::now())
        .expect("invites");
    assert_eq!(version(), 1, "an invitation makes nobody a member");
    let second = admitted(&first, &root);
    assert_eq!(version(), 2);
    assert_eq!(
        second.member_list().expect("a list"),
        first.member_list().expect("a list")
    );
    for _ in 0..2 {
        first.revoke(ReplicaSlot(3)).expect("a member");
        assert_eq!(version(), 3);
    }
}

#[test]
fn every_replica_is_told_the_same_of_the_tree() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    assert_eq!(first.tree().expect("told"), TREE);
    assert_eq!(second.tree().expect("told"), TREE);
    let too_much = SetDirectory::new(root.path().join("other")).create_for(
        &[0; super::directory::TREE_BYTES_MAX + 1],
        Vec::new(),
        SystemTime::now(),
    );
    assert!(
        matches!(too_much, Err(SetError::TreeTooLarge)),
        "{too_much:?}"
    );
}

#[test]
fn a_list_of_members_is_learned_when_it_is_newer() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let list = |version| MemberList {
        version,
        members: vec![Member {
            slot: 7,
            addresses: Vec::new(),
            revoked: false,
            witness: false,
        }],
    };
    let before = second.member_list().expect("a list");
    assert!(!second.learn(list(before.version)).expect("reads"));
    assert_eq!(second.member_list().expect("a list"), before);
    assert!(second.learn(list(before.version + 1)).expect("reads"));
    assert_eq!(second.members().expect("a list"), list(0).members);
    assert!(
        !first.learn(list(100)).expect("reads"),
        "the keeper of the authority knows best"
    );
}

#[test]
fn only_the_keeper_of_the_authority_removes_and_never_itself() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let refused = second.revoke(ReplicaSlot(1));
    assert!(matches!(refused, Err(SetError::NoAuthority)), "{refused:?}");
    let refused = first.revoke(ReplicaSlot(1));
    assert!(matches!(refused, Err(SetError::Founder)), "{refused:?}");
}

#[test]
fn who_is_invited_as_a_witness_is_one_for_everybody() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let token = first.invite_witness(Duration::from_secs(60), SystemTime::now());
    let third = admitted_with(&first, &root, &token.expect("invites"));
    assert!(
        second
            .learn(first.member_list().expect("a list"))
            .expect("newer")
    );
    for directory in [&first, &second, &third] {
        let members = directory.members().expect("a list");
        let witnesses: Vec<bool> = members.iter().map(|member| member.witness).collect();
        assert_eq!(witnesses, [false, false, true]);
    }
    assert!(third.is_witness().expect("says so"));
    assert!(!second.is_witness().expect("says so"));
    first.revoke(ReplicaSlot(3)).expect("a member");
    let members = first.members().expect("a list");
    assert!(members[2].witness && members[2].revoked);
}

#[test]
fn files_that_do_not_know_of_witnesses_speak_of_data() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let token = first.invite(Duration::from_secs(60), SystemTime::now());
    for (name, list) in [("set.json", "/members"), ("invitations.json", "")] {
        let path = first.path().join(name);
        let text = std::fs::read_to_string(&path).expect("a file");
        let mut older: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let entries = older.pointer_mut(list).and_then(|list| list.as_array_mut());
        for entry in entries.expect("a list") {
            let entry = entry.as_object_mut().expect("an object");
            entry.remove("witness").expect("is said today");
        }
        std::fs::write(&path, older.to_string()).expect("writes");
    }
    let second = admitted_with(&first, &root, &token.expect("invites"));
    assert!(!second.is_witness().expect("says so"));
    assert!(!first.is_witness().expect("says so"));
}
