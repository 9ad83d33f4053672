//! The authority changes its keeper: it is moved to another member, or restored from a backup when the keeper is lost.
//!
//! The signed list, with its term, names the keeper of the authority. A key beside a list that names another keeper
//! signs nothing. A move has these steps. After a crash at any step at least one member has the key, and exactly one
//! signs:
//!
//! 1. the keeper sends the key over its connection to the next keeper, which stores it as an offer;
//! 2. after the confirmation, the keeper signs its last list: the list of the next term, which names the next keeper;
//! 3. the next keeper learns of that list, makes the offer its key, and signs a list that says so;
//! 4. the previous keeper learns of that list, and removes its key.
//!
//! An offer is valid with one version of the list. If the list changes before the move is completed, the move is over.
//! The receiver removes the offer when it learns of the changed list, even if that list removes the receiver itself.
//!
//! What must never enter: how the key is sent, and the key in a log or in a message to a person.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use super::SetError;
use super::authority::{is_key_of, valid_until_unix_s};
use super::directory::{AUTHORITY_KEY, SetDirectory, SetFile, check_signature};
use super::files::{self, damaged};
use super::list::MemberList;
use super::token::unix_seconds;
use crate::tls::fingerprint;

/// A key that this replica may use later.
const OFFER: &str = "authority.offer";

/// The number of slots that are skipped when the authority is restored. The lost keeper may have given some of them to
/// servers that no other member knows.
const SLOTS_LEFT_OUT: u16 = 256;

/// The maximum size of a backup.
const BACKUP_BYTES_MAX: u64 = 4 << 20;

/// The key of the authority on its way to its next keeper. It is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The term in which the receiver is the keeper.
    pub term: u64,
    /// The version of the list of members at that time. With another version the key is useless.
    version: u64,
    key: String,
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the authority for term {}", self.term)
    }
}

/// The public facts about the authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuthorityView {
    /// The keeper.
    pub keeper: u16,
    /// The addresses of the keeper, as the list of members says.
    pub addresses: String,
    /// This replica keeps it, with its key.
    pub is_here: bool,
    /// BLAKE3 of its certificate.
    pub fingerprint: String,
    /// When its certificate expires, in seconds since 1970.
    pub expires_unix_s: u64,
    /// How often it was moved or restored, from 1.
    pub term: u64,
    /// The version of the list of members that it signed last, as known here.
    pub version: u64,
}

/// Restores the authority when its keeper is lost: a file that [`SetDirectory::export_authority`] wrote, or a copy of
/// the keeper's `set` directory.
#[derive(Clone, Serialize, Deserialize)]
pub struct AuthorityBackup {
    key: String,
    /// The list at the time of the backup.
    list: MemberList,
}

impl fmt::Debug for AuthorityBackup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a backup of the authority in term {}", self.list.term)
    }
}

impl AuthorityBackup {
    /// Reads a backup: a file, or a directory that is a copy of the `set` directory of a previous keeper.
    ///
    /// # Errors
    /// [`SetError::NoBackup`] when the path is not a backup, or cannot be read.
    pub fn read(path: &Path) -> Result<AuthorityBackup, SetError> {
        let read = match path.is_dir() {
            true => read_copy(path),
            false => read_backup(path),
        };
        read.map_err(|reason| SetError::NoBackup {
            path: path.to_owned(),
            reason,
        })
    }
}

/// Reads a copy of a `set` directory, or says why it is not a backup.
fn read_copy(path: &Path) -> Result<AuthorityBackup, String> {
    let list = SetDirectory::new(path).member_list().map_err(bare)?;
    let key = files::read(&path.join(AUTHORITY_KEY)).map_err(bare)?;
    Ok(AuthorityBackup { key, list })
}

/// The same for a file.
fn read_backup(path: &Path) -> Result<AuthorityBackup, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.len() > BACKUP_BYTES_MAX {
        return Err(format!("it has more than {BACKUP_BYTES_MAX} bytes"));
    }
    // The error may quote the key.
    serde_json::from_str(&files::read(path).map_err(bare)?)
        .map_err(|_| "it is no backup of the authority".to_owned())
}

/// The problem, without the advice for the set's own files.
fn bare(error: SetError) -> String {
    match error {
        SetError::Io { path, error } => format!("{}: {error}", path.display()),
        SetError::Damaged { path, reason } => format!("{}: {reason}", path.display()),
        SetError::NoSet(_) => "there is no set in it".to_owned(),
        other => other.to_string(),
    }
}

impl SetDirectory {
    /// What this replica knows about the authority.
    ///
    /// # Errors
    /// [`SetError::NoSet`], [`SetError::Damaged`] and file errors.
    pub fn authority(&self) -> Result<AuthorityView, SetError> {
        let file = self.read_set()?;
        let certificate = self.certificate("authority.pem")?;
        let expires = self.expiry("authority.pem")?;
        Ok(AuthorityView {
            keeper: file.list.keeper,
            addresses: file.list.keeper_addresses(),
            is_here: self.may_sign(&file),
            fingerprint: blake3::Hash::from(fingerprint(&certificate)).to_string(),
            expires_unix_s: unix_seconds(expires),
            term: file.list.term,
            version: file.list.version,
        })
    }

    /// When the certificate of this replica expires.
    ///
    /// # Errors
    /// [`SetError::NoSet`], [`SetError::Damaged`] and file errors.
    pub fn certificate_expires(&self) -> Result<SystemTime, SetError> {
        self.read_set()?;
        self.expiry("replica.pem")
    }

    fn expiry(&self, file: &str) -> Result<SystemTime, SetError> {
        let certificate = self.certificate(file)?;
        let expires = valid_until_unix_s(&certificate).and_then(|at| u64::try_from(at).ok());
        let expires = expires
            .ok_or_else(|| damaged(&self.file(file), "it does not say how long it is valid"))?;
        Ok(UNIX_EPOCH + Duration::from_secs(expires))
    }

    /// Writes the input of [`SetDirectory::restore_authority`] to a new file that only its owner can read. Anyone who
    /// has this file can admit servers to the set and remove members.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep the authority, [`SetError::NotExported`], and file errors.
    pub fn export_authority(&self, to: &Path) -> Result<(), SetError> {
        let _lock = self.open()?;
        let list = self.read_as_keeper()?.list;
        let key = files::read(&self.file(AUTHORITY_KEY))?;
        let backup = AuthorityBackup { key, list };
        let json =
            serde_json::to_vec_pretty(&backup).map_err(|_| damaged(to, "it cannot be made"))?;
        let write = || -> std::io::Result<()> {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(to)?;
            file.write_all(&json)?;
            file.sync_all()
        };
        write().map_err(|error| SetError::NotExported {
            path: to.to_owned(),
            error,
        })
    }

    /// Takes the key from the keeper, for the next keeper to store.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep it, [`SetError::AlreadyKeeper`] if `to` keeps it
    /// already, [`SetError::NoSuchMember`] also for a removed member, and file errors.
    pub fn begin_handover(&self, to: ReplicaSlot) -> Result<Handover, SetError> {
        let _lock = self.open()?;
        let file = self.read_as_keeper()?;
        check_receiver(&file, to)?;
        Ok(Handover {
            term: file.list.term.saturating_add(1),
            version: file.list.version,
            key: files::read(&self.file(AUTHORITY_KEY))?,
        })
    }

    /// Stores an authority that the keeper hands over to this replica. It is durable when this returns. It is not used
    /// before a signed list names this replica as the keeper.
    ///
    /// # Errors
    /// [`SetError::WrongKey`] for a key that is not the authority's, [`SetError::Superseded`] when it is out of date,
    /// and file errors.
    pub fn store_offer(&self, handover: &Handover) -> Result<(), SetError> {
        let _lock = self.open()?;
        let file = self.read_set()?;
        if !is_key_of(&self.certificate("authority.pem")?, &handover.key) {
            return Err(SetError::WrongKey);
        }
        if is_over(handover, &file.list, file.slot) {
            return Err(SetError::Superseded);
        }
        self.write_json(OFFER, handover)
    }

    /// Signs the last list of this replica, which names another keeper. Call this only after that keeper has confirmed
    /// that it stored the result of [`SetDirectory::begin_handover`]. Outstanding tokens become invalid, because they
    /// lead to this replica.
    ///
    /// # Errors
    /// [`SetError::Superseded`] when the keeper or the list of members has changed in the meantime; the receiver then
    /// never uses that key. Also the errors of [`SetDirectory::begin_handover`].
    pub fn complete_handover(&self, to: ReplicaSlot, handover: &Handover) -> Result<(), SetError> {
        let _lock = self.open()?;
        let mut file = self.read_as_keeper()?;
        check_receiver(&file, to)?;
        let is_next = file.list.term.checked_add(1) == Some(handover.term);
        if !is_next || file.list.version != handover.version {
            return Err(SetError::Superseded);
        }
        file.list.term = handover.term;
        file.list.keeper = to.0;
        self.sign_and_write(&mut file)?;
        self.write_invitations(&[])
    }

    /// Whether the key is stored here, in use or not.
    #[must_use]
    pub fn holds_key(&self) -> bool {
        self.file(AUTHORITY_KEY).exists()
    }

    /// Prepares the key for a list that another replica showed, before that list is stored. `true` means that this
    /// replica has to sign a new list, because it keeps the authority from now on.
    pub(super) fn prepare_for(&self, list: &MemberList, own: u16) -> Result<bool, SetError> {
        let Some(offer) = self.read_offer()? else {
            return Ok(false);
        };
        let is_meant = list.keeper == own && offer.term == list.term;
        if is_meant {
            files::replace(&self.file(AUTHORITY_KEY), offer.key.as_bytes())?;
        }
        Ok(is_meant)
    }

    /// After the list is stored: removes keys that are useless with it. If another keeper signed the list, that keeper has the key.
    pub(super) fn tidy_after(&self, list: &MemberList, own: u16) -> Result<(), SetError> {
        if list.keeper != own || is_removed(list, own) {
            files::remove(&self.file(AUTHORITY_KEY))?;
            files::remove(&self.file("invitations.json"))?;
        }
        if self
            .read_offer()?
            .is_some_and(|offer| is_over(&offer, list, own))
        {
            files::remove(&self.file(OFFER))?;
        }
        Ok(())
    }

    fn read_offer(&self) -> Result<Option<Handover>, SetError> {
        let path = self.file(OFFER);
        if !files::exists(&path)? {
            return Ok(None);
        }
        // The error may quote the key.
        let offer = serde_json::from_str(&files::read(&path)?);
        offer.map_err(|_| damaged(&path, "it is no key that was handed over"))
    }

    /// Makes this replica the keeper, from a backup, when the keeper is lost for ever. The caller has made sure that
    /// this replica learned the newest list that can be found, and that the previous keeper is gone. If it comes back,
    /// it learns that its term is over, and the members that only it signed in the meantime are added.
    ///
    /// Slots are skipped, because the previous keeper may have given some to servers that no other member knows.
    ///
    /// # Errors
    /// [`SetError::AlreadyKeeper`], [`SetError::WrongKey`] for the backup of another set, [`SetError::Forged`] when the
    /// list in it is not signed, [`SetError::NoSuchMember`] when this replica was removed, and file errors.
    pub fn restore_authority(&self, backup: &AuthorityBackup) -> Result<(), SetError> {
        let _lock = self.open()?;
        let mut file = self.read_set()?;
        if self.may_sign(&file) {
            return Err(SetError::AlreadyKeeper);
        }
        let certificate = self.certificate("authority.pem")?;
        if !is_key_of(&certificate, &backup.key) {
            return Err(SetError::WrongKey);
        }
        check_signature(&certificate, self.set_id(&file)?, &backup.list)?;
        if file.list.member(file.slot).is_none_or(|own| own.revoked) {
            return Err(SetError::NoSuchMember(file.slot));
        }
        file.list.take_in(&backup.list);
        file.list.term = file.list.term.max(backup.list.term).saturating_add(1);
        file.list.keeper = file.slot;
        file.superseded = false;
        let highest = file.list.members.last().map_or(0, |last| last.slot);
        let used = file.list.slots_from.max(highest.saturating_add(1));
        file.list.slots_from = used.saturating_add(SLOTS_LEFT_OUT);
        // The key is useless before the list names this replica.
        files::replace(&self.file(AUTHORITY_KEY), backup.key.as_bytes())?;
        self.write_invitations(&[])?;
        self.sign_and_write(&mut file)
    }
}

/// Whether an offer is useless beside this list: its term has begun, the list changed before the move was completed, or
/// its receiver was removed.
fn is_over(offer: &Handover, list: &MemberList, own: u16) -> bool {
    offer.term <= list.term || list.version > offer.version || is_removed(list, own)
}

fn is_removed(list: &MemberList, slot: u16) -> bool {
    list.member(slot).is_some_and(|member| member.revoked)
}

/// Whether a member may keep the authority.
fn check_receiver(file: &SetFile, to: ReplicaSlot) -> Result<(), SetError> {
    if to.0 == file.slot {
        return Err(SetError::AlreadyKeeper);
    }
    let member = file.list.member(to.0).filter(|member| !member.revoked);
    member.map(|_| ()).ok_or(SetError::NoSuchMember(to.0))
}
