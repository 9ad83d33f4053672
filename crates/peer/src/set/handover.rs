//! The authority changes hands: it is moved to another member, or restored from a backup when its keeper is lost.
//!
//! Who keeps the authority is said by the signed list, with the term; a key beside a list that names somebody else
//! signs nothing. A move goes in this order, and a crash anywhere leaves at least one member with the key and exactly
//! one that signs:
//!
//! 1. the keeper sends the key, over the connection between the two members, and the next one stores it as an offer;
//! 2. once that is confirmed, the keeper signs, as its last act, the list of the next term, which names the next one;
//! 3. the next one learns of that list, makes the offer its key, and signs a list to say so;
//! 4. the previous keeper learns of that one, and removes its key.
//!
//! An offer is good beside one version of the list. If the list changes before the move is completed, the move is over, and the
//! receiver removes what it was offered when it learns of that list; also if that removes the receiver itself.
//!
//! What must never enter: how the key travels, and the key in a log or a message to a person.

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

/// A key that may become this replica's to use.
const OFFER: &str = "authority.offer";

/// Slots that are left out when the authority is restored: the lost keeper may have given some to servers that nobody
/// else has heard of.
const SLOTS_LEFT_OUT: u16 = 256;

/// A backup is not larger.
const BACKUP_BYTES_MAX: u64 = 4 << 20;

/// The key of the authority on its way to its next keeper. It is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The term in which the receiver is to keep it.
    pub term: u64,
    /// The version of the list of members that it was taken beside. With another one it is of no use any more.
    version: u64,
    key: String,
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the authority for term {}", self.term)
    }
}

/// What everybody may know of the authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuthorityView {
    /// Who keeps it.
    pub keeper: u16,
    /// Where that is, as the list of members says.
    pub addresses: String,
    /// It is kept here, with its key.
    pub is_here: bool,
    /// BLAKE3 of its certificate.
    pub fingerprint: String,
    /// When its certificate expires, in seconds since 1970.
    pub expires_unix_s: u64,
    /// How often it was moved or restored, from 1.
    pub term: u64,
    /// The version of the list of members that it signed last, as far as is known here.
    pub version: u64,
}

/// What brings the authority back when its keeper is lost: written by [`SetDirectory::export_authority`], or a copy of
/// the keeper's `set` directory.
#[derive(Clone, Serialize, Deserialize)]
pub struct AuthorityBackup {
    key: String,
    /// As it was when the backup was made.
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
    /// [`SetError::NoBackup`] when it is none, or cannot be read.
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

/// Why a copy of a `set` directory is no backup, or what it holds.
fn read_copy(path: &Path) -> Result<AuthorityBackup, String> {
    let list = SetDirectory::new(path).member_list().map_err(bare)?;
    let key = files::read(&path.join(AUTHORITY_KEY)).map_err(bare)?;
    Ok(AuthorityBackup { key, list })
}

/// The same of a file.
fn read_backup(path: &Path) -> Result<AuthorityBackup, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.len() > BACKUP_BYTES_MAX {
        return Err(format!("it has more than {BACKUP_BYTES_MAX} bytes"));
    }
    // The error might quote the key.
    serde_json::from_str(&files::read(path).map_err(bare)?)
        .map_err(|_| "it is no backup of the authority".to_owned())
}

/// What is wrong, without what would be done about the set's own files.
fn bare(error: SetError) -> String {
    match error {
        SetError::Io { path, error } => format!("{}: {error}", path.display()),
        SetError::Damaged { path, reason } => format!("{}: {reason}", path.display()),
        SetError::NoSet(_) => "there is no set in it".to_owned(),
        other => other.to_string(),
    }
}

impl SetDirectory {
    /// What is known here of the authority.
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

    /// When the certificate expires with which this replica proves itself.
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

    /// Writes what [`SetDirectory::restore_authority`] takes, to a file that is not there yet and
    /// that only its handler can read. Anybody who has it can admit servers to the set and remove
    /// members.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] elsewhere than where the authority is kept, [`SetError::NotExported`], and file errors.
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

    /// Takes the authority out of the keeper's hands, for the next one to store.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] elsewhere than where it is kept, [`SetError::AlreadyKeeper`] when it is to go where it
    /// is, [`SetError::NoSuchMember`] also for a member that was removed, and file errors.
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

    /// Stores an authority that the keeper wants to hand over to this replica. When this returns it is durable; it is
    /// not used before a signed list says that this replica keeps it.
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

    /// Says, as the last list that this replica signs, that another one keeps the authority: only after that one has
    /// confirmed that it has stored what [`SetDirectory::begin_handover`] gave. Tokens that are outstanding end, since
    /// they lead to this replica.
    ///
    /// # Errors
    /// [`SetError::Superseded`] when the authority has changed hands meanwhile, or the list of members has changed, after which the
    /// receiver uses that key no more; and those of [`SetDirectory::begin_handover`].
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

    /// Whether the key lies here, for use or not any more.
    #[must_use]
    pub fn holds_key(&self) -> bool {
        self.file(AUTHORITY_KEY).exists()
    }

    /// A list that another replica showed is to be stored: does what it means for the key. Says whether this replica
    /// has to sign anew, to say that it keeps the authority from now on.
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

    /// The list is stored: removes keys that are of no use with it. Another keeper that has signed it has the key.
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
        // The error might quote the key.
        let offer = serde_json::from_str(&files::read(&path)?);
        offer.map_err(|_| damaged(&path, "it is no key that was handed over"))
    }

    /// Makes this replica the keeper, from a backup, when the keeper is lost for ever. The caller has seen to it that
    /// the newest list that can be found was learned here, and that the previous keeper is gone: should it come back, it
    /// learns that its term is over, and what it alone signed meanwhile is taken in.
    ///
    /// Slots are left out, since the previous keeper may have given some away that nobody else knows of.
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
        // A key is of no use before the list says so.
        files::replace(&self.file(AUTHORITY_KEY), backup.key.as_bytes())?;
        self.write_invitations(&[])?;
        self.sign_and_write(&mut file)
    }
}

/// Whether an offer can come to nothing any more beside this list: its term has begun, the move was not completed before the
/// list changed, or the one it was made to was removed.
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
