//! Executions in which a replica knows less than others: about places of objects, about controls, or
//! about its own answers. Each must break an invariant with its rule switched off, and pass with it.

use crate::stage::*;
use control::{Contention, Settings};
use sim::invariants::slower_than;
use sim::{Copy, Fault, Intent, Lane, Outcome, Violation, World};
use vfs::ObjectId;

fn create(parent: u64, name: u64) -> Intent {
    Intent::Create {
        parent: object(parent),
        name,
        directory: false,
    }
}

/// Moves X from D to E.
fn move_x() -> Intent {
    Intent::Rename {
        from: object(D),
        name: X,
        to: object(E),
        new: X,
    }
}

/// The object that has a name in a directory by now.
fn made(world: &mut World, at: u16, directory: u64, name: u64) -> ObjectId {
    let entries = world.replica(slot(at)).tree.entries(object(directory));
    let made = entries.and_then(|entries| entries.get(&name)).copied();
    made.expect("it was made long ago")
}

/// A witness C, which keeps no tree, acknowledges A's control of a file in D. B does not know it and
/// wants deep control of D. (The witness answers no opens, so the execution ends before the close is answered.)
fn play_11(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, Settings::default(), switch);
    world.replica(slot(3)).tree = Copy::default();
    slow(&mut world, 1, 2, Lane::Control, ms(2000));
    world.submit(ms(0), slot(1), Intent::Write(object(G)));
    world.submit(ms(100), slot(2), create(D, 100));
    world.run_until(ms(180))
}

#[test]
fn counterexample_11_an_acceptor_counts_the_ancestors_that_a_proposer_announces() {
    play_11(all_rules).unwrap();
    let broken = play_11(|rules| rules.announced_ancestors = false).unwrap_err();
    assert_eq!(broken.invariant, "I1", "{broken}");
}

/// A holds D. B's creation there is forwarded, its answer is lost, and B forwards it again, to A and, when
/// A has given D up, to C.
fn play_22(origins_kept: bool) -> Result<Option<Outcome>, Violation> {
    let mut world = set_the_stage(3, Settings::default(), all_rules);
    world.origins_kept = origins_kept;
    world.submit(ms(0), slot(1), create(D, 100));
    let forwarded = world.submit(ms(100), slot(2), create(D, 101));
    world.forward_again(ms(200), forwarded, slot(1));
    world.forward_again(ms(5000), forwarded, slot(3));
    world.run(ms(60_000))?;
    let operation = world.operations.last();
    let outcome = operation.and_then(|operation| operation.outcome);
    Ok(outcome.map(|(outcome, _)| outcome))
}

#[test]
fn counterexample_22_a_repeated_forward_is_answered_and_not_done_again() {
    assert_eq!(play_22(true).unwrap(), Some(Outcome::Done));
    assert_eq!(play_22(false).unwrap(), Some(Outcome::Refused));
}

/// A and C do not reach each other any more, B reaches both, and A's client closes a file.
fn play_24(views: bool) -> World {
    let mut world = set_the_stage_for_failures(3, all_rules);
    let early = world.run_until(ms(2_000));
    early.expect("nothing has gone wrong");
    world.model.silence_is_noticed = views;
    for (from, to) in [(1, 3), (3, 1)] {
        world.fail(ms(0), Fault::Cut(slot(from), slot(to)));
    }
    world.submit(ms(10), slot(1), Intent::Write(object(F)));
    let late = world.run_until(ms(30_000));
    late.expect("lateness breaks no other invariant");
    world
}

#[test]
fn counterexample_24_a_close_waits_for_an_active_replica_and_no_longer_for_one_that_has_left() {
    let world = play_24(true);
    assert!(slower_than(&world, ms(8_000)).is_empty());
    let world = play_24(false);
    assert_eq!(slower_than(&world, ms(60_000)), [0]);
}

/// Three at equal distances want one directory. Returns the number of those served within a minute.
fn play_30(switch: Switch) -> Result<usize, Violation> {
    let mut settings = shallow_only();
    settings.directory_contention = Contention::Wait;
    let mut world = set_the_stage(3, settings, switch);
    for replica in 1..=3 {
        world.submit(ms(0), slot(replica), create(D, u64::from(replica) * 10));
    }
    world.run_until(ms(60_000))?;
    Ok(3 - slower_than(&world, ms(60_000)).len())
}

#[test]
fn counterexample_30_an_acceptor_does_not_keep_a_refusal_to_itself() {
    assert_eq!(play_30(all_rules).unwrap(), 3);
    let without = play_30(|rules| rules.refusals_are_sent = false);
    assert_eq!(without.unwrap(), 0);
}

/// B and C know of B's control of a file below X. A, with deep control of E, does not know it and moves
/// X into E.
fn play_35(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, Settings::default(), switch);
    world.submit(ms(0), slot(2), create(X, 100));
    world.run_until(ms(5000))?;
    let file = made(&mut world, 2, X, 100);
    world.submit(ms(0), slot(2), Intent::Write(object(G)));
    world.submit(ms(0), slot(1), create(E, 200));
    world.submit(ms(100), slot(1), create(D, 201));
    world.run_until(ms(5200))?;
    slow(&mut world, 2, 1, Lane::Control, ms(500));
    world.submit(ms(0), slot(2), Intent::Write(file));
    world.submit(ms(50), slot(1), move_x());
    to_rest(world)
}

#[test]
fn counterexample_35_a_directory_is_not_moved_over_a_control_that_the_mover_does_not_know() {
    play_35(all_rules).unwrap();
    let broken = play_35(|rules| rules.moved_directory_explicit = false).unwrap_err();
    assert_eq!(broken.invariant, "I1", "{broken}");
}

/// A, with deep control of D, writes a file in X and moves X to E; B applies the move long before it has
/// the file's content.
fn play_36(switch: Switch) -> Result<(), Violation> {
    let mut settings = Settings::default();
    settings.strategies.file_control_under_deep = false;
    let mut world = set_the_stage(3, settings, switch);
    world.submit(ms(0), slot(2), create(X, 100));
    world.run_until(ms(5000))?;
    let file = made(&mut world, 2, X, 100);
    slow(&mut world, 1, 2, Lane::Data, ms(2000));
    world.submit(ms(0), slot(2), Intent::Write(object(F)));
    world.submit(ms(0), slot(1), create(D, 200));
    world.submit(ms(50), slot(1), create(E, 201));
    world.submit(ms(100), slot(1), Intent::Write(file));
    world.submit(ms(200), slot(1), move_x());
    world.submit(ms(300), slot(2), Intent::Write(file));
    to_rest(world)
}

#[test]
fn counterexample_36_what_was_written_below_a_moved_directory_stays_controlled() {
    play_36(all_rules).unwrap();
    let broken = play_36(|rules| rules.moved_directory_explicit = false).unwrap_err();
    assert!(["I3", "I4 (updates build on the newest version)"].contains(&broken.invariant));
}
