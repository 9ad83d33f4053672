//! Executions that break a literal reading of the papers, found by chance: with its rule switched off a
//! random run breaks the invariant, and with the rule in force the same run passes.

use crate::stage::Switch;
use sim::{Plan, Violation, World};
use std::ops::Range;
use std::time::Duration;

fn run(seed: u64, switch: Switch) -> Result<(), Violation> {
    let mut plan = Plan::draw(seed);
    switch(&mut plan.settings.rules);
    World::new(&plan).run(Duration::from_secs(30))
}

/// Looks for a run that the rule saves.
fn is_needed(switch: Switch, invariants: &[&str]) {
    is_needed_among(0..150, switch, invariants);
}

fn is_needed_among(mut seeds: Range<u64>, switch: Switch, invariants: &[&str]) {
    let broken = seeds.find_map(|seed| run(seed, switch).err());
    let broken = broken.expect("without the rule some run breaks an invariant");
    assert!(invariants.contains(&broken.invariant), "{broken}");
    let (seed, _) = broken.at;
    if let Err(violation) = run(seed, crate::stage::all_rules) {
        panic!("with the rule in force: {violation}");
    }
}

#[test]
fn counterexample_2_release_before_everything_is_applied() {
    is_needed(|rules| rules.release_when_applied = false, &["I1", "I3"]);
}

#[test]
fn counterexample_3_deep_control_does_not_cover_a_file_with_several_links() {
    is_needed(
        |rules| rules.linked_file_own_control = false,
        &["I1", "I2", "I3"],
    );
}

#[test]
fn counterexample_4_a_moved_directory_needs_deep_control_of_its_own() {
    is_needed(
        |rules| rules.moved_directory_explicit = false,
        &["I1", "I2", "I3", "I4"],
    );
}

#[test]
fn counterexample_21_33_a_late_proposal_of_an_ended_control_leaves_an_orphan() {
    is_needed(|rules| rules.ended_remembered = false, &["I8"]);
}

#[test]
fn counterexample_31_answers_are_matched_by_name() {
    is_needed(|rules| rules.answers_by_name = false, &["I1", "I8"]);
}

#[test]
fn counterexample_32_the_end_goes_to_everyone_proposed_to() {
    is_needed(|rules| rules.end_to_all = false, &["I8"]);
}

#[test]
fn counterexample_34_control_is_kept_until_narrower_ones_are_known() {
    is_needed(
        |rules| rules.release_when_narrower_known = false,
        &["I1", "I3", "I8"],
    );
}

#[test]
fn counterexample_37_an_update_is_applied_after_granting_its_controls() {
    is_needed(|rules| rules.grant_before_apply = false, &["I2"]);
}

#[test]
fn close_to_open_needs_the_wait_at_close() {
    is_needed(|rules| rules.close_waits_for_file = false, &["I3"]);
}

/// From a million on, writes take longer than the grace after a revoke.
#[test]
fn a_control_is_kept_while_something_is_written_under_it() {
    let slow = 1_000_000..1_000_150;
    let switched = |rules: &mut control::Rules| rules.release_when_let_go = false;
    is_needed_among(
        slow,
        switched,
        &["I1", "I3", "I4 (updates build on the newest version)"],
    );
}
