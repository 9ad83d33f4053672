//! What an answer, or its absence, means for a request.
//!
//! What must never enter: what was requested.

use std::io;
use std::time::Duration;

use nfs4::{NfsStat4, Opnum};
use nfs4_client::Error;

use crate::history::{Outcome, Refusal};

/// After this a request counts as lost.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// Waits for an answer, but not for ever.
pub(super) async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(LIMIT, work).await {
        Ok(answer) => answer,
        Err(_) => {
            let cause = format!("no answer for {} s", LIMIT.as_secs());
            Err(Error::Transport(io::Error::other(cause)))
        }
    }
}

/// The outcome of a request that changes something in one step and got this error.
pub(super) fn outcome_of(error: &Error) -> Outcome {
    use NfsStat4 as S;
    let status = match error {
        Error::Status { op, status } if *op != Opnum::Sequence as u32 => *status,
        other => return Outcome::Unknown(other.to_string()),
    };
    match status {
        S::Exist => Outcome::Refused(Refusal::Exist),
        S::NoEnt => Outcome::Refused(Refusal::NoEnt),
        S::NoSpc | S::Access | S::Perm | S::ShareDenied | S::Locked | S::RoFs => {
            Outcome::Refused(Refusal::Other(status.to_string()))
        }
        _ => Outcome::Unknown(error.to_string()),
    }
}

/// The lock was not granted.
pub(super) fn denied() -> Outcome {
    Outcome::Refused(Refusal::Other("somebody else has the lock".to_owned()))
}

/// The same for a later step: the first step has been done.
pub(super) fn unknown(error: &Error) -> Outcome {
    match outcome_of(error) {
        Outcome::Refused(why) => Outcome::Unknown(why.to_string()),
        other => other,
    }
}
