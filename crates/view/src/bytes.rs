//! Values as bytes, on disk and between replicas: a format number, then postcard.
//!
//! What must never enter: the meaning of the values. Decoding never panics, and its memory use is at most a small
//! multiple of the input size.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The format of everything this crate stores and sends. Earlier formats differ in the state of a set only: in 3, the number of settlements before each
/// admission is missing at its end, and in 2 the junctions before it as well.
const FORMAT: u8 = 4;
const OLDEST_FORMAT: u8 = 2;

/// Encodes a value.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    postcard::to_extend(value, vec![FORMAT]).map_err(|error| error.to_string())
}

/// Decodes a value that uses all of `bytes`.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let Some((format, rest)) = bytes.split_first() else {
        return Err("no bytes".to_owned());
    };
    match *format {
        FORMAT => take(rest, &[]),
        // An empty map is encoded as a zero byte. A value that is not a state does not read these bytes.
        OLDEST_FORMAT..FORMAT => {
            let missing = vec![0; usize::from(FORMAT - format)];
            let padded = [rest, &missing].concat();
            take(&padded, &[]).or_else(|error| take(&padded, &missing).map_err(|_| error))
        }
        format => Err(format!("format {format} is not known here")),
    }
}

/// Decodes the value at the beginning of `bytes`, if exactly `left` follows it.
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

    /// The decisions of a set of an earlier version must survive an upgrade.
    #[test]
    fn a_state_of_an_earlier_format_is_still_read() {
        let mut state = ViewState {
            epoch: 7,
            ..ViewState::default()
        };
        state.removed.insert(ReplicaSlot(3));
        let mut old = encode(&state).unwrap();
        for format in (OLDEST_FORMAT..FORMAT).rev() {
            assert_eq!(old.pop(), Some(0), "the last map is empty");
            old[0] = FORMAT;
            assert!(decode::<ViewState>(&old).is_err());
            old[0] = format;
            assert_eq!(decode(&old), Ok(state.clone()));

            let mut outcome = encode(&Outcome::Applied).unwrap();
            outcome[0] = format;
            assert_eq!(decode::<Outcome>(&outcome), Ok(Outcome::Applied));
            outcome.push(0);
            assert!(decode::<Outcome>(&outcome).is_err());
            assert!(decode::<Decision>(&[format]).is_err());
        }
        assert!(decode::<Referral>(&[1, 0, 0]).is_err());
    }
}
