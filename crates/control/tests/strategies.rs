//! The four strategies of section 3.3 of the main paper, each seen at work and switched off.

use crate::set::*;
use control::*;

/// Root 1, directory 2 in it, files 3 to 9 in that.
fn tree() -> Map {
    Map::of(&[
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 2),
        (6, 2),
        (7, 2),
        (8, 2),
        (9, 2),
    ])
}

fn at_milliseconds(milliseconds: u64) -> Moment {
    Moment(milliseconds * 1000)
}

#[test]
fn first_deep_control_lasts_a_second_after_the_last_update() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, create(2));
    set.run_until(at_milliseconds(900));
    set.submit(0, 2, create(2));
    set.run_until(at_milliseconds(1800));
    assert_eq!(
        set.agreed(),
        [(0, 2, Depth::Deep)],
        "the second update prolongs it"
    );
    set.run_until(at_milliseconds(1901));
    assert_eq!(set.agreed(), []);
}

#[test]
fn first_without_the_timer_deep_control_ends_at_once() {
    let mut settings = Settings::default();
    settings.strategies.idle_timer = false;
    let mut set = Set::new(3, tree(), settings);
    set.submit(0, 1, create(2));
    set.run_until(at_milliseconds(1));
    assert_eq!(set.agreed(), []);
}

#[test]
fn second_a_forwarded_update_of_a_directory_shortens_the_time() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, create(2));
    set.deliver();
    set.submit(1, 2, create(2));
    assert_eq!(set.outcomes[&2], Outcome::Forwarded { at: 1, to: 0 });
    set.run_until(at_milliseconds(101));
    assert_eq!(set.agreed(), [], "given up after the grace of 100 ms");
    set.submit(0, 3, create(2));
    set.run_until(at_milliseconds(102));
    assert_eq!(
        set.agreed(),
        [(0, 2, Depth::Shallow)],
        "no deep control there for a while"
    );
}

#[test]
fn second_without_revoke_only_the_timer_counts() {
    let mut settings = Settings::default();
    settings.strategies.revoke = false;
    let mut set = Set::new(3, tree(), settings);
    set.submit(0, 1, create(2));
    set.deliver();
    set.submit(1, 2, create(2));
    set.run_until(at_milliseconds(900));
    assert_eq!(set.agreed(), [(0, 2, Depth::Deep)]);
}

/// 0 has to give file 3 up for a group that 1 wants, and cannot before 2 has applied what was written.
#[test]
fn second_what_is_being_given_up_is_not_sent_to_who_waits_for_it() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, write(3));
    set.deliver();
    let (tree, written) = (set.tree.clone(), Position(1));
    set.cores[0].handle_update(&tree, &write(3), &[name(0, 1)], written);
    set.drain(0);
    let removal = Update::Remove {
        parent: id(2),
        removed: Subject::File(id(3)),
    };
    set.submit(1, 2, removal);
    set.run_until(at_milliseconds(500));
    set.submit(0, 3, write(3));
    set.deliver();
    assert_eq!(set.outcomes.get(&2), None, "2 has not applied the update");
    assert_eq!(set.outcomes.get(&3), None, "1 would send it back at once");

    for peer in [1, 2] {
        let now = set.now;
        set.cores[0].handle_applied(now, &tree, slot(peer), written);
        set.drain(0);
    }
    set.deliver();
    let under = vec![name(1, 1)];
    assert_eq!(set.outcomes[&2], Outcome::Admitted { at: 1, under });
    assert_eq!(set.outcomes[&3], Outcome::Forwarded { at: 0, to: 1 });
}

#[test]
fn third_a_file_written_under_deep_control_gets_its_own() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, create(2));
    set.deliver();
    set.submit(0, 2, write(3));
    let under = vec![name(0, 1)];
    assert_eq!(set.outcomes[&2], Outcome::Admitted { at: 0, under });
    set.run_until(at_milliseconds(900));
    assert_eq!(set.agreed(), [(0, 2, Depth::Deep), (0, 3, Depth::Shallow)]);
    set.submit(0, 3, write(3));
    set.run_until(at_milliseconds(1500));
    assert_eq!(
        set.agreed(),
        [(0, 3, Depth::Shallow)],
        "further writes do not prolong the deep control"
    );
}

#[test]
fn fourth_many_controls_below_a_directory_lead_to_deep_control() {
    let mut settings = Settings {
        upgrade_threshold: 3,
        ..Settings::default()
    };
    let mut set = Set::new(3, tree(), settings);
    for file in 3..6 {
        set.submit(0, file, write(file));
        set.deliver();
    }
    assert!(set.agreed().contains(&(0, 2, Depth::Deep)));
    settings.strategies.upgrade = false;
    let mut set = Set::new(3, tree(), settings);
    for file in 3..6 {
        set.submit(0, file, write(file));
        set.deliver();
    }
    assert!(!set.agreed().contains(&(0, 2, Depth::Deep)));
}

#[test]
fn an_open_file_keeps_its_control_for_longer() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.cores[0].handle_opened_for_writing(id(3));
    set.submit(0, 1, write(3));
    set.run_until(at_milliseconds(20_000));
    assert_eq!(set.agreed(), [(0, 3, Depth::Shallow)]);
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[0].handle_closed_for_writing(now, &tree, id(3));
    set.drain(0);
    set.run_until(at_milliseconds(22_001));
    assert_eq!(set.agreed(), []);
}

/// A log file that nobody closes cost every other site a round trip for each read, for ever (main paper, section 2.1).
#[test]
fn the_control_of_an_open_file_ends_when_nobody_writes_to_it() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.cores[0].handle_opened_for_writing(id(3));
    set.submit(0, 1, write(3));
    set.run_until(at_milliseconds(25_000));
    set.submit(0, 2, write(3));
    set.run_until(at_milliseconds(54_000));
    assert_eq!(set.agreed(), [(0, 3, Depth::Shallow)]);
    set.run_until(at_milliseconds(56_000));
    assert_eq!(set.agreed(), []);
    set.submit(0, 3, write(3));
    set.deliver();
    assert_eq!(set.agreed(), [(0, 3, Depth::Shallow)]);
}

/// Two sites that write to one file in turns would each hand control to the other; who writes alone gets it.
#[test]
fn what_another_site_writes_does_not_keep_the_control_of_a_file() {
    for (asker, kept) in [(Asker::Own, true), (Asker::Other, false)] {
        let mut set = Set::new(3, tree(), Settings::default());
        set.submit(0, 1, write(3));
        set.deliver();
        for (time, operation) in [(1000, 2), (1900, 3)] {
            set.run_until(at_milliseconds(time));
            set.submit_for(asker, 0, operation, write(3));
            let under = vec![name(0, 1)];
            assert_eq!(set.outcomes[&operation], Outcome::Admitted { at: 0, under });
        }
        set.run_until(at_milliseconds(2100));
        let control = [(0, 3, Depth::Shallow)];
        assert_eq!(set.agreed() == control, kept, "{asker:?}");
        set.submit(1, 4, write(3));
        set.deliver();
        let outcome = match kept {
            true => Outcome::Forwarded { at: 1, to: 0 },
            false => Outcome::Admitted {
                at: 1,
                under: vec![name(1, 1)],
            },
        };
        assert_eq!(set.outcomes[&4], outcome, "{asker:?}");
    }
}
