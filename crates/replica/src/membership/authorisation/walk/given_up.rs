//! A replica needs the others' copy, and has something that one of them lacks.

use view::{DecisionKind, Outcome};

use super::*;
use crate::replication::base;
use crate::state::arrivals::PUTTING_AT_ONCE;
use crate::state::wire::PieceDone;

const BACK: &str = "lacks updates of replica 2";

/// Whether the third replica has more of the second's stream than the first.
fn has_more(set: &Set) -> bool {
    let applied = |at: usize| set.sites[at].store.applied(ReplicaSlot(2)).unwrap();
    applied(2) > applied(0)
}

/// Of three replicas the second made something that the third has, and the first does not have yet. The third is lost, and the others go on
/// without what it alone had. The third comes back, and keeps its copy until the first has that, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_61_who_was_given_up_keeps_what_counts_because_it_is_there() {
    let mut set = Set::failing(3).await;
    let parent = set.sites[1].directory(ROOT, "of-the-second").await.unwrap();
    let theirs = set.sites[2].directory(ROOT, "of-the-third").await.unwrap();
    set.rest().await;
    let first = set.sites[0].replica.local().clone();
    let inbox = first.state.inboxes.get(ReplicaSlot(2)).unwrap();
    let nothing_more = inbox.applying.lock().await;
    set.sites[1].directory(parent, "answered").await.unwrap();
    eventually("the third has it", || has_more(&set)).await;
    // Some of it is frozen.
    set.sites[2].directory(theirs, "made").await.unwrap();

    let third = set.crash(2).await;
    until_level(&set.sites[1]).await;
    set.sites[1].give_up(3).await;
    set.revive(2, third).await;
    let third = &set.sites[2].replica;
    eventually("it says what it waits for", || {
        let obstacle = third.view_status().obstacle;
        obstacle.is_some_and(|obstacle| obstacle.contains(BACK))
    })
    .await;
    assert!(has_more(&set), "it has given its copy up");

    drop(nothing_more);
    drop((inbox, first));
    set.revive_until_ready(2).await;
    set.sites[2].find(parent, "answered").await.unwrap();
    set.assert_equal().await;
}

/// The same for a member that restarts and finds that its copy differs from the others'. It first leaves the view, and is outside then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_needs_a_copy_keeps_its_own_until_all_others_have_what_is_in_it() {
    let mut set = Set::failing(3).await;
    let parent = set.sites[1].directory(ROOT, "of-the-second").await.unwrap();
    set.rest().await;
    let first = set.sites[0].replica.local().clone();
    let inbox = first.state.inboxes.get(ReplicaSlot(2)).unwrap();
    let nothing_more = inbox.applying.lock().await;
    set.sites[1].directory(parent, "answered").await.unwrap();
    eventually("the third has it", || has_more(&set)).await;

    let third = set.crash(2).await;
    let store = third.store();
    let differs = vec![(base::COPY_ANEW.to_vec(), Some(Vec::new()))];
    let noted = store.put_facts(differs).await.unwrap();
    store.wait_stable(noted).await.unwrap();
    let closing = tokio::task::spawn_blocking(move || drop(store));
    closing.await.unwrap();
    set.revive(2, third).await;
    let second = &set.sites[1].replica;
    eventually("it has left the view", || {
        let members = second.view_status().members;
        members.iter().any(|one| one.slot == 3 && !one.active)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(has_more(&set), "it has given its copy up");

    drop(nothing_more);
    drop((inbox, first));
    set.revive_until_ready(2).await;
    set.sites[2].find(parent, "answered").await.unwrap();
    set.assert_equal().await;
}

/// Of three replicas the third changed a file, and no other has its contents yet. The third is back in contact. The second gets the contents
/// before the set agrees to go on without them; the first does not, and takes in nothing more afterwards. The second passes them on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_62_contents_that_only_one_has_got_before_the_decision_are_everywhere() {
    let mut set = Set::failing(3).await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    let held = |at: usize| {
        let inboxes = &set.sites[at].replica.local().state.inboxes;
        inboxes.get(ReplicaSlot(3)).unwrap()
    };
    let (at_first, at_second) = (held(0), held(1));
    let nothing_at_first = at_first.putting.acquire_many(PUTTING_AT_ONCE).await;
    let nothing_at_second = at_second.putting.acquire_many(PUTTING_AT_ONCE).await;
    set.sites[2].write(file, 0, b"new").await.unwrap();
    let lack = |set: &Set, at: usize| set.sites[at].store.is_incomplete(file);
    eventually("the others know of it", || lack(&set, 0) && lack(&set, 1)).await;
    let third = set.crash(2).await;
    until_level(&set.sites[0]).await;

    set.revive(2, third).await;
    let third = set.sites[2].replica.local().clone();
    third.state.peers.with(ReplicaSlot(1), |peer| {
        peer.shipments.hold_back(Instant::now() + 2 * PATIENCE);
    });
    drop(third);
    drop((nothing_at_first, nothing_at_second));
    eventually("the second has the contents", || !lack(&set, 1)).await;
    assert!(lack(&set, 0));
    set.sites[0].give_up(3).await;
    set.sites[1].write(file, 0, b"N").await.unwrap();
    eventually("the first has them, too", || !lack(&set, 0)).await;
    for site in &set.sites[..2] {
        assert_eq!(site.load(ROOT, "file").await.unwrap(), b"New");
    }
    drop((at_first, at_second));
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// While a replica is away, nothing is noted of files that the others write: no replica waits for their contents as those of the lost one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_while_one_is_away_is_not_noted_for_it() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    drop(set.crash(2).await);
    let second = &set.sites[1].replica;
    eventually("they go on without it", || {
        let losses = second.view_status().losses;
        losses.iter().any(|loss| loss.slot == 3) && second.ready()
    })
    .await;
    let noted = |set: &Set| {
        let sent = |site: &Site| {
            let equalling = site.replica.local().state.losses.equalling();
            let lost = equalling.get(&ReplicaSlot(3));
            lost.map(|lost| (lost.own.len(), lost.sent.len()))
        };
        set.sites.iter().map(sent).collect::<Vec<_>>()
    };
    eventually("they are level", || noted(&set).iter().all(Option::is_some)).await;
    let mut made: Vec<(ObjectId, usize)> = Vec::new();
    for number in 0..20 {
        let name = format!("file-{number}");
        let contents = vec![7; 100_000];
        let file = set.sites[number % 2].save(ROOT, &name, &contents).await;
        made.push((file.unwrap(), 1 - number % 2));
    }
    eventually("each has the other's", || {
        let has_updates = |at: usize| {
            let (by, slot) = (&set.sites[1 - at], ReplicaSlot(2 - at as u16));
            let last = by.replica.local().engine.last_position();
            set.sites[at].store.applied(slot).unwrap() >= last
        };
        let mut made = made.iter();
        let has_contents = made.all(|(file, at)| !set.sites[*at].store.is_incomplete(*file));
        has_updates(0) && has_updates(1) && has_contents
    })
    .await;
    assert_eq!(noted(&set), [Some((0, 0)); 2]);
}

/// One of three replicas is given up, and is back before it knows. A refusal answers its contents, so that it sends them again later. It may
/// take part again in the same session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_68_contents_of_one_that_was_given_up_are_put_off_and_not_forgotten() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let file = set.sites[2].save(ROOT, "file", b"text").await.unwrap();
    let third = set.crash(2).await;
    let site = &set.sites[0];
    let local = site.replica.local();
    while !local.is_given_up(ReplicaSlot(3)) {
        // Refused before it is lost and all are level.
        let _refused = site.replica.thaw(3, "its disk is gone").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let impostor = impersonate(&third, LATER).await;
    let mut heard = impostor.deafen();
    let peer = impostor.call(1, site.address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let piece = wire::body(Kind::Piece, &nothing_of(file));
    session.send(Lane::Data, piece).await.unwrap();
    let answer = async {
        loop {
            let (from, message) = heard.recv().await.unwrap();
            if from == ReplicaSlot(1) && message.kind == Kind::PieceDone.number() {
                return wire::decode::<PieceDone>(&message.body).unwrap();
            }
        }
    };
    let done = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    assert!(done.failed && done.file == file, "{done:?}");
}

/// One of three replicas was given up, and is back. Another one hears of that after it hears from it, like a new server that learns of old
/// decisions first. Updates made since then come only once in a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_76_old_decisions_leave_no_hole_in_the_stream_of_one_that_is_back() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let third = set.crash(2).await;
    let site = &set.sites[0];
    site.give_up(3).await;
    let impostor = impersonate(&third, LATER).await;
    let peer = impostor.call(1, site.address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let applied = || site.store.applied(ReplicaSlot(3)).unwrap();
    let before = applied();
    let later = wire::payload(Kind::Records, &nothing_through(before + 5));
    session.send(Lane::Metadata, later).await.unwrap();
    // A replica that took it in, or dropped it, would have done so by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        applied(),
        before,
        "it may be what it was decided to go on without"
    );

    let local = site.replica.local();
    let admitted = DecisionKind::Admit {
        slot: ReplicaSlot(3),
        incarnation: LATER,
    };
    let views = local.views.get().unwrap();
    let outcome = views.decide(local.decision(admitted)).await.unwrap();
    assert_eq!(outcome, Outcome::Applied);
    eventually("what it had sent is taken in", || applied() == before + 5).await;
}
