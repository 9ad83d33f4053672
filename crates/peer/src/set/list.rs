//! The list of members that the set's authority signs: its content, which of two lists is newer, and its encoding.
//!
//! The keeper of the authority's key signs every list. The signed encoding names the set, so that no member can forge a
//! list. What must never enter: files and keys.

use bytes::Bytes;
use data_encoding::BASE64;
use prost::Message as _;
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::identity::SetId;

/// The prefix of the signed bytes, so that a signature over other data is not valid for a list. The number is the
/// version of the encoding.
const DOMAIN: &[u8] = b"meridian list of members 1\0";

/// The maximum number of members at one time, witnesses included: the maximum with which views can be agreed on.
pub const MEMBERS_MAX: usize = 9;

/// The maximum number of members in a list, removed ones included. After that a new set has to be created.
pub const MEMBERS_EVER_MAX: usize = 1024;

/// The maximum size of an encoded list, without its signature. It has to fit into the body of a message, and into a
/// refusal, beside other data. Removed members are never called, so their addresses are dropped if necessary.
const LIST_BYTES_MAX: usize = 32 * 1024;

/// The maximum number of addresses of one member for other replicas.
const ADDRESSES_MAX: usize = 4;

/// The same for clients: one for each version of IP.
const CLIENT_ADDRESSES_MAX: usize = 2;

/// The maximum size of a member's name.
const NAME_BYTES_MAX: usize = 32;

/// The maximum size of an address: a name of 253 bytes, brackets, a colon and a port.
const ADDRESS_BYTES_MAX: usize = 261;

/// A replica of the set, as the set's files know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its slot.
    pub slot: u16,
    /// Where it listens for peers, `host:port`.
    pub addresses: Vec<String>,
    /// Where clients reach it, `host:port`, if this was configured. Older files do not have this field.
    #[serde(default)]
    pub client_addresses: Vec<String>,
    /// It was removed: it is refused, whatever certificate it shows.
    pub revoked: bool,
    /// It was invited as a witness: it votes and keeps no contents. Older files do not have this field.
    #[serde(default)]
    pub witness: bool,
    /// It was invited as a metadata server of a pool. It is not set for the first one, which keeps the authority.
    #[serde(default)]
    pub metadata_server: bool,
    /// Its name; empty when it has none.
    #[serde(default)]
    pub name: String,
}

/// The members of a set, signed by its authority. Only the keeper of the authority's key can make one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberList {
    /// How often the authority was moved or restored, from 1. A list of a later term replaces those of all earlier terms.
    pub term: u64,
    /// The slot of the only replica that signs lists in this term.
    pub keeper: u16,
    /// Grows with each change: the time of the signature in milliseconds since 1970, or the previous version plus one
    /// if that is larger. So a keeper with outdated files does not sign two lists with the same version.
    pub version: u64,
    /// No smaller slot is given to a new member any more, whether its former member is known or not.
    pub slots_from: u16,
    /// The members, removed ones included, by slot.
    pub members: Vec<Member>,
    /// The authority's signature: ECDSA over P-256 with SHA-256 (FIPS 186-5), as DER in Base64.
    pub signature: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireList {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(uint32, tag = "2")]
    keeper: u32,
    #[prost(uint64, tag = "3")]
    version: u64,
    #[prost(uint32, tag = "4")]
    slots_from: u32,
    #[prost(message, repeated, tag = "5")]
    members: Vec<WireMember>,
    /// Empty in the signed encoding.
    #[prost(bytes = "bytes", tag = "6")]
    signature: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireMember {
    #[prost(uint32, tag = "1")]
    slot: u32,
    #[prost(string, repeated, tag = "2")]
    addresses: Vec<String>,
    #[prost(bool, tag = "3")]
    revoked: bool,
    #[prost(bool, tag = "4")]
    witness: bool,
    /// A list without such addresses has the same bytes as older lists, and so the same signature.
    #[prost(string, repeated, tag = "5")]
    client_addresses: Vec<String>,
    #[prost(string, tag = "6")]
    name: String,
    /// As with the addresses of clients: if no member is a metadata server, the bytes are the same as before.
    #[prost(bool, tag = "7")]
    metadata_server: bool,
}

impl MemberList {
    /// The member in this slot.
    #[must_use]
    pub fn member(&self, slot: u16) -> Option<&Member> {
        self.members.iter().find(|member| member.slot == slot)
    }

    /// Whether the member in this slot was invited as a witness.
    #[must_use]
    pub fn is_witness(&self, slot: u16) -> bool {
        self.member(slot).is_some_and(|member| member.witness)
    }

    /// The addresses of the keeper of the authority, for people; empty when it has none.
    #[must_use]
    pub fn keeper_addresses(&self) -> String {
        let keeper = self.member(self.keeper);
        keeper.map_or_else(String::new, |keeper| keeper.addresses.join(", "))
    }

    /// Whether this list replaces the other one. The larger term wins. Within a term, which two replicas can have if
    /// both restored the authority at the same time, the larger slot of the keeper wins; then the larger version.
    #[must_use]
    pub fn is_newer_than(&self, other: &MemberList) -> bool {
        let rank = |list: &MemberList| (list.term, list.keeper, list.version);
        rank(self) > rank(other)
    }

    /// Whether this list contains every irrevocable fact of the other list: the members, their roles, the removed
    /// members, and the used slots. If a list does not cover what a member knows, its signer did not know that.
    #[must_use]
    pub fn covers(&self, other: &MemberList) -> bool {
        self.slots_from >= other.slots_from
            && other.members.iter().all(|theirs| {
                self.member(theirs.slot).is_some_and(|ours| {
                    (ours.revoked || !theirs.revoked)
                        && (ours.witness || !theirs.witness)
                        && (ours.metadata_server || !theirs.metadata_server)
                })
            })
    }

    /// Adds what [`MemberList::covers`] found missing. This invalidates the signature.
    pub(super) fn take_in(&mut self, other: &MemberList) {
        self.slots_from = self.slots_from.max(other.slots_from);
        self.version = self.version.max(other.version);
        for theirs in &other.members {
            match self
                .members
                .iter_mut()
                .find(|ours| ours.slot == theirs.slot)
            {
                Some(ours) => {
                    ours.revoked |= theirs.revoked;
                    ours.witness |= theirs.witness;
                    ours.metadata_server |= theirs.metadata_server;
                }
                None => self.put(theirs.clone()),
            }
        }
    }

    /// Replaces the entry of one member, or adds it. This invalidates the signature.
    pub(super) fn put(&mut self, member: Member) {
        self.members.retain(|other| other.slot != member.slot);
        self.members.push(member);
        self.members.sort_by_key(|member| member.slot);
    }

    /// Another member that the others reach at one of these addresses, and that address.
    pub(super) fn reached_at(
        &self,
        addresses: &[String],
        by: ReplicaSlot,
    ) -> Option<(String, u16)> {
        let others = self.members.iter();
        let mut others = others.filter(|member| member.slot != by.0 && !member.revoked);
        others.find_map(|member| {
            let is_known = |address: &&String| {
                let mut known = member.addresses.iter();
                known.any(|known| known.eq_ignore_ascii_case(address))
            };
            let address = addresses.iter().find(is_known)?;
            Some((address.clone(), member.slot))
        })
    }

    /// If a list is too large, removes the addresses and names of removed members, one member after the other until it
    /// fits. This invalidates the signature.
    pub(super) fn shorten(&mut self) {
        while self.unsigned().encoded_len() > LIST_BYTES_MAX {
            let mut members = self.members.iter_mut();
            let says_more =
                |member: &Member| !(member.addresses.is_empty() && member.name.is_empty());
            let spare = members.find(|member| member.revoked && says_more(member));
            let Some(member) = spare else { return };
            member.addresses.clear();
            member.client_addresses.clear();
            member.name.clear();
        }
    }

    fn unsigned(&self) -> WireList {
        WireList {
            signature: Bytes::new(),
            ..self.wire()
        }
    }

    /// The bytes that the authority signs.
    pub(super) fn signed_bytes(&self, set: SetId) -> Vec<u8> {
        let unsigned = self.unsigned();
        let mut bytes = DOMAIN.to_vec();
        bytes.extend_from_slice(&set.0);
        // One list has one encoding: fields in the order of their tags, no maps, members by slot.
        bytes.extend_from_slice(&unsigned.encode_to_vec());
        bytes
    }

    /// Why no authority signs such a list; `None` if it may. Bounds the stored and forwarded data.
    pub(super) fn objection(&self) -> Option<&'static str> {
        let ascending = |pair: &[Member]| pair[0].slot < pair[1].slot;
        if self.members.len() > MEMBERS_EVER_MAX {
            return Some("it names too many members");
        }
        if self.members.first().is_none_or(|first| first.slot == 0)
            || !self.members.windows(2).all(ascending)
        {
            return Some("its members are not in order");
        }
        if !self.members.iter().all(|member| {
            are_addresses(&member.addresses) && are_client_addresses(&member.client_addresses)
        }) {
            return Some("an address in it is none");
        }
        if !self
            .members
            .iter()
            .all(|member| member.name.is_empty() || is_name(&member.name))
        {
            return Some("a name in it is none");
        }
        if self.unsigned().encoded_len() > LIST_BYTES_MAX {
            return Some("it is too long to be told to anybody");
        }
        if self.member(self.keeper).is_none_or(|keeper| keeper.revoked) {
            return Some("it is kept by nobody");
        }
        None
    }

    fn wire(&self) -> WireList {
        let members = self.members.iter().map(|member| WireMember {
            slot: member.slot.into(),
            addresses: member.addresses.clone(),
            revoked: member.revoked,
            witness: member.witness,
            metadata_server: member.metadata_server,
            client_addresses: member.client_addresses.clone(),
            name: member.name.clone(),
        });
        WireList {
            term: self.term,
            keeper: self.keeper.into(),
            version: self.version,
            slots_from: self.slots_from.into(),
            members: members.collect(),
            // Invalid Base64 becomes an empty signature, which is invalid too.
            signature: BASE64
                .decode(self.signature.as_bytes())
                .unwrap_or_default()
                .into(),
        }
    }

    /// The encoding for a joining server.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.wire().encode_to_vec()
    }

    /// Decodes the result of [`MemberList::encode`]; `None` if it is invalid. The signature is not checked.
    pub(super) fn decode(bytes: &[u8]) -> Option<MemberList> {
        let wire = WireList::decode(bytes).ok()?;
        let members = wire.members.into_iter().map(|member| {
            Some(Member {
                slot: member.slot.try_into().ok()?,
                addresses: member.addresses,
                client_addresses: member.client_addresses,
                revoked: member.revoked,
                witness: member.witness,
                metadata_server: member.metadata_server,
                name: member.name,
            })
        });
        Some(MemberList {
            term: wire.term,
            keeper: wire.keeper.try_into().ok()?,
            version: wire.version,
            slots_from: wire.slots_from.try_into().ok()?,
            members: members.collect::<Option<_>>()?,
            signature: BASE64.encode(&wire.signature),
        })
    }
}

/// The addresses of a member that joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Where it listens for peers, `host:port`.
    pub addresses: Vec<String>,
    /// Where clients reach it, `host:port`; if empty, derived from the addresses for peers.
    pub client_addresses: Vec<String>,
}

impl Places {
    /// Whether all of these are valid addresses.
    pub(super) fn are_right(&self) -> bool {
        are_addresses(&self.addresses) && are_client_addresses(&self.client_addresses)
    }
}

impl From<Vec<String>> for Places {
    fn from(addresses: Vec<String>) -> Places {
        Places {
            addresses,
            client_addresses: Vec::new(),
        }
    }
}

/// The same for the addresses for clients.
pub(super) fn are_client_addresses(addresses: &[String]) -> bool {
    addresses.len() <= CLIENT_ADDRESSES_MAX && are_addresses(addresses)
}

/// Whether this is a valid name of a member: up to 32 letters, digits, hyphens, underscores and dots, with a letter
/// first. So it cannot be mistaken for a slot number, and never needs quoting.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(fits)
}

/// Whether these are valid addresses of a member, `host:port` each. It is not checked that a server listens there.
pub(super) fn are_addresses(addresses: &[String]) -> bool {
    let is_address = |address: &String| {
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        address.len() <= ADDRESS_BYTES_MAX
            && address.bytes().all(|byte| byte.is_ascii_graphic())
            && matches!(port, Some(Ok(_)))
    };
    addresses.len() <= ADDRESSES_MAX && addresses.iter().all(is_address)
}
