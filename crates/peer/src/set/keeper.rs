//! Operations of the keeper of the set's authority: invite, admit, remove, change addresses.
//!
//! Only the keeper of the authority's key may make these changes. They are made under the directory's lock, so that a
//! command may run beside the server. What must never enter: the network.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateSigningRequestDer;
use vfs::ReplicaSlot;

use super::authority::{CERTIFICATE_LIFETIME, is_key_of, sign};
use super::directory::{AUTHORITY_KEY, Admission, SetDirectory, SetFile, TREE, random};
use super::files::{self, damaged};
use super::invitation::{Invitation, Role, unknown_token};
use super::list::{MEMBERS_EVER_MAX, Member, Places, are_addresses, are_client_addresses, is_name};
use super::token::{Token, unix_seconds};
use super::{Kind, SetError};
use crate::tls::fingerprint;

/// The maximum number of outstanding tokens.
const TOKENS_MAX: usize = 64;

/// A token that was issued, is valid, and was not used. Only its holder knows its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// The slot of the server that uses it.
    pub slot: ReplicaSlot,
    /// The server that uses it becomes a witness.
    pub witness: bool,
    /// The server that uses it becomes a metadata server of the pool.
    pub metadata_server: bool,
    /// When it expires, in whole seconds.
    pub expires: SystemTime,
}

impl SetDirectory {
    /// Reads the set's file on the keeper of the authority.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] on another replica, with the keeper; [`SetError::KeyLost`] if the key is missing.
    pub(super) fn read_as_keeper(&self) -> Result<SetFile, SetError> {
        let file = self.read_set()?;
        match self.may_sign(&file) {
            true => Ok(file),
            false if file.list.keeper == file.slot && !file.superseded => Err(SetError::KeyLost),
            false => Err(SetError::NoAuthority {
                keeper: file.list.keeper,
                addresses: file.list.keeper_addresses(),
            }),
        }
    }

    /// Checks the files that only the keeper of the authority needs, if this replica is the keeper, and any key that is
    /// stored here.
    ///
    /// # Errors
    /// [`SetError::KeyLost`], [`SetError::Damaged`] and file errors.
    pub fn check_authority(&self) -> Result<(), SetError> {
        self.read_invitations()?;
        let path = self.file(AUTHORITY_KEY);
        if files::exists(&path)? {
            let certificate = self.certificate("authority.pem")?;
            return match is_key_of(&certificate, &files::read(&path)?) {
                true => Ok(()),
                false => Err(damaged(&path, "it is not the key of the set's authority")),
            };
        }
        match self.read_as_keeper() {
            Err(SetError::NoAuthority { .. }) => Ok(()),
            others => others.map(drop),
        }
    }

    /// Makes the token for one more replica. It works once, within `lifetime`, and reserves a slot for that time. The
    /// member gets this role, and this name unless it is empty. The caller prints the token, which is a password.
    ///
    /// A slot is reused when its token expired or was revoked unused. That is safe because the token's secret, not the
    /// slot, admits a server, and the secret is deleted here before another token gets the slot. After a server has
    /// joined in a slot, the signed list names it for ever, removed or not, and no other server gets the slot.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] elsewhere than where the authority is kept, [`SetError::TooManyMembers`],
    /// [`SetError::TooManyTokens`], [`SetError::SlotsExhausted`], [`SetError::Name`], [`SetError::NameTaken`], and file errors.
    pub fn invite_as(
        &self,
        role: Role,
        name: &str,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Token, SetError> {
        let _lock = self.open()?;
        let set = self.read_as_keeper()?;
        let mut invitations = self.read_invitations()?;
        check_name(&set, None, name)?;
        let mut others = invitations.iter().filter(|other| other.is_open(now));
        if let Some(other) = others.find(|other| !name.is_empty() && other.name == name) {
            return Err(SetError::NameTaken(name.to_owned(), other.slot));
        }
        let slot = free_slot(self.kind(), &set, &invitations, now)?;
        let own = set.list.member(set.slot);
        let secret: [u8; 32] = random()?;
        let expires_unix_s = unix_seconds(now + lifetime);
        let token = Token {
            kind: self.kind(),
            set: self.set_id(&set)?,
            slot: ReplicaSlot(slot),
            addresses: own.map(|own| own.addresses.clone()).unwrap_or_default(),
            authority_fingerprint: fingerprint(&self.certificate("authority.pem")?),
            secret,
            expires: UNIX_EPOCH + Duration::from_secs(expires_unix_s),
        };
        // The server that had reserved the slot has no valid token any more.
        invitations.retain(|other| other.slot != slot);
        invitations.push(Invitation::new(
            slot,
            (role, name.to_owned()),
            expires_unix_s,
            &secret,
        ));
        self.write_invitations(&invitations)?;
        Ok(token)
    }

    /// The tokens that are still valid, by slot.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep the authority, and file errors.
    pub fn tokens(&self, now: SystemTime) -> Result<Vec<Outstanding>, SetError> {
        let _lock = self.open()?;
        self.read_as_keeper()?;
        let invitations = self.read_invitations()?;
        let open = invitations.iter().filter(|one| one.is_open(now));
        let mut tokens: Vec<Outstanding> = open
            .map(|one| Outstanding {
                slot: ReplicaSlot(one.slot),
                witness: one.witness,
                metadata_server: one.metadata_server,
                expires: one.expires(),
            })
            .collect();
        tokens.sort_by_key(|token| token.slot);
        Ok(tokens)
    }

    /// Makes the token for a slot invalid.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep the authority, [`SetError::NoSuchToken`] if no token is
    /// outstanding for the slot, and file errors.
    pub fn revoke_token(&self, slot: ReplicaSlot, now: SystemTime) -> Result<(), SetError> {
        let _lock = self.open()?;
        self.read_as_keeper()?;
        let mut invitations = self.read_invitations()?;
        let before = invitations.len();
        invitations.retain(|one| one.slot != slot.0 || !one.is_open(now));
        if invitations.len() == before {
            return Err(SetError::NoSuchToken(slot.0));
        }
        self.write_invitations(&invitations)
    }

    /// Marks a member as removed, so that servers that learn of it refuse it. Use [`crate::Endpoint::revoke`] to tell a
    /// running server.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep the authority, [`SetError::Keeper`] for this replica
    /// itself, [`SetError::NoSuchMember`] and file errors.
    pub fn revoke(&self, slot: ReplicaSlot) -> Result<(), SetError> {
        let _lock = self.open()?;
        let mut set = self.read_as_keeper()?;
        if slot.0 == set.slot {
            return Err(SetError::Keeper);
        }
        let member = set.list.member(slot.0).cloned();
        let member = member.ok_or(SetError::NoSuchMember(slot.0))?;
        if member.revoked {
            return Ok(());
        }
        set.list.put(Member {
            revoked: true,
            ..member
        });
        self.sign_and_write(&mut set)
    }

    /// Changes the addresses of a member for other members. Returns whether this is a change.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep the authority, [`SetError::NoSuchMember`] also for a
    /// removed member, [`SetError::Address`], [`SetError::AddressTaken`] and file errors.
    pub fn set_addresses(
        &self,
        slot: ReplicaSlot,
        addresses: Vec<String>,
    ) -> Result<bool, SetError> {
        if let Some((address, other)) = self.member_list()?.reached_at(&addresses, slot) {
            return Err(SetError::AddressTaken(address, other));
        }
        self.change_member(slot, &addresses, |member| &mut member.addresses)
    }

    /// Changes the addresses of a member for clients. With no address they are derived from its addresses for members.
    /// Returns whether this is a change.
    ///
    /// # Errors
    /// Like [`SetDirectory::set_addresses`].
    pub fn set_client_addresses(
        &self,
        slot: ReplicaSlot,
        addresses: Vec<String>,
    ) -> Result<bool, SetError> {
        if !are_client_addresses(&addresses) {
            return Err(SetError::Address);
        }
        self.change_member(slot, &addresses, |member| &mut member.client_addresses)
    }

    fn change_member(
        &self,
        slot: ReplicaSlot,
        addresses: &[String],
        part: impl Fn(&mut Member) -> &mut Vec<String>,
    ) -> Result<bool, SetError> {
        if !are_addresses(addresses) {
            return Err(SetError::Address);
        }
        let _lock = self.open()?;
        let mut set = self.read_as_keeper()?;
        let member = set.list.member(slot.0).filter(|member| !member.revoked);
        let mut member = member.ok_or(SetError::NoSuchMember(slot.0))?.clone();
        if *part(&mut member) == *addresses {
            return Ok(false);
        }
        *part(&mut member) = addresses.to_vec();
        set.list.put(member);
        self.sign_and_write(&mut set)?;
        Ok(true)
    }

    /// Changes the name of a member; an empty name removes it.
    ///
    /// # Errors
    /// [`SetError::NoAuthority`] if this replica does not keep the authority, [`SetError::NoSuchMember`] also for a
    /// removed member, [`SetError::Name`], [`SetError::NameTaken`] and file errors.
    pub fn set_name(&self, slot: ReplicaSlot, name: &str) -> Result<(), SetError> {
        let _lock = self.open()?;
        let mut set = self.read_as_keeper()?;
        let member = set.list.member(slot.0).filter(|member| !member.revoked);
        let member = member.ok_or(SetError::NoSuchMember(slot.0))?.clone();
        check_name(&set, Some(slot.0), name)?;
        if member.name == name {
            return Ok(());
        }
        let name = name.to_owned();
        set.list.put(Member { name, ..member });
        self.sign_and_write(&mut set)
    }

    /// Checks the proof of a server that wants to join, and signs its request.
    ///
    /// # Errors
    /// [`SetError::Refused`] and [`SetError::Token`] with the text for the server.
    pub(crate) fn admit(
        &self,
        slot: ReplicaSlot,
        shown: &[u8],
        request: &CertificateSigningRequestDer<'_>,
        places: impl Into<Places>,
        now: SystemTime,
    ) -> Result<Admission, SetError> {
        let places = places.into();
        let _lock = self.open()?;
        let mut file = self.read_as_keeper()?;
        let (kind, set) = (self.kind(), self.set_id(&file)?);
        let mut invitations = self.read_invitations()?;
        let invitation = invitations
            .iter_mut()
            .find(|invitation| invitation.slot == slot.0)
            .ok_or_else(|| unknown_token(kind))?;
        invitation.check((kind, set), shown, (request, &places), now)?;
        if !places.are_right() {
            return Err(SetError::Refused(SetError::Address.to_string()));
        }
        check_place(kind, &file, slot.0, invitation)?;
        let certificate = sign(
            &files::read(&self.file("authority.pem"))?,
            &files::read(&self.file(AUTHORITY_KEY))?,
            request,
            set,
            slot,
            now,
            CERTIFICATE_LIFETIME,
        )?;
        invitation.use_up(request);
        let tree = files::read_bytes(&self.file(TREE))?;
        let proof = invitation.prove_answer((kind, set), request, &tree)?;
        let (witness, metadata_server) = (invitation.witness, invitation.metadata_server);
        // If it asks again, it may have been renamed since it was admitted.
        let known = file.list.member(slot.0).map(|known| known.name.clone());
        let name = known.unwrap_or_else(|| invitation.name.clone());
        self.write_invitations(&invitations)?;
        let known = file.list.member(slot.0);
        let member = Member {
            slot: slot.0,
            addresses: places.addresses,
            client_addresses: match known {
                Some(known) if places.client_addresses.is_empty() => known.client_addresses.clone(),
                _ => places.client_addresses,
            },
            revoked: false,
            witness,
            metadata_server,
            name,
        };
        if known != Some(&member) {
            file.list.put(member);
            self.sign_and_write(&mut file)?;
        }
        Ok(Admission {
            certificate,
            authority: self.certificate("authority.pem")?,
            list: file.list,
            tree,
            proof,
        })
    }
}

/// Whether a member, or a new one, may have this name.
fn check_name(set: &SetFile, slot: Option<u16>, name: &str) -> Result<(), SetError> {
    if name.is_empty() {
        return Ok(());
    }
    if !is_name(name) {
        return Err(SetError::Name(name.to_owned()));
    }
    let mut others = set.list.members.iter();
    let taken = |other: &&Member| !other.revoked && other.name == name && Some(other.slot) != slot;
    match others.find(taken) {
        Some(other) => Err(SetError::NameTaken(name.to_owned(), other.slot)),
        None => Ok(()),
    }
}

/// Whether a slot that a token reserved may be taken now. It may not if a server joined in it before the files here
/// were restored from a backup.
fn check_place(
    kind: Kind,
    file: &SetFile,
    slot: u16,
    invitation: &Invitation,
) -> Result<(), SetError> {
    let refused = |reason: &str| Err(SetError::Refused(reason.to_owned()));
    match file.list.member(slot) {
        Some(member) if member.revoked => refused("this server was removed; ask for a new token"),
        Some(_) if !invitation.is_used() => {
            refused("another server has the slot of the token; ask for a new token")
        }
        Some(_) => Ok(()),
        None if slot < file.list.slots_from => {
            refused("the slot of the token is used up; ask for a new token")
        }
        None if is_full(kind, file) => Err(SetError::Refused(
            SetError::TooManyMembers(kind).to_string(),
        )),
        None => Ok(()),
    }
}

fn is_full(kind: Kind, file: &SetFile) -> bool {
    let members = file.list.members.iter();
    members.filter(|member| !member.revoked).count() >= kind.members_max()
}

/// The first slot that was never used and that no token reserves.
fn free_slot(
    kind: Kind,
    file: &SetFile,
    invitations: &[Invitation],
    now: SystemTime,
) -> Result<u16, SetError> {
    if is_full(kind, file) {
        return Err(SetError::TooManyMembers(kind));
    }
    let reserved = |slot: u16| {
        let mut invitations = invitations.iter();
        invitations.any(|one| one.slot == slot && one.is_open(now))
    };
    if invitations.iter().filter(|one| one.is_open(now)).count() >= TOKENS_MAX {
        return Err(SetError::TooManyTokens);
    }
    if file.list.members.len() >= MEMBERS_EVER_MAX {
        return Err(SetError::SlotsExhausted);
    }
    let mut slots = file.list.slots_from.max(1)..=u16::MAX;
    slots
        .find(|slot| file.list.member(*slot).is_none() && !reserved(*slot))
        .ok_or(SetError::SlotsExhausted)
}
