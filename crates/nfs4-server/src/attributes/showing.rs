//! The attributes of objects, encoded for GETATTR, READDIR and VERIFY.

use std::ops::Range;

use nfs4::attributes::{ChangeAttrType4, LayoutTypes4, fh_expire};
use nfs4::{
    Attr, Attributes4, Bitmap4, Fattr4, Fsid4, Mdsthreshold4, NfsFtype4, NfsStat4, Nfstime4,
    Specdata4, ThresholdItem4, layout_type, threshold,
};
use vfs::{Attributes, FsId, MAX_NAME_BYTES, ObjectId, ObjectKind, Space, Timestamp};
use xdr::{Bytes, Writer};

use super::{OF_LAYOUTS, READABLE, SETTABLE, of_minor_version, owner};
use crate::compound::Compound;
use crate::handle::FileHandle;
use crate::layouts::LayoutProperties;
use crate::namespace::{Export, ROOT_NODE};
use crate::ops::IO_BYTES_MAX;
use crate::places::{Absent, Whereabouts};
use crate::status::OrStatus;

/// Attributes about free and used space.
const OF_SPACE: Bitmap4 = Bitmap4::of(&[
    Attr::FilesAvail,
    Attr::FilesFree,
    Attr::FilesTotal,
    Attr::SpaceAvail,
    Attr::SpaceFree,
    Attr::SpaceTotal,
]);

/// Attributes about the location of a tree.
const OF_PLACES: Bitmap4 = Bitmap4::of(&[Attr::FsLocations, Attr::FsLocationsInfo]);

/// Names may hold any bytes (RFC 8881, section 14.4, `FSCHARSET_CAP4_CONTAINS_NON_UTF8`).
const CONTAINS_NON_UTF8: u32 = 1;

/// Times have a resolution of one nanosecond.
const TIME_DELTA: Nfstime4 = Nfstime4 {
    seconds: 0,
    nseconds: 1,
};

/// Space in the pseudo file system, which is read-only.
const NO_SPACE: Space = Space {
    total_bytes: 0,
    free_bytes: 0,
    available_bytes: 0,
    total_objects: 0,
    free_objects: 0,
};

/// The attributes of one object of an export, for a request that is served now.
///
/// # Errors
/// The error of the file system when it is asked for its space.
pub(crate) async fn of_object(
    compound: &Compound<'_>,
    export: &Export,
    object: &Attributes,
    request: &Bitmap4,
) -> Result<Fattr4, NfsStat4> {
    Ok(AttributeEncoder::for_export(compound, export, request)
        .await?
        .encode(object))
}

/// The READDIR entry for an object with unreadable attributes, if the client accepts that (RFC 8881, section 18.23.3):
/// the reason, and the directory with the number `mounted_on`.
pub(crate) fn unreadable_entry(status: NfsStat4, mounted_on: u64, request: &Bitmap4) -> Fattr4 {
    let values = Attributes4 {
        rdattr_error: Some(status),
        mounted_on_fileid: Some(mounted_on),
        ..Attributes4::default()
    };
    values.encode(request)
}

/// The attributes of a tree behind a junction: its location.
pub(crate) fn of_absent(junction: &Absent, request: &Bitmap4) -> Fattr4 {
    let places = Whereabouts::of_junction(junction);
    let FsId { major, minor } = junction.fs_id();
    let values = Attributes4 {
        fsid: Some(Fsid4 { major, minor }),
        rdattr_error: Some(NfsStat4::Moved),
        fs_locations: Some(places.fs_locations()),
        mounted_on_fileid: Some(junction.id),
        fs_locations_info: Some(places.fs_locations_info()),
        ..Attributes4::default()
    };
    values.encode(request)
}

/// Encodes the attributes of one request, for any number of objects of one tree. The request is analysed once; for each
/// object only the values that differ are encoded.
pub(crate) struct AttributeEncoder {
    /// The requested and supported attributes.
    mask: Bitmap4,
    /// How to encode the values, in the order of their numbers.
    pieces: Vec<Piece>,
    /// Encoded values that are the same for all objects of the tree.
    shared: Bytes,
    tree: Tree,
}

/// How objects of a tree are numbered.
enum Tree {
    Export {
        fs_id: FsId,
        /// The number of the directory that the root covers, if the name space contains one.
        covered: Option<u64>,
    },
    Pseudo,
}

/// Consecutive values.
enum Piece {
    /// Bytes of [`AttributeEncoder::shared`].
    Shared(Range<usize>),
    /// The individual value of each object.
    Own(WriteOwn),
}

/// Appends the value of one attribute of an object.
type WriteOwn = fn(&Tree, &Attributes, &mut Writer);

/// The attributes with individual values.
const OWN: &[(Attr, WriteOwn)] = &[
    (Attr::Type, |_, object, w| w.write(&type_of(object.kind))),
    (Attr::Change, |_, object, w| w.u64(object.change.0)),
    (Attr::Size, |_, object, w| w.u64(object.size)),
    (Attr::Filehandle, |tree, object, w| match tree {
        Tree::Export { fs_id, .. } => FileHandle::Object(*fs_id, object.id).write(w),
        Tree::Pseudo => FileHandle::Pseudo(object.id.as_u64()).write(w),
    }),
    (Attr::Fileid, |_, object, w| w.u64(object.id.as_u64())),
    (Attr::Mode, |_, object, w| w.u32(object.mode)),
    (Attr::Numlinks, |_, object, w| w.u32(object.links)),
    (Attr::Owner, |_, object, w| {
        owner::write_text_of(object.owner, w)
    }),
    (Attr::OwnerGroup, |_, object, w| {
        owner::write_text_of(object.group, w)
    }),
    (Attr::Rawdev, |_, object, w| {
        w.write(&device_of(object.kind))
    }),
    (Attr::SpaceUsed, |_, object, w| w.u64(object.space_used)),
    (Attr::TimeAccess, |_, object, w| {
        w.write(&time_of(object.accessed))
    }),
    (Attr::TimeCreate, |_, object, w| {
        w.write(&time_of(object.created))
    }),
    (Attr::TimeMetadata, |_, object, w| {
        w.write(&time_of(object.changed))
    }),
    (Attr::TimeModify, |_, object, w| {
        w.write(&time_of(object.modified))
    }),
    (Attr::MountedOnFileid, |tree, object, w| {
        w.u64(mounted_on(tree, object.id))
    }),
];

impl AttributeEncoder {
    /// For objects of an export.
    ///
    /// # Errors
    /// The error of the file system when it is asked for its space.
    pub(crate) async fn for_export(
        compound: &Compound<'_>,
        export: &Export,
        request: &Bitmap4,
    ) -> Result<AttributeEncoder, NfsStat4> {
        let file_system = &export.file_system;
        let space = if request.intersects(&OF_SPACE) {
            file_system.space().await.or_status()?
        } else {
            NO_SPACE
        };
        let properties = file_system.properties();
        let namespace = &compound.service.namespace;
        let minor_version = compound.minor_version;
        let places = request
            .intersects(&OF_PLACES)
            .then(|| Whereabouts::of_export(compound.service, export));
        let readable = match &export.layouts {
            Some(_) => READABLE | OF_LAYOUTS,
            None => READABLE,
        };
        let values = Attributes4 {
            supported_attrs: Some(of_minor_version(readable | SETTABLE, minor_version)),
            suppattr_exclcreat: Some(of_minor_version(SETTABLE, minor_version)),
            link_support: Some(true),
            symlink_support: Some(true),
            cansettime: Some(true),
            maxfilesize: Some(properties.max_file_size),
            maxlink: Some(properties.max_links),
            change_attr_type: Some(ChangeAttrType4::MonotonicIncr),
            xattr_support: Some(true),
            fs_locations: places.as_ref().map(Whereabouts::fs_locations),
            fs_locations_info: places.as_ref().map(Whereabouts::fs_locations_info),
            ..of_any_tree(properties.fs_id, &space, lease_seconds(compound))
        };
        let values = match &export.layouts {
            Some(layouts) => of_layouts(layouts.properties(), values),
            None => values,
        };
        let covered = (export.node != ROOT_NODE).then(|| namespace.node(export.node).id);
        let tree = Tree::Export {
            fs_id: properties.fs_id,
            covered,
        };
        let wanted = *request & of_minor_version(readable, minor_version);
        Ok(AttributeEncoder::new(wanted, &values, tree))
    }

    /// For a directory of the pseudo file system.
    pub(crate) fn for_pseudo(
        compound: &Compound<'_>,
        node: usize,
        request: &Bitmap4,
    ) -> AttributeEncoder {
        let fs_id = compound.service.namespace.pseudo_fs_id();
        let minor_version = compound.minor_version;
        let places = request
            .intersects(&OF_PLACES)
            .then(|| Whereabouts::of_pseudo(compound.service, node));
        let values = Attributes4 {
            supported_attrs: Some(of_minor_version(READABLE, minor_version)),
            suppattr_exclcreat: Some(Bitmap4::EMPTY),
            link_support: Some(false),
            symlink_support: Some(false),
            cansettime: Some(false),
            maxfilesize: Some(0),
            maxlink: Some(u32::MAX),
            // The value is a hash of the exports, so it does not grow.
            change_attr_type: Some(ChangeAttrType4::Undefined),
            xattr_support: Some(false),
            fs_locations: places.as_ref().map(Whereabouts::fs_locations),
            fs_locations_info: places.as_ref().map(Whereabouts::fs_locations_info),
            ..of_any_tree(fs_id, &NO_SPACE, lease_seconds(compound))
        };
        let wanted = *request & of_minor_version(READABLE, minor_version);
        AttributeEncoder::new(wanted, &values, Tree::Pseudo)
    }

    /// `shared` has the common values of all objects of the tree.
    fn new(wanted: Bitmap4, shared: &Attributes4, tree: Tree) -> AttributeEncoder {
        let mut encoder = AttributeEncoder {
            mask: Bitmap4::EMPTY,
            pieces: Vec::with_capacity(wanted.len()),
            shared: Bytes::new(),
            tree,
        };
        let mut w = Writer::new();
        for number in wanted.iter() {
            let own = OWN.iter().find(|(attr, _)| *attr as u32 == number);
            if let Some((_, write)) = own {
                encoder.mask.insert(number);
                encoder.pieces.push(Piece::Own(*write));
                continue;
            }
            let before = w.position();
            let mut alone = Bitmap4::EMPTY;
            alone.insert(number);
            encoder.mask = encoder.mask | shared.write_values(&alone, &mut w);
            match encoder.pieces.last_mut() {
                Some(Piece::Shared(bytes)) => bytes.end = w.position(),
                _ => encoder.pieces.push(Piece::Shared(before..w.position())),
            }
        }
        encoder.shared = w.into_bytes();
        encoder
    }

    /// The approximate size of the attributes of one object in bytes.
    pub(crate) fn estimated_bytes(&self) -> usize {
        const MASK_BYTES: usize = 16;
        const BYTES_AN_ATTRIBUTE: usize = 10;
        MASK_BYTES + BYTES_AN_ATTRIBUTE * self.mask.len()
    }

    /// The requested attributes that are supported.
    pub(crate) fn encode(&self, object: &Attributes) -> Fattr4 {
        let mut w = Writer::with_capacity(self.estimated_bytes());
        self.write_values(object, &mut w);
        Fattr4 {
            attrmask: self.mask,
            attr_vals: w.into_bytes(),
        }
    }

    /// Appends the result of [`encode`](Self::encode).
    pub(crate) fn write(&self, object: &Attributes, w: &mut Writer) {
        w.write(&self.mask);
        let length = w.mark();
        w.length(0);
        let values = w.mark();
        self.write_values(object, w);
        // The length of every value is a multiple of four, so there is no padding.
        w.patch_u32(length, w.written_since(values) as u32);
    }

    fn write_values(&self, object: &Attributes, w: &mut Writer) {
        for piece in &self.pieces {
            match piece {
                Piece::Shared(bytes) => w.opaque_fixed(&self.shared[bytes.clone()]),
                Piece::Own(write) => write(&self.tree, object, w),
            }
        }
    }
}

/// For a root, the number of the directory that it covers; for every other object its own number.
fn mounted_on(tree: &Tree, id: ObjectId) -> u64 {
    match tree {
        Tree::Export {
            covered: Some(covered),
            ..
        } if id == ObjectId::ROOT => *covered,
        _ => id.as_u64(),
    }
}

/// The values that all objects of a tree share, and almost all trees too.
fn of_any_tree(fs_id: FsId, space: &Space, lease_seconds: u32) -> Attributes4 {
    Attributes4 {
        fh_expire_type: Some(fh_expire::PERSISTENT),
        named_attr: Some(false),
        fsid: Some(Fsid4 {
            major: fs_id.major,
            minor: fs_id.minor,
        }),
        unique_handles: Some(true),
        lease_time: Some(lease_seconds),
        // A readable object has no error; see `unreadable_entry`.
        rdattr_error: Some(NfsStat4::Ok),
        aclsupport: Some(0),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        files_avail: Some(space.free_objects),
        files_free: Some(space.free_objects),
        files_total: Some(space.total_objects),
        homogeneous: Some(true),
        maxname: Some(MAX_NAME_BYTES as u32),
        maxread: Some(u64::from(IO_BYTES_MAX)),
        maxwrite: Some(u64::from(IO_BYTES_MAX)),
        no_trunc: Some(true),
        space_avail: Some(space.available_bytes),
        space_free: Some(space.free_bytes),
        space_total: Some(space.total_bytes),
        time_delta: Some(TIME_DELTA),
        fs_charset_cap: Some(CONTAINS_NON_UTF8),
        ..Attributes4::default()
    }
}

/// Adds the attributes of a tree with files that are striped over data servers (RFC 8881, section 5.12).
fn of_layouts(properties: LayoutProperties, values: Attributes4) -> Attributes4 {
    let hints = properties.threshold.map(|bytes| {
        let bytes = bytes.to_be_bytes();
        let files = ThresholdItem4 {
            layout_type: layout_type::NFSV4_1_FILES,
            hintset: [threshold::READ_SIZE, threshold::WRITE_SIZE]
                .into_iter()
                .collect(),
            hintlist: Bytes::from([bytes, bytes].concat()),
        };
        Box::new(Mdsthreshold4 { hints: vec![files] })
    });
    Attributes4 {
        fs_layout_type: Some(Box::new(LayoutTypes4(vec![layout_type::NFSV4_1_FILES]))),
        layout_blksize: Some(properties.stripe_unit),
        mdsthreshold: hints,
        ..values
    }
}

fn lease_seconds(compound: &Compound<'_>) -> u32 {
    let lease = compound.service.state().limits().lease;
    u32::try_from(lease.as_secs()).unwrap_or(u32::MAX)
}

fn type_of(kind: ObjectKind) -> NfsFtype4 {
    match kind {
        ObjectKind::File => NfsFtype4::Reg,
        ObjectKind::Directory => NfsFtype4::Dir,
        ObjectKind::Symlink => NfsFtype4::Lnk,
        ObjectKind::Fifo => NfsFtype4::Fifo,
        ObjectKind::Socket => NfsFtype4::Sock,
        ObjectKind::CharacterDevice { .. } => NfsFtype4::Chr,
        ObjectKind::BlockDevice { .. } => NfsFtype4::Blk,
    }
}

fn device_of(kind: ObjectKind) -> Specdata4 {
    match kind {
        ObjectKind::CharacterDevice { major, minor } | ObjectKind::BlockDevice { major, minor } => {
            Specdata4 {
                specdata1: major,
                specdata2: minor,
            }
        }
        _ => Specdata4::default(),
    }
}

fn time_of(time: Timestamp) -> Nfstime4 {
    Nfstime4 {
        seconds: time.seconds,
        nseconds: time.nanoseconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::ChangeAttribute;

    const FS_ID: FsId = FsId { major: 7, minor: 9 };

    fn object(id: u64, kind: ObjectKind) -> Attributes {
        Attributes {
            id: ObjectId::from_u64(id),
            kind,
            mode: 0o640,
            links: 3,
            owner: 1000,
            group: 100,
            size: 4321,
            space_used: 8192,
            change: ChangeAttribute(77),
            accessed: Timestamp {
                seconds: 1,
                nanoseconds: 2,
            },
            modified: Timestamp {
                seconds: 3,
                nanoseconds: 4,
            },
            changed: Timestamp {
                seconds: 5,
                nanoseconds: 6,
            },
            created: Timestamp {
                seconds: -7,
                nanoseconds: 8,
            },
        }
    }

    fn encoder(request: &Bitmap4, covered: Option<u64>, minor_version: u32) -> AttributeEncoder {
        let tree = Tree::Export {
            fs_id: FS_ID,
            covered,
        };
        AttributeEncoder::new(
            *request & of_minor_version(READABLE, minor_version),
            &of_any_tree(FS_ID, &NO_SPACE, 90),
            tree,
        )
    }

    fn shown(request: &[Attr], object: &Attributes) -> Attributes4 {
        let encoded = encoder(&Bitmap4::of(request), Some(55), 2).encode(object);
        Attributes4::decode(&encoded).unwrap()
    }

    #[test]
    fn what_the_object_has_is_shown() {
        let request = [
            Attr::Type,
            Attr::Change,
            Attr::Size,
            Attr::Fsid,
            Attr::Filehandle,
            Attr::Fileid,
            Attr::Mode,
            Attr::Numlinks,
            Attr::Owner,
            Attr::OwnerGroup,
            Attr::SpaceUsed,
            Attr::TimeCreate,
            Attr::TimeMetadata,
            Attr::MountedOnFileid,
        ];
        let file = object(0x42, ObjectKind::File);
        let expected = Attributes4 {
            type_: Some(NfsFtype4::Reg),
            change: Some(77),
            size: Some(4321),
            fsid: Some(Fsid4 { major: 7, minor: 9 }),
            filehandle: Some(FileHandle::Object(FS_ID, file.id).encode()),
            fileid: Some(0x42),
            mode: Some(0o640),
            numlinks: Some(3),
            owner: Some("1000".into()),
            owner_group: Some("100".into()),
            space_used: Some(8192),
            time_create: Some(Nfstime4 {
                seconds: -7,
                nseconds: 8,
            }),
            time_metadata: Some(Nfstime4 {
                seconds: 5,
                nseconds: 6,
            }),
            mounted_on_fileid: Some(0x42),
            ..Attributes4::default()
        };
        assert_eq!(shown(&request, &file), expected);
    }

    #[test]
    fn only_devices_have_numbers() {
        let device = object(5, ObjectKind::BlockDevice { major: 8, minor: 1 });
        let values = shown(&[Attr::Type, Attr::Rawdev], &device);
        assert_eq!(values.type_, Some(NfsFtype4::Blk));
        assert_eq!(
            values.rawdev,
            Some(Specdata4 {
                specdata1: 8,
                specdata2: 1
            })
        );
        let fifo = shown(&[Attr::Rawdev], &object(6, ObjectKind::Fifo));
        assert_eq!(fifo.rawdev, Some(Specdata4::default()));
    }

    #[test]
    fn the_root_of_an_export_names_the_directory_it_covers() {
        let root = object(ObjectId::ROOT.as_u64(), ObjectKind::Directory);
        let values = shown(&[Attr::Fileid, Attr::MountedOnFileid], &root);
        assert_eq!(
            (values.fileid, values.mounted_on_fileid),
            (Some(1), Some(55))
        );
        let request = Bitmap4::of(&[Attr::MountedOnFileid]);
        let encoded = encoder(&request, None, 2).encode(&root);
        assert_eq!(
            Attributes4::decode(&encoded).unwrap().mounted_on_fileid,
            Some(1)
        );
    }

    #[test]
    fn what_is_not_supported_is_left_out() {
        let request = Bitmap4::of(&[Attr::Acl, Attr::Size, Attr::ChangeAttrType]);
        let encoded = encoder(&request, None, 1).encode(&object(2, ObjectKind::File));
        assert_eq!(encoded.attrmask, Bitmap4::of(&[Attr::Size]));
    }

    #[test]
    fn every_attribute_has_one_value_and_all_are_in_order() {
        let file = object(6, ObjectKind::File);
        let encoder = encoder(&READABLE, Some(55), 2);
        let encoded = encoder.encode(&file);
        let values = Attributes4::decode(&encoded).unwrap();
        assert_eq!(values.present(), encoded.attrmask);
        assert_eq!(values.encode(&READABLE), encoded);
        let own: Bitmap4 = OWN.iter().map(|(attr, _)| *attr as u32).collect();
        assert!(own.is_subset_of(&encoded.attrmask));
        assert!(!of_any_tree(FS_ID, &NO_SPACE, 90).present().intersects(&own));
    }

    #[test]
    fn attributes_are_written_as_they_are_encoded() {
        for request in [READABLE, Bitmap4::EMPTY, Bitmap4::of(&[Attr::Owner])] {
            let encoder = encoder(&request, None, 2);
            let object = object(6, ObjectKind::File);
            let (mut written, mut encoded) = (Writer::new(), Writer::new());
            encoder.write(&object, &mut written);
            encoded.write(&encoder.encode(&object));
            assert_eq!(written.into_bytes(), encoded.into_bytes());
        }
    }

    #[test]
    fn an_unreadable_entry_tells_why() {
        let request = Bitmap4::of(&[Attr::RdattrError, Attr::MountedOnFileid, Attr::Size]);
        let entry = unreadable_entry(NfsStat4::WrongSec, 12, &request);
        let values = Attributes4::decode(&entry).unwrap();
        assert_eq!(values.rdattr_error, Some(NfsStat4::WrongSec));
        assert_eq!(values.mounted_on_fileid, Some(12));
        assert_eq!(values.size, None);
    }
}
