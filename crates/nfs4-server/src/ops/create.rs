//! CREATE: creates any object except a regular file (RFC 8881, section 18.4).

use nfs4::{Attr, Bitmap4, CreateArgs, CreateResOk, CreateType4, NfsStat4};
use vfs::{Error, NewObject, ObjectKind, SetAttributes};
use xdr::Bytes;

use super::directory::{change_info, name, status_in_directory};
use crate::attributes::to_set;
use crate::compound::Compound;
use crate::handle::Handle;

/// The maximum size of a symbolic link's target in bytes, as in local file systems of Linux.
const TARGET_BYTES_MAX: usize = 4095;

pub(crate) async fn create(
    compound: &mut Compound<'_>,
    args: CreateArgs,
) -> Result<CreateResOk, NfsStat4> {
    let directory = compound.current_writable()?;
    let new = new_object(args.objtype)?;
    let name = name(args.objname)?;
    let (set, attrset) = meaningful(to_set(&args.createattrs, compound.minor_version)?, &new);
    let file_system = &directory.export.file_system;
    let who = compound.asking(&directory.who);
    let created = file_system.create(&who, directory.id, &name, new, &set);
    let (id, changed) = match created.await {
        Ok(created) => {
            let object = directory.at(created.attributes.id);
            compound.learn(&object, created.attributes);
            (object.id, created.directory)
        }
        // A repeated request gets the original answer; later operations find that the object is gone.
        Err(Error::Removed { object, directory }) => (object, directory),
        Err(error) => return Err(status_in_directory(error)),
    };
    compound.set_current(Handle::Object(directory.at(id)));
    Ok(CreateResOk {
        cinfo: change_info(changed),
        attrset,
    })
}

/// Removes attributes that the new object cannot have: a size, and the mode of a symbolic link. The reply shows that
/// they were not set.
fn meaningful(
    (mut set, mut attrset): (SetAttributes, Bitmap4),
    new: &NewObject,
) -> (SetAttributes, Bitmap4) {
    set.size = None;
    attrset.remove(Attr::Size);
    if matches!(new, NewObject::Symlink(_)) {
        set.mode = None;
        attrset.remove(Attr::Mode);
        attrset.remove(Attr::ModeUmask);
    }
    (set, attrset)
}

fn new_object(type_: CreateType4) -> Result<NewObject, NfsStat4> {
    let kind = match type_ {
        CreateType4::Lnk(target) => return symlink(target),
        CreateType4::Dir => ObjectKind::Directory,
        CreateType4::Sock => ObjectKind::Socket,
        CreateType4::Fifo => ObjectKind::Fifo,
        CreateType4::Blk(device) => ObjectKind::BlockDevice {
            major: device.specdata1,
            minor: device.specdata2,
        },
        CreateType4::Chr(device) => ObjectKind::CharacterDevice {
            major: device.specdata1,
            minor: device.specdata2,
        },
        CreateType4::Reg | CreateType4::AttrDir | CreateType4::NamedAttr => {
            return Err(NfsStat4::BadType);
        }
    };
    Ok(NewObject::Plain(kind))
}

fn symlink(target: Bytes) -> Result<NewObject, NfsStat4> {
    if target.is_empty() || target.contains(&0) {
        return Err(NfsStat4::Inval);
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(NfsStat4::NameTooLong);
    }
    Ok(NewObject::Symlink(target))
}
