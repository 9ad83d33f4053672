//! Converts attributes between the wire and the file system boundary: the attributes that clients see, and those that
//! they may set (RFC 8881, section 5).
//!
//! All decisions here follow from the arguments. Only the free space of a file system is queried, and only when a
//! client asks for it. What must never enter: decisions about operations, handles or permissions.

mod owner;
mod setting;
mod showing;

use nfs4::{Attr, Bitmap4, NfsStat4};

pub(crate) use setting::{check_mode, to_change, to_set};
pub(crate) use showing::{AttributeEncoder, of_absent, of_object, unreadable_entry};

/// The attributes that clients can read.
const READABLE: Bitmap4 = Bitmap4::of(&[
    Attr::SupportedAttrs,
    Attr::Type,
    Attr::FhExpireType,
    Attr::Change,
    Attr::Size,
    Attr::LinkSupport,
    Attr::SymlinkSupport,
    Attr::NamedAttr,
    Attr::Fsid,
    Attr::UniqueHandles,
    Attr::LeaseTime,
    Attr::RdattrError,
    Attr::Aclsupport,
    Attr::Cansettime,
    Attr::CaseInsensitive,
    Attr::CasePreserving,
    Attr::ChownRestricted,
    Attr::Filehandle,
    Attr::Fileid,
    Attr::FilesAvail,
    Attr::FilesFree,
    Attr::FilesTotal,
    Attr::FsLocations,
    Attr::Homogeneous,
    Attr::Maxfilesize,
    Attr::Maxlink,
    Attr::Maxname,
    Attr::Maxread,
    Attr::Maxwrite,
    Attr::Mode,
    Attr::NoTrunc,
    Attr::Numlinks,
    Attr::Owner,
    Attr::OwnerGroup,
    Attr::Rawdev,
    Attr::SpaceAvail,
    Attr::SpaceFree,
    Attr::SpaceTotal,
    Attr::SpaceUsed,
    Attr::TimeAccess,
    Attr::TimeCreate,
    Attr::TimeDelta,
    Attr::TimeMetadata,
    Attr::TimeModify,
    Attr::MountedOnFileid,
    Attr::FsLocationsInfo,
    Attr::SuppattrExclcreat,
    Attr::FsCharsetCap,
    Attr::ChangeAttrType,
    Attr::XattrSupport,
]);

/// Additional attributes of trees that are striped over data servers.
const OF_LAYOUTS: Bitmap4 =
    Bitmap4::of(&[Attr::FsLayoutType, Attr::LayoutBlksize, Attr::Mdsthreshold]);

/// The attributes of a tree that is not at this server (RFC 8881, section 11.4.1).
pub(crate) const OF_ABSENT_TREE: Bitmap4 = Bitmap4::of(&[
    Attr::FsLocations,
    Attr::FsLocationsInfo,
    Attr::Fsid,
    Attr::RdattrError,
    Attr::MountedOnFileid,
]);

/// The attributes that clients can set on a new or existing object. Even an exclusive create can set all of them on a
/// new object, because the verifier is stored separately.
const SETTABLE: Bitmap4 = Bitmap4::of(&[
    Attr::Size,
    Attr::Mode,
    Attr::Owner,
    Attr::OwnerGroup,
    Attr::TimeAccessSet,
    Attr::TimeCreate,
    Attr::TimeModifySet,
    Attr::ModeUmask,
]);

/// The attributes that can be set but not read (RFC 8881, section 5.5; RFC 8275, section 5).
const SET_ONLY: Bitmap4 = Bitmap4::of(&[Attr::TimeAccessSet, Attr::TimeModifySet, Attr::ModeUmask]);

/// The attributes of minor version 2 (RFC 7862, section 12.2) and its extensions.
const OF_MINOR_VERSION_2: Bitmap4 =
    Bitmap4::of(&[Attr::ChangeAttrType, Attr::ModeUmask, Attr::XattrSupport]);

/// Restricts a set of attributes to those of a minor version.
fn of_minor_version(attributes: Bitmap4, minor_version: u32) -> Bitmap4 {
    if minor_version < 2 {
        attributes - OF_MINOR_VERSION_2
    } else {
        attributes
    }
}

/// Checks the attributes of a GETATTR or READDIR. Unsupported attributes are not an error; they are left out of the
/// answer (RFC 8881, section 18.7.3).
///
/// # Errors
/// `INVAL` for attributes that can only be set (RFC 8881, section 5.5).
pub(crate) fn check_readable(request: &Bitmap4) -> Result<(), NfsStat4> {
    if request.intersects(&SET_ONLY) {
        Err(NfsStat4::Inval)
    } else {
        Ok(())
    }
}

/// Checks the attributes that a VERIFY or NVERIFY compares (RFC 8881, sections 18.15.4 and 18.31.4).
///
/// # Errors
/// `INVAL` for attributes that can only be set and for rdattr_error, `ATTRNOTSUPP` for unsupported ones.
pub(crate) fn check_comparable(compared: &Bitmap4, minor_version: u32) -> Result<(), NfsStat4> {
    if compared.intersects(&SET_ONLY) || compared.contains(Attr::RdattrError) {
        return Err(NfsStat4::Inval);
    }
    if compared.is_subset_of(&of_minor_version(READABLE, minor_version)) {
        Ok(())
    } else {
        Err(NfsStat4::AttrNotSupp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_only_attributes_are_settable_and_nothing_else() {
        assert!(SET_ONLY.is_subset_of(&SETTABLE));
        assert!(!SET_ONLY.intersects(&READABLE));
        assert!((SETTABLE - SET_ONLY).is_subset_of(&READABLE));
    }

    #[test]
    fn every_attribute_that_rfc_8881_requires_can_be_read() {
        // RFC 8881, section 5.6: numbers 0 to 11, filehandle, suppattr_exclcreat.
        let required = (0..=11).chain([19, 75]).collect::<Bitmap4>();
        assert!(required.is_subset_of(&READABLE));
    }

    #[test]
    fn asking_for_what_can_only_be_set_is_wrong() {
        let request = Bitmap4::of(&[Attr::Size, Attr::TimeAccessSet]);
        assert_eq!(check_readable(&request), Err(NfsStat4::Inval));
        assert_eq!(check_comparable(&request, 2), Err(NfsStat4::Inval));
        assert_eq!(
            check_readable(&Bitmap4::of(&[Attr::Acl, Attr::Size])),
            Ok(())
        );
    }

    #[test]
    fn comparing_needs_support_in_the_minor_version() {
        let xattr = Bitmap4::of(&[Attr::XattrSupport]);
        assert_eq!(check_comparable(&xattr, 2), Ok(()));
        assert_eq!(check_comparable(&xattr, 1), Err(NfsStat4::AttrNotSupp));
        let acl = Bitmap4::of(&[Attr::Acl]);
        assert_eq!(check_comparable(&acl, 2), Err(NfsStat4::AttrNotSupp));
        let error = Bitmap4::of(&[Attr::RdattrError]);
        assert_eq!(check_comparable(&error, 2), Err(NfsStat4::Inval));
    }
}
