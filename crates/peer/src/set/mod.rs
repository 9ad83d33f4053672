//! How a set of replicas, or a pool of data servers, begins and grows: its certificate authority, invitations, joining.
//!
//! A set has its own authority, which [`SetDirectory::create_for`] makes together with the first replica. A server that
//! is to join gets one token from [`SetDirectory::invite_as`]. It contains the addresses to call, the fingerprint of
//! the authority, a secret that works once, the reserved slot, and the expiry time. [`join`] exchanges the token for a
//! certificate, the list of members, and the text about the tree from the handler of the first replica. A pool does the
//! same with [`SetDirectory::of_pool`]: the comments here about sets and replicas then mean pools and their servers
//! ([`Kind`]). What must never enter: the meaning of that text, later messages between members, and private keys in
//! logs or messages.

mod authority;
mod directory;
mod exchange;
mod files;
mod handover;
mod invitation;
mod joining;
mod keeper;
mod kind;
mod list;
mod remembered;
#[cfg(test)]
mod tests;
mod token;

use std::path::PathBuf;

pub use authority::CERTIFICATE_LIFETIME;
pub(crate) use authority::has_signed;
pub use directory::{Learned, SetDirectory};
pub(crate) use exchange::serve_join;
pub use exchange::{Entry, join};
pub use handover::{AuthorityBackup, AuthorityView, Handover};
pub use invitation::Role;
pub use keeper::Outstanding;
pub use kind::Kind;
pub use list::{MEMBERS_MAX, Member, MemberList, Places, is_name};
pub use token::{Token, TokenError};

/// [`crate::decode_as_anything`] for lists of members, tokens, joining, and the files of a set.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    drop(MemberList::decode(bytes));
    exchange::decode_as_anything(bytes);
    joining::decode_as_anything(bytes);
    drop(serde_json::from_slice::<directory::SetFile>(bytes));
    drop(serde_json::from_slice::<Vec<invitation::Invitation>>(bytes));
    drop(serde_json::from_slice::<AuthorityBackup>(bytes));
    drop(serde_json::from_slice::<Handover>(bytes));
    for kind in Kind::ALL {
        drop(std::str::from_utf8(bytes).map(|text| Token::parse(kind, text)));
        drop(token::from_wire(kind, bytes));
    }
}

/// A key and a signing request, for tests that join without a network.
#[cfg(test)]
pub(crate) fn request_for_tests() -> (
    rustls::pki_types::PrivatePkcs8KeyDer<'static>,
    rustls::pki_types::CertificateSigningRequestDer<'static>,
) {
    let (key, request) = authority::make_request().expect("makes a request");
    (key.serialize_der().into(), request)
}

#[cfg(test)]
impl SetDirectory {
    /// A token for an ordinary replica without a name.
    pub(crate) fn invite(
        &self,
        lifetime: std::time::Duration,
        now: std::time::SystemTime,
    ) -> Result<Token, SetError> {
        self.invite_as(Role::Ordinary, "", lifetime, now)
    }
}

/// The proof that the holder of a token shows with a request.
#[cfg(test)]
pub(crate) fn proof_for_tests(token: &Token, request: &[u8]) -> [u8; 32] {
    token::proof(
        &token.secret,
        (token.set, token.slot),
        request,
        &Places::default(),
    )
}

/// Why an operation on a set failed.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The directory belongs to a set already.
    #[error(
        "{0} already belongs to a set; use another data directory, or remove this one to start anew"
    )]
    Exists(PathBuf),
    /// The directory contains no set.
    #[error(
        "{0} belongs to no set; begin one with `meridian set create`, or enter one with `meridian set join`"
    )]
    NoSet(PathBuf),
    /// Another replica keeps the authority.
    #[error("replica {keeper} ({addresses}) keeps the set's authority; run this on that server")]
    NoAuthority {
        /// Its slot.
        keeper: u16,
        /// The keeper's addresses for other members.
        addresses: String,
    },
    /// This replica should keep the authority, but the key is missing.
    #[error(
        "this replica keeps the set's authority, but its key `set/authority.key` is missing; put it back from a backup of the `set` directory"
    )]
    KeyLost,
    /// That replica already keeps the authority.
    #[error("this replica keeps the set's authority already")]
    AlreadyKeeper,
    /// A key or a backup that does not belong to the set's authority.
    #[error("this is not the key of this set's authority; it is of another set")]
    WrongKey,
    /// The keeper of the authority or the list of members has changed in the meantime.
    #[error(
        "the authority or the list of members has changed meanwhile; see `meridian set authority show`, and try again"
    )]
    Superseded,
    /// A list of members that the set's authority did not sign.
    #[error("the list of members is refused: {0}")]
    Forged(&'static str),
    /// The maximum number of members is reached.
    #[error("a {0} has at most {max} members, those without contents included; remove one first", max = .0.members_max())]
    TooManyMembers(Kind),
    /// The maximum number of unused tokens is reached.
    #[error("too many tokens are outstanding; look at `meridian set token list` and revoke some")]
    TooManyTokens,
    /// No valid token for this slot exists.
    #[error(
        "no token for replica {0} is outstanding; `meridian set token list` shows those that are"
    )]
    NoSuchToken(u16),
    /// This is not a valid address of a server.
    #[error("the address is none; write HOST:PORT, such as alpha.example:7643")]
    Address,
    /// Another member has this address.
    #[error(
        "replica {1} is reached at {0}, and two members cannot be; give another address, or remove replica {1} first, if it is gone"
    )]
    AddressTaken(String, u16),
    /// This is not a valid name of a member.
    #[error(
        "`{0}` cannot be the name of a member; write up to 32 letters, digits, `-`, `_` and `.`, a letter first, such as alpha"
    )]
    Name(String),
    /// Another member has this name.
    #[error("replica {1} is called `{0}`, or will be when it joins; choose another name")]
    NameTaken(String, u16),
    /// No slots are left; they are never used twice.
    #[error("every slot of the set has been used; create a new set")]
    SlotsExhausted,
    /// There is no such member.
    #[error("there is no replica {0} in this set; `meridian set members` lists them")]
    NoSuchMember(u16),
    /// The keeper of the authority cannot be removed.
    #[error(
        "this replica keeps the set's authority, so it cannot be removed; move the authority to another member first, with `meridian set authority move --to REPLICA`"
    )]
    Keeper,
    /// The text about the tree is too large.
    #[error("the description of the tree is larger than {max} bytes", max = directory::TREE_BYTES_MAX)]
    TreeTooLarge,
    /// A file cannot be read or written.
    #[error("cannot read or write {path}: {error}; {remedy}", path = path.display(), remedy = remedy(error))]
    Io {
        /// Which file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A backup of the authority cannot be written to this path.
    #[error("cannot write the backup to {path}: {error}; {remedy}", path = path.display(), remedy = export_remedy(error))]
    NotExported {
        /// Which file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The named file is not a usable backup of the authority.
    #[error(
        "{path} is no backup of the authority that can be used ({reason}); name a file that `meridian set authority show --export` wrote, or a copy of the `set` directory of the server that kept the authority",
        path = path.display()
    )]
    NoBackup {
        /// Which file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file has invalid content.
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

/// What to do when a file of the set cannot be read or written.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    if plain_file::lacks_descriptors(error) {
        return "raise the limit of open files (`LimitNOFILE` in the unit, `ulimit -n`), and try again";
    }
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "run this as the user of the server (`sudo -u meridian`), who is to own everything in the data directory, or as root"
        }
        ErrorKind::NotFound => {
            "put the whole `set` directory back from a backup, or replace this copy with `meridian set rejoin`"
        }
        ErrorKind::StorageFull => "free space on the disk, and try again",
        _ => {
            "see that the disk is there and can be written (`dmesg` tells of errors), and try again"
        }
    }
}

/// What to do when a new file cannot be created.
fn export_remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "make the directory that it is to be in first"
        }
        ErrorKind::AlreadyExists => "name a file that is not there yet",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "name a file in a directory where the user who runs this may write"
        }
        ErrorKind::StorageFull => "free space there, or name a file on another disk",
        _ => "name another file",
    }
}
