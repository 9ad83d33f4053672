//! Errors in received bytes. They do not concern the meaning of a message:
//! a well-formed message with a senseless request is not a `DecodeError`.

use thiserror::Error;

/// Why bytes are not the XDR item that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The input ends before the item does.
    #[error("the message ends {missing} bytes too early")]
    Truncated {
        /// The number of missing bytes.
        missing: usize,
    },
    /// A length word announces more than the receiver accepts.
    #[error("a length of {length} exceeds the limit of {max}")]
    TooLong {
        /// The announced length, in bytes or elements.
        length: usize,
        /// The largest length accepted here.
        max: usize,
    },
    /// An enumeration, a boolean or the discriminant of a union has a value
    /// that its definition does not list.
    #[error("{value} is not a value of {kind}")]
    UnknownValue {
        /// The name of the type that was being decoded.
        kind: &'static str,
        /// The value received.
        value: u32,
    },
    /// The item is complete and bytes are left over.
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
}
