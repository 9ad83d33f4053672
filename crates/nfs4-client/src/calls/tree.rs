//! Names: finding, creating, removing and renaming objects.
//!
//! What must never enter: regular files, which are created by opening them.

use bytes::Bytes;
use nfs4::{ArgOp4, Attributes4, Component4, CreateType4, NfsFh4};

use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

impl Client {
    /// The handle of an export, by its path in the pseudo file system.
    pub async fn mount(&self, path: &str) -> Result<NfsFh4, Error> {
        self.walk_from(ops::putrootfh(), path).await
    }

    /// The handle of the object at `path` below a directory. Symbolic links are not followed.
    pub async fn walk(&self, directory: &NfsFh4, path: &str) -> Result<NfsFh4, Error> {
        self.walk_from(ops::putfh(directory), path).await
    }

    async fn walk_from(&self, start: ArgOp4, path: &str) -> Result<NfsFh4, Error> {
        let names = path.split('/').filter(|name| !name.is_empty());
        let mut request = vec![start];
        request.extend(names.map(ops::lookup));
        request.push(ops::getfh());
        let mut results = self.call(request).await?;
        Ok(take!(results, Getfh).object)
    }

    /// The handle of an entry of a directory.
    pub async fn lookup(
        &self,
        directory: &NfsFh4,
        name: impl Into<Component4>,
    ) -> Result<NfsFh4, Error> {
        let request = vec![ops::putfh(directory), ops::lookup(name), ops::getfh()];
        let mut results = self.call(request).await?;
        Ok(take!(results, Getfh).object)
    }

    /// Creates an object of any type but a regular file.
    pub async fn create(
        &self,
        directory: &NfsFh4,
        name: impl Into<Component4>,
        kind: CreateType4,
        attributes: &Attributes4,
    ) -> Result<NfsFh4, Error> {
        let attributes = attributes.encode(&Attributes4::KNOWN);
        let create = ops::create(kind, name, attributes);
        let mut results = self
            .call(vec![ops::putfh(directory), create, ops::getfh()])
            .await?;
        take!(results, Create);
        Ok(take!(results, Getfh).object)
    }

    /// Creates a directory with these permission bits.
    pub async fn create_directory(
        &self,
        directory: &NfsFh4,
        name: impl Into<Component4>,
        mode: u32,
    ) -> Result<NfsFh4, Error> {
        let attributes = Attributes4 {
            mode: Some(mode),
            ..Attributes4::default()
        };
        self.create(directory, name, CreateType4::Dir, &attributes)
            .await
    }

    /// Creates a symbolic link.
    pub async fn symlink(
        &self,
        directory: &NfsFh4,
        name: impl Into<Component4>,
        target: impl Into<Bytes>,
    ) -> Result<NfsFh4, Error> {
        let attributes = Attributes4 {
            mode: Some(0o777),
            ..Attributes4::default()
        };
        let kind = CreateType4::Lnk(target.into());
        self.create(directory, name, kind, &attributes).await
    }

    /// The text of a symbolic link.
    pub async fn readlink(&self, link: &NfsFh4) -> Result<Bytes, Error> {
        let mut results = self.call(vec![ops::putfh(link), ops::readlink()]).await?;
        Ok(take!(results, Readlink).link)
    }

    /// Removes an entry, a directory too if it is empty.
    pub async fn remove(
        &self,
        directory: &NfsFh4,
        name: impl Into<Component4>,
    ) -> Result<(), Error> {
        let mut results = self
            .call(vec![ops::putfh(directory), ops::remove(name)])
            .await?;
        take!(results, Remove);
        Ok(())
    }

    /// Moves an entry, and replaces an existing entry of that name and of the same kind.
    pub async fn rename(
        &self,
        from: &NfsFh4,
        old: impl Into<Component4>,
        to: &NfsFh4,
        new: impl Into<Component4>,
    ) -> Result<(), Error> {
        let request = vec![
            ops::putfh(from),
            ops::savefh(),
            ops::putfh(to),
            ops::rename(old, new),
        ];
        let mut results = self.call(request).await?;
        take!(results, Rename);
        Ok(())
    }

    /// Gives an object one more name.
    pub async fn link(
        &self,
        object: &NfsFh4,
        directory: &NfsFh4,
        name: impl Into<Component4>,
    ) -> Result<(), Error> {
        let request = vec![
            ops::putfh(object),
            ops::savefh(),
            ops::putfh(directory),
            ops::link(name),
        ];
        let mut results = self.call(request).await?;
        take!(results, Link);
        Ok(())
    }
}
