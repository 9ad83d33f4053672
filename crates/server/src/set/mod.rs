//! What a data directory says of the set its server belongs to, and what people do with that: begin a set,
//! invite, join, list, move and remove members.
//!
//! The set's files lie in `set/` of the data directory; the `peer` crate keeps them and hands the words about
//! the tree on without understanding them. Here they get their meaning.
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

/// What [`crate::decode_as_anything`] says, of what a replica is told of the tree.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = tree_words::decode(bytes);
}

/// Why something with a set was not done. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum SetCommandError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The set's files, the token, or the set itself refuse.
    #[error(transparent)]
    Set(SetError),
    /// There is no set in the directory.
    #[error(
        "the server of {0} belongs to no set; begin one with `meridian set create`, or enter one with `meridian set join`"
    )]
    NoSet(PathBuf),
    /// What the set says cannot be used here.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The joining server has files already, which would not be those of the set.
    #[error(
        "{0} holds a tree already, and a server that joins gets that of the set; choose another directory with --data, or move this tree away first"
    )]
    TreePresent(PathBuf),
    /// The tree that is there was made by a replica of another set.
    #[error(
        "the tree in {path} was made by replica {slot} of a set, so it cannot be the first copy of a new one; move it away, mount the old set and copy the files, or choose another directory with --data"
    )]
    OtherSlot {
        /// Where the tree is.
        path: PathBuf,
        /// Which replica made it.
        slot: u16,
    },
    /// The tree that is there was a copy of another set's.
    #[error(
        "the tree in {0} is the copy of a member of a set, whose files are missing; put back the whole data directory from one backup, or move the tree away"
    )]
    MembersCopy(PathBuf),
    /// The server belongs to a pool.
    #[error(
        "{0} belongs to a pool (`meridian pool members` shows which), and a server enters a set before it makes a pool for its copy; choose another directory with --data"
    )]
    InPool(PathBuf),
    /// A copy whose contents lie in a pool is not begun anew.
    #[error(
        "the contents of the copy in {0} lie in a pool, whose data servers go by that copy; remove this member, and let a server with another data directory join, which makes a pool of its own"
    )]
    CopyInPool(PathBuf),
    /// There is no copy that could be replaced.
    #[error("{0} holds no copy of a set's tree; let its server join with `meridian set join`")]
    NothingToReplace(PathBuf),
    /// The tree that is there cannot be opened.
    #[error("cannot open the tree \"{tree}\": {source}")]
    Tree {
        /// Its name.
        tree: String,
        /// Why not.
        source: StoreError,
    },
    /// What the set agreed on cannot be used.
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
    /// The server has no contents to go on with.
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
    /// A name or address leads nowhere.
    #[error(
        "{address} cannot be looked up ({reason}); check the name, or give an address such as 192.0.2.1:7643"
    )]
    Unresolved {
        /// What was looked up.
        address: String,
        /// Why not.
        reason: String,
    },
    /// Nobody is given up.
    #[error(
        "these are all replicas of the set, so nobody is given up; name with --survivors only those that are left"
    )]
    NobodyGivenUp,
    /// The tree's directory cannot be looked at.
    #[error("cannot read {path}: {source}; check the disk and who may read it")]
    Io {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What is said of a set whose data directory is not there is said of the directory.
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

/// That the data directory is not there, where an error of its set, or of its pool, comes from that.
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
    /// The server's place in it.
    pub slot: u16,
    /// All members, this one included.
    pub members: Vec<Member>,
    /// Which of them keeps the authority, and so invites and removes.
    pub keeper: u16,
    /// What the set says of the address under which the server joined, if it is not as it should be.
    pub remark: Option<String>,
}

impl Joined {
    /// Whether the server votes only.
    #[must_use]
    pub fn is_witness(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.slot == self.slot && member.witness)
    }
}

/// Where a server is reached that becomes a member.
#[derive(Clone, Copy, Debug)]
pub struct Reached<'a> {
    /// By the other replicas.
    pub peers: &'a PeerAddress,
    /// By clients; at the same host and the port of NFS where nobody says otherwise.
    pub clients: Option<&'a ClientAddress>,
}

impl Reached<'_> {
    /// The same for the set, once all of it leads somewhere.
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

/// The set of this data directory, for somebody who is going to change it.
fn to_change(data: &Path) -> Result<SetDirectory, SetCommandError> {
    refuse_another_users(data)?;
    Ok(SetDirectory::new(set_path(data)))
}

/// Makes the server of this data directory the first replica of a new set, which keeps its tree of this name.
/// A tree that is there already becomes the set's. May be repeated when it was interrupted. No server may run on the directory meanwhile.
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

/// The set that was begun here in the same way by a command that was interrupted, before any server ran in it.
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

/// Where the set will be, of a data directory that has none. Told before it is said that a server runs there.
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

/// The identity of a tree that is there and was made by a server on its own.
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

/// Whether there is anything where the tree of this name would be.
fn has_tree(data: &DataDirectory, tree: &str) -> Result<bool, SetCommandError> {
    Ok(is_filled(&data.tree(tree))?)
}

/// What a server is invited as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A replica, which keeps the tree.
    Replica,
    /// A witness, which votes and keeps no contents.
    Witness,
}

/// Makes the token by which one more server joins, once and within `lifetime`, and is called `name` then, if that is not empty. The
/// server may run meanwhile.
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

/// Changes what people call a member; an empty name takes it away.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn set_name(data: &Path, slot: u16, name: &str) -> Result<(), SetCommandError> {
    Ok(to_change(data)?.set_name(ReplicaSlot(slot), name)?)
}

/// Why the token that was just made cannot be used at present: nobody answers where it tells a server to call.
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

/// The tokens that were made, not used, and still work, by slot. Their secrets are known to their holders alone.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn tokens(data: &Path) -> Result<Vec<Outstanding>, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).tokens(SystemTime::now())?)
}

/// Has the token for a slot admit nobody any more.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn revoke_token(data: &Path, slot: u16) -> Result<(), SetCommandError> {
    let directory = to_change(data)?;
    Ok(directory.revoke_token(ReplicaSlot(slot), SystemTime::now())?)
}

/// Changes where clients reach a member; without an address that is derived from where the other replicas do. Says what
/// speaks against the address, if anything does.
///
/// # Errors
/// [`SetCommandError::Unresolved`] when it leads nowhere, and others; each with what to do next.
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

/// Where clients reach a member, `host:port`: as somebody has said, or else where the other replicas do, at the port of NFS.
#[must_use]
pub fn client_addresses(member: &Member) -> Vec<String> {
    if !member.client_addresses.is_empty() {
        return member.client_addresses.clone();
    }
    let hosts = member.addresses.iter();
    let hosts = hosts.filter_map(|address| Some(address.rsplit_once(':')?.0));
    hosts.map(|host| format!("{host}:{NFS_PORT}")).collect()
}

/// Changes where the other replicas reach a member. They call there when their present connections end. Says what
/// speaks against the address, if anything does.
///
/// # Errors
/// [`SetCommandError::Unresolved`] when it leads nowhere, and others; each with what to do next.
pub fn set_address(
    data: &Path,
    slot: u16,
    address: &PeerAddress,
) -> Result<Option<String>, SetCommandError> {
    let directory = to_change(data)?;
    resolve(address.as_str())?;
    let addresses = vec![address.as_str().to_owned()];
    directory.set_addresses(ReplicaSlot(slot), addresses)?;
    Ok(silence_at(address.as_str()))
}

/// Makes the server of this data directory a replica of the set that invited it. May be repeated when it was interrupted.
/// No server may run on the directory meanwhile; one must run where the invitation came from.
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

/// Why a set of these members cannot go on when one of them is lost; nothing when it can, or has one member.
#[must_use]
pub fn warning(members: &[Member]) -> Option<&'static str> {
    let members = members.iter().filter(|member| !member.revoked);
    (members.count() == 2).then_some(TWO_VOTERS)
}

/// What to know of a set with an even number of members that can lose one; nothing for others.
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

/// What is said to those who ask a set of two for `majority`.
pub(crate) const MAJORITY_OF_TWO: &str = "with two servers a majority is both of them: every change waits for the other one, and when one is lost the other stops; add a third replica or a witness with `meridian set invite`";

/// What is said of every set of two.
pub(crate) const TWO_VOTERS: &str = "two servers cannot outvote each other: when one of them is lost or cut off, the other stops answering until it is back; add a third replica or a witness (`meridian set invite`, with --witness for one that keeps no contents)";

/// The members of the set as this data directory knows them, with the place of its own server.
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
/// When that cannot be looked at.
pub fn belongs_to_one(data: &Path) -> Result<bool, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).exists()?)
}

/// The ports at which the others call the server of this data directory.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub(crate) fn own_ports(data: &Path) -> Result<Vec<u16>, SetCommandError> {
    let membership = Membership::read(SetDirectory::new(set_path(data)))?;
    let addresses = membership.own_addresses();
    let port = |address: &String| address.rsplit_once(':')?.1.parse().ok();
    Ok(addresses.iter().filter_map(port).collect())
}

/// When the certificate expires with which the server of this data directory proves itself to the others.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn certificate_expires(data: &Path) -> Result<SystemTime, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).certificate_expires()?)
}

/// Looks whether the authority is kept here, so that members can be invited and removed.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn check_keeper(data: &Path) -> Result<(), SetCommandError> {
    tokens(data).map(drop)
}

/// Removes a member: whatever certificate it shows is refused from now on. Its slot is never used again.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn revoke(data: &Path, slot: u16) -> Result<(), SetCommandError> {
    Ok(to_change(data)?.revoke(ReplicaSlot(slot))?)
}
