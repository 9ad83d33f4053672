//! The encoding of decisions on disk and between replicas. In it the deciding replica, the time and the epoch are mixed
//! with the fields of each kind.
//!
//! What must never enter: the meaning of a decision. The order of variants and fields is the format: new ones are added at the end.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::decision::{Decision, DecisionKind, Referral, Settlement};
use crate::state::Kind;

/// The deciding replica.
type By = ReplicaSlot;
/// The time, in seconds since 1970.
type At = u64;
/// The epoch that a decision was judged in.
type Seen = u64;

/// The value of that epoch for the kinds that do not store it.
const NOT_KEPT: Seen = 0;

/// Each kind of [`DecisionKind`], with its fields in the order of the format.
#[derive(Serialize, Deserialize)]
pub(crate) enum Encoded {
    Exclude(ReplicaSlot, By, Seen, String, At),
    Admit(ReplicaSlot, By, Seen, u64, At),
    Configure(ReplicaSlot, Kind, By, At),
    Remove(ReplicaSlot, By, At),
    Settle(ReplicaSlot, Settlement, By, Seen, At),
    Recover(BTreeSet<ReplicaSlot>, By, At),
    Replace(
        BTreeSet<ReplicaSlot>,
        BTreeMap<ReplicaSlot, u64>,
        By,
        Seen,
        String,
        At,
    ),
    Note(String, By, At),
    Junction(String, Vec<Referral>, By, At),
    Withdraw(ReplicaSlot, By, At),
}

impl From<Decision> for Encoded {
    fn from(decision: Decision) -> Encoded {
        let Decision {
            by,
            at_unix_s: at,
            seen_epoch: seen,
            kind,
        } = decision;
        match kind {
            DecisionKind::Exclude { slot, reason } => Encoded::Exclude(slot, by, seen, reason, at),
            DecisionKind::Admit { slot, incarnation } => {
                Encoded::Admit(slot, by, seen, incarnation, at)
            }
            DecisionKind::Configure { slot, kind } => Encoded::Configure(slot, kind, by, at),
            DecisionKind::Remove { slot } => Encoded::Remove(slot, by, at),
            DecisionKind::Settle { slot, settlement } => {
                Encoded::Settle(slot, settlement, by, seen, at)
            }
            DecisionKind::Recover { survivors } => Encoded::Recover(survivors, by, at),
            DecisionKind::Replace {
                out,
                admitted,
                reason,
            } => Encoded::Replace(out, admitted, by, seen, reason, at),
            DecisionKind::Note { what } => Encoded::Note(what, by, at),
            DecisionKind::Junction { name, to } => Encoded::Junction(name, to, by, at),
            DecisionKind::Withdraw { slot } => Encoded::Withdraw(slot, by, at),
        }
    }
}

impl From<Encoded> for Decision {
    fn from(encoded: Encoded) -> Decision {
        let (by, at_unix_s, seen_epoch, kind) = match encoded {
            Encoded::Exclude(slot, by, seen, reason, at) => {
                (by, at, seen, DecisionKind::Exclude { slot, reason })
            }
            Encoded::Admit(slot, by, seen, incarnation, at) => {
                (by, at, seen, DecisionKind::Admit { slot, incarnation })
            }
            Encoded::Configure(slot, kind, by, at) => {
                (by, at, NOT_KEPT, DecisionKind::Configure { slot, kind })
            }
            Encoded::Remove(slot, by, at) => (by, at, NOT_KEPT, DecisionKind::Remove { slot }),
            Encoded::Settle(slot, settlement, by, seen, at) => {
                (by, at, seen, DecisionKind::Settle { slot, settlement })
            }
            Encoded::Recover(survivors, by, at) => {
                (by, at, NOT_KEPT, DecisionKind::Recover { survivors })
            }
            Encoded::Replace(out, admitted, by, seen, reason, at) => (
                by,
                at,
                seen,
                DecisionKind::Replace {
                    out,
                    admitted,
                    reason,
                },
            ),
            Encoded::Note(what, by, at) => (by, at, NOT_KEPT, DecisionKind::Note { what }),
            Encoded::Junction(name, to, by, at) => {
                (by, at, NOT_KEPT, DecisionKind::Junction { name, to })
            }
            Encoded::Withdraw(slot, by, at) => (by, at, NOT_KEPT, DecisionKind::Withdraw { slot }),
        };
        Decision {
            by,
            at_unix_s,
            seen_epoch,
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{decode, encode};
    use crate::decision::SettledBy;

    fn slot(number: u16) -> ReplicaSlot {
        ReplicaSlot(number)
    }

    /// Each kind as servers wrote it before this type existed, behind the number of today's format.
    fn written() -> [(Seen, DecisionKind, &'static [u8]); 10] {
        let reason = || "ab".to_owned();
        let settlement = Settlement {
            through: 10,
            incarnation_below: 11,
            names: Some(vec![(12, 13)]),
            by: SettledBy::Administrator { reason: reason() },
            at_unix_s: 14,
            id: 15,
        };
        let settled = b"\x04\x04\x02\x0a\x0b\x01\x01\x0c\x0d\x01\x02ab\x0e\x0f\x01\x04\x05";
        let to = vec![Referral {
            server: "s".to_owned(),
            path: "/p".to_owned(),
        }];
        let (out, admitted) = ([slot(2)].into(), [(slot(3), 6)].into());
        [
            (
                4,
                DecisionKind::Exclude {
                    slot: slot(2),
                    reason: reason(),
                },
                b"\x04\x00\x02\x01\x04\x02ab\x05",
            ),
            (
                4,
                DecisionKind::Admit {
                    slot: slot(2),
                    incarnation: 6,
                },
                b"\x04\x01\x02\x01\x04\x06\x05",
            ),
            (
                NOT_KEPT,
                DecisionKind::Configure {
                    slot: slot(2),
                    kind: Kind::Witness,
                },
                b"\x04\x02\x02\x01\x01\x05",
            ),
            (
                NOT_KEPT,
                DecisionKind::Remove { slot: slot(2) },
                b"\x04\x03\x02\x01\x05",
            ),
            (
                4,
                DecisionKind::Settle {
                    slot: slot(2),
                    settlement,
                },
                settled,
            ),
            (
                NOT_KEPT,
                DecisionKind::Recover {
                    survivors: [slot(1), slot(2)].into(),
                },
                b"\x04\x05\x02\x01\x02\x01\x05",
            ),
            (
                4,
                DecisionKind::Replace {
                    out,
                    admitted,
                    reason: reason(),
                },
                b"\x04\x06\x01\x02\x01\x03\x06\x01\x04\x02ab\x05",
            ),
            (
                NOT_KEPT,
                DecisionKind::Note { what: reason() },
                b"\x04\x07\x02ab\x01\x05",
            ),
            (
                NOT_KEPT,
                DecisionKind::Junction { name: reason(), to },
                b"\x04\x08\x02ab\x01\x01s\x02/p\x01\x05",
            ),
            (
                NOT_KEPT,
                DecisionKind::Withdraw { slot: slot(2) },
                b"\x04\x09\x02\x01\x05",
            ),
        ]
    }

    #[test]
    fn decisions_are_written_as_they_always_were() {
        for (seen_epoch, kind, bytes) in written() {
            let decision = Decision {
                by: slot(1),
                at_unix_s: 5,
                seen_epoch,
                kind,
            };
            assert_eq!(encode(&decision).unwrap(), bytes, "{decision:?}");
            assert_eq!(decode::<Decision>(bytes), Ok(decision));
        }
    }
}
