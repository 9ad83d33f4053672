//! What the members of a new view tell each other: nobody may hold what others hold, and nothing is frozen for ever.

use crate::set::*;
use control::*;

/// 0 of five is lost when it has released file 3, and only 1 has heard of that. Whether 1 gets
/// the file afterwards, and how many still take it for frozen.
fn after_an_end_that_only_one_has_heard_of(told: bool) -> (bool, usize) {
    let mut settings = Settings::default();
    settings.rules.ends_told_for_the_lost = told;
    let mut set = Set::new(5, tree(), settings);
    set.submit(0, 1, write(3));
    set.deliver();
    let tree = set.tree.clone();
    set.now = Moment(10_000_000);
    set.cores[0].handle_timer(set.now, &tree);
    set.drain(0);
    assert!(!set.wire.is_empty(), "the release is on its way");
    set.wire.retain(|(_, to, _)| *to == 1);
    set.deliver();
    set.wire.clear();
    // 3 has a new disk, so it hears of the control only from the reports of 2 and 4.
    set.cores[3] = core(3, 5, settings);

    let view = without(5, 2, &[1, 2, 3, 4], &[]);
    for member in [1, 2, 4] {
        enter_view(&mut set, member, &view);
    }
    // What 1 says comes to 3 before that is in the view, and what the others say afterwards.
    let (late, soon) = std::mem::take(&mut set.wire)
        .into_iter()
        .partition(|(from, to, _)| *to == 3 && *from != 1);
    set.wire = soon;
    set.deliver();
    enter_view(&mut set, 3, &view);
    let answers = std::mem::replace(&mut set.wire, late);
    set.wire.extend(answers);
    set.deliver();
    set.submit(1, 7, write(3));
    set.deliver();
    let frozen = (1..5).filter(|member| frozen_at(&set, *member, 3).is_some());
    let frozen = frozen.count();
    let got = matches!(set.outcomes.get(&7), Some(Outcome::Admitted { at: 1, .. }));
    (got, frozen)
}

#[test]
fn what_a_lost_replica_had_ended_is_free_once_one_member_has_heard_of_it() {
    assert_eq!(after_an_end_that_only_one_has_heard_of(true), (true, 0));
    assert_eq!(after_an_end_that_only_one_has_heard_of(false), (false, 3));
}

#[test]
fn counterexample_38_who_returns_learns_the_controls_of_everybody() {
    let mut set = Set::new(3, tree(), Settings::default());
    let without_1 = without(3, 2, &[0, 2], &[]);
    for member in [0, 2] {
        enter_view(&mut set, member, &without_1);
    }
    set.deliver();
    set.submit(0, 1, write(3));
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    let all = without(3, 3, &[0, 1, 2], &[(1, 3)]);
    for member in [0, 1, 2] {
        enter_view(&mut set, member, &all);
    }
    assert!(
        !set.cores[1].is_settled(),
        "nobody has told it anything yet"
    );
    set.deliver();
    assert!(set.cores[1].is_settled());
    let foreign = set.cores[1].foreign_control(&set.tree, id(3));
    assert_eq!(foreign.map(|name| name.holder), Some(slot(0)));
    set.submit(1, 7, write(3));
    set.deliver();
    assert!(!matches!(set.outcomes[&7], Outcome::Admitted { .. }));
}

/// 0 holds file 3, and 2 has acknowledged it. 2 leaves and 1 comes, then 2 comes back, and has forgotten it; whenever
/// somebody comes, what 0 proposes again is lost with a connection. Whether 1 gets the file as well.
fn gets_what_only_the_holder_knows(switch: fn(&mut Settings)) -> bool {
    let mut settings = Settings::default();
    switch(&mut settings);
    let mut set = Set::new(3, tree(), settings);
    let views = [
        without(3, 2, &[0, 2], &[]),
        without(3, 3, &[0, 1], &[(1, 3)]),
        without(3, 4, &[0, 1, 2], &[(1, 3), (2, 4)]),
    ];
    for (round, view) in views.iter().enumerate() {
        for member in [0, 1, 2] {
            enter_view(&mut set, member, view);
        }
        let proposes = |message: &Message| matches!(message, Message::Propose { .. });
        set.wire
            .retain(|(_, _, envelope)| !proposes(&envelope.message));
        set.deliver();
        if round == 0 {
            set.submit(0, 1, write(3));
            set.deliver();
            assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
        }
    }
    set.submit(1, 7, write(3));
    set.deliver();
    matches!(set.outcomes.get(&7), Some(Outcome::Admitted { .. }))
}

#[test]
fn counterexample_38_reports_tell_what_only_the_holder_knows() {
    assert!(!gets_what_only_the_holder_knows(|_| {}));
    assert!(gets_what_only_the_holder_knows(|settings| {
        settings.rules.reports_tell_held = false;
    }));
}

/// 0 holds file 3, and 2 has acknowledged it. 2 leaves and 1 comes; then 2 comes back, and has forgotten it, and at once
/// 0 is lost. Whether 1 gets the file as well.
fn gets_what_a_newcomer_was_not_told(admitted_when_settled: bool, set_aside: bool) -> bool {
    let mut settings = Settings::default();
    settings.rules.set_aside_counts = set_aside;
    let mut set = Set::new(3, tree(), settings);
    let first = without(3, 2, &[0, 2], &[]);
    for member in [0, 2] {
        enter_view(&mut set, member, &first);
    }
    set.deliver();
    set.submit(0, 1, write(3));
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    let second = without(3, 3, &[0, 1], &[(1, 3)]);
    for member in [0, 1, 2] {
        enter_view(&mut set, member, &second);
    }
    if admitted_when_settled {
        set.deliver();
        assert!(set.cores[0].is_settled() && set.cores[1].is_settled());
    }
    set.wire.clear();
    let since = [(1, 3), (2, 4)];
    let third = without(3, 4, &[0, 1, 2], &since);
    let fourth = without(3, 5, &[1, 2], &since);
    for view in [third, fourth] {
        for member in [1, 2] {
            enter_view(&mut set, member, &view);
        }
        set.wire.retain(|(_, to, _)| *to != 0);
        set.deliver();
    }
    set.submit(1, 7, write(3));
    set.deliver();
    matches!(set.outcomes.get(&7), Some(Outcome::Admitted { .. }))
}

#[test]
fn who_comes_need_remember_nothing_where_every_member_knows_what_the_others_hold() {
    assert!(!gets_what_a_newcomer_was_not_told(true, false));
    assert!(gets_what_a_newcomer_was_not_told(false, false));
    assert!(!gets_what_a_newcomer_was_not_told(false, true));
}

/// 0 holds file 3, which only 2 has acknowledged. 2 leaves; 0 may tell 1 then, or end it, and is lost; at once
/// 2 takes its place. What 1 and 2 take for frozen then, and whether 1 gets the file.
fn after_taking_the_place(meanwhile: Meanwhile, switch: Switch) -> (Vec<u16>, bool) {
    let mut set = three(switch);
    set.submit(0, 1, write(3));
    set.wire.retain(|(from, to, _)| *from != 1 && *to != 1);
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    let without_2 = without(3, 2, &[0, 1], &[]);
    enter_view(&mut set, 2, &without_2);
    for member in [0, 1] {
        enter_view(&mut set, member, &without_2);
        if meanwhile == Meanwhile::Silent {
            set.wire.retain(|(from, _, _)| *from != 0);
        }
    }
    set.deliver();
    if meanwhile == Meanwhile::Ended {
        let tree = set.tree.clone();
        set.now = Moment(10_000_000);
        set.cores[0].handle_timer(set.now, &tree);
        set.drain(0);
        set.deliver();
    }
    assert_eq!(set.cores[1].is_settled(), meanwhile != Meanwhile::Silent);
    let without_0 = without(3, 3, &[1, 2], &[(2, 3)]);
    for member in [1, 2] {
        enter_view(&mut set, member, &without_0);
    }
    set.wire.retain(|(_, to, _)| *to != 0);
    set.deliver();
    assert!(set.cores[1].is_settled() && set.cores[2].is_settled());
    set.submit(1, 7, write(3));
    set.deliver();
    let frozen = [1, 2].into_iter();
    let frozen = frozen.filter(|member| frozen_at(&set, *member, 3).is_some());
    let admitted = matches!(set.outcomes.get(&7), Some(Outcome::Admitted { at: 1, .. }));
    (frozen.collect(), admitted)
}

/// What a holder does in a view between two losses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// It does not even report.
    Silent,
    Told,
    Ended,
}

#[test]
fn who_takes_a_place_remembers_what_nobody_else_may_know() {
    let frozen = (vec![1, 2], false);
    assert_eq!(
        after_taking_the_place(Meanwhile::Silent, all_rules),
        frozen,
        "1 has heard nothing of it"
    );
    assert_eq!(after_taking_the_place(Meanwhile::Told, all_rules), frozen);
    let free = (vec![], true);
    assert_eq!(after_taking_the_place(Meanwhile::Ended, all_rules), free);
    let forgotten: Switch = |rules| rules.set_aside_counts = false;
    assert_eq!(after_taking_the_place(Meanwhile::Silent, forgotten), free);
    assert_eq!(after_taking_the_place(Meanwhile::Told, forgotten), frozen);
}
