//! What a change of views must not lose, and what freezes. How views are agreed is not decided here.

use crate::set::*;
use control::*;

fn enter(set: &mut Set, replica: u16, epoch: u64) {
    let view = View {
        epoch: Epoch(epoch),
        ..view(3)
    };
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[usize::from(replica)].handle_view(now, &tree, view);
    set.drain(replica);
}

fn nothing_is_said_again(rules: &mut Rules) {
    rules.said_again_in_new_view = false;
}

/// 0 has released a control when 1 and 2 enter a view that it enters later. Returns what they still acknowledge.
fn left_of_an_end_in_an_older_epoch(switch: Switch) -> usize {
    let mut set = three(switch);
    set.submit(0, 1, write(3));
    set.deliver();
    let (now, tree) = (Moment(10_000_000), set.tree.clone());
    set.now = now;
    set.cores[0].handle_timer(now, &tree);
    set.drain(0);
    assert!(!set.wire.is_empty(), "the release is on its way");
    for replica in 1..3 {
        enter(&mut set, replica, 2);
    }
    set.deliver();
    enter(&mut set, 0, 2);
    set.deliver();
    set.run_until(Moment(60_000_000));
    let left = set.cores[1..]
        .iter()
        .map(|core| core.acknowledged().count());
    left.sum()
}

#[test]
fn counterexample_39_an_end_sent_in_an_older_epoch_counts() {
    assert_eq!(left_of_an_end_in_an_older_epoch(all_rules), 0);
    let dropped: Switch = |rules| {
        rules.ends_outlive_views = false;
        rules.said_again_in_new_view = false;
    };
    assert_eq!(left_of_an_end_in_an_older_epoch(dropped), 2, "orphans");
}

fn proposes_in_an_older_epoch(switch: Switch) -> Option<Outcome> {
    let mut set = three(switch);
    set.submit(0, 1, write(3));
    for replica in 1..3 {
        enter(&mut set, replica, 2);
    }
    set.deliver();
    assert_eq!(
        set.outcomes.get(&1),
        None,
        "proposals of an older epoch are dropped"
    );
    enter(&mut set, 0, 2);
    set.deliver();
    set.run_until(Moment(60_000_000));
    set.outcomes.remove(&1)
}

#[test]
fn counterexample_39_a_proposal_is_made_again_in_the_new_epoch() {
    let under = vec![name(0, 1)];
    let admitted = Outcome::Admitted { at: 0, under };
    assert_eq!(proposes_in_an_older_epoch(all_rules), Some(admitted));
    assert_eq!(proposes_in_an_older_epoch(nothing_is_said_again), None);
}

fn proposes_in_a_later_epoch(switch: Switch) -> Option<Outcome> {
    let mut set = three(switch);
    enter(&mut set, 0, 2);
    set.submit(0, 1, write(3));
    set.deliver();
    assert_eq!(set.outcomes.get(&1), None);
    for replica in 1..3 {
        enter(&mut set, replica, 2);
    }
    set.deliver();
    set.run_until(Moment(60_000_000));
    set.outcomes.remove(&1)
}

#[test]
fn counterexample_39_a_proposal_of_a_later_epoch_is_asked_for_again() {
    let admitted = proposes_in_a_later_epoch(all_rules);
    assert!(matches!(admitted, Some(Outcome::Admitted { at: 0, .. })));
    assert_eq!(proposes_in_a_later_epoch(nothing_is_said_again), None);
}

/// Replica 0 of `replicas` proposes control of file 3, and only these hear of it before it is lost.
fn lost_with(replicas: u16, heard: &[u16], switch: impl Fn(&mut Settings)) -> Set {
    let mut settings = Settings::default();
    switch(&mut settings);
    let mut set = Set::new(replicas, tree(), settings);
    set.submit(0, 1, write(3));
    set.wire.retain(|(_, to, _)| heard.contains(to));
    set.deliver();
    let rest: Vec<u16> = (1..replicas).collect();
    let view = without(replicas, 2, &rest, &[]);
    rest.iter()
        .for_each(|member| enter_view(&mut set, *member, &view));
    set.deliver();
    set
}

#[test]
fn what_a_lost_replica_controls_is_frozen_at_everybody() {
    let set = lost_with(3, &[1], |_| {});
    assert_eq!(frozen_at(&set, 1, 3), Some(name(0, 1)));
    assert_eq!(
        frozen_at(&set, 2, 3),
        Some(name(0, 1)),
        "it had not heard of it"
    );
}

#[test]
fn what_certainly_no_majority_had_acknowledged_is_free() {
    let mut set = lost_with(5, &[1], |_| {});
    assert_eq!(frozen_at(&set, 1, 3), None);
    set.submit(2, 7, write(3));
    set.deliver();
    assert!(matches!(set.outcomes[&7], Outcome::Admitted { at: 2, .. }));
}

#[test]
fn counterexample_1_somebody_else_writes_what_a_lost_replica_controls_unless_it_is_frozen() {
    let admitted = |switch: fn(&mut Settings)| {
        let mut set = lost_with(3, &[1, 2], switch);
        set.submit(2, 7, write(3));
        set.deliver();
        matches!(set.outcomes.get(&7), Some(Outcome::Admitted { .. }))
    };
    assert!(!admitted(|_| {}));
    assert!(admitted(
        |settings| settings.rules.lost_controls_freeze = false
    ));
}

#[test]
fn counterexample_9_nothing_is_acknowledged_before_everybody_has_reported() {
    let admitted_too_early = |switch: fn(&mut Settings)| {
        let mut settings = Settings::default();
        switch(&mut settings);
        let mut set = Set::new(5, tree(), settings);
        // A majority has acknowledged the control of 0; of the members of the next view only 4 has.
        set.submit(0, 1, write(3));
        set.wire.retain(|(_, to, _)| [1, 4].contains(to));
        set.deliver();
        assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
        let view = without(5, 2, &[2, 3, 4], &[]);
        enter_view(&mut set, 2, &view);
        enter_view(&mut set, 3, &view);
        set.submit(2, 7, write(3));
        // The report of 4 is late, and so is its answer.
        set.deliver();
        let early = set.cores[3]
            .acknowledged()
            .any(|grant| grant.name.holder == slot(2));
        enter_view(&mut set, 4, &view);
        set.deliver();
        assert!(!matches!(
            set.outcomes.get(&7),
            Some(Outcome::Admitted { .. })
        ));
        early
    };
    assert!(!admitted_too_early(|_| {}));
    assert!(admitted_too_early(|settings| {
        settings.rules.reports_before_acknowledging = false;
    }));
}

/// 0 has won file 3 with 1. 2 had asked for it too, and been started anew before anybody heard of that; then 0 is
/// lost. What 2 remembers of its own proposal proves nothing about that of 0.
#[test]
fn what_was_asked_for_before_a_start_ends_nobodys_control() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.wire.retain(|(_, to, _)| *to == 1);
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    set.submit(2, 7, write(3));
    set.wire.clear();
    let before: Vec<Proposal> = set.cores[2].acknowledged().cloned().collect();
    assert_eq!(before.len(), 1, "it has acknowledged its own proposal");
    let settings = Settings::default();
    set.cores[2] = ControlCore::new(slot(2), Incarnation(2), view(3), settings);
    for grant in before {
        set.cores[2].restore(&set.tree, grant);
    }
    let rest = without(3, 2, &[1, 2], &[]);
    for member in [1, 2] {
        enter_view(&mut set, member, &rest);
    }
    set.deliver();
    assert_eq!(frozen_at(&set, 1, 3), Some(name(0, 1)));
    assert_eq!(frozen_at(&set, 2, 3), Some(name(0, 1)));
}

fn renounced_by_0(set: &mut Set, replica: u16) {
    let (now, tree) = (set.now, set.tree.clone());
    let epoch = Epoch(2);
    let message = Message::Renounce {
        before: Incarnation(2),
    };
    let core = &mut set.cores[usize::from(replica)];
    core.handle_message(now, &tree, slot(0), Envelope { epoch, message });
    set.drain(replica);
}

/// 0 is lost with file 3, comes back, and says that this is over, first to 1 only. So 1 acknowledges what 2 asks for,
/// and is started anew. What 2 had told before makes 1 freeze what is over; 2 relies on its word all the same.
#[test]
fn what_was_acknowledged_in_a_view_stands_after_a_start_within_it() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.wire.retain(|(_, to, _)| *to == 1);
    set.deliver();
    // What needs two controls is not handed to who holds one of them.
    let (file, parent) = (id(3), id(1));
    set.submit(2, 7, Update::Link { file, parent });
    set.wire.clear();
    let rest = without(3, 2, &[1, 2], &[]);
    for member in [1, 2] {
        enter_view(&mut set, member, &rest);
    }
    set.deliver();
    assert_eq!(frozen_at(&set, 2, 3), Some(name(0, 1)));
    renounced_by_0(&mut set, 1);
    set.deliver();
    let before: Vec<Proposal> = set.cores[1].acknowledged().cloned().collect();
    let names: Vec<ControlName> = before.iter().map(|grant| grant.name).collect();
    assert_eq!(names, [name(2, 1)]);
    let settings = Settings::default();
    set.cores[1] = ControlCore::new(slot(1), Incarnation(2), view(3), settings);
    for grant in before {
        set.cores[1].restore(&set.tree, grant);
    }
    let (now, tree) = (set.now, set.tree.clone());
    enter_view(&mut set, 1, &rest);
    set.cores[2].handle_connected(now, &tree, slot(1));
    set.drain(2);
    set.deliver();
    assert_eq!(frozen_at(&set, 1, 3), Some(name(0, 1)));
    renounced_by_0(&mut set, 2);
    set.deliver();
    assert!(matches!(set.outcomes[&7], Outcome::Admitted { at: 2, .. }));
    assert!(set.cores[1].is_in_dispute(name(2, 1)));
    let known = |set: &Set| {
        let mut acknowledged = set.cores[1].acknowledged();
        acknowledged.any(|grant| grant.name == name(2, 1))
    };
    assert!(known(&set), "it stands in everybody's way");
    renounced_by_0(&mut set, 1);
    assert!(known(&set) && !set.cores[1].is_in_dispute(name(2, 1)));
}

#[test]
fn an_agreed_decision_ends_what_is_frozen() {
    let mut set = lost_with(3, &[1, 2], |_| {});
    let (now, tree) = (set.now, set.tree.clone());
    for member in [1, 2] {
        let core = &mut set.cores[member];
        core.handle_loss_settled(now, &tree, slot(0), None, Incarnation(2));
        set.drain(u16::try_from(member).unwrap());
    }
    set.submit(2, 7, write(3));
    set.deliver();
    assert!(matches!(set.outcomes[&7], Outcome::Admitted { at: 2, .. }));
}

/// Of three replicas 0 and 1 know what 0 controls. One is added, then another, and 0 is lost at once. Whether 2 may write
/// as well.
fn writes_after_adding(waits_until_steady: bool) -> bool {
    let mut set = Set::new(5, tree(), Settings::default());
    let three = without(3, 2, &[0, 1, 2], &[]);
    for member in [0, 1, 2] {
        enter_view(&mut set, member, &three);
    }
    set.deliver();
    set.submit(0, 1, write(3));
    set.wire.retain(|(_, to, _)| *to == 1);
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    assert!(set.cores[0].is_steady(), "any majority of four knows of it");
    // What they tell each other as the one more is configured is lost with 0.
    let four = without(4, 3, &[0, 1, 2], &[]);
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[0].handle_view(now, &tree, four.clone());
    set.drain(0);
    set.wire.clear();
    assert!(!set.cores[0].is_steady(), "2 has not acknowledged it");
    if waits_until_steady {
        for member in [1, 2] {
            enter_view(&mut set, member, &four);
            set.cores[0].handle_connected(now, &tree, slot(member));
            set.drain(0);
        }
        set.deliver();
        assert!(set.cores[0].is_steady());
    }
    let five = without(5, 3, &[1, 2, 3, 4], &[(3, 3), (4, 3)]);
    for member in [1, 2, 3, 4] {
        enter_view(&mut set, member, &five);
    }
    set.deliver();
    set.submit(2, 7, write(3));
    set.deliver();
    matches!(set.outcomes.get(&7), Some(Outcome::Admitted { .. }))
}

#[test]
fn counterexample_10_the_configuration_changes_only_when_every_control_is_known_to_all() {
    assert!(!writes_after_adding(true));
    assert!(writes_after_adding(false));
}

/// A member that is new to the set enters its first view before the others do, and tells them what it
/// acknowledges while they do not know it yet. Nothing was acknowledged any more, and no member taken in.
#[test]
fn the_report_of_one_who_is_configured_only_in_the_next_view_is_asked_for_again() {
    let mut set = Set::new(3, tree(), Settings::default());
    let of = |replicas: u16, epoch: u64| View {
        epoch: Epoch(epoch),
        ..view(replicas)
    };
    let enter = |set: &mut Set, replica: u16, view: View| {
        let (now, tree) = (set.now, set.tree.clone());
        set.cores[usize::from(replica)].handle_view(now, &tree, view);
        set.drain(replica);
        set.deliver();
    };
    enter(&mut set, 0, of(2, 2));
    enter(&mut set, 1, of(2, 2));
    for replica in [2, 0, 1] {
        enter(&mut set, replica, of(3, 3));
    }
    assert!(set.cores.iter().all(ControlCore::is_settled));
}

/// Two views follow each other so closely that some enter the second one before others enter the first.
#[test]
fn a_report_that_came_two_views_early_is_asked_for_again() {
    let mut set = three(all_rules);
    for (replica, epoch) in [(1, 2), (2, 2), (1, 3), (2, 3), (0, 2), (0, 3)] {
        enter(&mut set, replica, epoch);
        set.deliver();
    }
    assert!(set.cores.iter().all(ControlCore::is_settled));
}
