//! How a set of replicas begins and grows: its certificate authority, invitations, joining.
//!
//! A set has an authority of its own, made by [`SetDirectory::create`] with the first replica. Whoever is
//! to join gets one token from [`SetDirectory::invite`]: where to call, the fingerprint of the authority,
//! a secret that works once, the slot reserved for it, and when it expires. [`join`] turns the token into a
//! certificate, the list of members, and what the owner of the first replica says of the tree. What must
//! never enter: the meaning of that, what replicas say to each other later, and private keys in logs or
//! messages.

mod authority;
mod directory;
mod exchange;
mod files;
mod invitation;
#[cfg(test)]
mod tests;
mod token;

use std::path::PathBuf;

pub use authority::CERTIFICATE_LIFETIME;
pub use directory::{Member, MemberList, SetDirectory};
pub use exchange::join;
pub(crate) use exchange::serve_join;
pub use token::{Token, TokenError};

/// A key and a signing request, for tests that join without a network.
#[cfg(test)]
pub(crate) fn request_for_tests() -> (
    rustls::pki_types::PrivatePkcs8KeyDer<'static>,
    rustls::pki_types::CertificateSigningRequestDer<'static>,
) {
    let (key, request) = authority::make_request().expect("makes a request");
    (key.serialize_der().into(), request)
}

/// What the holder of a token shows with a request.
#[cfg(test)]
pub(crate) fn proof_for_tests(token: &Token, request: &[u8]) -> [u8; 32] {
    token::proof(&token.secret, token.set, token.slot, request)
}

/// Why something with a set could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The directory belongs to a set already.
    #[error(
        "{0} already belongs to a set; use another data directory, or remove this one to start anew"
    )]
    Exists(PathBuf),
    /// There is no set in the directory.
    #[error(
        "{0} belongs to no set; begin one with `meridian set create`, or enter one with `meridian set join`"
    )]
    NoSet(PathBuf),
    /// The key of the authority is elsewhere.
    #[error(
        "this replica does not keep the key of the set's authority; use the replica that created the set, where `meridian set create` ran"
    )]
    NoAuthority,
    /// There are no slots left; they are never used twice.
    #[error("every slot of the set has been used; create a new set")]
    SlotsExhausted,
    /// A member was named that there is not.
    #[error("there is no replica {0} in this set; `meridian set members` lists them")]
    NoSuchMember(u16),
    /// The replica that keeps the key cannot be removed.
    #[error(
        "this replica keeps the key of the set's authority, so it cannot be removed; to end the set, stop its servers and remove their `set` directories"
    )]
    Founder,
    /// More is said of the tree than the set hands on.
    #[error("the description of the tree is larger than {max} bytes", max = directory::TREE_BYTES_MAX)]
    TreeTooLarge,
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file does not contain what it should.
    #[error(
        "{path} is damaged ({reason}); restore it from a backup, or let the replica join again"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// None of the token's addresses could be reached.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// The last address that was tried.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// The set refused.
    #[error("the set refuses: {0}")]
    Refused(String),
}
