//! Creating a set, inviting, joining, and every token that is refused.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use vfs::ReplicaSlot;

use super::proxy::Proxy;
use super::replica::{Replica, TestSet, quick};
use crate::set::{Entry, Kind, Places, SetDirectory, SetError, Token, TokenError, join};
use crate::{Lane, Message};

const HOUR: Duration = Duration::from_secs(3600);

fn unused_address() -> String {
    let reserved = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    reserved.local_addr().expect("bound").to_string()
}

/// A new set with its first replica running, which admits others.
async fn inviting(root: &TempDir, name: &str) -> (SetDirectory, Replica) {
    let directory = SetDirectory::new(root.path().join(name));
    // A port of our own before the set exists: members are invited to call there.
    let address = unused_address();
    directory
        .create_for(b"", vec![address.clone()], SystemTime::now())
        .expect("creates");
    let identity = directory.identity().expect("has one");
    directory.note_current();
    let admitting = Some(directory.clone());
    let replica = Replica::start_at(&address, &identity, 1, quick(), admitting).await;
    (directory, replica)
}

fn refusal(error: Result<Entry, SetError>) -> String {
    error.expect_err("refused").to_string()
}

#[tokio::test]
async fn one_copied_token_makes_a_member_that_talks_to_the_first() {
    let root = TempDir::new().expect("a directory");
    let (first, inviter) = inviting(&root, "first").await;
    let copied = first
        .invite(HOUR, SystemTime::now())
        .expect("invites")
        .encode();

    let token = Token::parse(Kind::Set, &copied).expect("a token");
    let second = SetDirectory::new(root.path().join("second"));
    let addresses = vec!["second.invalid:2100".to_owned()];
    let entry = join(&token, &second, addresses, SystemTime::now())
        .await
        .expect("joins");
    let remark = entry.remark.expect("nobody has that name");
    assert!(remark.contains("second.invalid:2100"), "{remark}");
    let members = entry.list.members;
    let slots: Vec<u16> = members.iter().map(|member| member.slot).collect();
    assert_eq!(slots, [1, 2]);
    assert_eq!(members[1].addresses, ["second.invalid:2100"]);
    assert_eq!(first.members().expect("members"), members);
    assert_eq!(second.members().expect("members"), members);

    let identity = second.identity().expect("has one");
    assert_eq!(identity.slot(), ReplicaSlot(2));
    let replica = Replica::start(&identity, 1, quick()).await;
    let session = replica.connect(1, &members[0].addresses[0]).ready().await;
    session
        .send(Lane::Control, Message::new(1, "hello"))
        .await
        .expect("sends");
    inviter.recorder.until_messages(1).await;
}

#[tokio::test]
async fn no_file_of_a_set_is_readable_by_others_and_no_key_is_shown() {
    let root = TempDir::new().expect("a directory");
    let (first, _replica) = inviting(&root, "first").await;
    let token = first.invite(HOUR, SystemTime::now()).expect("invites");
    let second = SetDirectory::new(root.path().join("second"));
    join(&token, &second, Vec::new(), SystemTime::now())
        .await
        .expect("joins");
    for directory in [&first, &second] {
        let mode = |path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(directory.path().to_owned()), 0o700);
        for entry in std::fs::read_dir(directory.path()).expect("a directory") {
            let path = entry.expect("an entry").path();
            assert_eq!(mode(path.clone()), 0o600, "{path:?}");
        }
    }
    assert!(!second.keeps_authority());
    let shown = format!(
        "{:?} {token:?} {first:?}",
        first.identity().expect("has one")
    );
    assert!(!shown.contains("KEY") && shown.len() < 400, "{shown}");
}

#[tokio::test]
async fn a_token_works_once_but_an_answer_that_was_lost_can_be_asked_for_again() {
    let root = TempDir::new().expect("a directory");
    let (first, _replica) = inviting(&root, "first").await;
    let now = SystemTime::now();
    let token = first.invite(HOUR, now).expect("invites");
    let (_key, request) = crate::set::request_for_tests();
    let proof = crate::set::proof_for_tests(&token, &request);
    for _ in 0..2 {
        first
            .admit(token.slot, &proof, &request, Vec::new(), now)
            .expect("the same request");
    }
    let thief = SetDirectory::new(root.path().join("thief"));
    let text = refusal(join(&token, &thief, Vec::new(), now).await);
    assert!(
        text.contains("has been used") && text.contains("ask for a new one"),
        "{text}"
    );
    assert!(!thief.path().exists(), "a refused server keeps nothing");
    let members = first.members().expect("members");
    assert_eq!(members.iter().filter(|member| member.slot == 2).count(), 1);
}

/// The set had admitted the server, and its answer was lost: the token was used up, and the server could not join any more.
#[tokio::test]
async fn a_server_whose_answer_was_lost_joins_with_the_same_token() {
    let root = TempDir::new().expect("a directory");
    let (first, _replica) = inviting(&root, "first").await;
    let keeper = first.members().expect("members")[0].addresses[0].clone();
    let proxy = Proxy::start(keeper, 11, 8000).await;
    let now = SystemTime::now();
    for attempt in 0.. {
        let mut token = first.invite(HOUR, now).expect("invites");
        token.addresses = vec![proxy.address.clone()];
        let directory = SetDirectory::new(root.path().join(format!("joiner-{attempt}")));
        let joined = join(&token, &directory, Vec::new(), now).await;
        let members = first.members().expect("members");
        let is_member = members.iter().any(|member| member.slot == token.slot.0);
        if joined.is_err() && is_member {
            proxy.be_calm();
            join(&token, &directory, Vec::new(), now)
                .await
                .expect("the same server asks again");
            directory.identity().expect("has one");
            assert!(!directory.path().with_extension("asking").exists());
            return;
        }
        if is_member {
            first.revoke(token.slot).expect("a member");
        } else {
            first.revoke_token(token.slot, now).expect("outstanding");
        }
    }
}

/// A member in the way, who has a certificate, told the keeper of the authority other addresses of the server that joined.
#[tokio::test]
async fn addresses_cannot_be_changed_on_their_way() {
    let root = TempDir::new().expect("a directory");
    let (first, _replica) = inviting(&root, "first").await;
    let now = SystemTime::now();
    let token = first.invite(HOUR, now).expect("invites");
    let (_key, request) = crate::set::request_for_tests();
    let proof = crate::set::proof_for_tests(&token, &request);
    let others = vec!["elsewhere.example:7643".to_owned()];
    let admitted = first.admit(token.slot, &proof, &request, others.clone(), now);
    assert!(matches!(admitted, Err(SetError::Refused(_))));
    let for_clients = Places {
        client_addresses: others,
        ..Places::default()
    };
    let admitted = first.admit(token.slot, &proof, &request, for_clients, now);
    assert!(matches!(admitted, Err(SetError::Refused(_))));
}

/// Where clients reach a server is told with its question, so that nobody is sent elsewhere in the meantime.
#[tokio::test]
async fn who_joins_says_where_clients_reach_it() {
    let root = TempDir::new().expect("a directory");
    let (first, _replica) = inviting(&root, "first").await;
    let now = SystemTime::now();
    let token = first.invite(HOUR, now).expect("invites");
    let second = SetDirectory::new(root.path().join("second"));
    let clients = vec!["files.example.org:2049".to_owned()];
    let places = Places {
        addresses: vec!["127.0.0.1:7643".to_owned()],
        client_addresses: clients.clone(),
    };
    let entry = join(&token, &second, places, now).await.expect("joins");
    for list in [entry.list, first.member_list().expect("a list")] {
        let member = list.members.iter().find(|member| member.slot == 2);
        assert_eq!(member.expect("the new one").client_addresses, clients);
    }
    let wrong = Places {
        client_addresses: vec!["no port".to_owned()],
        ..Places::default()
    };
    let token = first.invite(HOUR, now).expect("invites");
    let third = SetDirectory::new(root.path().join("third"));
    refusal(join(&token, &third, wrong, now).await);
}

#[tokio::test]
async fn tokens_that_are_wrong_expired_or_of_another_set_are_refused_with_advice() {
    let root = TempDir::new().expect("a directory");
    let (first, _one) = inviting(&root, "first").await;
    let (other, _two) = inviting(&root, "other").await;
    let now = SystemTime::now();
    let joiner = SetDirectory::new(root.path().join("joiner"));

    let mut wrong = first.invite(HOUR, now).expect("invites");
    wrong.secret[0] ^= 1;
    let text = refusal(join(&wrong, &joiner, Vec::new(), now).await);
    assert!(text.contains("not one of this set"), "{text}");

    let good = first.invite(HOUR, now).expect("invites");
    let late = join(&good, &joiner, Vec::new(), now + 2 * HOUR).await;
    assert!(
        matches!(late, Err(SetError::Token(TokenError::Expired { .. }))),
        "{late:?}"
    );

    // The joining server's own clock may be wrong: the set judges too.
    let past = first.invite(HOUR, now - 3 * HOUR).expect("invites");
    let text = refusal(join(&past, &joiner, Vec::new(), now - 3 * HOUR).await);
    assert!(text.contains("expired"), "{text}");

    let mut elsewhere = first.invite(HOUR, now).expect("invites");
    elsewhere.addresses = other.members().expect("members")[0].addresses.clone();
    let text = refusal(join(&elsewhere, &joiner, Vec::new(), now).await);
    assert!(text.contains("belongs to another set"), "{text}");

    let mut nowhere = first.invite(HOUR, now).expect("invites");
    nowhere.addresses = vec!["127.0.0.1:1".to_owned()];
    let text = refusal(join(&nowhere, &joiner, Vec::new(), now).await);
    assert!(text.contains("127.0.0.1:1"), "{text}");
    assert!(!joiner.path().exists());
}

#[tokio::test]
async fn only_the_keeper_of_the_authority_invites_and_admits() {
    let set = TestSet::of(2).await;
    let now = SystemTime::now();
    let invited = set.directory(2).invite(HOUR, now);
    let keeper = |error: &SetError| matches!(error, SetError::NoAuthority { keeper: 1, .. });
    assert!(invited.as_ref().is_err_and(keeper), "{invited:?}");

    let (address, admitting) = (unused_address(), Some(set.directory(2)));
    let _second = Replica::start_at(&address, set.identity(2), 1, quick(), admitting).await;
    let mut token = set.directory(1).invite(HOUR, now).expect("invites");
    token.addresses = vec![address];
    let joiner = SetDirectory::new(set.root.path().join("joiner"));
    let text = refusal(join(&token, &joiner, Vec::new(), now).await);
    assert!(
        text.contains("replica 1 does; ask for a new token there"),
        "{text}"
    );
}

#[tokio::test]
async fn a_directory_belongs_to_one_set_and_slots_are_never_used_again() {
    let set = TestSet::of(2).await;
    let now = SystemTime::now();
    let first = set.directory(1);
    assert!(matches!(
        first.create_for(b"", Vec::new(), now),
        Err(SetError::Exists(_))
    ));
    first.revoke(ReplicaSlot(2)).expect("a member");
    assert_eq!(
        first.invite(HOUR, now).expect("invites").slot,
        ReplicaSlot(3)
    );
    assert!(matches!(
        first.revoke(ReplicaSlot(9)),
        Err(SetError::NoSuchMember(9))
    ));
    let nothing = SetDirectory::new(set.root.path().join("nothing"));
    assert!(matches!(nothing.identity(), Err(SetError::NoSet(_))));
}

#[test]
fn damaged_files_are_named() {
    let root = TempDir::new().expect("a directory");
    let directory = SetDirectory::new(root.path().join("set"));
    directory
        .create_for(b"", Vec::new(), SystemTime::now())
        .expect("creates");
    for name in ["replica.key", "replica.pem", "authority.pem", "set.json"] {
        let path = directory.path().join(name);
        let good = std::fs::read(&path).expect("there");
        std::fs::write(&path, "rubbish").expect("writes");
        let error = directory.identity().expect_err("damaged").to_string();
        assert!(error.contains(name) && error.contains("damaged"), "{error}");
        std::fs::write(&path, good).expect("writes");
    }
    directory.identity().expect("whole again");
}
