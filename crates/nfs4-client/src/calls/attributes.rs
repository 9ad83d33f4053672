//! Attributes of objects, and access to them.

use nfs4::{Attr, Attributes4, Bitmap4, NfsFh4, Stateid4};

use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

/// The attributes that stat(2) shows, and the change number.
pub const STAT: Bitmap4 = Bitmap4::of(&[
    Attr::Type,
    Attr::Change,
    Attr::Size,
    Attr::Fsid,
    Attr::Fileid,
    Attr::Mode,
    Attr::Numlinks,
    Attr::Owner,
    Attr::OwnerGroup,
    Attr::Rawdev,
    Attr::SpaceUsed,
    Attr::TimeAccess,
    Attr::TimeMetadata,
    Attr::TimeModify,
    Attr::MountedOnFileid,
]);

/// The result of ACCESS, in bits of [`nfs4::access`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The bits asked for that the server can judge.
    pub supported: u32,
    /// The allowed bits among them.
    pub allowed: u32,
}

impl Client {
    /// These attributes of an object, as far as the server has them.
    pub async fn getattr(&self, object: &NfsFh4, wanted: Bitmap4) -> Result<Attributes4, Error> {
        let request = vec![ops::putfh(object), ops::getattr(wanted)];
        let mut results = self.call(request).await?;
        let encoded = take!(results, Getattr).obj_attributes;
        Ok(Attributes4::decode(&encoded)?)
    }

    /// What stat(2) would show of an object.
    pub async fn stat(&self, object: &NfsFh4) -> Result<Attributes4, Error> {
        self.getattr(object, STAT).await
    }

    /// Sets the attributes that are present, and returns the set ones. A new size needs the
    /// stateid of an open for writing, or [`Stateid4::ANONYMOUS`].
    pub async fn setattr(
        &self,
        object: &NfsFh4,
        stateid: Stateid4,
        attributes: &Attributes4,
    ) -> Result<Bitmap4, Error> {
        let attributes = attributes.encode(&Attributes4::KNOWN);
        let request = vec![ops::putfh(object), ops::setattr(stateid, attributes)];
        match self.call(request).await?.next_result() {
            Some(nfs4::ResOp4::Setattr(result)) => Ok(result.attrsset),
            _ => Err(Error::Unexpected("SETATTR")),
        }
    }

    /// The subset of `bits`, of [`nfs4::access`], that the caller is allowed.
    pub async fn access(&self, object: &NfsFh4, bits: u32) -> Result<Access, Error> {
        let request = vec![ops::putfh(object), ops::access(bits)];
        let mut results = self.call(request).await?;
        let answer = take!(results, Access);
        Ok(Access {
            supported: answer.supported,
            allowed: answer.access,
        })
    }
}
