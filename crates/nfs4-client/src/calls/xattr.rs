//! Extended attributes (RFC 8276), in NFSv4.2. Names are without the prefix `user.` that Linux
//! shows.

use bytes::Bytes;
use nfs4::{
    ArgOp4, Component4, GetxattrArgs, ListxattrsArgs, NfsFh4, RemovexattrArgs, SetxattrArgs,
    SetxattrOption4,
};

use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

/// The number of bytes of names requested at once.
const NAMES_SIZE: u32 = 64 * 1024;

impl Client {
    /// The value of an extended attribute.
    pub async fn getxattr(
        &self,
        object: &NfsFh4,
        name: impl Into<Component4>,
    ) -> Result<Bytes, Error> {
        let get = ArgOp4::Getxattr(GetxattrArgs { name: name.into() });
        let mut results = self.call(vec![ops::putfh(object), get]).await?;
        Ok(take!(results, Getxattr).value)
    }

    /// Sets an extended attribute, or only creates or only replaces it.
    pub async fn setxattr(
        &self,
        object: &NfsFh4,
        name: impl Into<Component4>,
        value: impl Into<Bytes>,
        option: SetxattrOption4,
    ) -> Result<(), Error> {
        let set = ArgOp4::Setxattr(SetxattrArgs {
            option,
            key: name.into(),
            value: value.into(),
        });
        let mut results = self.call(vec![ops::putfh(object), set]).await?;
        take!(results, Setxattr);
        Ok(())
    }

    /// The names of all extended attributes, in as many requests as needed.
    pub async fn listxattrs(&self, object: &NfsFh4) -> Result<Vec<Component4>, Error> {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let list = ArgOp4::Listxattrs(ListxattrsArgs {
                cookie,
                maxcount: NAMES_SIZE,
            });
            let mut results = self.call(vec![ops::putfh(object), list]).await?;
            let part = take!(results, Listxattrs);
            if part.names.is_empty() && !part.eof {
                return Err(Error::Unexpected("LISTXATTRS"));
            }
            cookie = part.cookie;
            names.extend(part.names);
            if part.eof {
                return Ok(names);
            }
        }
    }

    /// Removes an extended attribute.
    pub async fn removexattr(
        &self,
        object: &NfsFh4,
        name: impl Into<Component4>,
    ) -> Result<(), Error> {
        let remove = ArgOp4::Removexattr(RemovexattrArgs { name: name.into() });
        let mut results = self.call(vec![ops::putfh(object), remove]).await?;
        take!(results, Removexattr);
        Ok(())
    }
}
