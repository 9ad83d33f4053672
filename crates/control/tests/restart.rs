//! Admission without waiting, operations that take their time, and what a restart leaves behind.

use crate::set::*;
use control::*;
use std::collections::BTreeSet;

/// Root 1, directory 2 in it, file 3 in that.
fn tree() -> Map {
    Map::of(&[(2, 1), (3, 2)])
}

fn at_milliseconds(milliseconds: u64) -> Moment {
    Moment(milliseconds * 1000)
}

fn try_admit(set: &mut Set, replica: u16, update: Update) -> Option<Admission> {
    let (now, tree) = (set.now, set.tree.clone());
    let admission = set.cores[usize::from(replica)].try_admit(now, &tree, (&update, Asker::Own));
    set.drain(replica);
    admission
}

#[test]
fn what_is_covered_is_admitted_without_a_word_and_anything_else_changes_nothing() {
    let mut set = Set::new(3, tree(), Settings::default());
    assert_eq!(try_admit(&mut set, 0, write(3)), None);
    assert_eq!(set.cores[0].unfinished(), 0);
    assert!(set.wire.is_empty());
    set.submit(0, 1, create(2));
    set.deliver();
    let admission = try_admit(&mut set, 0, write(3)).unwrap();
    assert_eq!(admission.under, [name(0, 1)]);
    set.deliver();
    let own = (0, 3, Depth::Shallow);
    assert!(
        set.agreed().contains(&own),
        "the file's own control is announced"
    );
    assert_eq!(set.cores[0].foreign_grants(), 0);
    assert_eq!(set.cores[1].foreign_grants(), 2);
}

#[test]
fn a_set_of_one_replica_admits_at_once() {
    let mut set = Set::new(1, tree(), Settings::default());
    set.submit(0, 1, create(2));
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    assert!(try_admit(&mut set, 0, write(3)).is_some());
    set.run_until(at_milliseconds(10_000));
    assert_eq!(set.cores[0].unfinished(), 0, "and nothing is left of it");
}

#[test]
fn held_controls_outlast_a_revoke_but_admit_nothing_more() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, create(2));
    set.deliver();
    let under = [name(0, 1)];
    set.cores[0].hold(&under);
    set.submit(1, 2, create(2));
    set.run_until(at_milliseconds(5000));
    assert_eq!(set.agreed(), [(0, 2, Depth::Deep)]);
    assert_eq!(
        try_admit(&mut set, 0, create(2)),
        None,
        "the deadline has passed"
    );
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[0].handle_update(&tree, &create(2), &under, Position(1));
    set.cores[0].handle_let_go(now, &tree, &under);
    set.drain(0);
    set.deliver();
    assert_eq!(
        set.agreed(),
        [(0, 2, Depth::Deep)],
        "what was done is not everywhere"
    );
    for peer in [1, 2] {
        set.cores[0].handle_applied(now, &tree, slot(peer), Position(1));
    }
    set.drain(0);
    set.deliver();
    assert_eq!(set.agreed(), []);
}

/// Lets a replica start anew with what it had acknowledged.
fn restart(set: &mut Set, replica: u16) {
    let old = &set.cores[usize::from(replica)];
    let grants: Vec<Proposal> = old.acknowledged().cloned().collect();
    let settings = Settings::default();
    let mut new = ControlCore::new(slot(replica), Incarnation(2), view(3), settings);
    for grant in grants {
        new.restore(&set.tree, grant);
    }
    set.cores[usize::from(replica)] = new;
    set.alarms.remove(&replica);
}

#[test]
fn previous_controls_stand_in_the_way_until_they_are_settled() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.deliver();
    restart(&mut set, 0);
    assert_eq!(try_admit(&mut set, 0, write(3)), None, "they admit nothing");
    set.submit(1, 2, write(3));
    assert_eq!(set.outcomes[&2], Outcome::Forwarded { at: 1, to: 0 });
    let revoke = Message::Revoke { name: name(0, 1) };
    let (now, tree) = (set.now, set.tree.clone());
    let epoch = Epoch(1);
    let message = revoke;
    set.cores[0].handle_message(now, &tree, slot(1), Envelope { epoch, message });
    assert_eq!(commands(&mut set.cores[0]), [], "they are not disowned");

    set.cores[0].handle_previous_settled(now, &tree);
    let kept: BTreeSet<_> = set.cores[0]
        .acknowledged()
        .map(|grant| grant.name)
        .collect();
    assert_eq!(kept, BTreeSet::new());
    drop(commands(&mut set.cores[0]));
    for peer in [1, 2] {
        set.cores[0].handle_connected(now, &tree, slot(peer));
    }
    set.drain(0);
    set.deliver();
    for core in &mut set.cores {
        assert_eq!(core.acknowledged().count(), 0, "a lost end is repeated");
        core.handle_connected(now, &tree, slot(1));
    }
    assert_eq!(commands(&mut set.cores[0]), [], "and not when it was noted");
}

#[test]
fn a_restart_leaves_no_orphan_of_what_the_restarted_replica_did_not_remember() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    let (_, to, late) = set.wire.pop_front().unwrap();
    set.deliver();
    let settings = Settings::default();
    set.cores[0] = ControlCore::new(slot(0), Incarnation(2), view(3), settings);
    set.alarms.remove(&0);
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[0].handle_previous_settled(now, &tree);
    set.drain(0);
    set.deliver();
    set.wire.push_back((0, to, late));
    set.deliver();
    assert!(
        set.cores
            .iter()
            .all(|core| core.acknowledged().count() == 0)
    );
    set.submit(1, 2, write(3));
    set.deliver();
    assert!(matches!(set.outcomes[&2], Outcome::Admitted { at: 1, .. }));
}

/// A replica has held and released a control, and is started anew as this incarnation, in which its numbers begin again.
/// Returns what becomes of the next one.
fn numbers_begin_again_in(incarnation: u64) -> Option<Outcome> {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.deliver();
    set.run_until(at_milliseconds(10_000));
    assert_eq!(set.agreed(), [], "it has ended everywhere");
    let settings = Settings::default();
    set.cores[0] = ControlCore::new(slot(0), Incarnation(incarnation), view(3), settings);
    set.alarms.remove(&0);
    set.submit(0, 2, write(3));
    set.deliver();
    set.run_until(at_milliseconds(100_000));
    set.outcomes.remove(&2)
}

#[test]
fn counterexample_39_numbers_after_a_restart_are_those_of_another_incarnation() {
    let admitted = numbers_begin_again_in(2);
    assert!(matches!(admitted, Some(Outcome::Admitted { at: 0, .. })));
    assert_eq!(numbers_begin_again_in(1), None, "it is taken for ended");
}

/// An acceptor hears of a proposal that made way for another one, whose end it was not told.
fn asks_about_an_end(mut acceptor: ControlCore) {
    let tree = tree();
    let in_force = acceptor.epoch();
    let proposal = Proposal {
        name: name(1, 1),
        claims: vec![Claim::new(&tree, id(3), Depth::Shallow)],
        downgradable: false,
        behind: vec![name(0, 5)],
    };
    let mut hear = |from, message| {
        let epoch = in_force;
        acceptor.handle_message(Moment(0), &tree, slot(from), Envelope { epoch, message });
        commands(&mut acceptor)
    };
    for peer in [0, 1] {
        let (part, last, told) = (0, true, Told::default());
        hear(peer, Message::Report { part, last, told });
    }
    let propose = Message::Propose {
        proposal: proposal.clone(),
        replaces: None,
        floor: 1,
    };
    let said = hear(1, propose);
    let question = Message::Revoke { name: name(0, 5) };
    let asks = |command: &Command| {
        matches!(command, Command::Send { to, envelope, .. }
            if *to == slot(0) && envelope.message == question)
    };
    assert!(said.iter().any(asks));
    let said = hear(0, Message::Disown { name: name(0, 5) });
    assert!(said.contains(&Command::Persist(Record::Granted(proposal))));
}

#[test]
fn a_restarted_acceptor_asks_about_competitors_whose_end_it_may_have_forgotten() {
    let settings = Settings::default();
    let acceptor = ControlCore::new(slot(2), Incarnation(2), view(3), settings);
    asks_about_an_end(acceptor);
}

#[test]
fn a_newcomer_asks_about_competitors_whose_end_it_was_never_told() {
    let mut before = view(3);
    before.active.remove(&slot(2));
    let settings = Settings::default();
    let mut acceptor = ControlCore::new(slot(2), Incarnation(1), before, settings);
    let joined = View {
        epoch: Epoch(2),
        since: [(slot(2), Epoch(2))].into(),
        ..view(3)
    };
    acceptor.handle_view(Moment(0), &tree(), joined);
    drop(commands(&mut acceptor));
    asks_about_an_end(acceptor);
}

/// 0 has released its control, which 1 has noted and 2 has not.
fn released_but_for_2() -> Set {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.deliver();
    let (now, tree) = (at_milliseconds(10_000), set.tree.clone());
    set.now = now;
    set.cores[0].handle_timer(now, &tree);
    set.drain(0);
    set.wire.retain(|(_, to, _)| *to == 1);
    set.deliver();
    set
}

/// 0 has released a control, and only 2 has not noted it yet. 1 has, and acknowledges it once more: because it was
/// started anew, or because somebody named it as the next to be granted.
#[test]
fn an_end_is_told_again_to_who_acknowledges_what_has_ended() {
    let mut set = released_but_for_2();
    let (now, tree) = (set.now, set.tree.clone());
    assert_eq!(set.cores[0].unfinished(), 1, "2 has not noted the end");
    let (epoch, name) = (Epoch(1), name(0, 1));
    let message = Message::Acknowledge { name };
    set.cores[0].handle_message(now, &tree, slot(1), Envelope { epoch, message });
    set.drain(0);
    let disowned = |(_, to, envelope): &(u16, u16, Envelope)| {
        *to == 1 && envelope.message == Message::Disown { name }
    };
    assert!(set.wire.iter().any(disowned));
}

/// 0 has released a control. 2, which is started anew within the view, has not noted that, and remembers it.
#[test]
fn counterexample_52_an_end_is_told_again_to_a_member_that_goes_on_as_a_later_incarnation() {
    let mut set = released_but_for_2();
    let tree = set.tree.clone();
    let grants: Vec<Proposal> = set.cores[2].acknowledged().cloned().collect();
    assert_eq!(grants.len(), 1);
    let alone = View::whole(Epoch(0), [slot(2)].into());
    let mut anew = ControlCore::new(slot(2), Incarnation(2), alone, Settings::default());
    for grant in grants {
        anew.restore(&tree, grant);
    }
    set.cores[2] = anew;
    enter_view(&mut set, 2, &view(3));
    let admitted = without(3, 2, &[0, 1, 2], &[(2, 2)]);
    for replica in 0..3 {
        enter_view(&mut set, replica, &admitted);
    }
    set.deliver();
    assert_eq!(set.cores[2].acknowledged().count(), 0, "it has ended");
    assert_eq!(set.cores[0].unfinished(), 0, "and that is noted");
}

/// 0 has released a control, and all have noted that. 2, outside the view, is told once more that another control was released for that one, grants it
/// again, and its word of that counts nowhere. It takes part again as a later incarnation.
#[test]
fn counterexample_67_what_its_holder_does_not_tell_of_is_acknowledged_anew_and_disowned() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.deliver();
    let (now, tree) = (at_milliseconds(10_000), set.tree.clone());
    let granted_again: Vec<Proposal> = set.cores[2].acknowledged().cloned().collect();
    assert_eq!(granted_again.len(), 1);
    set.now = now;
    set.cores[0].handle_timer(now, &tree);
    set.drain(0);
    set.deliver();
    assert_eq!(set.cores[0].unfinished(), 0, "all have noted the end");
    let alone = View::whole(Epoch(0), [slot(2)].into());
    let mut anew = ControlCore::new(slot(2), Incarnation(2), alone, Settings::default());
    for grant in granted_again {
        anew.restore(&tree, grant);
    }
    set.cores[2] = anew;
    let admitted = without(3, 2, &[0, 1, 2], &[(2, 2)]);
    for replica in 0..3 {
        enter_view(&mut set, replica, &admitted);
    }
    set.deliver();
    assert_eq!(set.cores[2].acknowledged().count(), 0, "it has ended");
}

/// 0 was started anew in a view that the others have left behind them, and 1 has everything that it made. In the present
/// view it does not take part, and 2 does.
#[test]
fn counterexample_53_previous_controls_stand_until_those_who_take_part_now_have_everything() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.deliver();
    restart(&mut set, 0);
    let tree = set.tree.clone();
    let enter = |set: &mut Set, view: View| {
        set.cores[0].handle_view(set.now, &tree, view);
        renounced_to(&mut set.cores[0])
    };
    assert_eq!(enter(&mut set, without(3, 2, &[0, 1], &[])), []);
    set.cores[0].handle_previous_settled(set.now, &tree);
    assert_eq!(renounced_to(&mut set.cores[0]), [slot(1)]);
    assert_eq!(enter(&mut set, without(3, 4, &[1, 2], &[(2, 4)])), []);
    assert!(!set.cores[0].has_renounced());
    set.cores[0].handle_previous_settled(set.now, &tree);
    assert_eq!(renounced_to(&mut set.cores[0]), [slot(1), slot(2)]);
    let said_again = enter(&mut set, without(3, 5, &[1, 2], &[(2, 4)]));
    assert_eq!(said_again, [slot(1), slot(2)], "nobody is there anew");
}

/// Whom a replica tells now that its previous controls have ended.
fn renounced_to(core: &mut ControlCore) -> Vec<ReplicaSlot> {
    let renounces = |command: Command| match command {
        Command::Send { to, envelope, .. } => {
            matches!(envelope.message, Message::Renounce { .. }).then_some(to)
        }
        _ => None,
    };
    let told: BTreeSet<_> = commands(core).into_iter().filter_map(renounces).collect();
    told.into_iter().collect()
}
