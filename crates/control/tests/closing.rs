//! When a close may be answered, where only some know of some control of the file.

use crate::set::*;
use control::*;

/// Whether the close of file 3, which 0 of five controls, has been answered.
fn is_closed(set: &Set) -> bool {
    matches!(set.outcomes.get(&9), Some(Outcome::Admitted { at: 0, .. }))
}

/// 1, 2 and 3 know of a control of file 3 that admits nothing more; 4 has heard only of a later proposal, which no majority
/// has acknowledged. Whether a close is answered, and whether it is when 4 has heard of the control.
fn closed_on_the_strength_of_a_proposal(switch: Switch) -> [bool; 2] {
    let mut settings = Settings::default();
    switch(&mut settings.rules);
    let mut set = Set::new(5, tree(), settings);
    set.submit(0, 1, write(3));
    set.wire.retain(|(_, to, _)| *to != 4);
    set.deliver();
    assert!(matches!(set.outcomes[&1], Outcome::Admitted { at: 0, .. }));
    set.cores[0].hold(&[name(0, 1)]);
    let (tree, epoch) = (set.tree.clone(), Epoch(1));
    let message = Message::Revoke { name: name(0, 1) };
    let now = set.now;
    set.cores[0].handle_message(now, &tree, slot(1), Envelope { epoch, message });
    set.drain(0);
    set.run_until(Moment(5_000_000));
    set.submit(0, 2, write(3));
    assert_eq!(
        set.outcomes.get(&2),
        None,
        "the previous admits nothing more"
    );
    set.wire.retain(|(_, to, _)| *to == 4);
    set.deliver();
    let knows = set.cores[4]
        .acknowledged()
        .map(|grant| grant.name)
        .collect::<Vec<_>>();
    assert_eq!(knows, [name(0, 2)]);

    let now = set.now;
    let waits = set.cores[0].handle_close(now, &tree, OperationId(9), id(3), None);
    assert_eq!(waits, Ok(()));
    set.drain(0);
    let early = is_closed(&set);
    set.cores[0].handle_connected(now, &tree, slot(4));
    set.drain(0);
    set.deliver();
    [early, is_closed(&set)]
}

#[test]
fn a_close_does_not_rely_on_a_proposal_that_may_be_withdrawn() {
    let relied = closed_on_the_strength_of_a_proposal(all_rules);
    assert_eq!(relied, [false, true]);
    let off: Switch = |rules| rules.close_waits_for_decision = false;
    assert_eq!(closed_on_the_strength_of_a_proposal(off), [true, true]);
}
