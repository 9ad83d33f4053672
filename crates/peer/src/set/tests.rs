//! What a set's files keep: versions of the list of members, and the words about the tree.

mod handover;

use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use vfs::ReplicaSlot;

use super::{
    Learned, MEMBERS_MAX, MemberList, Role, SetDirectory, SetError, Token, proof_for_tests,
    request_for_tests,
};

const MINUTE: Duration = Duration::from_secs(60);

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
    let token = founder.invite(MINUTE, SystemTime::now());
    admitted_with(founder, root, &token.expect("invites"))
}

/// The same, with a name for the directory.
fn admitted_to(founder: &SetDirectory, root: &TempDir, name: &str) -> SetDirectory {
    let place = TempDir::new_in(root.path()).expect("a directory");
    let directory = admitted(founder, &place);
    let named = root.path().join(name);
    std::fs::rename(directory.path(), &named).expect("moves");
    SetDirectory::new(named)
}

fn admitted_with(founder: &SetDirectory, root: &TempDir, token: &Token) -> SetDirectory {
    let now = SystemTime::now();
    let (key, request) = request_for_tests();
    let key = data_encoding::BASE64.encode(key.secret_pkcs8_der());
    let key = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    let proof = proof_for_tests(token, &request);
    let admission = founder
        .admit(token.slot, &proof, &request, Vec::new(), now)
        .expect("admits");
    let directory = SetDirectory::new(root.path().join(format!("replica-{}", token.slot.0)));
    directory
        .write_joined(token.set, token.slot, &key, &admission)
        .expect("writes");
    directory
}

fn list_of(directory: &SetDirectory) -> MemberList {
    directory.member_list().expect("a list")
}

#[test]
fn the_version_of_the_members_grows_with_each_change_and_only_then() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let version = || list_of(&first).version;
    let created = version();
    first.invite(MINUTE, SystemTime::now()).expect("invites");
    assert_eq!(version(), created, "an invitation makes nobody a member");
    let second = admitted(&first, &root);
    let joined = version();
    assert!(joined > created);
    assert_eq!(list_of(&second), list_of(&first));
    let slot = second.identity().expect("has one").slot();
    first.revoke(slot).expect("a member");
    let removed = version();
    assert!(removed > joined);
    first.revoke(slot).expect("a member");
    assert_eq!(version(), removed);
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
fn a_list_of_members_is_learned_when_it_is_newer_and_replays_of_older_ones_change_nothing() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let before = list_of(&second);
    assert_eq!(second.learn(&before).expect("reads"), Learned::Nothing);
    first.revoke(ReplicaSlot(2)).expect("a member");
    let removed = list_of(&first);
    assert_eq!(second.learn(&removed).expect("signed"), Learned::News);
    for directory in [&first, &second] {
        let learned = directory.learn(&before).expect("signed");
        assert_eq!(learned, Learned::Nothing);
        assert_eq!(list_of(directory), removed);
    }
}

/// Counterexample 48: a member sent a list with the highest possible version; no later list was taken from then on, and
/// it could not be removed.
#[test]
fn counterexample_48_a_list_that_the_authority_did_not_sign_changes_nothing() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let before = list_of(&second);
    let other = SetDirectory::new(root.path().join("other"));
    let addresses = vec!["first.example:7643".to_owned()];
    other
        .create_for(TREE, addresses, SystemTime::now())
        .expect("creates");
    admitted_to(&other, &root, "other-2");
    let changed = |change: fn(&mut MemberList)| {
        let mut list = before.clone();
        change(&mut list);
        list
    };
    let forged = [
        changed(|list| list.version = u64::MAX),
        changed(|list| list.term = u64::MAX),
        changed(|list| list.keeper = 2),
        changed(|list| list.slots_from = u16::MAX),
        changed(|list| list.members[1].revoked = true),
        changed(|list| list.members[1].witness = true),
        changed(|list| list.members[0].addresses = vec!["hostile.example:1".to_owned()]),
        changed(|list| list.signature.clear()),
        changed(|list| list.signature = "no Base64".to_owned()),
        changed(|list| list.members.clear()),
        changed(|list| list.members.reverse()),
        changed(|list| list.members = vec![list.members[0].clone(); 100_000]),
        // Signed, by the authority of another set.
        list_of(&other),
    ];
    for list in &forged {
        for directory in [&first, &second] {
            let refused = directory.learn(list);
            assert!(matches!(refused, Err(SetError::Forged(_))), "{refused:?}");
        }
    }
    assert_eq!(list_of(&second), before);
    first.revoke(ReplicaSlot(2)).expect("a member");
    let learned = second.learn(&list_of(&first)).expect("signed");
    assert_eq!(learned, Learned::News);
    assert!(list_of(&second).members[1].revoked);
}

/// Puts the files of a directory back as they were.
fn restored(directory: &SetDirectory, from: &TempDir) {
    for entry in std::fs::read_dir(from.path()).expect("a copy") {
        let entry = entry.expect("an entry");
        let to = directory.path().join(entry.file_name());
        std::fs::copy(entry.path(), to).expect("copies");
    }
}

fn copied(directory: &SetDirectory) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    for entry in std::fs::read_dir(directory.path()).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = copy.path().join(entry.file_name());
        std::fs::copy(entry.path(), to).expect("copies");
    }
    copy
}

#[test]
fn a_keeper_with_older_files_learns_from_its_own_lists_and_signs_no_two_with_one_version() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let backup = copied(&first);
    let third = admitted(&first, &root);
    first.revoke(ReplicaSlot(2)).expect("a member");
    let latest = list_of(&first);
    third.learn(&latest).expect("signed");

    // It learns before it changes anything.
    restored(&first, &backup);
    assert_eq!(first.learn(&latest).expect("signed"), Learned::News);
    assert_eq!(list_of(&first), latest);

    // It changes something before it learns: both are kept, and the replica that knew more takes
    // the list that knows all.
    restored(&first, &backup);
    let moved = vec!["moved.example:7643".to_owned()];
    first
        .set_addresses(ReplicaSlot(1), moved.clone())
        .expect("a member");
    let mine = list_of(&first);
    assert!(mine.version > latest.version);
    assert_eq!(third.learn(&mine).expect("signed"), Learned::NotAll);
    assert_eq!(list_of(&third), latest, "a removal is never forgotten");
    assert_eq!(first.learn(&latest).expect("signed"), Learned::News);
    let whole = list_of(&first);
    assert!(whole.version > mine.version && whole.covers(&latest));
    assert_eq!(whole.members[0].addresses, moved);
    for other in [&second, &third] {
        assert_eq!(other.learn(&whole).expect("signed"), Learned::News);
    }
}

#[test]
fn a_token_of_older_files_does_not_give_a_slot_twice() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let backup = copied(&first);
    let second = admitted(&first, &root);
    restored(&first, &backup);
    let now = SystemTime::now();
    let token = first.invite(MINUTE, now).expect("invites");
    assert_eq!(token.slot, ReplicaSlot(2), "the files know of nobody there");
    first.learn(&list_of(&second)).expect("signed");
    let (_key, request) = request_for_tests();
    let proof = proof_for_tests(&token, &request);
    let refused = first.admit(token.slot, &proof, &request, Vec::new(), now);
    let text = refused.expect_err("taken").to_string();
    assert!(text.contains("another server has the slot"), "{text}");
    let next = first.invite(MINUTE, now).expect("invites");
    assert_eq!(next.slot, ReplicaSlot(3));
}

#[test]
fn only_the_keeper_of_the_authority_removes_and_never_itself() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let refused = second.revoke(ReplicaSlot(1)).expect_err("no key");
    let text = refused.to_string();
    assert!(
        text.contains("replica 1 (first.example:7643) keeps the set's authority"),
        "{text}"
    );
    let refused = first.revoke(ReplicaSlot(1));
    assert!(matches!(refused, Err(SetError::Keeper)), "{refused:?}");
    std::fs::remove_file(first.path().join("authority.key")).expect("there");
    let refused = first.revoke(ReplicaSlot(2));
    assert!(matches!(refused, Err(SetError::KeyLost)), "{refused:?}");
}

#[test]
fn a_set_whose_list_is_not_signed_is_refused_with_the_reason() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let path = first.path().join("set.json");
    let text = std::fs::read_to_string(&path).expect("there");
    let mut older: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for name in ["term", "keeper", "slots_from", "signature"] {
        let removed = older.as_object_mut().expect("an object").remove(name);
        removed.expect("is said today");
    }
    std::fs::write(&path, older.to_string()).expect("writes");
    let error = first.identity().expect_err("unsigned").to_string();
    assert!(error.contains("is not signed"), "{error}");
}

#[test]
fn tokens_that_are_not_used_take_no_slot_and_a_revoked_one_admits_nobody() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let now = SystemTime::now();
    let slots = |at| {
        let tokens = first.tokens(at).expect("the keeper");
        tokens.iter().map(|token| token.slot.0).collect::<Vec<_>>()
    };
    let token = first.invite(MINUTE, now).expect("invites");
    first
        .invite_as(Role::Witness, "", 3 * MINUTE, now)
        .expect("invites");
    assert_eq!(slots(now), [2, 3]);
    let tokens = first.tokens(now).expect("the keeper");
    assert!(!tokens[0].witness && tokens[1].witness);
    assert_eq!(tokens[0].expires, token.expires);

    first
        .revoke_token(ReplicaSlot(2), now)
        .expect("outstanding");
    assert_eq!(slots(now), [3]);
    let refused = first.revoke_token(ReplicaSlot(2), now);
    assert!(
        matches!(refused, Err(SetError::NoSuchToken(2))),
        "{refused:?}"
    );
    let (_key, request) = request_for_tests();
    let proof = proof_for_tests(&token, &request);
    let admit = || first.admit(token.slot, &proof, &request, Vec::new(), now);
    assert!(matches!(admit(), Err(SetError::Refused(_))));
    let again = first.invite(MINUTE, now).expect("invites");
    assert_eq!(again.slot, ReplicaSlot(2));
    assert!(
        matches!(admit(), Err(SetError::Refused(_))),
        "the slot's new token does not make the old one good"
    );

    let later = now + 2 * MINUTE;
    assert_eq!(slots(later), [3], "one has expired");
    assert_eq!(first.invite(MINUTE, later).expect("invites").slot.0, 2);
    admitted(&first, &root);
    let used: Vec<u16> = first
        .members()
        .expect("a list")
        .iter()
        .map(|member| member.slot)
        .collect();
    assert_eq!(used, [1, 4]);
    assert_eq!(slots(now), [2, 3], "a used token is none");
}

#[test]
fn more_members_than_can_agree_are_not_invited_and_tokens_are_bounded() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let now = SystemTime::now();
    for _ in 0..64 {
        first.invite(MINUTE, now).expect("invites");
    }
    let refused = first.invite(MINUTE, now);
    assert!(
        matches!(refused, Err(SetError::TooManyTokens)),
        "{refused:?}"
    );
    for slot in 11..66 {
        first
            .revoke_token(ReplicaSlot(slot), now)
            .expect("outstanding");
    }
    let spare = first.invite(MINUTE, now).expect("invites");
    for slot in 2..11 {
        first
            .revoke_token(ReplicaSlot(slot), now)
            .expect("outstanding");
    }
    for _ in 0..MEMBERS_MAX - 1 {
        admitted(&first, &root);
    }
    let refused = first.invite(MINUTE, now);
    assert!(
        matches!(refused, Err(SetError::TooManyMembers(_))),
        "{refused:?}"
    );
    let (_key, request) = request_for_tests();
    let proof = proof_for_tests(&spare, &request);
    let refused = first.admit(spare.slot, &proof, &request, Vec::new(), now);
    let text = refused.expect_err("full").to_string();
    assert!(text.contains("at most 9 members"), "{text}");
    first.revoke(ReplicaSlot(2)).expect("a member");
    first
        .admit(spare.slot, &proof, &request, Vec::new(), now)
        .expect("there is a place");
}

#[test]
fn an_address_is_changed_for_everybody_and_must_be_one() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let there = vec!["second.example:7643".to_owned()];
    assert!(
        first
            .set_addresses(ReplicaSlot(2), there.clone())
            .expect("a member")
    );
    assert!(
        !first
            .set_addresses(ReplicaSlot(2), there.clone())
            .expect("a member")
    );
    assert_eq!(
        second.learn(&list_of(&first)).expect("signed"),
        Learned::News
    );
    assert_eq!(second.members().expect("a list")[1].addresses, there);
    for wrong in [
        "nowhere",
        "host:port",
        "a b:1",
        "h\u{1b}[2J:1",
        &format!("{}:1", "a".repeat(300)),
    ] {
        let refused = first.set_addresses(ReplicaSlot(2), vec![wrong.to_owned()]);
        assert!(
            matches!(refused, Err(SetError::Address)),
            "{wrong}: {refused:?}"
        );
    }
    first.revoke(ReplicaSlot(2)).expect("a member");
    for slot in [2, 9] {
        let refused = first.set_addresses(ReplicaSlot(slot), there.clone());
        assert!(
            matches!(refused, Err(SetError::NoSuchMember(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn who_is_invited_as_a_witness_is_one_for_everybody() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let second = admitted(&first, &root);
    let token = first.invite_as(Role::Witness, "", MINUTE, SystemTime::now());
    let third = admitted_with(&first, &root, &token.expect("invites"));
    second.learn(&list_of(&first)).expect("signed");
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

/// Two lists that differ in who is a witness: one of them was not taken for wrong, and a witness became a replica.
#[test]
fn nobody_stops_to_be_a_witness() {
    let root = TempDir::new().expect("a directory");
    let first = founder(&root);
    let token = first.invite_as(Role::Witness, "", MINUTE, SystemTime::now());
    let second = admitted_with(&first, &root, &token.expect("invites"));
    let known = list_of(&second);
    let mut other = known.clone();
    for member in &mut other.members {
        member.witness = false;
    }
    assert!(!other.covers(&known) && known.covers(&other));
    other.take_in(&known);
    assert!(other.covers(&known) && other.is_witness(2));
}

/// A list says where clients reach a member, signed like the rest; without such addresses it has the bytes, and so the
/// signature, that it had before there were any.
#[test]
fn where_clients_reach_a_member_is_signed() {
    let directory = TempDir::new().unwrap();
    let first = SetDirectory::new(directory.path().join("first"));
    first
        .create_for(b"", Vec::new(), SystemTime::now())
        .unwrap();
    let before = first.member_list().unwrap();
    let file = directory.path().join("first/set.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    let members = old["members"].as_array_mut().unwrap();
    let dropped = members[0].as_object_mut().unwrap();
    assert!(dropped.remove("client_addresses").is_some());
    std::fs::write(&file, old.to_string()).unwrap();
    assert_eq!(first.member_list().unwrap(), before);
    assert!(first.identity().is_ok(), "the signature still fits");

    let there = vec!["nfs.example:2049".to_owned()];
    let slot = ReplicaSlot(1);
    assert!(first.set_client_addresses(slot, there.clone()).unwrap());
    assert!(!first.set_client_addresses(slot, there.clone()).unwrap());
    let list = first.member_list().unwrap();
    assert_eq!(list.members[0].client_addresses, there);
    assert!(list.is_newer_than(&before));
    let decoded = MemberList::decode(&list.encode()).unwrap();
    assert_eq!(decoded, list);
    let mut forged = list;
    forged.members[0].client_addresses = vec!["evil.example:2049".to_owned()];
    assert!(matches!(first.learn(&forged), Err(SetError::Forged(_))));
    let refused = first.set_client_addresses(slot, vec!["no port".to_owned()]);
    assert!(matches!(refused, Err(SetError::Address)));
}

/// Every member that a set can have had, and as many as it can have with addresses as long as they can be.
#[test]
fn the_longest_list_fits_into_a_message() {
    let address = format!("{}:65535", "a".repeat(255));
    let member = |slot: u16| {
        let is_present = usize::from(slot) <= MEMBERS_MAX;
        super::Member {
            slot,
            addresses: match is_present {
                true => vec![address.clone(); 4],
                false => Vec::new(),
            },
            client_addresses: match is_present {
                true => vec![address.clone(); 2],
                false => Vec::new(),
            },
            revoked: !is_present,
            witness: true,
            // Nobody is both.
            metadata_server: false,
            name: match is_present {
                true => "n".repeat(32),
                false => String::new(),
            },
        }
    };
    let list = MemberList {
        term: u64::MAX,
        keeper: 1,
        version: u64::MAX,
        slots_from: u16::MAX,
        members: (1..=1024).map(member).collect(),
        signature: data_encoding::BASE64.encode(&[7; 72]),
    };
    assert_eq!(list.objection(), None);
    assert!(list.encode().len() < crate::Message::MAX_BODY_BYTES / 2);
    let mut long = list.clone();
    for member in &mut long.members {
        member.addresses = vec![address.clone()];
        member.name = "n".repeat(32);
    }
    assert!(long.objection().is_some());
    long.shorten();
    assert_eq!(long.objection(), None);
    let present = long.members.iter().filter(|member| !member.revoked);
    assert!(
        present.clone().count() == MEMBERS_MAX
            && present.clone().all(|one| !one.addresses.is_empty())
    );
}

/// Members have names that no two share; one that joins gets that of its invitation.
#[test]
fn members_are_called_by_names() {
    let place = tempfile::tempdir().expect("a directory");
    let first = SetDirectory::new(place.path().join("set"));
    let now = SystemTime::now();
    first.create_for(b"", Vec::new(), now).expect("a set");
    first.set_name(ReplicaSlot(1), "alpha").expect("a name");
    assert_eq!(first.members().expect("members")[0].name, "alpha");
    let hour = std::time::Duration::from_secs(3600);
    first
        .invite_as(Role::Ordinary, "beta", hour, now)
        .expect("a token");
    for (name, wrong) in [("alpha", "replica 1"), ("beta", "replica 2")] {
        let taken = first
            .invite_as(Role::Ordinary, name, hour, now)
            .expect_err("it is taken");
        assert!(taken.to_string().contains(wrong), "{taken}");
    }
    for name in ["2", "a b", "\u{e4}", "-x", &"n".repeat(33)] {
        let refused = first.set_name(ReplicaSlot(1), name);
        assert!(matches!(refused, Err(SetError::Name(_))), "{name}");
    }
    assert!(matches!(
        first.set_name(ReplicaSlot(9), "gamma"),
        Err(SetError::NoSuchMember(9))
    ));
    first
        .set_name(ReplicaSlot(1), "")
        .expect("no name any more");
    assert_eq!(first.members().expect("members")[0].name, "");
}
