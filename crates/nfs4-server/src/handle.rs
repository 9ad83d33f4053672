//! Filehandles: the names of objects that clients store, and what they refer to while a COMPOUND runs.
//!
//! A filehandle depends only on the tree and the object, so it means the same at every replica and after every restart.
//! It is not a capability: the export's rules are applied at each use.

use std::sync::Arc;

use bytes::Bytes;
use nfs4::{NfsFh4, NfsStat4};
use vfs::{Credentials, FsId, ObjectId};
use xdr::Writer;

use crate::namespace::Export;
use crate::places::Absent;
use crate::state::FileKey;

/// The first byte of every filehandle; another format gets another value.
const VERSION: u8 = 1;
const PSEUDO: u8 = 0;
const OBJECT: u8 = 1;

const PSEUDO_BYTES: usize = 2 + 8;
const OBJECT_BYTES: usize = 2 + 3 * 8;

/// The content of a filehandle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileHandle {
    /// A directory of the pseudo file system, by the hash of its path.
    Pseudo(u64),
    /// An object of an exported tree.
    Object(FsId, ObjectId),
}

impl FileHandle {
    /// Encodes: version, kind, then the numbers in network order.
    #[must_use]
    pub fn encode(&self) -> NfsFh4 {
        self.with_bytes(|bytes| NfsFh4(Bytes::copy_from_slice(bytes)))
    }

    /// Appends it as an [`NfsFh4`].
    pub(crate) fn write(&self, w: &mut Writer) {
        self.with_bytes(|bytes| w.opaque(bytes));
    }

    fn with_bytes<T>(&self, use_them: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = [VERSION; OBJECT_BYTES];
        match self {
            FileHandle::Pseudo(node) => {
                bytes[1] = PSEUDO;
                bytes[2..PSEUDO_BYTES].copy_from_slice(&node.to_be_bytes());
                use_them(&bytes[..PSEUDO_BYTES])
            }
            FileHandle::Object(fs_id, id) => {
                bytes[1] = OBJECT;
                bytes[2..10].copy_from_slice(&fs_id.major.to_be_bytes());
                bytes[10..18].copy_from_slice(&fs_id.minor.to_be_bytes());
                bytes[18..].copy_from_slice(&id.as_u64().to_be_bytes());
                use_them(&bytes)
            }
        }
    }

    /// Decodes a filehandle from a client. `None` for bytes that this server never issued.
    #[must_use]
    pub fn decode(handle: &NfsFh4) -> Option<FileHandle> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
        match handle.0.split_at_checked(2)? {
            ([VERSION, PSEUDO], rest) => Some(FileHandle::Pseudo(number(rest)?)),
            ([VERSION, OBJECT], rest) if rest.len() == 24 => {
                let fs_id = FsId {
                    major: number(&rest[..8])?,
                    minor: number(&rest[8..16])?,
                };
                Some(FileHandle::Object(
                    fs_id,
                    ObjectId::from_u64(number(&rest[16..])?),
                ))
            }
            _ => None,
        }
    }
}

/// The current or saved filehandle of a COMPOUND.
#[derive(Clone, Debug)]
pub(crate) enum Handle {
    /// A directory of the pseudo file system, by its index there.
    Pseudo(usize),
    /// An object of an exported tree.
    Object(ObjectHandle),
    /// A tree at other servers. It never gets a filehandle.
    Absent(Arc<Absent>),
}

/// An object, with the caller's identity under the export's rules.
#[derive(Clone, Debug)]
pub(crate) struct ObjectHandle {
    /// The export it was reached through.
    pub(crate) export: Arc<Export>,
    /// The object.
    pub(crate) id: ObjectId,
    /// The caller after squashing.
    pub(crate) who: Credentials,
    /// Whether the caller may only read.
    pub(crate) read_only: bool,
}

impl Handle {
    /// The filehandle of the object.
    ///
    /// # Errors
    /// `MOVED` for a tree that is not here.
    pub(crate) fn file_handle(&self, namespace: &crate::Namespace) -> Result<FileHandle, NfsStat4> {
        match self {
            Handle::Pseudo(node) => Ok(FileHandle::Pseudo(namespace.node(*node).id)),
            Handle::Object(object) => Ok(object.file_handle()),
            Handle::Absent(_) => Err(NfsStat4::Moved),
        }
    }
}

impl ObjectHandle {
    /// The same export and caller, another object.
    pub(crate) fn at(&self, id: ObjectId) -> ObjectHandle {
        ObjectHandle { id, ..self.clone() }
    }

    /// The filehandle of the object.
    pub(crate) fn file_handle(&self) -> FileHandle {
        FileHandle::Object(self.export.file_system.properties().fs_id, self.id)
    }

    /// The key in the state tables.
    pub(crate) fn key(&self) -> FileKey {
        FileKey {
            tree: self.export.index,
            object: self.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_survive_a_round_trip() {
        let fs_id = FsId {
            major: 7,
            minor: u64::MAX,
        };
        for handle in [
            FileHandle::Pseudo(0x0102_0304_0506_0708),
            FileHandle::Object(fs_id, ObjectId::from_u64(0x0001_0000_0000_0042)),
        ] {
            assert_eq!(FileHandle::decode(&handle.encode()), Some(handle));
        }
    }

    #[test]
    fn foreign_bytes_are_no_handle() {
        let valid = FileHandle::Pseudo(1).encode().0;
        for cut in 0..valid.len() {
            assert_eq!(FileHandle::decode(&NfsFh4(valid.slice(..cut))), None);
        }
        assert_eq!(
            FileHandle::decode(&NfsFh4(Bytes::from_static(&[2; 26]))),
            None
        );
        assert_eq!(
            FileHandle::decode(&NfsFh4(Bytes::from_static(&[1; 128]))),
            None
        );
    }
}
