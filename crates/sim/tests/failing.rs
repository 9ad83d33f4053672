//! Executions with crashes, partitions and views that break a literal reading of the papers, found by chance:
//! with its rule switched off a random run breaks an invariant, and with the rule in force the same run passes.

use crate::stage::*;
use control::{ReplicaSlot, Rules};
use sim::invariants::slower_than;
use sim::{Cargo, Fault, Intent, Lane, Model, Plan, Scenario, Violation, World};
use std::ops::Range;
use std::time::Duration;

fn run(seed: u64, change: impl Fn(&mut Plan)) -> Result<(), Violation> {
    let mut plan = Plan::draw_failing(seed);
    change(&mut plan);
    Scenario::run_world(&mut World::new(&plan))
}

/// Looks for a run that is lost after the change, and only then.
fn is_lost(mut seeds: Range<u64>, change: impl Fn(&mut Plan), invariants: &[&str]) {
    let broken = seeds.find_map(|seed| run(seed, &change).err());
    let broken = broken.expect("some run breaks an invariant");
    let named = invariants
        .iter()
        .any(|name| broken.invariant.starts_with(name));
    assert!(named, "{broken}");
    if let Err(violation) = run(broken.at.0, |_| {}) {
        panic!("with the rule in force: {violation}");
    }
}

fn rule(switch: fn(&mut Rules)) -> impl Fn(&mut Plan) {
    move |plan| switch(&mut plan.settings.rules)
}

fn model(switch: fn(&mut Model)) -> impl Fn(&mut Plan) {
    move |plan| switch(&mut plan.model)
}

/// Clients work while messages of the first replica are lost. Then it stops, is given up, and comes back.
fn given_up(plan: &mut Plan) {
    let (first, at) = (ReplicaSlot(1), Duration::from_millis);
    plan.operations = 120;
    plan.faults = (2..=plan.replicas)
        .map(|other| {
            (
                at(4_500 + 500 * u64::from(other)),
                Fault::Cut(first, ReplicaSlot(other)),
            )
        })
        .collect();
    plan.faults.push((at(6_500), Fault::Crash(first)));
    plan.faults.push((at(11_000), Fault::GiveUp(first)));
    plan.faults.push((at(14_000), Fault::GiveUp(first)));
    plan.faults.push((at(18_000), Fault::Start(first)));
}

#[test]
fn a_replica_is_given_up_and_comes_back() {
    for seed in 0..60 {
        if let Err(violation) = run(seed, given_up) {
            panic!("{violation}");
        }
    }
}

/// Looks for a run of this kind that breaks such an invariant after the change, and only then.
fn is_lost_on(
    course: fn(&mut Plan),
    mut seeds: Range<u64>,
    change: impl Fn(&mut Plan),
    invariants: &[&str],
) {
    let changed = |plan: &mut Plan| {
        course(plan);
        change(plan);
    };
    let named = |broken: &Violation| {
        let mut names = invariants.iter();
        names.any(|name| broken.invariant.starts_with(name))
    };
    let broken = seeds.find_map(|seed| run(seed, changed).err().filter(named));
    let broken = broken.expect("some run breaks such an invariant");
    if let Err(violation) = run(broken.at.0, course) {
        panic!("with the rule in force: {violation}");
    }
}

fn giving_up_needs(switch: fn(&mut Model), invariants: &[&str]) {
    is_lost_on(given_up, 0..120, model(switch), invariants);
}

#[test]
fn counterexample_16_who_was_given_up_throws_away_what_nobody_else_has() {
    giving_up_needs(|model| model.given_up_is_thrown_away = false, &["I4", "I5"]);
}

#[test]
fn counterexample_26_versions_of_a_lost_replica_are_not_made_again() {
    giving_up_needs(
        |model| model.versions_count_settlements = false,
        &["I3 (versions are not made twice)"],
    );
}

#[test]
fn counterexample_15_survivors_are_brought_to_the_longest_prefix() {
    giving_up_needs(
        |model| model.longest_prefix = false,
        &["I3", "I4", "I5", "I8"],
    );
}

#[test]
fn counterexample_1_what_a_lost_replica_controls_is_frozen() {
    is_lost(
        0..100,
        rule(|rules| rules.lost_controls_freeze = false),
        &["I1", "I3", "I4"],
    );
}

#[test]
fn counterexample_7_controls_are_remembered_across_a_crash() {
    is_lost(
        0..100,
        model(|model| model.controls_durable = false),
        &["I1", "I2", "I3", "I4", "I8"],
    );
}

#[test]
fn counterexample_8_a_newcomer_is_up_to_date_before_it_answers() {
    is_lost(
        100..1000,
        model(|model| model.caught_up_before_lease = false),
        &["I1", "I3"],
    );
}

/// Replicas stop and are restarted, one after another, while clients work.
fn often_started_anew(plan: &mut Plan) {
    plan.operations = 200;
    plan.faults.clear();
    for turn in 0..20 {
        let (slot, at) = (slot(1 + turn % plan.replicas), u64::from(turn) * 900);
        plan.faults.push((ms(1_000 + at), Fault::Crash(slot)));
        plan.faults.push((ms(1_100 + at), Fault::Start(slot)));
    }
}

#[test]
fn counterexample_17_nothing_is_sent_that_a_crash_could_take_back() {
    for seed in 0..40 {
        if let Err(violation) = run(seed, often_started_anew) {
            panic!("{violation}");
        }
    }
    is_lost_on(
        often_started_anew,
        0..200,
        model(|model| model.ship_when_stable = false),
        &["I3", "I4"],
    );
}

#[test]
fn counterexample_18_nobody_acts_without_a_replica_that_was_granted_otherwise() {
    is_lost(
        0..100,
        rule(|rules| rules.grants_bind = false),
        &["I1", "I3"],
    );
}

#[test]
fn with_majority_an_answer_waits_until_a_majority_has_what_was_changed() {
    let majority = |seed, waits| {
        let mut plan = Plan::draw_failing(seed);
        given_up(&mut plan);
        let mut plan = plan.held_by_majority();
        plan.model.answers_wait_for_majority = waits;
        Scenario::run_world(&mut World::new(&plan))
    };
    let broken = (0..60).find_map(|seed| majority(seed, false).err());
    let broken = broken.expect("some run loses an answer");
    assert!(broken.invariant.starts_with("I5"), "{broken}");
    for seed in 0..60 {
        if let Err(violation) = majority(seed, true) {
            panic!("{violation}");
        }
    }
}

/// C is cut off from A and B, and A's client closes a file as soon as C has left the view. C does not learn this.
fn play_drift(drift: i64) -> Result<(), Violation> {
    let mut world = set_the_stage_with_clocks(&[drift, drift, -drift]);
    world.run_until(ms(2_000))?;
    for other in [1, 2] {
        world.fail(ms(0), Fault::Cut(slot(other), slot(3)));
        world.fail(ms(0), Fault::Cut(slot(3), slot(other)));
    }
    let close = world.submit(ms(100), slot(1), Intent::Write(object(F)));
    world.run_until(ms(20_000))?;
    assert!(!slower_than(&world, ms(10_000)).contains(&close));
    Ok(())
}

#[test]
fn clocks_may_drift_so_much_and_no_more() {
    play_drift(110_000).unwrap();
    let broken = play_drift(300_000).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
}

/// The machine of C stands still for ten seconds, and its clock does not see that. Meanwhile it leaves the view, and A's
/// client closes a file.
fn play_50(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage_for_failures(3, switch);
    world.run_until(ms(2_000))?;
    world.fail(ms(0), Fault::Pause(slot(3), ms(10_000)));
    let close = world.submit(ms(100), slot(1), Intent::Write(object(F)));
    world.run_until(ms(30_000))?;
    assert!(!slower_than(&world, ms(8_000)).contains(&close));
    Ok(())
}

#[test]
fn counterexample_50_a_machine_that_stood_still_answers_nobody_before_it_is_granted_anew() {
    let broken = play_50(|rules| rules.jumps_end_leases = false).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
    play_50(all_rules).unwrap();
}

/// A grant for C takes long to arrive. C's machine is restarted, so that its clock begins again, and is cut off when it
/// takes part again. A's client closes a file.
fn play_44(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage_for_failures(3, switch);
    world.run_until(ms(20_000))?;
    slow(&mut world, 2, 3, Lane::Control, ms(1_500));
    world.run_until(ms(21_000))?;
    slow(&mut world, 2, 3, Lane::Control, ms(10));
    world.fail(ms(0), Fault::Crash(slot(3)));
    world.fail(ms(100), Fault::Start(slot(3)));
    world.run_until(ms(27_000))?;
    for other in [1, 2] {
        world.fail(ms(0), Fault::Cut(slot(other), slot(3)));
        world.fail(ms(0), Fault::Cut(slot(3), slot(other)));
    }
    let close = world.submit(ms(100), slot(1), Intent::Write(object(F)));
    world.run_until(ms(50_000))?;
    assert!(!slower_than(&world, ms(10_000)).contains(&close));
    Ok(())
}

#[test]
fn counterexample_44_a_grant_that_a_previous_incarnation_asked_for_is_not_believed() {
    let broken = play_44(|rules| rules.grants_answer_requests = false).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
    play_44(all_rules).unwrap();
}

/// Two of five are cut off, with true clocks: C continues to read although it has left the view, unless it needs a lease for that.
fn play_18(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage_for_failures(5, switch);
    world.run_until(ms(2_000))?;
    for (cut_off, other) in [(2, 1), (2, 4), (2, 5), (3, 1), (3, 4), (3, 5)] {
        world.fail(ms(0), Fault::Cut(slot(other), slot(cut_off)));
        world.fail(ms(0), Fault::Cut(slot(cut_off), slot(other)));
    }
    world.submit(ms(100), slot(1), Intent::Write(object(F)));
    world.run_until(ms(20_000))?;
    assert!(slower_than(&world, ms(10_000)).is_empty());
    Ok(())
}

#[test]
fn counterexample_18_who_is_cut_off_with_a_minority_stops_answering() {
    play_18(all_rules).unwrap();
    let broken = play_18(|rules| rules.lease_needed = false).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
}

/// The disks of all three become full, one after another, and are mended at the end.
fn play_28(majority_stays: bool) -> Result<(), Violation> {
    let mut world = set_the_stage_for_failures(3, all_rules);
    world.model.majority_stays = majority_stays;
    // This other rule would make a member stay, too.
    world.model.complete_copies_stay = majority_stays;
    world.run_until(ms(2_000))?;
    for replica in 1..=3 {
        world.fail(ms(u64::from(replica) * 100), Fault::Full(slot(replica)));
    }
    world.submit(ms(1_000), slot(1), Intent::Write(object(F)));
    world.run_until(ms(15_000))?;
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(60_000))
}

#[test]
fn counterexample_28_replicas_with_full_disks_leave_while_a_majority_stays() {
    play_28(true).unwrap();
    let broken = play_28(false).unwrap_err();
    assert_eq!(broken.invariant, "I8", "{broken}");
}

/// A's client has closed a file. B has the contents; C, which is lost, does not. A is restarted before C has left
/// the view. Returns how often A sends B that file's contents from then on.
fn play_51(compared: bool) -> Result<usize, Violation> {
    let mut world = set_the_stage_for_failures(3, all_rules);
    world.model.versions_are_compared = compared;
    world.run_until(ms(2_000))?;
    slow(&mut world, 1, 3, Lane::Data, ms(20_000));
    let close = world.submit(ms(0), slot(1), Intent::Write(object(F)));
    let closed = world.run_until_ended(close, ms(4_000))?;
    assert!(closed.is_some(), "everybody knows whose the file is");
    world.run_until(ms(4_000))?;
    world.fail(ms(0), Fault::Crash(slot(3)));
    let (written, _) = world.replica(slot(1)).unshipped[&object(F)].clone();
    let stored = world.replica(slot(2)).tree.version(object(F));
    assert_eq!(stored, Some(written.version), "B has everything");
    world.fail(ms(0), Fault::Crash(slot(1)));
    world.fail(ms(100), Fault::Start(slot(1)));
    world.sent = Some(Vec::new());
    world.run_until(ms(30_000))?;
    let sent = world.sent.take().unwrap_or_default().into_iter();
    let contents = sent.filter(|sent| {
        (sent.from, sent.to) == (slot(1), slot(2)) && matches!(sent.cargo, Cargo::Contents)
    });
    let count = contents.count();
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(90_000))?;
    Ok(count)
}

#[test]
fn counterexample_51_contents_travel_only_where_their_version_is_not_there() {
    assert_eq!(play_51(true).unwrap(), 0);
    assert!(play_51(false).unwrap() > 0);
}
