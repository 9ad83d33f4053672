//! The numbers of attributes: RFC 8881, section 5; RFC 7862, section 12;
//! RFC 8275; RFC 8276, section 8.2.

use xdr::xdr_enum;

xdr_enum! {
    /// Which attribute of an object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub named enum Attr {
        /// `supported_attrs`: which attributes the object has.
        SupportedAttrs = 0,
        /// `type`: what the object is.
        Type = 1,
        /// `fh_expire_type`: how long file handles are valid.
        FhExpireType = 2,
        /// `change`: a number that changes with the object.
        Change = 3,
        /// `size`: length in bytes.
        Size = 4,
        /// `link_support`: whether the file system has hard links.
        LinkSupport = 5,
        /// `symlink_support`: whether the file system has symbolic links.
        SymlinkSupport = 6,
        /// `named_attr`: whether the object has named attributes.
        NamedAttr = 7,
        /// `fsid`: the file system of the object.
        Fsid = 8,
        /// `unique_handles`: whether different handles mean different objects.
        UniqueHandles = 9,
        /// `lease_time`: length of leases in seconds.
        LeaseTime = 10,
        /// `rdattr_error`: why READDIR could not read an entry's attributes.
        RdattrError = 11,
        /// `acl`: access control list.
        Acl = 12,
        /// `aclsupport`: which kinds of access control entries are supported.
        Aclsupport = 13,
        /// `archive`: whether the file was archived.
        Archive = 14,
        /// `cansettime`: whether times can be set.
        Cansettime = 15,
        /// `case_insensitive`: whether names match regardless of case.
        CaseInsensitive = 16,
        /// `case_preserving`: whether the case of names is kept.
        CasePreserving = 17,
        /// `chown_restricted`: whether giving objects away is privileged.
        ChownRestricted = 18,
        /// `filehandle`: the handle of the object.
        Filehandle = 19,
        /// `fileid`: a number of the object, unique in its file system.
        Fileid = 20,
        /// `files_avail`: how many objects the caller can still create.
        FilesAvail = 21,
        /// `files_free`: how many objects can still be created.
        FilesFree = 22,
        /// `files_total`: how many objects there can be.
        FilesTotal = 23,
        /// `fs_locations`: where else the file system is served.
        FsLocations = 24,
        /// `hidden`: whether the object is hidden.
        Hidden = 25,
        /// `homogeneous`: whether all objects have the same attributes.
        Homogeneous = 26,
        /// `maxfilesize`: largest length of a file in bytes.
        Maxfilesize = 27,
        /// `maxlink`: largest number of links.
        Maxlink = 28,
        /// `maxname`: longest name in bytes.
        Maxname = 29,
        /// `maxread`: largest READ in bytes.
        Maxread = 30,
        /// `maxwrite`: largest WRITE in bytes.
        Maxwrite = 31,
        /// `mimetype`: media type of the content.
        Mimetype = 32,
        /// `mode`: permission bits.
        Mode = 33,
        /// `no_trunc`: whether over-long names are refused.
        NoTrunc = 34,
        /// `numlinks`: number of hard links.
        Numlinks = 35,
        /// `owner`: the owner's name.
        Owner = 36,
        /// `owner_group`: the group's name.
        OwnerGroup = 37,
        /// `quota_avail_hard`: bytes until the hard limit.
        QuotaAvailHard = 38,
        /// `quota_avail_soft`: bytes until warnings.
        QuotaAvailSoft = 39,
        /// `quota_used`: bytes counted against the quota.
        QuotaUsed = 40,
        /// `rawdev`: numbers of a device node.
        Rawdev = 41,
        /// `space_avail`: bytes available to the caller.
        SpaceAvail = 42,
        /// `space_free`: bytes free.
        SpaceFree = 43,
        /// `space_total`: bytes altogether.
        SpaceTotal = 44,
        /// `space_used`: bytes that the object takes.
        SpaceUsed = 45,
        /// `system`: whether the object belongs to the operating system.
        System = 46,
        /// `time_access`: last access.
        TimeAccess = 47,
        /// `time_access_set`: sets the last access.
        TimeAccessSet = 48,
        /// `time_backup`: last backup.
        TimeBackup = 49,
        /// `time_create`: creation.
        TimeCreate = 50,
        /// `time_delta`: resolution of times.
        TimeDelta = 51,
        /// `time_metadata`: last change of attributes.
        TimeMetadata = 52,
        /// `time_modify`: last change of data.
        TimeModify = 53,
        /// `time_modify_set`: sets the last change of data.
        TimeModifySet = 54,
        /// `mounted_on_fileid`: the number of the directory covered by a mount.
        MountedOnFileid = 55,
        /// `dir_notif_delay`: delay of notifications about a directory.
        DirNotifDelay = 56,
        /// `dirent_notif_delay`: delay of notifications about its entries.
        DirentNotifDelay = 57,
        /// `dacl`: discretionary access control list.
        Dacl = 58,
        /// `sacl`: audit access control list.
        Sacl = 59,
        /// `change_policy`: changes when the rules of the file system do.
        ChangePolicy = 60,
        /// `fs_status`: what kind of copy the file system is.
        FsStatus = 61,
        /// `fs_layout_types`: which layouts the file system has.
        FsLayoutType = 62,
        /// `layout_hint`: which layout a new file should have.
        LayoutHint = 63,
        /// `layout_types`: which layouts the file has.
        LayoutType = 64,
        /// `layout_blksize`: preferred block size of layouts.
        LayoutBlksize = 65,
        /// `layout_alignment`: preferred alignment of layouts.
        LayoutAlignment = 66,
        /// `fs_locations_info`: where else the file system is served, in detail.
        FsLocationsInfo = 67,
        /// `mdsthreshold`: when to use layouts.
        Mdsthreshold = 68,
        /// `retention_get`: how long the file is retained.
        RetentionGet = 69,
        /// `retention_set`: starts retention.
        RetentionSet = 70,
        /// `retentevt_get`: how long the file is retained after an event.
        RetentevtGet = 71,
        /// `retentevt_set`: starts retention after an event.
        RetentevtSet = 72,
        /// `retention_hold`: administrative holds.
        RetentionHold = 73,
        /// `mode_set_masked`: sets some permission bits.
        ModeSetMasked = 74,
        /// `suppattr_exclcreat`: attributes that EXCLUSIVE4_1 can set.
        SuppattrExclcreat = 75,
        /// `fs_charset_cap`: which characters names may have.
        FsCharsetCap = 76,
        /// `clone_blksize`: alignment that CLONE needs (RFC 7862).
        CloneBlksize = 77,
        /// `space_freed`: bytes freed by removing the object (RFC 7862).
        SpaceFreed = 78,
        /// `change_attr_type`: how `change` moves (RFC 7862).
        ChangeAttrType = 79,
        /// `sec_label`: security label (RFC 7862).
        SecLabel = 80,
        /// `mode_umask`: permission bits and umask of a new object (RFC 8275).
        ModeUmask = 81,
        /// `xattr_support`: whether the object can have extended attributes (RFC 8276).
        XattrSupport = 82,
    }
}
