//! Runs scripted executions of a pool, with a rule and without it.
//!
//! What must never enter: an execution.

use pool::home::{Holder, Outcome, Request};
use pool::{Access, Handle, Rules};
use sim::pool::{CellIo, Stage};

/// The invariant that does not hold.
pub type Broken = &'static str;

/// The writer.
pub const WRITER: Holder = Holder(1);
/// Another client.
pub const OTHER: Holder = Holder(2);

/// Runs an execution with every rule in force, and without one.
pub fn needed(
    switch: fn(&mut Rules),
    invariant: Broken,
    play: impl Fn(Rules) -> Result<(), Broken>,
) {
    assert_eq!(play(Rules::ALL), Ok(()), "with every rule in force");
    let mut rules = Rules::ALL;
    switch(&mut rules);
    assert_eq!(play(rules), Err(invariant), "without the rule");
}

/// The result of an execution, by whether the invariant holds.
pub fn keeps(invariant: Broken, holds: bool) -> Result<(), Broken> {
    holds.then_some(()).ok_or(invariant)
}

/// A pool with a lease, and a closed file with 1 in its cell 0. Also returns the writer's handle.
pub fn written(rules: Rules) -> (Stage, Handle) {
    let mut stage = Stage::new(rules);
    stage.lease();
    let handle = stage.layout(WRITER, Access::ReadWrite);
    let write = CellIo::WriteStable(0, 1);
    assert_eq!(stage.io(&handle, write), Some(Some(1)));
    let closed = stage.request(Request::Return(WRITER));
    stage.exchange();
    assert!(matches!(stage.outcome(closed), Some(Outcome::Size(_))));
    (stage, handle)
}
