//! Names: LOOKUP, CREATE, LINK, REMOVE, RENAME, READDIR, READLINK (RFC 8881,
//! section 18) as they travel.

use xdr::{Bytes, Decode, DecodeError, Encode, Reader, Rope, Writer, xdr_struct, xdr_union};

use crate::{Bitmap4, ChangeInfo4, Component4, Cookie4, Count4, Fattr4, Specdata4, Verifier4};

/// The longest target of a symbolic link that is decoded, in bytes. Far above
/// what file systems allow, so that these can refuse it.
pub const LINKTEXT_MAX: usize = 64 * 1024;

xdr_struct! {
    /// LOOKUP: goes to a name in the current directory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LookupArgs {
        /// The name.
        pub objname: Component4,
    }
}

xdr_struct! {
    /// CREATE: creates anything but a regular file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateArgs {
        /// The type of the new object.
        pub objtype: CreateType4,
        /// Its name in the current directory.
        pub objname: Component4,
        /// Its attributes.
        pub createattrs: Fattr4,
    }
}

xdr_union! {
    /// The type of object that CREATE creates, `createtype4`. The types that it cannot create
    /// are present too, because the answer to them is NFS4ERR_BADTYPE and not
    /// NFS4ERR_BADXDR (RFC 8881, section 18.4.3).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum CreateType4 {
        /// A regular file, which only OPEN can create.
        1 => Reg,
        /// A directory.
        2 => Dir,
        /// A block device.
        3 => Blk(Specdata4),
        /// A character device.
        4 => Chr(Specdata4),
        /// A symbolic link and its target.
        5 => Lnk(Bytes [<= LINKTEXT_MAX]),
        /// A socket.
        6 => Sock,
        /// A named pipe.
        7 => Fifo,
        /// A directory of named attributes, which only OPENATTR can create.
        8 => AttrDir,
        /// A named attribute, which only OPEN can create.
        9 => NamedAttr,
    }
}

xdr_struct! {
    /// The successful result of CREATE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CreateResOk {
        /// The change of the directory.
        pub cinfo: ChangeInfo4,
        /// The attributes that were set.
        pub attrset: Bitmap4,
    }
}

xdr_struct! {
    /// LINK: gives the saved object a name in the current directory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LinkArgs {
        /// The name.
        pub newname: Component4,
    }
}

xdr_struct! {
    /// The successful result of LINK.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LinkResOk {
        /// The change of the directory.
        pub cinfo: ChangeInfo4,
    }
}

xdr_struct! {
    /// REMOVE: removes a name from the current directory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RemoveArgs {
        /// The name.
        pub target: Component4,
    }
}

xdr_struct! {
    /// The successful result of REMOVE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RemoveResOk {
        /// The change of the directory.
        pub cinfo: ChangeInfo4,
    }
}

xdr_struct! {
    /// RENAME: moves a name from the saved directory to the current one.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RenameArgs {
        /// The name in the saved directory.
        pub oldname: Component4,
        /// The name in the current directory.
        pub newname: Component4,
    }
}

xdr_struct! {
    /// The successful result of RENAME.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RenameResOk {
        /// The change of the saved directory.
        pub source_cinfo: ChangeInfo4,
        /// The change of the current directory.
        pub target_cinfo: ChangeInfo4,
    }
}

xdr_struct! {
    /// The successful result of READLINK.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReadlinkResOk {
        /// The target of the symbolic link.
        pub link: Bytes [<= LINKTEXT_MAX],
    }
}

xdr_struct! {
    /// READDIR: lists part of the current directory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReaddirArgs {
        /// The place to continue; zero for the beginning.
        pub cookie: Cookie4,
        /// The verifier that came with the cookie.
        pub cookieverf: Verifier4,
        /// Wanted bytes of names and cookies: a hint.
        pub dircount: Count4,
        /// The maximum number of bytes of the whole [`ReaddirResOk`].
        pub maxcount: Count4,
        /// Attributes wanted of each entry.
        pub attr_request: Bitmap4,
    }
}

xdr_struct! {
    /// The successful result of READDIR.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReaddirResOk {
        /// The verifier to send with the cookies of the entries.
        pub cookieverf: Verifier4,
        /// The entries.
        pub reply: DirList4,
    }
}

impl ReaddirResOk {
    /// Bytes that the result takes on the wire before its entries: the verifier,
    /// the end of the list and `eof`. Counts against `maxcount`.
    pub const EMPTY_SIZE: usize = 8 + 4 + 4;
}

/// Part of a directory, `dirlist4`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirList4 {
    /// Entries, in the order of the server.
    pub entries: Vec<Entry4>,
    /// Later entries that a server has already encoded, see [`EntryWriter`]. None in a decoded list.
    pub encoded: Rope,
    /// True when no entries follow the last one here.
    pub eof: bool,
}

/// The most entries that are decoded from one reply.
const ENTRIES_MAX: usize = 1 << 20;

xdr_struct! {
    /// One name in a directory, `entry4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Entry4 {
        /// Where the next entry begins. Never 0, 1 or 2 (RFC 8881, section 18.23.3).
        pub cookie: Cookie4,
        /// The name.
        pub name: Component4,
        /// The attributes asked for.
        pub attrs: Fattr4,
    }
}

/// Encodes the entries of a list one after another, for a server that has many of them and needs
/// none as an [`Entry4`].
#[derive(Debug, Default)]
pub struct EntryWriter {
    writer: Writer,
}

impl EntryWriter {
    /// An empty list with space for `capacity` bytes, which grows as needed.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            writer: Writer::with_capacity(capacity),
        }
    }

    /// Adds an entry if it takes at most `space` bytes within a list. `attributes` writes the attributes, a [`Fattr4`].
    /// Returns its number of bytes.
    pub fn push(
        &mut self,
        space: usize,
        (cookie, name): (Cookie4, &[u8]),
        attributes: impl FnOnce(&mut Writer),
    ) -> Option<usize> {
        let before = self.writer.mark();
        self.writer.bool(true);
        self.writer.u64(cookie);
        self.writer.opaque(name);
        attributes(&mut self.writer);
        let size = self.writer.written_since(before);
        if size > space {
            self.writer.truncate_to(before);
            return None;
        }
        Some(size)
    }

    /// True when there are no entries.
    pub fn is_empty(&self) -> bool {
        self.writer.position() == 0
    }

    /// The entries, for [`DirList4::encoded`].
    pub fn finish(self) -> Rope {
        self.writer.finish()
    }
}

/// The entries are encoded as a linked list (RFC 4506, section 4.19).
impl Encode for DirList4 {
    fn encode(&self, w: &mut Writer) {
        for entry in &self.entries {
            w.bool(true);
            w.write(entry);
        }
        w.rope(&self.encoded);
        w.bool(false);
        w.bool(self.eof);
    }
}

impl Decode for DirList4 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut entries = Vec::new();
        while r.bool()? {
            if entries.len() == ENTRIES_MAX {
                return Err(DecodeError::TooLong {
                    length: ENTRIES_MAX + 1,
                    max: ENTRIES_MAX,
                });
            }
            entries.push(r.read()?);
        }
        Ok(Self {
            entries,
            encoded: Rope::default(),
            eof: r.bool()?,
        })
    }
}
