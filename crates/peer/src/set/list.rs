//! The list of members, as the set's authority signs it: what it says, which of two counts, and its bytes.
//!
//! The keeper of the authority's key signs every list, over an encoding that names the set, so that
//! no member can make one. What must never enter: files and keys.

use bytes::Bytes;
use data_encoding::BASE64;
use prost::Message as _;
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::identity::SetId;

/// What is signed begins with this, so that a signature over anything else is none over a list. The number is the
/// version of the encoding.
const DOMAIN: &[u8] = b"meridian list of members 1\0";

/// Members at one time, witnesses included: as many as views can be agreed on with.
pub const MEMBERS_MAX: usize = 9;

/// Members that a list names at most, removed ones included; a set that has used up as many has to be made anew.
pub const MEMBERS_EVER_MAX: usize = 1024;

/// Bytes of a list, without its signature, as it travels: it has to fit into the body of a message, and into a refusal, beside
/// other things. Nobody calls members that were removed, so their addresses give way.
const LIST_BYTES_MAX: usize = 32 * 1024;

/// Addresses of one member, for other replicas.
const ADDRESSES_MAX: usize = 4;

/// The same for clients: one of each version of IP.
const CLIENT_ADDRESSES_MAX: usize = 2;

/// Bytes of a member's name.
const NAME_BYTES_MAX: usize = 32;

/// Bytes of an address: a name of 253, brackets, a colon and a port.
const ADDRESS_BYTES_MAX: usize = 261;

/// A replica of the set, as the set's files know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its slot.
    pub slot: u16,
    /// Where it listens for peers, `host:port`.
    pub addresses: Vec<String>,
    /// Where clients reach it, `host:port`, if somebody has said so. Files written before members had such addresses do not
    /// say so of anybody.
    #[serde(default)]
    pub client_addresses: Vec<String>,
    /// It was removed: whatever certificate it shows is refused.
    pub revoked: bool,
    /// It was invited as a witness: it votes, and keeps no contents. Files written before there were witnesses do
    /// not say so of anybody.
    #[serde(default)]
    pub witness: bool,
    /// It was invited as a metadata server of a pool. Nothing says so of the first one, which keeps the authority.
    #[serde(default)]
    pub metadata_server: bool,
    /// What people call it; empty when nobody has given it a name.
    #[serde(default)]
    pub name: String,
}

/// The members of a set, signed by its authority. Only the keeper of the authority's key makes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberList {
    /// How often the authority was moved or restored, from 1. A list of a later term replaces those of all earlier ones.
    pub term: u64,
    /// The slot of the only replica that signs lists in this term.
    pub keeper: u16,
    /// Grows with each change: the time at which the list was signed, in milliseconds since 1970, or one more than the
    /// version before, whichever is larger. A keeper whose files are older than what others know so does not sign two
    /// lists with one version.
    pub version: u64,
    /// No slot below is given to anybody any more, whether it is known who had it or not.
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
    /// Empty in what is signed.
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
    /// A list in which there are none has the bytes, and so the signature, of those written before there could be any.
    #[prost(string, repeated, tag = "5")]
    client_addresses: Vec<String>,
    #[prost(string, tag = "6")]
    name: String,
    /// Like the addresses of clients: where nobody is one, the bytes are those that they were before.
    #[prost(bool, tag = "7")]
    metadata_server: bool,
}

impl MemberList {
    /// What is known of the replica of a slot.
    #[must_use]
    pub fn member(&self, slot: u16) -> Option<&Member> {
        self.members.iter().find(|member| member.slot == slot)
    }

    /// Whether the replica of a slot was invited as a witness.
    #[must_use]
    pub fn is_witness(&self, slot: u16) -> bool {
        self.member(slot).is_some_and(|member| member.witness)
    }

    /// Where the keeper of the authority listens, for people; nothing when it has no address.
    #[must_use]
    pub fn keeper_addresses(&self) -> String {
        let keeper = self.member(self.keeper);
        keeper.map_or_else(String::new, |keeper| keeper.addresses.join(", "))
    }

    /// Whether this list counts and the other one does not: the later term does; within a term, should two replicas
    /// have restored the authority at the same time, the larger slot; then the larger version.
    #[must_use]
    pub fn is_newer_than(&self, other: &MemberList) -> bool {
        let rank = |list: &MemberList| (list.term, list.keeper, list.version);
        rank(self) > rank(other)
    }

    /// Whether everything that cannot be taken back is said here too: who became a member, what each was invited as, who was removed,
    /// and which slots are used up. A list that does not cover what a member knows was signed by somebody who had not heard of it.
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

    /// Adds what [`MemberList::covers`] found missing. The signature does not fit any more.
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

    /// Replaces what is known of one member, or adds it. The signature does not fit any more.
    pub(super) fn put(&mut self, member: Member) {
        self.members.retain(|other| other.slot != member.slot);
        self.members.push(member);
        self.members.sort_by_key(|member| member.slot);
    }

    /// Another member than this one that the others reach at one of these addresses, and at which.
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

    /// Where a list is too long to be told, the addresses and names of those who were removed are left out, of as many as it takes. The signature
    /// does not fit any more.
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

    /// Why no authority signs such a list; nothing when it might. Bounds what is stored and passed on.
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
            // What is no Base64 is no signature either.
            signature: BASE64
                .decode(self.signature.as_bytes())
                .unwrap_or_default()
                .into(),
        }
    }

    /// The list as a joining server is given it.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.wire().encode_to_vec()
    }

    /// Reads what [`MemberList::encode`] wrote; nothing when it is none. Whether it is signed is another question.
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

/// Where a member that joins is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Where it listens for peers, `host:port`.
    pub addresses: Vec<String>,
    /// Where clients reach it, `host:port`; empty to have that be derived from where peers do.
    pub client_addresses: Vec<String>,
}

impl Places {
    /// Whether all of these can be addresses.
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

/// The same, of those for clients.
pub(super) fn are_client_addresses(addresses: &[String]) -> bool {
    addresses.len() <= CLIENT_ADDRESSES_MAX && are_addresses(addresses)
}

/// Whether this can be the name of a member: up to 32 letters, digits, hyphens, underscores and dots, of which the first is a letter.
/// So it is no number, which slots are called by, and needs no quoting anywhere.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(fits)
}

/// Whether these can be the addresses of a member, `host:port` each; that anybody listens there is not said.
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
