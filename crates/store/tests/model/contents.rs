//! Data, extended attributes and opens, in the model and in the store.

use std::collections::BTreeSet;

use bytes::Bytes;
use vfs::{AccessCheck, Error, Extent, FileSystem, Stability, XattrMode};

use super::pair::{Body, Outcome, Pair, name, xattr};
use crate::fixture::{READ, open_owner, root, with_size};

impl Pair {
    pub(super) async fn write(
        &mut self,
        at: usize,
        offset: u16,
        length: u16,
        byte: u8,
        touched: &mut BTreeSet<usize>,
    ) {
        let at = self.pick(at);
        let bytes = vec![byte; usize::from(length)];
        // Small stable writes take a different path, so both kinds have to be mixed.
        let stability = match byte % 2 {
            0 => Stability::Unstable,
            _ => Stability::File,
        };
        let id = self.nodes[at].id;
        let written = self
            .store
            .write_as(&root(), id, offset.into(), &bytes, stability)
            .await;
        assert_eq!(written, self.data(at).map(|_| ()));
        if let Body::File(data) = &mut self.nodes[at].body
            && length > 0
        {
            let end = usize::from(offset) + bytes.len();
            data.resize(data.len().max(end), 0);
            data[usize::from(offset)..end].copy_from_slice(&bytes);
            touched.insert(at);
        }
    }

    pub(super) async fn resize(&mut self, at: usize, size: u16, touched: &mut BTreeSet<usize>) {
        let at = self.pick(at);
        let resized = self
            .store
            .set(self.nodes[at].id, &with_size(size.into()))
            .await;
        let expected = match self.data(at) {
            Err(Error::IsSymlink) => Err(()),
            other => other.map(|_| ()).map_err(|_| ()),
        };
        assert_eq!(resized.map(|_| ()).map_err(|_| ()), expected);
        if let Body::File(data) = &mut self.nodes[at].body {
            data.resize(size.into(), 0);
            touched.insert(at);
        }
    }

    pub(super) async fn punch(
        &mut self,
        at: usize,
        offset: u16,
        length: u16,
        touched: &mut BTreeSet<usize>,
    ) {
        let at = self.pick(at);
        let extent = Extent {
            offset: offset.into(),
            length: length.into(),
        };
        let who = root();
        let access = AccessCheck::Credentials(&who);
        let punched = self
            .store
            .store()
            .deallocate(access, self.nodes[at].id, extent)
            .await;
        assert_eq!(punched, self.data(at).map(|_| ()));
        if let Body::File(data) = &mut self.nodes[at].body {
            let end = data.len().min(usize::from(offset) + usize::from(length));
            if let Some(hole) = data.get_mut(offset.into()..end) {
                hole.fill(0);
            }
            touched.insert(at);
        }
    }

    /// Whether an object can have extended attributes.
    pub(super) fn expect_xattrs(&self, at: usize) -> Outcome<()> {
        match self.nodes[at].body {
            Body::File(_) | Body::Directory { .. } => Ok(()),
            Body::Symlink => Err(Error::WrongKind),
            Body::Gone => Err(Error::Stale),
        }
    }

    pub(super) async fn set_xattr(
        &mut self,
        at: usize,
        number: u8,
        length: u8,
        touched: &mut BTreeSet<usize>,
    ) {
        let at = self.pick(at);
        let value = Bytes::from(vec![length; length.into()]);
        let who = root();
        let (id, key) = (self.nodes[at].id, xattr(number));
        let files = self.store.store();
        let set = files
            .set_xattr(&who, id, &key, value.clone(), XattrMode::Any)
            .await;
        assert_eq!(set.map(|_| ()), self.expect_xattrs(at));
        if self.expect_xattrs(at).is_ok() {
            self.nodes[at].xattrs.insert(name(number), value);
            touched.insert(at);
        }
    }

    pub(super) async fn remove_xattr(
        &mut self,
        at: usize,
        number: u8,
        touched: &mut BTreeSet<usize>,
    ) {
        let at = self.pick(at);
        let id = self.nodes[at].id;
        let removed = self
            .store
            .store()
            .remove_xattr(&root(), id, &xattr(number))
            .await;
        let expected = self.expect_xattrs(at).and_then(|()| {
            let had = self.nodes[at].xattrs.remove(&name(number)).is_some();
            if had { Ok(()) } else { Err(Error::NoXattr) }
        });
        assert_eq!(removed.map(|_| ()), expected);
        if expected.is_ok() {
            touched.insert(at);
        }
    }

    pub(super) async fn open(&mut self, at: usize) {
        let at = self.pick(at);
        let opened = self.store.open(self.nodes[at].id, "owner", READ).await;
        assert_eq!(opened.map(|_| ()), self.data(at).map(|_| ()));
        self.nodes[at].open |= self.data(at).is_ok();
    }

    pub(super) async fn close(&mut self, at: usize) {
        let at = self.pick(at);
        self.store
            .store()
            .close(self.nodes[at].id, &open_owner("owner"))
            .await
            .unwrap();
        let node = &mut self.nodes[at];
        if node.open && node.links == 0 {
            node.body = Body::Gone;
        }
        node.open = false;
    }

    pub(super) async fn reopen(&mut self, gracefully: bool) {
        if gracefully {
            self.store.reopen().await;
        } else {
            // Uncommitted data could be lost, and the model does not know how much of it.
            for node in &self.nodes {
                if let Body::File(_) = node.body {
                    self.store.store().commit(node.id, 0, 0).await.unwrap();
                }
            }
            self.store.crash();
        }
        self.store.store().end_reclaim().await.unwrap();
        for node in &mut self.nodes {
            node.open = false;
            if node.links == 0 {
                node.body = Body::Gone;
            }
        }
    }
}
