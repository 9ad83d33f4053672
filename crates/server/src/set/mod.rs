//! The set of a server in its data directory, and the operations of people on it: begin a set, invite, join, list, move
//! and remove members.
//!
//! The set's files are in `set/` of the data directory. The `peer` crate maintains them, and passes on the text about
//! the tree without understanding it. This module gives the text its meaning.
//!
//! What must never enter: connections to the members of the set.

mod authority;
mod membership;
mod privacy;
mod reach;
mod recovering;
mod rejoining;
mod tree_words;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use peer::set::{Kind, Member, Outstanding, SetError};
use peer::set::{Places, SetDirectory, Token};
use store::{Store, StoreError, StoreOptions, TreeIdentity};
use vfs::ReplicaSlot;

use crate::configuration::{ClientAddress, NFS_PORT, PeerAddress};
use crate::data_directory::{
    DataDirectory, DataDirectoryError, expect_directory, is_filled, member_of,
    refuse_another_users, set_path,
};

pub use authority::{
    AuthorityView, authority, check_authority, check_restoration, export_authority,
    restore_authority,
};
pub(crate) use membership::Membership;
pub use membership::MembershipError;
pub(crate) use privacy::warn_of_exposures;
pub use privacy::{Exposure, exposures};
pub(crate) use reach::is_local;
pub use reach::{foreignness, resolve, silence_at};
pub use recovering::{LastChance, go_on_with, last_chance};
pub use rejoining::{Rejoined, rejoin};

/// [`crate::decode_as_anything`] for the text about the tree that a replica gets.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = tree_words::decode(bytes);
}

/// Why an operation on a set failed. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum SetCommandError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The set's files, the token, or the set itself refuse the operation.
    #[error(transparent)]
    Set(SetError),
    /// There is no set in the directory.
    #[error(
        "the server of {0} belongs to no set; begin one with `meridian set create`, or enter one with `meridian set join`"
    )]
    NoSet(PathBuf),
    /// The set's files cannot be used here.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The joining server already has files, which do not belong to the set.
    #[error(
        "{0} holds a tree already, and a server that joins gets that of the set; choose another directory with --data, or move this tree away first"
    )]
    TreePresent(PathBuf),
    /// The existing tree was made by a replica of another set.
    #[error(
        "the tree in {path} was made by replica {slot} of a set, so it cannot be the first copy of a new one; move it away, mount the old set and copy the files, or choose another directory with --data"
    )]
    OtherSlot {
        /// The path of the tree.
        path: PathBuf,
        /// The replica that made it.
        slot: u16,
    },
    /// The existing tree is a copy of another set's tree.
    #[error(
        "the tree in {0} is the copy of a member of a set, whose files are missing; put back the whole data directory from one backup, or move the tree away"
    )]
    MembersCopy(PathBuf),
    /// The server belongs to a pool.
    #[error(
        "{0} belongs to a pool (`meridian pool members` shows which), and a server enters a set before it makes a pool for its copy; choose another directory with --data"
    )]
    InPool(PathBuf),
    /// A copy with contents in a pool cannot be replaced.
    #[error(
        "the contents of the copy in {0} lie in a pool, whose data servers go by that copy; remove this member, and let a server with another data directory join, which makes a pool of its own"
    )]
    CopyInPool(PathBuf),
    /// There is no copy to replace.
    #[error("{0} holds no copy of a set's tree; let its server join with `meridian set join`")]
    NothingToReplace(PathBuf),
    /// The existing tree cannot be opened.
    #[error("cannot open the tree \"{tree}\": {source}")]
    Tree {
        /// Its name.
        tree: String,
        /// The error.
        source: StoreError,
    },
    /// The agreed state of the set cannot be used.
    #[error(transparent)]
    Recover(#[from] replica::recovering_set::RecoverError),
    /// The server itself is not among the survivors.
    #[error(
        "this server is replica {own} and not among the survivors; run the command on one of them, or name {own} too"
    )]
    NotASurvivor {
        /// Its slot.
        own: u16,
    },
    /// The server has no contents to continue with.
    #[error(
        "this server is replica {own}, a witness, which keeps no contents; run the command on a survivor that keeps the tree"
    )]
    Witness {
        /// Its slot.
        own: u16,
    },
    /// The authority cannot be restored here now.
    #[error("the authority is not restored here: {0}")]
    NotRestored(String),
    /// A name or address cannot be resolved.
    #[error(
        "{address} cannot be looked up ({reason}); check the name, or give an address such as 192.0.2.1:7643"
    )]
    Unresolved {
        /// What was looked up.
        address: String,
        /// The error.
        reason: String,
    },
    /// No replica would be given up.
    #[error(
        "these are all replicas of the set, so nobody is given up; name with --survivors only those that are left"
    )]
    NobodyGivenUp,
    /// The tree's directory cannot be read.
    #[error("cannot read {path}: {source}; check the disk and who may read it")]
    Io {
        /// Which directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// If the data directory of a set does not exist, reports the error for the directory.
impl From<SetError> for SetCommandError {
    fn from(error: SetError) -> SetCommandError {
        match (absence(&error), error) {
            (Some(absent), _) => SetCommandError::DataDirectory(absent),
            (None, SetError::NoSet(files)) => {
                let data = files.parent().unwrap_or(&files);
                SetCommandError::NoSet(data.to_owned())
            }
            (None, error) => SetCommandError::Set(error),
        }
    }
}

/// The error for a missing data directory, if that caused an error of its set or its pool.
pub(crate) fn absence(error: &SetError) -> Option<DataDirectoryError> {
    let data = match error {
        SetError::NoSet(files) => files.parent()?,
        SetError::Io { path, error } if error.kind() == io::ErrorKind::NotADirectory => {
            path.parent()?.parent()?
        }
        _ => return None,
    };
    expect_directory(data).err()
}

/// A server that became a replica, or a witness.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The set.
    pub set: String,
    /// The server's slot.
    pub slot: u16,
    /// All members, this one included.
    pub members: Vec<Member>,
    /// The keeper of the authority, which invites and removes.
    pub keeper: u16,
    /// The set's remark about the address under which the server joined, if there is a problem.
    pub remark: Option<String>,
}

impl Joined {
    /// Whether the server only votes.
    #[must_use]
    pub fn is_witness(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.slot == self.slot && member.witness)
    }
}

/// The addresses of a server that becomes a member.
#[derive(Clone, Copy, Debug)]
pub struct Reached<'a> {
    /// For the other replicas.
    pub peers: &'a PeerAddress,
    /// For clients; by default the same host, at the port of NFS.
    pub clients: Option<&'a ClientAddress>,
}

impl Reached<'_> {
    /// The same in the form for the set, after all addresses were resolved.
    fn places(self) -> Result<Places, SetCommandError> {
        resolve(self.peers.as_str())?;
        if let Some(clients) = self.clients {
            resolve(clients.as_str())?;
        }
        let clients = self.clients.map(|clients| clients.as_str().to_owned());
        Ok(Places {
            addresses: vec![self.peers.as_str().to_owned()],
            client_addresses: clients.into_iter().collect(),
        })
    }
}

/// The set of this data directory, before a change.
fn to_change(data: &Path) -> Result<SetDirectory, SetCommandError> {
    refuse_another_users(data)?;
    Ok(SetDirectory::new(set_path(data)))
}

/// Makes the server of this data directory the first replica of a new set, which keeps its tree of this name. An existing tree becomes the set's. May be
/// repeated after an interruption. No server may run on the directory meanwhile.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn create(
    data: &Path,
    tree: &str,
    reached: Reached<'_>,
    name: Option<&str>,
) -> Result<Joined, SetCommandError> {
    if let Some(name) = name.filter(|name| !peer::set::is_name(name)) {
        return Err(SetError::Name(name.to_owned()).into());
    }
    let places = reached.places()?;
    let directory = match begun(data, tree, &places)? {
        Some(directory) => directory,
        None => begin(data, tree, &places)?,
    };
    directory.set_client_addresses(Membership::FIRST_SLOT, places.client_addresses)?;
    if let Some(name) = name {
        directory.set_name(Membership::FIRST_SLOT, name)?;
    }
    Ok(Joined {
        set: directory.identity()?.set().to_string(),
        slot: Membership::FIRST_SLOT.0,
        members: directory.members()?,
        keeper: Membership::FIRST_SLOT.0,
        remark: None,
    })
}

/// The set that an interrupted command with the same arguments began here, before any server ran in it.
fn begun(
    data: &Path,
    tree: &str,
    places: &Places,
) -> Result<Option<SetDirectory>, SetCommandError> {
    let directory = SetDirectory::new(set_path(data));
    if !directory.exists()? || member_of(data)?.is_some() {
        return Ok(None);
    }
    let data = DataDirectory::existing(data)?;
    let words = match has_tree(&data, tree)? {
        true => tree_words::encode(&existing_tree(&data, tree)?),
        false => directory.tree()?,
    };
    let is_it = directory.has_begun(&words, &places.addresses)?;
    Ok(is_it.then_some(directory))
}

/// Begins a set.
fn begin(data: &Path, tree: &str, places: &Places) -> Result<SetDirectory, SetCommandError> {
    let directory = without_set(data)?;
    let data = DataDirectory::open_or_create(data)?;
    let identity = match has_tree(&data, tree)? {
        true => existing_tree(&data, tree)?,
        false => tree_words::random().map_err(DataDirectoryError::Random)?,
    };
    data.forget_member()?;
    let words = tree_words::encode(&identity);
    directory.create_for(&words, places.addresses.clone(), SystemTime::now())?;
    Ok(directory)
}

/// The future set of a data directory that has none. This error comes before the one that a server runs there.
fn without_set(data: &Path) -> Result<SetDirectory, SetCommandError> {
    let directory = SetDirectory::new(set_path(data));
    match directory.exists()? {
        true => Err(SetError::Exists(directory.path().to_owned()).into()),
        false if crate::pools::belongs_to_one(data)? => {
            Err(SetCommandError::InPool(data.to_owned()))
        }
        false => Ok(directory),
    }
}

/// The identity of an existing tree that a server without a set made.
fn existing_tree(data: &DataDirectory, tree: &str) -> Result<TreeIdentity, SetCommandError> {
    let path = data.tree(tree);
    let opened = Store::open(&StoreOptions::new(&path));
    let store = opened.map_err(|source| SetCommandError::Tree {
        tree: tree.to_owned(),
        source,
    })?;
    if store.slot() != Membership::FIRST_SLOT {
        let slot = store.slot().0;
        return Err(SetCommandError::OtherSlot { path, slot });
    }
    match replica::is_members_copy(&store) {
        Ok(false) => {}
        Ok(true) => return Err(SetCommandError::MembersCopy(path)),
        Err(error) => return Err(replica::recovering_set::RecoverError::from(error).into()),
    }
    Ok(store.tree())
}

/// Whether the path of the tree with this name exists.
fn has_tree(data: &DataDirectory, tree: &str) -> Result<bool, SetCommandError> {
    Ok(is_filled(&data.tree(tree))?)
}

/// The role of an invited server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A replica, which keeps the tree.
    Replica,
    /// A witness, which votes and keeps no contents.
    Witness,
}

/// Makes the token with which one more server joins, once and within `lifetime`. The server gets `name`, if that is not
/// empty. The inviting server may run meanwhile.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn invite(
    data: &Path,
    role: Role,
    name: &str,
    lifetime: Duration,
) -> Result<String, SetCommandError> {
    let (directory, now) = (to_change(data)?, SystemTime::now());
    let role = match role {
        Role::Replica => peer::set::Role::Ordinary,
        Role::Witness => peer::set::Role::Witness,
    };
    let token = directory.invite_as(role, name, lifetime, now)?;
    Ok(token.encode())
}

/// Changes the name of a member; an empty name removes it.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn set_name(data: &Path, slot: u16, name: &str) -> Result<(), SetCommandError> {
    Ok(to_change(data)?.set_name(ReplicaSlot(slot), name)?)
}

/// Why a new token cannot be used at present: no server answers at the addresses in it.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn silence_of_inviter(data: &Path) -> Result<Option<String>, SetCommandError> {
    let membership = Membership::read(SetDirectory::new(set_path(data)))?;
    let addresses = membership.own_addresses();
    if addresses.is_empty() {
        return Ok(Some(
            "this server has no address; give it one with `meridian set address`".to_owned(),
        ));
    }
    let silences = addresses.iter().map(|address| silence_at(address));
    Ok(silences
        .collect::<Option<Vec<_>>>()
        .map(|silences| silences.join("; ")))
}

/// The unused and valid tokens, by slot. Only their holders know their secrets.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn tokens(data: &Path) -> Result<Vec<Outstanding>, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).tokens(SystemTime::now())?)
}

/// Makes the token for a slot invalid.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn revoke_token(data: &Path, slot: u16) -> Result<(), SetCommandError> {
    let directory = to_change(data)?;
    Ok(directory.revoke_token(ReplicaSlot(slot), SystemTime::now())?)
}

/// Changes where clients reach a member. Without an address it is derived from the address for the other replicas.
/// Returns a warning about the address, if there is one.
///
/// # Errors
/// [`SetCommandError::Unresolved`] when it cannot be resolved, and others; each with what to do next.
pub fn set_client_address(
    data: &Path,
    slot: u16,
    address: Option<&ClientAddress>,
) -> Result<Option<String>, SetCommandError> {
    let directory = to_change(data)?;
    if let Some(address) = address {
        resolve(address.as_str())?;
    }
    let addresses = address.map(|address| address.as_str().to_owned());
    directory.set_client_addresses(ReplicaSlot(slot), addresses.into_iter().collect())?;
    Ok(address.and_then(|address| silence_at(address.as_str())))
}

/// Where clients reach a member, `host:port`: as configured, or the hosts for the other replicas at the port of NFS.
#[must_use]
pub fn client_addresses(member: &Member) -> Vec<String> {
    if !member.client_addresses.is_empty() {
        return member.client_addresses.clone();
    }
    let hosts = member.addresses.iter();
    let hosts = hosts.filter_map(|address| Some(address.rsplit_once(':')?.0));
    hosts.map(|host| format!("{host}:{NFS_PORT}")).collect()
}

/// Changes where the other replicas reach a member. They use it when their current connections end. Returns a warning
/// about the address, if there is one.
///
/// # Errors
/// [`SetCommandError::Unresolved`] when it cannot be resolved, and others; each with what to do next.
pub fn set_address(
    data: &Path,
    slot: u16,
    address: &PeerAddress,
) -> Result<Option<String>, SetCommandError> {
    let directory = to_change(data)?;
    let places = resolve(address.as_str())?;
    let members = directory.members()?;
    let others = members
        .iter()
        .filter(|member| member.slot != slot && !member.revoked);
    for other in others {
        // An address that cannot be resolved here is another one.
        let mut theirs = other.addresses.iter().filter_map(|one| resolve(one).ok());
        if theirs.any(|theirs| theirs.iter().any(|place| places.contains(place))) {
            let address = address.as_str().to_owned();
            return Err(SetError::AddressTaken(address, other.slot).into());
        }
    }
    let addresses = vec![address.as_str().to_owned()];
    directory.set_addresses(ReplicaSlot(slot), addresses)?;
    Ok(silence_at(address.as_str()))
}

/// Makes the server of this data directory a replica of the set that invited it. May be repeated after an interruption.
/// No server may run on the directory meanwhile; the inviting server must run.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub async fn join(
    token: &str,
    data: &Path,
    tree: &str,
    reached: Reached<'_>,
) -> Result<Joined, SetCommandError> {
    let now = SystemTime::now();
    let token = Token::parse(Kind::Set, token).map_err(SetError::from)?;
    let places = reached.places()?;
    if SetDirectory::new(set_path(data)).has_joined(&token, &places)? {
        let _alone = DataDirectory::existing(data)?;
        return members(data);
    }
    token.check_expiry(now).map_err(SetError::from)?;
    let directory = without_set(data)?;
    let data = DataDirectory::open_or_create(data)?;
    if has_tree(&data, tree)? {
        return Err(SetCommandError::TreePresent(data.tree(tree)));
    }
    data.forget_member()?;
    let entry = peer::set::join(&token, &directory, places, now).await?;
    Membership::read(directory)?;
    Ok(Joined {
        set: token.set.to_string(),
        slot: token.slot.0,
        members: entry.list.members,
        keeper: entry.list.keeper,
        remark: entry.remark,
    })
}

/// Why a set of these members cannot continue when it loses one of them; `None` if it can, or has one member.
#[must_use]
pub fn warning(members: &[Member]) -> Option<&'static str> {
    let members = members.iter().filter(|member| !member.revoked);
    (members.count() == 2).then_some(TWO_VOTERS)
}

/// A remark about a set with an even number of members that can lose one; `None` for other sets.
#[must_use]
pub fn hint(members: &[Member]) -> Option<String> {
    let count = members.iter().filter(|member| !member.revoked).count();
    let spared = count.saturating_sub(1) / 2;
    (count > 2 && count.is_multiple_of(2)).then(|| {
        format!(
            "{count} servers can lose {spared} at a time, no more than {} can: one more, which may be a witness (`meridian set invite --witness`), makes it {}",
            count - 1,
            spared + 1,
        )
    })
}

/// The error when a set of two is asked for `majority`.
pub(crate) const MAJORITY_OF_TWO: &str = "with two servers a majority is both of them: every change waits for the other one, and when one is lost the other stops; add a third replica or a witness with `meridian set invite`";

/// The warning for every set of two.
pub(crate) const TWO_VOTERS: &str = "two servers cannot outvote each other: when one of them is lost or cut off, the other stops answering until it is back; add a third replica or a witness (`meridian set invite`, with --witness for one that keeps no contents)";

/// The members of the set as this data directory knows them, with the slot of its own server.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn members(data: &Path) -> Result<Joined, SetCommandError> {
    let directory = SetDirectory::new(set_path(data));
    let list = directory.member_list()?;
    let identity = directory.identity()?;
    Ok(Joined {
        set: identity.set().to_string(),
        slot: identity.slot().0,
        members: list.members,
        keeper: list.keeper,
        remark: None,
    })
}

/// Whether the server of this data directory belongs to a set.
///
/// # Errors
/// When this cannot be determined.
pub fn belongs_to_one(data: &Path) -> Result<bool, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).exists()?)
}

/// The ports at which the other members call the server of this data directory.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub(crate) fn own_ports(data: &Path) -> Result<Vec<u16>, SetCommandError> {
    let membership = Membership::read(SetDirectory::new(set_path(data)))?;
    let addresses = membership.own_addresses();
    let port = |address: &String| address.rsplit_once(':')?.1.parse().ok();
    Ok(addresses.iter().filter_map(port).collect())
}

/// When the certificate of the server of this data directory expires.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn certificate_expires(data: &Path) -> Result<SystemTime, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).certificate_expires()?)
}

/// Checks that this server keeps the authority, so that members can be invited and removed.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn check_keeper(data: &Path) -> Result<(), SetCommandError> {
    tokens(data).map(drop)
}

/// Removes a member: it is refused from now on, whatever certificate it shows. Its slot is never used again.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn revoke(data: &Path, slot: u16) -> Result<(), SetCommandError> {
    Ok(to_change(data)?.revoke(ReplicaSlot(slot))?)
}
