//! A replica that is about to stop gives up what it controls, so that nothing is frozen while it is away.

use std::collections::BTreeSet;

use crate::set::*;
use control::*;

fn retire(set: &mut Set, replica: u16) {
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[usize::from(replica)].handle_retiring(now, &tree);
    set.drain(replica);
}

fn others() -> BTreeSet<vfs::ReplicaSlot> {
    BTreeSet::from([slot(1), slot(2)])
}

#[test]
fn it_gives_up_what_it_has_and_what_it_still_gets() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.submit(0, 1, create(2));
    set.deliver();
    assert_eq!(set.agreed(), [(0, 2, Depth::Deep)]);
    assert!(!set.cores[0].has_retired(&others()));
    retire(&mut set, 0);
    assert!(!set.cores[0].has_retired(&others()), "nobody knows it yet");
    set.run_until(set.now);
    assert_eq!(set.agreed(), []);
    assert!(set.cores[0].has_retired(&others()));
    // The last operation of a client, or of another replica.
    set.submit(0, 2, write(3));
    set.run_until(set.now);
    assert!(matches!(set.outcomes[&2], Outcome::Admitted { .. }));
    assert_eq!(set.agreed(), []);
    assert!(set.cores[0].has_retired(&others()));
}

#[test]
fn a_file_that_is_open_for_writing_does_not_keep_it() {
    let mut set = Set::new(3, tree(), Settings::default());
    set.cores[0].handle_opened_for_writing(id(3));
    set.submit(0, 1, write(3));
    set.deliver();
    retire(&mut set, 0);
    set.run_until(set.now);
    assert_eq!(set.agreed(), []);
    assert!(set.cores[0].has_retired(&others()));
}
