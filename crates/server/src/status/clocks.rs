//! The differences between the clocks of servers.
//!
//! What must never enter: measuring them.

use std::fmt;

use replica::{ClockDifference, ReplicaStatus};

use super::replication::short_time;

/// Clocks that differ by more than this raise an alarm, in microseconds.
const ALLOWED_US: u64 = 1_000_000;

/// Whether the clocks certainly differ by more than allowed, however long each direction took.
fn is_apart(clock: ClockDifference) -> bool {
    clock.least_us() > ALLOWED_US
}

/// The difference between the time of day of another server and this one, for people.
pub(crate) struct ClockText(pub(crate) ClockDifference);

impl fmt::Display for ClockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClockText(clock) = self;
        let apart = short_time(clock.ahead_us.unsigned_abs() / 1000);
        let way = if clock.ahead_us < 0 {
            "behind"
        } else {
            "ahead"
        };
        let within = short_time(clock.within_us.div_ceil(1000));
        write!(f, "{apart} {way}, to within {within}")
    }
}

/// The servers whose clocks differ too much from this one, with the differences.
pub(super) fn apart(replica: &ReplicaStatus) -> Option<String> {
    let known = replica.peers.iter();
    let known: Vec<_> = known
        .filter_map(|peer| Some((peer.slot, peer.clock?)))
        .collect();
    let apart = known.iter().filter(|(_, clock)| is_apart(*clock));
    let told: Vec<String> = apart
        .map(|(slot, clock)| format!("the clock of replica {slot} is {}", ClockText(*clock)))
        .collect();
    let own = match (told.len(), known.len()) {
        (0, _) => return None,
        // With two servers it is unknown which one is right.
        (all, known) if all == known && all > 1 => {
            "; no other's agrees with this server's, so that is probably the wrong one"
        }
        _ => "",
    };
    Some(told.join(", ") + own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples;

    fn clock(ahead_us: i64, within_us: u64) -> Option<ClockDifference> {
        Some(ClockDifference {
            ahead_us,
            within_us,
        })
    }

    #[test]
    fn clocks_that_certainly_differ_by_more_than_a_second_are_told_of() {
        let mut replica = examples::replica();
        assert_eq!(apart(&replica), None);
        for little in [clock(1_000_000, 0), clock(-3_000_000, 2_000_000), None] {
            replica.peers[0].clock = little;
            assert_eq!(apart(&replica), None, "{little:?}");
        }
        replica.peers[0].clock = clock(3_600_000_000, 60_100);
        replica.peers[1].clock = clock(400, 300);
        let told = "the clock of replica 1 is 1 h 0 min ahead, to within 61 ms";
        assert_eq!(apart(&replica).as_deref(), Some(told));
        replica.peers[1].clock = clock(-2_500_000, 300);
        let told = apart(&replica).unwrap();
        assert!(told.contains("replica 1 is 1 h 0 min ahead, to within 61 ms, the clock of replica 3 is 2.5 s behind, to within 1 ms"), "{told}");
        assert!(told.ends_with("probably the wrong one"), "{told}");
        replica.peers[1].clock = clock(i64::MIN, u64::MAX);
        assert!(apart(&replica).is_some());
    }
}
