//! Values as bytes, on disk and between replicas: a format number, then postcard.
//!
//! What must never enter: what is encoded. Decoding never panics and takes no more memory than a small
//! multiple of the bytes it is given.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The format of everything this crate stores and sends. 3 came with junctions.
const FORMAT: u8 = 3;

/// The one before, in which the state of a set ended where its junctions begin now; nothing else differs.
const WITHOUT_JUNCTIONS: u8 = 2;

/// A value as bytes.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    postcard::to_extend(value, vec![FORMAT]).map_err(|error| error.to_string())
}

/// The value that `bytes` are, to the last byte.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let Some((format, rest)) = bytes.split_first() else {
        return Err("no bytes".to_owned());
    };
    match *format {
        FORMAT => take(rest, &[]),
        // An empty map is a zero; what was no state leaves it over.
        WITHOUT_JUNCTIONS => {
            let padded = [rest, &[0]].concat();
            take(&padded, &[]).or_else(|error| take(&padded, &[0]).map_err(|_| error))
        }
        format => Err(format!("format {format} is not known here")),
    }
}

/// The value that `bytes` begin with, if just this follows.
fn take<T: DeserializeOwned>(bytes: &[u8], left: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, rest)) if rest == left => Ok(value),
        Ok(_) => Err("bytes are left over".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Decision, Outcome, Referral};
    use crate::state::ViewState;
    use vfs::ReplicaSlot;

    /// What a set of an earlier version has agreed on is not lost when its servers learn of junctions.
    #[test]
    fn a_state_without_junctions_is_still_read() {
        let mut state = ViewState {
            epoch: 7,
            ..ViewState::default()
        };
        state.removed.insert(ReplicaSlot(3));
        let mut old = encode(&state).unwrap();
        assert_eq!(old.pop(), Some(0), "the map of junctions is empty");
        assert!(decode::<ViewState>(&old).is_err());
        old[0] = WITHOUT_JUNCTIONS;
        assert_eq!(decode::<ViewState>(&old), Ok(state));

        let mut outcome = encode(&Outcome::Applied).unwrap();
        outcome[0] = WITHOUT_JUNCTIONS;
        assert_eq!(decode::<Outcome>(&outcome), Ok(Outcome::Applied));
        outcome.push(0);
        assert!(decode::<Outcome>(&outcome).is_err());
        assert!(decode::<Decision>(&[WITHOUT_JUNCTIONS]).is_err());
        assert!(decode::<Referral>(&[1, 0, 0]).is_err());
    }
}
