//! Executions that break a literal reading of the papers, played step by step: each must break an
//! invariant with its rule switched off, and pass with it.

use crate::stage::*;
use control::Contention;
use sim::invariants::slower_than;
use sim::{Intent, Lane, Violation, World};
use vfs::ObjectId;

fn create(parent: u64, name: u64, directory: bool) -> Intent {
    Intent::Create {
        parent: object(parent),
        name,
        directory,
    }
}

/// Lets A make a directory, and waits for it until that moment.
fn make(world: &mut World, parent: ObjectId, name: u64, until: u64) -> Result<ObjectId, Violation> {
    let directory = Intent::Create {
        parent,
        name,
        directory: true,
    };
    world.submit(ms(0), slot(1), directory);
    world.run_until(ms(until))?;
    let entries = world.replica(slot(1)).tree.entries(parent);
    let made = entries.and_then(|entries| entries.get(&name)).copied();
    Ok(made.expect("it is made in time"))
}

/// A moves D/X into E/b/c while B moves E/b into D/X/d.
fn play_5(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, shallow_only(), switch);
    let (b, c, d) = (100, 101, 102);
    let in_e = make(&mut world, object(E), b, 1_000)?;
    let in_b = make(&mut world, in_e, c, 2_000)?;
    let in_x = make(&mut world, object(X), d, 3_000)?;
    world.run_until(ms(10_000))?;
    let rename = |from, name, to| Intent::Rename {
        from: object(from),
        name,
        to,
        new: name,
    };
    world.submit(ms(0), slot(1), rename(D, X, in_b));
    world.submit(ms(0), slot(2), rename(E, b, in_x));
    to_rest(world)
}

#[test]
fn counterexample_5_two_moves_make_no_cycle() {
    play_5(all_rules).unwrap();
    let broken = play_5(|rules| rules.moved_directory_explicit = false).unwrap_err();
    // What lies below a directory that lies below itself cannot be counted.
    assert_eq!(broken.invariant, "I6", "{broken}");
}

/// A controls X and creates X/y; B controls only D, and its lagging X is empty; B removes X.
fn play_6(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, shallow_only(), switch);
    slow(&mut world, 1, 2, Lane::Stream, ms(2000));
    world.submit(ms(0), slot(1), create(X, 100, false));
    let remove = Intent::Remove {
        parent: object(D),
        name: X,
    };
    world.submit(ms(100), slot(2), remove);
    to_rest(world)
}

#[test]
fn counterexample_6_a_directory_is_not_removed_under_its_parent_alone() {
    play_6(all_rules).unwrap();
    let broken = play_6(|rules| rules.removal_controls_object = false).unwrap_err();
    assert!(broken.invariant.starts_with("I4"), "{broken}");
}

/// A creates f in D. C has acknowledged f's own control, but has neither D's control nor the entry.
fn play_19(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, Default::default(), switch);
    world.links.reordering = true;
    slow(&mut world, 1, 3, Lane::Control, ms(500));
    slow(&mut world, 1, 3, Lane::Stream, ms(1000));
    world.submit(ms(0), slot(1), create(D, 100, false));
    world.run_until(ms(60))?;
    slow(&mut world, 1, 3, Lane::Control, ms(10));
    let made = world.replica(slot(1)).tree.entries(object(D));
    let made = made.and_then(|entries| entries.get(&100)).copied();
    let made = made.expect("two of three acknowledge within 60 ms");
    world.submit(ms(0), slot(1), Intent::Write(made));
    to_rest(world)
}

#[test]
fn counterexample_19_a_closed_file_can_be_found_by_name() {
    play_19(all_rules).unwrap();
    let broken = play_19(|rules| rules.close_waits_for_entry = false).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
}

/// The same one level deeper: C does not have f's directory either. It is looked up by name, too.
fn play_19_in_a_new_directory(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, Default::default(), switch);
    world.links.reordering = true;
    slow(&mut world, 1, 3, Lane::Control, ms(500));
    slow(&mut world, 1, 3, Lane::Stream, ms(1000));
    world.submit(ms(0), slot(1), create(D, 100, true));
    world.run_until(ms(60))?;
    slow(&mut world, 1, 3, Lane::Control, ms(10));
    let entry = |world: &mut World, directory, name| {
        let entries = world.replica(slot(1)).tree.entries(directory);
        let found = entries.and_then(|entries| entries.get(&name)).copied();
        found.expect("what was made has its name")
    };
    let parent = entry(&mut world, object(D), 100);
    let below = Intent::Create {
        parent,
        name: 101,
        directory: false,
    };
    world.submit(ms(0), slot(1), below);
    world.run_until(ms(61))?;
    let file = entry(&mut world, parent, 101);
    world.submit(ms(0), slot(1), Intent::Write(file));
    to_rest(world)
}

#[test]
fn a_closed_file_in_a_directory_just_made_can_be_found_by_name() {
    play_19_in_a_new_directory(all_rules).unwrap();
    let switched = |rules: &mut control::Rules| rules.close_waits_for_entry = false;
    let broken = play_19_in_a_new_directory(switched).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
}

/// A creates directory x under shallow control of E. B has it at once and creates x/y; C learns of y first.
fn play_27(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, shallow_only(), switch);
    slow(&mut world, 1, 3, Lane::Stream, ms(3000));
    world.submit(ms(0), slot(1), create(E, 100, true));
    world.run_until(ms(100))?;
    let made = world.replica(slot(2)).tree.entries(object(E));
    let made = made.and_then(|entries| entries.get(&100)).copied();
    let parent = made.expect("the creation reaches B within 100 ms");
    let below = Intent::Create {
        parent,
        name: 1,
        directory: false,
    };
    world.submit(ms(0), slot(2), below);
    to_rest(world)
}

#[test]
fn counterexample_27_a_new_object_is_everywhere_before_another_may_change_it() {
    play_27(all_rules).unwrap();
    let broken = play_27(|rules| rules.inheritance = false).unwrap_err();
    assert!(broken.invariant.starts_with("I4"), "{broken}");
}

/// A updates a directory without a pause while B waits to link something into it.
fn play_23(switch: Switch) -> (World, u64) {
    let mut world = set_the_stage(3, Default::default(), switch);
    for number in 0..250 {
        world.submit(ms(40 * number), slot(1), create(D, 1000 + number, false));
    }
    let link = Intent::Link {
        file: object(F),
        parent: object(D),
        name: 77,
    };
    let waiting = world.submit(ms(500), slot(2), link);
    let seen = world.run_until(ms(30_000));
    seen.expect("lateness breaks no other invariant");
    (world, waiting)
}

#[test]
fn counterexample_23_steady_updates_do_not_postpone_a_revoke() {
    let (world, link) = play_23(all_rules);
    assert!(!slower_than(&world, ms(2000)).contains(&link));
    let (world, link) = play_23(|rules| rules.revoke_deadline_fixed = false);
    assert!(slower_than(&world, ms(2000)).contains(&link));
}

/// Three at equal distances want one directory. Returns the number of those served after a while.
fn play_29(switch: Switch, until: u64) -> usize {
    let mut settings = shallow_only();
    settings.directory_contention = Contention::Wait;
    let mut world = set_the_stage(3, settings, switch);
    for replica in 1..=3 {
        world.submit(
            ms(0),
            slot(replica),
            create(D, u64::from(replica) * 10, false),
        );
    }
    let seen = world.run_until(ms(until));
    seen.expect("lateness breaks no other invariant");
    3 - slower_than(&world, ms(until)).len()
}

#[test]
fn counterexample_29_three_competitors_at_equal_distances() {
    let two_round_trips = 40;
    assert_eq!(
        play_29(all_rules, two_round_trips),
        1,
        "the first is served"
    );
    assert_eq!(play_29(all_rules, 1000), 3, "and then the others");
    assert!(play_29(|rules| rules.acceptor_queue = false, 1000) < 3);
}

/// A holds deep D, known everywhere, and moves a file from E into D. C does not know of the move; for C
/// the file is still in E, without control. A writes and closes the file.
fn play_moved_into_deep_control(switch: Switch) -> Result<(), Violation> {
    let mut world = set_the_stage(3, Default::default(), switch);
    world.submit(ms(0), slot(1), create(D, 100, false));
    world.run_until(ms(100))?;
    slow(&mut world, 1, 3, Lane::Control, ms(500));
    slow(&mut world, 1, 3, Lane::Stream, ms(700));
    slow(&mut world, 1, 3, Lane::Data, ms(900));
    let rename = Intent::Rename {
        from: object(E),
        name: F,
        to: object(D),
        new: 101,
    };
    world.submit(ms(0), slot(1), rename);
    world.submit(ms(100), slot(1), Intent::Write(object(F)));
    to_rest(world)
}

#[test]
fn deep_control_counts_for_a_close_only_where_the_move_below_it_is_known() {
    play_moved_into_deep_control(all_rules).unwrap();
    let switched = |rules: &mut control::Rules| rules.close_waits_for_moves = false;
    let broken = play_moved_into_deep_control(switched).unwrap_err();
    assert_eq!(broken.invariant, "I3", "{broken}");
}

/// A holds deep D, and E without depth because B writes below it. A has written and closed a file in D
/// whose content is late, and moves it to E.
fn play_moved_out_of_deep_control(switch: Switch) -> Result<(), Violation> {
    let mut settings = control::Settings::default();
    settings.strategies.file_control_under_deep = false;
    let mut world = set_the_stage(3, settings, switch);
    slow(&mut world, 1, 3, Lane::Data, ms(2000));
    world.submit(ms(0), slot(2), Intent::Write(object(F)));
    world.submit(ms(50), slot(1), create(D, 100, false));
    world.submit(ms(60), slot(1), create(E, 100, false));
    world.submit(ms(100), slot(1), Intent::Write(object(G)));
    let rename = Intent::Rename {
        from: object(D),
        name: G,
        to: object(E),
        new: 101,
    };
    world.submit(ms(200), slot(1), rename);
    to_rest(world)
}

#[test]
fn a_file_that_leaves_deep_control_is_controlled_on_its_own() {
    play_moved_out_of_deep_control(all_rules).unwrap();
    let switched = |rules: &mut control::Rules| rules.crossing_file_own_control = false;
    play_moved_out_of_deep_control(switched).unwrap_err();
}
