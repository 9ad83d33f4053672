//! The expectations from the protocol's rules: formulas to compare with the simulation.
//!
//! What must never enter: anything that was counted.

use std::time::Duration;

/// Messages of one control from its proposal to its end, without competitors: a proposal to each of the others, the
/// acknowledgement of each, a release to each, and each one's confirmation of the end
/// (`docs/protocol.md`, the table of messages).
pub(super) fn messages_of_a_control(replicas: u16) -> f64 {
    4.0 * (f64::from(replicas) - 1.0)
}

/// Messages of a control that a new object inherits: the first message about it is the record that makes the object. What
/// remains is the acknowledgement, the release, and its receipt.
pub(super) fn messages_of_an_inherited_control(replicas: u16) -> f64 {
    3.0 * (f64::from(replicas) - 1.0)
}

/// Messages for each update of a burst under deep control: one control for the directory, and one for each file that is
/// written below it (the third strategy of section 3.3 of the main paper).
pub(super) fn messages_in_a_burst(replicas: u16, written_files: u64, updates: u64) -> f64 {
    messages_of_a_control(replicas) * (1 + written_files) as f64 / updates as f64
}

/// The time until a majority has acknowledged, from the round trips to all others, the nearest first. Besides the proposer,
/// the majority needs half of the set, rounded down.
pub(super) fn majority(round_trips: &[Duration]) -> Duration {
    let replicas = round_trips.len() + 1;
    let needed = replicas / 2;
    let last = needed.checked_sub(1);
    last.map_or(Duration::ZERO, |last| round_trips[last])
}

/// The time until all others have acknowledged.
pub(super) fn everybody(round_trips: &[Duration]) -> Duration {
    round_trips.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_more_than_half_of_all() {
        let trips: Vec<Duration> = (1..=7).map(Duration::from_millis).collect();
        let after = |others: usize| majority(&trips[..others]).as_millis();
        // Of 2 both, of 3 two, of 4 and 5 three, of 8 five.
        assert_eq!([1, 2, 3, 4, 7].map(after), [1, 1, 2, 2, 4]);
        assert_eq!(everybody(&trips).as_millis(), 7);
    }
}
