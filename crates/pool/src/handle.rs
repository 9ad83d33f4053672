//! A client shows a handle to a data server: a capability for one file at that server, sealed by the file's home (rule 3).
//!
//! Its form never changes: version 1 (1), key number (4), home (2), issue number (8), object (8), placement (4), generation (8),
//! access (1), and 16 bytes of BLAKE3, keyed, over these and the number (2) of the data server.

use crate::keys::{HandleKey, HandleKeys};
use crate::message::ContentsId;
use crate::numbers::{
    DataServerNumber, Generation, HomeNumber, IssueNumber, KeyNumber, PlacementNumber,
};
use constant_time_eq::constant_time_eq_16;
use fields::{Fields, Malformed, Tag};
use std::fmt;
use vfs::ObjectId;

/// The length of a handle. A layout with one for each of [`crate::MAX_DATA_SERVERS`] data servers fits into a reply of 4096 bytes,
/// and a handle is at most 80 bytes long, as rule 3 allows.
pub const HANDLE_BYTES: usize = SEALED_BYTES + MAC_BYTES;

/// LAYOUTGET4resok (RFC 8881, section 18.43.2) around one nfsv4_1_file_layout4 (section 13.3) with a handle for each data server;
/// the other results of the COMPOUND have 256 bytes.
const _: () = {
    let around = 4 + 16 + 4 + (8 + 8 + 4) + (4 + 4) + (16 + 4 + 4 + 8 + 4);
    let handle = 4 + HANDLE_BYTES.next_multiple_of(4);
    assert!(HANDLE_BYTES <= 80 && around + crate::MAX_DATA_SERVERS * handle + 256 <= 4096);
};

const SEALED_BYTES: usize = 36;

const MAC_BYTES: usize = 16;

const VERSION: u8 = 1;

/// The rights of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Access {
    /// Reading.
    Read = 1,
    /// Reading and writing; clients read through layouts for writing, too.
    ReadWrite = 2,
    /// Reading and writing by the home itself, for clients without layouts. The home gets the reason of a failure, while
    /// clients are sent to the home. Never given to clients.
    Home = 3,
}

impl Tag for Access {
    const ALL: &'static [Self] = &[Access::Read, Access::ReadWrite, Access::Home];
    const UNKNOWN: Malformed = Malformed("what a handle is good for is unknown");

    fn number(self) -> u8 {
        self as u8
    }
}

/// The content of a handle with a valid seal. Whether it still counts depends on the issue number and the generation that the data server
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The home of the file.
    pub home: HomeNumber,
    /// The issue number under which the home gave it out.
    pub issue: IssueNumber,
    /// The file.
    pub object: ObjectId,
    /// The placement of its contents.
    pub placement: PlacementNumber,
    /// The generation of the placement.
    pub generation: Generation,
    /// The rights.
    pub access: Access,
}

/// A sealed capability, as a client gets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle([u8; HANDLE_BYTES]);

impl Handle {
    /// The bytes that a client sends.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; HANDLE_BYTES] {
        &self.0
    }
}

/// Without the seal: a handle in a log gives no rights.
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle(")?;
        self.0[..SEALED_BYTES]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Why a handle gives no right at all. Clients get the same error in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No home of a pool made these bytes.
    #[error("it is no handle of a pool: {0}")]
    Malformed(#[from] Malformed),
    /// The home is unknown here, or its key with that number does not count any more, or not yet.
    #[error("its key is not known here")]
    UnknownKey,
    /// It was forged, changed, or sealed for another data server.
    #[error("its seal is wrong")]
    WrongSeal,
    /// It is about contents of another home than the one that sealed it.
    #[error("its contents are none of its home's")]
    OtherHome,
}

impl Capability {
    /// The contents that it is about.
    #[must_use]
    pub fn contents(&self) -> ContentsId {
        ContentsId {
            object: self.object,
            placement: self.placement,
        }
    }

    /// Takes a capability out of a handle that a client showed the data server `server`. `keys` finds the keys of a home.
    ///
    /// # Errors
    /// When the home of the handle has not sealed exactly this for this data server with a key that still counts.
    pub fn open<'k>(
        handle: &[u8],
        server: DataServerNumber,
        keys: impl FnOnce(HomeNumber) -> Option<&'k HandleKeys>,
    ) -> Result<Capability, Refused> {
        let mut fields = Fields::new(handle);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of a handle is unknown").into());
        }
        let number = KeyNumber(fields.u32()?);
        let capability = Capability {
            home: HomeNumber(fields.u16()?),
            issue: IssueNumber(fields.u64()?),
            object: ObjectId::from_u64(fields.u64()?),
            placement: PlacementNumber(fields.u32()?),
            generation: Generation(fields.u64()?),
            access: Access::read(&mut fields)?,
        };
        let shown = fields.array::<MAC_BYTES>()?;
        fields.end()?;
        let key = keys(capability.home)
            .and_then(|keys| keys.find(number))
            .ok_or(Refused::UnknownKey)?;
        let expected = mac(key, &capability.sealed(number), server);
        if constant_time_eq_16(&shown, &expected) {
            Ok(capability)
        } else {
            Err(Refused::WrongSeal)
        }
    }

    /// The bytes that the seal covers.
    fn sealed(&self, key: KeyNumber) -> [u8; SEALED_BYTES] {
        let mut bytes = [0; SEALED_BYTES];
        bytes[0] = VERSION;
        bytes[1..5].copy_from_slice(&key.0.to_be_bytes());
        bytes[5..7].copy_from_slice(&self.home.0.to_be_bytes());
        bytes[7..15].copy_from_slice(&self.issue.0.to_be_bytes());
        bytes[15..23].copy_from_slice(&self.object.as_u64().to_be_bytes());
        bytes[23..27].copy_from_slice(&self.placement.0.to_be_bytes());
        bytes[27..35].copy_from_slice(&self.generation.0.to_be_bytes());
        bytes[35] = self.access.number();
        bytes
    }
}

impl HandleKey {
    /// Makes a handle for one data server.
    #[must_use]
    pub fn seal(&self, capability: &Capability, server: DataServerNumber) -> Handle {
        let sealed = capability.sealed(self.number());
        let mut handle = [0; HANDLE_BYTES];
        handle[..SEALED_BYTES].copy_from_slice(&sealed);
        handle[SEALED_BYTES..].copy_from_slice(&mac(self, &sealed, server));
        Handle(handle)
    }
}

fn mac(key: &HandleKey, sealed: &[u8; SEALED_BYTES], server: DataServerNumber) -> [u8; MAC_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(key.secret());
    hasher.update(sealed).update(&server.0.to_be_bytes());
    let mut mac = [0; MAC_BYTES];
    hasher.finalize_xof().fill(&mut mac);
    mac
}
