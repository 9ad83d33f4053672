//! Checks the attributes that clients want to set, and converts them for the file system boundary.

use nfs4::attributes::{ModeUmask4, Settime4};
use nfs4::{Attributes4, Bitmap4, Fattr4, NfsStat4, Nfstime4};
use vfs::{SetAttributes, SetTime, Timestamp, permission};

use super::{READABLE, SETTABLE, of_minor_version, owner};

/// Permission bits that a umask can remove.
const UMASK_BITS: u32 = 0o777;

/// Nanoseconds in a second; a time has fewer (RFC 8881, section 3.3.1).
const SECOND: u32 = 1_000_000_000;

/// The attributes of a new object, and the set of them. Applies `mode_umask`: there are no default ACLs, so the umask
/// always counts (RFC 8275, section 5).
///
/// # Errors
/// `ATTRNOTSUPP` for unsupported attributes, `INVAL` for read-only attributes and invalid values, `BADOWNER`, `BADXDR`.
pub(crate) fn to_set(
    attributes: &Fattr4,
    minor_version: u32,
) -> Result<(SetAttributes, Bitmap4), NfsStat4> {
    let mut values = decode(attributes, minor_version)?;
    if let Some(ModeUmask4 { mode, umask }) = values.mode_umask.take() {
        if values.mode.is_some() || umask & !UMASK_BITS != 0 {
            return Err(NfsStat4::Inval);
        }
        values.mode = Some(mode & !umask);
    }
    Ok((set_of(&values)?, attributes.attrmask))
}

/// The attributes to change on an existing object, and the set of them.
///
/// # Errors
/// Those of [`to_set`]; `INVAL` for `mode_umask` too, which is for new objects only
/// (RFC 8275, section 5).
pub(crate) fn to_change(
    attributes: &Fattr4,
    minor_version: u32,
) -> Result<(SetAttributes, Bitmap4), NfsStat4> {
    let values = decode(attributes, minor_version)?;
    if values.mode_umask.is_some() {
        return Err(NfsStat4::Inval);
    }
    Ok((set_of(&values)?, attributes.attrmask))
}

fn decode(attributes: &Fattr4, minor_version: u32) -> Result<Attributes4, NfsStat4> {
    let mask = &attributes.attrmask;
    if !mask.is_subset_of(&of_minor_version(READABLE | SETTABLE, minor_version)) {
        return Err(NfsStat4::AttrNotSupp);
    }
    if !mask.is_subset_of(&SETTABLE) {
        return Err(NfsStat4::Inval);
    }
    Attributes4::decode(attributes).map_err(|error| error.status())
}

fn set_of(values: &Attributes4) -> Result<SetAttributes, NfsStat4> {
    Ok(SetAttributes {
        mode: values.mode.map(check_mode).transpose()?,
        owner: values.owner.as_ref().map(owner::id_of).transpose()?,
        group: values.owner_group.as_ref().map(owner::id_of).transpose()?,
        size: values.size,
        accessed: values.time_access_set.map(set_time).transpose()?,
        modified: values.time_modify_set.map(set_time).transpose()?,
        created: values.time_create.map(timestamp).transpose()?,
    })
}

/// Refuses bits without a meaning in the protocol (RFC 8881, section 6.2.4).
pub(crate) fn check_mode(mode: u32) -> Result<u32, NfsStat4> {
    if mode & !permission::MODE_MASK == 0 {
        Ok(mode)
    } else {
        Err(NfsStat4::Inval)
    }
}

fn set_time(time: Settime4) -> Result<SetTime, NfsStat4> {
    match time {
        Settime4::ServerTime => Ok(SetTime::Now),
        Settime4::ClientTime(time) => timestamp(time).map(SetTime::To),
    }
}

fn timestamp(time: Nfstime4) -> Result<Timestamp, NfsStat4> {
    if time.nseconds >= SECOND {
        return Err(NfsStat4::Inval);
    }
    Ok(Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nseconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use nfs4::Attr;

    fn encoded(values: &Attributes4) -> Fattr4 {
        values.encode(&Attributes4::KNOWN)
    }

    fn with_mode(mode: u32) -> Attributes4 {
        Attributes4 {
            mode: Some(mode),
            ..Attributes4::default()
        }
    }

    #[test]
    fn everything_settable_arrives() {
        let time = Nfstime4 {
            seconds: -5,
            nseconds: 999_999_999,
        };
        let timestamp = Timestamp {
            seconds: -5,
            nanoseconds: 999_999_999,
        };
        let values = Attributes4 {
            size: Some(42),
            mode: Some(0o4755),
            owner: Some("1000".into()),
            owner_group: Some("100".into()),
            time_access_set: Some(Settime4::ServerTime),
            time_create: Some(time),
            time_modify_set: Some(Settime4::ClientTime(time)),
            ..Attributes4::default()
        };
        let (set, mask) = to_change(&encoded(&values), 2).unwrap();
        let expected = SetAttributes {
            mode: Some(0o4755),
            owner: Some(1000),
            group: Some(100),
            size: Some(42),
            accessed: Some(SetTime::Now),
            modified: Some(SetTime::To(timestamp)),
            created: Some(timestamp),
        };
        assert_eq!(set, expected);
        assert_eq!(mask, values.present());
        assert_eq!(to_set(&encoded(&values), 2), Ok((expected, mask)));
    }

    #[test]
    fn the_umask_takes_bits_from_new_objects_only() {
        let values = Attributes4 {
            mode_umask: Some(ModeUmask4 {
                mode: 0o2777,
                umask: 0o022,
            }),
            ..Attributes4::default()
        };
        let (set, mask) = to_set(&encoded(&values), 2).unwrap();
        assert_eq!(set.mode, Some(0o2755));
        assert_eq!(mask, Bitmap4::of(&[Attr::ModeUmask]));
        assert_eq!(to_change(&encoded(&values), 2), Err(NfsStat4::Inval));
        let both = Attributes4 {
            mode: Some(0),
            ..values
        };
        assert_eq!(to_set(&encoded(&both), 2), Err(NfsStat4::Inval));
    }

    #[test]
    fn modes_have_twelve_bits() {
        assert!(to_set(&encoded(&with_mode(0o7777)), 2).is_ok());
        assert_eq!(
            to_set(&encoded(&with_mode(0o10_000)), 2),
            Err(NfsStat4::Inval)
        );
        let values = Attributes4 {
            mode_umask: Some(ModeUmask4 {
                mode: 0o777,
                umask: 0o1000,
            }),
            ..Attributes4::default()
        };
        assert_eq!(to_set(&encoded(&values), 2), Err(NfsStat4::Inval));
    }

    #[test]
    fn seconds_have_fewer_than_a_billion_nanoseconds() {
        let time = Nfstime4 {
            seconds: 500_000_000,
            nseconds: SECOND,
        };
        let values = Attributes4 {
            time_modify_set: Some(Settime4::ClientTime(time)),
            ..Attributes4::default()
        };
        assert_eq!(to_change(&encoded(&values), 2), Err(NfsStat4::Inval));
    }

    #[test]
    fn read_only_and_unsupported_attributes_are_told_apart() {
        let read_only = Attributes4 {
            link_support: Some(true),
            ..Attributes4::default()
        };
        assert_eq!(to_set(&encoded(&read_only), 2), Err(NfsStat4::Inval));
        let mut unsupported = encoded(&with_mode(0o644));
        unsupported.attrmask.insert(Attr::Hidden);
        assert_eq!(to_set(&unsupported, 2), Err(NfsStat4::AttrNotSupp));
    }

    #[test]
    fn missing_and_surplus_bytes_are_malformed() {
        let whole = encoded(&with_mode(0o644));
        let missing = Fattr4 {
            attr_vals: Bytes::new(),
            ..whole.clone()
        };
        assert_eq!(to_change(&missing, 2), Err(NfsStat4::BadXdr));
        let surplus = Bytes::from([&whole.attr_vals[..], b"more"].concat());
        let surplus = Fattr4 {
            attr_vals: surplus,
            ..whole
        };
        assert_eq!(to_change(&surplus, 2), Err(NfsStat4::BadXdr));
    }
}
