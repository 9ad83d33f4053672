//! The directory in which a replica keeps its set: how it is created, read, and updated from other replicas.
//!
//! | file | content |
//! |---|---|
//! | `set.json` or `pool.json` | set, own slot, the list of members with the authority's signature |
//! | `tree` | what all replicas must know about the tree, from the handler, which alone knows its meaning |
//! | `authority.pem` | certificate of the authority |
//! | `authority.key` | its key; only where the authority is kept |
//! | `replica.pem`, `replica.key` | the certificate and key of this replica |
//! | `authority.offer` | a key that was handed over to this replica and is not in use yet |
//! | `invitations.json` | secrets that were handed out; only where the authority is kept |
//!
//! Only the owner of the files can read them. Changes are made under a lock, so that `meridian set invite` may run
//! beside the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use super::authority::{
    CERTIFICATE_LIFETIME, has_certified, has_signed, is_key_of, make_authority, make_request, sign,
    sign_bytes,
};
use super::files::{self, DirectoryLock, damaged};
use super::invitation::Invitation;
use super::list::{Member, MemberList};
use super::remembered::{Remembered, Stamp};
use super::{Kind, SetError};
use crate::identity::SetId;
use crate::tls::{Identity, replica_of};

pub(super) const TREE: &str = "tree";

/// The key of the set's authority, in PEM.
pub(super) const AUTHORITY_KEY: &str = "authority.key";

/// The slot of the replica that creates the set.
const FIRST_SLOT: ReplicaSlot = ReplicaSlot(1);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetFile {
    set: String,
    pub(super) slot: u16,
    /// Another replica keeps the authority in a later term, and its list does not cover this one yet. This replica
    /// signs nothing any more.
    #[serde(default)]
    pub(super) superseded: bool,
    #[serde(flatten)]
    pub(super) list: MemberList,
}

/// The effect of a list that another replica showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// None: the list contains nothing new.
    Nothing,
    /// The list of this directory has changed.
    News,
    /// None: the other list is newer, but lacks something that this one contains. Its keeper must see this list and
    /// sign again.
    NotAll,
}

/// What a server gets when it joins.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub certificate: CertificateDer<'static>,
    pub authority: CertificateDer<'static>,
    pub list: MemberList,
    pub tree: Vec<u8>,
    /// Proves that the text about the tree comes from the keeper of the authority.
    pub proof: [u8; 32],
}

/// The maximum size of the text about the tree for a joining server, in bytes.
pub(crate) const TREE_BYTES_MAX: usize = 4096;

/// The directory in which a replica keeps its knowledge of its set.
#[derive(Clone, Debug)]
pub struct SetDirectory {
    kind: Kind,
    path: PathBuf,
    /// Whether this replica has confirmed since its start that its list is the newest that a majority of the set knows.
    is_current: Arc<AtomicBool>,
    remembered: Arc<Remembered>,
}

impl SetDirectory {
    /// A directory that contains a set, or will contain one.
    pub fn new(path: impl Into<PathBuf>) -> SetDirectory {
        SetDirectory::of(Kind::Set, path.into())
    }

    /// A directory that contains a pool, or will contain one.
    pub fn of_pool(path: impl Into<PathBuf>) -> SetDirectory {
        SetDirectory::of(Kind::Pool, path.into())
    }

    fn of(kind: Kind, path: PathBuf) -> SetDirectory {
        SetDirectory {
            kind,
            path,
            is_current: Arc::default(),
            remembered: Arc::default(),
        }
    }

    /// Whether the directory is for a set or for a pool.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a set, with this replica as its first member in slot 1, listening at `addresses`. Every server that
    /// joins gets `tree` unchanged, at most 4096 bytes, over TLS and after it has proved itself.
    ///
    /// # Errors
    /// [`SetError::Exists`], [`SetError::TreeTooLarge`], and errors of files and certificates.
    pub fn create_for(
        &self,
        tree: &[u8],
        addresses: Vec<String>,
        now: SystemTime,
    ) -> Result<SetId, SetError> {
        if tree.len() > TREE_BYTES_MAX {
            return Err(SetError::TreeTooLarge);
        }
        let _lock = self.begin()?;
        let set = SetId(random()?);
        let (authority_key, authority) = make_authority(set, now)?;
        let authority_key = authority_key.serialize_pem();
        let (key, request) = make_request()?;
        let certificate = sign(
            &authority,
            &authority_key,
            &request,
            set,
            FIRST_SLOT,
            now,
            CERTIFICATE_LIFETIME,
        )?;
        files::replace(&self.file(AUTHORITY_KEY), authority_key.as_bytes())?;
        let authority = CertificateDer::from_pem_slice(authority.as_bytes())
            .map_err(|error| SetError::Certificate(error.to_string()))?;
        self.write_replica(&key.serialize_pem(), &certificate, &authority)?;
        files::replace(&self.file(TREE), tree)?;
        let mut file = SetFile {
            set: set.to_string(),
            slot: FIRST_SLOT.0,
            superseded: false,
            list: MemberList {
                term: 1,
                keeper: FIRST_SLOT.0,
                slots_from: FIRST_SLOT.0 + 1,
                ..MemberList::default()
            },
        };
        file.list.put(Member {
            slot: FIRST_SLOT.0,
            addresses,
            client_addresses: Vec::new(),
            revoked: false,
            witness: false,
            metadata_server: false,
            name: String::new(),
        });
        self.sign_and_write(&mut file)?;
        Ok(set)
    }

    /// The members, as known to this replica.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn members(&self) -> Result<Vec<Member>, SetError> {
        Ok(self.member_list()?.members)
    }

    /// The members, as known to this replica, with the version of the list.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn member_list(&self) -> Result<MemberList, SetError> {
        Ok(self.read_set()?.list)
    }

    /// Whether this replica is a witness, which votes and keeps no contents.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn is_witness(&self) -> Result<bool, SetError> {
        let set = self.read_set()?;
        Ok(set.list.is_witness(set.slot))
    }

    /// Adopts a list that another replica showed, if the authority signed it and it is newer than the local list. The
    /// keeper of the authority also learns from its own earlier lists, if its files come from an older backup: it
    /// adopts what they say about members, and signs again.
    ///
    /// # Errors
    /// [`SetError::Forged`] for a list that the set's authority did not sign, whatever its content; [`SetError::NoSet`]
    /// and file errors.
    pub fn learn(&self, list: &MemberList) -> Result<Learned, SetError> {
        let _lock = self.open()?;
        let mut file = self.read_set()?;
        if *list == file.list {
            return Ok(Learned::Nothing);
        }
        self.verify(self.set_id(&file)?, list)?;
        let is_newer = list.is_newer_than(&file.list);
        // If this replica was removed, no other member listens to it, so it cannot tell the new keeper what its list lacks.
        let removes_this = list.member(file.slot).is_some_and(|own| own.revoked);
        if is_newer && (removes_this || list.covers(&file.list)) {
            file.list = list.clone();
            file.superseded = false;
            let keeps_from_now_on = self.prepare_for(list, file.slot)?;
            self.write_set(&file)?;
            if keeps_from_now_on {
                self.sign_and_write(&mut file)?;
            }
            self.tidy_after(list, file.slot)?;
            return Ok(Learned::News);
        }
        let by_another = (list.term, list.keeper) != (file.list.term, file.list.keeper);
        match self.may_sign(&file) {
            true if is_newer && by_another => {
                file.superseded = true;
                self.write_set(&file)?;
                Ok(Learned::NotAll)
            }
            true if is_newer || !file.list.covers(list) => {
                file.list.take_in(list);
                self.sign_and_write(&mut file)?;
                Ok(Learned::News)
            }
            false if is_newer => Ok(Learned::NotAll),
            _ => Ok(Learned::Nothing),
        }
    }

    /// The text about the tree that all replicas got when they joined, as [`SetDirectory::create_for`] took it.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn tree(&self) -> Result<Vec<u8>, SetError> {
        if !self.exists()? {
            return Err(SetError::NoSet(self.path.clone()));
        }
        files::read_bytes(&self.file(TREE))
    }

    /// Whether this replica signs certificates and lists: it has the key, and the current list names it as the keeper.
    /// `false` when the files cannot be read.
    #[must_use]
    pub fn keeps_authority(&self) -> bool {
        self.read_set().is_ok_and(|file| self.may_sign(&file))
    }

    pub(super) fn may_sign(&self, file: &SetFile) -> bool {
        let is_named = file.list.keeper == file.slot && !file.superseded;
        is_named && self.file(AUTHORITY_KEY).exists()
    }

    /// Whether this replica created the set.
    #[must_use]
    pub fn is_creator(&self) -> bool {
        self.read_set().is_ok_and(|file| file.slot == FIRST_SLOT.0)
    }

    /// The list of members is the newest that a majority of the set knows. From now on this replica admits servers that
    /// join, if it keeps the authority. This also holds for clones of this value, and ends with the process.
    pub fn note_current(&self) {
        self.is_current.store(true, Ordering::Release);
    }

    /// Whether [`SetDirectory::note_current`] was called.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    /// The certificate and key of this replica.
    ///
    /// # Errors
    /// [`SetError::NoSet`], [`SetError::Damaged`] and file errors.
    pub fn identity(&self) -> Result<Identity, SetError> {
        let file = self.read_set()?;
        let (certificate, authority) = (
            self.certificate("replica.pem")?,
            self.certificate("authority.pem")?,
        );
        // Checked first, because everything else is verified with it.
        if !has_certified(&authority, &authority) {
            let path = self.file("authority.pem");
            return Err(damaged(&path, "it is not as the authority has signed it"));
        }
        let (set, slot) = (self.set_id(&file)?, ReplicaSlot(file.slot));
        self.verify(set, &file.list).map_err(|error| match error {
            SetError::Forged(why) => damaged(&self.list_file(), why),
            other => other,
        })?;
        if !has_certified(&authority, &certificate) {
            let path = self.file("replica.pem");
            return Err(damaged(&path, "the set's authority did not sign it"));
        }
        if replica_of(&certificate) != Some((set, slot)) {
            let path = self.file("replica.pem");
            return Err(damaged(&path, "it is the certificate of another replica"));
        }
        let path = self.file("replica.key");
        let text = files::read(&path)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
            // The error may quote the key.
            .map_err(|_| damaged(&path, "it holds no private key"))?;
        if !is_key_of(&certificate, &text) {
            return Err(damaged(&path, "it is not the key of `replica.pem`"));
        }
        Ok(Identity {
            set,
            slot,
            certificate,
            key,
            authority,
        })
    }

    /// Writes what a server got when it joined.
    pub(crate) fn write_joined(
        &self,
        set: SetId,
        slot: ReplicaSlot,
        key_pem: &str,
        admission: &Admission,
    ) -> Result<(), SetError> {
        let _lock = self.begin()?;
        check_signature(&admission.authority, set, &admission.list)?;
        self.write_replica(key_pem, &admission.certificate, &admission.authority)?;
        files::replace(&self.file(TREE), &admission.tree)?;
        self.write_set(&SetFile {
            set: set.to_string(),
            slot: slot.0,
            superseded: false,
            list: admission.list.clone(),
        })
    }

    /// Whether the directory contains a set.
    ///
    /// # Errors
    /// When this cannot be determined, which does not mean that there is no set.
    pub fn exists(&self) -> Result<bool, SetError> {
        files::exists(&self.list_file())
    }

    fn list_file(&self) -> PathBuf {
        self.file(self.kind.list_file())
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Locks a directory that must not contain a set yet.
    fn begin(&self) -> Result<DirectoryLock, SetError> {
        files::make_directory(&self.path)?;
        let lock = DirectoryLock::acquire(&self.path)?;
        if self.exists()? {
            return Err(SetError::Exists(self.path.clone()));
        }
        Ok(lock)
    }

    /// Locks a directory that must contain one.
    pub(super) fn open(&self) -> Result<DirectoryLock, SetError> {
        if !self.exists()? {
            return Err(SetError::NoSet(self.path.clone()));
        }
        DirectoryLock::acquire(&self.path)
    }

    fn write_replica(
        &self,
        key_pem: &str,
        certificate: &CertificateDer<'_>,
        authority: &CertificateDer<'_>,
    ) -> Result<(), SetError> {
        files::replace(&self.file("replica.key"), key_pem.as_bytes())?;
        files::replace(&self.file("replica.pem"), pem(certificate).as_bytes())?;
        files::replace(&self.file("authority.pem"), pem(authority).as_bytes())
    }

    pub(super) fn certificate(&self, name: &str) -> Result<CertificateDer<'static>, SetError> {
        let path = self.file(name);
        CertificateDer::from_pem_slice(files::read(&path)?.as_bytes())
            .map_err(|error| damaged(&path, error))
    }

    pub(super) fn read_set(&self) -> Result<SetFile, SetError> {
        let path = self.list_file();
        let stamp = match std::fs::metadata(&path) {
            Ok(file) => Stamp::of(&file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(SetError::NoSet(self.path.clone()));
            }
            Err(error) => return Err(files::io_error(&path)(error)),
        };
        if let Some(file) = self.remembered.find(stamp) {
            return Ok(file);
        }
        let text = files::read(&path)?;
        let file = serde_json::from_str(&text).map_err(|error| match text.contains("\"signature\"") {
            true => damaged(&path, error),
            false => damaged(
                &path,
                "its list of members is not signed; sets of earlier versions of this program have to be made anew",
            ),
        })?;
        self.remembered.keep(stamp, &file, SystemTime::now());
        Ok(file)
    }

    /// Checks that the set's authority has signed a list.
    ///
    /// # Errors
    /// [`SetError::Forged`], and errors of the files.
    fn verify(&self, set: SetId, list: &MemberList) -> Result<(), SetError> {
        check_signature(&self.certificate("authority.pem")?, set, list)
    }

    /// Signs a changed list with a larger version, and stores it. The caller has checked that this replica may sign.
    pub(super) fn sign_and_write(&self, file: &mut SetFile) -> Result<(), SetError> {
        let key = files::read(&self.file(AUTHORITY_KEY))?;
        let (set, now_ms) = (self.set_id(file)?, unix_milliseconds(SystemTime::now()));
        let list = &mut file.list;
        list.version = list.version.saturating_add(1).max(now_ms);
        list.shorten();
        if let Some(objection) = list.objection() {
            return Err(SetError::Certificate(objection.to_owned()));
        }
        let signature = sign_bytes(&key, &list.signed_bytes(set))?;
        list.signature = data_encoding::BASE64.encode(&signature);
        self.write_set(file)
    }

    /// Written after all other files when a set is created: without this file there is no set.
    pub(super) fn write_set(&self, set: &SetFile) -> Result<(), SetError> {
        self.write_json(self.kind.list_file(), set)
    }

    pub(super) fn set_id(&self, set: &SetFile) -> Result<SetId, SetError> {
        SetId::parse(&set.set)
            .ok_or_else(|| damaged(&self.list_file(), "the identifier of the set is none"))
    }

    pub(super) fn read_invitations(&self) -> Result<Vec<Invitation>, SetError> {
        let path = self.file("invitations.json");
        if !files::exists(&path)? {
            return Ok(Vec::new());
        }
        // The error may quote a secret.
        serde_json::from_str(&files::read(&path)?)
            .map_err(|_| damaged(&path, "it is not what `meridian set invite` writes"))
    }

    pub(super) fn write_invitations(&self, invitations: &[Invitation]) -> Result<(), SetError> {
        self.write_json("invitations.json", &invitations)
    }

    pub(super) fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), SetError> {
        let path = self.file(name);
        let json = serde_json::to_vec_pretty(content).map_err(|error| damaged(&path, error))?;
        files::replace(&path, &json)
    }
}

/// Checks that an authority has signed a list of the members of a set.
pub(super) fn check_signature(
    authority: &CertificateDer<'_>,
    set: SetId,
    list: &MemberList,
) -> Result<(), SetError> {
    if let Some(objection) = list.objection() {
        return Err(SetError::Forged(objection));
    }
    let signature = data_encoding::BASE64.decode(list.signature.as_bytes());
    match signature {
        Ok(signature) if has_signed(authority, &list.signed_bytes(set), &signature) => Ok(()),
        _ => Err(SetError::Forged("the set's authority did not sign it")),
    }
}

/// Whole milliseconds since 1970.
fn unix_milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let body = data_encoding::BASE64.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in body.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], SetError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| SetError::Certificate(error.to_string()))?;
    Ok(bytes)
}
