//! Why what a peer sent cannot be applied.
//!
//! What must never enter: what is done about it.

use vfs::Error;

use crate::state::wire::Malformed;

/// Why something that was sent is not accepted.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// No correct replica sends it; this replica is not at fault.
    Nonsense(String),
    /// This copy cannot store it.
    NotStored(Error),
}

impl From<Malformed> for Unfit {
    fn from(error: Malformed) -> Unfit {
        Unfit::Nonsense(error.to_string())
    }
}

impl From<Error> for Unfit {
    /// The sender is at fault if the store finds rows invalid; every other error is of this copy.
    fn from(error: Error) -> Unfit {
        match error {
            Error::Invalid(what) => Unfit::Nonsense(what.to_string()),
            error => Unfit::NotStored(error),
        }
    }
}
