//! Extended attributes in the `user.` name space (RFC 8276).

use bytes::Bytes;
use vfs::permission::{READ, WRITE, allows};
use vfs::{
    Cookie, Credentials, DirectoryChange, Error, ObjectId, Result, XattrMode, XattrName, XattrPage,
};

use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::metadata::{Table, View};
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::requests::Begun;
use crate::rows::{Content, Effect, NameHash, ObjectRow, XattrRow, key};
use crate::space::{Demand, ROW_BYTES};

/// The largest value, as on Linux.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The limit for all attributes of one object together: names, values, and an overhead for each.
const MAX_TOTAL_BYTES: usize = 128 << 10;

/// A found attribute, and its key.
struct Found {
    key: [u8; 16],
    row: XattrRow,
}

impl OpenStore {
    /// [`vfs::FileSystem::xattr`].
    pub(crate) fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        self.check_xattr_access(who, id, &self.object(id)?, READ)?;
        let (found, _) = self.find_xattr(&self.metadata.view(), id, name)?;
        found.map(|found| found.row.value).ok_or(Error::NoXattr)
    }
}

impl Operation {
    /// [`vfs::FileSystem::set_xattr`].
    pub(crate) async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(Error::XattrTooLarge);
        }
        let space = Demand::Space(ROW_BYTES + value.len() as u64);
        let mutation = match self.begin_once(who, space).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return effect.change(),
        };
        let row = XattrRow {
            name: name.clone(),
            value,
        };
        let (change, ticket) = self.set_xattr_in(mutation, who, id, row, mode)?;
        self.settle(ticket).await?;
        Ok(change)
    }

    fn set_xattr_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        id: ObjectId,
        row: XattrRow,
        mode: XattrMode,
    ) -> Result<(DirectoryChange, Ticket)> {
        self.check_xattr_access(who, id, mutation.object(id)?, WRITE)?;
        let shape = Change::Object(mutation.touched(id)?);
        let (found, free) = self.find_xattr(&self.metadata.view(), id, &row.name)?;
        match (mode, &found) {
            (XattrMode::Create, Some(_)) => return Err(Error::Exists),
            (XattrMode::Replace, None) => return Err(Error::NoXattr),
            _ => {}
        }
        let previous = found.as_ref().map_or(0, |found| found.row.charge());
        let total = mutation.object(id)?.xattr_bytes as usize;
        let total = total.saturating_sub(previous).saturating_add(row.charge());
        if total > MAX_TOTAL_BYTES {
            return Err(Error::XattrTooLarge);
        }
        let key = found
            .map(|found| found.key)
            .or(free)
            .ok_or(Error::XattrTooLarge)?;
        mutation.put_of(id, Table::Xattrs, &key, &row.encode())?;
        mutation.object_mut(id)?.xattr_bytes = u32::try_from(total).unwrap_or(u32::MAX);
        let change = mutation.touch(id, Touch::Attributes)?;
        mutation.note_effect(who, Effect::Changed(change), Some(id))?;
        Ok((change, mutation.commit(&shape)?))
    }

    /// [`vfs::FileSystem::remove_xattr`].
    pub(crate) async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        let mutation = match self.begin_once(who, Demand::Removal).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return effect.change(),
        };
        let (change, ticket) = self.remove_xattr_in(mutation, who, id, name)?;
        self.settle(ticket).await?;
        Ok(change)
    }

    fn remove_xattr_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<(DirectoryChange, Ticket)> {
        self.check_xattr_access(who, id, mutation.object(id)?, WRITE)?;
        let shape = Change::Object(mutation.touched(id)?);
        let (found, _) = self.find_xattr(&self.metadata.view(), id, name)?;
        let found = found.ok_or(Error::NoXattr)?;
        mutation.remove_of(id, Table::Xattrs, &found.key)?;
        let row = mutation.object_mut(id)?;
        let charge = u32::try_from(found.row.charge()).unwrap_or(u32::MAX);
        row.xattr_bytes = row.xattr_bytes.saturating_sub(charge);
        let change = mutation.touch(id, Touch::Attributes)?;
        mutation.note_effect(who, Effect::Changed(change), Some(id))?;
        Ok((change, mutation.commit(&shape)?))
    }
}

impl OpenStore {
    /// [`vfs::FileSystem::xattrs`]. Cookies belong to names, like those of directory entries.
    pub(crate) fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        self.check_xattr_access(who, id, &self.object(id)?, READ)?;
        if cookie >= 1 << 63 {
            return Err(Error::BadCookie);
        }
        let (hash, index) = NameHash::from_cookie(Cookie(cookie));
        let view = self.metadata.view();
        let mut page = XattrPage {
            names: Vec::new(),
            cookie,
            end: true,
        };
        let mut bytes = 0;
        for found in view.scan(
            Table::Xattrs,
            &key::object(id),
            &key::xattr(id, hash, index),
        ) {
            let found = found?;
            let (_, hash, index) = key::parse_xattr(found.key())?;
            let here = hash.cookie(index).0;
            if here <= cookie {
                continue;
            }
            let name = XattrRow::decode(found.value())?.name;
            bytes += name.as_bytes().len() + 4;
            if bytes > max_bytes {
                page.end = false;
                break;
            }
            page.names.push(name);
            page.cookie = here;
        }
        if page.names.is_empty() && !page.end {
            return Err(Error::XattrTooLarge);
        }
        Ok(page)
    }

    /// As on Linux: only files and directories have such attributes, and only the owner of a sticky directory
    /// may change those of the directory itself.
    fn check_xattr_access(
        &self,
        who: &Credentials,
        id: ObjectId,
        row: &ObjectRow,
        wanted: u32,
    ) -> Result<()> {
        if !matches!(row.content, Content::File(_) | Content::Directory(_)) {
            return Err(Error::WrongKind);
        }
        let attributes = row.attributes(id);
        let sticky = row.is_directory() && row.mode & vfs::permission::STICKY != 0;
        if wanted == WRITE && sticky && !vfs::permission::is_owner(who, &attributes) {
            return Err(Error::NotPermitted);
        }
        if allows(who, &attributes, wanted) {
            Ok(())
        } else {
            Err(Error::AccessDenied)
        }
    }

    /// An attribute, and the key for a new one: the first free key with its hash.
    fn find_xattr(
        &self,
        view: &View<'_>,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<(Option<Found>, Option<[u8; 16]>)> {
        let hash = self.hash(name.as_bytes());
        let mut free = 0_u16;
        for row in view.scan(Table::Xattrs, &key::entry(id, hash), &[]) {
            let row = row?;
            let (_, _, index) = key::parse_xattr(row.key())?;
            let xattr = XattrRow::decode(row.value())?;
            if xattr.name == *name {
                let key = key::xattr(id, hash, index);
                return Ok((Some(Found { key, row: xattr }), None));
            }
            if u16::from(index) == free {
                free += 1;
            }
        }
        Ok((
            None,
            u8::try_from(free)
                .ok()
                .map(|index| key::xattr(id, hash, index)),
        ))
    }
}
