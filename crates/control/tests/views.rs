//! What a change of views must not lose. How views are agreed, and what freezes, is not decided here.

mod set;

use control::*;
use set::*;

/// Root 1, directory 2 in it, file 3 in that.
fn tree() -> Map {
    Map::of(&[(2, 1), (3, 2)])
}

fn enter(set: &mut Set, replica: u16, epoch: u64) {
    let view = View {
        epoch: Epoch(epoch),
        ..view(3)
    };
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[usize::from(replica)].handle_view(now, &tree, view);
    set.drain(replica);
}

#[test]
fn counterexample_39_an_end_sent_in_an_older_epoch_counts() {
    let mut set = Set::new(3, tree(), Settings::default());
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
    assert_eq!(set.agreed(), []);
}

#[test]
fn counterexample_39_a_proposal_is_made_again_in_the_new_epoch() {
    let mut set = Set::new(3, tree(), Settings::default());
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
    let under = vec![name(0, 1)];
    assert_eq!(set.outcomes[&1], Outcome::Admitted { at: 0, under });
}

#[test]
fn counterexample_39_a_proposal_of_a_later_epoch_is_asked_for_again() {
    let mut set = Set::new(3, tree(), Settings::default());
    enter(&mut set, 0, 2);
    set.submit(0, 1, write(3));
    set.deliver();
    assert_eq!(set.outcomes.get(&1), None);
    for replica in 1..3 {
        enter(&mut set, replica, 2);
    }
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
}
