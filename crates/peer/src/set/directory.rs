//! A replica's directory of its set: how it begins, what is read from it, and what is learned from others.
//!
//! | file | content |
//! |---|---|
//! | `set.json` or `pool.json` | set, own slot, the list of members with the authority's signature |
//! | `tree` | what the handler says all replicas must know of the tree; its meaning is the handler's |
//! | `authority.pem` | certificate of the authority |
//! | `authority.key` | its key; only where the authority is kept |
//! | `replica.pem`, `replica.key` | what this replica proves itself with |
//! | `authority.offer` | a key that was handed over to this replica and is not in use yet |
//! | `invitations.json` | secrets that were handed out; only where the authority is kept |
//!
//! Each is readable by its handler only. Changes are made under a lock, so that `meridian set invite` may run
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
    /// Another replica keeps the authority in a later term, whose list does not cover this one yet: nothing is signed
    /// here any more.
    #[serde(default)]
    pub(super) superseded: bool,
    #[serde(flatten)]
    pub(super) list: MemberList,
}

/// What a list that another replica showed has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing: it says no more than what is known here.
    Nothing,
    /// The list of this directory is another one now.
    News,
    /// Nothing: it counts more than that of this directory, but does not know all that this one knows. Its keeper has
    /// to be shown this one, and to sign anew.
    NotAll,
}

/// What a joined server is given.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub certificate: CertificateDer<'static>,
    pub authority: CertificateDer<'static>,
    pub list: MemberList,
    pub tree: Vec<u8>,
    /// That the keeper of the authority says so of the tree.
    pub proof: [u8; 32],
}

/// The most that a joining server is told of the tree, in bytes.
pub(crate) const TREE_BYTES_MAX: usize = 4096;

/// The directory in which a replica keeps what it knows of its set.
#[derive(Clone, Debug)]
pub struct SetDirectory {
    kind: Kind,
    path: PathBuf,
    /// Whether this replica knows, since it started, that its list is the newest one that a majority of the set knows.
    is_current: Arc<AtomicBool>,
    remembered: Arc<Remembered>,
}

impl SetDirectory {
    /// A directory that holds a set, or will.
    pub fn new(path: impl Into<PathBuf>) -> SetDirectory {
        SetDirectory::of(Kind::Set, path.into())
    }

    /// A directory that holds a pool, or will.
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

    /// Whether it is that of a set or of a pool.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a set, with this replica as its first member in slot 1, listening at `addresses`. Every server
    /// that joins is given `tree` as it is, at most 4096 bytes, over TLS and after it has proved itself.
    ///
    /// # Errors
    /// [`SetError::Exists`], [`SetError::TreeTooLarge`], and what the files or certificates may bring.
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

    /// The members as far as this replica knows.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn members(&self) -> Result<Vec<Member>, SetError> {
        Ok(self.member_list()?.members)
    }

    /// The members as far as this replica knows, with the version of that knowledge.
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

    /// Takes over a list that another replica showed, if the authority has signed it and it counts more than what is
    /// known here. The keeper of the authority also learns from its own earlier lists, should its files come from an
    /// older backup: it takes in what they say of members, and signs anew.
    ///
    /// # Errors
    /// [`SetError::Forged`] for a list that the set's authority did not sign, whatever it says; [`SetError::NoSet`]
    /// and file errors.
    pub fn learn(&self, list: &MemberList) -> Result<Learned, SetError> {
        let _lock = self.open()?;
        let mut file = self.read_set()?;
        if *list == file.list {
            return Ok(Learned::Nothing);
        }
        self.verify(self.set_id(&file)?, list)?;
        let is_newer = list.is_newer_than(&file.list);
        // Who is removed has nobody left to tell what the new keeper does not know.
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

    /// What all replicas were told of the tree when they joined, as [`SetDirectory::create_for`] took it.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn tree(&self) -> Result<Vec<u8>, SetError> {
        if !self.exists()? {
            return Err(SetError::NoSet(self.path.clone()));
        }
        files::read_bytes(&self.file(TREE))
    }

    /// Whether this replica signs certificates and lists: it has the key, and the list that counts says that it keeps
    /// it. Not when the files cannot be read.
    #[must_use]
    pub fn keeps_authority(&self) -> bool {
        self.read_set().is_ok_and(|file| self.may_sign(&file))
    }

    pub(super) fn may_sign(&self, file: &SetFile) -> bool {
        let is_named = file.list.keeper == file.slot && !file.superseded;
        is_named && self.file(AUTHORITY_KEY).exists()
    }

    /// Whether this replica began the set.
    #[must_use]
    pub fn is_creator(&self) -> bool {
        self.read_set().is_ok_and(|file| file.slot == FIRST_SLOT.0)
    }

    /// From now on servers that join are admitted here, if the authority is kept here: the list of members is the newest
    /// that a majority of the set knows. Holds for clones of this value, and ends with the process.
    pub fn note_current(&self) {
        self.is_current.store(true, Ordering::Release);
    }

    /// Whether [`SetDirectory::note_current`] was said.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    /// What this replica proves itself with.
    ///
    /// # Errors
    /// [`SetError::NoSet`], [`SetError::Damaged`] and file errors.
    pub fn identity(&self) -> Result<Identity, SetError> {
        let file = self.read_set()?;
        let (certificate, authority) = (
            self.certificate("replica.pem")?,
            self.certificate("authority.pem")?,
        );
        // Before anything is judged by it.
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
            // The error might quote the key.
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

    /// Writes what a server was given when it joined.
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

    /// Whether the directory holds a set.
    ///
    /// # Errors
    /// When that cannot be looked at, which does not mean that there is none.
    pub fn exists(&self) -> Result<bool, SetError> {
        files::exists(&self.list_file())
    }

    fn list_file(&self) -> PathBuf {
        self.file(self.kind.list_file())
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Locks a directory that must not hold a set yet.
    fn begin(&self) -> Result<DirectoryLock, SetError> {
        files::make_directory(&self.path)?;
        let lock = DirectoryLock::acquire(&self.path)?;
        if self.exists()? {
            return Err(SetError::Exists(self.path.clone()));
        }
        Ok(lock)
    }

    /// Locks a directory that must hold one.
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

    /// Looks whether the set's authority has signed a list.
    ///
    /// # Errors
    /// [`SetError::Forged`], and what the files may bring.
    fn verify(&self, set: SetId, list: &MemberList) -> Result<(), SetError> {
        check_signature(&self.certificate("authority.pem")?, set, list)
    }

    /// Signs a changed list, whose version grows, and stores it. The caller has looked whether this replica may.
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

    /// Written last of all files when a set is begun: without it there is none.
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
        // The error might quote a secret.
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

/// Looks whether an authority has signed a list of the members of a set.
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
