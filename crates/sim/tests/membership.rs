//! Executions in which the configuration or the view changes while messages about controls are on their way. Each must break an
//! invariant, or leave an operation waiting, with its rule switched off, and pass with it.

use crate::stage::*;
use control::ReplicaSlot;
use sim::invariants::slower_than;
use sim::{Fault, Intent, Lane, Violation, World};

fn create(parent: u64, name: u64) -> Intent {
    Intent::Create {
        parent: object(parent),
        name,
        directory: false,
    }
}

fn takes_part(world: &mut World, at: u16, member: u16) -> bool {
    let view = world.replica(slot(at)).core.view().clone();
    view.active.contains(&slot(member))
}

/// Runs until a view with, or without, a member is in force at a replica.
fn run_until_view(world: &mut World, at: u16, member: u16, inside: bool) -> Result<(), Violation> {
    for _ in 0..20_000 {
        if takes_part(world, at, member) == inside {
            return Ok(());
        }
        let next = world.now.0 / 1_000 + 1;
        world.run_until(ms(next))?;
    }
    panic!("the view never changes");
}

/// A and B of three replicas know that A controls E; C learns it late. D is admitted, and A is lost before it has told
/// the others, in the new configuration, what it holds. Of four, B's acknowledgement alone seems too little.
fn play_10(after: u64, switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage_for_joining(4, 3, switch);
    world.fail(ms(0), Fault::Crash(slot(4)));
    world.run_until(ms(2_000))?;
    slow(&mut world, 1, 3, Lane::Control, ms(1_000));
    for other in [2, 3] {
        slow(&mut world, 1, other, Lane::Stream, ms(20_000));
    }
    world.fail(ms(0), Fault::Start(slot(4)));
    world.submit(ms(after), slot(1), create(E, 100));
    // D decides, and the others do not know it yet.
    run_until_view(&mut world, 4, 4, true)?;
    world.fail(ms(0), Fault::Crash(slot(1)));
    run_until_view(&mut world, 2, 1, false)?;
    world.submit(ms(500), slot(3), create(E, 100));
    world.run_until(ms(world.now.0 / 1_000 + 3_000))?;
    world.fail(ms(0), Fault::HealAll);
    let limit = world.now.0 / 1_000 + 60_000;
    world.run_to_rest(ms(limit))
}

#[test]
fn counterexample_10_what_a_smaller_configuration_had_won_is_frozen_in_a_larger_one() {
    let times = || (0..40).map(|step| step * 4);
    for after in times() {
        play_10(after, all_rules).unwrap();
    }
    let off: Switch = |rules| rules.freezes_across_configurations = false;
    let broken = times().find_map(|after| play_10(after, off).err());
    let broken = broken.expect("at some moment it is too early");
    assert!(broken.invariant.starts_with("I4"), "{broken}");
}

/// B is away; A and C continue. C is lost, with something that only it knows, and B is back.
fn play_one_for_another(places_are_taken: bool) -> (World, u64) {
    let mut world = set_the_stage_for_failures(3, all_rules);
    world.model.places_are_taken = places_are_taken;
    let (second, third): (ReplicaSlot, ReplicaSlot) = (slot(2), slot(3));
    let run = |world: &mut World, until: u64| {
        let seen = world.run_until(ms(until));
        seen.expect("lateness breaks no invariant");
    };
    run(&mut world, 2_000);
    world.fail(ms(0), Fault::Crash(second));
    world.submit(ms(6_000), third, Intent::Write(object(F)));
    run(&mut world, 10_000);
    slow(&mut world, 3, 1, Lane::Stream, ms(20_000));
    world.submit(ms(0), third, create(D, 100));
    run(&mut world, 10_200);
    world.fail(ms(0), Fault::Crash(third));
    world.fail(ms(2_000), Fault::Start(second));
    let free = world.submit(ms(3_000), slot(1), create(E, 100));
    run(&mut world, 60_000);
    (world, free)
}

#[test]
fn one_who_waits_outside_takes_the_place_of_one_who_is_lost() {
    let (mut world, free) = play_one_for_another(true);
    assert!(!slower_than(&world, ms(20_000)).contains(&free));
    assert!(takes_part(&mut world, 1, 2) && !takes_part(&mut world, 1, 3));
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(120_000)).unwrap();
    let (world, free) = play_one_for_another(false);
    assert!(slower_than(&world, ms(40_000)).contains(&free));
}

/// B is away, and C is lost before A has heard its report in the view without B. Then B is back.
#[test]
fn one_who_waits_outside_takes_the_place_of_one_who_is_lost_before_it_has_reported() {
    let mut world = set_the_stage_for_failures(3, all_rules);
    world.run_until(ms(2_000)).unwrap();
    let controlled = world.submit(ms(0), slot(3), Intent::Write(object(F)));
    slow(&mut world, 3, 1, Lane::Control, ms(500));
    world.run_until(ms(2_100)).unwrap();
    world.fail(ms(0), Fault::Crash(slot(2)));
    run_until_view(&mut world, 1, 2, false).unwrap();
    assert!(!world.replica(slot(1)).core.is_settled());
    world.fail(ms(0), Fault::Cut(slot(3), slot(1)));
    world.fail(ms(0), Fault::Crash(slot(3)));
    world.fail(ms(2_000), Fault::Start(slot(2)));
    let free = world.submit(ms(3_000), slot(1), create(E, 100));
    let later = world.now.0 / 1_000 + 60_000;
    world.run_until(ms(later)).unwrap();
    assert!(takes_part(&mut world, 1, 2) && !takes_part(&mut world, 1, 3));
    let late = slower_than(&world, ms(20_000));
    assert!(!late.contains(&free) && !late.contains(&controlled));
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(later + 60_000)).unwrap();
}

/// B is away, and C is lost. A, which is left, is restarted before B is back.
fn play_started_anew(starts_take_nothing: bool) -> (World, u64) {
    let mut world = set_the_stage_for_failures(3, all_rules);
    world.model.starts_take_nothing = starts_take_nothing;
    let run = |world: &mut World, until: u64| {
        let seen = world.run_until(ms(until));
        seen.expect("lateness breaks no invariant");
    };
    run(&mut world, 2_000);
    world.fail(ms(0), Fault::Crash(slot(2)));
    world.submit(ms(6_000), slot(3), Intent::Write(object(F)));
    run(&mut world, 10_000);
    world.fail(ms(0), Fault::Crash(slot(3)));
    world.fail(ms(100), Fault::Crash(slot(1)));
    world.fail(ms(1_000), Fault::Start(slot(1)));
    world.fail(ms(2_000), Fault::Start(slot(2)));
    let free = world.submit(ms(3_000), slot(1), create(D, 100));
    run(&mut world, 60_000);
    (world, free)
}

#[test]
fn one_who_waits_outside_takes_the_place_of_one_who_is_lost_though_the_survivor_was_started_anew() {
    let (mut world, free) = play_started_anew(true);
    assert!(!slower_than(&world, ms(30_000)).contains(&free));
    assert!(takes_part(&mut world, 1, 2) && !takes_part(&mut world, 1, 3));
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(120_000)).unwrap();
    let (mut world, free) = play_started_anew(false);
    assert!(slower_than(&world, ms(40_000)).contains(&free));
    assert!(takes_part(&mut world, 1, 3));
}

/// A and a witness continue without B. B is admitted although it lacks A's last write, because messages from A are slow, and A is lost.
fn play_57(complete_copies_stay: bool) -> Result<(), Violation> {
    let mut world = set_the_stage_for_sequences(3, 3, Some(3), false);
    world.model.complete_copies_stay = complete_copies_stay;
    world.run_until(ms(2_000))?;
    world.fail(ms(0), Fault::Crash(slot(2)));
    run_until_view(&mut world, 1, 2, false)?;
    slow(&mut world, 1, 2, Lane::Stream, ms(30_000));
    slow(&mut world, 1, 2, Lane::Data, ms(60_000));
    world.fail(ms(0), Fault::Start(slot(2)));
    let began = world.now.0 / 1_000;
    // What A had then is on its way to B.
    world.run_until(ms(began + 12_000))?;
    let written = world.submit(ms(0), slot(1), Intent::Write(object(F)));
    world.run_until(ms(began + 25_000))?;
    run_until_view(&mut world, 1, 2, true)?;
    assert!(!slower_than(&world, ms(5_000)).contains(&written));
    world.fail(ms(0), Fault::Crash(slot(1)));
    world.submit(ms(20_000), slot(2), Intent::Write(object(F)));
    world.run_until(ms(world.now.0 / 1_000 + 40_000))?;
    for lane in [Lane::Stream, Lane::Data] {
        slow(&mut world, 1, 2, lane, ms(10));
    }
    world.fail(ms(0), Fault::HealAll);
    let limit = world.now.0 / 1_000 + 120_000;
    world.run_to_rest(ms(limit))
}

#[test]
fn counterexample_57_who_has_not_finished_its_return_does_not_go_on_with_the_witness_alone() {
    play_57(true).unwrap();
    let broken = play_57(false).expect_err("it lacks what was answered");
    let mut named = ["I3", "I4", "I5"].iter();
    assert!(
        named.any(|name| broken.invariant.starts_with(name)),
        "{broken}"
    );
}

/// With A, B and C, answers need a majority. B controls a file of its own and is lost; A and C are about to continue without that. B is back
/// with something that C has answered because B has it too, and that A still lacks. C is lost before B is admitted.
fn play_61(copies_are_spared: bool) -> Result<(), Violation> {
    let mut world = set_the_stage_for_sequences(3, 3, None, true);
    world.model.copies_are_spared = copies_are_spared;
    world.run_until(ms(2_000))?;
    slow(&mut world, 3, 1, Lane::Stream, ms(20_000));
    let answered = world.submit(ms(0), slot(3), create(D, 100));
    world.submit(ms(100), slot(2), Intent::Write(object(F)));
    world.run_until(ms(2_500))?;
    assert!(!slower_than(&world, ms(400)).contains(&answered));
    world.fail(ms(0), Fault::Crash(slot(2)));
    run_until_view(&mut world, 1, 2, false)?;
    let began = world.now.0 / 1_000;
    // They agree to continue without what only B had.
    world.run_until(ms(began + 3_000))?;
    slow(&mut world, 3, 2, Lane::Stream, ms(20_000));
    world.fail(ms(0), Fault::Start(slot(2)));
    world.run_until(ms(began + 4_500))?;
    world.fail(ms(0), Fault::Crash(slot(3)));
    world.run_until(ms(began + 60_000))?;
    for other in [1, 2] {
        slow(&mut world, 3, other, Lane::Stream, ms(10));
    }
    world.fail(ms(0), Fault::HealAll);
    let limit = world.now.0 / 1_000 + 120_000;
    world.run_to_rest(ms(limit))
}

#[test]
fn counterexample_61_who_was_given_up_keeps_what_counts_because_it_is_there() {
    play_61(true).unwrap();
    let broken = play_61(false).expect_err("nobody has what was answered");
    assert!(broken.invariant.starts_with("I5"), "{broken}");
}
