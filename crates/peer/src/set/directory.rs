//! A replica's directory of its set, and what is done with it: create, invite, sign, revoke.
//!
//! | file | content |
//! |---|---|
//! | `set.json` | set, own slot, members with their version, the next slot |
//! | `tree` | what the owner says all replicas must know of the tree; its meaning is the owner's |
//! | `authority.pem` | certificate of the authority |
//! | `authority.key` | its key; only where the set was created |
//! | `replica.pem`, `replica.key` | what this replica proves itself with |
//! | `invitations.json` | secrets that were handed out |
//!
//! Each is readable by its owner only. Changes are made under a lock, so that `meridian set invite` may run
//! beside the server.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use super::SetError;
use super::authority::{CERTIFICATE_LIFETIME, make_authority, make_request, sign};
use super::files::{self, DirectoryLock, damaged};
use super::invitation::{Invitation, unknown_token};
use super::token::{Token, unix_seconds};
use crate::identity::SetId;
use crate::tls::{Identity, fingerprint, replica_of};

const TREE: &str = "tree";

/// The slot of the replica that creates the set.
const FIRST_SLOT: ReplicaSlot = ReplicaSlot(1);

/// A replica of the set, as the set's files know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its slot.
    pub slot: u16,
    /// Where it listens for peers, `host:port`.
    pub addresses: Vec<String>,
    /// It was removed: whatever certificate it shows is refused.
    pub revoked: bool,
    /// It was invited as a witness: it votes, and keeps no contents. Files written before there were witnesses do
    /// not say so of anybody.
    #[serde(default)]
    pub witness: bool,
}

/// The members of a set. Only the replica that keeps the authority's key changes them, so of two lists the
/// one with the larger version is right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberList {
    /// Grows with each change, from 1.
    pub version: u64,
    /// The members, removed ones included, by slot.
    pub members: Vec<Member>,
}

impl MemberList {
    /// Whether the replica of a slot was invited as a witness.
    #[must_use]
    pub fn is_witness(&self, slot: u16) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.slot == slot && member.witness)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SetFile {
    set: String,
    slot: u16,
    next_slot: u32,
    #[serde(flatten)]
    list: MemberList,
}

impl SetFile {
    /// Replaces what is known of one member, or adds it.
    fn put(&mut self, member: Member) {
        let members = &mut self.list.members;
        members.retain(|other| other.slot != member.slot);
        members.push(member);
        members.sort_by_key(|member| member.slot);
        self.list.version += 1;
    }
}

/// What a joined server is given.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub certificate: CertificateDer<'static>,
    pub authority: CertificateDer<'static>,
    pub list: MemberList,
    pub tree: Vec<u8>,
}

/// The most that a joining server is told of the tree, in bytes.
pub(crate) const TREE_BYTES_MAX: usize = 4096;

/// The directory in which a replica keeps what it knows of its set.
#[derive(Clone, Debug)]
pub struct SetDirectory {
    path: PathBuf,
}

impl SetDirectory {
    /// A directory that holds a set, or will.
    pub fn new(path: impl Into<PathBuf>) -> SetDirectory {
        SetDirectory { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a set that nothing is said about, for [`SetDirectory::create_for`] with an empty tree.
    ///
    /// # Errors
    /// As [`SetDirectory::create_for`].
    pub fn create(&self, addresses: Vec<String>, now: SystemTime) -> Result<SetId, SetError> {
        self.create_for(&[], addresses, now)
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
        files::replace(&self.file("authority.key"), authority_key.as_bytes())?;
        let members = vec![Member {
            slot: FIRST_SLOT.0,
            addresses,
            revoked: false,
            witness: false,
        }];
        let authority = CertificateDer::from_pem_slice(authority.as_bytes())
            .map_err(|error| SetError::Certificate(error.to_string()))?;
        self.write_replica(&key.serialize_pem(), &certificate, &authority)?;
        files::replace(&self.file(TREE), tree)?;
        self.write_set(&SetFile {
            set: set.to_string(),
            slot: FIRST_SLOT.0,
            next_slot: u32::from(FIRST_SLOT.0) + 1,
            list: MemberList {
                version: 1,
                members,
            },
        })?;
        Ok(set)
    }

    /// Reserves a slot and makes the token for one more replica, which works once, for `lifetime`.
    /// Printing it is the caller's; it is a password.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] elsewhere than where the set was created, and file errors.
    pub fn invite(&self, lifetime: Duration, now: SystemTime) -> Result<Token, SetError> {
        self.invite_as(false, lifetime, now)
    }

    /// The same, for a member that votes and keeps no contents.
    ///
    /// # Errors
    /// As [`SetDirectory::invite`].
    pub fn invite_witness(&self, lifetime: Duration, now: SystemTime) -> Result<Token, SetError> {
        self.invite_as(true, lifetime, now)
    }

    fn invite_as(
        &self,
        witness: bool,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Token, SetError> {
        let _lock = self.open()?;
        let mut set = self.read_set()?;
        if !self.keeps_authority() {
            return Err(SetError::NoAuthority);
        }
        let slot = u16::try_from(set.next_slot).map_err(|_| SetError::SlotsExhausted)?;
        set.next_slot += 1;
        let members = &set.list.members;
        let own = members.iter().find(|member| member.slot == set.slot);
        let secret: [u8; 32] = random()?;
        let expires_unix_s = unix_seconds(now + lifetime);
        let token = Token {
            set: self.set_id(&set)?,
            slot: ReplicaSlot(slot),
            addresses: own.map(|own| own.addresses.clone()).unwrap_or_default(),
            authority_fingerprint: fingerprint(&self.certificate("authority.pem")?),
            secret,
            expires: UNIX_EPOCH + Duration::from_secs(expires_unix_s),
        };
        let mut invitations = self.read_invitations()?;
        invitations.push(Invitation::new(slot, witness, expires_unix_s, &secret));
        // The slot first: a crash between the two wastes it, which is better than giving it twice.
        self.write_set(&set)?;
        self.write_invitations(&invitations)?;
        Ok(token)
    }

    /// Marks a member as removed, so that servers which learn of it refuse it. A running one is told with
    /// [`crate::Endpoint::revoke`].
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] elsewhere than where the set was created, [`SetError::Founder`] for that
    /// replica itself, [`SetError::NoSuchMember`] and file errors.
    pub fn revoke(&self, slot: ReplicaSlot) -> Result<(), SetError> {
        let _lock = self.open()?;
        let mut set = self.read_set()?;
        if !self.keeps_authority() {
            return Err(SetError::NoAuthority);
        }
        if slot.0 == set.slot {
            return Err(SetError::Founder);
        }
        let mut members = set.list.members.iter();
        let member = members.find(|member| member.slot == slot.0).cloned();
        let member = member.ok_or(SetError::NoSuchMember(slot.0))?;
        if !member.revoked {
            set.put(Member {
                revoked: true,
                ..member
            });
            self.write_set(&set)?;
        }
        Ok(())
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

    /// Takes over a list that another replica showed, if it is newer than what is known here. Says whether it
    /// was. A replica that keeps the authority's key knows best and takes nothing.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn learn(&self, list: MemberList) -> Result<bool, SetError> {
        let _lock = self.open()?;
        let mut set = self.read_set()?;
        if self.keeps_authority() || list.version <= set.list.version {
            return Ok(false);
        }
        set.list = list;
        self.write_set(&set)?;
        Ok(true)
    }

    /// What all replicas were told of the tree when they joined, as [`SetDirectory::create_for`] took it.
    ///
    /// # Errors
    /// [`SetError::NoSet`] and file errors.
    pub fn tree(&self) -> Result<Vec<u8>, SetError> {
        if !self.exists() {
            return Err(SetError::NoSet(self.path.clone()));
        }
        files::read_bytes(&self.file(TREE))
    }

    /// Whether this replica can admit others.
    #[must_use]
    pub fn keeps_authority(&self) -> bool {
        self.file("authority.key").exists()
    }

    /// What this replica proves itself with.
    ///
    /// # Errors
    /// [`SetError::NoSet`], [`SetError::Damaged`] and file errors.
    pub fn identity(&self) -> Result<Identity, SetError> {
        let file = self.read_set()?;
        let certificate = self.certificate("replica.pem")?;
        let (set, slot) = (self.set_id(&file)?, ReplicaSlot(file.slot));
        if replica_of(&certificate) != Some((set, slot)) {
            let path = self.file("replica.pem");
            return Err(damaged(&path, "it is the certificate of another replica"));
        }
        let path = self.file("replica.key");
        let key = PrivateKeyDer::from_pem_slice(files::read(&path)?.as_bytes())
            // The error might quote the key.
            .map_err(|_| damaged(&path, "it holds no private key"))?;
        Ok(Identity {
            set,
            slot,
            certificate,
            key,
            authority: self.certificate("authority.pem")?,
        })
    }

    /// Checks what a server shows that wants to join, and signs its request.
    ///
    /// # Errors
    /// [`SetError::Refused`] and [`SetError::Token`] with what to tell it.
    pub(crate) fn admit(
        &self,
        slot: ReplicaSlot,
        shown: &[u8],
        request: &CertificateSigningRequestDer<'_>,
        addresses: Vec<String>,
        now: SystemTime,
    ) -> Result<Admission, SetError> {
        let _lock = self.open()?;
        let mut file = self.read_set()?;
        let set = self.set_id(&file)?;
        let mut invitations = self.read_invitations()?;
        let invitation = invitations
            .iter_mut()
            .find(|invitation| invitation.slot == slot.0)
            .ok_or_else(unknown_token)?;
        invitation.check(set, shown, request, now)?;
        let revoked = |member: &Member| member.slot == slot.0 && member.revoked;
        if file.list.members.iter().any(revoked) {
            return Err(SetError::Refused(
                "this replica was removed from the set; ask for a new token".to_owned(),
            ));
        }
        let certificate = sign(
            &files::read(&self.file("authority.pem"))?,
            &files::read(&self.file("authority.key"))?,
            request,
            set,
            slot,
            now,
            CERTIFICATE_LIFETIME,
        )?;
        invitation.use_up(request);
        file.put(Member {
            slot: slot.0,
            addresses,
            revoked: false,
            witness: invitation.witness,
        });
        self.write_invitations(&invitations)?;
        self.write_set(&file)?;
        Ok(Admission {
            certificate,
            authority: self.certificate("authority.pem")?,
            list: file.list,
            tree: files::read_bytes(&self.file(TREE))?,
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
        self.write_replica(key_pem, &admission.certificate, &admission.authority)?;
        files::replace(&self.file(TREE), &admission.tree)?;
        self.write_set(&SetFile {
            set: set.to_string(),
            slot: slot.0,
            next_slot: 0,
            list: admission.list.clone(),
        })
    }

    /// Whether the directory holds a set.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.file("set.json").exists()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Locks a directory that must not hold a set yet.
    fn begin(&self) -> Result<DirectoryLock, SetError> {
        files::make_directory(&self.path)?;
        let lock = DirectoryLock::acquire(&self.path)?;
        if self.exists() {
            return Err(SetError::Exists(self.path.clone()));
        }
        Ok(lock)
    }

    /// Locks a directory that must hold one.
    fn open(&self) -> Result<DirectoryLock, SetError> {
        if !self.exists() {
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

    fn certificate(&self, name: &str) -> Result<CertificateDer<'static>, SetError> {
        let path = self.file(name);
        CertificateDer::from_pem_slice(files::read(&path)?.as_bytes())
            .map_err(|error| damaged(&path, error))
    }

    fn read_set(&self) -> Result<SetFile, SetError> {
        if !self.exists() {
            return Err(SetError::NoSet(self.path.clone()));
        }
        let path = self.file("set.json");
        serde_json::from_str(&files::read(&path)?).map_err(|error| damaged(&path, error))
    }

    /// Written last of all files when a set is begun: without it there is none.
    fn write_set(&self, set: &SetFile) -> Result<(), SetError> {
        self.write_json("set.json", set)
    }

    fn set_id(&self, set: &SetFile) -> Result<SetId, SetError> {
        SetId::parse(&set.set)
            .ok_or_else(|| damaged(&self.file("set.json"), "the identifier of the set is none"))
    }

    fn read_invitations(&self) -> Result<Vec<Invitation>, SetError> {
        let path = self.file("invitations.json");
        if !path.exists() {
            return Ok(Vec::new());
        }
        // The error might quote a secret.
        serde_json::from_str(&files::read(&path)?)
            .map_err(|_| damaged(&path, "it is not what `meridian set invite` writes"))
    }

    fn write_invitations(&self, invitations: &[Invitation]) -> Result<(), SetError> {
        self.write_json("invitations.json", &invitations)
    }

    fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), SetError> {
        let path = self.file(name);
        let json = serde_json::to_vec_pretty(content).map_err(|error| damaged(&path, error))?;
        files::replace(&path, &json)
    }
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

fn random<const N: usize>() -> Result<[u8; N], SetError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| SetError::Certificate(error.to_string()))?;
    Ok(bytes)
}
