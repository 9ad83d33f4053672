//! The pool of a server in its data directory, and the operations of people on it: begin a pool, invite, join, list and
//! remove its servers.
//!
//! The pool's files are in `pool/` of the data directory. The same code as for a set (`peer::set`) maintains them. The server that begins a pool is its first
//! metadata server and keeps the pool's authority. Later ones are data servers or further metadata servers.
//!
//! What must never enter: connections to the servers of the pool.

mod book;
mod place;
mod words;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use peer::set::{Kind, Outstanding, Role, SetDirectory, SetError, Token};
pub use pool::StripeUnit;
use vfs::ReplicaSlot;

use crate::configuration::{ClientAddress, PeerAddress};
use crate::data_directory::{
    DataDirectory, DataDirectoryError, expect_directory, is_filled, pool_path,
    refuse_another_users, shelf_path,
};
use crate::set::{SetCommandError, absence, resolve};

pub(crate) use book::Book;
pub use place::PoolPlaceError;
pub(crate) use place::{PoolPlace, PoolRole};

/// [`crate::decode_as_anything`] for the text for servers of a pool, and for the book of device groups.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = words::decode(bytes);
    let _ = std::str::from_utf8(bytes).map(Book::parse);
}

/// Why an operation on a pool failed. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The pool's files cannot be used here.
    #[error(transparent)]
    Place(#[from] PoolPlaceError),
    /// The directory belongs to a pool already.
    #[error(
        "{0} already belongs to a pool (`meridian pool members` shows which); choose another directory with --data"
    )]
    Exists(PathBuf),
    /// There is no pool in the directory.
    #[error(
        "{0} belongs to no pool; begin one with `meridian pool create`, or enter one with `meridian pool join`"
    )]
    NoPool(PathBuf),
    /// The command works only on the first metadata server.
    #[error(
        "this server has joined the pool; run this on the pool's first metadata server, which the others call at {0}"
    )]
    NotTheMetadataServer(String),
    /// The authority's key is missing.
    #[error(
        "the key of the pool's authority, `pool/authority.key`, is missing; put the `pool` directory back from a backup"
    )]
    KeyLost,
    /// There are too many unused tokens.
    #[error("too many tokens are outstanding; look at `meridian pool token list` and revoke some")]
    TooManyTokens,
    /// There is no valid token for this number.
    #[error(
        "no token for server {0} is outstanding; `meridian pool token list` shows those that are"
    )]
    NoSuchToken(u16),
    /// There is no such server.
    #[error("there is no server {0} in this pool; `meridian pool members` lists them")]
    NoSuchDataServer(u16),
    /// The command works only for data servers.
    #[error("server {0} is a metadata server; `meridian pool members` lists the data servers")]
    NoDataServer(u16),
    /// The first metadata server cannot be removed.
    #[error(
        "server {0} is the pool's first metadata server: it knows the names of all files, and is not removed"
    )]
    MetadataServer(u16),
    /// The server is a member of a set.
    #[error(
        "the server of {0} is a member of a set, which makes a pool of its own for the contents of its copy (`meridian pool create`) and joins none; choose another directory with --data"
    )]
    MemberOfSet(PathBuf),
    /// The pool of a member of a set has one metadata server.
    #[error(
        "the server of {0} is a member of a set, and its pool has data servers only: add a member to the set instead (`meridian set invite`)"
    )]
    OneMetadataServer(PathBuf),
    /// This port is already used for the members of the set.
    #[error(
        "this server listens at port {0} for the members of its set; give data servers another one, such as --address HOST:{1}"
    )]
    PortOfSet(u16, u16),
    /// The joining server already has data.
    #[error(
        "{path} holds {what} already, and a server that joins a pool begins empty; choose an empty or a new directory with --data"
    )]
    NotEmpty {
        /// Its path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another server of the pool has this address.
    #[error(
        "server {1} of the pool is reached at {0}, and two cannot be; give another address, or remove server {1} first, if it is gone"
    )]
    AddressTaken(String, u16),
    /// An address cannot be resolved.
    #[error(transparent)]
    Address(SetCommandError),
    /// The pool's files, the token, or the pool itself refuse the operation.
    #[error(transparent)]
    Other(SetError),
}

/// Translates errors of a set into those of a pool.
fn in_pool(directory: &SetDirectory) -> impl Fn(SetError) -> PoolError {
    let data = directory.path().parent().unwrap_or(directory.path());
    let data = data.to_owned();
    move |error| {
        if let Some(absent) = absence(&error) {
            return PoolError::DataDirectory(absent);
        }
        match error {
            SetError::Exists(_) => PoolError::Exists(data.clone()),
            SetError::NoSet(_) => PoolError::NoPool(data.clone()),
            SetError::NoAuthority { addresses, .. } => PoolError::NotTheMetadataServer(addresses),
            SetError::KeyLost => PoolError::KeyLost,
            SetError::TooManyTokens => PoolError::TooManyTokens,
            SetError::AddressTaken(address, other) => PoolError::AddressTaken(address, other),
            SetError::NoSuchToken(number) => PoolError::NoSuchToken(number),
            SetError::NoSuchMember(slot) => PoolError::NoSuchDataServer(slot),
            error => PoolError::Other(error),
        }
    }
}

/// A server of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolMember {
    /// Its number, which is never used again.
    pub number: u16,
    /// Where the others call the first metadata server, and where clients reach the other servers, `host:port`.
    pub addresses: Vec<String>,
    /// Its name; empty for none.
    pub name: String,
    /// It is a metadata server.
    pub metadata_server: bool,
    /// It was removed, and is refused.
    pub removed: bool,
}

/// A pool, as a data directory knows it.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its identifier, which never changes.
    pub pool: String,
    /// The number of the server with this data directory.
    pub own: u16,
    /// The tree of the metadata server whose new files are striped.
    pub tree: String,
    /// The number of consecutive bytes of a new file on one data server.
    pub stripe_unit: StripeUnit,
    /// All servers, removed ones included, by number. A data server knows those that existed when it joined.
    pub members: Vec<PoolMember>,
    /// The pool's remark about the address under which a server joined, if there is a problem.
    pub remark: Option<String>,
}

fn files(data: &Path) -> SetDirectory {
    SetDirectory::of_pool(pool_path(data))
}

fn without_pool(data: &Path) -> Result<SetDirectory, PoolError> {
    let directory = files(data);
    match directory.exists().map_err(in_pool(&directory))? {
        true => Err(PoolError::Exists(data.to_owned())),
        false => Ok(directory),
    }
}

fn is_in_set(data: &Path) -> Result<bool, PoolError> {
    crate::set::belongs_to_one(data).map_err(PoolError::Address)
}

/// The server of a member of a set listens for two kinds of servers, so the ports must differ.
fn refuse_port_of_set(data: &Path, address: &PeerAddress) -> Result<(), PoolError> {
    if !is_in_set(data)? {
        return Ok(());
    }
    let port = port_of(address.as_str());
    let ports = crate::set::own_ports(data).map_err(PoolError::Address)?;
    match port.filter(|port| ports.contains(port)) {
        Some(port) => Err(PoolError::PortOfSet(port, port.wrapping_add(1))),
        None => Ok(()),
    }
}

fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

/// Whether the server of this data directory belongs to a pool.
///
/// # Errors
/// When this cannot be determined.
pub fn belongs_to_one(data: &Path) -> Result<bool, SetError> {
    files(data).exists()
}

/// Makes the server of this data directory the first metadata server of a new pool, which data servers call at `address`. No server may run on the directory
/// meanwhile. New files of this tree are striped over the data servers; existing files stay where they are.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub fn create(
    data: &Path,
    address: &PeerAddress,
    (tree, stripe_unit): (&str, StripeUnit),
) -> Result<Pool, PoolError> {
    resolve(address.as_str()).map_err(PoolError::Address)?;
    let (addresses, now) = (vec![address.as_str().to_owned()], SystemTime::now());
    let words = words::encode(tree, stripe_unit);
    let begun = files(data).has_begun(&words, &addresses);
    if begun.map_err(in_pool(&files(data)))? {
        // The same command was interrupted before it reported success.
        let _alone = DataDirectory::existing(data)?;
        return members(data);
    }
    let directory = without_pool(data)?;
    refuse_port_of_set(data, address)?;
    refuse_contents(data)?;
    let _claimed = DataDirectory::open_or_create(data)?;
    let created = directory.create_for(&words, addresses, now);
    created.map_err(in_pool(&directory))?;
    members(data)
}

/// The role of an invited server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invited {
    /// It keeps contents of files.
    DataServer,
    /// It serves the name space of the first metadata server to clients.
    MetadataServer,
}

/// Makes the token with which one server joins, once and within `lifetime`. The server gets `name`, if that is not
/// empty. The inviting server may run meanwhile.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub fn invite(
    data: &Path,
    role: Invited,
    name: &str,
    lifetime: Duration,
) -> Result<String, PoolError> {
    refuse_another_users(data)?;
    if role == Invited::MetadataServer && is_in_set(data)? {
        return Err(PoolError::OneMetadataServer(data.to_owned()));
    }
    let (directory, now) = (files(data), SystemTime::now());
    let role = match role {
        Invited::DataServer => Role::Ordinary,
        Invited::MetadataServer => Role::MetadataServer,
    };
    let token = directory.invite_as(role, name, lifetime, now);
    Ok(token.map_err(in_pool(&directory))?.encode())
}

/// The unused and valid tokens, by number. Only their holders know their secrets.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub fn tokens(data: &Path) -> Result<Vec<Outstanding>, PoolError> {
    let directory = files(data);
    let tokens = directory.tokens(SystemTime::now());
    tokens.map_err(in_pool(&directory))
}

/// Makes the token for the server with this number invalid.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub fn revoke_token(data: &Path, number: u16) -> Result<(), PoolError> {
    refuse_another_users(data)?;
    let directory = files(data);
    let revoked = directory.revoke_token(ReplicaSlot(number), SystemTime::now());
    revoked.map_err(in_pool(&directory))
}

/// Makes the server of an empty data directory a member of the pool that invited it. Clients reach it at `address`. No
/// server may run on the directory meanwhile; the first metadata server must run.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub async fn join(token: &str, data: &Path, address: &ClientAddress) -> Result<Pool, PoolError> {
    let now = SystemTime::now();
    let wrong = |error| PoolError::Other(SetError::Token(error));
    let token = Token::parse(Kind::Pool, token).map_err(wrong)?;
    resolve(address.as_str()).map_err(PoolError::Address)?;
    let addresses = vec![address.as_str().to_owned()];
    let joined = files(data).has_joined(&token, &addresses.clone().into());
    if joined.map_err(in_pool(&files(data)))? {
        // The same command was interrupted before it reported success.
        let _alone = DataDirectory::existing(data)?;
        return members(data);
    }
    token.check_expiry(now).map_err(wrong)?;
    let directory = without_pool(data)?;
    if is_in_set(data)? {
        return Err(PoolError::MemberOfSet(data.to_owned()));
    }
    refuse_contents(data)?;
    refuse_trees(data)?;
    let claimed = DataDirectory::open_or_create(data)?;
    claimed.forget_member()?;
    let entry = peer::set::join(&token, &directory, addresses, now).await;
    let entry = entry.map_err(in_pool(&directory))?;
    Ok(Pool {
        remark: entry.remark,
        ..members(data)?
    })
}

/// Refuses a directory with contents of a data server.
fn refuse_contents(data: &Path) -> Result<(), PoolError> {
    match is_filled(&shelf_path(data))? {
        true => Err(PoolError::NotEmpty {
            path: data.to_owned(),
            what: "the contents of a data server whose pool's files are missing",
        }),
        false => Ok(()),
    }
}

fn refuse_trees(data: &Path) -> Result<(), PoolError> {
    match is_filled(&crate::data_directory::trees_path(data))? {
        true => Err(PoolError::NotEmpty {
            path: data.to_owned(),
            what: "trees of a server",
        }),
        false => Ok(()),
    }
}

/// The pool, as this data directory knows it.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub fn members(data: &Path) -> Result<Pool, PoolError> {
    let directory = files(data);
    if !directory.exists().map_err(in_pool(&directory))? {
        expect_directory(data)?;
        return Err(PoolError::NoPool(data.to_owned()));
    }
    let place = PoolPlace::read(directory)?;
    let list = place.directory.member_list();
    let list = list.map_err(in_pool(&place.directory))?;
    let members = list.members.into_iter().map(|member| PoolMember {
        metadata_server: PoolRole::of(&member, place.keeper) != PoolRole::DataServer,
        number: member.slot,
        addresses: member.addresses,
        name: member.name,
        removed: member.revoked,
    });
    Ok(Pool {
        pool: place.pool.to_string(),
        own: place.slot.0,
        tree: place.tree,
        stripe_unit: place.stripe_unit,
        members: members.collect(),
        remark: None,
    })
}

/// Changes where the others call the first metadata server, or where clients reach another server. Returns whether this is a change.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub fn set_address(data: &Path, number: u16, address: &PeerAddress) -> Result<bool, PoolError> {
    refuse_another_users(data)?;
    let directory = files(data);
    resolve(address.as_str()).map_err(PoolError::Address)?;
    let addresses = vec![address.as_str().to_owned()];
    let changed = directory.set_addresses(ReplicaSlot(number), addresses);
    changed.map_err(in_pool(&directory))
}

/// Refuses a server from now on, whatever certificate it shows. The caller knows whether it still has files.
///
/// # Errors
/// [`PoolError`], each with what to do next.
pub(crate) fn revoke(directory: &SetDirectory, slot: ReplicaSlot) -> Result<(), PoolError> {
    let revoked = directory.revoke(slot);
    revoked.map_err(|error| match error {
        SetError::Keeper => PoolError::MetadataServer(slot.0),
        error => in_pool(directory)(error),
    })
}
