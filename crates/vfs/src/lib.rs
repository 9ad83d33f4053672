//! The boundary between the NFS service above and the storage of files below.
//!
//! [`FileSystem`] is what an NFS server needs of one exported tree: names, attributes, data, share
//! reservations and byte-range locks. A local store implements it. A replicated file system wraps a
//! store and implements it again, so the NFS service does not know whether replicas exist.
//!
//! What must never enter: wire types, sockets, disks, clocks, or anything that depends on NFS versions.
//! Every term here has one meaning; see `docs/glossary.md`.

mod attributes;
mod credentials;
mod directory;
mod error;
mod file_system;
mod holdings;
mod identity;
mod locks;
mod name;
pub mod permission;
mod request;
mod shown;

pub use attributes::{Attributes, ObjectKind, SetAttributes, SetTime, Timestamp};
pub use credentials::{Credentials, ROOT_ID};
pub use directory::{Cookie, DirectoryChange, DirectoryEntry, DirectoryPage};
pub use error::{Error, Result};
pub use file_system::{
    AbsentClients, AccessCheck, Commitment, Created, Creation, Extent, FileSystem, Forget,
    NewObject, OwnedAccessCheck, Properties, ReadData, SeekTarget, Space, Stability, WriteVerifier,
    Written, XattrMode, XattrPage,
};
pub use holdings::Holdings;
pub use identity::{ChangeAttribute, FsId, ObjectId, ReplicaSlot};
pub use locks::{ByteRange, LockConflict, LockKind, LockOwner, OpenOwner, Share};
pub use name::{MAX_NAME_BYTES, Name, NameError, XattrName};
pub use request::{RequestGroup, RequestId};
pub use shown::{Counted, ShownBytes, ShownText, is_visible};
