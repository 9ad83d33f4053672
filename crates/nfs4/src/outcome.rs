//! How the result of an operation travels: a status, and a body that depends on
//! it. Other code decides the status of an operation.

use xdr::{Decode, DecodeError, Encode, Reader, Writer};

use crate::NfsStat4;

/// The result of one operation without its number.
///
/// Three shapes cover almost everything: [`NfsStat4`] alone, `Result<Body,
/// NfsStat4>` when only success has a body, and types of their own for the few
/// operations whose failure has one.
pub trait Outcome: Sized {
    /// How the operation ended.
    fn status(&self) -> NfsStat4;

    /// Appends the status and the body that belongs to it.
    fn encode_outcome(&self, w: &mut Writer);

    /// Consumes a status and the body that belongs to it.
    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError>;
}

impl Outcome for NfsStat4 {
    fn status(&self) -> NfsStat4 {
        *self
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.encode(w);
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        Self::decode(r)
    }
}

impl<T: Encode + Decode> Outcome for Result<T, NfsStat4> {
    fn status(&self) -> NfsStat4 {
        match self {
            Ok(_) => NfsStat4::Ok,
            Err(status) => failure(*status),
        }
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.status().encode(w);
        if let Ok(body) = self {
            body.encode(w);
        }
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        match NfsStat4::decode(r)? {
            NfsStat4::Ok => Ok(Ok(T::decode(r)?)),
            status => Ok(Err(status)),
        }
    }
}

/// A failure that claims to be a success would be read as a success without its
/// body, so it is sent as what it is: a fault of the sender.
pub(crate) fn failure(status: NfsStat4) -> NfsStat4 {
    match status {
        NfsStat4::Ok => NfsStat4::ServerFault,
        status => status,
    }
}
