//! The values of the attributes that are supported here, in one structure, and
//! the way between it and the encoded form [`Fattr4`].

use thiserror::Error;
use xdr::{DecodeError, Reader, Writer};

use crate::attributes::{
    Attr, ChangeAttrType4, FsLocations4, FsLocationsInfo4, LayoutTypes4, ModeUmask4, Settime4,
};
use crate::{
    Bitmap4, Fattr4, Fsid4, Mdsthreshold4, Mode4, NfsFh4, NfsFtype4, NfsStat4, Nfstime4, Specdata4,
    Utf8str,
};

/// Why encoded attributes cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AttributeError {
    /// An attribute is present that is unknown or not supported here, so that
    /// the values that follow it cannot be found.
    #[error("attribute {0} is not supported")]
    Unsupported(u32),
    /// The value of an attribute is malformed.
    #[error("the value of attribute {attr} is malformed: {cause}")]
    Malformed {
        /// Which.
        attr: Attr,
        /// The error.
        cause: DecodeError,
    },
    /// Bytes are left over after the last value.
    #[error("{0} bytes follow the last attribute")]
    Trailing(usize),
}

impl AttributeError {
    /// The status that a server answers (RFC 8881, sections 15.1.15.1 and 15.1.1.1).
    pub const fn status(&self) -> NfsStat4 {
        match self {
            AttributeError::Unsupported(_) => NfsStat4::AttrNotSupp,
            AttributeError::Malformed { .. } | AttributeError::Trailing(_) => NfsStat4::BadXdr,
        }
    }
}

/// Writes each attribute once: its field, its type and its number. They must be
/// in ascending order of numbers, because values are encoded in that order
/// (RFC 8881, section 3.3.7).
macro_rules! attributes {
    ($( $(#[$meta:meta])* $field:ident: $type:ty = $attr:ident, )*) => {
        /// Values of attributes; `None` for absent attributes.
        ///
        /// A server fills in the values that it knows and lets [`encode`](Self::encode) choose
        /// the requested ones; a client does the reverse. Attributes that can only
        /// be set, such as `time_access_set`, are fields too.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Attributes4 {
            $( $(#[$meta])* pub $field: Option<$type>, )*
        }

        impl Attributes4 {
            /// The attributes that have a field here.
            pub const KNOWN: Bitmap4 = Bitmap4::of(&[$( Attr::$attr, )*]);

            #[cfg(test)]
            const ORDER: &[Attr] = &[$( Attr::$attr, )*];

            /// The attributes that are present.
            pub fn present(&self) -> Bitmap4 {
                let mut present = Bitmap4::EMPTY;
                $( if self.$field.is_some() {
                    present.insert(Attr::$attr);
                } )*
                present
            }

            /// Appends the values of `mask` that are present, without mask and length, and returns their mask.
            pub fn write_values(&self, mask: &Bitmap4, w: &mut Writer) -> Bitmap4 {
                let mut written = Bitmap4::EMPTY;
                $( if let Some(value) = &self.$field
                    && mask.contains(Attr::$attr)
                {
                    w.write(value);
                    written.insert(Attr::$attr);
                } )*
                written
            }

            /// Consumes the values of `mask`, all of which have fields.
            fn read_values(mask: &Bitmap4, r: &mut Reader) -> Result<Self, AttributeError> {
                let mut values = Self::default();
                $( if mask.contains(Attr::$attr) {
                    let value = r.read::<$type>();
                    values.$field = Some(value.map_err(|cause| {
                        AttributeError::Malformed { attr: Attr::$attr, cause }
                    })?);
                } )*
                Ok(values)
            }
        }
    };
}

attributes! {
    /// The attributes that the object has.
    supported_attrs: Bitmap4 = SupportedAttrs,
    /// The type of the object.
    type_: NfsFtype4 = Type,
    /// How long handles are valid, bits of [`crate::attributes::fh_expire`].
    fh_expire_type: u32 = FhExpireType,
    /// A number that changes with the object.
    change: u64 = Change,
    /// Length in bytes.
    size: u64 = Size,
    /// Whether the file system has hard links.
    link_support: bool = LinkSupport,
    /// Whether the file system has symbolic links.
    symlink_support: bool = SymlinkSupport,
    /// Whether the object has named attributes.
    named_attr: bool = NamedAttr,
    /// The file system of the object.
    fsid: Fsid4 = Fsid,
    /// Whether different handles mean different objects.
    unique_handles: bool = UniqueHandles,
    /// Length of leases in seconds.
    lease_time: u32 = LeaseTime,
    /// Why READDIR could not read the attributes of the entry.
    rdattr_error: NfsStat4 = RdattrError,
    /// Supported kinds of entries, bits of [`crate::attributes::aclsupport`].
    aclsupport: u32 = Aclsupport,
    /// Whether times can be set.
    cansettime: bool = Cansettime,
    /// Whether names match regardless of case.
    case_insensitive: bool = CaseInsensitive,
    /// Whether the case of names is kept.
    case_preserving: bool = CasePreserving,
    /// Whether giving objects away is privileged.
    chown_restricted: bool = ChownRestricted,
    /// The handle of the object.
    filehandle: NfsFh4 = Filehandle,
    /// A number of the object, unique in its file system.
    fileid: u64 = Fileid,
    /// The number of objects that the caller can still create.
    files_avail: u64 = FilesAvail,
    /// The number of objects that can still be created.
    files_free: u64 = FilesFree,
    /// The maximum number of objects.
    files_total: u64 = FilesTotal,
    /// Other locations of the file system.
    fs_locations: Box<FsLocations4> = FsLocations,
    /// Whether all objects of the file system have the same attributes.
    homogeneous: bool = Homogeneous,
    /// Largest length of a file in bytes.
    maxfilesize: u64 = Maxfilesize,
    /// Largest number of links of an object.
    maxlink: u32 = Maxlink,
    /// Longest name in bytes.
    maxname: u32 = Maxname,
    /// Largest READ in bytes.
    maxread: u64 = Maxread,
    /// Largest WRITE in bytes.
    maxwrite: u64 = Maxwrite,
    /// Permission bits.
    mode: Mode4 = Mode,
    /// Whether over-long names are refused instead of cut.
    no_trunc: bool = NoTrunc,
    /// Number of hard links.
    numlinks: u32 = Numlinks,
    /// The owner: `user@domain`, or a number in decimal digits.
    owner: Utf8str = Owner,
    /// The group: `group@domain`, or a number in decimal digits.
    owner_group: Utf8str = OwnerGroup,
    /// Numbers of a device node.
    rawdev: Specdata4 = Rawdev,
    /// Bytes available to the caller.
    space_avail: u64 = SpaceAvail,
    /// Bytes free.
    space_free: u64 = SpaceFree,
    /// Bytes altogether.
    space_total: u64 = SpaceTotal,
    /// Bytes that the object takes.
    space_used: u64 = SpaceUsed,
    /// Last access.
    time_access: Nfstime4 = TimeAccess,
    /// Sets the last access.
    time_access_set: Settime4 = TimeAccessSet,
    /// Creation.
    time_create: Nfstime4 = TimeCreate,
    /// Resolution of times.
    time_delta: Nfstime4 = TimeDelta,
    /// Last change of attributes.
    time_metadata: Nfstime4 = TimeMetadata,
    /// Last change of data.
    time_modify: Nfstime4 = TimeModify,
    /// Sets the last change of data.
    time_modify_set: Settime4 = TimeModifySet,
    /// The number of the directory that a mount covers.
    mounted_on_fileid: u64 = MountedOnFileid,
    /// The kinds of layouts that the file system has.
    fs_layout_type: Box<LayoutTypes4> = FsLayoutType,
    /// The kinds of layouts that the file has.
    layout_type: Box<LayoutTypes4> = LayoutType,
    /// The preferred size of reads and writes by layouts, in bytes.
    layout_blksize: u32 = LayoutBlksize,
    /// The preferred alignment of these, in bytes.
    layout_alignment: u32 = LayoutAlignment,
    /// The locations of the file system, in detail.
    fs_locations_info: Box<FsLocationsInfo4> = FsLocationsInfo,
    /// The size from which on layouts are useful.
    mdsthreshold: Box<Mdsthreshold4> = Mdsthreshold,
    /// Attributes that EXCLUSIVE4_1 can set.
    suppattr_exclcreat: Bitmap4 = SuppattrExclcreat,
    /// The characters that names may have: bits of `fs_charset_cap4`.
    fs_charset_cap: u32 = FsCharsetCap,
    /// The way in which `change` grows.
    change_attr_type: ChangeAttrType4 = ChangeAttrType,
    /// Permission bits and umask of a new object.
    mode_umask: ModeUmask4 = ModeUmask,
    /// Whether the object can have extended attributes.
    xattr_support: bool = XattrSupport,
}

/// Space for the attributes that a client commonly asks for at once.
const COMMON_SIZE: usize = 256;

impl Attributes4 {
    /// Encodes the attributes of `mask` that are present. The mask of the result
    /// holds exactly these.
    pub fn encode(&self, mask: &Bitmap4) -> Fattr4 {
        let mut w = Writer::with_capacity(COMMON_SIZE);
        let attrmask = self.write_values(mask, &mut w);
        Fattr4 {
            attrmask,
            attr_vals: w.into_bytes(),
        }
    }

    /// Decodes attributes; all of them must have a field here.
    pub fn decode(attributes: &Fattr4) -> Result<Self, AttributeError> {
        if let Some(unknown) = (attributes.attrmask - Self::KNOWN).iter().next() {
            return Err(AttributeError::Unsupported(unknown));
        }
        let mut r = Reader::new(attributes.attr_vals.clone());
        let values = Self::read_values(&attributes.attrmask, &mut r)?;
        match r.remaining() {
            0 => Ok(values),
            left => Err(AttributeError::Trailing(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdr::Bytes;

    fn some() -> Attributes4 {
        Attributes4 {
            type_: Some(NfsFtype4::Reg),
            size: Some(0x1234),
            mode: Some(0o644),
            owner: Some("0".into()),
            ..Attributes4::default()
        }
    }

    #[test]
    fn attributes_are_listed_in_ascending_order() {
        assert!(Attributes4::ORDER.is_sorted());
        assert_eq!(Attributes4::KNOWN.len(), Attributes4::ORDER.len());
    }

    #[test]
    fn only_what_is_wanted_and_present_is_encoded() {
        let wanted = Bitmap4::of(&[Attr::Type, Attr::Size, Attr::Mode, Attr::Change]);
        let encoded = some().encode(&wanted);
        assert_eq!(
            encoded.attrmask,
            Bitmap4::of(&[Attr::Type, Attr::Size, Attr::Mode])
        );
        #[rustfmt::skip]
        let golden: &[u8] = &[
            0, 0, 0, 1,                         // NF4REG
            0, 0, 0, 0, 0, 0, 0x12, 0x34,       // size
            0, 0, 0x01, 0xa4,                   // mode
        ];
        assert_eq!(&encoded.attr_vals[..], golden);
        let decoded = Attributes4::decode(&encoded).unwrap();
        assert_eq!(
            decoded,
            Attributes4 {
                owner: None,
                ..some()
            }
        );
        assert_eq!(decoded.present(), encoded.attrmask);
    }

    #[test]
    fn an_unknown_attribute_is_told_from_malformed_ones() {
        let mut encoded = some().encode(&Attributes4::KNOWN);
        encoded.attrmask.insert(Attr::Acl);
        assert_eq!(
            Attributes4::decode(&encoded),
            Err(AttributeError::Unsupported(12))
        );
        encoded.attrmask.remove(Attr::Acl);
        encoded.attrmask.insert(200u32);
        let error = Attributes4::decode(&encoded).unwrap_err();
        assert_eq!(error, AttributeError::Unsupported(200));
        assert_eq!(error.status(), NfsStat4::AttrNotSupp);
    }

    #[test]
    fn truncated_and_surplus_values_are_malformed() {
        let whole = some().encode(&Attributes4::KNOWN);
        for end in 0..whole.attr_vals.len() {
            let cut = Fattr4 {
                attr_vals: whole.attr_vals.slice(..end),
                ..whole.clone()
            };
            let error = Attributes4::decode(&cut).unwrap_err();
            assert!(matches!(error, AttributeError::Malformed { .. }));
            assert_eq!(error.status(), NfsStat4::BadXdr);
        }
        let surplus = Bytes::from([&whole.attr_vals[..], &[0; 4]].concat());
        let error = Attributes4::decode(&Fattr4 {
            attr_vals: surplus,
            ..whole
        })
        .unwrap_err();
        assert_eq!(error, AttributeError::Trailing(4));
        assert_eq!(error.status(), NfsStat4::BadXdr);
    }
}
