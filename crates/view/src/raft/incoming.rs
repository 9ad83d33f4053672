//! A snapshot that comes in parts: it is put together and decoded before the library gets it.
//!
//! The library installs any snapshot that it receives, and stops for good if it is not a valid state: by then it has
//! cut its log. So the library gets only snapshots that can be decoded.
//!
//! What must never enter: the content of the state.

use std::io::Cursor;

use openraft::error::{InstallSnapshotError, SnapshotMismatch};
use openraft::raft::InstallSnapshotRequest;
use openraft::{Snapshot, SnapshotSegmentId};
use vfs::ReplicaSlot;

use super::types::{SnapshotMeta, Types};
use crate::bytes::decode;
use crate::state::ViewState;

/// The received parts of the current snapshot; there is at most one at a time.
#[derive(Default)]
pub(crate) struct Incoming(Option<Begun>);

struct Begun {
    from: ReplicaSlot,
    meta: SnapshotMeta,
    data: Vec<u8>,
}

/// Why a part is refused.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It does not continue the received parts; the sender starts from the beginning.
    Elsewhere(InstallSnapshotError),
    /// The complete snapshot is not a valid state.
    NoState(String),
}

impl Incoming {
    /// Takes a part whose offset and length were checked. Returns the complete snapshot after the last part.
    pub(crate) fn take(
        &mut self,
        from: ReplicaSlot,
        part: InstallSnapshotRequest<Types>,
    ) -> Result<Option<Snapshot<Types>>, Unfit> {
        if part.offset == 0 {
            self.0 = Some(Begun {
                from,
                meta: part.meta.clone(),
                data: Vec::new(),
            });
        }
        let begun = self.0.as_mut();
        let begun = begun.filter(|begun| begun.from == from && begun.meta == part.meta);
        let have = begun.as_ref().map_or(0, |begun| begun.data.len());
        let at = usize::try_from(part.offset).unwrap_or(usize::MAX);
        let Some(begun) = begun.filter(|_| at <= have) else {
            return Err(Unfit::Elsewhere(elsewhere(&part)));
        };
        // A repeated part replaces what was received before.
        begun.data.truncate(at);
        begun.data.extend_from_slice(&part.data);
        if !part.done {
            return Ok(None);
        }
        let Some(whole) = self.0.take() else {
            return Ok(None);
        };
        decode::<ViewState>(&whole.data).map_err(Unfit::NoState)?;
        Ok(Some(Snapshot {
            meta: whole.meta,
            snapshot: Box::new(Cursor::new(whole.data)),
        }))
    }
}

fn elsewhere(part: &InstallSnapshotRequest<Types>) -> InstallSnapshotError {
    let place = |offset| SnapshotSegmentId {
        id: part.meta.snapshot_id.clone(),
        offset,
    };
    InstallSnapshotError::SnapshotMismatch(SnapshotMismatch {
        expect: place(0),
        got: place(part.offset),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::encode;
    use crate::raft::types::Vote;

    fn part(data: &[u8], offset: u64, done: bool) -> InstallSnapshotRequest<Types> {
        InstallSnapshotRequest {
            vote: Vote::new_committed(3, 1),
            meta: SnapshotMeta {
                snapshot_id: "a".to_owned(),
                ..SnapshotMeta::default()
            },
            offset,
            data: data.to_vec(),
            done,
        }
    }

    fn state() -> Vec<u8> {
        encode(&ViewState::default()).unwrap()
    }

    #[test]
    fn parts_make_a_whole_also_when_they_come_twice() {
        let (mut incoming, state) = (Incoming::default(), state());
        let (first, rest) = state.split_at(3);
        for _ in 0..2 {
            assert!(matches!(
                incoming.take(ReplicaSlot(1), part(first, 0, false)),
                Ok(None)
            ));
        }
        let whole = incoming.take(ReplicaSlot(1), part(rest, 3, true));
        assert_eq!(whole.unwrap().unwrap().snapshot.into_inner(), state);
    }

    #[test]
    fn what_follows_nothing_begins_anew() {
        let (mut incoming, state) = (Incoming::default(), state());
        let lost = incoming.take(ReplicaSlot(1), part(&state[3..], 3, true));
        assert!(matches!(lost, Err(Unfit::Elsewhere(_))));
        incoming
            .take(ReplicaSlot(1), part(&state[..3], 0, false))
            .unwrap();
        let anothers = incoming.take(ReplicaSlot(2), part(&state[3..], 3, true));
        assert!(matches!(anothers, Err(Unfit::Elsewhere(_))));
    }

    #[test]
    fn what_is_no_state_goes_no_further() {
        let mut incoming = Incoming::default();
        let whole = incoming.take(ReplicaSlot(1), part(b"no state", 0, true));
        assert!(matches!(whole, Err(Unfit::NoState(_))));
    }
}
