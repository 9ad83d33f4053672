//! Why what a peer sent cannot be applied.
//!
//! What must never enter: what is done about it.

use vfs::Error;

use crate::state::wire::Malformed;

/// Why something that was sent is not taken in.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It is none that a replica sends, which is nobody's fault here.
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
    /// What the store says of rows that cannot be is the sender's fault; everything else is of this copy.
    fn from(error: Error) -> Unfit {
        match error {
            Error::Invalid(what) => Unfit::Nonsense(what.to_string()),
            error => Unfit::NotStored(error),
        }
    }
}
