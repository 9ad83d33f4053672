//! The table of `docs/protocol.md`, cell by cell, with real connections; and the failures that it prevents.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/fixture/mod.rs"]
mod fixture;

mod closed;
mod deaf;
mod different_ends;
mod given_up;
mod given_way;
mod half_back;
mod harmless;
mod left;
mod nonsense;
mod relayed;
mod renounced;
mod stopping;
mod supplied;
mod unsent;
mod wishes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{Claim, ControlName, Depth, Envelope, Epoch, Proposal};
use peer::{Lane, Message, Peer, RequestError};
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot};

use self::fixture::{Crashed, Impostor, PATIENCE, ROOT, Set, Site, eventually, name, root};
use self::harmless::{harmless, nothing_of, nothing_through};
use crate::state::forward::{Forwarded, Operation};
use crate::state::lineage::{Contradiction, Evidence, Fault, Introduction, Key, Lineage, Mac, Met};
use crate::state::wire::{self, Grounds, Kind, Origin, PieceHead, Records, Relayed, ScrubQuestion};

/// A later start than any that the replicas of a test make.
const LATER: u64 = 1000;

/// A number that no kind has.
const NO_KIND: u32 = 999;

/// The page's row of one kind: which receivers take it from a sender in the view, a sender outside, a newcomer, a witness, a removed server and
/// a stranger.
struct Row {
    kind: Kind,
    cells: Vec<String>,
}

/// The table, in the order of the page.
fn table() -> Vec<Row> {
    let page = include_str!("../../../../../docs/protocol.md");
    let section = page.split("\n## Who may say what\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let named = cells.next().unwrap().split('`').nth(1).unwrap();
        let kind = Kind::ALL.into_iter();
        let mut kind = kind.filter(|kind| format!("{kind:?}") == named);
        Row {
            kind: kind.next().unwrap_or_else(|| panic!("no kind {named}")),
            cells: cells.map(str::to_owned).collect(),
        }
    });
    let mut rows: Vec<Row> = rows.collect();
    let mut kinds: Vec<Kind> = rows.iter().map(|row| row.kind).collect();
    kinds.sort();
    let mut all = Kind::ALL.to_vec();
    all.sort();
    assert_eq!(kinds, all, "every kind has a row");
    // A receiver of this may restart.
    rows.sort_by_key(|row| row.kind == Kind::TooFar);
    rows
}

/// The receivers, in the order of [`Scene`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    InView,
    Witness,
    Outside,
}

const RECEIVERS: [Receiver; 3] = [Receiver::InView, Receiver::Witness, Receiver::Outside];

/// Whether a cell says that this receiver takes the kind.
fn says_taken(cell: &str, receiver: Receiver) -> bool {
    match cell {
        "all" => true,
        "keepers" => receiver != Receiver::Witness,
        "view" => receiver == Receiver::InView,
        "no" => false,
        other => panic!("no word of the table: {other}"),
    }
}

fn is_request(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Forward | Kind::View | Kind::Clients | Kind::Scrub | Kind::Authority
    )
}

fn limit() -> Instant {
    Instant::now() + PATIENCE
}

/// A program with the files of a replica, as a later start of it.
async fn impersonate(files: &Crashed, incarnation: u64) -> Impostor {
    let past = past(files, incarnation).await;
    impersonate_with(files, incarnation, &past).await
}

async fn impersonate_with(files: &Crashed, incarnation: u64, past: &Introduction) -> Impostor {
    let past = Bytes::from(wire::encode(past));
    files.impersonate(incarnation, past).await
}

/// What a later start of a replica reports about its past.
async fn past(files: &Crashed, incarnation: u64) -> Introduction {
    let store = Arc::new(files.store());
    let key = Key::of(&files.identity());
    let lineage = Lineage::begin(store, key, incarnation, BTreeSet::new(), Duration::ZERO);
    Introduction::of(&lineage.await.unwrap())
}

/// Whether a request was refused before anything looked at it.
fn is_refused<T>(outcome: &Result<T, RequestError>) -> bool {
    matches!(outcome, Err(RequestError::Refused(why)) if why.0.contains("refuses this of replica"))
}

/// How many messages of a peer a replica dropped.
fn dropped(site: &Site, sender: u16) -> u64 {
    let peers = site.replica.status().peers;
    let peer = peers.iter().find(|peer| peer.slot == sender);
    peer.unwrap().refused_messages
}

/// Whether a replica takes this kind from a sender with which it has a session.
async fn is_taken(site: &Site, (slot, peer): (u16, &Peer), kind: Kind) -> bool {
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let said = harmless(kind, &site.set_files());
    if is_request(kind) {
        let asked = session.request(Lane::Control, said, limit());
        return !is_refused(&asked.await);
    }
    let before = dropped(site, slot);
    session.send(Lane::Control, said).await.unwrap();
    // A later message in the same lane is judged later.
    let asked = session.request(Lane::Control, Message::new(NO_KIND, ""), limit());
    assert!(is_refused(&asked.await));
    dropped(site, slot) == before
}

/// A set with one replica of every sort.
struct Scene {
    set: Set,
    /// The senders that get a session, in the order of the table's columns.
    members: Vec<(u16, Crashed)>,
    removed: (u16, Crashed),
    stranger: (u16, Crashed),
}

/// The slots of the receivers, in their order.
const AT: [u16; 3] = [1, 4, 6];

impl Scene {
    /// Replicas 1 and 2 and the witnesses 4 and 5 are in the view, and 3 is outside. Only 1 and 4 run, so that there is no majority and the view
    /// stays. Then 6, 7 and 8 have joined, and 8 was removed; 6 runs.
    async fn set() -> Scene {
        let mut set = Set::failing_with(3, |settings| {
            settings.suspicion = Duration::from_millis(2000);
        })
        .await;
        set.add_witness().await;
        set.add_witness().await;
        let third = set.crash(2).await;
        eventually("the third is outside", || {
            let view = set.sites[0].replica.view_status();
            let mut members = view.members.iter();
            let outside = members.any(|member| member.slot == 3 && !member.active);
            outside && view.epoch == view.audit.last().unwrap().epoch
        })
        .await;
        let second = set.crash(1).await;
        let fifth = set.crash(2).await;
        let sixth = set.enlist().await;
        let seventh = set.enlist().await;
        let eighth = set.enlist().await;
        set.remove(8);
        let ninth = set.enlist_secretly().await;
        set.revive(2, sixth).await;
        Scene {
            set,
            members: vec![(2, second), (3, third), (7, seventh), (5, fifth)],
            removed: (8, eighth),
            stranger: (9, ninth),
        }
    }

    /// Waits until the receivers know the members of the set, and what it agreed on.
    async fn know_each_other(&self) {
        let sites = &self.set.sites;
        eventually("all know the members", || {
            let versions = sites
                .iter()
                .map(|site| site.replica.status().members_version);
            let versions: Vec<u64> = versions.collect();
            // Eight joined, and one was removed.
            versions.iter().all(|version| *version >= 9)
        })
        .await;
        eventually("those in the view know it", || {
            let mut inside = sites[..2].iter();
            inside.all(|site| site.replica.view_status().takes_part)
        })
        .await;
        assert!(!sites[2].replica.view_status().takes_part);
    }

    /// Every sender sends every kind to every receiver.
    async fn walk(&self, incarnation: u64) {
        self.know_each_other().await;
        let table = table();
        for (column, (slot, files)) in self.members.iter().enumerate() {
            let impostor = impersonate(files, incarnation).await;
            for (at, receiver) in RECEIVERS.into_iter().enumerate() {
                let site = &self.set.sites[at];
                let peer = impostor.call(AT[at], site.address());
                for row in &table {
                    let expected = says_taken(&row.cells[column], receiver);
                    let taken = is_taken(site, (*slot, &peer), row.kind).await;
                    let kind = row.kind;
                    assert_eq!(
                        taken, expected,
                        "{kind:?} of replica {slot} at {receiver:?}"
                    );
                }
            }
        }
        for row in &table {
            // These have no session to send anything over.
            assert_eq!(row.cells[4..6], ["no", "no"], "{:?}", row.kind);
        }
        let (slot, files) = &self.removed;
        let impostor = impersonate(files, incarnation).await;
        self.turn_away(&impostor, "was removed from the set").await;
        for at in AT {
            let shown = impostor.shown_by(at).unwrap();
            let Ok(Grounds::Removed(shown)) = wire::decode(&shown) else {
                panic!("replica {at} shows no list of members");
            };
            let mut members = shown.members.iter();
            assert!(members.any(|member| member.slot == *slot && member.revoked));
        }
        let (_, files) = &self.stranger;
        let impostor = impersonate(files, incarnation).await;
        self.turn_away(&impostor, "no such member is known here")
            .await;
    }

    /// No receiver has a session with this sender; each says why.
    async fn turn_away(&self, impostor: &Impostor, why: &str) {
        for (at, site) in AT.iter().zip(&self.set.sites) {
            let peer = impostor.call(*at, site.address());
            eventually("it is turned away", || {
                let error = peer.status().last_error;
                error.is_some_and(|error| error.contains(why))
            })
            .await;
            assert!(peer.session().is_err());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_cell_of_the_table_is_as_the_page_says() {
    let mut stage = Scene::set().await;
    stage.walk(LATER).await;
    for at in 0..AT.len() {
        let crashed = stage.set.crash(at).await;
        stage.set.revive(at, crashed).await;
    }
    stage.walk(LATER + 1).await;
}

/// A forwarded REMOVE.
fn removal(by: u16, of: &str) -> Message {
    let origin = Origin {
        slot: by,
        incarnation: LATER,
        number: 1,
    };
    let operation = Operation::Remove(root(), ROOT, name(of));
    let forwarded = Forwarded {
        origin,
        operation,
        removed: false,
    };
    wire::payload(Kind::Forward, &forwarded)
}

/// Fails if a replica has a session with a removed server, and reports what came of that.
async fn assert_turned_away(site: &Site, files: &Crashed, incarnation: u64) {
    let impostor = impersonate(files, incarnation).await;
    let slot = site.replica.status().slot;
    let peer = impostor.call(slot, site.address());
    let joined = async {
        let session = peer.ready().await;
        let asked = session.request(Lane::Control, removal(3, "kept"), limit());
        panic!(
            "it was let in, and its removal answered with {:?}",
            asked.await
        );
    };
    let refused = eventually("it is turned away", || {
        let error = peer.status().last_error;
        error.is_some_and(|error| error.contains("was removed from the set"))
    });
    tokio::select! {
        () = joined => {}
        () = refused => {}
    }
}

fn knows(site: &Site, slot: u16) -> bool {
    let view = site.replica.view_status();
    let status = site.replica.status();
    view.voters.contains(&u64::from(slot))
        || view.members.iter().any(|member| member.slot == slot)
        || view.losses.iter().any(|loss| loss.slot == slot)
        || status.peers.iter().any(|peer| peer.slot == slot)
        || status
            .peers
            .iter()
            .any(|peer| peer.links.iter().any(|link| link.to == slot))
}

/// Server 4 was removed. A program with its old certificate connected, forwarded REMOVE as root, and the replica carried it out, even after the
/// founder had restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_40_a_removed_server_is_heard_by_nobody_ever_again() {
    let mut set = Set::failing(3).await;
    set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    set.remove(3);
    eventually("it is removed, and nobody shows it any more", || {
        set.sites.iter().all(|site| !knows(site, 3))
    })
    .await;
    for site in &set.sites {
        assert_turned_away(site, &third, LATER).await;
    }
    set.restart(0).await;
    set.restart(1).await;
    for site in &set.sites {
        assert_turned_away(site, &third, LATER + 1).await;
        site.find(ROOT, "kept").await.unwrap();
    }
}

/// A witness forwarded REMOVE as root, and the replica carried it out. A witness could also fetch contents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_49_a_witness_forwards_nothing_and_fetches_nothing() {
    let mut set = Set::failing(2).await;
    set.add_witness().await;
    let file = set.sites[0].save(ROOT, "kept", b"contents").await.unwrap();
    set.rest().await;
    let witness = set.crash(2).await;
    let impostor = impersonate(&witness, LATER).await;
    for (slot, site) in (1..).zip(&set.sites) {
        let peer = impostor.call(slot, site.address());
        let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
        let piece = ScrubQuestion::Piece {
            file,
            version: 1,
            offset: 0,
        };
        let questions = [removal(3, "kept"), wire::payload(Kind::Scrub, &piece)];
        for question in questions {
            let answer = session.request(Lane::Control, question, limit()).await;
            assert!(is_refused(&answer), "{answer:?}");
        }
        site.find(ROOT, "kept").await.unwrap();
    }
}

/// A witness has no controls. What it proposes, releases or withdraws blocks no replica: otherwise it could keep the whole tree for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_controls_nothing() {
    let mut set = Set::failing_with(2, |settings| settings.suspicion = PATIENCE).await;
    set.add_witness().await;
    set.rest().await;
    let witness = set.crash(2).await;
    let impostor = impersonate(&witness, LATER).await;
    let name = ControlName {
        holder: ReplicaSlot(3),
        incarnation: control::Incarnation(LATER),
        number: 1,
    };
    let everything = Claim {
        object: ROOT,
        depth: Depth::Deep,
        ancestors: Vec::new(),
    };
    let proposal = Proposal {
        name,
        claims: vec![everything],
        downgradable: false,
        behind: Vec::new(),
    };
    let said = [
        control::Message::Propose {
            proposal: proposal.clone(),
            replaces: None,
            floor: 0,
        },
        control::Message::Release {
            name: ControlName { number: 2, ..name },
            next: Some(proposal),
            floor: 0,
        },
        control::Message::Abort {
            name: ControlName { number: 2, ..name },
            floor: 0,
        },
    ];
    for (slot, site) in (1..).zip(&set.sites) {
        let peer = impostor.call(slot, site.address());
        let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
        for message in &said {
            let envelope = Envelope {
                epoch: Epoch(site.replica.view_status().epoch),
                message: message.clone(),
            };
            let message = wire::body(Kind::Control, &envelope);
            session.send(Lane::Control, message).await.unwrap();
        }
        // A later message in the same lane is judged later.
        let asked = session.request(Lane::Control, Message::new(NO_KIND, ""), limit());
        assert!(is_refused(&asked.await));
    }
    let made = set.sites[0].file(ROOT, "mine");
    let made = tokio::time::timeout(PATIENCE / 2, made).await;
    made.expect("nobody else controls the root").unwrap();
}

/// A forward in another replica's name is refused, even from a member that may forward.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_in_another_ones_name_is_not_carried_out() {
    let mut set = Set::failing(3).await;
    set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let impostor = impersonate(&third, LATER).await;
    let peer = impostor.call(1, set.sites[0].address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let asked = session.request(Lane::Control, removal(2, "kept"), limit());
    let Err(RequestError::Refused(why)) = asked.await else {
        panic!("it was answered");
    };
    assert!(why.0.contains("in the name of another replica"), "{why}");
    set.sites[0].find(ROOT, "kept").await.unwrap();
}

async fn assert_serves_nobody(site: &Site, file: ObjectId) {
    let status = site.replica.status();
    assert!(status.removed && !status.ready && status.peers.is_empty());
    let view = site.replica.view_status();
    assert!(!view.takes_part && view.members.is_empty());
    assert!(view.obstacle.unwrap().contains("removed from the set"));
    let read = site.try_read(file, PATIENCE).await;
    assert!(
        matches!(&read, Err(Error::Io(why)) if why.contains("removed from the set")),
        "{read:?}"
    );
    // It does not restart again and again.
    assert_eq!(*site.replica.has_left().borrow(), None);
}

/// A member that was removed while it ran was not told: it showed itself as a member, waited and asked. The others showed it as long as they
/// ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_member_is_told_and_serves_nobody_any_more() {
    let mut set = Set::failing(4).await;
    let file = set.sites[0].save(ROOT, "kept", b"contents").await.unwrap();
    set.rest().await;
    set.remove(3);
    let running = set.sites[2].replica.clone();
    eventually("it knows", || running.is_removed()).await;
    drop(running);
    assert_serves_nobody(&set.sites[2], file).await;
    let site = set.crash(2).await;
    set.revive(2, site).await;
    assert_serves_nobody(&set.sites[2], file).await;
    drop(set.crash(2).await);
    eventually("nobody shows it any more", || {
        set.sites.iter().all(|site| !knows(site, 3))
    })
    .await;

    // A member that was away learns of it as soon as it meets another member.
    let away = set.crash(2).await;
    set.remove(4);
    set.revive(2, away).await;
    let returned = set.sites[2].replica.clone();
    eventually("it is told", || returned.is_removed()).await;
    drop(returned);
    assert_serves_nobody(&set.sites[2], file).await;
    drop(set.crash(2).await);
    eventually("nobody shows it any more either", || {
        set.sites.iter().all(|site| !knows(site, 4))
    })
    .await;
    set.sites[1].file(ROOT, "new").await.unwrap();
    set.assert_equal().await;
}

/// A member claimed that it had met another one in a state that this one does not have. The other one believed it, noted that its copy was
/// restored from an older one, and refused everything for ever. The same happened after a false claim to have applied its updates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gives_itself_up_for_what_another_one_invents() {
    let mut set = Set::failing(3).await;
    set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let first = set.crash(0).await;
    let number = first.incarnation() + 1;
    let began = past(&first, number).await.position();
    set.revive(0, first.started_as(number)).await;
    set.revive_until_ready(0).await;
    let honest = past(&third, LATER).await;
    let claims = [
        honest.clone().inventing(invented(number)),
        honest.having_applied(began + 1),
    ];
    for (incarnation, claim) in (LATER..).zip(&claims) {
        let impostor = impersonate_with(&third, incarnation, claim).await;
        let peer = impostor.call(1, set.sites[0].address());
        eventually("it is told that it has no proof", || {
            let error = peer.status().last_error;
            error.is_some_and(|error| error.contains("has no proof"))
        })
        .await;
        assert_eq!(set.sites[0].replica.status().rolled_back, None);
    }
    set.sites[0].file(ROOT, "later").await.unwrap();
}

/// An invented claim to have met an earlier start.
fn invented(incarnation: u64) -> Met {
    Met {
        incarnation,
        nonce: 1,
        mark: u64::MAX,
        mac: Mac::invented(),
        at_unix_s: 0,
    }
}

/// The same, as an answer to replicas that call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gives_itself_up_for_an_invented_refusal() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let first = set.crash(0).await;
    let impostor = impersonate(&first, LATER).await;
    let fault = Fault {
        by: 1,
        what: Contradiction::Met(invented(1)),
    };
    let evidence = wire::encode(&Grounds::Past(Evidence::Yours(fault)));
    impostor.refuse_with(Bytes::from(evidence));
    for (slot, site) in (2..).zip(&set.sites) {
        impostor.call(slot, site.address());
    }
    eventually("both have called", || impostor.has_refused([2, 3])).await;
    for site in &set.sites {
        assert_eq!(site.replica.status().rolled_back, None);
    }
    set.sites[0].file(ROOT, "later").await.unwrap();
}

/// Waits until the survivors have the same of the third replica, which is lost.
async fn until_level(site: &Site) {
    eventually("the others are level", || {
        let losses = site.replica.view_status().losses;
        let mut losses = losses.iter();
        losses.any(|loss| loss.slot == 3 && loss.ready_to_settle)
    })
    .await;
}
